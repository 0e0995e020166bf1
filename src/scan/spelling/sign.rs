//! One sign of a text: a letter with what belongs to it, what may part letters, or another.

use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::char::is_combining_mark;

use crate::scan::view::View;
use crate::scan::view::fold::is_unseen;

/// What a character is to a row of letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Letter,
    /// A mark that belongs to the letter before it.
    Mark,
    /// One that makes a letter of what is on both sides of it.
    Joiner,
    /// May part letters.
    Gap,
    Other,
}

/// A character, or a byte that is none.
#[derive(Clone, Copy)]
pub(super) struct Sign {
    pub(super) kind: Kind,
    pub(super) width: usize,
}

impl Sign {
    /// Returns the one at a place.
    pub(super) fn at(text: &[u8], at: usize) -> Option<Self> {
        let byte = *text.get(at)?;
        if byte.is_ascii() {
            let kind = match byte {
                _ if byte.is_ascii_alphanumeric() => Kind::Letter,
                _ if is_gap(byte) => Kind::Gap,
                _ => Kind::Other,
            };
            return Some(Self { kind, width: 1 });
        }
        let width = match byte {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        let whole = text.get(at..at + width).and_then(|bytes| std::str::from_utf8(bytes).ok());
        let character = whole.and_then(|text| text.chars().next());
        Some(
            character
                .map_or(Self { kind: Kind::Other, width: 1 }, |it| Self { kind: kind_beyond(it), width }),
        )
    }

    pub(super) fn is_of_word(self) -> bool {
        matches!(self.kind, Kind::Letter | Kind::Mark | Kind::Joiner)
    }
}

/// Tells what a character beyond ASCII is.
fn kind_beyond(character: char) -> Kind {
    match character as u32 {
        // The scripts of most texts, by their plain letters.
        0x0400..=0x0481 | 0x05d0..=0x05ea | 0x0620..=0x064a | 0x0904..=0x0939 | 0x0e01..=0x0e30 => {
            Kind::Letter
        }
        0x3041..=0x3096 | 0x30a1..=0x30fa | 0x3400..=0x9fff | 0xac00..=0xd7a3 => Kind::Letter,
        // Spaces, hyphens and dashes, bullets and dots, marks of lists in East Asia and their wide forms.
        0x00a0 | 0x2000..=0x200a | 0x202f | 0x205f | 0x3000 | 0x2010..=0x2015 | 0x00b7 | 0x2022 | 0x2024 => {
            Kind::Gap
        }
        0x2027 | 0x2219 | 0x22c5 | 0x25cf | 0x3001 | 0x3002 | 0x30fb | 0x060c | 0xff0c | 0xff0d..=0xff0f => {
            Kind::Gap
        }
        0xff3f | 0xff5c | 0xff5e | 0xff65 => Kind::Gap,
        0x200c | 0x200d => Kind::Mark,
        // Virama: the next letter is written with the one before.
        _ if is_combining_mark(character) => match canonical_combining_class(character) {
            9 => Kind::Joiner,
            _ => Kind::Mark,
        },
        _ if character.is_alphanumeric() => Kind::Letter,
        _ => Kind::Other,
    }
}

/// Tells whether a byte may part letters that belong together.
fn is_gap(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'.' | b'-' | b'_' | b'*' | b'|' | b'/' | b'~' | b'+' | b',' | b'\t' | b'\n' | b'\r'
    )
}

/// Tells whether a byte is part of a word, whatever stands around it; not of all bytes that are.
fn is_within_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, 0x80..=0xbf | 0xd0 | 0xd1 | 0xe4..=0xe8 | 0xeb | 0xec)
}

/// Returns where a letter ends, with the marks that belong to it.
pub(super) fn letter_end(text: &[u8], from: usize) -> usize {
    let (mut end, mut joins) = (from, false);
    while let Some(sign) = Sign::at(text, end) {
        let goes_on = end == from || joins || matches!(sign.kind, Kind::Mark | Kind::Joiner);
        if !goes_on || !sign.is_of_word() {
            break;
        }
        joins = sign.kind == Kind::Joiner || joins && sign.kind == Kind::Mark;
        end += sign.width;
    }
    end
}

/// Returns where a word ends, from a place within it.
pub(super) fn word_end(text: &[u8], from: usize) -> usize {
    let mut end = from;
    loop {
        let rest = text.get(end..).unwrap_or_default();
        end += rest.iter().take_while(|byte| is_within_word(**byte)).count();
        match Sign::at(text, end).filter(|sign| sign.is_of_word()) {
            Some(sign) => end += sign.width,
            None => return end,
        }
    }
}

/// Returns the kinds of the characters of a text.
pub(super) fn kinds(text: &[u8]) -> impl Iterator<Item = Kind> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let sign = Sign::at(text, at)?;
        at += sign.width;
        Some(sign.kind)
    })
}

/// Characters that show as nothing and are as wide as a letter: the blank of Braille, the fillers of Hangul.
const FILLERS: [&str; 4] = ["\u{2800}", "\u{3164}", "\u{115f}", "\u{ffa0}"];

/// Returns a text with a space for each of them; nothing if it has none.
pub(super) fn unfilled(text: &[u8]) -> Option<View> {
    let has = |filler: &str| memchr::memmem::find(text, filler.as_bytes()).is_some();
    if text.is_ascii() || !FILLERS.iter().any(|filler| has(filler)) {
        return None;
    }
    let (mut view, mut at) = (View::default(), 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some(filler) = FILLERS.iter().find(|filler| rest.starts_with(filler.as_bytes())) {
            view.append(b" ", at, filler.len() as u8, 1);
            at += filler.len();
        } else {
            let plain = 1 + rest.iter().skip(1).take_while(|byte| byte.is_ascii()).count();
            view.append(rest.get(..plain).unwrap_or_default(), at, 1, 1);
            at += plain;
        }
    }
    Some(view)
}

/// Returns a text without the characters that nobody sees and the marks piled upon letters; nothing if it has none.
pub(super) fn seen(text: &[u8]) -> Option<View> {
    if text.is_ascii() {
        return None;
    }
    let (mut view, mut at, mut kept) = (View::default(), 0, 0);
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            let behind = at + character.len_utf8();
            if !character.is_ascii() && is_unseen(character) {
                view.append(text.get(kept..at).unwrap_or_default(), kept, 1, 1);
                kept = behind;
            }
            at = behind;
        }
        at += chunk.invalid().len();
    }
    if kept == 0 {
        return None;
    }
    view.append(text.get(kept..).unwrap_or_default(), kept, 1, 1);
    Some(view)
}
