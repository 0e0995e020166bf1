//! Errors that belong to no module alone.

/// The text names no value of a setting.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected one of {expected}")]
pub struct UnknownSetting {
    /// The values that are known, separated by commas.
    pub expected: &'static str,
}
