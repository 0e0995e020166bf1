//! Phrases that hold the key of a wallet, where nothing says what they are.
//!
//! In: a whole text. Out: readings of its rows of words of one list of BIP-39 whose checksum holds, each behind the label that
//! detectors know. A row has at least twelve words with little between them. Prose costs a look at one word of every 47
//! bytes, which no row fits between. Word lists, as sources of wallets have them, are no phrases.

use std::collections::VecDeque;
use std::ops::Range;
use std::str::Utf8Chunks;

use super::PIECE_BYTES;
use crate::scan::check::mnemonic;
use crate::scan::check::mnemonic::Languages;
use crate::scan::check::mnemonic::WORDS_MIN;
use crate::scan::check::mnemonic::Word;
use crate::scan::view::View;

/// What a phrase stands behind in a reading.
const LABEL: &[u8] = b"\nseed phrase: ";

/// The shortest row: twelve words of three bytes, and one byte between two of them.
const ROW_BYTES_MIN: usize = 4 * WORDS_MIN - 1;

/// A row of more words is a list of them.
const ROW_WORDS_MAX: usize = 30;

/// How many words of a longer row may be a phrase, the least likely by chance first.
const STRETCHES: [usize; 5] = [24, 21, 18, 15, WORDS_MIN];

/// The most bytes between two words of a row: quotation marks, a comma, a line's end and its indentation, or a number.
const GAP_BYTES_MAX: usize = 12;

/// The most bytes of a character.
const SIGN_BYTES_MAX: usize = 4;

/// Reads the phrases of a text, as much at once as a text in pieces is.
pub(super) struct Phrases<'t> {
    chunks: Utf8Chunks<'t>,
    /// What is read now, where it begins in the text, and where what comes behind it does.
    part: &'t str,
    base: usize,
    next: usize,
    /// How far it has been read.
    at: usize,
}

/// Words that follow each other, and the languages whose lists have all of them.
struct Row {
    words: VecDeque<(Range<usize>, Word)>,
    languages: Languages,
}

/// Returns what reads the phrases of a text.
pub(super) fn read(text: &[u8]) -> Phrases<'_> {
    // Nearly every text is UTF-8, which is faster told of all of it.
    let (part, rest) = match std::str::from_utf8(text) {
        Ok(part) => (part, &text[text.len()..]),
        Err(_) => ("", text),
    };
    Phrases { chunks: rest.utf8_chunks(), part, base: 0, next: 0, at: 0 }
}

impl Iterator for Phrases<'_> {
    type Item = View;

    fn next(&mut self) -> Option<View> {
        let mut view = View::default();
        while view.bytes().len() < PIECE_BYTES && (self.at < self.part.len() || self.next_part()) {
            self.read_row(&mut view);
        }
        (!view.bytes().is_empty()).then_some(view)
    }
}

impl Phrases<'_> {
    /// Goes on to the next part of the text that is UTF-8, if there is one.
    fn next_part(&mut self) -> bool {
        let Some(chunk) = self.chunks.next() else { return false };
        (self.part, self.base, self.at) = (chunk.valid(), self.next, 0);
        self.next += chunk.valid().len() + chunk.invalid().len();
        true
    }

    /// Reads the row that stands here, or goes on as far as there is room for none.
    fn read_row(&mut self, view: &mut View) {
        let first = word_at(self.part, self.at).filter(|word| is_in_row(self.part, word));
        let row = first.and_then(|word| Row::around(self.part, word));
        let Some(row) = row.filter(|row| row.words.len() >= WORDS_MIN) else {
            self.at += ROW_BYTES_MIN;
            return;
        };
        if let Some(phrase) = row.phrase(self.part) {
            self.append(row.words.range(phrase).map(|(word, _)| word), view);
        }
        self.at = row.range().end;
    }

    /// Appends a phrase of the part behind the label.
    fn append<'w>(&self, words: impl Iterator<Item = &'w Range<usize>>, view: &mut View) {
        let mut last_end = None;
        for word in words {
            let start = self.base + word.start;
            match last_end {
                None => view.append(LABEL, start.saturating_sub(1), 1, LABEL.len() as u8),
                Some(end) => view.append(b" ", self.base + end, (word.start - end) as u8, 1),
            }
            view.append(self.part.get(word.clone()).unwrap_or_default().as_bytes(), start, 1, 1);
            last_end = Some(word.end);
        }
    }
}

