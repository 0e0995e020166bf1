//! What a model says of single words, remembered from one text to the next.
//!
//! People use few words, over and over. In: a word and a way to find out about it. Out: what was found out, now or
//! before. A word is known by its very bytes, so nothing another text said can change what is said of it; long ones
//! are not remembered. The room is fixed: a word takes the place of the one that was there.

use super::lexicon::Meaning;
use super::normal::Key;
use super::pool::HEADS;

/// The logarithm of how many words are remembered.
const SLOTS_BITS: u32 = 11;
/// How many words are remembered.
const SLOTS: usize = 1 << SLOTS_BITS;

/// What a model says of a word alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// What its features weigh together, by head.
    pub weight: [i16; HEADS],
    /// What it means.
    pub meaning: Meaning,
}

/// A word and what is said of it; no word has the key zero.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    key: Key,
    said: Said,
}

/// The words of one model.
#[derive(Clone, Debug)]
pub struct Known(Box<[Slot]>);

impl Default for Known {
    fn default() -> Self {
        Self(vec![Slot::default(); SLOTS].into_boxed_slice())
    }
}

impl Known {
    /// Returns what is said of a word, asking `learn` if it is not known.
    #[inline]
    pub fn of(&mut self, key: Key, hash: u64, learn: impl FnOnce() -> Said) -> Said {
        let Some(slot) = self.0.get_mut((hash >> (u64::BITS - SLOTS_BITS)) as usize) else { return learn() };
        if slot.key != key {
            *slot = Slot { key, said: learn() };
        }
        slot.said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_one_place_are_not_taken_for_each_other() {
        let mut known = Known::default();
        let said = |weight: i16| Said { weight: [weight; HEADS], ..Said::default() };
        assert_eq!(known.of([1, 2], 7, || said(1)), said(1));
        assert_eq!(known.of([1, 2], 7, || said(2)), said(1));
        assert_eq!(known.of([1, 3], 7, || said(3)), said(3));
        assert_eq!(known.of([1, 2], 7, || said(4)), said(4));
    }
}
