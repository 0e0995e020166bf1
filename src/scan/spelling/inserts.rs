//! Rows of SQL: what a value is, is told by the name of its column, once for all rows of an `INSERT`.
//!
//! In: a whole text. Out: readings of its `INSERT … (names) VALUES (…), (…)`, with each value that may be a secret behind the
//! name of its column, a line each, as [`columns`] reads tables. Rows end before the first thing that is none.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::PIECE_BYTES;
use super::columns;
use super::columns::HEAD_BYTES_MAX;
use super::columns::of;
use crate::scan::view::View;

/// What stands between the names and the rows. Nobody mixes its case.
static FINDERS: LazyLock<[Finder<'static>; KEYWORDS]> =
    LazyLock::new(|| [Finder::new("VALUES"), Finder::new("values")]);
const KEYWORDS: usize = 2;
const KEYWORD_BYTES: usize = "VALUES".len();

/// How deep calls of functions stand within one another in a value.
const DEPTH_MAX: usize = 8;

/// The longest row, in bytes. A longer one ends the rows of its `INSERT`.
const ROW_BYTES_MAX: usize = 64 << 10;

/// Reads the inserted rows of a text, as much at once as a text in pieces is.
pub(super) struct Inserts<'t> {
    text: &'t [u8],
    /// Where the next row, or what is not read yet, begins.
    at: usize,
    names: Vec<Range<usize>>,
    /// Where each of the keywords stands next, as far as that is known.
    next: [usize; KEYWORDS],
}

/// Returns what reads the inserted rows of a text.
pub(super) fn read(text: &[u8]) -> Inserts<'_> {
    let next = FINDERS.each_ref().map(|finder| finder.find(text).unwrap_or(text.len()));
    Inserts { text, at: 0, names: Vec::new(), next }
}

impl Iterator for Inserts<'_> {
    type Item = View;

    fn next(&mut self) -> Option<View> {
        let mut view = View::default();
        while view.bytes().len() < PIECE_BYTES {
            if self.names.is_empty() && !self.seek() {
                break;
            }
            self.read_row(&mut view);
        }
        (!view.bytes().is_empty()).then_some(view)
    }
}

impl Inserts<'_> {
    /// Reads what a text goes on with: a row, or the end of all.
    fn read_row(&mut self, view: &mut View) {
        let near = self.at.saturating_add(ROW_BYTES_MAX).min(self.text.len());
        let is_between = |byte: &&u8| byte.is_ascii_whitespace() || **byte == b',';
        let open = self.at + of(self.text, &(self.at..near)).iter().take_while(is_between).count();
        let within = self.text.get(..near).unwrap_or_default();
        if within.get(open) != Some(&b'(') {
            return self.names.clear();
        }
        let Some((values, end)) = row(within, open) else {
            // Not to be read again, wherever the next ones begin.
            self.at = near;
            return self.names.clear();
        };
        self.at = end;
        if values.len() == self.names.len() {
            let cells = self.names.iter().zip(values);
            cells.for_each(|(name, value)| columns::append(self.text, name, value, view));
        }
    }

    /// Goes on to the next rows whose columns are named, if there are any.
    fn seek(&mut self) -> bool {
        while self.names.is_empty() {
            for (next, finder) in
                self.next.iter_mut().zip(FINDERS.iter()).filter(|(next, _)| **next < self.at)
            {
                let rest = self.text.get(self.at..).unwrap_or_default();
                *next = finder.find(rest).map_or(self.text.len(), |found| self.at + found);
            }
            let keyword = self.next.iter().copied().min().unwrap_or(self.text.len());
            if keyword == self.text.len() {
                self.at = keyword;
                return false;
            }
            self.at = keyword + KEYWORD_BYTES;
            self.names = names_before(self.text, keyword);
        }
        true
    }
}

/// Returns the names in parentheses that end before a place; none if these are not names alone.
fn names_before(text: &[u8], end: usize) -> Vec<Range<usize>> {
    let start = end.saturating_sub(HEAD_BYTES_MAX);
    let before = of(text, &(start..end)).trim_ascii_end();
    let Some(listed) = before.strip_suffix(b")") else { return Vec::new() };
    let Some(open) = memchr::memrchr(b'(', listed) else { return Vec::new() };
    let mut from = start + open + 1;
    let mut names = Vec::new();
    for name in of(text, &(from..start + listed.len())).split(|byte| *byte == b',') {
        names.push(unquoted(text, from..from + name.len()));
        from += name.len() + 1;
    }
    let is_named = |name: &Range<usize>| !name.is_empty() && columns::is_name(of(text, name));
    if names.iter().all(is_named) { names } else { Vec::new() }
}

