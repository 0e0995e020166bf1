//! One unit of a text: a plain byte, a character, or an escape sequence with what it stands for.
//!
//! A unit is decided by its own bytes from left to right, so more text behind it never changes it: that is what
//! makes a stream and a whole text agree.

use super::fold::Fold;
use super::fold::Folded;
use super::fold::fold;

/// The longest entity between `&` and `;`, in bytes.
const ENTITY_BYTES_MAX: usize = 10;

/// The most digits of a character in braces.
const BRACED_DIGITS_MAX: usize = 6;

/// The first of the supplementary variation selectors, which stand behind the tags.
const FIRST_SELECTOR: char = '\u{e0100}';

/// How many times over a character may be percent-encoded.
const PERCENT_TIMES_MAX: usize = 3;

/// What begins a control sequence of a terminal.
const ESC: u8 = 0x1b;

/// The longest control sequence of a terminal that is read as one, in bytes behind its ESC.
const CONTROL_BYTES_MAX: usize = 32;

/// What stands at the beginning of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// More bytes are needed to tell.
    Pending,
    /// This many bytes, meaning themselves.
    Plain(usize),
    /// A number of bytes that mean something else.
    Changed {
        /// Source bytes taken.
        taken: usize,
        /// What they mean; empty if nothing.
        text: Folded,
        /// Whether they are a hidden character, whose neighbours count too.
        hidden: bool,
    },
}

/// The text that is there; whether more can come is part of the question.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    /// The bytes from the unit on.
    pub bytes: &'a [u8],
    /// No more bytes will come.
    pub complete: bool,
    /// The unit before was a hidden character.
    pub after_hidden: bool,
}

/// A byte that is asked for: there, not yet there, or never to come.
enum Peek {
    Byte(u8),
    Later,
    Never,
}

/// How many bytes are looked through together, so that the first trigger is found without seeing the last.
const WINDOW_BYTES: usize = 256;

/// Returns the first place where a unit may be anything but one plain ASCII byte.
pub(super) fn next_trigger(bytes: &[u8]) -> Option<usize> {
    if bytes.first().is_some_and(|byte| is_trigger(*byte)) {
        return Some(0);
    }
    bytes.chunks(WINDOW_BYTES).enumerate().find_map(|(index, window)| {
        let at = match window.is_ascii() {
            true => {
                let escape = memchr::memchr3(b'%', b'&', b'\\', window);
                let control =
                    memchr::memchr(ESC, window.get(..escape.unwrap_or(window.len())).unwrap_or_default());
                control.or(escape)
            }
            false => window.iter().position(|byte| is_trigger(*byte)),
        };
        at.map(|at| index * WINDOW_BYTES + at)
    })
}

fn is_trigger(byte: u8) -> bool {
    matches!(byte, b'%' | b'&' | b'\\' | ESC) || !byte.is_ascii()
}

/// Reads the unit at the beginning of a text that is not empty.
pub(super) fn unit(input: Input<'_>) -> Unit {
    match input.bytes.first() {
        None => Unit::Pending,
        Some(b'%') => percent(input),
        Some(b'&') => entity(input),
        Some(b'\\') => backslash(input),
        Some(&ESC) => control(input, 1, Unit::Plain(1)),
        Some(byte) if byte.is_ascii() => Unit::Plain(1),
        Some(_) => character(input),
    }
}

impl Input<'_> {
    fn peek(&self, at: usize) -> Peek {
        match self.bytes.get(at) {
            Some(byte) => Peek::Byte(*byte),
            None if self.complete => Peek::Never,
            None => Peek::Later,
        }
    }

    /// Reads hex digits from `from` on: `Err` says what the unit is when they are not all there.
    fn hex(&self, from: usize, digits: usize) -> Result<u32, Unit> {
        let mut value = 0;
        for at in from..from + digits {
            match self.peek(at) {
                Peek::Later => return Err(Unit::Pending),
                Peek::Never => return Err(Unit::Plain(1)),
                Peek::Byte(byte) => match char::from(byte).to_digit(16) {
                    Some(digit) => value = value << 4 | digit,
                    None => return Err(Unit::Plain(1)),
                },
            }
        }
        Ok(value)
    }
}

