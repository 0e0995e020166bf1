//! Many short texts in one pass: which of them hold something at all.
//!
//! The strings of a body stand one after another with a break between them, a NUL or the quotes of their JSON.
//! What stands within a text and would be found in it alone is found here too, since both see the same bytes
//! beside it or a break. Where a match runs over a break, or a break stands where the byte beside it matters,
//! the text counts as suspect and is judged alone.

use std::ops::Range;
use std::ops::RangeInclusive;

use crate::scan::confirm::Field;
use crate::scan::confirm::Placed;
use crate::scan::confirm::Work;
use crate::scan::engine::EngineFault;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Finding;

use super::Detector;
use super::Pass;
use super::Reading;
use super::ScanFault;
use super::Scanner;
use super::merged;
use super::passes;

/// What may stand between two texts.
const BREAKS: [u8; 2] = [0, b'"'];

impl Scanner {
    /// Appends to `out` the stretches of a text in which something is found, or would be in a part of it.
    ///
    /// A part between two breaks (NULs or quotes) that touches none of them, and that no view changes, has no
    /// finding. One call for a whole body spares a call for each of its strings. In a body that takes too much
    /// work, such as a vector of numbers, all of it is one such stretch: its strings are then judged one by one.
    /// The stretches are ascending and disjoint; ask them with [`touches`].
    ///
    /// # Errors
    /// The text could not be judged; see [`ScanFault`].
    pub fn suspects(
        &self,
        text: &[u8],
        wanted: &DetectorSet,
        out: &mut Vec<RangeInclusive<usize>>,
    ) -> Result<(), ScanFault> {
        match self.search_parts(text, wanted, out) {
            Err(ScanFault::Engine(EngineFault::TooManyRuns { .. }) | ScanFault::Exhausted(_)) => {
                out.push(0..=text.len());
            }
            searched => searched?,
        }
        join_stretches(out);
        Ok(())
    }

    /// Finds what the `wanted` detectors see in a text that has nothing for them as it stands, as [`Scanner::suspects`]
    /// tells: what [`Scanner::scan`] finds, without looking there again.
    ///
    /// # Errors
    /// The text could not be judged; see [`ScanFault`].
    pub fn scan_beyond(&self, text: &[u8], wanted: &DetectorSet) -> Result<Vec<Finding>, ScanFault> {
        let mut pass = Pass::new(self, wanted, text.len());
        pass.read_beyond(text, 0..text.len(), &Reading::plain())?;
        Ok(merged(pass.found))
    }

    fn search_parts(
        &self,
        text: &[u8],
        wanted: &DetectorSet,
        out: &mut Vec<RangeInclusive<usize>>,
    ) -> Result<(), ScanFault> {
        let mut work = Work::for_text(text.len());
        let field = Field { text, starts: 0..text.len(), words: None, changed: None };
        let reading = Reading::plain();
        let sought = self.sought(text, wanted)?;
        self.engine.scan(text, 0..text.len(), self.is_wanted(&sought.detectors), |runs| {
            self.by_detector(&field, runs, &sought, |at, field, runs| {
                let (Some(confirm), Some(detector)) =
                    (self.confirms.get(at as usize), self.detectors.get(at as usize))
                else {
                    return Ok(());
                };
                let placed = confirm.place(field, runs, &mut work, |placed| {
                    let may_stand = may_stand(detector, text, &placed, &reading);
                    if may_stand {
                        out.push(placed.span.start + 1..=placed.span.end);
                    }
                    may_stand
                });
                Ok(placed?)
            })
        })?
    }
}

/// Tells whether a match would stand in a part of the text that begins and ends at breaks.
fn may_stand(detector: &Detector, text: &[u8], placed: &Placed, reading: &Reading<'_>) -> bool {
    let is_break = |byte: &u8| BREAKS.contains(byte);
    if text.get(placed.span.clone()).is_none_or(|span| span.iter().any(is_break)) {
        return true;
    }
    let beside = |at: Option<usize>| at.and_then(|at| text.get(at)).copied().filter(|byte| !is_break(byte));
    let (before, behind) = (beside(placed.span.start.checked_sub(1)), beside(Some(placed.span.end)));
    detector.edges.allow_between(before, behind) && passes(detector, text, placed, reading).is_some()
}

/// Tells whether a part of a text touches one of the stretches that [`Scanner::suspects`] lists.
pub fn touches(stretches: &[RangeInclusive<usize>], part: &Range<usize>) -> bool {
    let at = stretches.partition_point(|stretch| *stretch.end() <= part.start);
    stretches.get(at).is_some_and(|stretch| *stretch.start() <= part.end)
}

/// Sorts stretches and joins those that overlap.
fn join_stretches(stretches: &mut Vec<RangeInclusive<usize>>) {
    stretches.sort_unstable_by_key(|stretch| *stretch.start());
    stretches.dedup_by(|next, kept| {
        let overlaps = next.start() <= kept.end();
        if overlaps {
            *kept = *kept.start()..=*kept.end().max(next.end());
        }
        overlaps
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scan::pack;
    use crate::scan::proof::PLACEHOLDER;
    use crate::scan::proof::valid_value;

    /// Every example of the shipped packs, the values made, and bits of text around.
    fn pieces(detectors: &[Detector]) -> Vec<Vec<u8>> {
        let mut pieces: Vec<Vec<u8>> =
            ["", " ", ".", "12", "-", "key=", "password: ", "tel: ", "@", "to ", "x", "\u{e9}"]
                .map(|piece| piece.as_bytes().to_vec())
                .to_vec();
        for detector in detectors {
            let examples = || detector.finds.iter().chain(&detector.ignores);
            let needed = examples().any(|written| written.contains(PLACEHOLDER));
            let value = needed.then(|| valid_value(detector, 7)).flatten().unwrap_or_default();
            for written in examples() {
                let parts: Vec<&[u8]> = written.split(PLACEHOLDER).map(str::as_bytes).collect();
                pieces.push(parts.join(value.as_slice()));
            }
        }
        pieces
    }

    #[test]
    fn what_is_found_in_a_text_alone_is_suspect_among_others() {
        let detectors = pack::builtin().unwrap();
        let pieces = pieces(&detectors);
        let scanner = Scanner::compile(detectors).unwrap();
        let all = scanner.all();
        let choice = (0..pieces.len(), 0..pieces.len(), any::<bool>());
        let config = proptest::test_runner::Config { cases: 12, ..Default::default() };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        let texts = proptest::collection::vec(choice, 1..12);
        for between in BREAKS {
            runner
                .run(&texts, |texts| {
                    let (mut joined, mut places) = (Vec::new(), Vec::new());
                    for (first, second, glued) in texts {
                        let start = joined.len();
                        joined.extend_from_slice(&pieces[first]);
                        if glued {
                            joined.extend_from_slice(&pieces[second]);
                        }
                        places.push(start..joined.len());
                        joined.push(between);
                    }
                    let mut suspects = Vec::new();
                    scanner.suspects(&joined, &all, &mut suspects).unwrap();
                    for place in places {
                        let alone = scanner.search_plain(&joined[place.clone()], &all).unwrap();
                        prop_assert!(
                            alone.is_empty() || touches(&suspects, &place),
                            "{:?} in {}",
                            alone.first().and_then(|it| scanner.detector(it.detector)).map(|it| &it.name),
                            String::from_utf8_lossy(&joined)
                        );
                    }
                    Ok(())
                })
                .unwrap();
        }
    }
}
