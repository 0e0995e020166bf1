//! Words of many languages by what they mean to an attack: to drop, earlier, orders, to show, a secret.
//!
//! In: entries such as `ignor*` or `from now on` with the number of their concept. Out: for a normal text, the
//! concepts in it, in order. A `*` at the end stands for any ending. Scripts without spaces are searched from
//! each character on. Entries are kept as hashes: a false hit takes two texts of one 64-bit hash.

use super::normal::Normal;

/// The most concepts there may be.
pub const CONCEPTS_MAX: usize = 64;
/// The most entries a lexicon may have.
pub const ENTRIES_MAX: usize = 1 << 16;

/// The most words of one entry.
const PHRASE_WORDS_MAX: usize = 5;
/// The longest entry of a script without spaces, in characters.
const GLUED_CHARACTERS_MAX: usize = 10;
/// The shortest beginning of a word that an entry with `*` may have, in bytes.
const PREFIX_BYTES_MIN: usize = 3;
/// The longest beginning of a word that is looked up, in bytes.
const ENTRY_BYTES_MAX: usize = 64;
/// The bits of the filters before the table.
const FILTER_BITS: u32 = 16;
/// The bits of a hash by which entries are found.
const BUCKET_BITS: u32 = 12;

/// From this bit on, a hash has taken in its last byte.
const LAST_BYTE_SHIFT: u32 = 40;

const EXACT: u8 = 1;
const PREFIX: u8 = 2;
const OPENS: u8 = 4;

/// One entry, as models keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The hash of its normal form.
    pub hash: u64,
    /// Its concept; meaningless where it only opens a phrase.
    pub concept: u8,
    /// Whether it is a word, the beginning of one, or opens a phrase.
    pub kinds: u8,
}

/// Entries, ready to be looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lexicon {
    entries: Vec<Entry>,
    /// By the first bits of a hash: the first entry that begins with them or more.
    buckets: Vec<u32>,
    /// What whole words and phrases look like.
    wholes: Filter,
    /// What beginnings of words look like.
    beginnings: Filter,
}

/// A bit for some bits of each hash it was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Filter(Vec<u64>);

/// What a word means, whatever stands around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meaning {
    /// The hash by which entries know it.
    pub hash: u64,
    /// Its concept.
    pub concept: Option<u8>,
    /// Whether entries of several words begin with it.
    pub opens: bool,
}

/// One concept in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Which concept.
    pub concept: u8,
    /// The number of its first word.
    pub word: u32,
    /// Where it begins in the normal text.
    pub at: u32,
    /// What stands before it, as in [`Word::gap`].
    pub gap: u8,
}

/// Begins the hash of a word.
pub fn begin() -> u64 {
    0xcbf2_9ce4_8422_2325
}

/// Takes one more byte into a hash.
pub fn step(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

/// Returns the hash of some bytes.
pub fn hash_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(begin(), |hash, byte| step(hash, *byte))
}

/// Turns what is written in a lexicon into entries; `text` is in the canonical view.
pub fn entries_of(text: &[u8], concept: u8) -> Vec<Entry> {
    let (stem, is_prefix) = match text.strip_suffix(b"*") {
        Some(stem) => (stem, true),
        None => (text, false),
    };
    let normal = Normal::of(stem);
    let kind = if is_prefix { PREFIX } else { EXACT };
    let mut entries = Vec::new();
    let mut hash = begin();
    for (at, word) in normal.words().iter().take(PHRASE_WORDS_MAX.max(GLUED_CHARACTERS_MAX)).enumerate() {
        if at > 0 && !word.glued {
            entries.push(Entry { hash, concept: 0, kinds: OPENS });
            hash = step(hash, b' ');
        }
        hash = normal.word(word).iter().fold(hash, |hash, byte| step(hash, *byte));
    }
    entries.push(Entry { hash, concept, kinds: kind });
    entries
}

impl Lexicon {
    /// Takes entries; of two with the same hash the first gives the concept, and both their kinds count.
    pub fn new(mut entries: Vec<Entry>) -> Self {
        entries.sort_by_key(|entry| (entry.hash, entry.kinds == OPENS));
        entries.dedup_by(|next, kept| {
            let same = next.hash == kept.hash;
            if same {
                kept.kinds |= next.kinds;
            }
            same
        });
        let of_kind = |kinds: u8| entries.iter().filter(move |entry| entry.kinds & kinds != 0);
        let wholes = Filter::of(of_kind(EXACT | OPENS));
        let beginnings = Filter::of(of_kind(PREFIX));
        let bucket = |first: u64| entries.partition_point(|entry| entry.hash >> (64 - BUCKET_BITS) < first);
        let buckets = (0..=1 << BUCKET_BITS).map(|first| bucket(first) as u32).collect();
        Self { entries, buckets, wholes, beginnings }
    }

