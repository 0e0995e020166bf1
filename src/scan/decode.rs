//! Text inside text: runs of base64, base64url and hexadecimal whose decoded bytes can be read.
//!
//! A base64 run begins at a letter or digit behind anything else and goes on while its alphabet does; a hex run
//! begins at a hex digit behind anything else. Both alphabets of base64 are one here. A run is read while what it
//! decodes to is text: UTF-8 without control characters but tab, line feed and carriage return. The first byte that
//! is not ends it; ordinary words so end after one to four letters. What is left is worth reading from
//! [`RUN_BYTES_MIN`] characters on. A run ends with its line. In a whole text base64 is read once more as it goes on
//! behind the end of a line of [`LINE_BYTES_MIN`] or more, as mail and keys are wrapped. What still grows is not read
//! over the ends of lines: all of a long file would have to wait for its last one.
//!
//! [`runs`] reads a text, [`RunTracker`] says the same byte by byte for [`Lines::Apart`]: both drive the same readers.

mod utf8;

use std::ops::Range;

pub(super) use self::utf8::Utf8;
use super::threat::Encoding;
use super::view::View;

/// The shortest run that is decoded, in source bytes.
pub const RUN_BYTES_MIN: usize = 16;

/// How many characters at the begin of a run no finding covers: three decoded bytes of base64, two of hex.
///
/// Any word may be the begin of a run, and a stream would wait for each of them. What a value gives away by them is
/// at most the mark that its kind is known by.
pub const RUN_HEAD_BYTES: usize = 4;

/// The shortest line behind which base64 goes on, in bytes.
const LINE_BYTES_MIN: usize = 60;

/// How many bytes are looked at together; two blocks are not longer than the shortest run and a byte.
const BLOCK_BYTES: usize = 8;

/// Marks a byte that is no digit of base64.
const NO_DIGIT: u8 = 0xff;

/// What each byte is worth as a digit of base64 or base64url.
const VALUES: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 62 {
        let byte = match value {
            0..26 => b'A' + value,
            26..52 => b'a' + value - 26,
            _ => b'0' + value - 52,
        };
        values[byte as usize] = value;
        value += 1;
    }
    values[b'+' as usize] = 62;
    values[b'-' as usize] = 62;
    values[b'/' as usize] = 63;
    values[b'_' as usize] = 63;
    values
};

/// How base64 is read where its line ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lines {
    /// A run ends with its line.
    #[default]
    Apart,
    /// The same, and what goes on behind long lines is read as one as well.
    Joined,
}

/// A stretch of a text that is text again once it is decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The encoded bytes, padding included.
    pub source: Range<usize>,
    /// How they are encoded.
    pub encoding: Encoding,
    /// What they say, mapped to offsets of the text that holds the run.
    pub view: View,
}

/// Follows a text and knows the run that is under way.
#[derive(Clone, Debug, Default)]
pub struct RunTracker {
    base64: Reader,
    hex: Reader,
}

/// A run that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    /// Where it began.
    pub start: usize,
    /// Whether something can be read in it; if not, it only hides what looks like a run within it.
    pub readable: bool,
    /// Where a value in it begins at the earliest.
    pub value: usize,
}

/// One encoding's automaton.
#[derive(Clone, Debug)]
struct Reader {
    /// The byte before the next one.
    before: u8,
    lines: Lines,
    live: Option<Live>,
}

/// A run under way.
#[derive(Clone, Copy, Debug)]
struct Live {
    start: usize,
    lines: Lines,
    /// Where the line begins that is under way.
    line_start: usize,
    /// The first byte behind its head, once that was taken.
    body: Option<usize>,
    /// Bytes of the alphabet so far.
    length: usize,
    /// Those of them on this line.
    line: usize,
    /// How much of a line's end was just taken.
    line_end: LineEnd,
    /// Bits not yet made into a byte.
    bits: u32,
    bits_count: u8,
    /// Padding seen.
    padding: u8,
    utf8: Utf8,
    /// Bytes of the alphabet up to the last complete character.
    readable: usize,
    /// Where that ends.
    readable_to: usize,
    /// A sign of the alphabet occurred behind which a run could begin.
    divided: bool,
}

/// How much of the end of a line was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LineEnd {
    #[default]
    None,
    Return,
    Whole,
}

/// A run that came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ended {
    start: usize,
    body: Option<usize>,
    readable: usize,
    readable_to: usize,
    padding: u8,
    divided: bool,
}