/// Returns the range of a name without white space and the quotation marks of the databases around it.
fn unquoted(text: &[u8], name: Range<usize>) -> Range<usize> {
    let is_around = |byte: &&u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'`' | b'[' | b']');
    let said = of(text, &name);
    let before = said.iter().take_while(is_around).count();
    let behind = said.iter().skip(before).rev().take_while(is_around).count();
    name.start + before..name.end - behind
}

/// Returns the values of the row that opens at a place, and where it ends.
fn row(text: &[u8], open: usize) -> Option<(Vec<Range<usize>>, usize)> {
    let (mut at, mut values) = (open, Vec::new());
    loop {
        let (value, end) = value(text, at + 1)?;
        values.push(value);
        at = end;
        if text.get(at) == Some(&b')') {
            return Some((values, at + 1));
        }
    }
}

/// Returns the value at a place, without what quotes it, and where the comma or the parenthesis behind it is.
fn value(text: &[u8], from: usize) -> Option<(Range<usize>, usize)> {
    let rest = text.get(from..)?;
    let mut depth = 0;
    let mut said = from + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()..from;
    let mut at = said.start;
    loop {
        match text.get(at)? {
            b'\'' => {
                let close = closing(text, at + 1)?;
                if depth == 0 {
                    said = at + 1..close;
                }
                at = close;
            }
            b'(' if depth < DEPTH_MAX => depth += 1,
            b'(' => return None,
            b',' | b')' if depth == 0 => {
                let bare = said.start..at;
                return Some((if said.end > said.start { said } else { bare }, at));
            }
            b')' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
}

/// Returns where the quotation mark is that ends a text; one that is doubled or escaped belongs to it.
fn closing(text: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr::memchr2(b'\'', b'\\', text.get(at..)?)?;
        match (text.get(at)?, text.get(at + 1)) {
            (b'\\', _) | (b'\'', Some(b'\'')) => at += 2,
            _ => return Some(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reading(text: &str) -> String {
        read(text.as_bytes()).map(|view| String::from_utf8(view.bytes().to_vec()).unwrap()).collect()
    }

    #[test]
    fn values_of_every_row_stand_behind_the_names_of_their_columns() {
        let rows = "INSERT INTO t (id, \"name\", `api_key`) VALUES\n(1, 'ann', 'k4Zt1xVb'),\n(2, 'bob', N'w7Yt2xVc');";
        assert_eq!(reading(rows), "\napi_key: k4Zt1xVb\napi_key: w7Yt2xVc");
        let calls = "insert into t ([pin], at) values ('it''s 4711', now()), ('4711-0815', to_date('2026-01-02', f(1)))";
        assert_eq!(reading(calls), "\npin: it''s 4711\npin: 4711-0815\nat: to_date('2026-01-02', f(1))");
        assert_eq!(
            reading("(token, n) VALUES (12345678, 1) ; (note) VALUES ('number 7')"),
            "\ntoken: 12345678\nnote: number 7"
        );
    }

    #[test]
    fn what_is_no_row_with_named_columns_is_not_read() {
        for text in [
            "",
            "values",
            "The values (12345678, 87654321) are wrong.",
            "INSERT INTO t VALUES (12345678, 'secret 12345678')",
            "INSERT INTO t (id, key) VALUES (12345678)",
            "INSERT INTO t (id, key) VALUES (1, 'open 12345678",
            "f(a, 'b') values (12345678, 87654321)",
        ] {
            assert_eq!(reading(text), "", "{text}");
        }
    }

    #[test]
    fn what_never_ends_is_read_once() {
        for text in
            ["values ", "(a)values('", "(a) VALUES (f(", "(a) values (1),"].map(|part| part.repeat(200_000))
        {
            assert_eq!(reading(&text), "");
        }
        let behind = format!("(a) values ('{}(token) VALUES (12345678)", "x".repeat(2 * ROW_BYTES_MAX));
        assert_eq!(reading(&behind), "\ntoken: 12345678");
    }

    #[test]
    fn a_value_lies_where_its_row_has_it() {
        let text = "(id, iban) VALUES (1, 'DE02120300000000202051')";
        let view = read(text.as_bytes()).next().unwrap();
        let at = view.bytes().windows(2).position(|it| it == b"DE").unwrap();
        assert_eq!(&text[view.source_range(at..view.bytes().len())], "DE02120300000000202051");
    }

    proptest! {
        #[test]
        fn every_reading_leads_back_into_its_text(text in "(?:[a1 \"',();\\\\\n]|abcdef12|\\) VALUES \\(|\\(a, b){0,60}") {
            for view in read(text.as_bytes()) {
                for at in 0..view.bytes().len() {
                    let source = view.source_range(at..at + 1);
                    prop_assert!(source.start < source.end && source.end <= text.len());
                }
            }
        }
    }
}
