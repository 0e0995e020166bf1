//! The first-stage form of a detector: what Hyperscan looks for, and what an end it reports says about the start.
//!
//! Hyperscan reports the end of every match, so that a trailing `{20,200}` would report up to 181 ends for one
//! key. The first stage is therefore cut behind the last part that has to be there: every match of the pattern
//! has a prefix (or, with an anchor, an inner part) of this shape, and the confirming regex does the rest.

use std::fmt::Write as _;
use std::iter;

use regex_syntax::hir::Class;
use regex_syntax::hir::Hir;
use regex_syntax::hir::HirKind;
use regex_syntax::hir::Look;
use regex_syntax::hir::Repetition;

use crate::scan::detector::Detector;
use crate::scan::detector::over_bytes;

mod lead;
mod places;

pub use lead::Lead;
pub use lead::Opening;
pub use lead::RARE_BYTES;
pub use places::SHAPE_PLACES_MAX;
pub use places::beyond as places_beyond;

/// From this width on, in bytes, a pattern counts as wide: it is searched once in a long stretch, not at each start.
pub const WIDE_BYTES: usize = 1024;

/// How much of a pattern's beginning is compared with its anchor, in bytes.
const PREFIX_BYTES_MAX: usize = 256;

/// The step to which the reach of an anchor is rounded up, in bytes.
const REACH_STEP: usize = 64;

/// How blanks between words are written in Hyperscan's syntax.
const WHITE: [&str; 2] = [r"[\x09-\x0d\x20]", r"\x20"];

/// What Hyperscan looks for on behalf of one detector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The expression in Hyperscan's syntax; empty for a beginning.
    pub expression: String,
    /// Where a match may begin, seen from the end of the shape.
    pub start: Start,
    /// What may stand at the first places, for shapes that are looked for by that instead.
    pub lead: Option<Lead>,
}

/// Where a match may begin when its shape ends at a known place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// Exactly `back` bytes before the end.
    Known {
        /// The width of the shape in bytes.
        back: usize,
    },
    /// Between `back_max` and `back_min` bytes before the end, both included.
    Within {
        /// The fewest bytes between the start of the match and the end of the shape.
        back_min: usize,
        /// The most bytes between the start of the match and the end of the shape.
        back_max: usize,
    },
}

impl Shape {
    /// Derives the first stage of a detector from its anchor, or from its parsed `pattern`.
    ///
    /// A pattern whose beginning tells enough needs no anchor.
    pub fn of(detector: &Detector, pattern: &Hir) -> Self {
        if let Some(lead) = lead::of(pattern)
            && (detector.anchor.is_none() || lead.is_telling())
        {
            return Self::led(lead, |back| Start::Known { back });
        }
        let (hir, leads) = match &detector.anchor {
            Some(anchor) => {
                let cut = required_prefix(&anchor.hir());
                let narrow = detector.pattern.width_max() < WIDE_BYTES;
                let leads = begins_with(pattern, &cut) || (narrow && shares_beginning(pattern, &cut));
                (cut, leads)
            }
            None => (required_prefix(pattern), true),
        };
        let back_max = reach(detector.pattern.width_max());
        if let Some(lead) = lead::of(&hir) {
            return Self::led(lead, |back| match leads {
                true => Start::Known { back },
                false => Start::Within { back_min: back, back_max },
            });
        }
        let facts = hir.properties();
        let least = facts.minimum_len().unwrap_or(1);
        let most = facts.maximum_len().unwrap_or(detector.pattern.width_max());
        let start = match (leads, least == most) {
            (true, true) => Start::Known { back: least },
            (true, false) => Start::Within { back_min: least, back_max: most },
            (false, _) => Start::Within { back_min: least, back_max },
        };
        let mut expression = String::new();
        write_hir(&hir, &mut expression);
        Self { expression, start, lead: None }
    }

    /// Returns the shape of a beginning; `start` tells from its width where a match begins.
    fn led(lead: Lead, start: impl FnOnce(usize) -> Start) -> Self {
        Self { expression: String::new(), start: start(lead.places.len()), lead: Some(lead) }
    }
}

impl Shape {
    /// Tells whether it is several words, with what may stand between them.
    pub fn is_phrase(&self) -> bool {
        WHITE.iter().any(|white| self.expression.contains(white))
    }

    /// Returns the shape of some bytes as they are.
    pub fn literal(bytes: &[u8]) -> Self {
        let mut expression = String::new();
        bytes.iter().for_each(|byte| write_byte(*byte, &mut expression));
        Self { expression, start: Start::Known { back: bytes.len() }, lead: None }
    }

