//! Texts that were clean: what a chat sends again with each turn is read once.
//!
//! In: a text and the circumstances it is judged under. Out: whether the same text was clean under the same
//! circumstances before. A text is clean if no layer finds anything in it, whatever a policy would do about it, so
//! that a text that is known needs no answer but the one a full scan would give. Only texts are known, not bodies:
//! a new turn is read as if it stood alone, and that is how it is read anyway.
//!
//! Kept are hashes of 128 bits under a key of this process that nobody sees: the tags of AES-256-GCM over the text,
//! part by part, each with the tag before it as additional data and the circumstances for a nonce. What is sealed is
//! thrown away and no tag leaves the process, so that one nonce may serve many texts. A tag is a polynomial of its
//! text at a secret place: without the key, two texts of `n` bytes have the same one with a chance below `n / 2^120`,
//! whoever chose them; from a hash nothing leads back to its text. The caller is one of the circumstances: how fast a
//! text is answered tells nobody what others sent. A memo belongs to one ruleset and ends with it; its room is fixed,
//! and a text takes the place of the oldest of its set.

use parking_lot::Mutex;
use ring::aead;
use ring::aead::AES_256_GCM;
use ring::aead::Aad;
use ring::aead::LessSafeKey;
use ring::aead::NONCE_LEN;
use ring::aead::Nonce;
use ring::aead::UnboundKey;
use ring::rand::SecureRandom;
use ring::rand::SystemRandom;

use crate::scan::threat::DetectorSet;

/// The shortest text that is worth knowing, in bytes: others are read as fast as they are hashed.
pub const TEXT_BYTES_MIN: usize = 64;

/// How many parts a memo has, each with a lock of its own.
const SHARDS: usize = 16;
/// How many sets a part has.
const SETS: usize = 1024;
/// How many texts a set knows.
const WAYS: usize = 4;
/// How many bytes a key has.
const KEY_BYTES: usize = 32;
/// How many bytes of a text are hashed at once.
const PART_BYTES: usize = 4 << 10;
/// How many bytes most texts have at most: a message, what is looked for.
const FEW_BYTES: usize = 512;

/// A text under its circumstances.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tag(u128);

/// What else a verdict depends on: what is looked for, and for whom.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Circumstances(u64);

/// The texts that were clean.
pub struct Memo {
    /// Without randomness there is no key, and nothing is known.
    key: Option<LessSafeKey>,
    /// Empty until something is noted.
    shards: [Mutex<Vec<[u128; WAYS]>>; SHARDS],
}

impl Default for Memo {
    fn default() -> Self {
        let mut key = [0; KEY_BYTES];
        let key = SystemRandom::new().fill(&mut key).and_then(|()| UnboundKey::new(&AES_256_GCM, &key));
        Self { key: key.ok().map(LessSafeKey::new), shards: Default::default() }
    }
}

impl Memo {
    /// Returns what verdicts for a caller depend on who looks for the `wanted`.
    pub fn circumstances(&self, wanted: &DetectorSet, caller: &str) -> Option<Circumstances> {
        let words = wanted.words();
        // Told how many words there are, nobody's name reads as one more of them.
        let mut told = Vec::with_capacity((words.len() + 1) * size_of::<u64>() + caller.len());
        told.extend_from_slice(&(words.len() as u64).to_le_bytes());
        words.iter().for_each(|word| told.extend_from_slice(&word.to_le_bytes()));
        told.extend_from_slice(caller.as_bytes());
        let Tag(hash) = self.hash([0xff; NONCE_LEN], &told)?;
        Some(Circumstances(hash as u64))
    }

    /// Returns the tag of a text; `origin` tells whose words it is read as.
    pub fn tag(&self, circumstances: Circumstances, origin: u8, text: &[u8]) -> Option<Tag> {
        let mut nonce = [0; NONCE_LEN];
        let (first, rest) = nonce.split_at_mut(size_of::<u64>());
        first.copy_from_slice(&circumstances.0.to_le_bytes());
        rest.first_mut().into_iter().for_each(|byte| *byte = origin);
        self.hash(nonce, text)
    }

    /// Tells whether a text was clean.
    pub fn knows(&self, Tag(tag): Tag) -> bool {
        let (shard, set) = place(tag);
        self.shards
            .get(shard)
            .is_some_and(|shard| shard.lock().get(set).is_some_and(|set| set.contains(&tag)))
    }

    /// Notes that a text is clean.
    pub fn note(&self, Tag(tag): Tag) {
        let (shard, set) = place(tag);
        let Some(shard) = self.shards.get(shard) else { return };
        let mut shard = shard.lock();
        if shard.is_empty() {
            shard.resize(SETS, [0; WAYS]);
        }
        if let Some(set) = shard.get_mut(set)
            && !set.contains(&tag)
        {
            set.rotate_right(1);
            set[0] = tag;
        }
    }

