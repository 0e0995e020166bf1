//! One character as a reader sees it: the invisible vanish, look-alikes become the letter they imitate.
//!
//! Works on single characters only, so that a stream and a whole text agree without looking ahead. Compatibility
//! forms are those of Unicode NFKC (UAX #15); the look-alikes are the Cyrillic and Greek letters that UTS #39
//! (`confusables.txt`) maps to one ASCII letter, in a table that is short on purpose: it serves detectors, not readers;
//! and those of rarer scripts ([`confusable`]). Digits of any script are the digits they are.

use unicode_normalization::UnicodeNormalization;

use super::confusable;

/// What becomes of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// It stays as it is.
    Same,
    /// Nobody sees it.
    Gone,
    /// It carries a hidden ASCII character: a tag or a supplementary variation selector.
    Hidden(u8),
    /// It reads as this.
    Text(Folded),
}

/// Bytes that a character or an escape turns into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Folded {
    bytes: [u8; FOLDED_BYTES_MAX],
    length: u8,
}

/// A compatibility form longer than this stays as it is.
pub(super) const FOLDED_BYTES_MAX: usize = 8;

impl Folded {
    /// The empty text.
    pub(super) const NOTHING: Self = Self { bytes: [0; FOLDED_BYTES_MAX], length: 0 };

    /// Returns one byte.
    pub(super) fn byte(byte: u8) -> Self {
        let mut folded = Self::NOTHING;
        folded.bytes[0] = byte;
        folded.length = 1;
        folded
    }

    /// Returns one character.
    pub(super) fn char(character: char) -> Self {
        let mut folded = Self::NOTHING;
        folded.length = character.encode_utf8(&mut folded.bytes).len() as u8;
        folded
    }

    /// Returns the bytes.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    fn append(&mut self, character: char) -> Option<()> {
        let mut room = [0; 4];
        let text = character.encode_utf8(&mut room).as_bytes();
        let from = usize::from(self.length);
        self.bytes.get_mut(from..from + text.len())?.copy_from_slice(text);
        self.length += text.len() as u8;
        Some(())
    }
}

/// Folds one character.
pub(super) fn fold(character: char) -> Fold {
    if character.is_ascii() {
        return Fold::Same;
    }
    match character as u32 {
        tag @ (0xe0009 | 0xe000a | 0xe000d | 0xe0020..=0xe007e) => Fold::Hidden((tag - 0xe0000) as u8),
        // A selector stands for the byte 16 + its index; only readable ones are worth reading.
        selector @ 0xe0110..=0xe016e => Fold::Hidden((selector - 0xe0100 + 16) as u8),
        _ if is_unseen(character) => Fold::Gone,
        0x0370..=0x052f => {
            look_alike(character).map_or(Fold::Same, |letter| Fold::Text(Folded::byte(letter)))
        }
        0x2010..=0x2013 | 0x2212 => Fold::Text(Folded::byte(b'-')),
        // Where `confusable` has its blocks.
        0x0131 | 0x0180..=0x02af | 0x0531..=0x058f | 0x13a0..=0x167f | 0x1d00..=0x1dbf => rare(character),
        0x2c60..=0x2cff | 0xa4d0..=0xa4ff | 0xa720..=0xabbf | 0x10280..=0x16f9f => rare(character),
        0x1f150..=0x1f1ff => rare(character),
        // Typographic signs of ordinary prose, and scripts without compatibility forms worth undoing.
        0x2014..=0x2026 | 0x3041..=0x3096 | 0x30a1..=0x30fa => Fold::Same,
        code @ 0x0590..=0x0e2f => digit(code).map_or(Fold::Same, |digit| Fold::Text(Folded::byte(digit))),
        code @ 0x0e30..=0x181f => {
            digit(code).map_or_else(|| compatibility(character), |digit| Fold::Text(Folded::byte(digit)))
        }
        0x3400..=0x9fff | 0xac00..=0xd7a3 | 0x1f200..=0x1faff => Fold::Same,
        _ => compatibility(character),
    }
}

/// Where the ten decimal digits begin of the scripts in use (Unicode's `Nd`) that have no compatibility form.
const DIGITS: [u32; 19] = [
    0x0660, 0x06f0, 0x07c0, 0x0966, 0x09e6, 0x0a66, 0x0ae6, 0x0b66, 0x0be6, 0x0c66, 0x0ce6, 0x0d66, 0x0de6,
    0x0e50, 0x0ed0, 0x0f20, 0x1040, 0x17e0, 0x1810,
];

/// Returns the ASCII digit that a digit of another script is.
fn digit(code: u32) -> Option<u8> {
    let first = DIGITS.partition_point(|first| *first <= code).checked_sub(1)?;
    let value = code - DIGITS.get(first)?;
    (value < 10).then(|| b'0' + value as u8)
}

