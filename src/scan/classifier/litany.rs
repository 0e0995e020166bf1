//! What is said over and over: a refrain, a laugh, a filler, a row of numbers, decimal or hexadecimal, rows of one form.
//!
//! Each time a word occurs it counts, so that a harmless line weighs a hundred times as much when it is said a hundred
//! times. What a text says is what is left of it when each such line stands there once, and of each row of numbers the
//! first ones, as of the rows of a table that differ in the numbers at the ends of their words: `user7,user7@example.org`.

use std::collections::HashMap;
use std::ops::Range;

/// The longest line that is known again, in bytes.
const LINE_BYTES_MAX: usize = 96;
/// How often in a row a line stands there at least.
const TIMES_MIN: usize = 3;
/// How many numbers of a row are left.
const NUMBERS_MAX: usize = 4;
/// How many rows of one form are left, and how long such a row is at most, in bytes.
const ROWS_MAX: usize = 3;
const ROW_BYTES_MAX: usize = 512;
/// By how many bytes from the beginning of a word on a place is compared with earlier ones.
const MARK_BYTES: usize = 8;

/// A text in which each line that was said over and over stands once, and rows of numbers are short.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shortened {
    /// The text.
    pub text: Vec<u8>,
    cuts: Vec<Cut>,
}

/// What was left out at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    /// The offset in the shortened text.
    at: usize,
    /// How long the line is that stands before it.
    line: usize,
    /// How many bytes were left out up to here.
    bytes: usize,
}

impl Shortened {
    /// Leaves out what is said again; `None` where nothing is.
    pub fn of(text: &[u8]) -> Option<Self> {
        let (mut short, mut seen) = (Self::default(), HashMap::new());
        let (mut at, mut left_out, mut numbers) = (0, 0, 0);
        let mut rows = Rows::default();
        while at < text.len() {
            let rest = text.get(at..).unwrap_or_default();
            if begins_line(text, at) {
                let row = rest.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
                if rows.has_enough_of(row) {
                    left_out += row.len();
                    short.cuts.push(Cut { at: short.text.len(), line: 0, bytes: left_out });
                    at += row.len();
                    continue;
                }
            }
            if begins_number(text, at) {
                let number = number_bytes(rest);
                numbers = if number > 0 { numbers + 1 } else { 0 };
                if numbers > NUMBERS_MAX {
                    left_out += number;
                    short.cuts.push(Cut { at: short.text.len(), line: 0, bytes: left_out });
                    at += number;
                    continue;
                }
            }
            let before = begins_part(text, at).then(|| seen.insert(mark(rest), at)).flatten();
            if let Some(line) = before.map(|before| at - before)
                && let again @ 1.. = said_again(text, line, at)
            {
                left_out += again;
                short.cuts.push(Cut { at: short.text.len(), line, bytes: left_out });
                at += again;
                continue;
            }
            short.text.extend(rest.first());
            at += 1;
        }
        (left_out > 0).then_some(short)
    }

    /// Returns where a part of the text lies in the one it was made of, with what was left out within. Of a line that it
    /// begins with the last is meant, and of one that it ends with the first: they stand nearest to the rest.
    pub fn source(&self, part: &Range<usize>) -> Range<usize> {
        let left_out = |is_before: &dyn Fn(&Cut) -> bool| {
            self.cuts.iter().rev().find(|cut| is_before(cut)).map_or(0, |cut| cut.bytes)
        };
        let end = part.end + left_out(&|cut| cut.at < part.end);
        let last = part.start + left_out(&|cut| cut.at.saturating_sub(cut.line) <= part.start);
        let start = if last <= end { last } else { part.start + left_out(&|cut| cut.at <= part.start) };
        start..end.max(start)
    }
}

/// The rows of one form that were met last.
#[derive(Default)]
struct Rows {
    form: Vec<u8>,
    count: usize,
}

