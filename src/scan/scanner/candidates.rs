//! What the first stage sees, asked for one detector.

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
}
