//! Events that differ from one before in nothing but their text: most of a stream.
//!
//! An event that is the same, byte for byte, around a text of plain characters has the same structure, names, ids and
//! lane. What was read and found clean there once need not be read again: only the text is new.

use std::ops::Range;

use super::held::Held;
use super::held::Segment;
use crate::llm::json::JsonString;
use crate::llm::json::NodeId;

/// The longest event, its text aside, that is worth comparing with.
const FRAME_BYTES_MAX: usize = 4096;

/// An event that was read, without its text.
pub(super) struct Template {
    /// Its name: in a frame, the texts around do not tell which of them that is.
    event: Option<Box<str>>,
    before: Box<[u8]>,
    after: Box<[u8]>,
    /// The lane of its text, and the text's place in the document.
    slot: usize,
    node: NodeId,
}

impl Template {
    /// Returns the template of an event that was read whole and needs no edit of its own.
    pub(super) fn of(held: &Held) -> Option<Self> {
        let [segment] = held.segments.as_slice() else { return None };
        let [data] = held.piece.data.as_slice() else { return None };
        if segment.string.escaped
            || !held.piece.terminated
            || !held.edits.is_empty()
            || !held.copies.is_empty()
        {
            return None;
        }
        let string = &segment.string.raw;
        let before = held.piece.raw.get(..data.start + string.start)?;
        let after = held.piece.raw.get(data.start + string.end..)?;
        (before.len() + after.len() <= FRAME_BYTES_MAX).then(|| Self {
            event: held.piece.event.as_deref().map(Box::from),
            before: before.into(),
            after: after.into(),
            slot: segment.slot,
            node: segment.string.node,
        })
    }

    /// Returns the lane of its text.
    pub(super) fn slot(&self) -> usize {
        self.slot
    }

    /// Returns the lane and the text, as a string of its payload, of an event that has this form.
    pub(super) fn text(&self, held: &Held) -> Option<(usize, JsonString)> {
        let [data] = held.piece.data.as_slice() else { return None };
        let raw = &held.piece.raw;
        let end = raw.len().checked_sub(self.after.len()).filter(|end| *end >= self.before.len())?;
        let fits = raw.starts_with(&self.before) && raw.ends_with(&self.after) && held.piece.terminated;
        let fits = fits && self.event.as_deref() == held.piece.event.as_deref();
        let text = raw.get(self.before.len()..end).filter(|text| fits && is_plain(text))?;
        let start = self.before.len().checked_sub(data.start)?;
        let raw: Range<usize> = start..start + text.len();
        Some((self.slot, JsonString { raw, escaped: false, key: false, node: self.node }))
    }
}

impl Held {
    /// Notes the text of an event of a known form as the only thing in it.
    pub(super) fn holds_only(&mut self, slot: usize, from: usize, string: JsonString) {
        let text = from..from + string.raw.len();
        self.segments.push(Segment { slot, text, string });
        self.is_read = true;
    }
}

/// Tells whether bytes between quotes are a JSON string that means itself.
fn is_plain(text: &[u8]) -> bool {
    let plain = |byte: &u8| *byte >= 0x20 && !matches!(byte, b'"' | b'\\');
    text.iter().all(plain) && std::str::from_utf8(text).is_ok()
}