    /// Returns the hash of bytes; zero stands for none, and no bytes have none.
    fn hash(&self, nonce: [u8; NONCE_LEN], bytes: &[u8]) -> Option<Tag> {
        match bytes.len() {
            // To clear room for more takes longer than to hash them.
            ..=FEW_BYTES => self.hash_in([0; FEW_BYTES], nonce, bytes),
            _ => self.hash_in([0; PART_BYTES], nonce, bytes),
        }
    }

    /// Returns the same, part by part in some room.
    fn hash_in<const BYTES: usize>(
        &self,
        mut room: [u8; BYTES],
        nonce: [u8; NONCE_LEN],
        bytes: &[u8],
    ) -> Option<Tag> {
        let key = self.key.as_ref()?;
        let mut tag: Option<aead::Tag> = None;
        for part in bytes.chunks(BYTES) {
            let sealed = room.get_mut(..part.len())?;
            sealed.copy_from_slice(part);
            let before = Aad::from(tag.as_ref().map_or(&[][..], aead::Tag::as_ref));
            let nonce = Nonce::assume_unique_for_key(nonce);
            tag = Some(key.seal_in_place_separate_tag(nonce, before, sealed).ok()?);
        }
        let hash = u128::from_le_bytes(tag?.as_ref().try_into().ok()?);
        (hash != 0).then_some(Tag(hash))
    }
}

/// Returns the part and the set that a hash belongs to.
///
/// A tag is linear in its text: of texts that differ in a few bits (numbered ones, say) all could lie in a quarter of
/// the sets. Multiplied by an odd number (Knuth's, 2^64 over the golden ratio), its upper bits are not.
fn place(tag: u128) -> (usize, usize) {
    let mixed = (tag as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let mixed = mixed as usize;
    (mixed % SHARDS, mixed / SHARDS % SETS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::threat::DetectorId;

    #[test]
    fn a_text_is_known_under_its_circumstances_only() {
        let memo = Memo::default();
        let wanted = |ids: &[u16]| ids.iter().map(|id| DetectorId(*id)).collect::<DetectorSet>();
        let usual = memo.circumstances(&wanted(&[1, 70]), "ann").unwrap();
        let tag = memo.tag(usual, 1, b"hello").unwrap();
        assert!(!memo.knows(tag));
        memo.note(tag);
        assert!(memo.knows(memo.tag(usual, 1, b"hello").unwrap()));
        let others = [
            memo.tag(usual, 2, b"hello"),
            memo.tag(usual, 1, b"hello\0"),
            memo.tag(memo.circumstances(&wanted(&[1, 70]), "bob").unwrap(), 1, b"hello"),
            memo.tag(memo.circumstances(&wanted(&[1, 71]), "ann").unwrap(), 1, b"hello"),
            // The second word of what is wanted, as it would begin a caller's name.
            memo.tag(memo.circumstances(&wanted(&[1]), "@\0\0\0\0\0\0\0ann").unwrap(), 1, b"hello"),
            Memo::default().tag(usual, 1, b"hello"),
        ];
        assert!(others.into_iter().all(|other| !memo.knows(other.unwrap())));
    }

    #[test]
    fn every_byte_of_a_long_text_counts() {
        let memo = Memo::default();
        let usual = memo.circumstances(&DetectorSet::default(), "").unwrap();
        let text = vec![b'a'; 3 * PART_BYTES];
        memo.note(memo.tag(usual, 0, &text).unwrap());
        assert!(memo.knows(memo.tag(usual, 0, &text).unwrap()));
        for at in [0, 1, PART_BYTES - 1, PART_BYTES, 2 * PART_BYTES + 7, 3 * PART_BYTES - 1] {
            let mut other = text.clone();
            other[at] = b'b';
            assert!(!memo.knows(memo.tag(usual, 0, &other).unwrap()), "other at {at}");
        }
        for length in [1, PART_BYTES, 2 * PART_BYTES, 3 * PART_BYTES - 1] {
            assert!(!memo.knows(memo.tag(usual, 0, &text[..length]).unwrap()), "{length} bytes of it");
        }
    }

    #[test]
    fn old_texts_make_room_for_new_ones() {
        // Whatever the key.
        (0..8).for_each(|_| old_texts_make_room(&Memo::default()));
    }

    fn old_texts_make_room(memo: &Memo) {
        let usual = memo.circumstances(&DetectorSet::default(), "").unwrap();
        let tags: Vec<Tag> =
            (0..200_000_u32).filter_map(|at| memo.tag(usual, 0, &at.to_le_bytes())).collect();
        tags.iter().for_each(|tag| memo.note(*tag));
        let known = tags.iter().filter(|tag| memo.knows(**tag)).count();
        assert!((SHARDS * SETS * WAYS / 2..=SHARDS * SETS * WAYS).contains(&known), "{known}");
        assert!(tags.iter().rev().take(100).all(|tag| memo.knows(*tag)));
    }
}
