//! The coarse beginning of a number: what a hundred identity numbers have in common.
//!
//! A shape without a literal costs Hyperscan a state machine, and many different ones cost many; see
//! [`Heads`](crate::scan::engine). Patterns that begin
//! at the edge of a word with digits, capital letters and separators are therefore all reduced to a few beginnings of
//! fixed width, `\b[0-9]{9}` or `\b[0-9]{3}[0-9 ./-]{6}`. These are shared between detectors, report once a word
//! instead of once a digit, and tell where the match begins.

use std::fmt::Write as _;

use regex_syntax::hir::Class;
use regex_syntax::hir::Hir;
use regex_syntax::hir::HirKind;
use regex_syntax::hir::Look;

use super::ByteSet;

/// How many places of a pattern are looked at, in bytes.
const PLACES: usize = 11;

/// From so many places in a row with a letter or two on, a pattern has a literal that is better than this.
const LITERAL_PLACES: u32 = 3;

/// What separates the groups of a number.
const SEPARATORS: &[u8] = b" +-./";

/// Returns the expression of a coarse beginning and what stands at its places, for patterns that have one.
pub(super) fn of(pattern: &Hir) -> Option<(String, Vec<ByteSet>)> {
    let facts = pattern.properties();
    let width = match facts.minimum_len()? {
        PLACES.. => PLACES,
        9.. => 9,
        width => width,
    };
    if !facts.look_set_prefix().contains(Look::WordAscii) {
        return None;
    }
    let mut sets = [ByteSet::default(); PLACES];
    spread(pattern, 1, &mut sets);
    let sets = sets.get(..width)?;
    let mut narrow = 0;
    for set in sets {
        narrow = if set.count() <= 2 { narrow + 1 } else { 0 };
        if narrow >= LITERAL_PLACES {
            return None;
        }
    }
    written(sets)
}

/// Notes which bytes may stand at each place, for beginnings at the places of a bit mask; returns where it may end.
fn spread(hir: &Hir, from: u16, sets: &mut [ByteSet; PLACES]) -> u16 {
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
fn step(from: u16, set: ByteSet, sets: &mut [ByteSet; PLACES]) -> u16 {
    for (_, known) in sets.iter_mut().enumerate().filter(|(place, _)| from & (1 << place) != 0) {
        *known = known.union(set);
    }
    from << 1 & ((1 << PLACES) - 1)
}

/// Writes each place as the smallest of a few classes; nothing if one has other bytes.
fn written(sets: &[ByteSet]) -> Option<(String, Vec<ByteSet>)> {
    let digits = ByteSet::of(b'0', b'9');
    let capitals = ByteSet::of(b'A', b'Z');
    let signs = SEPARATORS.iter().fold(ByteSet::default(), |set, byte| set.union(ByteSet::of(*byte, *byte)));
    let plain = [(digits, "[0-9]"), (capitals, "[A-Z]"), (digits.union(capitals), "[0-9A-Z]")];
    let parted = [
        (digits.union(signs), r"[\x20\x2b\x2d-\x2f0-9]"),
        (digits.union(capitals).union(signs), r"[\x20\x2b\x2d-\x2f0-9A-Z]"),
    ];
    let mut is_parted = false;
    let mut classes: Vec<(&str, usize)> = Vec::new();
    let mut places = Vec::new();
    for (place, set) in sets.iter().enumerate() {
        is_parted |= set.meets(&signs);
        if is_parted && place == 0 {
            return None;
        }
        let choices = if is_parted { parted.as_slice() } else { plain.as_slice() };
        let (choice, class) = choices.iter().find(|(choice, _)| set.within(choice))?;
        places.push(*choice);
        match classes.last_mut() {
            Some((last, count)) if last == class => *count += 1,
            _ => classes.push((class, 1)),
        }
    }
    let mut out = String::from(r"\b");
    for (class, count) in classes {
        write!(out, "{class}{{{count}}}").ok()?;
    }
    Some((out, places))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::detector::Pattern;

    fn lead(pattern: &str) -> Option<String> {
        of(Pattern::parse(pattern).unwrap().hir()).map(|(written, _)| written)
    }

    #[test]
    fn numbers_share_their_beginnings() {
        for (patterns, expected) in [
            ([r"\b[0-9]{9}\b", r"\b(?:9[0-9]{8}|[1-4][0-9]{9})\b"], r"\b[0-9]{9}"),
            (
                [r"\b[0-9]{3}-?[0-9]{2}-?[0-9]{4}\b", r"\b[0-9]{3}(?:[0-9]{6}|[. ][0-9]{6})"],
                r"\b[0-9]{3}[\x20\x2b\x2d-\x2f0-9]{6}",
            ),
            ([r"\b[STG][0-9]{7}[A-Z]\b", r"\bX[0-9]{7}[KL]"], r"\b[A-Z]{1}[0-9]{7}[A-Z]{1}"),
            (
                [r"\b(?:[A-Z]{2}|[0-9])[0-9]{4}", r"\b(?:[AB]|[3-7])[0-9A-D][0-9]{3,9}"],
                r"\b[0-9A-Z]{2}[0-9]{3}",
            ),
        ] {
            for pattern in patterns {
                assert_eq!(lead(pattern).as_deref(), Some(expected), "{pattern}");
            }
        }
    }

    #[test]
    fn what_is_better_searched_otherwise_has_none() {
        for pattern in [
            r"[0-9]{9}",
            r"\bAKIA[A-Z0-9]{16}",
            r"\b784-[0-9]{4}",
            r"\b[a-z]{9}",
            r"\b[0-9]{2}:[0-9]{2}",
            r"\b-[0-9]{4}",
        ] {
            assert_eq!(lead(pattern), None, "{pattern}");
        }
    }
}
