//! Writes a normal text from left to right.

use unicode_normalization::UnicodeNormalization;

use super::GAP_LINE;
use super::GAP_QUOTE;
use super::GAP_SIGN;
use super::GAP_SPACE;
use super::GAP_STOP;
use super::Normal;
use super::PADDING_BYTES;
use super::Word;

/// This many single letters with one sign between them are one word.
const SPELT_LETTERS_MIN: usize = 4;
/// The longest word in which digits are read as letters.
const LEET_BYTES_MAX: usize = 24;
/// How often one sign is repeated at most.
const SIGNS_REPEATED_MAX: usize = 3;

/// Makes capital letters small, eight at a time.
const LOWER: u64 = u64::from_le_bytes([0x20; 8]);

/// What a byte is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Digit,
    Space,
    Line,
    Stop,
    Quote,
    Apostrophe,
    Sign,
    /// Part of a character beyond ASCII.
    Beyond,
}

const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Beyond; 256];
    let mut at = 0;
    while at < 128 {
        kinds[at] = match at as u8 {
            b'a'..=b'z' | b'A'..=b'Z' => Kind::Letter,
            b'0'..=b'9' => Kind::Digit,
            b'\n' => Kind::Line,
            0..=b' ' | 0x7f => Kind::Space,
            b'.' | b'!' | b'?' | b':' | b';' => Kind::Stop,
            b'"' | b'`' => Kind::Quote,
            b'\'' => Kind::Apostrophe,
            _ => Kind::Sign,
        };
        at += 1;
    }
    kinds
};

/// A normal text that grows.
pub(super) struct Builder {
    bytes: Vec<u8>,
    words: Vec<Word>,
    /// The word under way: where it begins here and in the source.
    open: Option<(u32, u32)>,
    has_digit: bool,
    has_letter: bool,
    gap: u8,
    /// The only byte of the gap, if it has one byte.
    gap_byte: Option<u8>,
    gap_bytes: usize,
    /// How many words at the end are single letters with the same sign between them.
    spelt: usize,
    spelt_by: Option<u8>,
    /// Whether the last word was joined from single letters and goes on.
    joined: bool,
    /// Whether the word before was joined: what is spelt behind it may be short.
    after_joined: bool,
    after_leet: bool,
}

impl Builder {
    /// Begins a text of so many bytes in the room of another.
    pub(super) fn within(room: Normal, bytes: usize) -> Self {
        let Normal { bytes: mut written, mut words } = room;
        written.clear();
        words.clear();
        written.reserve(bytes + bytes / 8 + 2 * PADDING_BYTES);
        words.reserve(bytes / 5 + 1);
        Self {
            bytes: written,
            words,
            open: None,
            has_digit: false,
            has_letter: false,
            gap: GAP_LINE | GAP_STOP,
            gap_byte: None,
            gap_bytes: 0,
            spelt: 0,
            spelt_by: None,
            joined: false,
            after_joined: false,
            after_leet: false,
        }
    }

