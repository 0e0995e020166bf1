//! The words that speak for a match, or against it, when they stand before it.

use std::ops::Range;

use memchr::memchr_iter;

/// How far before a match its context words are looked for, in bytes of the same view.
pub const CONTEXT_BYTES: usize = 96;

/// From this length on, in bytes, a context word may stand inside a longer word.
const CONTEXT_SUBSTRING_BYTES: usize = 4;

/// How far before a match the name of it ends, in bytes: quotes, a colon and blanks stand between.
const NAME_GAP_BYTES_MAX: usize = 8;

/// How many bytes a character has at most in UTF-8.
const CHARACTER_BYTES_MAX: usize = 4;

/// Words that speak for a match, or against it, when they stand before it.
#[derive(Clone, Debug)]
pub struct ContextWords {
    words: Vec<ContextWord>,
    /// In lower case.
    against: Vec<Vec<u8>>,
    required: bool,
}

/// What the words before a match say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// One of them speaks for it.
    For,
    /// It has the name of something else.
    Against,
    /// Nothing.
    Silent,
}

/// One of them, and whether a longer word may go on at its ends.
#[derive(Clone, Debug)]
struct ContextWord {
    /// In lower case, without the blanks at its ends.
    word: Box<[u8]>,
    /// Whether no letter and no digit may stand before it, of whichever script.
    begins: bool,
    /// Whether none may stand behind it.
    ends: bool,
}

impl ContextWords {
    /// Takes the words to look for; empty ones are dropped, and a blank at an end stands for the edge of a word.
    pub fn new(words: &[String], required: bool) -> Self {
        let words = words.iter().filter_map(|word| ContextWord::new(word)).collect();
        Self { words, against: Vec::new(), required }
    }

    /// Takes the words with which the names end of what is no such thing.
    pub fn against(self, words: &[String]) -> Self {
        Self { against: words.iter().map(|word| word.to_ascii_lowercase().into_bytes()).collect(), ..self }
    }

    /// Returns the words that speak for a match in lower case, without the blanks at their ends.
    pub fn words(&self) -> impl Iterator<Item = &[u8]> {
        self.words.iter().map(|word| &*word.word)
    }

    /// Tells whether there is no finding without one of the words.
    pub fn required(&self) -> bool {
        self.required
    }

    /// Returns the words that speak against a match in lower case.
    pub fn words_against(&self) -> impl Iterator<Item = &[u8]> {
        self.against.iter().map(Vec::as_slice)
    }

    /// Tells whether any word can speak for a match.
    pub fn can_raise(&self) -> bool {
        !self.words.is_empty()
    }

    /// Tells what stands before a match says of it.
    ///
    /// A name speaks against it that ends with such a word, unless another word in the same name speaks for it: `order_id`
    /// and `orderId`, not `paid` and not `card_id`. What stands farther away is then not asked.
    pub fn voice(&self, before: &[u8]) -> Voice {
        if self.names_another(before) {
            Voice::Against
        } else if self.found(before) {
            Voice::For
        } else {
            Voice::Silent
        }
    }

    /// Tells whether the name right before a match is one of something else.
    fn names_another(&self, before: &[u8]) -> bool {
        let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii();
        let Some(last) = before.iter().rposition(is_of_word) else { return false };
        let text = before.get(..=last).unwrap_or_default();
        if self.against.is_empty() || before.len() - text.len() > NAME_GAP_BYTES_MAX {
            return false;
        }
        let lower = text.to_ascii_lowercase();
        let is_end = |word: &Vec<u8>| lower.ends_with(word) && begins_word(text, text.len() - word.len());
        let is_of_name = |byte: &&u8| is_of_word(byte) || matches!(byte, b'_' | b'-' | b'.');
        let name = text.len() - text.iter().rev().take_while(is_of_name).count();
        self.against.iter().any(is_end) && !self.found(text.get(name..).unwrap_or_default())
    }

    /// Tells whether one of the words that speak for a match stands in `before`, whatever its ASCII case.
    ///
    /// A word of up to three bytes has to stand alone; a longer one may be part of a compound, but not at an end
    /// where it was written with a blank.
    pub fn found(&self, before: &[u8]) -> bool {
        let lower = before.to_ascii_lowercase();
        self.words.iter().any(|word| word.stands_in(&lower))
    }
}

impl PartialEq for ContextWords {
    fn eq(&self, other: &Self) -> bool {
        let facts = self.words.iter().map(ContextWord::facts);
        let rest = (self.required, &self.against) == (other.required, &other.against);
        rest && facts.eq(other.words.iter().map(ContextWord::facts))
    }
}

impl Eq for ContextWords {}

impl ContextWord {
    /// Reads a word as a pack writes it; none where nothing but blanks is written.
    fn new(written: &str) -> Option<Self> {
        let word: Box<[u8]> = written.trim_matches(' ').to_ascii_lowercase().into_bytes().into();
        let (begins, ends) = (written.starts_with(' '), written.ends_with(' '));
        (!word.is_empty()).then_some(Self { word, begins, ends })
    }

    /// Returns what makes it equal to another.
    fn facts(&self) -> (&[u8], bool, bool) {
        (&self.word, self.begins, self.ends)
    }

