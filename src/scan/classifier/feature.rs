//! What the model sees of a text: hashed n-grams of characters, of words and of concepts.
//!
//! In: a normal text and a lexicon. Out: for each n-gram where it begins and its hash. The n-grams of bytes lie
//! within words, so that all a word says alone is known once it was read once. The trainer and the scanner run
//! this same code; a change here asks for a new model.

use super::lexicon::Lexicon;
use super::lexicon::Meaning;
use super::lexicon::Sighting;
use super::normal::GAP_LINE;
use super::normal::GAP_QUOTE;
use super::normal::GAP_SIGN;
use super::normal::GAP_STOP;
use super::normal::Key;
use super::normal::Normal;
use super::normal::Word;

/// A text is cut into blocks of this many bytes of its normal form; windows are whole blocks.
pub const BLOCK_BYTES: usize = 32;
/// How many low bits of an offset are within a block.
const BLOCK_SHIFT: u32 = BLOCK_BYTES.trailing_zeros();

/// The n-grams of bytes: how many bytes, what is left of eight bytes, and a factor of their own.
const GRAMS: [(usize, u64, u64); 2] =
    [(4, 0xffff_ffff, 0x9e6c_63d0_876a_68ef), (6, 0xffff_ffff_ffff, 0xc2b2_ae3d_27d4_eb4f)];
/// How many bytes of a word have n-grams: what is longer is no word that people write.
const GRAM_BYTES_MAX: usize = 30;
/// How many bytes before a word count as what stands there.
const GAP_BYTES_MAX: usize = 7;
/// How often a feature of words counts.
const WORD_WORTH: u32 = 1;
/// How often concepts count.
const CONCEPT_WORTH: u32 = 8;
/// How far apart two concepts may be, in words.
const REACH_WORDS: u32 = 12;
/// Up to this distance two concepts are near.
const NEAR_WORDS: u32 = 3;
/// How many concepts behind one are paired with it.
const PARTNERS: usize = 3;

const SEED: u64 = 0xcbf2_9ce4_8422_2325;
const GAP: u64 = 0x94d0_49bb_1331_11eb;
const WORD: u64 = 0xd6e8_feb8_6659_fd93;
const PAIR: u64 = 0xa076_1d64_78bd_642f;
const TRIPLE: u64 = 0xe703_7ed1_a0b4_28db;
const SKIP: u64 = 0x8ebc_6af0_9c88_c6e3;
const START: u64 = 0x5899_65cc_7537_4cc3;
const CONCEPT: u64 = 0x1d8e_4e27_c47d_124f;
const CONCEPT_PAIR: u64 = 0xeb44_acca_b455_d165;
const CONCEPT_TRIPLE: u64 = 0x9c6e_6877_736c_46e3;

/// One word, as it is read.
#[derive(Clone, Copy, Debug)]
pub struct Spelt<'t> {
    /// Its bytes.
    pub bytes: &'t [u8],
    /// The same as numbers, if they are few.
    pub key: Option<Key>,
    /// Their hash.
    pub hash: u64,
    /// Where it begins in the normal text.
    pub at: u32,
}

