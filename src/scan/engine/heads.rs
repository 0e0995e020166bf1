//! The first stage for coarse beginnings of words: digits, capital letters and separators at fixed places.
//!
//! Among many other shapes these slow Hyperscan down to a fraction; one table does them all at once. A word
//! that begins with a digit or a capital is walked along, with one bit for each shape that still agrees.

use crate::scan::shape::Shape;

/// How many shapes the table holds; what is beyond is left to Hyperscan.
const HEADS_MAX: usize = u64::BITS as usize;

/// How many bytes are looked at together for one that a shape may begin with.
const WINDOW_BYTES: usize = 32;

/// All coarse beginnings.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// By place and byte: the shapes that agree.
    rows: Vec<[u64; 256]>,
    /// By place: the shapes that end there.
    ends: Vec<u64>,
    /// By bit: the group of the shape.
    groups: Vec<u32>,
}

impl Heads {
    /// Adds a shape under its group; false if it is of another kind or the table is full.
    pub(super) fn add(&mut self, group: u32, shape: &Shape) -> bool {
        let begins = |byte: u8| shape.places.first().is_some_and(|set| set.contains(byte));
        if self.groups.len() == HEADS_MAX || !(0..=u8::MAX).any(begins) {
            return false;
        }
        if (0..=u8::MAX).any(|byte| begins(byte) && !may_begin(byte)) {
            return false;
        }
        let bit = 1 << self.groups.len();
        self.groups.push(group);
        let width = self.rows.len().max(shape.places.len());
        self.rows.resize(width, [0; 256]);
        self.ends.resize(width, 0);
        for (set, row) in shape.places.iter().zip(&mut self.rows) {
            for (byte, agree) in (0..=u8::MAX).zip(row) {
                *agree |= if set.contains(byte) { bit } else { 0 };
            }
        }
        if let Some(last) = self.ends.get_mut(shape.places.len() - 1) {
            *last |= bit;
        }
        true
    }

    /// Reports the group and the end of every shape in a text, until `report` returns false; false if it did.
    pub(super) fn scan(&self, text: &[u8], mut report: impl FnMut(u32, usize) -> bool) -> bool {
        let Some(first) = self.rows.first() else { return true };
        for (index, window) in text.chunks(WINDOW_BYTES).enumerate() {
            if !window.iter().fold(false, |any, byte| any | may_begin(*byte)) {
                continue;
            }
            for (offset, byte) in window.iter().enumerate() {
                let at = index * WINDOW_BYTES + offset;
                let is_first =
                    || at.checked_sub(1).and_then(|at| text.get(at)).is_none_or(|it| !is_word(*it));
                if first[usize::from(*byte)] != 0 && is_first() && !self.walk(text, at, &mut report) {
                    return false;
                }
            }
        }
        true
    }

    /// Follows the word that begins at an offset.
    fn walk(&self, text: &[u8], at: usize, report: &mut impl FnMut(u32, usize) -> bool) -> bool {
        let mut alive = u64::MAX;
        let places = text.get(at..).unwrap_or_default().iter().zip(self.rows.iter().zip(&self.ends));
        for (place, (byte, (row, ends))) in places.enumerate() {
            alive &= row[usize::from(*byte)];
            if alive == 0 {
                return true;
            }
            let mut ended = alive & ends;
            while ended != 0 {
                let group = self.groups.get(ended.trailing_zeros() as usize);
                if !group.is_some_and(|group| report(*group, at + place + 1)) {
                    return false;
                }
                ended &= ended - 1;
            }
        }
        true
    }
}

/// Tells whether a byte is a digit, a capital letter or a sign among them.
fn may_begin(byte: u8) -> bool {
    byte.wrapping_sub(b'0') < 0x30
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scan::engine::Engine;
    use crate::scan::fixture;

    const PATTERNS: [&str; 6] = [
        r"\b[0-9]{9}\b",
        r"\b[0-9]{3}-?[0-9]{2}-?[0-9]{4}\b",
        r"\b[A-Z][0-9]{7}[A-Z]\b",
        r"\b[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]{4}){2}",
        r"\b[0-9]{11,14}\b",
        r"\b[A-Z0-9]{5}",
    ];

    proptest! {
        #[test]
        fn what_hyperscan_would_report_is_reported(text in "(?:[0-9]{1,4}|[A-Z]{1,3}|[ a_é.-]|[0-9]{9}|X[0-9]{7}Y){0,24}") {
            let shapes = PATTERNS.map(|pattern| Shape::of(&fixture::detector("probe", pattern)));
            let mut heads = Heads::default();
            for (group, shape) in shapes.iter().enumerate() {
                prop_assert!(heads.add(group as u32, shape), "{:?}", shape);
            }
            let mut quick = Vec::new();
            heads.scan(text.as_bytes(), |group, end| {
                quick.push((group, end));
                true
            });
            let mut slow = Vec::new();
            for (group, shape) in shapes.into_iter().enumerate() {
                let engine = Engine::compile(&[Shape { places: Vec::new(), ..shape }]).unwrap();
                engine.scan(text.as_bytes(), |_| true, |runs| {
                    slow.extend(runs.iter().flat_map(|run| run.first..=run.last).map(|end| (group as u32, end)));
                }).unwrap();
            }
            quick.sort_unstable();
            slow.sort_unstable();
            prop_assert_eq!(quick, slow);
        }
    }
}
