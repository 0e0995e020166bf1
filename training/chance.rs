//! Numbers that look like chance and are always the same (SplitMix64).

/// A source of numbers.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Begins a sequence.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Begins the sequence that belongs to a text.
    pub fn of(text: &str) -> Self {
        Self(hash(text.as_bytes()))
    }

    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `limit`, which is not zero.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// Brings a list into another order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }
}

/// Returns a hash of bytes that stays the same for good.
pub fn hash(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    let fnv =
        bytes.iter().fold(start, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    Chance(fnv).next()
}
