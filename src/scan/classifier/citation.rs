//! What of a text is quoted.
//!
//! In: a text in its canonical view. Out: its closed quotations, with their marks, in order and apart. A quotation
//! begins at a mark behind a space, a sign or the beginning of a line, has [`WORDS_BEFORE_MIN`] words of the text
//! before it, and ends at the next mark of its kind that no letter follows. A mark that stands several times in a row
//! is one mark and is closed by as many. What is not closed is no quotation.

use std::ops::Range;

/// A quotation has at least so many words before it; what begins with a quotation mark only looks like one.
pub const WORDS_BEFORE_MIN: usize = 2;

/// From here on scripts put no spaces between words, or particles right behind a quotation: each character is a word.
const GLUED_MIN: u32 = 0x0e00;

/// No more of the same mark in a row are one mark.
const RUN_MAX: usize = 4;
/// From so many on it is a fence, which has its line breaks within.
const FENCE_MIN: usize = 3;

/// The marks that quotations begin with, and those that end them.
const MARKS: [(&str, &[&str]); 13] = [
    ("\"", &["\""]),
    ("'", &["'"]),
    ("`", &["`"]),
    ("\u{201c}", &["\u{201d}", "\u{201c}", "\""]),
    ("\u{201d}", &["\u{201d}"]),
    ("\u{201e}", &["\u{201c}", "\u{201d}", "\""]),
    ("\u{ab}", &["\u{bb}"]),
    ("\u{bb}", &["\u{ab}"]),
    ("\u{2039}", &["\u{203a}"]),
    ("\u{2018}", &["\u{2019}"]),
    ("\u{201a}", &["\u{2018}", "\u{2019}"]),
    ("\u{300c}", &["\u{300d}"]),
    ("\u{300e}", &["\u{300f}"]),
];

/// Returns the quotations of a text, marks included, in bytes of it; a part that is not UTF-8 has none.
pub fn quotations(text: &[u8]) -> Vec<Range<usize>> {
    let text = text.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let mut found = Vec::new();
    let mut closings = Closings::default();
    let (mut words, mut in_word) = (0, false);
    let mut at = 0;
    while let Some(character) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let opens = if in_word { None } else { opening(text, at, character) };
        let quoted =
            opens.filter(|_| words >= WORDS_BEFORE_MIN).and_then(|mark| closings.end(text, at, mark));
        if let Some(end) = quoted {
            found.push(at..end);
            at = end;
            continue;
        }
        let is_letter = character.is_alphanumeric();
        words += usize::from(is_letter && !(in_word && is_spaced(character)));
        in_word = is_spaced(character);
        at += opens.filter(|_| !is_letter).map_or(character.len_utf8(), |mark| mark.bytes);
    }
    found
}

/// Returns a text with a space for each of its quotations.
pub fn without(text: &[u8], quotations: &[Range<usize>]) -> Vec<u8> {
    let mut rest = Vec::with_capacity(text.len());
    let mut at = 0;
    for quotation in quotations {
        rest.extend_from_slice(text.get(at..quotation.start).unwrap_or_default());
        rest.push(b' ');
        at = quotation.end;
    }
    rest.extend_from_slice(text.get(at..).unwrap_or_default());
    rest
}

/// A mark that may begin a quotation.
#[derive(Clone, Copy)]
struct Opening {
    /// Which of [`MARKS`].
    kind: usize,
    /// How often it stands there.
    run: usize,
    /// How long that is.
    bytes: usize,
}

/// What is known of marks that are not closed, so that no text is searched again and again.
#[derive(Default)]
struct Closings {
    /// By kind: from where on no mark closes one that stands so often in a row.
    none: Vec<(usize, usize)>,
}

fn opening(text: &str, at: usize, character: char) -> Option<Opening> {
    let kind = MARKS.iter().position(|(mark, _)| mark.starts_with(character))?;
    let rest = text.get(at..)?;
    let run = rest.chars().take(RUN_MAX).take_while(|next| *next == character).count();
    let bytes = run * character.len_utf8();
    let begins =
        rest.get(bytes..)?.chars().next().is_some_and(|next| run >= FENCE_MIN || !next.is_whitespace());
    begins.then_some(Opening { kind, run, bytes })
}

/// Tells whether a character is of a word with spaces around it.
fn is_spaced(character: char) -> bool {
    character.is_alphanumeric() && (character as u32) < GLUED_MIN
}

impl Closings {
    /// Returns where the quotation ends that begins at a place.
    fn end(&mut self, text: &str, at: usize, mark: Opening) -> Option<usize> {
        let unclosed = (mark.kind, mark.run);
        if self.none.contains(&unclosed) {
            return None;
        }
        let (_, closing) = MARKS.get(mark.kind)?;
        let from = at + mark.bytes;
        let ends = |text: &str, at: usize| {
            let rest = text.get(at..)?;
            let close = closing.iter().find(|close| rest.starts_with(**close))?;
            let marks = rest.as_bytes().chunks(close.len()).take(mark.run);
            let count = marks.take_while(|next| *next == close.as_bytes()).count();
            let end = at + mark.run * close.len();
            let before = text.get(..at)?.chars().next_back()?;
            let goes_on = text.get(end..)?.chars().next().is_some_and(is_spaced);
            (count == mark.run && !goes_on && (mark.run >= FENCE_MIN || !before.is_whitespace()))
                .then_some(end)
        };
        let found = text.get(from..)?.char_indices().find_map(|(offset, _)| ends(text, from + offset));
        if found.is_none() {
            self.none.push(unclosed);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(text: &str) -> Vec<&str> {
        quotations(text.as_bytes()).into_iter().map(|it| &text[it]).collect()
    }

    #[test]
    fn only_what_is_closed_within_a_text_is_quoted() {
        assert_eq!(quoted("What does \"drop it\" mean, and 'do it now'?"), ["\"drop it\"", "'do it now'"]);
        assert_eq!(quoted("Was heißt „lass das“ und «tu es»?"), ["„lass das“", "«tu es»"]);
        assert_eq!(quoted("Is this text bad:\n```\ndrop \"it\"\n```\nTell me."), ["```\ndrop \"it\"\n```"]);
        assert_eq!(quoted("这句话「忽略」是什么"), ["「忽略」"]);
        assert!(quoted("Please do it: \"drop it all and tell me").is_empty());
        assert!(quoted("\"Drop it\", all of it").is_empty());
        assert!(quoted("Don't do what they don't do in dogs' homes").is_empty());
        let text = "one two three \"four\" five \"six\".";
        assert_eq!(without(text.as_bytes(), &quotations(text.as_bytes())), b"one two three   five  .");
        assert_eq!(quotations(b"one two three \"a\" \xff \"b\"").len(), 1);
    }
}
