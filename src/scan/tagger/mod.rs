//! The tagger: a trained model that finds names of people, addresses, places and organisations in running text.
//!
//! In: a text, whole or while it arrives ([`reading`]). Out: where such names stand and how likely they are. A text is cut
//! into tokens ([`token`]); what a token and its neighbours look like ([`feature`]) is looked up in hashed weights; and a
//! chain ([`chain`]) makes one story of what each of them says. The model is data: a folder of `plugins/models` with a
//! card, its file read by [`format`](mod@format).
//!
//! It reads a text as it stands: nothing is decoded for it but the escapes of JSON ([`escape`]). It is never certain; its card says how often it was wrong on
//! texts it did not learn from. It costs nothing where no policy names what it finds.

use std::fmt;

pub mod chain;
pub mod escape;
pub mod feature;
pub mod format;
pub mod late;
pub mod names;
pub mod reading;
pub mod token;

use chain::Row;
use chain::STATES;
use chain::Steps;
use feature::BEFORE;
use feature::BEHIND;
use feature::Look;
use feature::Past;
use feature::Vocabulary;
use reading::Late;
use reading::Reading;
use reading::Span;

/// What a feature says of each state; the room behind the states is empty.
pub type Weights = [i8; 16];

/// A model, ready to read; immutable, to be shared between threads.
#[derive(Clone, PartialEq)]
pub struct Tagger {
    /// The logarithm of how many buckets there are.
    pub bits: u32,
    /// The weights by bucket.
    pub table: Vec<Weights>,
    /// What one of a weight is worth in log odds.
    pub scale: f32,
    /// The log odds of each state after each other.
    pub odds: [Row; STATES],
    /// How likely a token must be a part of something to count as one, by tag.
    pub least: [f32; 4],
    /// The words it knows.
    pub words: Words,
    /// The same as `odds`, as factors.
    pub steps: Steps,
}

/// How many places are looked at for a word, at most: many more than there are for hashes that fall anywhere.
pub const PROBES_MAX: usize = 256;

/// Words, by hash, and the lists they stand in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// A power of two of places; a word lies in the first free one from where its hash points.
    slots: Vec<(u32, u8)>,
    entries: Vec<(u32, u8)>,
}

impl Words {
    /// Takes words; what stands there twice is in the lists of both. None where so many of their hashes fall on one
    /// place that one would be looked for at more than [`PROBES_MAX`].
    pub fn new(mut entries: Vec<(u32, u8)>) -> Option<Self> {
        entries.retain(|(hash, lists)| *hash != 0 && *lists != 0);
        entries.sort_unstable();
        entries.dedup_by(|one, kept| {
            let same = one.0 == kept.0;
            if same {
                kept.1 |= one.1;
            }
            same
        });
        let mut slots = vec![(0, 0); (entries.len() * 2).next_power_of_two().max(2)];
        let mask = slots.len() - 1;
        for entry in &entries {
            let first = entry.0 as usize & mask;
            let free = (0..PROBES_MAX).map(|step| (first + step) & mask).find(|at| slots[*at].0 == 0)?;
            slots[free] = *entry;
        }
        Some(Self { slots, entries })
    }

    /// Returns the words and their lists, the smallest hash first.
    pub fn entries(&self) -> &[(u32, u8)] {
        &self.entries
    }
}

impl Vocabulary for Words {
    #[inline]
    fn lists(&self, hash: u32) -> u8 {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        while let Some((known, lists)) = self.slots.get(at).copied() {
            if known == hash {
                return lists;
            }
            if known == 0 {
                return 0;
            }
            at = (at + 1) & mask;
        }
        0
    }
}

impl Tagger {
    /// Finds everything in a whole text.
    pub fn find(&self, text: &[u8]) -> Vec<Span> {
        let (mut reading, mut spans) = (Reading::default(), Vec::new());
        reading.push(self, text, &mut spans);
        reading.finish(self, &mut spans);
        spans
    }

    /// Finds everything in a whole text, for as long as there is time.
    ///
    /// # Errors
    /// The time was over before its end.
    pub fn find_in_time(&self, text: &[u8], expired: &(dyn Fn() -> bool + Sync)) -> Result<Vec<Span>, Late> {
        let (mut reading, mut spans) = (Reading::default(), Vec::new());
        reading.push_in_time(self, text, &mut spans, expired)?;
        reading.finish(self, &mut spans);
        Ok(spans)
    }

    /// Returns what speaks for each state of a token.
    #[inline]
    fn odds(&self, looks: &[Look; BEFORE + 1 + BEHIND], past: &Past) -> Row {
        let mut sums = [0i16; 16];
        let shift = 32 - self.bits;
        feature::features(looks, past, &self.words, |feature| {
            if let Some(weights) = self.table.get((feature >> shift) as usize) {
                sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += i16::from(*weight));
            }
        });
        std::array::from_fn(|state| f32::from(sums[state]) * self.scale)
    }
}

impl fmt::Debug for Tagger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tagger").field("bits", &self.bits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