impl Rows {
    /// Takes the next row; tells whether there are enough of its form without it.
    fn has_enough_of(&mut self, row: &[u8]) -> bool {
        let form = form_of(row);
        self.count = if form.is_some() && form.as_ref() == Some(&self.form) { self.count + 1 } else { 1 };
        self.form = form.unwrap_or_default();
        self.count > ROWS_MAX
    }
}

/// Returns a row with one `0` for each number at the end of a word; `None` where there is none, or no word, or the row
/// is long. What stands before a letter may be written for one, and is kept.
fn form_of(row: &[u8]) -> Option<Vec<u8>> {
    let (mut form, mut at, mut has_number) = (Vec::new(), 0, false);
    while let Some(rest) = row.get(at..).filter(|rest| !rest.is_empty() && row.len() <= ROW_BYTES_MAX) {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_number = digits > 0 && !rest.get(digits).is_some_and(u8::is_ascii_alphabetic);
        let taken = digits.max(1);
        match is_number {
            true => form.push(b'0'),
            false => form.extend_from_slice(&rest[..taken]),
        }
        has_number |= is_number;
        at += taken;
    }
    (has_number && form.iter().any(u8::is_ascii_alphabetic)).then_some(form)
}

/// Tells whether a line begins at an offset.
fn begins_line(text: &[u8], at: usize) -> bool {
    at.checked_sub(1).is_none_or(|before| text.get(before) == Some(&b'\n'))
}

/// Tells whether a word begins at an offset.
fn begins_word(text: &[u8], at: usize) -> bool {
    let is_white = |at: usize| text.get(at).is_none_or(u8::is_ascii_whitespace);
    !is_white(at) && at.checked_sub(1).is_none_or(is_white)
}

/// Tells whether a number of a row may begin at an offset: a word, or what stands behind a comma without a space.
fn begins_number(text: &[u8], at: usize) -> bool {
    let is_behind_comma =
        at.checked_sub(1).is_some_and(|before| matches!(text.get(before), Some(b',' | b';')));
    begins_word(text, at) || is_behind_comma && text.get(at).is_some_and(|byte| !byte.is_ascii_whitespace())
}

/// Tells whether a word begins at an offset, or the part of one behind a sign, as in `la-la-la`.
fn begins_part(text: &[u8], at: usize) -> bool {
    let is_sign = |at: usize| text.get(at).is_some_and(u8::is_ascii_punctuation);
    begins_word(text, at)
        || text.get(at).is_some_and(u8::is_ascii_alphanumeric) && at.checked_sub(1).is_some_and(is_sign)
}

/// Returns how many bytes a number takes that a text begins with, up to its comma, and the white space behind it; 0 where
/// it begins with none.
fn number_bytes(text: &[u8]) -> usize {
    let is_white = |byte: &u8| byte.is_ascii_whitespace();
    let is_end = |byte: &u8| is_white(byte) || matches!(byte, b',' | b';');
    let word = text.iter().position(is_end).unwrap_or(text.len());
    let word = word + usize::from(matches!(text.get(word), Some(b',' | b';')));
    let is_of_number = |byte: &u8| byte.is_ascii_hexdigit() || b".,:;+-/%()[]x".contains(byte);
    let is_number = text[..word].iter().all(is_of_number) && text[..word].iter().any(u8::is_ascii_digit);
    let behind = text[word..].iter().take_while(|byte| is_white(byte)).count();
    if is_number { word + behind } else { 0 }
}

fn mark(text: &[u8]) -> [u8; MARK_BYTES] {
    let mut mark = [0; MARK_BYTES];
    mark.iter_mut().zip(text).for_each(|(into, byte)| *into = *byte);
    mark
}

