//! The second stage: from runs of candidate ends to placed matches whose values stand up to their checks.
//!
//! The matches of a detector are defined on the text alone: go from left to right, take the first place at which
//! the pattern matches and the match is accepted, go on behind it. A match that is not accepted takes no text away
//! from others: the next one may begin at the next byte, so that nothing can be hidden by what is glued to it.
//! Candidates only say where looking is worth while, and every match that may be accepted has one, so that neither other
//! candidates nor the way a text was cut into regions changes the outcome.
//!
//! Most detectors never see a candidate, so the regex of a pattern that surely compiles waits for its first one:
//! all of them together would take more memory than everything else, and most of the start.

use std::ops::Range;
use std::sync::OnceLock;

use regex_automata::Anchored;
use regex_automata::Input;
use regex_automata::meta;
use regex_automata::util::primitives::NonMaxUsize;
use regex_syntax::hir::Class;
use regex_syntax::hir::Hir;
use regex_syntax::hir::HirKind;
use regex_syntax::hir::Look;

use crate::scan::chance;
use crate::scan::chance::Alphabet;
use crate::scan::detector::CONTEXT_BYTES;
use crate::scan::detector::Detector;
use crate::scan::detector::Pattern;
use crate::scan::engine::Run;
use crate::scan::shape::Opening;
use crate::scan::shape::Start;
use crate::scan::shape::WIDE_BYTES;

/// The largest automaton a pattern may need, in bytes.
pub const AUTOMATON_BYTES_MAX: usize = 64 << 20;
/// What one state of an automaton takes while it is built, in bytes.
const STATE_BYTES: usize = 32;
/// What one transition of a state to several others takes, in bytes.
const TRANSITION_BYTES: usize = 8;
/// An automaton that is surely below this size, in bytes, is built only once it is needed; half of what is
/// allowed, so that building it cannot fail then.
const LATE_BYTES_MAX: usize = AUTOMATON_BYTES_MAX / 2;
/// The room for lazily built states of wide patterns, in bytes.
const LAZY_BYTES_WIDE: usize = 8 << 20;
/// The room for lazily built states of usual patterns, in bytes.
const LAZY_BYTES: usize = 1 << 20;
/// The confirming work any scan may take, in bytes looked at, however short its text.
const WORK_BASE: usize = 64 << 20;
/// Beyond the base, the confirming work for each byte of text.
const WORK_PER_BYTE: usize = 256;
/// What a look costs at least.
const WORK_PER_LOOK: usize = 16;

/// The pattern of one detector, ready to place matches.
pub struct Confirm {
    /// Built with the first candidate, unless that could fail.
    regex: OnceLock<meta::Regex>,
    /// Whether it is.
    is_late: bool,
    /// Whether chance makes no match of it within base64; told with the first one, in either alphabet.
    is_rare: [OnceLock<bool>; 2],
    pattern: Pattern,
    start: Start,
    width_max: usize,
    /// How many ends are asked of the regex: those of a group that is less than the match take it much longer.
    slots: usize,
    /// Whether every match begins at the edge of a word.
    at_edge: bool,
    /// What every match begins with.
    opening: Opening,
    /// Whether candidates tell where a match begins.
    one_by_one: bool,
}

/// A match: the whole and the part that matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The whole match.
    pub span: Range<usize>,
    /// The group if the pattern has one and it took part, else the whole match.
    pub value: Range<usize>,
}

/// How much confirming a scan may still do.
#[derive(Debug)]
pub struct Work {
    left: usize,
}

/// Confirming took more work than a text of its length may take.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the text needs more confirming than a text of its length may")]
pub struct Exhausted;

/// Where matches may begin, and the text around.
#[derive(Clone, Debug)]
pub struct Field<'t> {
    /// The text, with what comes before and behind as context.
    pub text: &'t [u8],
    /// Where matches may begin.
    pub starts: Range<usize>,
    /// Where the words end, in ascending order, without one of which before it no match is accepted.
    pub words: Option<&'t [usize]>,
    /// Where the text is other than one that was searched already; matches away from all of it are known.
    pub changed: Option<Changed<'t>>,
}

