//! Placeholder of branch policy: dropped at the merge with branch scan.

use std::str::FromStr;

use crate::scan::threat::Category;
use crate::scan::threat::Confidence;
use crate::scan::threat::Severity;
use crate::scan::threat::UnknownName;

/// How the value of a finding is masked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MaskKind {
    /// `[REDACTED:type]`.
    #[default]
    Label,
    /// Everything but the last four characters.
    KeepLast4,
    /// A keyed hash: equal values stay equal.
    Hash,
    /// A placeholder that can be turned back.
    Token,
}

impl FromStr for MaskKind {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "label" => Ok(Self::Label),
            "keep_last_4" => Ok(Self::KeepLast4),
            "hash" => Ok(Self::Hash),
            "token" => Ok(Self::Token),
            _ => Err(UnknownName { expected: "label, keep_last_4, hash, token" }),
        }
    }
}

/// One kind of thing that is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detector {
    /// Its type.
    pub name: String,
    /// What kind of harm it is about.
    pub category: Category,
    /// How bad a real finding is.
    pub severity: Severity,
    /// What a match is worth without its context.
    pub confidence: Confidence,
    /// What the value must pass.
    pub checks: Vec<String>,
    /// Words that raise the confidence.
    pub context: Option<()>,
}