/// Reads `%XX`, and `%25XX`, which is the same encoded again, up to [`PERCENT_TIMES_MAX`] times over.
fn percent(input: Input<'_>) -> Unit {
    let mut taken = 1;
    for _ in 1..PERCENT_TIMES_MAX {
        match input.hex(taken, 2) {
            Ok(value) if value == u32::from(b'%') => taken += 2,
            Ok(_) => break,
            Err(Unit::Pending) => return Unit::Pending,
            Err(_) => break,
        }
    }
    match input.hex(taken, 2) {
        Ok(value) if taken == 1 => byte_by_byte(input, b"%", value as u8),
        Ok(value @ 0x20..=0x7e) => changed(taken + 2, Folded::byte(value as u8)),
        Err(Unit::Pending) => Unit::Pending,
        Ok(_) | Err(_) if taken > 1 => changed(3, Folded::byte(b'%')),
        Ok(_) | Err(_) => Unit::Plain(1),
    }
}

/// Reads a character whose bytes are written one by one, each as two digits behind a sign, or the first of them alone if the
/// others do not follow.
fn byte_by_byte(input: Input<'_>, sign: &[u8], first: u8) -> Unit {
    let each = sign.len() + 2;
    let alone = changed(each, Folded::byte(first));
    let count = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return alone,
    };
    let mut bytes = [first, 0, 0, 0];
    for (nth, byte) in bytes.iter_mut().enumerate().take(count).skip(1) {
        for (at, expected) in sign.iter().enumerate() {
            match input.peek(nth * each + at) {
                Peek::Later => return Unit::Pending,
                Peek::Byte(byte) if byte == *expected => {}
                Peek::Never | Peek::Byte(_) => return alone,
            }
        }
        match input.hex(nth * each + sign.len(), 2) {
            Ok(value @ 0x80..=0xbf) => *byte = value as u8,
            Err(Unit::Pending) => return Unit::Pending,
            Ok(_) | Err(_) => return alone,
        }
    }
    let whole = bytes.get(..count).and_then(|bytes| std::str::from_utf8(bytes).ok());
    match whole.and_then(|text| text.chars().next()) {
        Some(character) => meaning(count * each, character),
        None => alone,
    }
}

fn backslash(input: Input<'_>) -> Unit {
    let byte = match input.peek(1) {
        Peek::Later => return Unit::Pending,
        Peek::Never => return Unit::Plain(1),
        Peek::Byte(byte) => byte,
    };
    match byte {
        b'n' => changed(2, Folded::byte(b'\n')),
        b't' => changed(2, Folded::byte(b'\t')),
        b'r' => changed(2, Folded::byte(b'\r')),
        b'"' | b'/' | b'\\' | b'\'' => changed(2, Folded::byte(byte)),
        b'e' => control(input, 2, Unit::Plain(1)),
        b'0' => octal_control(input),
        b'x' | b'u' if matches!(input.peek(2), Peek::Byte(b'{')) => braced(input),
        b'x' => match input.hex(2, 2) {
            Ok(value) if value == u32::from(ESC) => control(input, 4, changed(4, Folded::byte(ESC))),
            Ok(value) => byte_by_byte(input, br"\x", value as u8),
            Err(unit) => unit,
        },
        b'u' => match input.hex(2, 4) {
            Ok(value) if value == u32::from(ESC) => control(input, 6, changed(6, Folded::byte(ESC))),
            Ok(value) => utf16(input, value),
            Err(unit) => unit,
        },
        b'U' => match input.hex(2, 8) {
            Ok(value) => char::from_u32(value).map_or(Unit::Plain(1), |character| meaning(10, character)),
            Err(unit) => unit,
        },
        _ => Unit::Plain(1),
    }
}

/// Reads `\u{67}`, as Rust and JavaScript write a character, and `\x{67}`, as Perl does. One digit alone is a letter with
/// an accent in LaTeX.
fn braced(input: Input<'_>) -> Unit {
    let mut value = 0;
    for digits in 0..=BRACED_DIGITS_MAX {
        let at = 3 + digits;
        let byte = match input.peek(at) {
            Peek::Later => return Unit::Pending,
            Peek::Never => return Unit::Plain(1),
            Peek::Byte(byte) => byte,
        };
        match char::from(byte).to_digit(16) {
            Some(digit) => value = value << 4 | digit,
            None if byte == b'}' && digits > 1 => {
                return match char::from_u32(value) {
                    Some(_) if value == u32::from(ESC) => {
                        control(input, at + 1, changed(at + 1, Folded::byte(ESC)))
                    }
                    Some(character) => meaning(at + 1, character),
                    None => Unit::Plain(1),
                };
            }
            None => return Unit::Plain(1),
        }
    }
    Unit::Plain(1)
}