/// Where a text differs from the one it was made from.
#[derive(Clone, Copy, Debug)]
pub struct Changed<'t> {
    /// Ascending and disjoint; empty where something is missing.
    pub ranges: &'t [Range<usize>],
    /// Which offset of theirs the field's text begins at.
    pub base: usize,
}

impl Changed<'_> {
    /// Tells whether a change stands within a range or at its ends.
    fn touches(&self, range: Range<usize>) -> bool {
        let (start, end) = (range.start + self.base, range.end + self.base);
        let nearest = self.ranges.partition_point(|change| change.end < start);
        self.ranges.get(nearest).is_some_and(|change| change.start <= end)
    }
}

impl Field<'_> {
    /// Tells whether a match of at most `width` bytes that begins in `starts` may be new.
    fn is_new(&self, starts: &Range<usize>, width: usize) -> bool {
        let seen = starts.start.saturating_sub(CONTEXT_BYTES + 1)..starts.end.saturating_add(width + 1);
        self.changed.is_none_or(|changed| changed.touches(seen))
    }

    /// Tells whether a match that begins in `starts` may have one of its words before it.
    fn is_near_word(&self, starts: &Range<usize>) -> bool {
        let Some(words) = self.words else { return true };
        let too_far = starts.start.saturating_sub(CONTEXT_BYTES);
        let nearest = words.partition_point(|end| *end <= too_far);
        words.get(nearest).is_some_and(|end| *end < starts.end)
    }
}

impl Confirm {
    /// Prepares the regex of a detector from its parsed pattern, and builds it if that may take long or fail; `start` tells
    /// where a match begins that a candidate of the first stage is of.
    ///
    /// # Errors
    /// The pattern needs too large an automaton.
    pub fn compile(detector: &Detector, hir: &Hir, start: Start) -> Result<Self, Box<meta::BuildError>> {
        let pattern = detector.pattern.clone();
        let width_max = detector.pattern.width_max();
        let is_within = detector.pattern.has_group() && !is_group(hir);
        let slots = if is_within { 4 } else { 2 };
        let at_edge = hir.properties().look_set_prefix().contains(Look::WordAscii);
        let opening = Opening::of(hir);
        let one_by_one = matches!(start, Start::Known { .. });
        let is_late = is_surely_built(hir);
        let regex = match is_late {
            true => OnceLock::new(),
            false => OnceLock::from(built(hir, width_max)?),
        };
        Ok(Self {
            regex,
            is_late,
            is_rare: Default::default(),
            pattern,
            start,
            width_max,
            slots,
            at_edge,
            opening,
            one_by_one,
        })
    }

    /// Lets go of the regex, if it can be built again.
    pub fn forget_built(&mut self) {
        if self.is_late {
            self.regex = OnceLock::new();
        }
    }

    /// Returns the regex, building it if this is its first use.
    fn regex(&self) -> &meta::Regex {
        self.regex.get_or_init(|| {
            built(&self.pattern.hir(), self.width_max)
                .expect("an automaton below the limit for late ones is built")
        })
    }

    /// Tells whether a match is one that chance makes among the signs of base64 that goes on from before it.
    pub fn is_by_chance(&self, text: &[u8], start: usize) -> bool {
        let Some(alphabet) = chance::base64_before(text, start) else { return false };
        let is_rare = || alphabet.bits(&self.pattern.hir()) >= chance::BITS_MIN;
        let [usual, of_addresses] = &self.is_rare;
        !match alphabet {
            Alphabet::Usual => *usual.get_or_init(is_rare),
            Alphabet::OfAddresses => *of_addresses.get_or_init(is_rare),
        }
    }

    /// Returns where a match may begin that one of the candidates of a run is of.
    pub fn starts(&self, run: &Run) -> Range<usize> {
        match self.start {
            Start::Known { back } => run.first.saturating_sub(back)..run.last.saturating_sub(back) + 1,
            Start::Within { back_min, back_max } => {
                run.first.saturating_sub(back_max)..run.last.saturating_sub(back_min) + 1
            }
        }
    }