    /// Returns the entries, sorted by hash.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn find(&self, hash: u64) -> Option<&Entry> {
        let bucket = (hash >> (64 - BUCKET_BITS)) as usize;
        let (first, last) = (*self.buckets.get(bucket)?, *self.buckets.get(bucket + 1)?);
        self.entries.get(first as usize..last as usize)?.iter().find(|entry| entry.hash == hash)
    }

    /// Returns the entry of a whole word, a whole phrase, or the first words of one.
    fn whole(&self, hash: u64) -> Option<&Entry> {
        if !self.wholes.may_have(hash) {
            return None;
        }
        self.find(hash).filter(|entry| entry.kinds & (EXACT | OPENS) != 0)
    }

    /// Returns the entry that stands for any ending.
    fn beginning(&self, hash: u64) -> Option<&Entry> {
        if !self.beginnings.may_have(hash) {
            return None;
        }
        self.find(hash).filter(|entry| entry.kinds & PREFIX != 0)
    }

    /// Returns what a word means alone: the concept of the whole word, or of its longest beginning.
    pub fn meaning(&self, word: &[u8]) -> Meaning {
        let mut hash = begin();
        let mut concept = None;
        for (at, byte) in word.iter().enumerate() {
            hash = step(hash, *byte);
            if at + 1 >= PREFIX_BYTES_MIN
                && at < ENTRY_BYTES_MAX
                && let Some(entry) = self.beginning(hash)
            {
                concept = Some(entry.concept);
            }
        }
        let whole = self.whole(hash);
        let exact = whole.filter(|entry| entry.kinds & EXACT != 0).map(|entry| entry.concept);
        let opens = whole.is_some_and(|entry| entry.kinds & OPENS != 0);
        Meaning { hash, concept: exact.or(concept), opens }
    }

    /// Returns the concept of the longest entry that begins with a word, and the first word behind it.
    pub fn longest(&self, normal: &Normal, at: usize, meaning: &Meaning) -> Option<(u8, usize)> {
        let is_glued = normal.words().get(at)?.glued;
        let longer = match (is_glued, meaning.opens) {
            (true, _) => self.glued(normal, at),
            (false, true) => self.phrase(normal, at, meaning.hash),
            (false, false) => None,
        };
        longer.or(meaning.concept.map(|concept| (concept, at + 1)))
    }

    /// Returns the longest phrase that begins with a word.
    fn phrase(&self, normal: &Normal, at: usize, first: u64) -> Option<(u8, usize)> {
        let mut hash = first;
        let mut found = None;
        for (next, word) in normal.words().iter().enumerate().skip(at + 1).take(PHRASE_WORDS_MAX - 1) {
            hash = step(hash, b' ');
            let mut prefix = None;
            for byte in normal.word(word) {
                hash = step(hash, *byte);
                prefix = self.beginning(hash).or(prefix);
            }
            let exact = self.whole(hash);
            let hit = exact.filter(|entry| entry.kinds & EXACT != 0).or(prefix);
            found = hit.map(|entry| (entry.concept, next + 1)).or(found);
            if exact.is_none_or(|entry| entry.kinds & OPENS == 0) {
                break;
            }
        }
        found
    }

    /// Returns the longest entry that begins with a character of a script without spaces.
    fn glued(&self, normal: &Normal, at: usize) -> Option<(u8, usize)> {
        let mut hash = begin();
        let mut found = None;
        for (next, word) in normal.words().iter().enumerate().skip(at).take(GLUED_CHARACTERS_MAX) {
            if !word.glued || (next > at && word.gap != 0) {
                break;
            }
            hash = normal.word(word).iter().fold(hash, |hash, byte| step(hash, *byte));
            let exact = self.whole(hash).filter(|entry| entry.kinds & EXACT != 0);
            let hit = exact.or_else(|| self.beginning(hash));
            found = hit.map(|entry| (entry.concept, next + 1)).or(found);
        }
        found
    }
}

impl Filter {
    fn of<'e>(entries: impl Iterator<Item = &'e Entry>) -> Self {
        let mut bits = vec![0; 1 << (FILTER_BITS - 6)];
        for entry in entries {
            let (word, bit) = Self::place(entry.hash);
            if let Some(word) = bits.get_mut(word) {
                *word |= bit;
            }
        }
        Self(bits)
    }

    /// Returns the word and the bit for a hash: bits that its last byte changes, too.
    fn place(hash: u64) -> (usize, u64) {
        let index = hash >> LAST_BYTE_SHIFT & ((1 << FILTER_BITS) - 1);
        ((index >> 6) as usize, 1 << (index & 63))
    }

    fn may_have(&self, hash: u64) -> bool {
        let (word, bit) = Self::place(hash);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::classifier::feature;
    use crate::scan::classifier::feature::Sink;
    use crate::scan::classifier::feature::Spelt;

    /// Who wants no features.
    struct Deaf<'l>(&'l Lexicon);

    impl Sink for Deaf<'_> {
        fn word(&mut self, word: &Spelt<'_>) -> Meaning {
            self.0.meaning(word.bytes)
        }

        fn feature(&mut self, _: u32, _: u64, _: u32) {}
    }

    #[test]
    fn the_longest_entry_counts() {
        let written = [("ignor*", 1), ("from now on", 2), ("now", 3), ("指示", 4), ("システムプロンプト", 5)];
        let lexicon =
            Lexicon::new(written.iter().flat_map(|(text, id)| entries_of(text.as_bytes(), *id)).collect());
        let concepts = |text: &str| -> Vec<u8> {
            let normal = Normal::of(text.as_bytes());
            let mut seen = Vec::new();
            feature::read(&normal, &lexicon, &mut seen, &mut Deaf(&lexicon));
            seen.iter().map(|seen| seen.concept).collect()
        };
        assert_eq!(concepts("Ignoring it. From now on, ignore it now"), [1, 2, 1, 3]);
        assert_eq!(concepts("from now"), [3]);
        assert_eq!(concepts("以前の指示とシステムプロンプト"), [4, 5]);
        assert!(concepts("a design").is_empty());
    }
}