/// Reads a control sequence of a terminal from behind its ESC on (ECMA-48, 5.4): colours and the like are nothing, a
/// move of the cursor is a blank. What is none is `otherwise`, and so is what no program writes: it could swallow the
/// begin of a value.
fn control(input: Input<'_>, from: usize, otherwise: Unit) -> Unit {
    match input.peek(from) {
        Peek::Byte(b'[') => {}
        Peek::Later => return Unit::Pending,
        Peek::Never | Peek::Byte(_) => return otherwise,
    }
    for at in from + 1..from + CONTROL_BYTES_MAX {
        match input.peek(at) {
            Peek::Later => return Unit::Pending,
            Peek::Byte(b'0'..=b'?') => {}
            Peek::Byte(b'm' | b'K' | b'J') => return changed(at + 1, Folded::NOTHING),
            Peek::Byte(b'h' | b'l') if at > from + 1 => return changed(at + 1, Folded::NOTHING),
            Peek::Byte(b'A'..=b'H' | b'f') if at > from + 1 => return changed(at + 1, Folded::byte(b' ')),
            Peek::Never | Peek::Byte(_) => return otherwise,
        }
    }
    otherwise
}

/// Reads `\033[`, as shells and C write a control sequence.
fn octal_control(input: Input<'_>) -> Unit {
    for at in [2, 3] {
        match input.peek(at) {
            Peek::Byte(b'3') => {}
            Peek::Later => return Unit::Pending,
            Peek::Never | Peek::Byte(_) => return Unit::Plain(1),
        }
    }
    control(input, 4, Unit::Plain(1))
}

/// Reads the second half of a surrogate pair, if the first one asks for it.
fn utf16(input: Input<'_>, first: u32) -> Unit {
    if let Some(character) = char::from_u32(first) {
        return meaning(6, character);
    }
    if first >= 0xdc00 {
        return Unit::Plain(1);
    }
    for (at, expected) in [(6, b'\\'), (7, b'u')] {
        match input.peek(at) {
            Peek::Later => return Unit::Pending,
            Peek::Byte(byte) if byte == expected => {}
            Peek::Never | Peek::Byte(_) => return Unit::Plain(1),
        }
    }
    match input.hex(8, 4) {
        Ok(second @ 0xdc00..=0xdfff) => {
            let scalar = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            char::from_u32(scalar).map_or(Unit::Plain(1), |character| meaning(12, character))
        }
        Ok(_) => Unit::Plain(1),
        Err(unit) => unit,
    }
}

fn entity(input: Input<'_>) -> Unit {
    let mut end = 1;
    loop {
        match input.peek(end) {
            Peek::Later if begins_entity(input.bytes.get(1..end).unwrap_or_default()) => {
                return Unit::Pending;
            }
            Peek::Later => return Unit::Plain(1),
            Peek::Byte(b';') => break,
            Peek::Byte(byte) if byte.is_ascii_alphanumeric() || (byte == b'#' && end == 1) => end += 1,
            Peek::Never | Peek::Byte(_) => return unended(input, end),
        }
        if end > ENTITY_BYTES_MAX {
            return unended(input, end);
        }
    }
    let name = input.bytes.get(1..end).and_then(|name| std::str::from_utf8(name).ok());
    match name.and_then(entity_char) {
        Some(character) => meaning(end + 1, character),
        None => unended(input, end),
    }
}

/// Reads `&#103` and `&#x67` in what was taken for an entity up to `end`: pages show an ASCII character for it without the
/// `;` as well.
fn unended(input: Input<'_>, end: usize) -> Unit {
    let name = input.bytes.get(1..end).unwrap_or_default();
    let (lead, radix) = match name {
        [b'#', b'x' | b'X', ..] => (2, 16),
        [b'#', ..] => (1, 10),
        _ => return Unit::Plain(1),
    };
    let digits = name.iter().skip(lead).take_while(|byte| char::from(**byte).is_digit(radix)).count();
    // Digits that reach so far may go on.
    if lead + digits == name.len() && end > ENTITY_BYTES_MAX {
        return Unit::Plain(1);
    }
    let number = name.get(lead..lead + digits).and_then(|digits| std::str::from_utf8(digits).ok());
    match number.and_then(|number| u32::from_str_radix(number, radix).ok()) {
        Some(value @ 0x20..=0x7e) => changed(1 + lead + digits, Folded::byte(value as u8)),
        Some(_) | None => Unit::Plain(1),
    }
}

