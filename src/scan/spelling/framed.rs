//! Values between low lines, as italics and bold letters are written: `_ghp_16C7…_`, `__4111 1111 1111 1111__`; and behind
//! what copying leaves of a terminal's colours, whose ESC nobody sees: `[32mghp_16C7…[0m`; and keys behind a name, which
//! their beginnings tell: `backup_ghp_16C7…`.
//!
//! In: a whole text. Out: what is near such values, with a space for each low line that stands at the edge of one, and for
//! each sign of a colour before one. To detectors either is a part of the word, so that none of them sees a value that
//! begins or ends with it. A name of a program that begins so has few digits, and is not read.

use std::ops::Range;

use super::Marks;
use super::excerpt;
use super::excerpt::Excerpt;
use crate::scan::view::View;

/// The most low lines on one side.
const FRAME_BYTES_MAX: usize = 3;

/// The longest colour, in bytes: `[38;2;255;255;255m`.
const COLOUR_BYTES_MAX: usize = 20;

/// How far behind its begin a value ends, in bytes.
const VALUE_BYTES_MAX: usize = 512;

/// How much of a word is looked at to tell whether it may be one, in bytes.
const GLANCE_BYTES: usize = 64;

/// The shortest word that may be a value, in bytes; one of digits alone, or of an address, may be shorter.
const WORD_BYTES_MIN: usize = 8;
const DIGITS_MIN: usize = 4;

/// Tells whether a text has such values.
pub(super) fn are_in(text: &[u8], marks: &Marks) -> bool {
    edges(text, marks).next().is_some()
}

/// Returns what is near such values of a text; nothing if it has none.
pub(super) fn read(text: &[u8], marks: &Marks) -> Option<View> {
    let mut excerpt = Excerpt::of(text, excerpt::AROUND_BYTES);
    for edge in edges(text, marks) {
        excerpt.begin(edge.clone());
        edge.for_each(|at| excerpt.write(b" ", at, 1));
    }
    excerpt.read()
}

/// Returns the low lines and the colours before values, and the low lines behind words where a value before them may end.
fn edges<'t>(text: &'t [u8], marks: &'t Marks) -> impl Iterator<Item = Range<usize>> + 't {
    let (mut at, mut open_to) = (0, 0);
    std::iter::from_fn(move || {
        loop {
            let start = at + memchr::memchr2(b'_', b'[', text.get(at..)?)?;
            if text.get(start) == Some(&b'[') {
                let edge = start..start + colour(&text[start..]).unwrap_or(1);
                at = edge.end;
                if edge.len() > 1 && may_be_value(&text[edge.end..]) {
                    return Some(edge);
                }
                continue;
            }
            let edge = start..start + low_lines(text, start);
            at = edge.end;
            let is_word =
                |at: Option<usize>| at.and_then(|at| text.get(at)).is_some_and(|it| is_of_word(*it));
            match (is_word(start.checked_sub(1)), is_word(Some(edge.end))) {
                (false, true) if edge.len() <= FRAME_BYTES_MAX && may_be_value(&text[edge.end..]) => {
                    open_to = value_end(text, edge.end);
                    return Some(edge);
                }
                (true, false) if start <= open_to => return Some(edge),
                (true, true) if edge.len() == 1 && marks.begin_key(&text[edge.end..]) => return Some(edge),
                _ => {}
            }
        }
    })
}

/// Returns where a value that begins at a place ends at the latest: in its line.
fn value_end(text: &[u8], value: usize) -> usize {
    let near = text.get(value..).unwrap_or_default();
    let near = near.get(..VALUE_BYTES_MAX).unwrap_or(near);
    value + memchr::memchr(b'\n', near).unwrap_or(near.len())
}

/// Returns how long the colour of a terminal is that a text begins with, without its ESC (ECMA-48, 8.3.117).
fn colour(text: &[u8]) -> Option<usize> {
    let head = text.get(..COLOUR_BYTES_MAX).unwrap_or(text).get(1..)?;
    let numbers = head.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    (numbers > 0 && head.get(numbers) == Some(&b'm')).then_some(numbers + 2)
}

