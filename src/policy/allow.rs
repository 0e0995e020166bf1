//! Allow-lists: what an operator has looked at and lets through.

use std::fmt;

use jiff::Timestamp;
use regex::bytes::Regex;
use sha2::Digest;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::policy::decision::CallerId;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;

/// One entry of an allow-list.
#[derive(Clone, Debug)]
pub struct Allowance {
    /// What is let through.
    pub subject: Subject,
    /// For which detectors; `None` for all.
    pub detectors: Option<DetectorSet>,
    /// From when on the entry counts no more.
    pub expires: Option<Timestamp>,
    /// Why, for whoever reads the policy next year.
    pub reason: String,
}

/// What an allow-list entry looks at.
#[derive(Clone)]
pub enum Subject {
    /// The matched value, kept as its SHA-256, so that a secret stays out of memory and of logs.
    Value([u8; 32]),
    /// The whole matched value, by a pattern that is anchored at both ends.
    Pattern(Regex),
    /// Whoever sent the request.
    Caller(CallerId),
}

impl Allowance {
    /// Tells whether a finding is let through at `now`.
    pub fn excuses(
        &self,
        detector: DetectorId,
        value: &[u8],
        caller: Option<&CallerId>,
        now: Timestamp,
    ) -> bool {
        let in_time = self.expires.is_none_or(|expires| now < expires);
        let in_scope = self.detectors.as_ref().is_none_or(|set| set.contains(detector));
        in_time && in_scope && self.subject.fits(value, caller)
    }
}

impl Subject {
    /// Returns the subject for one exact value.
    pub fn value(value: &[u8]) -> Self {
        Self::Value(Sha256::digest(value).into())
    }

    fn fits(&self, value: &[u8], caller: Option<&CallerId>) -> bool {
        match self {
            Self::Value(expected) => {
                let digest: [u8; 32] = Sha256::digest(value).into();
                digest.ct_eq(expected).into()
            }
            Self::Pattern(pattern) => pattern.is_match(value),
            Self::Caller(expected) => caller == Some(expected),
        }
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(_) => f.write_str("Value(***)"),
            Self::Pattern(_) => f.write_str("Pattern(***)"),
            Self::Caller(caller) => write!(f, "Caller({caller})"),
        }
    }
}
