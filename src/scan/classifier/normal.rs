//! A text as the model reads it: small letters, single spaces, words that know where they came from.
//!
//! In: the canonical view of a text. Out: its bytes in lower case without accents, digits folded to `0`, runs of
//! white space and of one sign shortened, and the list of its words. Letters written as digits (`1gn0re`) are
//! undone in words that mix both, single letters with one sign between them (`i g n o r e`) are joined. Works
//! from left to right and in linear time; a text that is not UTF-8 is read around the bytes that are not.

use std::ops::Range;

mod builder;

use builder::Builder;

/// White space before a word.
pub const GAP_SPACE: u8 = 1;
/// A line break before a word, or the beginning of the text.
pub const GAP_LINE: u8 = 2;
/// The end of a sentence before a word, or a colon, or the beginning of the text.
pub const GAP_STOP: u8 = 4;
/// A quotation mark right before a word.
pub const GAP_QUOTE: u8 = 8;
/// Any other sign before a word.
pub const GAP_SIGN: u8 = 16;

/// Zero bytes behind the text, so that a [`Key`] can be read from every place in it.
pub const PADDING_BYTES: usize = KEY_BYTES_MAX;

/// The longest word that has a key.
pub const KEY_BYTES_MAX: usize = 16;

/// The bytes of a short word as numbers, zeros behind them: no two words have the same, and none is zero.
pub type Key = [u64; 2];

/// One word of a normal text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Where it begins in the normal text.
    pub start: u32,
    /// Where it ends.
    pub end: u32,
    /// Where it begins in the text that was read.
    pub source_start: u32,
    /// Where it ends there.
    pub source_end: u32,
    /// What stands before it: a union of the `GAP_…` bits.
    pub gap: u8,
    /// Whether it is one character of a script that puts no spaces between words.
    pub glued: bool,
}

/// A text in its normal form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Normal {
    bytes: Vec<u8>,
    words: Vec<Word>,
}

/// By the length of a word: which of the bytes from its first on are its own.
const KEPT: [u128; KEY_BYTES_MAX + 1] = {
    let mut kept = [0; KEY_BYTES_MAX + 1];
    let mut length = 1;
    while length <= KEY_BYTES_MAX {
        kept[length] = u128::MAX >> (128 - 8 * length);
        length += 1;
    }
    kept
};

impl Word {
    /// Tells whether it is a single byte.
    pub(super) fn is_short(&self) -> bool {
        self.end - self.start == 1
    }
}

impl Normal {
    /// Brings a text into its normal form.
    pub fn of(text: &[u8]) -> Self {
        let mut normal = Self::default();
        normal.read(text);
        normal
    }

    /// Brings another text into its normal form, in the room of the one before.
    pub fn read(&mut self, text: &[u8]) {
        let mut builder = Builder::within(std::mem::take(self), text.len());
        let mut at = 0;
        if let Ok(text) = std::str::from_utf8(text) {
            builder.read(text, 0);
            at = text.len();
        }
        for chunk in text.get(at..).unwrap_or_default().utf8_chunks() {
            builder.read(chunk.valid(), at);
            at += chunk.valid().len();
            if !chunk.invalid().is_empty() {
                builder.end_word(at);
                builder.sign(b'?', GAP_SIGN);
                at += chunk.invalid().len();
            }
        }
        builder.end_word(at);
        *self = builder.finish();
    }

    /// Returns the text, without its padding.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len()).unwrap_or_default()
    }

    /// Returns the text with [`PADDING_BYTES`] zeros behind it.
    pub fn padded(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns how many bytes the text has.
    pub fn len(&self) -> usize {
        self.bytes.len().saturating_sub(PADDING_BYTES)
    }

    /// Tells whether nothing is left of the text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the words in the order of the text.
    pub fn words(&self) -> &[Word] {
        &self.words
    }

    /// Returns the bytes of a word.
    pub fn word(&self, word: &Word) -> &[u8] {
        self.bytes.get(word.start as usize..word.end as usize).unwrap_or_default()
    }

    /// Returns the key of a word, unless it is too long for one.
    pub fn key(&self, word: &Word) -> Option<Key> {
        let length = (word.end - word.start) as usize;
        let bytes = self.bytes.get(word.start as usize..)?.first_chunk::<KEY_BYTES_MAX>()?;
        let kept = KEPT.get(length)?;
        let whole = u128::from_le_bytes(*bytes) & kept;
        Some([whole as u64, (whole >> 64) as u64])
    }

    /// Returns what was read for a range of the normal text: its whole words.
    pub fn source_range(&self, range: Range<usize>) -> Range<usize> {
        let first = self.words.partition_point(|word| word.end as usize <= range.start);
        let last = self.words.partition_point(|word| (word.start as usize) < range.end);
        match self.words.get(first..last) {
            Some([one]) => one.source_start as usize..one.source_end as usize,
            Some([one, .., other]) => one.source_start as usize..other.source_end as usize,
            _ => 0..0,
        }
    }
}

#[cfg(test)]
mod tests;