    /// Returns the shape of a word, whatever the case of its ASCII letters.
    pub fn caseless(word: &[u8]) -> Self {
        let mut expression = String::new();
        for byte in word {
            match byte.is_ascii_alphabetic() {
                true => {
                    let [lower, upper] = [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()];
                    expression.extend(['[', char::from(upper), char::from(lower), ']']);
                }
                false => write_byte(*byte, &mut expression),
            }
        }
        Self { expression, start: Start::Known { back: word.len() }, lead: None }
    }
}

/// Rounds how far before its anchor a match may begin, so that detectors with one anchor share a shape.
fn reach(width_max: usize) -> usize {
    if width_max < REACH_STEP / 2 { width_max } else { width_max.next_multiple_of(REACH_STEP) }
}

/// Cuts a pattern behind the last part that every match has; never cuts everything.
fn required_prefix(hir: &Hir) -> Hir {
    let cut = over_bytes(cut_tail(hir));
    if cut.properties().minimum_len() == Some(0) { hir.clone() } else { cut }
}

/// Returns a form that matches a prefix of each match of `hir`; [`Hir::empty`] if nothing has to be there.
fn cut_tail(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Hir::empty(),
        HirKind::Literal(_) | HirKind::Class(_) => hir.clone(),
        HirKind::Repetition(repeat) if repeat.min == 0 => Hir::empty(),
        HirKind::Repetition(repeat) if Some(repeat.min) == repeat.max => hir.clone(),
        HirKind::Repetition(repeat) => {
            Hir::repetition(Repetition { max: Some(repeat.min), ..repeat.clone() })
        }
        HirKind::Capture(group) => cut_tail(&group.sub),
        HirKind::Alternation(arms) => {
            let cut: Vec<Hir> = arms.iter().map(cut_tail).collect();
            if cut.iter().any(|arm| arm.properties().minimum_len() == Some(0)) {
                return Hir::empty();
            }
            Hir::alternation(cut)
        }
        HirKind::Concat(parts) => cut_sequence(parts),
    }
}

/// Cuts the tail of a sequence, part by part, until one has to be there.
fn cut_sequence(parts: &[Hir]) -> Hir {
    for (at, part) in parts.iter().enumerate().rev() {
        let tail = cut_tail(part);
        if tail.properties().minimum_len() == Some(0) {
            continue;
        }
        let mut kept = parts[..at].to_vec();
        kept.push(tail);
        return Hir::concat(kept);
    }
    Hir::empty()
}

/// Tells whether every match of `pattern` begins with a match of `anchor`, which has to be of one width.
///
/// False when in doubt: alternatives and look-arounds within an anchor are not compared.
fn begins_with(pattern: &Hir, anchor: &Hir) -> bool {
    let mut wanted = Bytes { sets: Vec::new(), open: true };
    let mut given = Bytes { sets: Vec::new(), open: true };
    if !anchor.properties().look_set().is_empty() || has_alternatives(anchor) {
        return false;
    }
    wanted.append(anchor);
    given.append(pattern);
    wanted.open
        && given.sets.len() >= wanted.sets.len()
        && wanted.sets.iter().zip(&given.sets).all(|(anchor, pattern)| pattern.within(anchor))
}

/// Tells whether a pattern is put together like an anchor, part by part, but for what one last byte may be.
fn shares_beginning(pattern: &Hir, anchor: &Hir) -> bool {
    let (mut wanted, mut given) = (Vec::new(), Vec::new());
    flatten(anchor, &mut wanted);
    flatten(pattern, &mut given);
    let shared = wanted.iter().zip(&given).take_while(|(anchor, pattern)| anchor == pattern).count();
    let (wanted, given) = (wanted.split_off(shared), given.split_off(shared));
    match wanted.as_slice() {
        [] => true,
        [last] if last.properties().maximum_len() == Some(1) => {
            let rest = Hir::concat(given);
            let (first, last) = (lead::first_bytes(&rest), lead::first_bytes(last));
            first.zip(last).is_some_and(|(first, last)| first.within(&last))
        }
        _ => false,
    }
}

/// Lists the parts of a pattern one after the other, literals byte by byte.
fn flatten(hir: &Hir, parts: &mut Vec<Hir>) {
    match hir.kind() {
        HirKind::Concat(inner) => inner.iter().for_each(|part| flatten(part, parts)),
        HirKind::Capture(group) => flatten(&group.sub, parts),
        HirKind::Literal(literal) => parts.extend(literal.0.iter().map(|byte| Hir::literal([*byte]))),
        HirKind::Empty
        | HirKind::Look(_)
        | HirKind::Class(_)
        | HirKind::Repetition(_)
        | HirKind::Alternation(_) => parts.push(hir.clone()),
    }
}

