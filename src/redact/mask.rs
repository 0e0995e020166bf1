//! See the module above.

use std::str::FromStr;

use crate::scan::threat::UnknownName;

/// How a matched value is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaskKind {
    /// `[REDACTED:type]`.
    Label,
    /// All but the last four characters.
    KeepLast4,
    /// A keyed hash.
    Hash,
    /// A reversible placeholder.
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
