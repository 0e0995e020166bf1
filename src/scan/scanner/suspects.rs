//! Many short texts in one pass: which of them hold something at all.
//!
//! The strings of a body stand one after another with a break between them, a NUL or the quotes of their JSON.
//! What stands within a text and would be found in it alone is found here too, since both see the same bytes
//! beside it or a break. Where a match runs over a break, or a break stands where the byte beside it matters,
//! the text counts as suspect and is judged alone: by the detectors that suspect something, at the candidates that
//! this pass has of them. Where these are too many to be kept, it is searched anew.

use std::ops::Range;
use std::ops::RangeInclusive;

use crate::scan::confirm::Field;
use crate::scan::confirm::Placed;
use crate::scan::confirm::Work;
use crate::scan::detector::CONTEXT_BYTES;
use crate::scan::engine::EngineFault;
use crate::scan::engine::Run;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Finding;
use crate::scan::unwrapped::Unwrapped;

use super::Detector;
use super::Pass;
use super::Reading;
use super::ScanFault;
use super::Scanner;
use super::merged;
use super::passes;

/// What may stand between two texts.
const BREAKS: [u8; 2] = [0, b'"'];

/// How many detectors may suspect something in a text for their candidates to be kept.
///
/// More of them do where matches run over many breaks; asking each of them about each part would take longer than
/// searching the parts.
const DETECTORS_KEPT: usize = 64;

/// How many runs of candidates are kept: asked without the words that they need beside them, more take longer than a search.
const RUNS_KEPT: usize = 1024;

/// Where something may be found in a text of many parts.
#[derive(Debug)]
pub struct Suspects {
    /// Ascending and disjoint.
    stretches: Vec<RangeInclusive<usize>>,
    /// The detectors that suspect something, with all their candidates in the text; nothing where that is not known.
    candidates: Option<Vec<(u32, Vec<Run>)>>,
    /// How many candidates these are.
    runs: usize,
}

impl Suspects {
    /// Suspects all of a text of so many bytes.
    fn everywhere(bytes: usize) -> Self {
        Self { stretches: vec![0..=bytes], candidates: None, runs: 0 }
    }

    /// Tells whether something may be found in a part of the text.
    pub fn touch(&self, part: &Range<usize>) -> bool {
        let at = self.stretches.partition_point(|stretch| *stretch.end() <= part.start);
        self.stretches.get(at).is_some_and(|stretch| *stretch.start() <= part.end)
    }

    /// Notes that a detector suspects something.
    fn note(&mut self, detector: u32, runs: &[Run]) {
        self.runs += runs.len();
        match &mut self.candidates {
            Some(kept) if kept.len() < DETECTORS_KEPT && self.runs <= RUNS_KEPT => {
                kept.push((detector, runs.to_vec()));
            }
            full => *full = None,
        }
    }
}

impl Scanner {
    /// Returns where in a text something is found, or would be in a part of it.
    ///
    /// A part between two breaks (NULs or quotes) that these suspects do not touch, and that no view changes, has no
    /// finding. One call for a whole body spares a call for each of its strings. In a body that takes too much
    /// work, such as a vector of numbers, all of it is suspect: its strings are then judged one by one.
    ///
    /// # Errors
    /// The text could not be judged; see [`ScanFault`].
    pub fn suspects(&self, text: &[u8], wanted: &DetectorSet) -> Result<Suspects, ScanFault> {
        match self.search_parts(text, wanted) {
            Err(ScanFault::Engine(EngineFault::TooManyRuns { .. }) | ScanFault::Exhausted(_)) => {
                Ok(Suspects::everywhere(text.len()))
            }
            searched => searched,
        }
    }

    /// Finds what [`Scanner::search_plain`] finds in a part of a text alone, at the candidates of its suspects. The part
    /// stands between two breaks, and the suspects are of this text and for these `wanted` detectors. Returns nothing if
    /// the part must be searched after all: too many candidates to keep, or too much work to ask them.
    pub fn found_among(
        &self,
        suspects: &Suspects,
        text: &[u8],
        part: Range<usize>,
        wanted: &DetectorSet,
    ) -> Option<Vec<Finding>> {
        let (alone, candidates) = (text.get(part.clone())?, suspects.candidates.as_ref()?);
        let mut pass = Pass::new(self, wanted, alone.len());
        let field = Field { text: alone, starts: 0..alone.len(), words: None, changed: None };
        for (at, runs) in candidates {
            let within = runs_within(runs, &part);
            if !within.is_empty() {
                pass.place(alone, 0, &field, *at, &within, &Reading::plain()).ok()?;
            }
        }
        Some(merged(pass.found))
    }

