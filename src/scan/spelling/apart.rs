//! Letters that stand one by one, `i g n o r e`: told by a glance, and put together again.
//!
//! A letter is one of any script with the marks that belong to it, or a digit. What parts two letters of a row is a
//! space, a dot or the like, as a rule the same all along. Whatever else stands between two of them parts words: it is
//! kept, without the signs around it. Both readings take one pass over the text.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

use super::sign::Kind;
use super::sign::Sign;
use super::sign::kinds;
use super::sign::letter_end;
use super::sign::word_end;
use crate::scan::view::View;

/// How many letters stand apart before that counts as a way to write.
const APART_MIN: usize = 5;

/// How many letters stand apart in a row before it is worth a look.
const APART_GLANCE: u32 = 4;

/// How many signs may part two letters of such a row.
const APART_SIGNS_MAX: usize = 3;

/// How many characters there are at most between two letters of a row, and how many bytes.
const LINK_SIGNS_MAX: usize = 16;
const LINK_BYTES_MAX: usize = 4 * LINK_SIGNS_MAX;

/// How many links without a line end, side by side, make the end of a line one of the row before or behind it.
const LINE_LINKS: usize = 2;

/// One of so many links of a row is other than the rest: no sign of it tells where words end.
const IRREGULAR_SHARE: usize = 4;

/// The words that orders are made of, to be told apart where nothing else parts them.
const ORDER_WORDS: &str = "above all and any are developer disregard everything following forget guidelines ignore instruction instructions message \
    mode my now override previous print prior prompt reveal rules show system the you your";

/// The shortest of them that tells an order, in bytes, and how many such there have to be.
const TELLING_BYTES_MIN: usize = 5;
const TELLING_MIN: usize = 2;

/// How many bytes are looked at together.
const STEP: usize = size_of::<u64>();

/// One in each of them, and the highest bit of each.
const ONES: u64 = u64::MAX / 255;
const HIGH: u64 = ONES * 0x80;

/// Tells whether a few letters or digits in a row stand one by one, with one to three signs between them.
pub(super) fn stand_apart(text: &[u8]) -> bool {
    if text.is_ascii() { stand_apart_in_ascii(text) } else { stand_apart_beyond(text) }
}

fn stand_apart_beyond(text: &[u8]) -> bool {
    has_row(text, between_words(text, APART_GLANCE))
}

/// Tells whether a few letters stand one by one in one of some stretches of a text.
fn has_row(text: &[u8], mut stretches: impl Iterator<Item = Range<usize>>) -> bool {
    let mut row = Row::of(text);
    stretches.any(|stretch| {
        words(text, stretch).any(|word| match word {
            Word::Letter(letter) => row.take(letter),
            Word::Letters => {
                row.count = 0;
                false
            }
        })
    })
}

fn stand_apart_in_ascii(text: &[u8]) -> bool {
    let mut row = Row::of(text);
    let (mut before, mut here) = (0, alphanumerics(text.get(..STEP).unwrap_or(text)));
    for start in (0..text.len()).step_by(STEP) {
        let next = text.get(start + STEP..).unwrap_or_default();
        let behind = alphanumerics(next.get(..STEP).unwrap_or(next));
        let beside = here << 8 | before >> 56 | here >> 8 | behind << 56;
        let mut alone = here & !beside;
        while alone != 0 {
            let at = start + alone.trailing_zeros() as usize / 8;
            if row.take(at..at + 1) {
                return true;
            }
            alone &= alone - 1;
        }
        (before, here) = (here, behind);
    }
    false
}

/// Letters that stand one by one, as they are met.
struct Row<'t> {
    text: &'t [u8],
    /// Where the last of them ends.
    last: usize,
    /// What stands between the last two.
    link: &'t [u8],
    /// How many there were in a row.
    count: u32,
}

impl<'t> Row<'t> {
    fn of(text: &'t [u8]) -> Self {
        Self { text, last: 0, link: &[], count: 0 }
    }

