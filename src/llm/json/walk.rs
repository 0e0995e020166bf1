//! The one pass over a body: grammar, limits, strings and values.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::Document;
use super::JsonFault;
use super::JsonLimits;
use super::JsonProblem;
use super::JsonString;
use super::Node;
use super::NodeId;
use super::Step;
use super::Value;
use super::escape::hex4;
use super::escape::surrogate_pair;
use super::keys;
use super::keys::Key;
use super::long_digits;

/// The stride of the search for a string's end: wide enough for vector instructions.
const STRIDE_BYTES: usize = 32;
/// Whole numbers of so many digits may be infinite.
const DIGITS_SAFE: usize = 300;

/// Reads a body to its end.
///
/// # Errors
/// Fails at the first byte that some decoder might read differently, and past any limit.
pub fn walk(body: &[u8], limits: &JsonLimits) -> Result<Document, JsonFault> {
    read(body, limits, Ends::Whole)
}

/// Reads an event of a stream to its end: where a text comes in pieces, one may end within a character that is written
/// as a surrogate pair, and the next begin there ([`Halves`](super::Halves)).
///
/// # Errors
/// Fails at the first byte that some decoder might read differently, and past any limit.
pub fn walk_event(body: &[u8], limits: &JsonLimits) -> Result<Document, JsonFault> {
    read(body, limits, Ends::Parted)
}

fn read(body: &[u8], limits: &JsonLimits, ends: Ends) -> Result<Document, JsonFault> {
    check_encoding(body)?;
    let mut walker = Walker {
        body,
        limits,
        ends,
        at: 0,
        frames: SmallVec::new(),
        keys: SmallVec::new(),
        document: Document {
            strings: Vec::with_capacity(8 + body.len() / 128),
            nodes: Vec::with_capacity(8 + body.len() / 128),
        },
    };
    walker.run()?;
    Ok(walker.document)
}

fn check_encoding(body: &[u8]) -> Result<(), JsonFault> {
    if u32::try_from(body.len()).is_err() {
        return Err(JsonProblem::TooLarge.at(0));
    }
    match body {
        [0xef, 0xbb, 0xbf, ..] => return Err(JsonProblem::ByteOrderMark.at(0)),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, ..] | [_, 0, ..] => {
            return Err(JsonProblem::NotUtf8Encoding.at(0));
        }
        _ => {}
    }
    match std::str::from_utf8(body) {
        Ok(_) => Ok(()),
        Err(fault) => Err(JsonProblem::InvalidUtf8.at(fault.valid_up_to())),
    }
}

/// An object or array that is still open.
struct Frame {
    node: u32,
    object: bool,
    /// The position of the next element.
    next_index: u32,
    /// Where its keys begin in [`Walker::keys`].
    keys_from: usize,
}

/// How values that are strings begin and end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// With whole characters.
    Whole,
    /// Perhaps with half of a surrogate pair.
    Parted,
}

struct Walker<'a> {
    body: &'a [u8],
    limits: &'a JsonLimits,
    ends: Ends,
    at: usize,
    frames: SmallVec<[Frame; 16]>,
    keys: SmallVec<[Key; 32]>,
    document: Document,
}

