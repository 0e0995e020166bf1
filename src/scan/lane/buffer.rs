//! The text of a lane that is still needed, in offsets of the lane.

use std::ops::Range;

use crate::scan::scanner::LOOKBACK_BYTES;
use crate::scan::scanner::ScanFault;
use crate::scan::scanner::Scanner;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Finding;

/// Context is dropped once so much more of it is kept than is needed, in bytes.
pub(super) const SLACK_BYTES: usize = 2048;

/// The text that is still needed.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    pub bytes: Vec<u8>,
    /// The offset in the lane of the first byte.
    pub base: usize,
}

impl Buffer {
    pub(super) fn end(&self) -> usize {
        self.base + self.bytes.len()
    }

    /// Returns the bytes of a range of the lane; those that are gone are left out.
    pub(super) fn range(&self, range: Range<usize>) -> &[u8] {
        let offset = |at: usize| at.saturating_sub(self.base).min(self.bytes.len());
        self.bytes.get(offset(range.start)..offset(range.end)).unwrap_or_default()
    }

    /// Scans a region, with as much context before it as a scan may look at.
    pub(super) fn scan(
        &self,
        scanner: &Scanner,
        region: Range<usize>,
        wanted: &DetectorSet,
    ) -> Result<Vec<Finding>, ScanFault> {
        let from = region.start.saturating_sub(LOOKBACK_BYTES).max(self.base);
        let mut found = Vec::new();
        let region = region.start - from..region.end - from;
        scanner.scan_growing(self.range(from..self.end()), region, wanted, &mut found)?;
        for finding in &mut found {
            for range in [&mut finding.span, &mut finding.value] {
                *range = range.start + from..range.end + from;
            }
        }
        Ok(found)
    }

    /// Drops what lies before `needed`, once it is worth the copying.
    pub(super) fn trim(&mut self, needed: usize) {
        let gone = needed.saturating_sub(self.base).min(self.bytes.len());
        if gone >= SLACK_BYTES {
            self.bytes.drain(..gone);
            self.base += gone;
        }
    }

    /// Moves an offset back to the start of the UTF-8 character it is in.
    pub(super) fn character_start(&self, at: usize, finished: bool) -> usize {
        let behind = self.range(at..at + 1).first();
        if finished || at == self.end() || behind.is_none_or(|byte| *byte & 0xc0 != 0x80) {
            return at;
        }
        let lead = |back: &usize| {
            let byte = self.range(at - back..at - back + 1).first().copied().unwrap_or_default();
            byte >= 0xc0
        };
        (1..=3.min(at - self.base)).find(lead).map_or(at, |back| at - back)
    }
}
