//! Values that are made to be shown.

/// How values begin that are made to be shown, such as keys that stand in the pages of their owner, or that are encrypted:
/// they are no secret, by whatever name they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// What they begin with.
    pub begins: String,
    /// The fewest bytes they have.
    pub bytes_min: usize,
    /// Why they are no secret, in one sentence.
    pub why: String,
    /// Where that is said.
    pub references: Vec<String>,
}

impl Shown {
    /// Tells whether a value is one of these.
    pub fn is(&self, value: &[u8]) -> bool {
        value.len() >= self.bytes_min && value.starts_with(self.begins.as_bytes())
    }
}
