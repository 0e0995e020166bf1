//! What the first stage sees, and what the second looks at, asked for one detector or for each.

use crate::scan::confirm::Field;
use crate::scan::confirm::Work;
use crate::scan::threat::DetectorId;

use super::ScanFault;
use super::Scanner;

impl Scanner {
    /// Tells whether the first stage has a candidate of a detector in a text as it stands.
    ///
    /// # Errors
    /// The text could not be searched.
    pub(in crate::scan) fn has_candidate(&self, text: &[u8], id: DetectorId) -> Result<bool, ScanFault> {
        let is_of = |shape: u32| shape == u32::from(id.0);
        Ok(self.engine.scan(text, 0..text.len(), is_of, |runs| !runs.is_empty())?)
    }

    /// Returns how many bytes of a text the second stage of each detector looks at, as it stands; for measuring detectors.
    ///
    /// # Errors
    /// The text could not be judged; see [`ScanFault`].
    pub fn looked_at(&self, text: &[u8]) -> Result<Vec<(DetectorId, usize)>, ScanFault> {
        let (all, mut looked_at) = (self.all(), Vec::new());
        let field = Field { text, starts: 0..text.len(), words: None, changed: None };
        let sought = self.sought(text, &all)?;
        self.engine.scan(
            text,
            0..text.len(),
            |_| true,
            |runs| {
                self.by_detector(&field, runs, &sought, |at, field, runs| {
                    let Some(confirm) = self.confirms.get(at as usize) else { return Ok(()) };
                    let mut work = Work::for_text(text.len());
                    confirm.place(field, runs, &mut work, |_| true)?;
                    looked_at.push((DetectorId(at as u16), work.done(text.len())));
                    Ok(())
                })
            },
        )??;
        Ok(looked_at)
    }
}
