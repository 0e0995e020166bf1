//! Tables: what a cell holds is told by the name at the head of its column, which may stand far above.
//!
//! In: a whole text. Out: readings of its tables, with each cell that may hold a value behind the name of its column, a line
//! each: of CSV with commas, semicolons or tabs, and of tables as Markdown and consoles draw them. A table begins with a
//! line of names above a line with as many cells, and ends before the first line without any.

use std::iter::Peekable;
use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use memchr::memmem::FinderRev;

use super::PIECE_BYTES;
use crate::scan::view::View;

/// What parts cells. Who parts by the first of them may have the others within cells.
const DELIMITERS: [u8; 4] = [b'\t', b';', b'|', b','];

/// What stands behind the name of a member of JSON, before its text.
const NAME_END: &[u8] = b"\": \"";

/// The longest line of names, in bytes, and the longest name.
pub(super) const HEAD_BYTES_MAX: usize = 2048;
const NAME_BYTES_MAX: usize = 40;

/// How long a cell is that may hold a key, a password or a number of somebody, in bytes.
const CELL_BYTES: Range<usize> = 6..257;

/// Reads the tables of a text, as much at once as a text in pieces is.
pub(super) struct Columns<'t, L: Iterator<Item = Range<usize>>> {
    text: &'t [u8],
    lines: Peekable<L>,
    head: Option<Head>,
}

/// The first line of a table.
struct Head {
    delimiter: u8,
    names: Vec<Range<usize>>,
}

/// Returns what reads the tables of a text.
pub(super) fn read(text: &[u8]) -> Columns<'_, impl Iterator<Item = Range<usize>>> {
    Columns { text, lines: lines(text).peekable(), head: None }
}

impl<L: Iterator<Item = Range<usize>>> Iterator for Columns<'_, L> {
    type Item = View;

    fn next(&mut self) -> Option<View> {
        let mut view = View::default();
        while view.bytes().len() < PIECE_BYTES {
            let Some(line) = self.lines.next() else { break };
            let is_row = |head: &Head| memchr::memchr(head.delimiter, of(self.text, &line)).is_some();
            self.head = match self.head.take().filter(is_row) {
                Some(head) => {
                    head.read(self.text, line, &mut view);
                    Some(head)
                }
                None => self.lines.peek().and_then(|below| Head::of(self.text, line, below)),
            };
        }
        (!view.bytes().is_empty()).then_some(view)
    }
}

impl Head {
    /// Reads a line as the first of a table that goes on with the next one.
    fn of(text: &[u8], line: Range<usize>, below: &Range<usize>) -> Option<Self> {
        let line = behind_name(text, line);
        let delimiter = delimiter_of(of(text, &line)).filter(|_| line.len() <= HEAD_BYTES_MAX)?;
        let count = |line: &Range<usize>| memchr::memchr_iter(delimiter, of(text, line)).count();
        let is_named = || cells(text, line.clone(), delimiter).all(|name| is_name(of(text, &name)));
        if count(below) < count(&line) || !is_named() {
            return None;
        }
        let names: Vec<Range<usize>> = cells(text, line, delimiter).collect();
        names.iter().any(|name| !name.is_empty()).then_some(Self { delimiter, names })
    }

    /// Appends the cells of a row that may hold a value, each behind its name.
    fn read(&self, text: &[u8], row: Range<usize>, view: &mut View) {
        if cells(text, row.clone(), self.delimiter).count() != self.names.len() {
            return;
        }
        for (name, cell) in self.names.iter().zip(cells(text, row, self.delimiter)) {
            append(text, name, cell, view);
        }
    }
}

/// Appends a cell behind the name of its column, if it may hold a value.
pub(super) fn append(text: &[u8], name: &Range<usize>, cell: Range<usize>, view: &mut View) {
    let value = of(text, &cell);
    let holds_value = CELL_BYTES.contains(&value.len()) && value.iter().any(u8::is_ascii_digit);
    if let Some(before) = cell.start.checked_sub(1).filter(|_| holds_value && !name.is_empty()) {
        let named = [b"\n", of(text, name), b": "].concat();
        view.append(&named, before, 1, named.len() as u8);
        view.append(value, cell.start, 1, 1);
    }
}

pub(super) fn of<'t>(text: &'t [u8], range: &Range<usize>) -> &'t [u8] {
    text.get(range.clone()).unwrap_or_default()
}

/// Returns what of a line stands behind the name of a member, as texts of a body do that are looked at together.
fn behind_name(text: &[u8], line: Range<usize>) -> Range<usize> {
    // Most lines have none, which a search from the front tells sooner.
    static FIRST: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(NAME_END));
    static LAST: LazyLock<FinderRev<'static>> = LazyLock::new(|| FinderRev::new(NAME_END));
    let said = of(text, &line);
    let name = FIRST.find(said).and_then(|_| LAST.rfind(said));
    name.map_or(line.start, |at| line.start + at + NAME_END.len())..line.end
}