/// Returns the runs that begin in `text` at `from` or behind it.
///
/// A run that began before `from` is passed over to its end. Only stretches of the alphabet that could hold a run
/// are read, and prose has hardly any.
pub fn runs(text: &[u8], from: usize, lines: Lines) -> Vec<Run> {
    let mut found = Vec::new();
    let mut at = from;
    while let Some(stretch) = stretch(text, at) {
        at = stretch.end;
        for kind in [Encoding::Base64, Encoding::Hex] {
            read_stretch(text, &stretch, kind, |ended| found.extend(decode(text, ended, kind)));
        }
        let has_lines = || text.get(stretch.clone()).is_some_and(|it| memchr::memchr(b'\n', it).is_some());
        if lines == Lines::Joined && has_lines() {
            read_joined(text, &stretch, |ended| found.extend(decode(text, ended, Encoding::Base64)));
        }
    }
    found
}

/// Returns the first stretch of at least [`RUN_BYTES_MIN`] bytes of the alphabet, from `at` on.
///
/// Such a stretch covers a block of [`BLOCK_BYTES`], wherever the blocks begin.
pub(super) fn stretch(text: &[u8], at: usize) -> Option<Range<usize>> {
    let mut least = at;
    loop {
        let (blocks, _) = text.get(least..)?.as_chunks::<BLOCK_BYTES>();
        let filled =
            |block: &[u8; BLOCK_BYTES]| may_be_filled(*block) && block.iter().all(|it| in_alphabet(*it));
        let inside = least + blocks.iter().position(filled)? * BLOCK_BYTES;
        let signs = |bytes: &[u8]| bytes.iter().take_while(|byte| in_alphabet(**byte)).count();
        let before = text.get(least..inside).unwrap_or_default();
        let start = inside - before.iter().rev().take_while(|byte| in_alphabet(**byte)).count();
        let mut end = inside + text.get(inside..).map_or(0, signs);
        let mut line = start;
        while let Some(next) = next_line(text, line..end) {
            (line, end) = (next, next + text.get(next..).map_or(0, signs));
        }
        if end - start >= RUN_BYTES_MIN {
            return Some(start..end);
        }
        least = end;
    }
}

/// Returns where the line behind one of base64 begins, if the run may go on there.
fn next_line(text: &[u8], line: Range<usize>) -> Option<usize> {
    let rest = text.get(line.end..).filter(|_| line.len() >= LINE_BYTES_MIN)?;
    let next = line.end + rest.len() - rest.strip_prefix(b"\r").unwrap_or(rest).strip_prefix(b"\n")?.len();
    text.get(next).filter(|byte| in_alphabet(**byte)).map(|_| next)
}

/// Tells whether no byte of a block is one of the signs below `+`: a space, a quote, a line break.
///
/// Wrong for some blocks that are not filled, never for one that is.
fn may_be_filled(block: [u8; BLOCK_BYTES]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    const PLUS: u64 = u64::from_ne_bytes([b'+'; BLOCK_BYTES]);
    let bytes = u64::from_ne_bytes(block);
    bytes & HIGH == 0 && (bytes | HIGH).wrapping_sub(PLUS) & HIGH == HIGH
}

pub(super) fn in_alphabet(byte: u8) -> bool {
    VALUES[usize::from(byte)] != NO_DIGIT
}

/// Hands out the runs that begin in a stretch of the alphabet; what begins right behind its padding is of the next one.
fn read_stretch(text: &[u8], stretch: &Range<usize>, kind: Encoding, mut note: impl FnMut(Ended)) {
    let mut reader = Reader::at(text, stretch.start, Lines::Apart);
    let is_of_it = |live: &Live| live.start < stretch.end;
    for (at, byte) in text.iter().enumerate().skip(stretch.start) {
        if at >= stretch.end && !reader.live.as_ref().is_some_and(is_of_it) {
            return;
        }
        if let Some(ended) = reader.step(*byte, at, kind) {
            note(ended);
        }
    }
    if let Some(live) = reader.live.filter(is_of_it) {
        note(live.ended());
    }
}

