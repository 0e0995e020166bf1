//! The beginning of a number: what may stand at each of its first places.
//!
//! A shape that begins with a class instead of a literal costs Hyperscan a state machine, and many different ones
//! slow the common database down to a fraction. Patterns (or their anchors) that begin with digits, capital letters
//! or signs are therefore looked for by the table of [`Heads`](crate::scan::engine), place by place. That reports
//! once a word instead of once a digit, and tells where the match begins.

use regex_syntax::hir::Class;
use regex_syntax::hir::Hir;
use regex_syntax::hir::HirKind;
use regex_syntax::hir::Look;

use super::ByteSet;

/// How many places of a pattern are looked at, in bytes.
const PLACES: usize = 24;

/// From so many places in a row with a letter or two on, a pattern has a literal that is better than this.
const LITERAL_PLACES: u32 = 3;

/// From so many bits on, a beginning is better than any anchor: five digits in a row have more, four less.
const TELLING_BITS: f64 = 25.0;

/// The bytes a beginning may begin with: ASCII signs, digits and capital letters, which are rare in prose.
pub const RARE_BYTES: std::ops::RangeInclusive<u8> = b'!'..=b'_';

/// What may stand at the first places of every match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lead {
    /// The bytes that may stand at each place; at least one place.
    pub places: Vec<ByteSet>,
    /// Whether no word byte stands before a match that begins with one.
    pub at_edge: bool,
}

/// How many places of an opening are looked at, in bytes.
const OPENING_PLACES: usize = 4;

/// What may stand at the very first places of every match: a look at a start before a regex is run there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    places: Vec<ByteSet>,
}

impl Opening {
    /// Returns the opening of a pattern.
    pub fn of(pattern: &Hir) -> Self {
        let width = pattern.properties().minimum_len().unwrap_or(0).min(OPENING_PLACES);
        let mut sets = [ByteSet::default(); OPENING_PLACES];
        spread(pattern, 1, &mut sets);
        Self { places: sets.into_iter().take(width).collect() }
    }

    /// Tells whether a match may begin at an offset.
    pub fn agrees(&self, text: &[u8], at: usize) -> bool {
        let Some(bytes) = text.get(at..at + self.places.len()) else { return false };
        bytes.iter().zip(&self.places).all(|(byte, set)| set.contains(*byte))
    }
}

/// Returns what the first byte of every match may be; `None` if there need not be one.
pub(super) fn first_bytes(pattern: &Hir) -> Option<ByteSet> {
    Opening::of(pattern).places.first().copied()
}

/// Returns how much a byte within a set tells, in bits: what texts are made of tells least.
fn bits(set: &ByteSet) -> f64 {
    let share =
        |all: &dyn Fn(u8) -> bool| -> u32 { (0..=u8::MAX).filter(|byte| all(*byte)).map(frequency).sum() };
    f64::from(share(&|_| true)).log2() - f64::from(share(&|byte| set.contains(byte)).max(1)).log2()
}

/// Returns how often a byte occurs in texts and code of all kinds, in shares of what a rare one does.
fn frequency(byte: u8) -> u32 {
    match byte {
        b' ' | b'\n' => 16,
        b'a'..=b'z' => 8,
        _ => 1,
    }
}

impl Lead {
    /// Tells whether a beginning says enough not to be looked at too often in any text.
    pub fn is_telling(&self) -> bool {
        self.at_edge && self.places.iter().map(bits).sum::<f64>() >= TELLING_BITS
    }
}

/// Returns the beginning of a pattern, if it is one that the table is better at than Hyperscan.
pub(super) fn of(pattern: &Hir) -> Option<Lead> {
    let width = pattern.properties().minimum_len()?.min(PLACES);
    let mut sets = [ByteSet::default(); PLACES];
    spread(pattern, 1, &mut sets);
    let sets = sets.get(..width)?;
    let rare = ByteSet::of(*RARE_BYTES.start(), *RARE_BYTES.end());
    if !sets.first()?.within(&rare) {
        return None;
    }
    let mut narrow = 0;
    for set in sets {
        narrow = if set.count() <= 2 { narrow + 1 } else { 0 };
        if narrow >= LITERAL_PLACES {
            return None;
        }
    }
    Some(Lead { places: sets.to_vec(), at_edge: begins_at_edge(&[pattern]) })
}

