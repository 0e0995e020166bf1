//! Escapes of JSON strings: undone, written, and mapped from offsets in the text to bytes of the body.

use std::borrow::Cow;
use std::ops::Range;

use super::JsonString;

/// The shortest escape of a character outside the basic plane: `\ud83d\ude00`.
const SURROGATE_PAIR_BYTES: usize = 12;
const UNICODE_ESCAPE_BYTES: usize = 6;

/// Returns a text as it stands between the quotes of a JSON string.
pub fn escaped(text: &str) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len());
    escape_into(text, &mut escaped);
    escaped
}

/// Appends `text` as the inside of a JSON string.
pub fn escape_into(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for byte in text.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x00..=0x1f => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
            _ => out.push(byte),
        }
    }
}

/// Returns the bytes of the body that make up a range of a string's text.
///
/// A range that begins or ends inside a character takes the whole character, and all of its escape.
pub fn raw_range(body: &[u8], string: &JsonString, decoded: Range<usize>) -> Range<usize> {
    RawCursor::new(body, string).raw_range(decoded)
}

/// Maps ranges of a string's text to bytes of the body, in one pass when they are asked for in ascending order.
#[derive(Debug)]
pub struct RawCursor<'a> {
    body: &'a [u8],
    string: &'a JsonString,
    /// A place where a unit begins, in both counts.
    decoded: usize,
    raw: usize,
}

/// One character as written, literal or escaped, or half of one.
struct Unit {
    raw_bytes: usize,
    /// Its bytes in UTF-8, and how many of these it has.
    utf8: [u8; 4],
    text_bytes: usize,
}

impl Unit {
    fn of(character: char, raw_bytes: usize) -> Self {
        let mut utf8 = [0; 4];
        let text_bytes = character.encode_utf8(&mut utf8).len();
        Self { raw_bytes, utf8, text_bytes }
    }

    fn text(&self) -> &[u8] {
        self.utf8.get(..self.text_bytes).unwrap_or_default()
    }
}

/// What of a surrogate pair a string begins and ends with, whose other half stands in another string.
///
/// In the string's text each half is two bytes: those of its character that it stands for. The last one says nothing
/// until both are known, for it has bits of either ([`Halves::joined`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Halves {
    /// The low surrogate at its begin.
    pub begin: Option<u32>,
    /// The high surrogate at its end.
    pub end: Option<u32>,
}

/// How many bytes of a character half of a surrogate pair stands for.
pub const HALF_BYTES: usize = 2;

impl Halves {
    /// Returns the halves of a string that was walked.
    pub fn of(body: &[u8], string: &JsonString) -> Self {
        if !string.escaped {
            return Self::default();
        }
        let raw = body.get(string.raw.clone()).unwrap_or_default();
        let last = raw.len().saturating_sub(UNICODE_ESCAPE_BYTES);
        let (before, end) = raw.split_at(last);
        let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
        let half = |escape: &[u8]| escape.strip_prefix(b"\\u").and_then(|digits| hex4(digits.get(..4)?));
        Self {
            begin: half(raw).filter(|unit| is_low(*unit)),
            end: half(end).filter(|unit| is_high(*unit) && backslashes.is_multiple_of(2)),
        }
    }

    /// Returns the bytes of the character that two halves are.
    pub fn joined(high: u32, low: u32) -> Option<[u8; 4]> {
        surrogate_pair(high, low).map(|character| Unit::of(character, 0).utf8)
    }
}

fn is_high(unit: u32) -> bool {
    (0xd800..0xdc00).contains(&unit)
}

fn is_low(unit: u32) -> bool {
    (0xdc00..0xe000).contains(&unit)
}

impl<'a> RawCursor<'a> {
    /// Returns a cursor at the string's begin.
    pub fn new(body: &'a [u8], string: &'a JsonString) -> Self {
        Self { body, string, decoded: 0, raw: string.raw.start }
    }

    /// Returns the bytes of the body that make up a range of the text, widened to whole characters and escapes.
    pub fn raw_range(&mut self, decoded: Range<usize>) -> Range<usize> {
        if decoded.start < self.decoded {
            *self = Self::new(self.body, self.string);
        }
        let start = self.unit_at(decoded.start);
        if decoded.is_empty() {
            return start..start;
        }
        let mut ahead = Self { body: self.body, string: self.string, ..*self };
        let last = ahead.unit_at(decoded.end - 1);
        let end = unit(self.within(last)).map_or(self.string.raw.end, |unit| last + unit.raw_bytes);
        start..end.max(start)
    }

