//! Where the words stand without which some detectors find nothing.
//!
//! Many numbers have the form of some country's identity number; only the words before them tell. One pass over
//! the text before candidates finds the words of all detectors that need some, so that candidates without them cost
//! nothing. What is found here is a necessary condition; whether a word speaks for a match is still for
//! [`ContextWords::found`] to say.
//!
//! [`ContextWords::found`]: crate::scan::detector::ContextWords::found

use std::collections::BTreeMap;
use std::ops::Range;

use crate::scan::detector::CONTEXT_BYTES;
use crate::scan::detector::ContextWords;
use crate::scan::detector::Detector;
use crate::scan::engine::DatabaseCache;
use crate::scan::engine::Engine;
use crate::scan::engine::EngineFault;
use crate::scan::engine::Run;
use crate::scan::shape::Shape;

/// Stretches this close to each other, in bytes, are searched as one: each search takes some time to begin.
const JOIN_BYTES: usize = 128;

/// How much behind the starts is searched too, in bytes: words stand right before them, and Hyperscan was seen to miss
/// matches in the last bytes of what it searches.
const BEHIND_BYTES: usize = 64;

/// The words of all detectors that need one.
pub struct WordIndex {
    engine: Engine,
    /// By shape: the detector whose word it is.
    owners: Vec<u32>,
    /// By detector: whether it needs a word.
    needy: Vec<bool>,
    /// The length of the longest word, in bytes.
    longest: usize,
}

/// Where words end in a text: of those of a detector that are so near each other that one of them stands before whatever
/// has another before it, the first and the last.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WordEnds(BTreeMap<u32, Vec<usize>>);

impl WordIndex {
    /// Compiles the words of detectors, which are named by their places in the list.
    ///
    /// # Errors
    /// The words do not compile.
    pub fn compile(detectors: &[Detector], cache: &dyn DatabaseCache) -> Result<Self, EngineFault> {
        let required = |detector: &Detector| detector.context.as_ref().is_some_and(ContextWords::required);
        let needy: Vec<bool> = detectors.iter().map(required).collect();
        let (mut shapes, mut owners) = (Vec::new(), Vec::new());
        for (at, detector) in detectors.iter().enumerate().filter(|(_, it)| required(it)) {
            for word in detector.context.iter().flat_map(ContextWords::words) {
                shapes.push(Shape::caseless(word));
                owners.push(at as u32);
            }
        }
        let words =
            detectors.iter().filter_map(|detector| detector.context.as_ref()).flat_map(ContextWords::words);
        let longest = words.map(<[u8]>::len).max().unwrap_or(0);
        let first = |faults: Vec<(Option<usize>, EngineFault)>| faults.into_iter().map(|(_, it)| it).next();
        match Engine::compile_cached(&shapes, cache).map_err(first) {
            Ok(engine) => Ok(Self { engine, owners, needy, longest }),
            Err(fault) => Err(fault.unwrap_or(EngineFault::TooLong)),
        }
    }

    /// Tells whether a detector finds nothing without one of its words.
    pub fn is_needy(&self, detector: u32) -> bool {
        self.needy.get(detector as usize).copied().unwrap_or(false)
    }

    /// Finds the words of the `wanted` detectors that are near enough before one of `starts` to speak for a match.
    ///
    /// What is found elsewhere may be missing.
    ///
    /// # Errors
    /// The text could not be searched.
    pub fn ends(
        &self,
        text: &[u8],
        starts: impl IntoIterator<Item = Range<usize>>,
        wanted: impl Fn(u32) -> bool,
    ) -> Result<WordEnds, EngineFault> {
        let owner = |shape: u32| self.owners.get(shape as usize).copied();
        let is_wanted = |shape: u32| owner(shape).is_some_and(&wanted);
        let mut ends: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for stretch in self.stretches(starts) {
            let from = stretch.start.min(text.len());
            let part = text.get(from..stretch.end.min(text.len())).unwrap_or_default();
            self.engine.scan(part, 0..part.len(), is_wanted, |runs| {
                for Run { group, first, last } in runs {
                    for detector in self.engine.shapes(*group).iter().filter_map(|shape| owner(*shape)) {
                        let ends = ends.entry(detector).or_default();
                        (from + first..=from + last).for_each(|end| note(ends, end));
                    }
                }
            })?;
        }
        for ends in ends.values_mut() {
            ends.sort_unstable();
            let sorted = std::mem::take(ends);
            sorted.into_iter().for_each(|end| note(ends, end));
        }
        Ok(WordEnds(ends))
    }

    /// Returns the stretches in which words stand that are near enough before `starts`: ascending and disjoint.
    fn stretches(&self, starts: impl IntoIterator<Item = Range<usize>>) -> Vec<Range<usize>> {
        let before = CONTEXT_BYTES + self.longest;
        let mut stretches: Vec<Range<usize>> = Vec::new();
        // Most come in the order of the text: joined at once, few are left to sort.
        for range in starts {
            let next = range.start.saturating_sub(before)..range.end.saturating_add(BEHIND_BYTES);
            match stretches.last_mut() {
                Some(last) if last.start <= next.start && are_near(last, &next) => {
                    last.end = last.end.max(next.end);
                }
                _ => stretches.push(next),
            }
        }
        stretches.sort_unstable_by_key(|range| range.start);
        stretches.dedup_by(|next, kept| {
            let is_near = are_near(kept, next);
            if is_near {
                kept.end = kept.end.max(next.end);
            }
            is_near
        });
        stretches
    }
}

