//! Examples as a stream would bring them: in pieces, through lanes.

use std::cell::RefCell;

use crate::scan::hold::Watch;
use crate::scan::lane::Lane;
use crate::scan::scanner::Scanner;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Finding;

/// Replays texts; the watch of the detector in hand is kept.
#[derive(Default)]
pub struct Streamed {
    watched: RefCell<Option<(DetectorId, Watch)>>,
}

impl Streamed {
    /// Returns what one detector finds in a text that comes in two pieces, sorted like the findings of a block.
    pub fn findings(&self, scanner: &Scanner, id: DetectorId, text: &[u8], cut: usize) -> Vec<Finding> {
        let mut watched = self.watched.borrow_mut();
        let known = watched.take().filter(|(known, _)| *known == id);
        let (_, watch) = watched.insert(known.unwrap_or_else(|| {
            let alone: DetectorSet = [id].into_iter().collect();
            (id, Watch::compile(scanner.detectors(), &alone, &alone))
        }));
        replayed(scanner, watch, text, cut)
    }
}

/// Returns what the watched detectors find in a text that comes in two pieces, sorted like the findings of a block.
pub fn replayed(scanner: &Scanner, watch: &Watch, text: &[u8], cut: usize) -> Vec<Finding> {
    let (head, tail) = text.split_at(cut.min(text.len()));
    let mut lane = Lane::new();
    let mut found = Vec::new();
    // A lane that gives up has found nothing, which the proof then reports.
    for piece in [head, tail] {
        found.extend(lane.feed(scanner, watch, piece).map(|advance| advance.findings).unwrap_or_default());
    }
    found.extend(lane.finish(scanner, watch).map(|advance| advance.findings).unwrap_or_default());
    found.sort_by_key(|finding| (finding.span.start, finding.detector));
    found
}
