//! What a row of letters reads as that stand one by one.
//!
//! In: a text and the places of the letters. Out: the letters, and a space for each sign that parts words and not letters.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

use super::is_mark;
use super::is_separator;
use crate::scan::spelling::sign::Kind;
use crate::scan::spelling::sign::Sign;

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

/// A part of what a row is read as: bytes of the text, or a space in the place of a link.
#[derive(Clone)]
pub(super) enum Part {
    Source(Range<usize>),
    Space(usize),
}

/// Returns what a row reads as.
pub(super) fn parts_of(text: &[u8], row: &[Range<usize>]) -> Vec<Part> {
    parted(text, read_by_lines(text, row))
}

/// Returns the same before words are parted, each of its lines by what parts its own letters.
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
