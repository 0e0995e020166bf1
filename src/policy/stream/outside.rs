//! What an event says that is no JSON: its fields and comments, and payloads that are plain text.

use smallvec::SmallVec;

use super::Held;
use super::Stop;
use super::StreamInspector;
use crate::llm::dialect::Channel;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::text::Written;
use crate::redact::splice::Edit;
use crate::redact::token::Vault;

impl StreamInspector {
    /// Scans what an event says beside its payload: names, ids, comments.
    pub(super) fn scan_outside(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
    ) -> Result<(), Stop> {
        let raw = held.piece.raw.clone();
        let mut from = 0;
        let ends = held.piece.data.iter().map(|data| (data.start, data.end)).chain([(raw.len(), raw.len())]);
        for (start, next) in ends {
            let outside = raw.get(from..start).unwrap_or_default();
            if outside.len() > b"data: ".len() {
                let masks = self.scan_alone(inspector, vault, (&[], outside), Channel::Metadata)?;
                held.edits.extend(masks.into_iter().map(|masked| {
                    let range = masked.range.start + from..masked.range.end + from;
                    Edit { range, replacement: Written::Plain.write(&masked.text) }
                }));
            }
            from = next;
        }
        self.scan_remarks(inspector, vault, held)
    }

    /// Scans a payload that is plain text.
    pub(super) fn scan_plain(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
    ) -> Result<SmallVec<[usize; 2]>, Stop> {
        let payload = held.payload.clone();
        let masks = self.scan_alone(inspector, vault, (&[], &payload), Channel::Metadata)?;
        held.edits.extend(masks.into_iter().map(|masked| {
            let range = held.piece.raw_range(masked.range);
            Edit { range, replacement: Written::Plain.write(&masked.text) }
        }));
        held.is_read = true;
        Ok(SmallVec::new())
    }
}