/// Whoever takes the features of a text.
pub trait Sink {
    /// Takes a word, whose features alone are those of [`of_word`], and tells what it means.
    fn word(&mut self, word: &Spelt<'_>) -> Meaning;
    /// Takes a feature that begins at an offset, and how often it counts.
    fn feature(&mut self, at: u32, hash: u64, worth: u32);
}

/// Hands every feature of a text to a sink, and its concepts to `sightings`.
pub fn read(normal: &Normal, lexicon: &Lexicon, sightings: &mut Vec<Sighting>, sink: &mut impl Sink) {
    sightings.clear();
    let (mut before, mut before_that) = (0u64, 0u64);
    let (mut end, mut free_from) = (0, 0);
    for (index, word) in normal.words().iter().enumerate() {
        let spelt = Spelt::of(normal, word);
        let (at, hash) = (spelt.at, spelt.hash);
        let meaning = sink.word(&spelt);
        if index >= free_from
            && let Some((concept, until)) = lexicon.longest(normal, index, &meaning)
        {
            free_from = until;
            sightings.push(Sighting { concept, word: index as u32, at, gap: word.gap });
        }
        if let Some(gap) = gap(normal.bytes().get(end..at as usize).unwrap_or_default()) {
            sink.feature(at, gap, WORD_WORTH);
        }
        end = word.end as usize;
        if word.gap & (GAP_LINE | GAP_STOP) != 0 {
            (before, before_that) = (0, 0);
            sink.feature(at, mixed(hash ^ START), WORD_WORTH);
        }
        if before != 0 {
            sink.feature(at, mixed(before.rotate_left(17) ^ hash ^ PAIR), WORD_WORTH);
        }
        if before_that != 0 {
            sink.feature(at, mixed(before_that.rotate_left(31) ^ hash ^ SKIP), WORD_WORTH);
            let three = before_that.rotate_left(34) ^ before.rotate_left(17) ^ hash;
            sink.feature(at, mixed(three ^ TRIPLE), WORD_WORTH);
        }
        (before_that, before) = (before, hash);
    }
    concepts(sightings, &mut |at, hash, worth| sink.feature(at, hash, worth));
}

/// Hands out the features of a word alone: itself, and its n-grams with the edges of the word as spaces.
pub fn of_word(word: &[u8], hash: u64, mut emit: impl FnMut(u64)) {
    emit(mixed(hash ^ WORD));
    let word = word.get(..GRAM_BYTES_MAX).unwrap_or(word);
    let mut room = [0u8; GRAM_BYTES_MAX + 2 + size_of::<u64>()];
    let edges = word.len() + 2;
    for (to, byte) in room.iter_mut().zip([b" ", word, b" "].into_iter().flatten()) {
        *to = *byte;
    }
    for from in 0..word.len() {
        let Some(eight) = room.get(from..).and_then(<[u8]>::first_chunk::<8>) else { break };
        // Those that begin within a character say little.
        if eight[0] & 0xc0 == 0x80 {
            continue;
        }
        let eight = u64::from_le_bytes(*eight);
        for (length, mask, factor) in GRAMS {
            if from + length <= edges {
                emit(mixed((eight & mask).wrapping_mul(factor)));
            }
        }
    }
}

/// Returns the bucket of a feature among `1 << bits`.
pub fn bucket(hash: u64, bits: u32) -> usize {
    (hash >> (64 - bits)) as usize
}

/// Returns the block of a text that an offset lies in.
pub fn block(at: u32) -> usize {
    (at >> BLOCK_SHIFT) as usize
}

/// Returns how many blocks a normal text has.
pub fn blocks(normal: &Normal) -> usize {
    normal.len().div_ceil(BLOCK_BYTES)
}

impl<'t> Spelt<'t> {
    fn of(normal: &'t Normal, word: &Word) -> Self {
        let bytes = normal.word(word);
        let key = normal.key(word);
        let [first, second] = key.unwrap_or_default();
        let hash = match key {
            Some(_) => mixed(mixed(first ^ SEED) ^ second),
            None => long_hash(bytes),
        };
        Self { bytes, key, hash, at: word.start }
    }
}

/// Returns the hash of a word that has no key.
fn long_hash(word: &[u8]) -> u64 {
    word.chunks(size_of::<u64>()).fold(SEED, |hash, chunk| {
        let number = chunk.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        mixed(hash ^ number)
    })
}

/// Returns the feature of what stands before a word, unless that is one space or nothing.
fn gap(between: &[u8]) -> Option<u64> {
    if between.is_empty() || between == b" " {
        return None;
    }
    let last = between.get(between.len().saturating_sub(GAP_BYTES_MAX)..)?;
    let number = last.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Some(mixed((number ^ GAP).wrapping_mul(GAP)))
}

fn concepts(sightings: &[Sighting], emit: &mut impl FnMut(u32, u64, u32)) {
    for (at, first) in sightings.iter().enumerate() {
        let one = u64::from(first.concept) + 1;
        let place = place_of(first.gap);
        emit(first.at, mixed(one ^ CONCEPT), CONCEPT_WORTH);
        emit(first.at, mixed(one << 8 ^ place << 16 ^ CONCEPT), CONCEPT_WORTH);
        let behind = sightings.get(at + 1..).unwrap_or_default();
        let mut last = 0;
        for (distance, other) in behind.iter().take(PARTNERS).enumerate() {
            let words = other.word - first.word;
            if words > REACH_WORDS {
                break;
            }
            let two = u64::from(other.concept) + 1;
            let near = u64::from(words <= NEAR_WORDS);
            emit(first.at, mixed(one << 8 | two | near << 20 | CONCEPT_PAIR << 24), CONCEPT_WORTH);
            if distance > 0 {
                emit(first.at, mixed(one << 16 | last << 8 | two | CONCEPT_TRIPLE << 32), CONCEPT_WORTH);
            }
            last = two;
        }
    }
}

/// Returns what stands before a concept: nothing, the beginning of a sentence, a quotation mark, a sign.
fn place_of(gap: u8) -> u64 {
    match gap {
        quoted if quoted & GAP_QUOTE != 0 => 3,
        begins if begins & (GAP_LINE | GAP_STOP) != 0 => 1,
        sign if sign & GAP_SIGN != 0 => 2,
        _ => 0,
    }
}

fn mixed(hash: u64) -> u64 {
    (hash ^ hash >> 32).wrapping_mul(0x9fb2_1c65_1e98_df25)
}