    /// Calls `accept` with each match one of `runs` allows, from left to right.
    ///
    /// `runs` are of this detector, in ascending order. Those whose matches may overlap are placed together or, where
    /// all of them are known, not at all: which of two overlapping matches stands is told by what is before both.
    ///
    /// # Errors
    /// The work is exhausted; what was accepted is then incomplete.
    pub fn place(
        &self,
        field: &Field<'_>,
        runs: &[Run],
        work: &mut Work,
        mut accept: impl FnMut(Placed) -> bool,
    ) -> Result<(), Exhausted> {
        let mut cursor = field.starts.start;
        let may_overlap = |one: &Run, next: &Run| {
            self.starts(next).start < self.starts(one).end.saturating_add(self.width_max)
        };
        for together in runs.chunk_by(may_overlap) {
            let (Some(first), Some(last)) = (together.first(), together.last()) else { continue };
            if !field.is_new(&(self.starts(first).start..self.starts(last).end), self.width_max) {
                continue;
            }
            for run in together {
                let starts = self.starts(run);
                cursor = match self.one_by_one {
                    true => self.place_each(field, starts, cursor, work, &mut accept)?,
                    false => self.place_among(field, starts, cursor, work, &mut accept)?,
                };
            }
        }
        Ok(())
    }

    /// Tries every start on its own.
    fn place_each(
        &self,
        field: &Field<'_>,
        starts: Range<usize>,
        mut cursor: usize,
        work: &mut Work,
        accept: &mut impl FnMut(Placed) -> bool,
    ) -> Result<usize, Exhausted> {
        for start in starts.start.max(cursor)..starts.end.min(field.starts.end) {
            if start < cursor
                || !self.opening.agrees(field.text, start)
                || (self.at_edge && !is_edge(field.text, start))
                || !field.is_near_word(&(start..start + 1))
            {
                continue;
            }
            let end = field.text.len().min(start + self.width_max);
            let input = Input::new(field.text).span(start..end).anchored(Anchored::Yes);
            let placed = self.find(&input);
            work.spend(placed.as_ref().map_or(end - start, |placed| placed.span.len()))?;
            if let Some(placed) = placed {
                let behind = placed.span.end;
                cursor = if accept(placed) { behind } else { start + 1 };
            }
        }
        Ok(cursor)
    }

    /// Searches the starts from left to right.
    fn place_among(
        &self,
        field: &Field<'_>,
        starts: Range<usize>,
        mut cursor: usize,
        work: &mut Work,
        accept: &mut impl FnMut(Placed) -> bool,
    ) -> Result<usize, Exhausted> {
        let last = starts.end.min(field.starts.end);
        let end = field.text.len().min(last.saturating_add(self.width_max));
        let mut from = starts.start.max(cursor);
        if !field.is_near_word(&(from..last.max(from))) {
            return Ok(cursor);
        }
        while from < last {
            let placed = self.find(&Input::new(field.text).span(from..end));
            let seen = placed.as_ref().map_or(end, |placed| placed.span.end);
            work.spend(seen - from)?;
            match placed {
                Some(placed) if placed.span.start < last => {
                    let Range { start, end } = placed.span;
                    from = if accept(placed) { end } else { start + 1 };
                    cursor = from;
                }
                _ => break,
            }
        }
        // Whatever may begin before was found, so that no candidate nearby has it searched again.
        Ok(cursor.max(last))
    }

    /// Finds the leftmost match in the span of the input.
    fn find(&self, input: &Input<'_>) -> Option<Placed> {
        let mut slots: [Option<NonMaxUsize>; 4] = [None; 4];
        self.regex().search_slots(input, slots.get_mut(..self.slots)?)?;
        let [start, end, from, to] = slots.map(|slot| slot.map(NonMaxUsize::get));
        let span = start?..end?;
        let value = match (from, to) {
            (Some(from), Some(to)) if from < to => from..to,
            _ => span.clone(),
        };
        Some(Placed { span, value })
    }
}

