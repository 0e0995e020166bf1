//! A text as an answer may spell it, so that none of its letters depends on what stands around it there.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::GRAM_LETTERS;
use super::LETTERS;
use super::NO_LETTER;
use super::SAMPLES_MAX;

/// How many spellings of a text are known.
pub(super) const SPELLINGS: usize = 4 + BASE64_PLACES;
/// How many places there are for the first byte of a text within a group of base64.
pub(super) const BASE64_PLACES: usize = GROUP_BYTES;

/// How many bytes a group of base64 writes.
const GROUP_BYTES: usize = 3;
/// How many digits it writes them in.
const GROUP_DIGITS: usize = 4;
/// How many groups are written for one fingerprint: some of their digits may be signs.
const SAMPLE_GROUPS: usize = 10;
/// What the digits of base64 count as.
const BASE64_LETTERS: [u8; 64] = {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut letters, mut value) = ([NO_LETTER; 64], 0);
    while value < 64 {
        letters[value] = LETTERS[digits[value] as usize];
        value += 1;
    }
    letters
};
/// The digits of Base32.
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// Where base64 begins to depend on the text alone, by how many bytes stand before it in a group of three.
const BASE64_HEADS: [usize; 3] = [0, 2, 3];
/// The bytes of a group of Base32.
const BASE32_BYTES: usize = 5;

/// Returns letters in a row from a text of letters, at even distances.
pub(super) fn samples(letters: &[u8]) -> Vec<[u8; GRAM_LETTERS]> {
    let grams = letters.windows(GRAM_LETTERS).step_by(step(letters.len().saturating_sub(GRAM_LETTERS - 1)));
    grams.filter_map(|gram| gram.try_into().ok()).collect()
}

/// Returns the same of what a text is in hexadecimal.
pub(super) fn hex_samples(text: &[u8]) -> impl Iterator<Item = [u8; GRAM_LETTERS]> + '_ {
    const BYTES: usize = GRAM_LETTERS / 2;
    let parts = text.windows(BYTES).step_by(step(text.len().saturating_sub(BYTES - 1)));
    parts.map(|part| {
        let mut gram = [0; GRAM_LETTERS];
        for (digits, byte) in gram.as_chunks_mut::<2>().0.iter_mut().zip(part) {
            *digits = [byte >> 4, byte & 15].map(hex_digit);
        }
        gram
    })
}

/// Returns the same of what a text is in base64, where its first byte is at one of the [`BASE64_PLACES`] of a group.
pub(super) fn base64_samples(text: &[u8], place: usize) -> impl Iterator<Item = [u8; GRAM_LETTERS]> + '_ {
    let groups = text.get((GROUP_BYTES - place) % GROUP_BYTES..).unwrap_or_default().as_chunks().0;
    let begins = (0..groups.len()).step_by(step(groups.len()));
    begins.filter_map(|from| base64_gram(groups.get(from..groups.len().min(from + SAMPLE_GROUPS))?))
}

/// Returns the first letters in a row of what groups are in base64, if they make enough.
fn base64_gram(groups: &[[u8; GROUP_BYTES]]) -> Option<[u8; GRAM_LETTERS]> {
    let mut gram = [NO_LETTER; GRAM_LETTERS];
    for (letters, group) in gram.as_chunks_mut().0.iter_mut().zip(groups) {
        *letters = base64_letters(*group);
    }
    // Signs are rare.
    if gram.contains(&NO_LETTER) {
        let letters = groups.iter().flat_map(|group| base64_letters(*group));
        let mut letters = letters.filter(|letter| *letter != NO_LETTER);
        for place in &mut gram {
            *place = letters.next()?;
        }
    }
    Some(gram)
}

/// Returns what the digits of a group count as.
fn base64_letters([one, two, three]: [u8; GROUP_BYTES]) -> [u8; GROUP_DIGITS] {
    let bits = u32::from_be_bytes([0, one, two, three]);
    [18, 12, 6, 0].map(|shift| BASE64_LETTERS[(bits >> shift & 63) as usize])
}

/// Returns how far apart samples are taken, of so many there could be.
fn step(possible: usize) -> usize {
    possible.div_ceil(SAMPLES_MAX).max(1)
}

/// Writes a text from its end on.
pub(super) fn backwards(plain: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(plain).chars().rev().collect::<String>().into_bytes()
}

/// Writes a word in every spelling of texts.
///
/// Only letters and digits count: signs between them, capitals, and what the canonical view undoes make no spelling.
fn spellings(word: &[u8]) -> [Vec<u8>; SPELLINGS] {
    let rotated = word.iter().map(|byte| rot13(*byte)).collect();
    let hex = word.iter().flat_map(|byte| [byte >> 4, byte & 15].map(hex_digit)).collect();
    let [one, two, three] = [0, 1, 2].map(|before| base64(word, before));
    [word.to_vec(), backwards(word), rotated, hex, one, two, three]
}

/// Writes a canary in every spelling but [`bits`]: the same, and Base32 wherever its first byte falls.
pub(super) fn canary_spellings(word: &[u8]) -> Vec<Vec<u8>> {
    let mut written = spellings(word).to_vec();
    written.extend((0..BASE32_BYTES).map(|before| base32(word, before)));
    written
}

/// Writes a text in bits.
pub(super) fn bits(text: &[u8]) -> Vec<u8> {
    text.iter().flat_map(|byte| (0..8).rev().map(move |bit| b'0' + (byte >> bit & 1))).collect()
}

fn base64(text: &[u8], before: usize) -> Vec<u8> {
    let filled = [&[0; 2][..before], text].concat();
    let whole = filled.len() / 3 * 4;
    let encoded = STANDARD.encode(&filled).into_bytes();
    encoded.get(BASE64_HEADS[before].min(whole)..whole).unwrap_or_default().to_vec()
}

/// Writes Base32 of what has so many bytes before it in a group of five.
fn base32(text: &[u8], before: usize) -> Vec<u8> {
    let (mut bits, mut held, mut digits) = (0_u32, 0_u32, Vec::with_capacity(text.len() * 8 / 5 + 8));
    for byte in [&[0; BASE32_BYTES][..before], text].concat() {
        bits = bits << 8 & 0xffff | u32::from(byte);
        held += 8;
        while held >= 5 {
            held -= 5;
            digits.push(BASE32[(bits >> held & 31) as usize]);
        }
    }
    let head = (before * 8).div_ceil(5);
    digits.split_off(head.min(digits.len()))
}

fn hex_digit(value: u8) -> u8 {
    b"0123456789abcdef".get(usize::from(value)).copied().unwrap_or(b'0')
}

/// Moves a letter by half of the alphabet.
pub(super) fn rot13(byte: u8) -> u8 {
    match byte.to_ascii_lowercase() {
        letter @ b'a'..=b'z' => (letter - b'a' + 13) % 26 + b'a',
        other => other,
    }
}