    /// Takes the next letter that stands alone; true if it is the last of a few in a row.
    fn take(&mut self, letter: Range<usize>) -> bool {
        let link = self.text.get(self.last..letter.start).unwrap_or_default();
        // Any sign may part letters that nothing else parts.
        let is_known = || is_mark(link) && (self.count == 1 || link == self.link);
        let goes_on = self.count > 0 && (is_separator(link) || is_known());
        (self.last, self.link) = (letter.end, link);
        self.count = if goes_on { self.count + 1 } else { 1 };
        self.count >= APART_GLANCE
    }
}

/// Tells whether what stands between two letters is one sign of punctuation.
fn is_mark(link: &[u8]) -> bool {
    matches!(link, [byte] if byte.is_ascii_punctuation())
}

/// Tells whether what stands between two letters is one to three signs that may part letters.
fn is_separator(between: &[u8]) -> bool {
    let gaps = kinds(between).take(APART_SIGNS_MAX + 1).take_while(|kind| *kind == Kind::Gap).count();
    (1..=APART_SIGNS_MAX).contains(&gaps) && kinds(between).all(|kind| kind == Kind::Gap)
}

/// Returns up to eight bytes as a number, the first byte lowest.
fn word_of(bytes: &[u8]) -> u64 {
    match <[u8; STEP]>::try_from(bytes) {
        Ok(bytes) => u64::from_le_bytes(bytes),
        Err(_) => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// Returns the high bit of each of up to eight bytes that is beyond ASCII, the first byte lowest.
fn beyond_ascii(bytes: &[u8]) -> u64 {
    word_of(bytes) & HIGH
}

/// Returns the high bit of each of up to eight bytes that is a letter or a digit, the first byte lowest.
fn alphanumerics(bytes: &[u8]) -> u64 {
    let word = word_of(bytes);
    // No byte carries into the next: each is below 0x80, and so is what is added.
    let within = |bytes: u64, first: u8, last: u8| {
        (bytes + ONES * u64::from(0x80 - first)) & !(bytes + ONES * u64::from(0x7f - last))
    };
    let digits = within(word & !HIGH, b'0', b'9');
    let letters = within((word | (ONES * 0x20)) & !HIGH, b'a', b'z');
    (digits | letters) & !word & HIGH
}

/// Puts letters together that stand one by one, `i g n o r e  a l l`; nothing if none do.
pub(super) fn spaced(text: &[u8]) -> Option<View> {
    Reading::of(text).whole()
}

/// Does the same where one of these letters is beyond ASCII.
pub(super) fn spaced_beyond(text: &[u8]) -> Option<View> {
    let reading = Reading::of(text);
    reading.is_beyond.then(|| reading.whole()).flatten()
}

/// A word of a text.
enum Word {
    /// One letter, with what belongs to it.
    Letter(Range<usize>),
    /// More than one.
    Letters,
}

/// Returns the words of a stretch of a text that neither begins nor ends within one.
fn words(text: &[u8], stretch: Range<usize>) -> impl Iterator<Item = Word> + '_ {
    let mut at = stretch.start;
    std::iter::from_fn(move || {
        while at < stretch.end {
            let sign = Sign::at(text, at)?;
            if !sign.is_of_word() {
                at += sign.width;
                continue;
            }
            let (start, end) = (at, letter_end(text, at));
            at = word_end(text, end);
            return Some(if end == at { Word::Letter(start..end) } else { Word::Letters });
        }
        None
    })
}

/// Returns the stretches of a text from one word with two ASCII letters or digits side by side to the next such word, as far
/// as there may be so many letters between.
///
/// Most words are such, and no row of letters goes on over one.
fn between_words(text: &[u8], letters_min: u32) -> impl Iterator<Item = Range<usize>> + '_ {
    let (mut stretches, mut at, mut before) = (text.chunks(STEP), 0, 0);
    let (mut start, mut count) = (0, 0);
    std::iter::from_fn(move || {
        for bytes in stretches.by_ref() {
            let (here, beyond) = (alphanumerics(bytes), beyond_ascii(bytes));
            let (pairs, letters) = (here & (here << 8 | before >> 56), here | beyond);
            let from = at;
            (at, before) = (at + bytes.len(), here);
            if pairs == 0 {
                count += letters.count_ones();
                continue;
            }
            // No row has room between two pairs of so few bytes.
            let (first, last) = (pairs.trailing_zeros(), 63 - pairs.leading_zeros());
            let counted = count + (letters & ((1 << first) - 1)).count_ones();
            let stretch = start..from + first as usize / 8 + 1;
            start = (from + last as usize / 8).saturating_sub(1);
            count = (letters >> last >> 1).count_ones();
            if counted >= letters_min {
                return Some(stretch);
            }
        }
        let counted = std::mem::take(&mut count);
        (counted >= letters_min).then_some(start..text.len())
    })
}