/// Builds the regex of a pattern.
///
/// # Errors
/// It needs too large an automaton.
pub(super) fn built(hir: &Hir, width_max: usize) -> Result<meta::Regex, Box<meta::BuildError>> {
    let lazy = if width_max >= WIDE_BYTES { LAZY_BYTES_WIDE } else { LAZY_BYTES };
    let config = meta::Config::new()
        .utf8_empty(false)
        .nfa_size_limit(Some(AUTOMATON_BYTES_MAX))
        .hybrid_cache_capacity(lazy);
    meta::Builder::new().configure(config).build_from_hir(hir).map_err(Box::new)
}

/// Tells whether building the regex of a pattern cannot fail.
pub(super) fn is_surely_built(hir: &Hir) -> bool {
    automaton_bytes(hir) <= LATE_BYTES_MAX
}

/// Tells whether a pattern is all one group but for what it sees around itself.
fn is_group(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Capture(_) => true,
        HirKind::Concat(parts) => {
            let mut wide = parts.iter().filter(|part| !matches!(part.kind(), HirKind::Look(_)));
            wide.next().is_some_and(is_group) && wide.next().is_none()
        }
        _ => false,
    }
}

/// Returns how large the automaton of a pattern may get, its counts spelt out, in bytes.
fn automaton_bytes(hir: &Hir) -> usize {
    // Captures, branches and joins have two states of their own.
    const AROUND: usize = 2 * (STATE_BYTES + TRANSITION_BYTES);
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => STATE_BYTES,
        HirKind::Literal(literal) => literal.0.len().saturating_mul(STATE_BYTES),
        HirKind::Class(Class::Bytes(class)) => STATE_BYTES + class.ranges().len() * TRANSITION_BYTES,
        // Each range of characters is several sequences of bytes, and no detector has one.
        HirKind::Class(Class::Unicode(_)) => usize::MAX,
        HirKind::Capture(group) => automaton_bytes(&group.sub).saturating_add(AROUND),
        HirKind::Repetition(repeat) => {
            let copies = repeat.max.unwrap_or(repeat.min).max(repeat.min) as usize;
            let copy = automaton_bytes(&repeat.sub).saturating_add(AROUND);
            copy.saturating_mul(copies.saturating_add(1))
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            let all = parts.iter().map(automaton_bytes).fold(AROUND, usize::saturating_add);
            all.saturating_add(parts.len().saturating_mul(TRANSITION_BYTES))
        }
    }
}

/// Tells whether `\b` holds at an offset.
fn is_edge(text: &[u8], at: usize) -> bool {
    let is_word = |at: Option<usize>| {
        let byte = at.and_then(|at| text.get(at));
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    };
    is_word(at.checked_sub(1)) != is_word(Some(at))
}

impl Work {
    /// Grants the work for a text of `bytes`.
    pub fn for_text(bytes: usize) -> Self {
        Self { left: WORK_BASE.saturating_add(bytes.saturating_mul(WORK_PER_BYTE)) }
    }