/// Returns how many bytes from `at` on are whole repetitions of the line of so many bytes that ends there.
fn said_again(text: &[u8], line: usize, at: usize) -> usize {
    if line > LINE_BYTES_MAX {
        return 0;
    }
    let (first, then) = (text.get(at - line..).unwrap_or_default(), text.get(at..).unwrap_or_default());
    let times = first.iter().zip(then).take_while(|(first, then)| first == then).count() / line;
    if times + 1 >= TIMES_MIN { times * line } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shortened(text: &str) -> Option<String> {
        Shortened::of(text.as_bytes()).map(|short| String::from_utf8(short.text).unwrap())
    }

    #[test]
    fn what_is_said_three_times_stands_once() {
        assert_eq!(shortened(&"all is well ".repeat(9)).as_deref(), Some("all is well "));
        assert_eq!(shortened("go: na na na na hey").as_deref(), Some("go: na hey"));
        assert_eq!(shortened("one two three. one two three. one two"), None);
        assert_eq!(shortened(&"é\n".repeat(5)).as_deref(), Some("é\n"));
        assert_eq!(shortened(&"-a6".repeat(50)).as_deref(), Some("-a6-a6"));
        assert_eq!(shortened(""), None);
    }

    #[test]
    fn of_a_row_of_numbers_the_first_stand() {
        assert_eq!(shortened("sum 1 22, 3.5 -4 5 6; 7 now").as_deref(), Some("sum 1 22, 3.5 -4 now"));
        assert_eq!(shortened("sum 1 22 3 4 and 5 6 7 8"), None);
        assert_eq!(shortened("ids=[17,18,19,20,21,22] end").as_deref(), Some("ids=[17,18,19,20,21,end"));
        assert_eq!(shortened("0x1f,0x2e,0x3d,0x4c;0x5b").as_deref(), Some("0x1f,0x2e,0x3d,0x4c;"));
        assert_eq!(shortened("a,b,c,d,e,f,g"), None);
        assert_eq!(shortened("1\n2\n3\n4\n5\n6").as_deref(), Some("1\n2\n3\n4\n"));
        assert_eq!(
            shortened("[0x80ff, 0x0221, 0x1c, 0xfe, 0x07, 0x9] done").as_deref(),
            Some("[0x80ff, 0x0221, 0x1c, 0xfe, done")
        );
    }

    #[test]
    fn of_rows_of_one_form_the_first_stand() {
        let row = |at: u32| format!("EMP{at:03},Employee {at},emp{at}@corp.example,{}\n", 50_000 + at);
        let table: String =
            std::iter::once("id,name,mail,pay\n".to_owned()).chain((1..=20).map(row)).collect();
        let first = (1..=3).map(row).collect::<String>();
        assert_eq!(shortened(&table), Some(format!("id,name,mail,pay\n{first}")));
        assert_eq!(
            shortened(&format!("{table}That is all.")),
            Some(format!("id,name,mail,pay\n{first}That is all."))
        );
        // Digits before letters may be letters themselves.
        assert_eq!(shortened("a 1gn 1\na 2gn 1\na 3gn 1\na 4gn 1\na 5gn 1\n"), None);
        assert_eq!(shortened("step 1 go\nstep 2 stop\nstep 3 wait\nstep 4 end\n"), None);
    }

    #[test]
    fn a_part_lies_where_it_came_from() {
        let text = "la la la la stop la la la la la end";
        let short = Shortened::of(text.as_bytes()).unwrap();
        assert_eq!(short.text, b"la stop la end");
        let source = |part: &str| {
            let at = short.text.windows(part.len()).position(|it| it == part.as_bytes()).unwrap();
            &text[short.source(&(at..at + part.len()))]
        };
        for part in ["stop", "end", "la stop", "la stop la "] {
            assert_eq!(source(part), part);
        }
        assert_eq!(source("stop la end"), "stop la la la la la end");
    }

    proptest! {
        #[test]
        fn every_part_lies_within_the_text(text in "(?:[ab] ){0,30}", from in 0_usize..40, len in 0_usize..40) {
            if let Some(short) = Shortened::of(text.as_bytes()) {
                let from = from.min(short.text.len());
                let part = from..(from + len).min(short.text.len());
                let source = short.source(&part);
                prop_assert!(source.start <= source.end && source.end <= text.len());
                prop_assert!(short.text.len() < text.len());
            }
        }
    }
}