    /// Tells whether the word stands in a text in lower case.
    fn stands_in(&self, text: &[u8]) -> bool {
        let Some(first) = self.word.first() else { return false };
        let is_here = |at: &usize| text.get(*at..).is_some_and(|rest| rest.starts_with(&self.word));
        memchr_iter(*first, text).filter(is_here).any(|at| self.is_whole_at(text, at))
    }

    /// Tells whether what was found at a place of `text` is the word, and no part of one that speaks of something else.
    fn is_whole_at(&self, text: &[u8], at: usize) -> bool {
        let word = self.word.len();
        let (before, behind) =
            (text.get(..at).unwrap_or_default(), text.get(at + word..).unwrap_or_default());
        let beside = [before.last(), behind.first()];
        let is_part =
            word < CONTEXT_SUBSTRING_BYTES && beside.into_iter().flatten().any(u8::is_ascii_alphanumeric);
        let goes_on = self.begins && ends_in_letter(before) || self.ends && begins_with_letter(behind);
        !is_part && !goes_on
    }
}

/// Returns a stretch of a text, without the rest of a word in which it begins, where that would be taken for a short one:
/// of `CANCEL: ` no `cel: ` is left.
pub fn behind_cut(text: &[u8], stretch: Range<usize>) -> &[u8] {
    let is_within =
        stretch.start.checked_sub(1).and_then(|at| text.get(at)).is_some_and(u8::is_ascii_alphanumeric);
    let before = text.get(stretch).unwrap_or_default();
    let rest = before.iter().take_while(|byte| is_within && byte.is_ascii_alphanumeric()).count();
    if rest < CONTEXT_SUBSTRING_BYTES { &before[rest..] } else { before }
}

/// Tells whether a word begins at a place: behind what is no letter, or with a capital behind a small letter.
fn begins_word(text: &[u8], at: usize) -> bool {
    let (before, behind) = text.split_at(at.min(text.len()));
    let is_hump = before.last().is_some_and(u8::is_ascii_lowercase)
        && behind.first().is_some_and(u8::is_ascii_uppercase);
    is_hump || !ends_in_letter(before)
}

/// Tells whether the last character of a text is a letter or a digit of any script.
fn ends_in_letter(text: &[u8]) -> bool {
    let mut ends = (1..=CHARACTER_BYTES_MAX).filter_map(|bytes| text.get(text.len().checked_sub(bytes)?..));
    ends.find_map(|end| std::str::from_utf8(end).ok())
        .is_some_and(|last| last.contains(char::is_alphanumeric))
}

/// Tells whether the first character of a text is a letter or a digit of any script.
fn begins_with_letter(text: &[u8]) -> bool {
    let mut begins = (1..=CHARACTER_BYTES_MAX).filter_map(|bytes| text.get(..bytes));
    begins
        .find_map(|begin| std::str::from_utf8(begin).ok())
        .is_some_and(|first| first.contains(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> ContextWords {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        ContextWords::new(&words, true)
    }

    #[test]
    fn context_words_are_caseless_and_short_ones_stand_alone() {
        let words = words(&["SSN", "secret", "", " "]);
        for (before, found) in
            [("ssn: ", true), ("my_Ssn=", true), ("assn ", false), ("clientSecret", true), ("", false)]
        {
            assert_eq!(words.found(before.as_bytes()), found, "{before}");
        }
    }

    #[test]
    fn a_word_that_is_cut_is_no_short_one() {
        let words = words(&["cel", "secret"]);
        let found = |text: &str, from: usize| words.found(behind_cut(text.as_bytes(), from..text.len()));
        assert!(!found("CANCEL: ", 3) && !found("excel", 2));
        assert!(found("my cel: ", 3) && found("cel: ", 0) && found("clientSecret: ", 6));
    }

    #[test]
    fn the_name_of_something_else_speaks_against_a_match() {
        let against = ["id", "timestamp", "order number"].map(str::to_owned);
        let words = words(&["card", "payment"]).against(&against);
        for (before, voice) in [
            ("\"id\": ", Voice::Against),
            ("order_id = \"", Voice::Against),
            ("orderId: ", Voice::Against),
            ("orderID: ", Voice::Against),
            ("{\"payment\": true, \"order_id\": ", Voice::Against),
            ("Order number: ", Voice::Against),
            ("payment_id: ", Voice::For),
            ("my card, with this id on it: ", Voice::For),
            ("the card that was paid: ", Voice::For),
            ("paid: ", Voice::Silent),
            ("id                    ", Voice::Silent),
            ("", Voice::Silent),
        ] {
            assert_eq!(words.voice(before.as_bytes()), voice, "{before}");
        }
    }

    #[test]
    fn a_blank_stands_for_the_edge_of_a_context_word() {
        let edged = words(&[" né le", " born ", " рожд"]);
        assert_eq!(edged.words().collect::<Vec<_>>(), ["né le".as_bytes(), b"born", "рожд".as_bytes()]);
        for (before, found) in [
            ("né le ", true),
            ("(né le ", true),
            ("«né le ", true),
            ("donné le ", false),
            ("créé, donné le, né le ", true),
            ("Born: ", true),
            ("is_born_", true),
            ("stubborn ", false),
            ("borné ", false),
            ("дата рождения ", true),
            ("возрождение ", false),
        ] {
            assert_eq!(edged.found(before.as_bytes()), found, "{before}");
        }
        assert_ne!(edged, words(&["né le", "born", "рожд"]));
    }
}