/// A reading of a text as it is made.
struct Reading<'t> {
    text: &'t [u8],
    view: View,
    /// How much of the text is in the view.
    copied: usize,
    /// The letters of the row under way.
    row: Vec<Range<usize>>,
    /// Whether a letter that was put together with others is beyond ASCII.
    is_beyond: bool,
}

/// A part of what a row is read as: bytes of the text, or a space in the place of a link.
#[derive(Clone)]
enum Part {
    Source(Range<usize>),
    Space(usize),
}

impl<'t> Reading<'t> {
    fn of(text: &'t [u8]) -> Self {
        Self::within(text, between_words(text, APART_MIN as u32))
    }

    /// Reads the rows of letters in some stretches of a text.
    fn within(text: &'t [u8], stretches: impl Iterator<Item = Range<usize>>) -> Self {
        let mut reading = Self { text, view: View::default(), copied: 0, row: Vec::new(), is_beyond: false };
        for stretch in stretches {
            words(text, stretch).for_each(|word| reading.take(word));
            reading.end_row();
        }
        reading
    }

    /// Takes the next word.
    fn take(&mut self, word: Word) {
        match word {
            Word::Letters => self.end_row(),
            Word::Letter(letter) => {
                if !self.goes_on_at(letter.start) {
                    self.end_row();
                }
                self.row.push(letter);
            }
        }
    }

    /// Tells whether the letter at a place belongs to the row under way.
    fn goes_on_at(&self, at: usize) -> bool {
        let Some(last) = self.row.last() else { return true };
        let between = self.text.get(last.end..at).unwrap_or_default();
        // A sign on both sides parts letters here as it does elsewhere.
        let is_between_marks = || {
            let ends = between.first().filter(|first| Some(*first) == between.last());
            ends.is_some_and(u8::is_ascii_punctuation)
        };
        between.len() <= LINK_BYTES_MAX
            && kinds(between).count() <= LINK_SIGNS_MAX
            && (is_between_marks() || kinds(between).any(|kind| kind == Kind::Gap))
    }

    /// Ends the row under way, and writes what it reads as if it is long enough.
    fn end_row(&mut self) {
        let row = std::mem::take(&mut self.row);
        let (Some(first), Some(last)) = (row.first(), row.last()) else { return };
        if row.len() < APART_MIN {
            return;
        }
        self.copy(first.start);
        self.copied = last.end;
        self.is_beyond |= row.iter().any(|letter| letter.len() > 1);
        for part in parted(self.text, read_by_lines(self.text, &row)) {
            match part {
                Part::Source(range) => {
                    let bytes = self.text.get(range.clone()).unwrap_or_default();
                    self.view.append(bytes, range.start, 1, 1);
                }
                Part::Space(at) => self.view.append(b" ", at, 1, 1),
            }
        }
    }

    /// Copies the text up to a place.
    fn copy(&mut self, to: usize) {
        self.view.append(self.text.get(self.copied..to).unwrap_or_default(), self.copied, 1, 1);
        self.copied = to;
    }