    /// Goes to the unit that holds a decoded offset and returns its raw offset; the end when there is none.
    fn unit_at(&mut self, target: usize) -> usize {
        if !self.string.escaped {
            self.raw = char_start(self.body, &self.string.raw, target);
            self.decoded = self.raw - self.string.raw.start;
            return self.raw;
        }
        loop {
            let rest = self.within(self.raw);
            let literal = memchr::memchr(b'\\', rest).unwrap_or(rest.len());
            if target < self.decoded + literal {
                let raw = char_start(self.body, &(self.raw..self.raw + literal), target - self.decoded);
                self.decoded += raw - self.raw;
                self.raw = raw;
                return raw;
            }
            self.decoded += literal;
            self.raw += literal;
            let Some(escape) = rest.get(literal..).and_then(unit) else { return self.raw };
            if target < self.decoded + escape.text_bytes {
                return self.raw;
            }
            self.decoded += escape.text_bytes;
            self.raw += escape.raw_bytes;
        }
    }

    fn within(&self, raw: usize) -> &'a [u8] {
        self.body.get(raw..self.string.raw.end).unwrap_or_default()
    }
}

/// Returns a string's text, with its escapes undone if it has any.
pub(super) fn unescaped<'a>(body: &'a [u8], string: &JsonString) -> Cow<'a, [u8]> {
    let raw = body.get(string.raw.clone()).unwrap_or_default();
    if !string.escaped {
        return Cow::Borrowed(raw);
    }
    let mut text = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (literal, escape) = rest.split_at(at);
        text.extend_from_slice(literal);
        let Some(unit) = unit(escape) else { break };
        text.extend_from_slice(unit.text());
        rest = escape.get(unit.raw_bytes..).unwrap_or_default();
    }
    text.extend_from_slice(rest);
    Cow::Owned(text)
}

/// Reads the character at the begin of `raw`, which is inside a string that was walked.
fn unit(raw: &[u8]) -> Option<Unit> {
    if raw.first()? != &b'\\' {
        let width = utf8_width(*raw.first()?);
        let character = std::str::from_utf8(raw.get(..width)?).ok()?.chars().next()?;
        return Some(Unit::of(character, width));
    }
    let simple = |character| Some(Unit::of(character, 2));
    match raw.get(1)? {
        b'"' => simple('"'),
        b'\\' => simple('\\'),
        b'/' => simple('/'),
        b'b' => simple('\u{8}'),
        b'f' => simple('\u{c}'),
        b'n' => simple('\n'),
        b'r' => simple('\r'),
        b't' => simple('\t'),
        b'u' => unicode_escape(raw),
        _ => None,
    }
}

fn unicode_escape(raw: &[u8]) -> Option<Unit> {
    let first = hex4(raw.get(2..UNICODE_ESCAPE_BYTES)?)?;
    if let Some(character) = char::from_u32(first) {
        return Some(Unit::of(character, UNICODE_ESCAPE_BYTES));
    }
    let second = || raw.get(UNICODE_ESCAPE_BYTES..SURROGATE_PAIR_BYTES)?.strip_prefix(b"\\u").and_then(hex4);
    match second().and_then(|second| surrogate_pair(first, second)) {
        Some(character) => Some(Unit::of(character, SURROGATE_PAIR_BYTES)),
        None => half(first),
    }
}

/// Returns what half of a surrogate pair stands for, its other half being the first there is.
fn half(surrogate: u32) -> Option<Unit> {
    let (high, low) = if is_high(surrogate) { (surrogate, 0xdc00) } else { (0xd800, surrogate) };
    let [first, second, third, fourth] = Halves::joined(high, low)?;
    let [one, two] = if is_high(surrogate) { [first, second] } else { [third, fourth] };
    Some(Unit { raw_bytes: UNICODE_ESCAPE_BYTES, utf8: [one, two, 0, 0], text_bytes: HALF_BYTES })
}

/// Returns the character that a high and a low surrogate stand for.
pub(super) fn surrogate_pair(high: u32, low: u32) -> Option<char> {
    let pair = (0xd800..0xdc00).contains(&high) && (0xdc00..0xe000).contains(&low);
    pair.then(|| char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00))).flatten()
}

/// Reads four hexadecimal digits.
pub(super) fn hex4(digits: &[u8]) -> Option<u32> {
    let value = |sum: u32, digit: &u8| Some(sum << 4 | char::from(*digit).to_digit(16)?);
    (digits.len() == 4).then(|| digits.iter().try_fold(0, value)).flatten()
}

fn utf8_width(first: u8) -> usize {
    match first {
        0..=0xbf => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xff => 4,
    }
}

/// Returns where the character begins that holds the byte `offset` after the range's begin.
fn char_start(body: &[u8], range: &Range<usize>, offset: usize) -> usize {
    let mut at = range.start.saturating_add(offset).min(range.end);
    while at > range.start && at < range.end && body.get(at).is_some_and(|byte| byte & 0xc0 == 0x80) {
        at -= 1;
    }
    at
}
