//! How a text that is read came from the source, step by step.

use std::ops::Range;

use crate::scan::detector::CONTEXT_BYTES;
use crate::scan::threat::Decoded;
use crate::scan::threat::Encoding;
use crate::scan::view::View;

/// How far before a match a context word of a decoded view may come from, in bytes of what was decoded.
///
/// Less than [`LOOKBACK_BYTES`](super::LOOKBACK_BYTES), so that a view that begins within an escape has found its feet again.
const CONTEXT_SOURCE_BYTES: usize = 768;

/// How a text that is read came from the source.
pub(super) struct Reading<'v> {
    outer: Option<Outer<'v>>,
    /// Where the text differs from the one it was made from, if all else in it was searched there.
    pub(super) changes: Option<Vec<Range<usize>>>,
    pub(super) decoded: Decoded,
}

/// The step from a view to the text it was made from.
#[derive(Clone, Copy)]
struct Outer<'v> {
    view: &'v View,
    /// Where the view's source begins in the text it was made from.
    base: usize,
    reading: &'v Reading<'v>,
}

impl<'v> Reading<'v> {
    /// Returns the reading of the text as it stands.
    pub(super) fn plain() -> Self {
        Self { outer: None, changes: None, decoded: Decoded::default() }
    }

    /// Returns the reading of a view that was made from a text of this reading.
    pub(super) fn viewed(&'v self, view: &'v View, base: usize, encoding: Encoding) -> Self {
        let mut decoded = self.decoded.clone();
        decoded.0.push(encoding);
        let changes = (encoding == Encoding::Canonical).then(|| view.changes());
        Self { outer: Some(Outer { view, base, reading: self }), changes, decoded }
    }

    /// Maps a range of the text that is read to the scanned text.
    pub(super) fn source(&self, range: Range<usize>) -> Range<usize> {
        match &self.outer {
            None => range,
            Some(outer) => {
                let inner = outer.view.source_range(range);
                outer.reading.source(inner.start + outer.base..inner.end + outer.base)
            }
        }
    }

    /// Returns where the context of a match at `start` begins.
    pub(super) fn context_start(&self, start: usize) -> usize {
        let nearest = start.saturating_sub(CONTEXT_BYTES);
        let Some(outer) = &self.outer else { return nearest };
        let origin = |at: usize| outer.view.source_range(at..at + 1).start;
        let earliest = origin(start).saturating_sub(CONTEXT_SOURCE_BYTES);
        nearest + leading(start - nearest, |at| origin(nearest + at) < earliest)
    }
}

/// Returns the first offset of a view whose byte comes from `source` or behind it.
pub(super) fn view_offset(view: &View, source: usize) -> usize {
    leading(view.bytes().len(), |at| view.source_range(at..at + 1).start < source)
}

/// Returns how many of the first of so many places are such; behind one that is not, none is.
fn leading(count: usize, is_such: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        match is_such(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}