    fn whole(mut self) -> Option<View> {
        let found = self.copied > 0;
        self.copy(self.text.len());
        found.then_some(self.view)
    }
}

/// Returns what a row reads as, each of its lines by what parts its own letters.
fn read_by_lines(text: &[u8], row: &[Range<usize>]) -> Vec<Part> {
    let links: Vec<Range<usize>> =
        row.windows(2).filter_map(|pair| Some(pair.first()?.end..pair.last()?.start)).collect();
    let has_end: Vec<bool> =
        links.iter().map(|link| text.get(link.clone()).is_some_and(has_line_end)).collect();
    // Letters below one another have a line end on both sides, but for those at a space between words.
    let is_line = |links: Option<&[bool]>| links.is_some_and(|links| !links.contains(&true));
    let (mut parts, mut start) = (Vec::with_capacity(2 * row.len()), 0);
    for (at, link) in links.iter().enumerate().filter(|(at, _)| has_end.get(*at) == Some(&true)) {
        let before = at.checked_sub(LINE_LINKS).and_then(|from| has_end.get(from..at));
        if is_line(before) || is_line(has_end.get(at + 1..at + 1 + LINE_LINKS)) {
            join(text, row.get(start..=at), links.get(start..at), &mut parts);
            part_words(text, link.clone(), b"", &mut parts);
            start = at + 1;
        }
    }
    join(text, row.get(start..), links.get(start..), &mut parts);
    parts
}

fn has_line_end(link: &[u8]) -> bool {
    link.iter().any(|byte| matches!(byte, b'\n' | b'\r'))
}

/// Writes letters, and what parts their words.
fn join(text: &[u8], row: Option<&[Range<usize>]>, links: Option<&[Range<usize>]>, parts: &mut Vec<Part>) {
    let (row, links) = (row.unwrap_or_default(), links.unwrap_or_default());
    let bytes = |link: &Range<usize>| text.get(link.clone()).unwrap_or_default();
    let separator = separator(links.iter().map(bytes));
    let is_one = |link: &[u8]| {
        Sign::at(link, 0).is_some_and(|sign| sign.kind == Kind::Gap && sign.width == link.len())
    };
    let is_stray = |link: &[u8]| is_one(link) && link != separator && !is_white(link);
    let strays = links.iter().filter(|link| is_stray(bytes(link))).count();
    let is_irregular = strays * IRREGULAR_SHARE >= links.len();
    for (at, letter) in row.iter().enumerate() {
        parts.push(Part::Source(letter.clone()));
        let Some(link) = links.get(at) else { break };
        let between = bytes(link);
        if between == separator || is_irregular && is_one(between) {
            continue;
        }
        part_words(text, link.clone(), separator, parts);
    }
}

/// Returns the link that parts the letters of a row: the most frequent one that may.
fn separator<'t>(links: impl Iterator<Item = &'t [u8]>) -> &'t [u8] {
    let mut counts: HashMap<&[u8], (usize, Reverse<usize>)> = HashMap::new();
    for (at, link) in links.filter(|link| is_separator(link) || is_mark(link)).enumerate() {
        counts.entry(link).or_insert((0, Reverse(at))).0 += 1;
    }
    // The first of those that are equally frequent.
    let most = counts.into_iter().max_by_key(|(_, rank)| *rank);
    most.map(|(link, _)| link).unwrap_or_default()
}

fn is_white(link: &[u8]) -> bool {
    std::str::from_utf8(link).is_ok_and(|link| link.chars().all(char::is_whitespace))
}