/// Tells whether a stretch begins so near behind the end of another that both are searched as one.
fn are_near(one: &Range<usize>, next: &Range<usize>) -> bool {
    next.start <= one.end.saturating_add(JOIN_BYTES)
}

/// Notes where a word ends. One between two that are no farther apart than words are looked for is not needed: whatever has
/// that before it has one of the two.
fn note(ends: &mut Vec<usize>, end: usize) {
    match ends.as_mut_slice() {
        [.., one, last] if *one <= *last && *last <= end && end - *one <= CONTEXT_BYTES => *last = end,
        _ => ends.push(end),
    }
}

impl WordEnds {
    /// Returns where the words of a detector end, in ascending order.
    pub fn of(&self, detector: u32) -> &[usize] {
        self.0.get(&detector).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::engine::NoCache;
    use crate::scan::fixture;
    use crate::scan::pack;

    fn whole(text: &[u8]) -> Option<Range<usize>> {
        Some(0..text.len())
    }

    #[test]
    fn words_are_found_whatever_their_case() {
        let needing = |words: &[&str], required: bool| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Detector {
                context: Some(ContextWords::new(&words, required)),
                ..fixture::detector("needy", "[0-9]{4}")
            }
        };
        let detectors =
            [needing(&["PIN", "código"], true), needing(&["pin"], false), needing(&["pin"], true)];
        let index = WordIndex::compile(&detectors, &NoCache).unwrap();
        assert_eq!([0, 1, 2, 3].map(|at| index.is_needy(at)), [true, false, true, false]);
        let text = "Pin, my código, spinning".as_bytes();
        let ends = index.ends(text, whole(text), |_| true).unwrap();
        assert_eq!((ends.of(0), ends.of(1), ends.of(2)), (&[3, 21][..], &[][..], &[3, 21][..]));
        let ends = index.ends(b"pin", whole(b"pin"), |detector| detector == 7).unwrap();
        assert_eq!(ends, WordEnds::default());
    }

    #[test]
    fn every_shipped_word_is_found_right_before_a_candidate() {
        let detectors = pack::builtin().unwrap();
        let index = WordIndex::compile(&detectors, &NoCache).unwrap();
        let mut seen = 0;
        for (at, detector) in detectors.iter().enumerate().filter(|(at, _)| index.is_needy(*at as u32)) {
            for word in detector.context.iter().flat_map(ContextWords::words) {
                for (lead, gap) in [(0, 0), (7, 0), (400, 0), (400, CONTEXT_BYTES - 1)] {
                    let text = [&b" ".repeat(lead), word, &b" ".repeat(gap), &b"1".repeat(300)].concat();
                    let (end, start) = (lead + word.len(), lead + word.len() + gap);
                    let near = Some(start..start + 1);
                    let found = index.ends(&text, near, |_| true).unwrap();
                    assert!(found.of(at as u32).contains(&end), "{}: {word:?} {lead} {gap}", detector.name);
                    seen += 1;
                }
            }
        }
        assert!(seen > 1000, "only {seen}");
    }

    #[test]
    fn every_word_near_enough_is_found() {
        let words = ["pin".to_owned(), "secret code".to_owned()];
        let needing = Detector {
            context: Some(ContextWords::new(&words, true)),
            ..fixture::detector("needy", "[0-9]{4}")
        };
        let index = WordIndex::compile(&[needing], &NoCache).unwrap();
        let text = "a PIN, and the Secret Code of old: a pin ".repeat(40).into_bytes();
        let whole = index.ends(&text, whole(&text), |_| true).unwrap();
        assert!((2..60).contains(&whole.of(0).len()), "as many as the text is long");
        let lower = text.to_ascii_lowercase();
        let ends_with = |word: &str, end: &usize| lower[..*end].ends_with(word.as_bytes());
        let is_end = |end: &usize| ends_with("pin", end) || ends_with("secret code", end);
        let all: Vec<usize> = (0..=text.len()).filter(is_end).collect();
        assert_eq!(all.len(), 120);
        for start in 0..text.len() {
            let starts = vec![start..start + 1, start / 2..start / 2 + 7];
            let near = index.ends(&text, starts.clone(), |_| true).unwrap();
            for Range { start, end } in starts {
                let speaks = |at: &usize| *at > start.saturating_sub(CONTEXT_BYTES) && *at < end;
                let is_there = all.iter().any(speaks);
                for ends in [&near, &whole] {
                    assert_eq!(ends.of(0).iter().any(speaks), is_there, "before {start}..{end}");
                }
            }
        }
    }
}
