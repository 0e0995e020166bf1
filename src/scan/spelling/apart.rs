//! Letters that stand one by one, `i g n o r e`: told by a glance, and put together again.
//!
//! A letter is one of any script with the marks that belong to it, or a digit. What parts two letters of a row is a
//! space, a dot or the like, as a rule the same all along. Whatever else stands between two of them parts words: it is
//! kept, without the signs around it. Both readings take one pass over the text.

use std::ops::Range;

use self::row::Part;
use self::row::parts_of;
use super::excerpt::AROUND_BYTES;
use super::excerpt::Excerpt;
use super::sign::Kind;
use super::sign::Sign;
use super::sign::kinds;
use super::sign::letter_end;
use super::sign::word_end;
use crate::scan::view::View;

mod row;

/// How many letters stand apart before that counts as a way to write.
const APART_MIN: usize = 5;

/// How many letters stand apart in a row before it is worth a look.
const APART_GLANCE: u32 = 4;

/// How many signs may part two letters of such a row.
const APART_SIGNS_MAX: usize = 3;

/// How many characters there are at most between two letters of a row, and how many bytes.
const LINK_SIGNS_MAX: usize = 16;
const LINK_BYTES_MAX: usize = 4 * LINK_SIGNS_MAX;

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

/// Puts letters together that stand one by one, `i g n o r e  a l l`, and leaves out what is far from them; nothing if none
/// do.
pub(super) fn spaced(text: &[u8]) -> Option<View> {
    Reading::of(text, Signs::Parting).excerpt.read()
}

/// Does the same, and keeps signs that stand apart as the letters do, `g h p _ 1`, where they would part words; nothing if
/// there are none.
pub(super) fn spaced_with_signs(text: &[u8]) -> Option<View> {
    let reading = Reading::of(text, Signs::Kept);
    reading.has_sign.then(|| reading.excerpt.read()).flatten()
}

/// Puts the same letters together where one of them is beyond ASCII.
pub(super) fn spaced_beyond(text: &[u8]) -> Option<View> {
    let reading = Reading::of(text, Signs::Parting);
    reading.is_beyond.then(|| reading.excerpt.read()).flatten()
}

/// Returns the sign at a place if it stands apart: what parts letters is on both sides of it.
fn sign_apart(text: &[u8], at: usize) -> Option<u8> {
    let around = text.get(at.checked_sub(1)?..at.checked_add(2)?)?;
    let [before, sign, behind] = <[u8; 3]>::try_from(around).ok()?;
    let is_one = matches!(sign, b'_' | b'-' | b'+' | b'/') && before == behind && before != sign;
    (is_one && (before == b' ' || before.is_ascii_punctuation())).then_some(sign)
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

/// What is made of a sign that may part words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Signs {
    /// It does.
    Parting,
    /// It is one of what is spelt, if it stands apart itself.
    Kept,
}

/// A reading of a text as it is made.
struct Reading<'t> {
    text: &'t [u8],
    signs: Signs,
    excerpt: Excerpt<'t>,
    /// The letters of the row under way.
    row: Vec<Range<usize>>,
    /// Whether a letter that was put together with others is beyond ASCII.
    is_beyond: bool,
    /// Whether a sign was kept that might have parted words.
    has_sign: bool,
}

impl<'t> Reading<'t> {
    fn of(text: &'t [u8], signs: Signs) -> Self {
        Self::within(text, signs, between_words(text, APART_MIN as u32))
    }

    /// Reads the rows of letters in some stretches of a text.
    fn within(text: &'t [u8], signs: Signs, stretches: impl Iterator<Item = Range<usize>>) -> Self {
        let excerpt = Excerpt::of(text, AROUND_BYTES);
        let mut reading = Self { text, signs, excerpt, row: Vec::new(), is_beyond: false, has_sign: false };
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
        self.excerpt.begin(first.start..last.end);
        self.is_beyond |= row.iter().any(|letter| letter.len() > 1);
        for part in parts_of(self.text, &row) {
            match part {
                Part::Source(range) => {
                    let bytes = self.text.get(range.clone()).unwrap_or_default();
                    self.excerpt.write(bytes, range.start, 1);
                }
                Part::Space(at) => {
                    let sign = Some(at).filter(|_| self.signs == Signs::Kept);
                    let sign = sign.and_then(|at| sign_apart(self.text, at));
                    self.has_sign |= sign.is_some();
                    self.excerpt.write(&[sign.unwrap_or(b' ')], at, 1);
                }
            }
        }
    }
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
            let read = Reading::within(text.as_bytes(), Signs::Parting, whole()).excerpt.read();
            prop_assert_eq!(spaced(text.as_bytes()), read);
            let has_row = has_row(text.as_bytes(), whole());
            prop_assert_eq!(stand_apart_beyond(text.as_bytes()), has_row);
            prop_assert!(!text.is_ascii() || stand_apart(text.as_bytes()) == has_row);
        }
    }
}