/// Writes what stands between two words without what parts letters around it, and within it.
fn part_words(text: &[u8], link: Range<usize>, separator: &[u8], parts: &mut Vec<Part>) {
    let between = text.get(link.clone()).unwrap_or_default();
    let start = if between.starts_with(separator) { separator.len() } else { 0 };
    let inner = between.get(start..).unwrap_or_default();
    let inner = inner.strip_suffix(separator).unwrap_or(inner);
    let (mut at, mut is_parted, known) = (0, false, parts.len());
    while let Some(sign) = Sign::at(inner, at) {
        let place = link.start + start + at;
        if sign.kind == Kind::Other || matches!(inner.get(at), Some(b'.' | b',' | b'\n' | b'\r')) {
            parts.push(Part::Source(place..place + sign.width));
        } else if !std::mem::replace(&mut is_parted, true) {
            parts.push(Part::Space(place));
        }
        at += sign.width;
        // What is written apart as well has one more of them behind it.
        if !separator.is_empty() && inner.get(at..).is_some_and(|rest| rest.starts_with(separator)) {
            at += separator.len();
        }
    }
    if parts.len() == known {
        parts.push(Part::Space(link.start));
    }
}

/// Parts the words of an order whose letters all stand equally apart, in each stretch that nothing else parts.
fn parted(text: &[u8], joined: Vec<Part>) -> Vec<Part> {
    let letter = |part: &Part| match part {
        Part::Source(range) if range.len() == 1 => text.get(range.start).map_or(0, u8::to_ascii_lowercase),
        Part::Source(_) => 0,
        Part::Space(_) => b' ',
    };
    let letters: Vec<u8> = joined.iter().map(letter).collect();
    let is_between = |at: &usize| letters.get(*at).is_none_or(|it| *it != 0 && !it.is_ascii_alphanumeric());
    let ends = (0..=letters.len()).filter(is_between);
    let (mut out, mut all_telling, mut start) = (Vec::with_capacity(joined.len()), 0, 0);
    for end in ends {
        let stretch = joined.get(start..end).unwrap_or_default();
        let (words, telling) = words_of(stretch, letters.get(start..end).unwrap_or_default());
        all_telling += telling;
        match telling {
            0 => out.extend_from_slice(stretch),
            _ => out.extend(words),
        }
        out.extend(joined.get(end).cloned());
        start = end + 1;
    }
    if all_telling < TELLING_MIN { joined } else { out }
}

/// Returns a stretch of letters with the words of an order apart, and how many of them tell one.
fn words_of(stretch: &[Part], letters: &[u8]) -> (Vec<Part>, usize) {
    let word_at = |at: usize| {
        let rest = letters.get(at..).unwrap_or_default();
        ORDER_WORDS.split(' ').filter(|word| rest.starts_with(word.as_bytes())).map(|word| word.len()).max()
    };
    let (mut out, mut telling, mut at): (Vec<Part>, _, _) = (Vec::new(), 0, 0);
    let (mut is_behind_word, mut before) = (false, 0);
    while at < stretch.len() {
        let word = word_at(at);
        // What stands between the letters stands for the space.
        if at > 0 && (word.is_some() || is_behind_word) {
            out.push(Part::Space(before));
        }
        is_behind_word = word.is_some();
        telling += usize::from(word.is_some_and(|length| length >= TELLING_BYTES_MIN));
        let next = at + word.unwrap_or(1);
        let taken = stretch.get(at..next).unwrap_or_default();
        if let Some(Part::Source(last)) = taken.last() {
            before = last.end;
        }
        out.extend_from_slice(taken);
        at = next;
    }
    (out, telling)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_no_row_goes_on_over_parts_what_is_read(
            words in proptest::collection::vec(
                prop_oneof![
                    5 => "[a-c1é́я]",
                    1 => "[a-c1é́яक्]{1,3}",
                    6 => r"[ .,\n)\-]{1,2}",
                ],
                0..60,
            ),
        ) {
            let text = words.concat();
            let whole = || std::iter::once(0..text.len());
            let read = Reading::within(text.as_bytes(), whole()).whole();
            prop_assert_eq!(spaced(text.as_bytes()), read);
            let has_row = has_row(text.as_bytes(), whole());
            prop_assert_eq!(stand_apart_beyond(text.as_bytes()), has_row);
            prop_assert!(!text.is_ascii() || stand_apart(text.as_bytes()) == has_row);
        }
    }
}