/// Tells whether alternatives wider than a byte occur.
fn has_alternatives(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => false,
        HirKind::Repetition(repeat) => has_alternatives(&repeat.sub),
        HirKind::Capture(group) => has_alternatives(&group.sub),
        HirKind::Concat(parts) => parts.iter().any(has_alternatives),
        HirKind::Alternation(_) => true,
    }
}

/// The bytes that may stand at each place of a beginning of known width.
struct Bytes {
    sets: Vec<ByteSet>,
    /// Whether what comes next still has a known place.
    open: bool,
}

/// A set of byte values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ByteSet([u64; 4]);

impl Bytes {
    /// Adds what may follow, as far as its places are known.
    fn append(&mut self, hir: &Hir) {
        if !self.open {
            return;
        }
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => {
                literal.0.iter().for_each(|byte| self.push(ByteSet::of(*byte, *byte)))
            }
            HirKind::Class(Class::Bytes(class)) => {
                let ranges = class.ranges().iter().map(|range| ByteSet::of(range.start(), range.end()));
                self.push(ranges.fold(ByteSet::default(), ByteSet::union));
            }
            HirKind::Class(Class::Unicode(_)) => self.open = false,
            HirKind::Repetition(repeat) => {
                (0..repeat.min).take(PREFIX_BYTES_MAX).for_each(|_| self.append(&repeat.sub));
                self.open &= Some(repeat.min) == repeat.max;
            }
            HirKind::Capture(group) => self.append(&group.sub),
            HirKind::Concat(parts) => parts.iter().for_each(|part| self.append(part)),
            HirKind::Alternation(arms) => self.append_any(arms),
        }
    }

    /// Adds the bytes of any of the alternatives, as far as all have them.
    fn append_any(&mut self, arms: &[Hir]) {
        let begun = arms.iter().map(|arm| {
            let mut bytes = Self { sets: Vec::new(), open: true };
            bytes.append(arm);
            bytes
        });
        let begun: Vec<Self> = begun.collect();
        let shared = begun.iter().map(|arm| arm.sets.len()).min().unwrap_or(0);
        for at in 0..shared {
            let any = begun.iter().filter_map(|arm| arm.sets.get(at).copied());
            self.push(any.fold(ByteSet::default(), ByteSet::union));
        }
        self.open &= begun.iter().all(|arm| arm.open && arm.sets.len() == shared);
    }

    fn push(&mut self, set: ByteSet) {
        if self.sets.len() == PREFIX_BYTES_MAX {
            self.open = false;
        }
        if self.open {
            self.sets.push(set);
        }
    }
}

impl ByteSet {
    /// Returns the set of the bytes from `first` to `last`.
    pub fn of(first: u8, last: u8) -> Self {
        if first == last {
            let bit = |word: u8| if word == first / 64 { 1 << (first % 64) } else { 0 };
            return Self([0, 1, 2, 3].map(bit));
        }
        // All bytes below one, as far as they are in a word of 64.
        let below = |end: usize, word: usize| match end.saturating_sub(word * 64) {
            bits @ 0..64 => (1_u64 << bits) - 1,
            _ => u64::MAX,
        };
        let (first, end) = (usize::from(first), usize::from(last) + 1);
        Self([0, 1, 2, 3].map(|word| below(end, word) & !below(first, word)))
    }

    /// Returns the bytes of both sets.
    pub fn union(self, other: Self) -> Self {
        let ([one, two, three, four], more) = (self.0, other.0);
        Self([one | more[0], two | more[1], three | more[2], four | more[3]])
    }

    /// Tells whether the set has a byte.
    pub fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] & (1 << (byte % 64)) != 0
    }

    /// Returns the bytes of the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u8> {
        let bits_of = |(word, mut bits): (u8, u64)| {
            iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as u8)?;
                bits &= bits - 1;
                Some(word * 64 + bit)
            })
        };
        (0..4).zip(self.0).flat_map(bits_of)
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|bits| bits.count_ones()).sum()
    }

    fn within(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(mine, theirs)| mine & !theirs == 0)
    }
}

/// Writes a parsed pattern in Hyperscan's syntax, with every byte spelt out.
fn write_hir(hir: &Hir, out: &mut String) {
    match hir.kind() {
        HirKind::Empty => out.push_str("(?:)"),
        HirKind::Literal(literal) => literal.0.iter().for_each(|byte| write_byte(*byte, out)),
        HirKind::Class(class) => write_class(class, out),
        HirKind::Look(Look::WordAsciiNegate) => out.push_str(r"\B"),
        HirKind::Look(_) => out.push_str(r"\b"),
        HirKind::Repetition(repeat) => {
            write_group(std::slice::from_ref(&repeat.sub), out);
            let most = repeat.max.unwrap_or(repeat.min);
            let written = match (repeat.min, most) {
                (0, 1) => write!(out, "?"),
                (least, most) if least == most => write!(out, "{{{least}}}"),
                (least, most) => write!(out, "{{{least},{most}}}"),
            };
            written.expect("writing to a string does not fail");
        }
        HirKind::Capture(group) => write_group(std::slice::from_ref(&group.sub), out),
        HirKind::Concat(parts) => parts.iter().for_each(|part| write_hir(part, out)),
        HirKind::Alternation(arms) => write_group(arms, out),
    }
}

