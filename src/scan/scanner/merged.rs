//! What several readings of a text show, told once.

use crate::scan::threat::Finding;

/// Joins findings of one detector that overlap and sorts by start and detector.
///
/// What several readings show is told once, by the plainest of them.
pub(in crate::scan) fn merged(mut found: Vec<Finding>) -> Vec<Finding> {
    if found.len() > 1 {
        found.sort_by(|one, other| {
            (one.detector, one.span.start, one.span.end).cmp(&(
                other.detector,
                other.span.start,
                other.span.end,
            ))
        });
        found.dedup_by(|next, kept| {
            let overlaps = next.detector == kept.detector && next.span.start < kept.span.end;
            if overlaps {
                join(kept, next);
            }
            overlaps
        });
        found.sort_by_key(|finding| (finding.span.start, finding.detector));
    }
    found
}

/// Makes one finding of two that overlap.
fn join(kept: &mut Finding, next: &Finding) {
    let steps = |finding: &Finding| (finding.decoded_from.0.len(), finding.decoded_from.clone());
    if steps(next) < steps(kept) {
        kept.decoded_from = next.decoded_from.clone();
    }
    kept.span.end = kept.span.end.max(next.span.end);
    kept.value = kept.value.start.min(next.value.start)..kept.value.end.max(next.value.end);
    kept.confidence = kept.confidence.max(next.confidence);
}
