//! The hash chain: each entry vouches for all before it.
//!
//! The canonical bytes of an entry are its stored form (see [`super::stored`]): JSON without spaces, fields
//! in fixed order, absent ones left out, no floating point. An entry's hash is
//! `SHA-256(previous hash ‖ canonical bytes)`.

use std::fmt;
use std::str::FromStr;

use sha2::Digest;
use sha2::Sha256;

use crate::id::Ulid;

/// A SHA-256 hash, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Hash(pub [u8; 32]);

/// The text is not a hash.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a hash: expected 64 hexadecimal digits")]
pub struct InvalidHash;

/// Where and how a chain is broken.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ChainFault {
    /// The entry was changed after it was written.
    #[error("entry {0} does not match its hash")]
    Altered(Ulid),
    /// Entries before this one were taken out, put in or moved.
    #[error("entry {0} does not follow the entry before it")]
    Unlinked(Ulid),
    /// The entry's id is not above the one before.
    #[error("entry {0} is out of order")]
    OutOfOrder(Ulid),
}

/// Follows a chain from entry to entry.
#[derive(Clone, Debug, Default)]
pub struct ChainCheck {
    last: Option<(Ulid, Hash)>,
    entries: u64,
    has_gap: bool,
}

impl Hash {
    /// Returns the hash of an entry that follows one with hash `previous`.
    pub fn of(previous: Hash, canonical: &[u8]) -> Self {
        let digest = Sha256::new().chain_update(previous.0).chain_update(canonical).finalize();
        Self(digest.into())
    }
}

impl ChainCheck {
    /// Returns a check whose first entry must follow `previous`.
    pub fn after(previous: Hash) -> Self {
        Self { last: Some((Ulid(0), previous)), ..Self::default() }
    }

    /// Says that the next entry need not follow the last one, only be younger.
    pub(super) fn skip(&mut self) {
        self.has_gap = true;
    }

    /// Returns how many entries were found in order.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns the hash of the last entry, for comparison with one noted elsewhere.
    pub fn last_hash(&self) -> Option<Hash> {
        self.last.map(|(_, hash)| hash)
    }

    /// Returns the id of the last entry that was found in order; `None` before the first.
    pub fn last_id(&self) -> Option<Ulid> {
        self.last.map(|(id, _)| id).filter(|_| self.entries > 0)
    }

    /// Takes the next entry, oldest first: its id, the hash before it, its own, and its canonical bytes. Without
    /// a known predecessor the first one is believed.
    ///
    /// # Errors
    /// The first fault.
    pub fn push(&mut self, id: Ulid, previous: Hash, hash: Hash, canonical: &[u8]) -> Result<(), ChainFault> {
        if Hash::of(previous, canonical) != hash {
            return Err(ChainFault::Altered(id));
        }
        if let Some((last_id, last_hash)) = self.last {
            if last_hash != previous && !std::mem::take(&mut self.has_gap) {
                return Err(ChainFault::Unlinked(id));
            }
            if id <= last_id {
                return Err(ChainFault::OutOfOrder(id));
            }
        }
        self.last = Some((id, hash));
        self.entries += 1;
        Ok(())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hash {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        if text.len() != 64
            || !text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        {
            return Err(InvalidHash);
        }
        let mut bytes = [0u8; 32];
        for (slot, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(pair).map_err(|_| InvalidHash)?;
            *slot = u8::from_str_radix(digits, 16).map_err(|_| InvalidHash)?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::super::sample::Link;
    use super::*;

    #[test]
    fn a_hash_reads_as_written() {
        let hash = Hash::of(Hash::default(), b"abc");
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_eq!("zz".parse::<Hash>(), Err(InvalidHash));
        assert_eq!(hash.to_string().to_uppercase().parse::<Hash>(), Err(InvalidHash));
    }

    #[test]
    fn edits_cuts_and_moves_are_found() {
        let entries = sample::chain(5);
        let verdict = |entries: &[Link]| {
            let mut check = ChainCheck::default();
            entries.iter().try_for_each(|entry| entry.check(&mut check)).map(|()| check.entries())
        };
        assert_eq!(verdict(&entries), Ok(5));
        assert_eq!(verdict(&entries[2..]), Ok(3));
        let mut edited = entries.clone();
        edited[1].canonical.push(b'!');
        assert_eq!(verdict(&edited), Err(ChainFault::Altered(edited[1].id)));
        let mut cut = entries.clone();
        cut.remove(2);
        assert_eq!(verdict(&cut), Err(ChainFault::Unlinked(entries[3].id)));
        let mut moved = entries.clone();
        moved.swap(1, 2);
        assert_eq!(verdict(&moved), Err(ChainFault::Unlinked(entries[2].id)));
        let mut from_start = ChainCheck::after(Hash::default());
        assert_eq!(entries[1].check(&mut from_start), Err(ChainFault::Unlinked(entries[1].id)));
    }
}