    /// Adds what the `wanted` detectors see in the other readings of a text to `found`, which is what it has for them as
    /// it stands: together what [`Scanner::scan`] finds.
    ///
    /// # Errors
    /// The text could not be judged; see [`ScanFault`].
    pub fn scan_beyond(
        &self,
        unwrapped: &Unwrapped,
        wanted: &DetectorSet,
        found: Vec<Finding>,
    ) -> Result<Vec<Finding>, ScanFault> {
        let mut pass = Pass { found, ..Pass::new(self, wanted, unwrapped.bytes) };
        let (whole, plain) = (0..unwrapped.bytes, Reading::plain());
        if let Some(view) = &unwrapped.canonical {
            pass.read_canonical((view, 0), whole.clone(), &plain)?;
        }
        pass.read_runs(&unwrapped.runs, whole, &plain)?;
        Ok(merged(pass.found))
    }

    fn search_parts(&self, text: &[u8], wanted: &DetectorSet) -> Result<Suspects, ScanFault> {
        let mut work = Work::for_text(text.len());
        let field = Field { text, starts: 0..text.len(), words: None, changed: None };
        let reading = Reading::plain();
        let sought = self.sought(text, wanted)?;
        let mut suspects = Suspects { stretches: Vec::new(), candidates: Some(Vec::new()), runs: 0 };
        self.engine.scan(text, 0..text.len(), self.is_wanted(&sought.detectors), |runs| {
            self.by_detector(&field, runs, &sought, |at, field, runs| {
                let (Some(confirm), Some(detector)) =
                    (self.confirms.get(at as usize), self.detectors.get(at as usize))
                else {
                    return Ok(());
                };
                let known = suspects.stretches.len();
                confirm.place(field, runs, &mut work, |placed| {
                    let may_stand = may_stand(detector, text, &placed, &reading);
                    if may_stand {
                        suspects.stretches.push(placed.span.start + 1..=placed.span.end);
                    }
                    may_stand
                })?;
                if suspects.stretches.len() > known {
                    suspects.note(at, runs);
                }
                Ok(())
            })
        })??;
        join_stretches(&mut suspects.stretches);
        Ok(suspects)
    }
}

/// Returns what of a detector's runs in a text, in ascending order, ends within a part of it, in offsets of the part.
fn runs_within(runs: &[Run], part: &Range<usize>) -> Vec<Run> {
    let first = runs.partition_point(|run| run.last <= part.start);
    let within = runs.get(first..).unwrap_or_default().iter().take_while(|run| run.first <= part.end);
    let clipped = |run: &Run| Run {
        group: run.group,
        first: run.first.max(part.start + 1) - part.start,
        last: run.last.min(part.end) - part.start,
    };
    within.map(clipped).collect()
}

/// Tells whether a match would stand in a part of the text that begins and ends at breaks.
fn may_stand(detector: &Detector, text: &[u8], placed: &Placed, reading: &Reading<'_>) -> bool {
    let is_break = |byte: &u8| BREAKS.contains(byte);
    if text.get(placed.span.clone()).is_none_or(|span| span.iter().any(is_break)) {
        return true;
    }
    let Range { start, end } = placed.span;
    let to = text.get(end).map_or(end, |byte| end + usize::from(!is_break(byte)));
    let is_behind_break = |at: usize| at.checked_sub(1).and_then(|at| text.get(at)).is_some_and(is_break);
    let (seen, from) = (text.get(..to).unwrap_or_default(), start.saturating_sub(CONTEXT_BYTES));
    detector.edges.allow(seen, &placed.span, from, is_behind_break)
        && passes(detector, text, placed, reading).is_some()
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
                    let suspects = scanner.suspects(&joined, &all).unwrap();
                    for place in places {
                        let alone = scanner.search_plain(&joined[place.clone()], &all).unwrap();
                        let among = scanner.found_among(&suspects, &joined, place.clone(), &all);
                        prop_assert!(
                            alone.is_empty() || suspects.touch(&place),
                            "{:?} in {}",
                            alone.first().and_then(|it| scanner.detector(it.detector)).map(|it| &it.name),
                            String::from_utf8_lossy(&joined)
                        );
                        prop_assert_eq!(among.unwrap_or(alone.clone()), alone, "{:?}", place);
                    }
                    Ok(())
                })
                .unwrap();
        }
    }

    #[test]
    fn candidates_are_kept_as_long_as_they_are_few() {
        let scanner = Scanner::compile(pack::builtin().unwrap()).unwrap();
        let all = scanner.all();
        for (again, is_kept) in [(1, true), (RUNS_KEPT + 1, false)] {
            let text = "card 4111 1111 1111 1111, ".repeat(again).into_bytes();
            let suspects = scanner.suspects(&text, &all).unwrap();
            assert!(suspects.touch(&(0..text.len())));
            let among = scanner.found_among(&suspects, &text, 0..text.len(), &all);
            let alone = scanner.search_plain(&text, &all).unwrap();
            assert!(alone.len() >= again);
            assert_eq!(among, is_kept.then_some(alone));
        }
    }
}
