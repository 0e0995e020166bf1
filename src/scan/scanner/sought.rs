//! Which detectors may find something in a text, and their candidates, one detector after the other.
//!
//! Some detectors find nothing without one of their words near. In most texts few candidates are theirs, and their words
//! are looked for around these. In a text of numbers each number is a candidate of nearly a hundred of them: there the
//! words are looked for first, and who has none is not asked for candidates at all.

use std::borrow::Cow;
use std::ops::Range;

use crate::scan::confirm::Field;
use crate::scan::engine::EngineFault;
use crate::scan::engine::Run;
use crate::scan::spelling;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;
use crate::scan::words::WordEnds;

use super::ScanFault;
use super::Scanner;

/// From this length on, in bytes, it is asked whether a text is one of numbers.
const NUMBERS_BYTES_MIN: usize = 2048;

/// It is, where one of so many bytes is a digit.
const DIGITS_SHARE: usize = 8;

/// From so many candidates for each detector on they are put in order by counting, which comparing takes longer for.
const COUNTED_MIN: usize = 4;

/// Who may find something in a text.
pub(super) struct Sought<'w> {
    /// The detectors.
    pub(super) detectors: Cow<'w, DetectorSet>,
    /// Where the words stand that some of them need, if that was looked for already.
    words: Option<WordEnds>,
}

impl Scanner {
    /// Returns which of the wanted detectors may find something in a text.
    ///
    /// # Errors
    /// The text could not be searched for words.
    pub(super) fn sought<'w>(&self, text: &[u8], wanted: &'w DetectorSet) -> Result<Sought<'w>, EngineFault> {
        if text.len() < NUMBERS_BYTES_MIN || !is_of_numbers(text) {
            return Ok(Sought { detectors: Cow::Borrowed(wanted), words: None });
        }
        let words = self.words.ends(text, Some(0..text.len()), self.is_wanted(wanted))?;
        let may_find = |id: &DetectorId| {
            let at = u32::from(id.0);
            !self.words.is_needy(at) || !words.of(at).is_empty()
        };
        let detectors = wanted.iter().filter(may_find).collect();
        Ok(Sought { detectors: Cow::Owned(detectors), words: Some(words) })
    }

    /// Calls `each` with every sought detector that has candidates, and these; detectors that need a word
    /// beside them only where one is near.
    pub(super) fn by_detector(
        &self,
        field: &Field<'_>,
        runs: &[Run],
        sought: &Sought<'_>,
        mut each: impl FnMut(u32, &Field<'_>, &[Run]) -> Result<(), ScanFault>,
    ) -> Result<(), ScanFault> {
        let is_wanted = self.is_wanted(&sought.detectors);
        let mut late: Option<WordEnds> = None;
        let ordered = by_group(runs);
        for of_group in ordered.chunk_by(|one, other| one.group == other.group) {
            let group = of_group.first().map_or(&[][..], |run| self.engine.shapes(run.group));
            for at in group.iter().copied().filter(|at| is_wanted(*at)) {
                let is_needy = self.words.is_needy(at);
                if is_needy && sought.words.is_none() && late.is_none() {
                    late =
                        Some(self.words.ends(field.text, self.needy_starts(runs, &is_wanted), &is_wanted)?);
                }
                let words = sought.words.as_ref().or(late.as_ref());
                let needed = words.filter(|_| is_needy).map(|words| words.of(at));
                if needed.is_none_or(|ends| !ends.is_empty()) {
                    each(at, &Field { words: needed, ..field.clone() }, of_group)?;
                }
            }
        }
        Ok(())
    }

    /// Returns where matches may begin of the wanted detectors that need a word before them.
    fn needy_starts(
        &self,
        runs: &[Run],
        is_wanted: impl Fn(u32) -> bool,
    ) -> impl Iterator<Item = Range<usize>> {
        runs.iter().filter_map(move |run| {
            let needy = |at: &u32| self.words.is_needy(*at) && is_wanted(*at);
            // The detectors of a run have one shape, and so the same starts.
            let at = self.engine.shapes(run.group).iter().copied().find(needy)?;
            self.confirms.get(at as usize).map(|confirm| confirm.starts(run))
        })
    }
}

/// Tells whether many of a text's bytes are digits.
fn is_of_numbers(text: &[u8]) -> bool {
    spelling::digits(text) * DIGITS_SHARE >= text.len()
}

/// Returns runs by their groups, those of a group in the order they came in.
fn by_group(runs: &[Run]) -> Vec<Run> {
    let mut ordered = runs.to_vec();
    let groups = runs.iter().map(|run| run.group as usize + 1).max().unwrap_or(0);
    if runs.len() < groups * COUNTED_MIN {
        ordered.sort_by_key(|run| run.group);
        return ordered;
    }
    let mut next = vec![0; groups];
    runs.iter().for_each(|run| next[run.group as usize] += 1);
    let mut before = 0;
    for of_group in &mut next {
        before += std::mem::replace(of_group, before);
    }
    for run in runs {
        let place = &mut next[run.group as usize];
        ordered[*place] = *run;
        *place += 1;
    }
    ordered
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scan::pack;

    proptest! {
        #[test]
        fn runs_of_a_group_stay_in_their_order(groups in proptest::collection::vec(0..6u32, 0..90)) {
            let run = |(at, group): (usize, &u32)| Run { group: *group, first: at, last: at };
            let runs: Vec<Run> = groups.iter().enumerate().map(run).collect();
            let mut sorted = runs.clone();
            sorted.sort_by_key(|run| run.group);
            prop_assert_eq!(by_group(&runs), sorted);
        }
    }

    #[test]
    fn words_looked_for_first_let_the_same_be_found() {
        let scanner = Scanner::compile(pack::builtin().unwrap()).unwrap();
        let all = scanner.all();
        let numbers = "1093,17.50,2026-11-02T10:04:00Z,884123\n".repeat(30);
        for value in
            ["nhs number 943 476 5919", "card 4111 1111 1111 1111", "steuer-id: 65929970489", "pin 4711"]
        {
            for far in ["", "\n7,7,7", &"1,".repeat(200)] {
                let lines = format!("{numbers}{value}\n{far}{numbers}");
                assert!(lines.len() >= NUMBERS_BYTES_MIN && is_of_numbers(lines.as_bytes()));
                let spread = format!(
                    "{}{lines}",
                    "and some words before it all, none of them with digits. ".repeat(600)
                );
                assert!(!is_of_numbers(spread.as_bytes()));
                let moved = spread.len() - lines.len();
                let found = |text: &str, moved: usize| -> Vec<(u16, Range<usize>)> {
                    let found = scanner.search_plain(text.as_bytes(), &all).unwrap();
                    found
                        .into_iter()
                        .map(|it| (it.detector.0, it.span.start - moved..it.span.end - moved))
                        .collect()
                };
                assert_eq!(found(&lines, 0), found(&spread, moved), "{value}");
            }
        }
    }
}