/// Returns how many low lines stand at a place.
fn low_lines(text: &[u8], at: usize) -> usize {
    text.get(at..).unwrap_or_default().iter().take_while(|byte| **byte == b'_').count()
}

/// Tells whether a text begins with a word that may be a value or its first part.
fn may_be_value(text: &[u8]) -> bool {
    let is_of_value = |byte: &&u8| !byte.is_ascii_whitespace() && !matches!(byte, b'"' | b'\'' | b'`');
    let word = text.iter().take(GLANCE_BYTES).take_while(is_of_value);
    let (mut length, mut digits, mut is_address) = (0, 0, false);
    for byte in word {
        length += 1;
        digits += usize::from(byte.is_ascii_digit());
        is_address |= *byte == b'@';
    }
    text.first().is_some_and(u8::is_ascii_alphanumeric)
        && (is_address || digits > 0 && length >= WORD_BYTES_MIN || digits >= DIGITS_MIN)
}

/// Tells whether a byte is part of a word, beside low lines.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn marks() -> Marks {
        Marks::compile(["ghp_", "AKIA"].into_iter()).expect("marks")
    }

    #[test]
    fn low_lines_at_the_edges_of_a_value_are_spaces() {
        for (text, meant) in [
            ("the key is _ghp_a1b2c3d4e5f6_ ok", "the key is  ghp_a1b2c3d4e5f6  ok"),
            ("__4111 1111 1111 1111__", "  4111 1111 1111 1111  "),
            ("mail **_anna.meyer@web.de_**.", "mail ** anna.meyer@web.de **."),
            ("_DE89370400440532013000\nand so on_", " DE89370400440532013000\nand so on_"),
            ("_AKIA5EXAMPLE0KEY1_ and _AKIA5EXAMPLE0KEY2_", " AKIA5EXAMPLE0KEY1  and  AKIA5EXAMPLE0KEY2 "),
            ("(_sk_live_a1b2c3_)", "( sk_live_a1b2c3 )"),
            ("_open1234 and _ghp_a1b2c3d4e5f6", " open1234 and  ghp_a1b2c3d4e5f6"),
            ("key [32mghp_a1b2c3d4e5f6[0m ok", "key     ghp_a1b2c3d4e5f6[0m ok"),
            ("backup_ghp_a1b2c3d4e5f6.txt", "backup ghp_a1b2c3d4e5f6.txt"),
            ("^[[1;38;5;208mAKIA5EXAMPLE0KEY1", "^[            AKIA5EXAMPLE0KEY1"),
        ] {
            let view = read(text.as_bytes(), &marks()).unwrap();
            assert_eq!(std::str::from_utf8(view.bytes()), Ok(meant));
            assert!(are_in(text.as_bytes(), &marks()), "{text}");
        }
    }

    #[test]
    fn names_and_rules_are_not_read() {
        for text in [
            "",
            "_",
            "__init__ and self._value2",
            "snake_case_1234567890 and x_4111111111111111",
            "my_ghost and is_akia",
            "____________1234567890",
            "_emphasis_ and __strong words__ of 2026",
            "f(_, 1234567890)",
            "[32mok[0m and [1m",
            "a[12] + b[3m] + [;] + c[1234567890123456789012m1234567890",
        ] {
            assert_eq!(read(text.as_bytes(), &marks()), None, "{text}");
            assert!(!are_in(text.as_bytes(), &marks()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_byte_of_a_reading_is_one_of_the_text(text in "(?:_{1,4}|\\[[0-9;m]{0,4}|[a1@ \n\"é]|_sk_1a2b3c4d5e_){0,40}") {
            let Some(view) = read(text.as_bytes(), &marks()) else { return Ok(()) };
            for (at, byte) in view.bytes().iter().enumerate() {
                let source = view.source_range(at..at + 1);
                let of_text = text.as_bytes().get(source).unwrap_or_default();
                prop_assert!(of_text == [*byte] || of_text != b"\n" && *byte == b' ' || *byte == b'\n');
            }
        }
    }
}