impl Row {
    /// Returns the row that a word stands in, or so much of a longer one that it is a list, unless no list has the word.
    fn around(text: &str, first: Range<usize>) -> Option<Self> {
        let word = mnemonic::word(text.get(first.clone())?)?;
        let mut row = Self { words: VecDeque::from([(first, word)]), languages: word.languages() };
        while row.words.len() <= ROW_WORDS_MAX
            && let Some(next) = row.known(text, word_behind(text, row.range().end))
        {
            row.words.push_back(next);
        }
        let behind = row.words.len();
        while row.words.len() - behind <= ROW_WORDS_MAX
            && let Some(next) = row.known(text, word_before(text, row.range().start))
        {
            row.words.push_front(next);
        }
        Some(row)
    }

    /// Returns a word next to the row with where it stands in the lists, if one of the row's languages has it.
    fn known(&mut self, text: &str, next: Option<Range<usize>>) -> Option<(Range<usize>, Word)> {
        let next = next?;
        let word = mnemonic::word(text.get(next.clone())?)?;
        let languages = self.languages & word.languages();
        if languages.is_empty() {
            return None;
        }
        self.languages = languages;
        Some((next, word))
    }

    /// Returns where the row stands.
    fn range(&self) -> Range<usize> {
        let start = self.words.front().map_or(0, |(word, _)| word.start);
        start..self.words.back().map_or(start, |(word, _)| word.end)
    }

    /// Returns which words are a phrase: all, or those of a longer row that are long at its end or set apart in it.
    fn phrase(&self, text: &str) -> Option<Range<usize>> {
        let count = self.words.len();
        if count > ROW_WORDS_MAX {
            return None;
        }
        let is_phrase = |stretch: &Range<usize>| {
            let words: Vec<Word> = self.words.range(stretch.clone()).map(|(_, word)| *word).collect();
            mnemonic::is_phrase(&words) && !mnemonic::is_shown(&words)
        };
        let gaps = self.gaps(text);
        let shorter = STRETCHES.into_iter().filter(|length| *length < count);
        let stretches =
            shorter.flat_map(|length| (0..=count - length).map(move |start| start..start + length));
        let may_be = |stretch: &Range<usize>| {
            let is_at_end = stretch.start == 0 || stretch.end == count;
            is_at_end && stretch.len() > WORDS_MIN || is_set_apart(stretch, &gaps)
        };
        std::iter::once(0..count).chain(stretches.filter(may_be)).find(is_phrase)
    }

    /// Returns what stands between each word and the next one, without the numbers of a list.
    fn gaps(&self, text: &str) -> Vec<String> {
        let ends = self.words.iter().map(|(place, _)| place.end);
        let pairs = ends.zip(self.words.iter().skip(1).map(|(place, _)| place.start));
        let between = |(end, next): (usize, usize)| {
            let gap = text.get(end..next).unwrap_or_default();
            gap.chars().filter(|sign| !sign.is_numeric()).collect::<String>()
        };
        pairs.map(between).collect()
    }
}

/// Tells whether a word stands among so many words of the lists, of whatever language, that they may be a row.
fn is_in_row(text: &str, first: &Range<usize>) -> bool {
    let is_listed =
        |word: &Range<usize>| text.get(word.clone()).is_some_and(|it| mnemonic::word(it).is_some());
    let more = |word: Option<Range<usize>>| word.filter(is_listed);
    if !is_listed(first) {
        return false;
    }
    let behind = std::iter::successors(Some(first.clone()), |word| more(word_behind(text, word.end)));
    let count = behind.take(WORDS_MIN).count();
    let before = std::iter::successors(Some(first.clone()), |word| more(word_before(text, word.start)));
    count + before.skip(1).take(WORDS_MIN - count).count() >= WORDS_MIN
}