/// Tells whether a known name may begin so: `&mut` need not wait for more.
fn begins_entity(name: &[u8]) -> bool {
    name.starts_with(b"#") || NAMED.iter().any(|(known, _)| known.as_bytes().starts_with(name))
}

fn entity_char(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let value = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        return char::from_u32(value.ok()?).filter(|character| *character != '\0');
    }
    NAMED.iter().find(|(known, _)| *known == name).map(|(_, character)| *character)
}

/// The named references of HTML that can hide a character of a key, an address or a phrase.
const NAMED: [(&str, char); 33] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("Tab", '\t'),
    ("NewLine", '\n'),
    ("commat", '@'),
    ("period", '.'),
    ("comma", ','),
    ("colon", ':'),
    ("semi", ';'),
    ("equals", '='),
    ("sol", '/'),
    ("bsol", '\\'),
    ("lowbar", '_'),
    ("hyphen", '-'),
    ("dash", '-'),
    ("num", '#'),
    ("plus", '+'),
    ("excl", '!'),
    ("quest", '?'),
    ("percnt", '%'),
    ("dollar", '$'),
    ("lpar", '('),
    ("rpar", ')'),
    ("lsqb", '['),
    ("rsqb", ']'),
    ("shy", '\u{ad}'),
    ("zwj", '\u{200d}'),
    ("zwnj", '\u{200c}'),
    ("ZeroWidthSpace", '\u{200b}'),
];

/// Reads one UTF-8 character; a byte that begins none means itself.
fn character(input: Input<'_>) -> Unit {
    let (taken, character) = match decode(input, 0) {
        Ok(Some(found)) => found,
        Ok(None) => return Unit::Plain(1),
        Err(()) => return Unit::Pending,
    };
    match fold(character) {
        Fold::Same => Unit::Plain(taken),
        Fold::Gone => changed(taken, Folded::NOTHING),
        Fold::Text(text) => changed(taken, text),
        Fold::Hidden(byte) => hidden(input, taken, byte, character < FIRST_SELECTOR),
    }
}

/// Two hidden characters in a row are a message and are read; a single one only splits what is around it. A tag that
/// stands for a space is also read alone before a letter that has no tag.
fn hidden(input: Input<'_>, taken: usize, byte: u8, is_tag: bool) -> Unit {
    let parts =
        |next: char| is_tag && byte.is_ascii_whitespace() && !next.is_ascii() && next.is_alphanumeric();
    let message = input.after_hidden
        || match decode(input, taken) {
            Err(()) => return Unit::Pending,
            Ok(next) => next.is_some_and(|(_, next)| matches!(fold(next), Fold::Hidden(_)) || parts(next)),
        };
    let text = if message { Folded::byte(byte) } else { Folded::NOTHING };
    Unit::Changed { taken, text, hidden: true }
}

/// Reads a character at `at`: `None` for what is not UTF-8 or at the end, `Err` if more bytes are needed.
fn decode(input: Input<'_>, at: usize) -> Result<Option<(usize, char)>, ()> {
    let width = match input.peek(at) {
        Peek::Later => return Err(()),
        Peek::Never => return Ok(None),
        Peek::Byte(..0x80) => 1,
        Peek::Byte(0xc2..=0xdf) => 2,
        Peek::Byte(0xe0..=0xef) => 3,
        Peek::Byte(0xf0..=0xf4) => 4,
        Peek::Byte(_) => return Ok(None),
    };
    for next in at + 1..at + width {
        match input.peek(next) {
            Peek::Later => return Err(()),
            Peek::Byte(0x80..=0xbf) => {}
            Peek::Never | Peek::Byte(_) => return Ok(None),
        }
    }
    let bytes = input.bytes.get(at..at + width).unwrap_or_default();
    Ok(std::str::from_utf8(bytes).ok().and_then(|text| text.chars().next()).map(|found| (width, found)))
}

fn meaning(taken: usize, character: char) -> Unit {
    match fold(character) {
        Fold::Same => changed(taken, Folded::char(character)),
        Fold::Gone => changed(taken, Folded::NOTHING),
        Fold::Hidden(byte) => changed(taken, Folded::byte(byte)),
        Fold::Text(text) => changed(taken, text),
    }
}

fn changed(taken: usize, text: Folded) -> Unit {
    Unit::Changed { taken, text, hidden: false }
}