/// Hands out the runs of several lines that begin in a stretch of the alphabet.
///
/// What ends in a later line than it began may only have ended for what stood before: that line is read anew.
fn read_joined(text: &[u8], stretch: &Range<usize>, mut note: impl FnMut(Ended)) {
    let mut reader = Reader::at(text, stretch.start, Lines::Joined);
    let (mut at, mut anew) = (stretch.start, None);
    while let Some(byte) = text.get(at).filter(|_| at < stretch.end || reader.live.is_some()) {
        let line = reader.live.map_or(at, |live| live.line_start);
        let ended = reader.step(*byte, at, Encoding::Base64);
        at += 1;
        let Some(ended) = ended else { continue };
        if line > ended.start || anew == Some(ended.start) {
            note(ended);
        }
        if line > ended.start {
            (at, anew) = (line, Some(line));
            reader = Reader::at(text, line, Lines::Joined);
            reader.live = Some(Live::at(line, Lines::Joined));
        }
    }
    if let Some(live) = reader.live.filter(|live| live.line_start > live.start || anew == Some(live.start)) {
        note(live.ended());
    }
}

impl RunTracker {
    /// Takes the next byte of the text; `at` is its offset in the source.
    ///
    /// Returns the run that ends before this byte, if it matters to whoever begins reading behind its start.
    pub(super) fn step(&mut self, byte: u8, at: usize) -> Option<Passed> {
        let base64 = self.base64.step(byte, at, Encoding::Base64);
        let hex = self.hex.step(byte, at, Encoding::Hex);
        base64.into_iter().chain(hex).filter_map(Passed::of).reduce(Passed::with)
    }

    /// Ends the text and returns the runs that end with it.
    pub(super) fn finish(&mut self) -> Option<Passed> {
        let ends = [&mut self.base64, &mut self.hex].map(|it| it.live.take().map(|live| live.ended()));
        ends.into_iter().flatten().filter_map(Passed::of).reduce(Passed::with)
    }

    /// Tells whether what follows means the same to both.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        let pairs = [(&self.base64, &other.base64), (&self.hex, &other.hex)];
        let idle = |(one, other): (&Reader, &Reader)| {
            one.live.is_none() && other.live.is_none() && one.before == other.before
        };
        pairs.into_iter().all(idle)
    }

    /// Returns where the earliest run begins that is under way and readable so far.
    pub fn held_from(&self) -> Option<usize> {
        let starts = [&self.base64, &self.hex].into_iter().filter_map(|reader| reader.live);
        starts.map(|live| live.start).min()
    }

    /// Returns where the earliest value may begin that is in a run under way.
    pub fn value_from(&self) -> Option<usize> {
        let bodies = [&self.base64, &self.hex].into_iter().filter_map(|reader| reader.live?.body);
        bodies.min()
    }
}

impl Default for Reader {
    fn default() -> Self {
        Self { before: b' ', lines: Lines::Apart, live: None }
    }
}

impl Reader {
    /// Begins to read a text at an offset.
    fn at(text: &[u8], start: usize, lines: Lines) -> Self {
        let before = start.checked_sub(1).and_then(|at| text.get(at)).copied().unwrap_or(b' ');
        Self { before, lines, live: None }
    }

    /// Takes a byte and returns the run that ends before it.
    fn step(&mut self, byte: u8, at: usize, kind: Encoding) -> Option<Ended> {
        let before = std::mem::replace(&mut self.before, byte);
        let mut ended = None;
        if let Some(live) = &mut self.live {
            if live.step(byte, at, kind) {
                return None;
            }
            ended = Some(live.ended());
            self.live = None;
        }
        if begins(byte, before, kind) {
            let mut live = Live::at(at, self.lines);
            if live.step(byte, at, kind) {
                self.live = Some(live);
            }
        }
        ended
    }
}

/// Tells whether a run may begin at a byte.
fn begins(byte: u8, before: u8, kind: Encoding) -> bool {
    match kind {
        Encoding::Base64 => byte.is_ascii_alphanumeric() && !before.is_ascii_alphanumeric(),
        Encoding::Hex => byte.is_ascii_hexdigit() && !before.is_ascii_hexdigit(),
        Encoding::Canonical | Encoding::Spelt(_) => false,
    }
}

impl Live {
    fn at(start: usize, lines: Lines) -> Self {
        Self {
            start,
            lines,
            line_start: start,
            body: None,
            length: 0,
            line: 0,
            line_end: LineEnd::None,
            bits: 0,
            bits_count: 0,
            padding: 0,
            utf8: Utf8::default(),
            readable: 0,
            readable_to: start,
            divided: false,
        }
    }