    /// Takes the next part of the text, which begins at `base`.
    pub(super) fn read(&mut self, text: &str, base: usize) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(byte) = bytes.get(at).copied() {
            match KINDS[usize::from(byte)] {
                Kind::Letter => {
                    self.begin_word(base + at);
                    self.has_letter = true;
                    at += self.letters(bytes, at);
                    continue;
                }
                Kind::Digit => {
                    self.begin_word(base + at);
                    self.has_digit = true;
                    self.bytes.push(byte);
                }
                Kind::Space => self.space(base + at, GAP_SPACE, byte),
                Kind::Line => self.space(base + at, GAP_SPACE | GAP_LINE, byte),
                kind @ (Kind::Stop | Kind::Quote | Kind::Sign | Kind::Apostrophe) => {
                    self.ascii_sign(bytes, base, at, byte, kind);
                }
                Kind::Beyond => {
                    at += self.character(text, base, at);
                    continue;
                }
            }
            at += 1;
        }
    }

    /// Takes the ASCII letters from a place on and returns how many there are.
    fn letters(&mut self, bytes: &[u8], from: usize) -> usize {
        let mut at = from;
        while let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
            let lower = u64::from_le_bytes(*eight) | LOWER;
            let count = letters_first(*eight);
            let before = self.bytes.len();
            self.bytes.extend_from_slice(&lower.to_le_bytes());
            self.bytes.truncate(before + count);
            at += count;
            if count < eight.len() {
                return at - from;
            }
        }
        let rest = bytes.get(at..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_alphabetic());
        let before = self.bytes.len();
        self.bytes.extend(rest.map(|byte| byte | 0x20));
        at - from + self.bytes.len() - before
    }

    /// Takes a sign, which may stand for a letter or belong to a word.
    fn ascii_sign(&mut self, bytes: &[u8], base: usize, at: usize, byte: u8, kind: Kind) {
        let goes_on = self.open.is_some() && bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric);
        match byte {
            b'\'' if goes_on => return,
            b'@' | b'$' | b'!' if goes_on => {
                self.has_digit = true;
                return self.bytes.push(byte);
            }
            _ => {}
        }
        self.end_word(base + at);
        let gap = match kind {
            Kind::Stop => GAP_STOP,
            Kind::Quote | Kind::Apostrophe => GAP_QUOTE,
            _ => GAP_SIGN,
        };
        self.sign(byte, gap);
    }

    /// Takes a character beyond ASCII and returns its length in bytes.
    fn character(&mut self, text: &str, base: usize, at: usize) -> usize {
        let Some(character) = text.get(at..).and_then(|rest| rest.chars().next()) else { return 1 };
        let width = character.len_utf8();
        match character as u32 {
            0x201c..=0x201f | 0x00ab | 0x00bb | 0x300c..=0x300f | 0x2018 | 0x201a => {
                self.end_word(base + at);
                self.sign(b'"', GAP_QUOTE);
            }
            0x2019 if self.open.is_some() => {}
            0x3002 | 0xff01 | 0xff1f | 0xff1a | 0x0964 | 0x0965 | 0x061f | 0x06d4 | 0x2026 => {
                self.end_word(base + at);
                self.sign(b'.', GAP_STOP);
            }
            0x3000 | 0x00a0 | 0x2000..=0x200b | 0x2028 | 0x2029 => self.space(base + at, GAP_SPACE, b' '),
            0x0080..=0x00bf | 0x00d7 | 0x00f7 | 0x2010..=0x2bff | 0x3001..=0x303f | 0x060c | 0x061b => {
                self.end_word(base + at);
                self.sign(b',', GAP_SIGN);
            }
            _ if is_glued(character) => self.glued(character, base + at),
            _ => {
                self.begin_word(base + at);
                self.has_letter = true;
                self.letter(character);
            }
        }
        width
    }

    /// Takes a letter beyond ASCII in lower case and without accent.
    fn letter(&mut self, character: char) {
        let lower = character.to_lowercase().next().unwrap_or(character);
        let plain = match lower {
            'ı' => 'i',
            'ø' => 'o',
            'ł' => 'l',
            'đ' => 'd',
            '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => {
                std::iter::once(lower).nfd().next().unwrap_or(lower)
            }
            other => other,
        };
        let mut room = [0; 4];
        self.bytes.extend_from_slice(plain.encode_utf8(&mut room).as_bytes());
    }

    /// Takes a character that is a word of its own.
    fn glued(&mut self, character: char, source: usize) {
        self.end_word(source);
        self.begin_word(source);
        self.letter(character);
        self.end_word(source + character.len_utf8());
        if let Some(word) = self.words.last_mut() {
            word.glued = true;
        }
    }

    fn begin_word(&mut self, source: usize) {
        if self.open.is_none() {
            self.open = Some((self.bytes.len() as u32, source as u32));
            self.has_digit = false;
            self.has_letter = false;
        }
    }

    fn space(&mut self, source: usize, gap: u8, byte: u8) {
        self.end_word(source);
        if self.bytes.last() != Some(&b' ') {
            self.bytes.push(b' ');
        }
        self.note_gap(gap, byte);
    }

    /// Writes a sign, but not more than a few of the same in a row.
    pub(super) fn sign(&mut self, byte: u8, gap: u8) {
        let repeated = self.bytes.iter().rev().take_while(|before| **before == byte).take(SIGNS_REPEATED_MAX);
        if repeated.count() < SIGNS_REPEATED_MAX {
            self.bytes.push(byte);
        }
        self.gap &= !GAP_QUOTE;
        self.note_gap(gap, byte);
    }

    fn note_gap(&mut self, gap: u8, byte: u8) {
        self.gap |= gap;
        self.gap_bytes += 1;
        self.gap_byte = (self.gap_bytes == 1).then_some(byte);
    }

    pub(super) fn end_word(&mut self, source_end: usize) {
        let Some((start, source_start)) = self.open.take() else { return };
        if self.has_digit {
            self.undo_digits(start as usize);
        } else {
            self.after_leet = false;
        }
        let word = Word {
            start,
            end: self.bytes.len() as u32,
            source_start,
            source_end: source_end as u32,
            gap: self.gap,
            glued: false,
        };
        self.take_word(word);
        self.gap = 0;
        self.gap_bytes = 0;
        self.gap_byte = None;
    }

    /// Reads the digits of a word as letters where letters follow them; folds the others to `0`.
    fn undo_digits(&mut self, start: usize) {
        let Some(word) = self.bytes.get_mut(start..) else { return };
        let short = word.len() <= LEET_BYTES_MAX;
        let last_letter = word.iter().rposition(u8::is_ascii_lowercase);
        let first_digit = word.iter().position(|byte| letter_of(*byte).is_some()).unwrap_or(word.len());
        let mixed = self.has_letter && last_letter.is_some_and(|last| first_digit < last);
        if short && (mixed || self.after_leet && word.len() <= SPELT_LETTERS_MIN) {
            word.iter_mut().for_each(|byte| *byte = letter_of(*byte).unwrap_or(*byte));
            self.after_leet = true;
            return;
        }
        self.after_leet = false;
        let from = self.bytes.split_off(start);
        for byte in from {
            let folded = if byte.is_ascii_digit() { b'0' } else { byte };
            let tail = self.bytes.get(start..).unwrap_or_default();
            if folded != b'0' || !tail.ends_with(b"00") {
                self.bytes.push(folded);
            }
        }
    }

    /// Adds a word, and joins it to those before it where letters are spelt one by one.
    fn take_word(&mut self, word: Word) {
        let is_letter = word.end - word.start == 1 && self.has_letter;
        let by = self.gap_byte.filter(|_| is_letter && !self.words.is_empty());
        if !is_letter || by.is_none() || (self.spelt > 1 && by != self.spelt_by) {
            self.spelt = usize::from(is_letter);
            self.after_joined = self.joined
                || self.after_joined && is_letter && self.words.last().is_some_and(Word::is_short);
            self.joined = false;
            self.words.push(word);
            return;
        }
        self.spelt_by = by;
        self.spelt += usize::from(self.spelt > 0 || self.joined);
        if self.joined {
            return self.join(word);
        }
        self.words.push(word);
        let least = if self.after_joined { 2 } else { SPELT_LETTERS_MIN };
        if self.spelt >= least {
            self.join_spelt();
        }
    }

    /// Appends a single letter to the joined word before it.
    fn join(&mut self, word: Word) {
        let letter = self.bytes.get(word.start as usize).copied().unwrap_or(b'?');
        let Some(last) = self.words.last_mut() else { return };
        self.bytes.truncate(last.end as usize);
        self.bytes.push(letter);
        last.end += 1;
        last.source_end = word.source_end;
    }

    fn join_spelt(&mut self) {
        let first = self.words.len().saturating_sub(self.spelt);
        let letters = self.words.split_off(first);
        let (Some(one), Some(last)) = (letters.first(), letters.last()) else { return };
        let spelt: Vec<u8> =
            letters.iter().filter_map(|word| self.bytes.get(word.start as usize).copied()).collect();
        self.bytes.truncate(one.start as usize);
        self.bytes.extend_from_slice(&spelt);
        self.words.push(Word { end: self.bytes.len() as u32, source_end: last.source_end, ..*one });
        self.joined = true;
    }

    pub(super) fn finish(mut self) -> Normal {
        self.bytes.extend_from_slice(&[0; PADDING_BYTES]);
        Normal { bytes: self.bytes, words: self.words }
    }
}

/// Returns the letter a digit or sign is written for.
fn letter_of(byte: u8) -> Option<u8> {
    Some(match byte {
        b'0' => b'o',
        b'1' | b'!' => b'i',
        b'3' => b'e',
        b'4' | b'@' => b'a',
        b'5' | b'$' => b's',
        b'7' => b't',
        b'8' => b'b',
        b'9' => b'g',
        _ => return None,
    })
}

/// Tells whether a character belongs to a script that writes words without spaces.
fn is_glued(character: char) -> bool {
    matches!(character as u32,
        0x0e01..=0x0eff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x3040..=0x30ff | 0x3400..=0x9fff
        | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

/// Returns with how many ASCII letters eight bytes begin.
fn letters_first(bytes: [u8; 8]) -> usize {
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    const FROM: u64 = u64::from_le_bytes([0x80 - b'a'; 8]);
    const PAST: u64 = u64::from_le_bytes([0x7f - b'z'; 8]);
    let word = u64::from_le_bytes(bytes);
    let low = (word | LOWER) & !HIGH;
    // No byte carries into the next: each is below 0x80, and so is what is added.
    let letters = (low + FROM) & !(low + PAST) & !word & HIGH;
    (letters ^ HIGH).trailing_zeros() as usize / 8
}