    /// Returns how much of what was granted for a text of `bytes` is done.
    pub fn done(&self, bytes: usize) -> usize {
        Self::for_text(bytes).left.saturating_sub(self.left)
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.left = self.left.checked_sub(bytes.saturating_add(WORK_PER_LOOK)).ok_or(Exhausted)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use regex_automata::nfa::thompson;
    use regex_automata::nfa::thompson::WhichCaptures;

    use super::*;
    use crate::scan::engine::Engine;
    use crate::scan::shape::Shape;

    /// Places the matches of `pattern` in `text`, taking values that end in an even digit.
    fn placed(pattern: &str, anchor: Option<&str>, text: &str, starts: Range<usize>) -> Vec<(usize, usize)> {
        let mut detector = crate::scan::fixture::detector("probe", pattern);
        detector.anchor = anchor.map(|anchor| Pattern::parse(anchor).unwrap());
        let pattern = detector.pattern.hir();
        let shape = Shape::of(&detector, &pattern);
        let confirm = Confirm::compile(&detector, &pattern, shape.start).unwrap();
        let engine = Engine::compile(&[shape]).unwrap();
        let runs = engine.scan(text.as_bytes(), 0..text.len(), |_| true, <[Run]>::to_vec).unwrap();
        let mut found = Vec::new();
        let field = Field { text: text.as_bytes(), starts, words: None, changed: None };
        let even = |value: &str| value.bytes().last().is_some_and(|byte| byte % 2 == 0);
        let accept = |placed: Placed| {
            let passes = even(&text[placed.value.clone()]);
            if passes {
                found.push((placed.span.start, placed.span.end));
            }
            passes
        };
        confirm.place(&field, &runs, &mut Work::for_text(text.len()), accept).unwrap();
        found
    }

    #[test]
    fn matches_are_placed_from_left_to_right() {
        for (pattern, anchor, text, expected) in [
            (r"\bk[0-9]{2,4}\b", None, "k12 k1234 k123 ak12", vec![(0, 3), (4, 9)]),
            ("[0-9]{2}", None, "1324", vec![(1, 3)]),
            (r"\b[0-9]{2}(?: [0-9]{2}){1,2}\b", None, "11 11 13 42 44", vec![(3, 11)]),
            ("[0-9] ?[0-9]{2}", None, "3 13 24", vec![(3, 7)]),
            ("[0-9]{2}", None, "2468", vec![(0, 2), (2, 4)]),
            ("[a-z]{1,9}@([0-9]{1,3})", Some("@[0-9]"), "ab@12 c@34d@56", vec![(0, 5), (6, 10), (10, 14)]),
            ("(?:a|ab)(?:c|bcd)2", None, "abcd2", vec![(0, 5)]),
            (r"\b(k[0-9]{2})\b", None, "k12 ak14 k34", vec![(0, 3), (9, 12)]),
        ] {
            assert_eq!(placed(pattern, anchor, text, 0..text.len()), expected, "{pattern}");
        }
    }

    #[test]
    fn matches_begin_within_the_starts_and_see_what_is_around() {
        let text = "xk12 k34 k56";
        assert_eq!(placed(r"\bk[0-9]{2}\b", None, text, 1..6), [(5, 8)]);
        assert_eq!(placed(r"\bk[0-9]{2}\b", None, text, 6..9), []);
    }

    #[test]
    fn a_regex_is_built_with_the_first_look() {
        let detector = crate::scan::fixture::detector("probe", "k[0-9a-f]{8}(?:[a-z]{1,30}|xyz){0,40}");
        let pattern = detector.pattern.hir();
        let shape = Shape::of(&detector, &pattern);
        let confirm = Confirm::compile(&detector, &pattern, shape.start).unwrap();
        assert!(confirm.regex.get().is_none());
        assert!(confirm.find(&Input::new("k0123abcd")).is_some());
        assert!(confirm.regex.get().is_some());
    }

    #[test]
    fn an_automaton_is_no_larger_than_foretold() {
        for pattern in [
            r"\bk[0-9]{2,4}\b",
            "(?:a|ab|c[dx]{3}){2,90}",
            "(?i:secret|password|token|tokens|passphrase)[ =:]{1,3}([!-~]{8,64})",
            "z(?:(?:[a-z]?x){0,5}y?){1,60}",
            r"-----BEGIN [\s\S]{0,3000}?-----END",
            "(?:q|w|e|r|t[yz]|(?:ui|op){3}){0,40}k",
            "[acegikmoqsuwyACEGIKMOQSUWY02468]{1,300}",
        ] {
            let hir = Pattern::parse(pattern).unwrap().hir();
            let bytes = automaton_bytes(&hir);
            for (reverse, captures) in [(false, WhichCaptures::All), (true, WhichCaptures::None)] {
                let config = thompson::Config::new().utf8(false).reverse(reverse).which_captures(captures);
                let config = config.nfa_size_limit(Some(bytes * 2));
                let nfa = thompson::Compiler::new().configure(config).build_from_hir(&hir);
                assert!(nfa.is_ok(), "{pattern}");
            }
        }
    }

    #[test]
    fn work_has_an_end() {
        let mut work = Work { left: 100 };
        assert_eq!((work.spend(60), work.spend(60)), (Ok(()), Err(Exhausted)));
    }
}
