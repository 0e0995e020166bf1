//! What the model sees of a text: hashed n-grams of characters, of words and of concepts.
//!
//! In: a normal text and a lexicon. Out: for each n-gram the block of the text it begins in and its bucket. The
//! trainer and the scanner run this same code; a change here asks for a new model.

use super::lexicon::Lexicon;
use super::lexicon::Sighting;
use super::normal::GAP_LINE;
use super::normal::GAP_QUOTE;
use super::normal::GAP_SIGN;
use super::normal::GAP_STOP;
use super::normal::Normal;

/// A text is cut into blocks of this many bytes of its normal form; windows are whole blocks.
pub const BLOCK_BYTES: usize = 32;
/// How many low bits of an offset are within a block.
const BLOCK_SHIFT: u32 = BLOCK_BYTES.trailing_zeros();

/// The lengths of the n-grams of bytes.
const GRAMS: [(u64, u64); 2] =
    [(0xffff_ffff, 0x9e6c_63d0_876a_68ee | 1), (0xffff_ffff_ffff, 0xc2b2_ae3d_27d4_eb4f)];
/// How often an n-gram of bytes counts.
const GRAM_WORTH: u32 = 1;
/// How often an n-gram of words counts.
const WORD_WORTH: u32 = 1;
/// How often concepts count.
const CONCEPT_WORTH: u32 = 8;
/// How far apart two concepts may be, in words.
const REACH_WORDS: u32 = 12;
/// Up to this distance two concepts are near.
const NEAR_WORDS: u32 = 3;
/// How many concepts behind one are paired with it.
const PARTNERS: usize = 3;

const WORD: u64 = 0xd6e8_feb8_6659_fd93;
const PAIR: u64 = 0xa076_1d64_78bd_642f;
const TRIPLE: u64 = 0xe703_7ed1_a0b4_28db;
const SKIP: u64 = 0x8ebc_6af0_9c88_c6e3;
const START: u64 = 0x5899_65cc_7537_4cc3;
const CONCEPT: u64 = 0x1d8e_4e27_c47d_124f;
const CONCEPT_PAIR: u64 = 0xeb44_acca_b455_d165;
const CONCEPT_TRIPLE: u64 = 0x9c6e_6877_736c_46e3;

/// Reads one text after another and keeps its room between them.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    hashes: Vec<u64>,
    sightings: Vec<Sighting>,
}

impl Reader {
    /// Hands every feature of a text to `emit`: its block and its bucket, below `1 << bits`.
    pub fn read(
        &mut self,
        normal: &Normal,
        lexicon: &Lexicon,
        bits: u32,
        mut emit: impl FnMut(usize, u32, u32),
    ) {
        let shift = 64 - bits;
        let mut emit = |at: u32, hash: u64, worth: u32| {
            emit((at >> BLOCK_SHIFT) as usize, (hash >> shift) as u32, worth);
        };
        grams(normal, &mut emit);
        self.hashes.clear();
        self.sightings = lexicon.sightings(normal, &mut self.hashes);
        words(normal, &self.hashes, &mut emit);
        concepts(&self.sightings, &mut emit);
    }

    /// Returns the concepts of the text read last.
    pub fn sightings(&self) -> &[Sighting] {
        &self.sightings
    }
}

/// Returns how many blocks a normal text has.
pub fn blocks(normal: &Normal) -> usize {
    normal.len().div_ceil(BLOCK_BYTES)
}

/// Hands out the n-grams of bytes; those that begin within a character say little and are left out.
fn grams(normal: &Normal, emit: &mut impl FnMut(u32, u64, u32)) {
    let padded = normal.padded();
    for at in 0..normal.len() {
        let Some(eight) = padded.get(at..).and_then(<[u8]>::first_chunk::<8>) else { break };
        if eight[0] & 0xc0 == 0x80 {
            continue;
        }
        let eight = u64::from_le_bytes(*eight);
        for (mask, factor) in GRAMS {
            emit(at as u32, mixed((eight & mask).wrapping_mul(factor)), GRAM_WORTH);
        }
    }
}

fn words(normal: &Normal, hashes: &[u64], emit: &mut impl FnMut(u32, u64, u32)) {
    let (mut before, mut before_that) = (0u64, 0u64);
    for (word, hash) in normal.words().iter().zip(hashes) {
        let hash = *hash;
        if word.gap & (GAP_LINE | GAP_STOP) != 0 {
            (before, before_that) = (0, 0);
            emit(word.start, mixed(hash ^ START), WORD_WORTH);
        }
        emit(word.start, mixed(hash ^ WORD), WORD_WORTH);
        if before != 0 {
            emit(word.start, mixed(before.rotate_left(17) ^ hash ^ PAIR), WORD_WORTH);
        }
        if before_that != 0 {
            emit(word.start, mixed(before_that.rotate_left(31) ^ hash ^ SKIP), WORD_WORTH);
            let three = before_that.rotate_left(34) ^ before.rotate_left(17) ^ hash;
            emit(word.start, mixed(three ^ TRIPLE), WORD_WORTH);
        }
        (before_that, before) = (before, hash);
    }
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