fn rare(character: char) -> Fold {
    let letter = confusable::look_alike(character);
    letter.map_or_else(|| compatibility(character), |letter| Fold::Text(Folded::byte(letter)))
}

/// Tells whether nobody sees a character, or only as something upon the letter before it.
#[inline]
pub(in crate::scan) fn is_unseen(character: char) -> bool {
    match character as u32 {
        // Soft hyphen, Arabic letter mark, fillers, Mongolian and general variation selectors, zero-width and bidi
        // controls, invisible operators, byte order mark, interlinear marks, tags.
        0x00ad | 0x061c | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180b..=0x180f => true,
        0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f | 0x2800 | 0x3164 => true,
        0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff9..=0xfffb | 0xe0000..=0xe0fff => true,
        // Marks piled upon a letter or drawn around it, and the grapheme joiner among them.
        0x0300..=0x036f | 0x0483..=0x0489 | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff => true,
        0x20d0..=0x20ff | 0xfe20..=0xfe2f => true,
        _ => false,
    }
}

fn compatibility(character: char) -> Fold {
    let mut parts = std::iter::once(character).nfkc();
    let Some(first) = parts.next() else { return Fold::Gone };
    if first == character {
        return Fold::Same;
    }
    let mut folded = Folded::NOTHING;
    let mut ascii = true;
    let mut count = 0;
    for part in std::iter::once(first).chain(parts) {
        let part = look_alike(part).map_or(part, char::from);
        ascii &= part.is_ascii();
        count += 1;
        if folded.append(part).is_none() {
            return Fold::Same;
        }
    }
    if ascii || count == 1 { Fold::Text(folded) } else { Fold::Same }
}

/// Returns the ASCII character that a Cyrillic or Greek one is taken for.
fn look_alike(character: char) -> Option<u8> {
    let letter = match character {
        'А' | 'Α' => b'A',
        'а' | 'α' => b'a',
        'В' | 'Β' | 'в' => b'B',
        'С' | 'Ϲ' => b'C',
        'с' | 'ϲ' => b'c',
        'ԁ' => b'd',
        'Е' | 'Ε' => b'E',
        'е' | 'є' | 'ε' => b'e',
        'Ԍ' => b'G',
        'Н' | 'Η' | 'н' => b'H',
        'һ' => b'h',
        'І' | 'Ι' | 'Ӏ' => b'I',
        'і' | 'ι' => b'i',
        'Ј' | 'Ϳ' => b'J',
        'ј' | 'ϳ' => b'j',
        'К' | 'Κ' => b'K',
        'к' | 'κ' => b'k',
        'ӏ' => b'l',
        'М' | 'Μ' | 'м' => b'M',
        'Ν' => b'N',
        'О' | 'Ο' => b'O',
        'о' | 'ο' | 'σ' => b'o',
        'Р' | 'Ρ' => b'P',
        'р' | 'ρ' => b'p',
        'Ԛ' => b'Q',
        'ԛ' => b'q',
        'г' => b'r',
        'Ѕ' => b'S',
        'ѕ' => b's',
        'Т' | 'Τ' | 'т' => b'T',
        'τ' => b't',
        'υ' => b'u',
        'ν' | 'ѵ' => b'v',
        'Ѵ' => b'V',
        'Ԝ' => b'W',
        'ԝ' | 'ω' => b'w',
        'Х' | 'Χ' => b'X',
        'х' | 'χ' => b'x',
        'У' | 'Υ' => b'Y',
        'у' | 'γ' => b'y',
        'Ζ' => b'Z',
        '\u{037e}' => b';',
        _ => return None,
    };
    Some(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_become_what_they_look_like() {
        let text = |letter: &str| {
            let mut folded = Folded::NOTHING;
            letter.chars().for_each(|part| folded.append(part).unwrap());
            Fold::Text(folded)
        };
        let cases = [
            ('a', Fold::Same),
            ('é', Fold::Same),
            ('漢', Fold::Same),
            ('😀', Fold::Same),
            ('\u{200b}', Fold::Gone),
            ('\u{00ad}', Fold::Gone),
            ('\u{202e}', Fold::Gone),
            ('\u{e0041}', Fold::Hidden(b'A')),
            ('\u{e0131}', Fold::Hidden(b'A')),
            ('\u{e007f}', Fold::Gone),
            ('\u{e000a}', Fold::Hidden(b'\n')),
            ('\u{e0001}', Fold::Gone),
            ('Ａ', text("A")),
            ('ﬁ', text("fi")),
            ('𝐀', text("A")),
            ('①', text("1")),
            ('а', text("a")),
            ('ɢ', text("g")),
            ('ᵍ', text("g")),
            ('🅶', text("G")),
            ('ə', Fold::Same),
            ('\u{00a0}', text(" ")),
            ('ﷺ', Fold::Same),
        ];
        for (character, expected) in cases {
            assert_eq!(fold(character), expected, "{character:?}");
        }
    }
}
