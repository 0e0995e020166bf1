//! Values that are made to be shown, as a pack writes them.

use serde::Deserialize;

use super::PackProblem;
use super::SHOWN_MAX;
use crate::scan::detector::Shown;

/// How long a beginning may be, in bytes: a shorter one stands before too much.
const BEGINNING_BYTES: std::ops::RangeInclusive<usize> = 3..=32;

/// A beginning as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShownFile {
    begins: String,
    #[serde(default)]
    bytes_min: usize,
    why: String,
    #[serde(default)]
    references: Vec<String>,
}

impl ShownFile {
    /// Returns what it means, behind `before` others.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(self, before: usize) -> Result<Shown, PackProblem> {
        let is_writable = self.begins.bytes().all(|byte| byte.is_ascii_graphic());
        if before >= SHOWN_MAX {
            Err(PackProblem::TooMuch { field: "shown" })
        } else if !BEGINNING_BYTES.contains(&self.begins.len()) || !is_writable {
            Err(PackProblem::Beginning)
        } else if self.why.trim().is_empty() {
            Err(PackProblem::Empty { field: "why" })
        } else {
            let ShownFile { begins, bytes_min, why, references } = self;
            Ok(Shown { begins, bytes_min, why, references })
        }
    }
}
