//! Context words as a pack writes them.

use serde::Deserialize;

use super::CONTEXT_WORDS_MAX;
use super::PackProblem;
use crate::scan::detector::ContextWords;

/// The words as they are written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContextFile {
    #[serde(default)]
    words: Vec<String>,
    #[serde(default)]
    against: Vec<String>,
    #[serde(default)]
    required: bool,
}

impl ContextFile {
    /// Returns what is wrong with how many there are.
    pub(super) fn problem(&self) -> Option<PackProblem> {
        let field = "context";
        match (self.words.len(), self.against.len()) {
            (0, 0) => Some(PackProblem::Empty { field }),
            (0, _) if self.required => Some(PackProblem::Empty { field }),
            (0..=CONTEXT_WORDS_MAX, 0..=CONTEXT_WORDS_MAX) => None,
            _ => Some(PackProblem::TooMuch { field }),
        }
    }

    /// Returns the words to look for.
    pub(super) fn words(&self) -> ContextWords {
        ContextWords::new(&self.words, self.required).against(&self.against)
    }
}