/// Tells whether some words of a row end where it does, or where another sign stands than between them.
fn is_set_apart(words: &Range<usize>, gaps: &[String]) -> bool {
    let inner = gaps.get(words.start);
    let is_edge = |gap: &String| {
        let parts = |sign: char| sign == '\n' || !sign.is_whitespace();
        gap.chars().any(parts) && Some(gap) != inner
    };
    let before = words.start.checked_sub(1).and_then(|gap| gaps.get(gap));
    let behind = words.end.checked_sub(1).and_then(|gap| gaps.get(gap));
    before.is_none_or(is_edge) && behind.is_none_or(is_edge)
}

/// Returns the word that stands at a place, or else the one behind it.
fn word_at(text: &str, at: usize) -> Option<Range<usize>> {
    let at = text.floor_char_boundary(at);
    let is_in_word = text.get(at..)?.starts_with(mnemonic::is_of_word);
    let here = is_in_word.then(|| mnemonic::around(text, at)).flatten();
    here.or_else(|| word_behind(text, at))
}

/// Returns the first word behind a place, if little stands between.
fn word_behind(text: &str, at: usize) -> Option<Range<usize>> {
    let near = text.get(at..text.floor_char_boundary(at + GAP_BYTES_MAX + SIGN_BYTES_MAX))?;
    let gap = near.find(char::is_alphabetic)?;
    is_gap(near.get(..gap)?).then(|| mnemonic::around(text, at + gap)).flatten()
}

/// Returns the last word before a place, if little stands between.
fn word_before(text: &str, at: usize) -> Option<Range<usize>> {
    let far = text.ceil_char_boundary(at.saturating_sub(GAP_BYTES_MAX + SIGN_BYTES_MAX));
    let letter = text.get(far..at)?.rfind(char::is_alphabetic)?;
    let word = mnemonic::around(text, far + letter)?;
    is_gap(text.get(word.end..at)?).then_some(word)
}

