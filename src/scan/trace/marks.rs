//! Fingerprints that are known, and the spelling that each is of.

use std::ops::Range;

/// Odd, and with their bits spread: what the words of a fingerprint are multiplied with.
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];
/// The places of a table for each fingerprint that it has room for.
const SLOTS_EACH: usize = 4;
/// How many bytes a fingerprint takes at most, with its places.
pub(super) const BYTES_EACH: usize = size_of::<u64>() + 2 * SLOTS_EACH * size_of::<u32>();
/// Stands for a place that is free.
const FREE: u32 = 0;

/// The fingerprints of so many letters, by spelling.
#[derive(Default)]
pub(super) struct Marks<const COUNT: usize> {
    /// In the order they were learnt.
    known: Vec<u64>,
    /// By hash: the number of a fingerprint in `known`, from one on. A power of two, of which most are free.
    slots: Vec<u32>,
    /// By spelling: how many fingerprints it has.
    totals: Vec<usize>,
}

impl<const COUNT: usize> Marks<COUNT> {
    /// Returns none, with room for so many.
    pub(super) fn with_room_for(marks: usize) -> Self {
        Self {
            known: Vec::with_capacity(marks),
            slots: vec![FREE; (SLOTS_EACH * marks).next_power_of_two()],
            totals: Vec::new(),
        }
    }

    /// Learns what is known of one more spelling; what is known already counts for the one before.
    pub(super) fn learn(&mut self, grams: impl IntoIterator<Item = [u8; COUNT]>) {
        let before = self.known.len();
        for gram in grams {
            self.grow();
            let mark = fingerprint(&gram);
            if let Err(free) = self.place(mark) {
                self.known.push(mark);
                if let Some(slot) = self.slots.get_mut(free) {
                    *slot = self.known.len() as u32;
                }
            }
        }
        self.totals.push(self.known.len() - before);
    }

    /// Returns the number of the fingerprint of some letters, and that of its spelling.
    #[inline]
    pub(super) fn find(&self, gram: &[u8; COUNT]) -> Option<(usize, usize)> {
        let at = self.place(fingerprint(gram)).ok()?;
        let mut ends = self.totals.iter().scan(0, |end, total| {
            *end += total;
            Some(*end)
        });
        Some((at, ends.position(|end| at < end)?))
    }

    /// Returns how many fingerprints there are.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Tells whether nothing was learnt.
    pub(super) fn is_empty(&self) -> bool {
        self.totals.is_empty()
    }

    /// Returns how many fingerprints each spelling has.
    pub(super) fn totals(&self) -> &[usize] {
        &self.totals
    }

    /// Returns the number of a fingerprint, or the place that is free for it.
    #[inline]
    fn place(&self, mark: u64) -> Result<usize, usize> {
        let last = self.slots.len().wrapping_sub(1);
        let mut place = (mark >> 32) as usize & last;
        loop {
            match self.slots.get(place).copied().unwrap_or(FREE) {
                FREE => return Err(place),
                number if self.known.get(number as usize - 1) == Some(&mark) => {
                    return Ok(number as usize - 1);
                }
                _ => place = (place + 1) & last,
            }
        }
    }

    /// Makes room for one more fingerprint.
    fn grow(&mut self) {
        if 2 * (self.known.len() + 1) <= self.slots.len() {
            return;
        }
        self.slots = vec![FREE; (SLOTS_EACH * (self.known.len() + 1)).next_power_of_two()];
        let known: Range<usize> = 0..self.known.len();
        for number in known {
            let mark = self.known.get(number).copied().unwrap_or_default();
            if let Err(free) = self.place(mark)
                && let Some(slot) = self.slots.get_mut(free)
            {
                *slot = number as u32 + 1;
            }
        }
    }
}

/// Returns the fingerprint of letters.
#[inline]
fn fingerprint<const COUNT: usize>(gram: &[u8; COUNT]) -> u64 {
    let [one, other] = FACTORS;
    let (words, _) = gram.as_chunks::<{ size_of::<u64>() }>();
    let hash = words.iter().fold(one, |hash, word| {
        let mixed = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(other);
        mixed ^ mixed >> 29
    });
    hash.wrapping_mul(one)
}
