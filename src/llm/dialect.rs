//! Placeholder of branch policy: dropped at the merge with branch llm.

/// Placeholder.
pub struct Dialects;