/// Tells whether the words on both sides of what has no letter may follow each other: those of two texts that are looked at
/// together do not.
fn is_gap(between: &str) -> bool {
    between.len() <= GAP_BYTES_MAX && !between.contains('\0')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TWELVE: &str = "rail fever air pear quality bar baby must mandate message express camera";
    const LONG: &str = "divert chapter display trim mandate imitate address crop impose observe winter skull silver want \
                        expire oblige style ozone tank giant salmon drill mesh great";
    const FRENCH: &str =
        "camion rigoler frelon relief plaque février intuitif douter erreur larme école stupeur";
    const KOREAN: &str = "목걸이 학력 조선 담당 원서 능력 가득 어쩐지 석유 초순 시나리오 무용";
    const CHINESE: &str = "越 叙 塘 拨 测 家 斑 投 怀 兄 版 叠";

    fn reading(text: &str) -> String {
        read(text.as_bytes()).map(|view| String::from_utf8(view.bytes().to_vec()).unwrap()).collect()
    }

    /// Writes each word of a phrase with its number, and something between two.
    fn listed(phrase: &str, write: impl Fn(usize, &str) -> String, between: &str) -> String {
        let words = phrase.split(' ').zip(1..).map(|(word, number)| write(number, word));
        words.collect::<Vec<_>>().join(between)
    }

    #[test]
    fn a_row_of_words_is_read_behind_a_label() {
        for phrase in [TWELVE, LONG, FRENCH, KOREAN, CHINESE] {
            for text in [
                phrase.to_owned(),
                format!("Here it is:\n{phrase}\nKeep it, whoever asks you for it."),
                format!("They wrote `{phrase}` upon it, and more than that {}", "and on ".repeat(99)),
                format!("{{\"text\":\"{phrase}\",\"address\":\"1\"}}"),
            ] {
                assert_eq!(reading(&text), format!("\nseed phrase: {phrase}"), "{text}");
            }
            for text in [
                listed(phrase, |number, word| format!("{number}. {word}"), "\n"),
                listed(phrase, |_, word| format!("\"{word}\""), ",\n    "),
                listed(phrase, |number, word| format!("{number:02}) {word}"), "  "),
                phrase.replace(' ', "\u{3000}"),
                phrase.replace(' ', "\r\n"),
            ] {
                assert_eq!(reading(&text), format!("\nseed phrase: {phrase}"), "{text}");
            }
        }
        let both = format!("{TWELVE}\0{FRENCH}");
        assert_eq!(reading(&both), format!("\nseed phrase: {TWELVE}\nseed phrase: {FRENCH}"));
    }

    #[test]
    fn what_is_no_phrase_is_not_read() {
        let wrong = TWELVE.replace("camera", "great");
        for text in [
            "",
            "The quick brown fox jumps over the lazy dog, and then it does so again and again.",
            &wrong,
            // Eleven words.
            TWELVE.trim_end_matches(" camera"),
            // One of another list.
            &TWELVE.replace("fever", "février"),
            // Too far from each other, and in two texts.
            &TWELVE.replace(' ', " ------------ "),
            &TWELVE.replacen(' ', "\0", 1),
            // A part of a list, and what nobody drew.
            "aerobic affair afford afraid again age agent agree ahead aim air airport",
            "test test test test test test test test test test test junk",
            // Behind another word of the list, with nothing that sets it apart.
            &format!("system {TWELVE}"),
            // A list.
            &format!("{TWELVE} {TWELVE} {TWELVE}"),
            "越叙塘拨测家斑投怀兄版叠",
        ] {
            assert_eq!(reading(text), "", "{text}");
        }
    }

    #[test]
    fn a_phrase_is_set_apart_in_a_longer_row() {
        for (text, phrase) in [
            (format!("secret: {TWELVE}"), TWELVE),
            (format!("{TWELVE}\nadvice"), TWELVE),
            (format!("secret key {LONG}"), LONG),
            (format!("seed: {TWELVE}; address"), TWELVE),
        ] {
            assert_eq!(reading(&text), format!("\nseed phrase: {phrase}"), "{text}");
        }
    }

    #[test]
    fn word_lists_are_read_once() {
        let list = format!("{LONG} ").repeat(2_000);
        assert_eq!(reading(&list), "");
        let behind = format!("{}\0{TWELVE}", "abandon ".repeat(20_000));
        assert_eq!(reading(&behind), format!("\nseed phrase: {TWELVE}"));
    }

    #[test]
    fn a_phrase_lies_where_its_words_are() {
        for before in [&b""[..], b"\xff\xfe Gr\xc3\xbc\xc3\x9fe: ", b"\"", "家".as_bytes()] {
            for written in
                [TWELVE.to_owned(), listed(KOREAN, |number, word| format!("{word} {number}"), ", ")]
            {
                let text = [before, b"\n", written.as_bytes(), b"\n\xff"].concat();
                let view = read(&text).next().unwrap();
                let source = view.source_range(LABEL.len()..view.bytes().len());
                let end = before.len() + 1 + written.trim_end_matches([' ', '1', '2']).len();
                assert_eq!(source, before.len() + 1..end, "{written}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_phrase_is_found_wherever_it_stands(before in "(?:[xyzé,. ]{0,5}){0,30}", behind in "(?:[ .,x]{0,5}){0,30}") {
            let text = format!("{before}x. {CHINESE}. x{behind}");
            prop_assert_eq!(reading(&text), format!("\nseed phrase: {CHINESE}"));
        }

        #[test]
        fn every_reading_leads_back_into_its_text(
            text in "(?:rail fever air pear quality bar baby must mandate message express camera|camion|的|é|[a1 \",\n]|e\u{301}){0,60}",
            noise in any::<[u8; 3]>(),
        ) {
            let text = [&noise[..], text.as_bytes(), &noise[..]].concat();
            for view in read(&text) {
                for at in 0..view.bytes().len() {
                    let source = view.source_range(at..at + 1);
                    prop_assert!(source.start < source.end && source.end <= text.len());
                }
            }
        }
    }
}
