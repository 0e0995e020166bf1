//! Identifiers that sort by time: ULIDs (github.com/ulid/spec), written in Crockford base 32.

use std::fmt;
use std::str::FromStr;

use parking_lot::Mutex;

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// How many characters a ULID has.
const LENGTH: usize = 26;
const RANDOM_BITS: u32 = 80;

/// A 128-bit identifier: 48 bits of Unix milliseconds, then 80 random bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ulid(pub u128);

/// Makes ULIDs that never go back, also within one millisecond and when the clock is set back.
#[derive(Debug, Default)]
pub struct UlidSource {
    last: Mutex<u128>,
}

/// The text is not a ULID.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a ULID: expected 26 characters of Crockford base 32")]
pub struct InvalidUlid;

impl UlidSource {
    /// Returns a source whose identifiers are all above `last`.
    pub fn after(last: Ulid) -> Self {
        Self { last: Mutex::new(last.0) }
    }

    /// Returns the next identifier for a moment given in Unix milliseconds.
    ///
    /// Within one millisecond identifiers are counted up, as the specification has it: that spares a
    /// system call for most of them.
    pub fn next(&self, unix_ms: i64) -> Ulid {
        let time = unix_ms.max(0) as u128;
        let mut last = self.last.lock();
        *last = match time > *last >> RANDOM_BITS {
            true => time << RANDOM_BITS | random_bits(),
            false => *last + 1,
        };
        Ulid(*last)
    }
}

fn random_bits() -> u128 {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    u128::from_le_bytes(bytes) >> (128 - RANDOM_BITS)
}

impl Ulid {
    /// Returns the moment the identifier was made at, in Unix milliseconds.
    pub fn unix_ms(self) -> i64 {
        (self.0 >> RANDOM_BITS) as i64
    }

    /// Returns its 26 characters.
    pub fn to_text(self) -> [u8; LENGTH] {
        let mut text = [0u8; LENGTH];
        // Two halves of 64 bits, for shifting one of 128 bits takes several steps each time.
        let (mut low, mut high) = (self.0 as u64, (self.0 >> 65) as u64);
        let middle = (self.0 >> 60) as u8 & 31;
        let (front, back) = text.split_at_mut(13);
        for slot in front.iter_mut().rev() {
            *slot = ALPHABET[(high & 31) as usize];
            high >>= 5;
        }
        for slot in back.iter_mut().skip(1).rev() {
            *slot = ALPHABET[(low & 31) as usize];
            low >>= 5;
        }
        if let Some(slot) = back.first_mut() {
            *slot = ALPHABET[usize::from(middle)];
        }
        text
    }
}

impl fmt::Display for Ulid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.to_text()).expect("the alphabet is ASCII"))
    }
}

impl fmt::Debug for Ulid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Ulid {
    type Err = InvalidUlid;

    fn from_str(text: &str) -> Result<Self, InvalidUlid> {
        if text.len() != LENGTH || text.as_bytes().first().is_some_and(|first| *first > b'7') {
            return Err(InvalidUlid);
        }
        text.bytes().try_fold(Ulid(0), |id, byte| {
            let digit = ALPHABET.iter().position(|known| *known == byte.to_ascii_uppercase());
            digit.map(|digit| Ulid(id.0 << 5 | digit as u128)).ok_or(InvalidUlid)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_value_agree() {
        let id = UlidSource::default().next(1_469_918_176_385);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!(id.to_string().starts_with("01ARYZ6S41"));
        assert_eq!(id.unix_ms(), 1_469_918_176_385);
        assert_eq!("8ZZZZZZZZZZZZZZZZZZZZZZZZZ".parse::<Ulid>(), Err(InvalidUlid));
    }

    #[test]
    fn identifiers_rise_when_the_clock_falls() {
        let source = UlidSource::default();
        let ids: Vec<Ulid> = [5, 5, 4, 3, 6].map(|ms| source.next(ms)).to_vec();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