/// Writes alternatives, or a single part, so that what follows applies to the whole.
fn write_group(arms: &[Hir], out: &mut String) {
    if let [only] = arms
        && matches!(only.kind(), HirKind::Class(_))
    {
        return write_hir(only, out);
    }
    out.push_str("(?:");
    for (at, arm) in arms.iter().enumerate() {
        if at > 0 {
            out.push('|');
        }
        if !matches!(arm.kind(), HirKind::Empty) {
            write_hir(arm, out);
        }
    }
    out.push(')');
}

fn write_class(class: &Class, out: &mut String) {
    let Class::Bytes(class) = class else { return };
    out.push('[');
    for range in class.ranges() {
        write_byte(range.start(), out);
        if range.end() > range.start() {
            out.push('-');
            write_byte(range.end(), out);
        }
    }
    out.push(']');
}

fn write_byte(byte: u8, out: &mut String) {
    if byte.is_ascii_alphanumeric() {
        out.push(char::from(byte));
    } else {
        write!(out, "\\x{byte:02x}").expect("writing to a string does not fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::detector::Pattern;

    fn shape(pattern: &str, anchor: Option<&str>) -> Shape {
        let mut detector = crate::scan::fixture::detector("probe", pattern);
        detector.anchor = anchor.map(|source| Pattern::parse(source).unwrap());
        Shape::of(&detector, &detector.pattern.hir())
    }

    #[test]
    fn a_set_has_the_bytes_from_its_first_to_its_last() {
        for (first, last) in [(0, 0), (0, 63), (63, 64), (1, 127), (64, 64), (100, 200), (192, 255), (0, 255)]
        {
            let set = ByteSet::of(first, last);
            for byte in 0..=u8::MAX {
                assert_eq!(set.contains(byte), (first..=last).contains(&byte), "{first} {last} {byte}");
            }
            assert_eq!(set.union(ByteSet::default()), set);
        }
        assert_eq!(ByteSet::of(9, 3), ByteSet::default());
    }

    #[test]
    fn the_optional_tail_is_cut() {
        for (pattern, expression) in [
            (r"\b(ab_[0-9]{3,9})\b", r"\bab\x5f[0-9]{3}"),
            ("key ?= ?[a-f]{0,8}", r"key(?:\x20)?\x3d"),
            (r"(?i:a1)b\b", "[Aa]1b"),
            ("x(?:yz{0,2}|w{2,3})", "x(?:y|(?:w){2})"),
            ("ab?|cd?", "[ac]"),
            ("é[^a-z]", r"\xc3\xa9[\x00-\x60\x7b-\xff]"),
        ] {
            assert_eq!(shape(pattern, None).expression, expression);
        }
    }

    #[test]
    fn a_start_is_known_when_the_shape_leads_and_has_one_width() {
        let within = |back_min, back_max| Start::Within { back_min, back_max };
        for (pattern, anchor, start) in [
            (r"\bab[0-9]{3,9}\b", None, Start::Known { back: 5 }),
            ("a{1,3}b", None, within(2, 4)),
            (r"\b(gh[po]_[a-z]{36})", Some("gh[a-z]_[a-z]{4}"), Start::Known { back: 8 }),
            ("gh[po]_[A-Z]{36}", Some("gh[a-z]_[a-z]{4}"), within(8, 64)),
            ("(?:ab|cd)[0-9]{4}", Some("[a-z]{2}[0-9]"), Start::Known { back: 3 }),
            ("[a-z]{1,9}@x", Some("@x"), within(2, 11)),
            (r"\]\(\s?(https?://[a-z]{3,300})", Some(r"\]\(\s?https?://"), within(9, 11)),
            (
                r"(?i:key|pass)[a-z]{0,4} ?(?:=>?|[:,])[0-9]{80}",
                Some("(?i:key|pass)[a-z]{0,4} ?[:=,>]"),
                within(4, 10),
            ),
            (
                r"(?i:key|pass)[a-z]{0,4} ?(?:=>?|[:,]|is)[0-9]{80}",
                Some("(?i:key|pass)[a-z]{0,4} ?[:=,>]"),
                within(4, 128),
            ),
        ] {
            assert_eq!(shape(pattern, anchor).start, start, "{pattern}");
        }
    }
}
