//! What can be wrong with a dialect file.

/// Something wrong with a dialect file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {problem}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct DialectFault {
    /// The file's name.
    pub file: String,
    /// The line, counted from 1.
    pub line: Option<usize>,
    /// What is wrong.
    pub problem: DialectProblem,
}

/// What can be wrong with a dialect file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DialectProblem {
    /// It is no TOML, or has keys or values that no dialect has.
    #[error("{reason}")]
    Malformed {
        /// What the reader says.
        reason: Box<str>,
    },
    /// A path pattern that cannot be read.
    #[error("path pattern must be keys, `[*]`, `[+]`, `*` and a last `**`, joined by dots")]
    PathPattern,
    /// A rule that gives no channel, in a dialect without roles.
    #[error("rule by role, but the dialect names no roles")]
    NoRoles,
    /// Streams of text, in a dialect that tells no channel for them.
    #[error("streams of text, but the dialect names no `plain_text`")]
    NoPlainText,
    /// No file is of the kind `generic`.
    #[error("no dialect of kind `generic`")]
    NoGeneric,
}

impl DialectFault {
    pub(super) fn without_generic() -> Self {
        Self { file: "generic.toml".into(), line: None, problem: DialectProblem::NoGeneric }
    }
}