impl Walker<'_> {
    fn run(&mut self) -> Result<(), JsonFault> {
        self.skip_space();
        if self.at == self.body.len() {
            return Err(JsonProblem::Empty.at(0));
        }
        self.value(Step::Root)?;
        while let Some(frame) = self.frames.last_mut() {
            let step = Step::Index(frame.next_index);
            frame.next_index = frame.next_index.saturating_add(1);
            let first = matches!(step, Step::Index(0));
            let object = frame.object;
            if self.closed(first, object)? {
                continue;
            }
            match object {
                true => {
                    let key = self.key()?;
                    self.value(Step::Key(key))?;
                }
                false => self.value(step)?,
            }
        }
        self.skip_space();
        match self.at == self.body.len() {
            true => Ok(()),
            false => Err(JsonProblem::TrailingText.at(self.at)),
        }
    }

    /// Takes the closing bracket or the comma that may stand here, and tells whether it was the bracket.
    fn closed(&mut self, first: bool, object: bool) -> Result<bool, JsonFault> {
        self.skip_space();
        match (self.peek(), object) {
            (Some(b'}'), true) | (Some(b']'), false) => {
                self.at += 1;
                self.close()?;
                return Ok(true);
            }
            (None, _) => return Err(JsonProblem::UnexpectedEnd.at(self.at)),
            (Some(b','), _) if !first => self.at += 1,
            (Some(_), _) if first => return Ok(false),
            (Some(_), _) => return Err(JsonProblem::ExpectedCommaOrEnd.at(self.at)),
        }
        self.skip_space();
        Ok(false)
    }

    fn close(&mut self) -> Result<(), JsonFault> {
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        let end = self.document.nodes.len() as u32;
        if let Some(node) = self.document.nodes.get_mut(frame.node as usize) {
            node.end = end;
        }
        self.check_keys(frame.keys_from)
    }

    /// Looks for keys that some decoder takes for one, among those from `keys_from` on.
    fn check_keys(&mut self, keys_from: usize) -> Result<(), JsonFault> {
        let open = self.keys.get_mut(keys_from..).unwrap_or_default();
        let clash = keys::clash(open, |key| {
            let string = self.document.strings.get(key as usize);
            string.map(|string| self.document.text(self.body, string)).unwrap_or_default()
        });
        self.keys.truncate(keys_from);
        match clash {
            Some((problem, string)) => Err(problem.at(self.string_offset(string))),
            None => Ok(()),
        }
    }

    fn string_offset(&self, string: u32) -> usize {
        self.document.strings.get(string as usize).map_or(self.at, |string| string.raw.start)
    }

    /// Reads a key and its colon, and returns its place among the strings.
    fn key(&mut self) -> Result<u32, JsonFault> {
        match self.peek() {
            Some(b'"') => {}
            Some(_) => return Err(JsonProblem::ExpectedKey.at(self.at)),
            None => return Err(JsonProblem::UnexpectedEnd.at(self.at)),
        }
        // The value that follows becomes the next node.
        let index = self.string(true)?;
        let string = self.document.strings.get(index as usize);
        let text = string.map(|string| self.document.text(self.body, string)).unwrap_or_default();
        // As it stands, a control character was refused already.
        if matches!(text, Cow::Owned(_)) && text.contains(&0) {
            return Err(JsonProblem::NulInKey.at(self.string_offset(index)));
        }
        self.keys.push(Key::new(&text, index));
        self.skip_space();
        match self.peek() {
            Some(b':') => self.at += 1,
            Some(_) => return Err(JsonProblem::ExpectedColon.at(self.at)),
            None => return Err(JsonProblem::UnexpectedEnd.at(self.at)),
        }
        self.skip_space();
        Ok(index)
    }

    fn value(&mut self, step: Step) -> Result<(), JsonFault> {
        let start = self.at;
        match self.peek() {
            Some(b'"') => {
                let index = self.string(false)?;
                self.add(step, Value::String(index))
            }
            Some(b'{') => self.open(step, true),
            Some(b'[') => self.open(step, false),
            Some(b'-' | b'0'..=b'9') => {
                self.number()?;
                self.add_scalar(step, Value::Number(start as u32, self.at as u32))
            }
            Some(b't') => self.word(b"true").and_then(|()| self.add_scalar(step, Value::Bool(true))),
            Some(b'f') => self.word(b"false").and_then(|()| self.add_scalar(step, Value::Bool(false))),
            Some(b'n') => self.word(b"null").and_then(|()| self.add_scalar(step, Value::Null)),
            Some(_) => Err(JsonProblem::ExpectedValue.at(start)),
            None => Err(JsonProblem::UnexpectedEnd.at(start)),
        }
    }

    fn open(&mut self, step: Step, object: bool) -> Result<(), JsonFault> {
        if self.frames.len() >= self.limits.depth_max {
            return Err(JsonProblem::TooDeep.at(self.at));
        }
        let node = self.document.nodes.len() as u32;
        self.add(step, if object { Value::Object } else { Value::Array })?;
        self.at += 1;
        self.frames.push(Frame { node, object, next_index: 0, keys_from: self.keys.len() });
        Ok(())
    }

    fn add_scalar(&mut self, step: Step, value: Value) -> Result<(), JsonFault> {
        let is_long = |start: u32| self.body.get(start as usize..self.at).and_then(long_digits).is_some();
        match (step, value) {
            (Step::Index(_), Value::Number(start, _)) if is_long(start) => self.add(step, value),
            (Step::Index(_), _) => Ok(()),
            (Step::Root | Step::Key(_), _) => self.add(step, value),
        }
    }

    fn add(&mut self, step: Step, value: Value) -> Result<(), JsonFault> {
        if self.document.nodes.len() >= self.limits.nodes_max {
            return Err(JsonProblem::TooManyValues.at(self.at));
        }
        let parent = self.frames.last().map_or(0, |frame| frame.node);
        let end = self.document.nodes.len() as u32 + 1;
        self.document.nodes.push(Node { parent, end, step, value });
        Ok(())
    }

    /// Reads a string that begins with a quote here, and returns its place among the strings.
    fn string(&mut self, key: bool) -> Result<u32, JsonFault> {
        if self.document.strings.len() >= self.limits.strings_max {
            return Err(JsonProblem::TooManyStrings.at(self.at));
        }
        let start = self.at + 1;
        self.at = start;
        let mut escaped = false;
        loop {
            self.at = next_special(self.body, self.at);
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.escape(start, key)?;
                }
                Some(_) => return Err(JsonProblem::ControlCharacter.at(self.at)),
                None => return Err(JsonProblem::UnexpectedEnd.at(self.at)),
            }
        }
        let node = NodeId(self.document.nodes.len() as u32);
        self.document.strings.push(JsonString { raw: start..self.at, escaped, key, node });
        self.at += 1;
        Ok(self.document.strings.len() as u32 - 1)
    }

    /// Reads an escape in a string that begins at `from`.
    fn escape(&mut self, from: usize, key: bool) -> Result<(), JsonFault> {
        let start = self.at;
        let may_be_parted = self.ends == Ends::Parted && !key;
        match self.body.get(start + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let high = self.hex_after(start)?;
                self.at += 6;
                if (0xdc00..0xe000).contains(&high) && !(may_be_parted && start == from) {
                    return Err(JsonProblem::LoneSurrogate.at(start));
                }
                if (0xd800..0xdc00).contains(&high) && !(may_be_parted && self.peek() == Some(b'"')) {
                    if self.body.get(self.at..self.at + 2) != Some(b"\\u") {
                        return Err(JsonProblem::LoneSurrogate.at(start));
                    }
                    let low = self.hex_after(self.at)?;
                    surrogate_pair(high, low).ok_or(JsonProblem::LoneSurrogate.at(start))?;
                    self.at += 6;
                }
            }
            Some(_) => return Err(JsonProblem::MalformedEscape.at(start)),
            None => return Err(JsonProblem::UnexpectedEnd.at(start)),
        }
        Ok(())
    }

    fn hex_after(&self, backslash: usize) -> Result<u32, JsonFault> {
        let digits = self.body.get(backslash + 2..backslash + 6);
        digits.and_then(hex4).ok_or(JsonProblem::MalformedEscape.at(backslash))
    }

    fn number(&mut self) -> Result<(), JsonFault> {
        let start = self.at;
        let malformed = JsonProblem::MalformedNumber.at(start);
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek() == Some(b'0');
        let whole = self.digits();
        if whole == 0 || (leading_zero && whole > 1) {
            return Err(malformed);
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return Err(malformed);
            }
        }
        let exponent = matches!(self.peek(), Some(b'e' | b'E'));
        if exponent {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(malformed);
            }
        }
        if (exponent || whole > DIGITS_SAFE) && !self.finite(start) {
            return Err(JsonProblem::NumberOutOfRange.at(start));
        }
        Ok(())
    }

    fn finite(&self, start: usize) -> bool {
        let text = self.body.get(start..self.at).and_then(|text| std::str::from_utf8(text).ok());
        text.and_then(|text| text.parse::<f64>().ok()).is_some_and(f64::is_finite)
    }

    fn digits(&mut self) -> usize {
        let rest = self.body.get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    fn word(&mut self, word: &[u8]) -> Result<(), JsonFault> {
        let rest = self.body.get(self.at..).unwrap_or_default();
        if !rest.starts_with(word) {
            return Err(JsonProblem::ExpectedValue.at(self.at));
        }
        self.at += word.len();
        Ok(())
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }
}