    /// Takes a byte of the run; false if the run ends before it.
    fn step(&mut self, byte: u8, at: usize, kind: Encoding) -> bool {
        self.divided |= !byte.is_ascii_alphanumeric();
        if matches!(byte, b'\r' | b'\n') && kind == Encoding::Base64 && self.lines == Lines::Joined {
            return self.end_line(byte);
        }
        match std::mem::take(&mut self.line_end) {
            LineEnd::None => {}
            LineEnd::Return => return false,
            LineEnd::Whole if byte == b'=' => return false,
            LineEnd::Whole => (self.line, self.line_start) = (0, at),
        }
        if byte == b'=' && kind == Encoding::Base64 && self.pads() {
            self.padding += 1;
            return true;
        }
        let Some((value, width)) = digit(byte, kind).filter(|_| self.padding == 0) else { return false };
        self.bits = self.bits << width | u32::from(value);
        self.bits_count += width;
        self.length += 1;
        self.line += 1;
        if self.length > RUN_HEAD_BYTES && self.body.is_none() {
            self.body = Some(at);
        }
        if self.bits_count >= 8 {
            self.bits_count -= 8;
            if !self.utf8.step((self.bits >> self.bits_count) as u8) {
                return false;
            }
            self.bits &= (1 << self.bits_count) - 1;
            if self.utf8.missing == 0 {
                (self.readable, self.readable_to) = (self.length, at + 1);
            }
        }
        true
    }

    /// Takes a sign of a line's end; false if the run ends before it.
    fn end_line(&mut self, byte: u8) -> bool {
        let is_whole = self.line >= LINE_BYTES_MIN && self.length.is_multiple_of(4) && self.padding == 0;
        self.line_end = match (byte, self.line_end) {
            (b'\r', LineEnd::None) => LineEnd::Return,
            (b'\n', LineEnd::None | LineEnd::Return) => LineEnd::Whole,
            _ => return false,
        };
        is_whole
    }

    /// Tells whether one more `=` completes a group of four.
    fn pads(&self) -> bool {
        matches!((self.length % 4, self.padding), (2, 0 | 1) | (3, 0))
    }

    fn ended(&self) -> Ended {
        let padding = if self.readable == self.length { self.padding } else { 0 };
        let Self { start, body, readable, readable_to, divided, .. } = *self;
        Ended { start, body, readable, readable_to, padding, divided }
    }
}

impl Passed {
    fn of(ended: Ended) -> Option<Self> {
        let readable = ended.is_long_enough();
        let value = ended.body.unwrap_or(ended.start);
        (readable || ended.divided).then_some(Self { start: ended.start, readable, value })
    }

    fn with(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            readable: self.readable || other.readable,
            value: self.value.min(other.value),
        }
    }
}

impl Ended {
    fn is_long_enough(&self) -> bool {
        self.readable >= RUN_BYTES_MIN
    }
}

/// Returns the value of a digit and how many bits it has.
fn digit(byte: u8, kind: Encoding) -> Option<(u8, u8)> {
    match kind {
        Encoding::Canonical | Encoding::Spelt(_) => None,
        Encoding::Hex => char::from(byte).to_digit(16).map(|value| (value as u8, 4)),
        Encoding::Base64 => Some((VALUES[usize::from(byte)], 6)).filter(|(value, _)| *value != NO_DIGIT),
    }
}

/// Decodes what can be read of a run.
fn decode(text: &[u8], ended: Ended, encoding: Encoding) -> Option<Run> {
    if !ended.is_long_enough() {
        return None;
    }
    let mut view = View::default();
    let mut start = ended.start;
    for line in text.get(start..ended.readable_to)?.split_inclusive(|byte| *byte == b'\n') {
        let signs = line.trim_ascii_end();
        let (bytes, source) = (decoded(signs, encoding)?, start..start + signs.len());
        match encoding {
            Encoding::Base64 => append_groups(&mut view, &bytes, source),
            Encoding::Hex | Encoding::Canonical | Encoding::Spelt(_) => view.append(&bytes, start, 2, 1),
        }
        start += line.len();
    }
    Some(Run { source: ended.start..ended.readable_to + usize::from(ended.padding), encoding, view })
}

/// Returns the bytes that digits stand for.
pub(super) fn decoded(digits: &[u8], encoding: Encoding) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut bits, mut count) = (0u32, 0);
    for byte in digits {
        let (value, width) = digit(*byte, encoding)?;
        bits = (bits << width | u32::from(value)) & 0xffff;
        count += width;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

/// Appends whole groups of four characters, then what is left of the last one.
fn append_groups(view: &mut View, bytes: &[u8], source: Range<usize>) {
    let (groups, rest) = bytes.split_at(bytes.len() / 3 * 3);
    let split = source.start + groups.len() / 3 * 4;
    view.append(groups, source.start, 4, 3);
    view.append(rest, split, (source.end - split) as u8, rest.len() as u8);
}

#[cfg(test)]
mod tests;