/// Returns what parts the names of a line that may hold names alone, by a glance: most lines of prose and code do not.
fn delimiter_of(line: &[u8]) -> Option<u8> {
    let line = line.trim_ascii_start();
    let first = *line.first()?;
    if first == b'"' || first == b'|' {
        return DELIMITERS.into_iter().find(|delimiter| memchr::memchr(*delimiter, line).is_some());
    }
    let name = line.iter().take(NAME_BYTES_MAX + 1).position(|byte| !is_of_name(*byte));
    let behind = name.and_then(|end| line.get(end)).copied();
    behind.filter(|byte| begins_name(first) && DELIMITERS.contains(byte))
}

/// Tells whether a cell names a column, or is empty, as those outside the bars of a table are.
pub(super) fn is_name(cell: &[u8]) -> bool {
    cell.first().is_none_or(|byte| begins_name(*byte))
        && cell.len() <= NAME_BYTES_MAX
        && cell.iter().all(|byte| is_of_name(*byte))
}

fn begins_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || !byte.is_ascii()
}

fn is_of_name(byte: u8) -> bool {
    let is_sign = matches!(byte, b' ' | b'_' | b'-' | b'.' | b'#' | b'/' | b'(' | b')' | b'\'' | b'*');
    is_sign || byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

/// Returns the lines of a text, without their ends. The texts of a body that are looked at together end with NUL.
fn lines(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    let ends = memchr::memchr2_iter(b'\n', 0, text).chain(std::iter::once(text.len()));
    ends.map(move |end| {
        let line = start..end;
        start = end + 1;
        line
    })
}

/// Returns the cells of a line, without white space and quotation marks around them.
fn cells(text: &[u8], line: Range<usize>, delimiter: u8) -> impl Iterator<Item = Range<usize>> {
    let mut at = Some(line.start);
    std::iter::from_fn(move || {
        let from = at?;
        let (cell, end) = cell(text, from..line.end, delimiter);
        at = (end < line.end).then_some(end + 1);
        Some(cell)
    })
}

/// Returns the cell that the rest of a line begins with, and where it ends.
fn cell(text: &[u8], rest: Range<usize>, delimiter: u8) -> (Range<usize>, usize) {
    let is_blank = |byte: &u8| *byte != delimiter && byte.is_ascii_whitespace();
    let start = rest.start + of(text, &rest).iter().take_while(|byte| is_blank(byte)).count();
    if text.get(start) == Some(&b'"') {
        let quoted = start + 1..rest.end;
        for close in memchr::memchr_iter(b'"', of(text, &quoted)).map(|at| quoted.start + at) {
            let behind = close + 1..rest.end;
            let end = behind.start + of(text, &behind).iter().take_while(|byte| is_blank(byte)).count();
            if end == rest.end || text.get(end) == Some(&delimiter) {
                return (quoted.start..close, end);
            }
        }
    }
    let all = start..rest.end;
    let end = memchr::memchr(delimiter, of(text, &all)).map_or(rest.end, |at| start + at);
    let blank = of(text, &(start..end)).iter().rev().take_while(|byte| is_blank(byte)).count();
    (start..end - blank, end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reading(text: &str) -> String {
        read(text.as_bytes()).map(|view| String::from_utf8(view.bytes().to_vec()).unwrap()).collect()
    }

    #[test]
    fn cells_stand_behind_the_names_of_their_columns() {
        let csv = "id,name,tax no\n7,Ann,12345678\r\n8,\"Bo, Lee\",\"98765432\"\n\nThe end, really\n";
        assert_eq!(reading(csv), "\ntax no: 12345678\ntax no: 98765432");
        let drawn = "| host | password |\n|---|---|\n| db1 | tV8#qKm2zXp |\n";
        assert_eq!(reading(drawn), "\npassword: tV8#qKm2zXp");
        assert_eq!(reading("login;kennwort\nmeier;Kt8vQz2mXp7L"), "\nkennwort: Kt8vQz2mXp7L");
        assert_eq!(reading("content\": \"login;kennwort\nmeier;Kt8vQz2mXp7L\0"), "\nkennwort: Kt8vQz2mXp7L");
        assert_eq!(reading("a\tpin code\n1\t4711-0815-42\n"), "\npin code: 4711-0815-42");
    }

    #[test]
    fn what_is_no_table_has_no_columns() {
        for text in [
            "",
            "one line, no more",
            "We met in Rome, 12345678 times.\nAnd then we left, 87654321 times over.",
            "f(a, b);\ng(12345678, 87654321);\n",
            "12345678,87654321\n12345678,87654321\n",
            "a,b\n1,2\n3,4\n",
        ] {
            assert_eq!(reading(text), "", "{text}");
        }
    }

    #[test]
    fn a_value_lies_where_its_cell_is() {
        let text = "name , iban\nAnn , \"DE02120300000000202051\"\n";
        let view = read(text.as_bytes()).next().unwrap();
        let at = view.bytes().windows(2).position(|it| it == b"DE").unwrap();
        assert_eq!(&text[view.source_range(at..view.bytes().len())], "DE02120300000000202051");
    }

    proptest! {
        #[test]
        fn every_reading_leads_back_into_its_text(text in "(?:[a1 \",|;\t\n]|abcdef12){0,60}") {
            for view in read(text.as_bytes()) {
                for at in 0..view.bytes().len() {
                    let source = view.source_range(at..at + 1);
                    prop_assert!(source.start < source.end && source.end <= text.len());
                }
            }
        }
    }
}