/// Tells whether every match of a sequence that begins with a word byte begins at the edge of a word.
fn begins_at_edge(parts: &[&Hir]) -> bool {
    let Some((first, rest)) = parts.split_first() else { return true };
    let followed = |parts: &[&Hir]| begins_at_edge(&[parts, rest].concat());
    match first.kind() {
        HirKind::Look(Look::WordAscii) => true,
        HirKind::Empty | HirKind::Look(_) => begins_at_edge(rest),
        HirKind::Literal(literal) => !literal.0.first().is_some_and(|byte| is_word(*byte)),
        HirKind::Class(Class::Bytes(class)) => {
            !class.ranges().iter().any(|range| (range.start()..=range.end()).any(is_word))
        }
        HirKind::Class(Class::Unicode(_)) => false,
        HirKind::Capture(group) => followed(&[&group.sub]),
        HirKind::Concat(parts) => followed(&parts.iter().collect::<Vec<&Hir>>()),
        HirKind::Alternation(arms) => arms.iter().all(|arm| followed(&[arm])),
        HirKind::Repetition(repeat) => followed(&[&repeat.sub]) && (repeat.min > 0 || begins_at_edge(rest)),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Notes which bytes may stand at each place, for beginnings at the places of a bit mask; returns where it may end.
fn spread(hir: &Hir, from: u32, sets: &mut [ByteSet]) -> u32 {
    if from == 0 {
        return 0;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => from,
        HirKind::Literal(literal) => {
            literal.0.iter().fold(from, |from, byte| step(from, ByteSet::of(*byte, *byte), sets))
        }
        HirKind::Class(Class::Bytes(class)) => {
            let ranges = class.ranges().iter().map(|range| ByteSet::of(range.start(), range.end()));
            step(from, ranges.fold(ByteSet::default(), ByteSet::union), sets)
        }
        HirKind::Class(Class::Unicode(_)) => step(from, ByteSet::of(0, u8::MAX), sets),
        HirKind::Capture(group) => spread(&group.sub, from, sets),
        HirKind::Concat(parts) => parts.iter().fold(from, |from, part| spread(part, from, sets)),
        HirKind::Alternation(arms) => arms.iter().fold(0, |ends, arm| ends | spread(arm, from, sets)),
        HirKind::Repetition(repeat) => {
            let (mut ends, mut at) = (0, from);
            for turn in 0..=repeat.max.unwrap_or(u32::MAX) {
                if turn >= repeat.min {
                    ends |= at;
                }
                if at == 0 || Some(turn) == repeat.max {
                    break;
                }
                at = spread(&repeat.sub, at, sets);
            }
            ends
        }
    }
}

/// Puts a set at each place of a bit mask and returns the places behind.
fn step(from: u32, set: ByteSet, sets: &mut [ByteSet]) -> u32 {
    let mut left = from;
    while left != 0 {
        if let Some(known) = sets.get_mut(left.trailing_zeros() as usize) {
            *known = known.union(set);
        }
        left &= left - 1;
    }
    from << 1 & ((1 << sets.len()) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::detector::Pattern;

    fn lead(pattern: &str) -> Option<Lead> {
        of(&Pattern::parse(pattern).unwrap().hir())
    }

    /// Tells which of the bytes may stand at each place.
    fn shown(lead: &Lead, bytes: &str) -> Vec<String> {
        let among =
            |set: &ByteSet| bytes.bytes().filter(|byte| set.contains(*byte)).map(char::from).collect();
        lead.places.iter().map(among).collect()
    }

    #[test]
    fn each_place_has_its_bytes() {
        for (pattern, expected) in [
            (r"\b(?:9[0-9]{2}|[1-4][0-9]{3})\b", &["1349", "013469", "013469"][..]),
            (r"\b[03]{2}-?[16]{2}", &["03", "03", "16-", "16"]),
            (r"(?:\(4\) ?|\b9)[0-3]{3}", &["9(", "0134", "013)", "013 "]),
        ] {
            assert_eq!(shown(&lead(pattern).unwrap(), "013469() -"), expected, "{pattern}");
        }
    }

    #[test]
    fn a_beginning_knows_whether_it_is_the_edge_of_a_word() {
        for (pattern, at_edge) in [
            (r"\b[0-9]{4}", true),
            (r"[0-9]{4}", false),
            (r"\+[1-9]", true),
            (r"(?:\b1[ .-])?(?:\([2-9]\)|\b[2-9])[0-9]", true),
            (r"(?:\b1 )?(?:\([2-9]\)|[2-9])[0-9]", false),
            (r"[(]?\b[0-9]{2}", true),
        ] {
            assert_eq!(lead(pattern).unwrap().at_edge, at_edge, "{pattern}");
        }
    }

    #[test]
    fn what_is_better_searched_otherwise_has_none() {
        for pattern in [r"\bAKIA[A-Z0-9]{16}", r"\b784-[0-9]{4}", r"\b[a-z]{9}", "[^a]12", "-----BEGIN"] {
            assert_eq!(lead(pattern), None, "{pattern}");
        }
    }
}
