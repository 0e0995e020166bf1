//! Whether a match counts where it stands, and how sure that is.

use super::Reading;
use crate::scan::confirm::Placed;
use crate::scan::detector::CONTEXT_BYTES;
use crate::scan::detector::Detector;
use crate::scan::detector::Voice;
use crate::scan::detector::behind_cut;
use crate::scan::threat::Confidence;

/// Returns the confidence of a match, or nothing if it may not stand where it stands.
pub(super) fn judge(
    detector: &Detector,
    text: &[u8],
    placed: &Placed,
    reading: &Reading<'_>,
) -> Option<Confidence> {
    let start = placed.span.start;
    let from = reading.context_start(start);
    // Of a view so little may be seen that what stands before it is told by where a stream was cut.
    let is_cut = from > start.saturating_sub(CONTEXT_BYTES);
    let may_stand = detector.edges.allow(text, &placed.span, from, |at| is_cut && at == from);
    may_stand.then(|| passes(detector, text, placed, reading))?
}

/// Returns the confidence of a match, or nothing if its value fails or its context is missing.
pub(super) fn passes(
    detector: &Detector,
    text: &[u8],
    placed: &Placed,
    reading: &Reading<'_>,
) -> Option<Confidence> {
    let value = text.get(placed.value.clone())?;
    if !detector.lets(value) {
        return None;
    }
    let Some(context) = &detector.context else { return Some(detector.confidence) };
    let before = behind_cut(text, reading.context_start(placed.span.start)..placed.span.start);
    match (context.voice(before), context.required()) {
        (Voice::For, _) => Some(detector.confidence.raised()),
        (Voice::Silent, false) => Some(detector.confidence),
        (Voice::Against, false) => Some(detector.confidence.min(Confidence::LOW)),
        (Voice::Silent | Voice::Against, true) => None,
    }
}