/// Returns where the next quote, backslash or control character is, or the body's end.
fn next_special(body: &[u8], from: usize) -> usize {
    // No short circuits: the compiler makes vector instructions of it.
    let special = |byte: u8| u8::from(byte == b'"') | u8::from(byte == b'\\') | u8::from(byte < 0x20);
    let rest = body.get(from..).unwrap_or_default();
    let (strides, _) = rest.as_chunks::<STRIDE_BYTES>();
    let clean = |stride: &&[u8; STRIDE_BYTES]| stride.iter().fold(0, |any, byte| any | special(*byte)) == 0;
    let skipped = strides.iter().take_while(clean).count() * STRIDE_BYTES;
    let (words, tail) = rest.get(skipped..).unwrap_or_default().as_chunks::<8>();
    let mut at = from + skipped;
    for word in words {
        let found = special_bytes(u64::from_le_bytes(*word));
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += word.len();
    }
    at + tail.iter().position(|byte| special(*byte) != 0).unwrap_or(tail.len())
}

/// Returns a word whose lowest set bit lies in the first of 8 bytes that is a quote, a backslash or a control
/// character; zero where none is.
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES * 0x80;
    // A byte below `n` borrows into its high bit; a borrow that goes on can only mark bytes above it.
    let below = |word: u64, n: u64| word.wrapping_sub(ONES * n) & !word & HIGH;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    equal(b'"') | equal(b'\\') | below(word, 0x20)
}

#[cfg(test)]
mod tests {
    use super::next_special;

    #[test]
    fn the_first_special_byte_is_found_wherever_it_is() {
        let plain = "aé~ \u{7f}ÿz!#[]".repeat(12).into_bytes();
        for special in [b'"', b'\\', 0, 0x1f, b'\n'] {
            for at in 0..plain.len() {
                for second in [None, Some(at + 1), Some(at + 9)] {
                    let mut text = plain.clone();
                    text[at] = special;
                    if let Some(byte) = second.and_then(|second| text.get_mut(second)) {
                        *byte = b'"';
                    }
                    assert_eq!(next_special(&text, 0), at);
                    assert_eq!(next_special(&text, at), at);
                }
            }
        }
        assert_eq!(next_special(&plain, 3), plain.len());
    }
}
