//! Strings that a program puts together: `"ghp_16C7" + "e42F29"`, and `a + b` of what was named before.
//!
//! In: a whole text. Out: readings of it. In one of them strings are joined where nothing but an operator or the end of a line
//! stands between them, and where a list of them is joined with nothing between; in another one stand those that are put
//! together by their names ([`named`]). Nobody has to run the program: a model that reads it does as much.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::Origin;
use super::Spelt;
use super::excerpt;
use super::excerpt::Excerpt;
use super::same;
use super::viewed;
use crate::scan::scanner::ScanFault;
use crate::scan::threat::Spelling;
use crate::scan::view::View;

mod named;

/// What strings stand in.
const QUOTES: [u8; 3] = [b'"', b'\'', b'`'];

/// What puts two strings together, in one language or another.
const OPERATORS: [&[u8]; 10] = [b"+", b".", b"..", b"||", b"<>", b"++", b"&", b"~", b"\\", b".concat("];

/// What stands before strings of which the next one stands in the next line.
const BEFORE_LINES: &[u8] = b"(=+.\\";

/// Joins the elements of a list by what stands before it in one language, and behind it in another.
static JOIN: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(".join("));

/// How long that is, in bytes.
const JOIN_BYTES: usize = ".join(".len();

/// Joins what stands in brackets behind it; the first letter may be a capital.
static CONCATENATIONS: LazyLock<[Finder<'static>; 4]> =
    LazyLock::new(|| ["oncat(", "oncatenate(", "ONCAT(", "ONCATENATE("].map(Finder::new));

/// Nothing, as a string.
const NOTHING: [&[u8]; 3] = [b"\"\"", b"''", b"``"];

/// The most bytes between two strings that belong together: an operator, and the indentation of the next line.
const LINK_BYTES_MAX: usize = 128;

/// The most bytes of a list whose elements are joined.
const LIST_BYTES_MAX: usize = 4096;

/// The most bytes of a string that stands in one line.
const STRING_BYTES_MAX: usize = 1024;

/// Tells whether some strings of a text, or of several with NUL between them, may be put together.
pub(super) fn are_joined(text: &[u8]) -> bool {
    joints(text).next().is_some() || lists(text).next().is_some() || named::may_be_joined(text)
}

/// Returns the readings of a text with its strings put together.
///
/// # Errors
/// They say more than those of such a text may.
pub(super) fn read(text: &[u8]) -> Result<impl Iterator<Item = Spelt>, ScanFault> {
    let joined = joined(text).map(|view| viewed(Spelling::Joined, view));
    let named = named::rows(text)?.map(|(bytes, runs)| {
        let origin = Origin::Runs(runs);
        Spelt { origin, ..same(Spelling::Joined, bytes) }
    });
    Ok(joined.into_iter().chain(named))
}

/// Returns a text without what stands between strings that are put together where they stand.
fn joined(text: &[u8]) -> Option<View> {
    let mut between: Vec<Range<usize>> = joints(text).collect();
    for list in lists(text) {
        between.extend(links(text, list, |link| link == b","));
    }
    between.sort_unstable_by_key(|link| link.start);
    let (mut excerpt, mut end) = (Excerpt::of(text, excerpt::AROUND_BYTES), 0);
    for link in between {
        if link.start >= end {
            end = link.end;
            excerpt.begin(link);
        }
    }
    excerpt.read()
}

/// Returns what stands between strings that an operator or the end of a line joins, with the quotes on both sides.
fn joints(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut last = 0;
    let links = links(text, 0..text.len(), |link| link.is_empty() || OPERATORS.contains(&link));
    links.filter(move |link| {
        let between = text.get(link.start + 1..link.end - 1).unwrap_or_default();
        let is_joint = match without_prefix(between).trim_ascii().is_empty() {
            true => goes_on_below(text, link.start, last),
            false => !is_string_of_operator(text, link),
        };
        if is_joint {
            last = link.end;
        }
        is_joint
    })
}

/// Tells whether a string that ends at a quote goes on in the next line: the columns of a table, and what is listed line by
/// line, do not. `last` is where the last joint ends.
fn goes_on_below(text: &[u8], quote: usize, last: usize) -> bool {
    let from = quote.saturating_sub(STRING_BYTES_MAX);
    let within = text.get(from..quote).unwrap_or_default();
    let open = text.get(quote).and_then(|sign| memchr::memrchr(*sign, within)).map(|at| from + at);
    open.is_some_and(|open| {
        let before = without_prefix(text.get(..open).unwrap_or_default()).trim_ascii_end();
        open + 1 == last || before.last().is_some_and(|byte| BEFORE_LINES.contains(byte))
    })
}

/// Tells whether what looks like a joint is a string that holds an operator, as in `split(".")`.
fn is_string_of_operator(text: &[u8], link: &Range<usize>) -> bool {
    let before = link.start.checked_sub(1).and_then(|at| text.get(at));
    let opens = before.is_none_or(|byte| b" (,=[{+\n\t".contains(byte));
    let closes = text.get(link.end).is_none_or(|byte| b" ),;]}+.\n:".contains(byte));
    let is_same = text.get(link.start) == text.get(link.end - 1);
    let has_blank = text.get(link.clone()).is_some_and(|link| link.iter().any(u8::is_ascii_whitespace));
    opens && closes && is_same && !has_blank
}

/// Returns what stands between two strings of a part of a text, with the quotes on both sides, where it is one that joins
/// them: without blanks, of which there is the end of a line if there is nothing else.
fn links<'t>(
    text: &'t [u8],
    part: Range<usize>,
    joins: impl Fn(&[u8]) -> bool + 't,
) -> impl Iterator<Item = Range<usize>> + 't {
    let [one, two, three] = QUOTES;
    let within = text.get(part.clone()).unwrap_or_default();
    let quotes = memchr::memchr3_iter(one, two, three, within).map(move |at| part.start + at);
    quotes.filter_map(move |quote| {
        let rest = text.get(quote + 1..)?;
        // A glance: most strings end before a sign that joins nothing.
        let first = *rest.first()?;
        let begins_operator = || OPERATORS.iter().any(|it| it.first() == Some(&first));
        if !first.is_ascii_whitespace() && first != b',' && !begins_operator() {
            return None;
        }
        let near = rest.get(..LINK_BYTES_MAX).unwrap_or(rest);
        let end = near.iter().position(|byte| QUOTES.contains(byte))?;
        let link = near.get(..end)?;
        let said = without_prefix(link).trim_ascii();
        let is_link = joins(said) && (!said.is_empty() || link.contains(&b'\n'));
        is_link.then_some(quote..quote + 1 + end + 1)
    })
}

/// Returns what stands before a string, without the letters by which some languages tell its kind.
fn without_prefix(before: &[u8]) -> &[u8] {
    let is_of_prefix = |byte: &&u8| b"fFrRbBuUL8@$".contains(byte);
    let length = before.iter().rev().take(3).take_while(is_of_prefix).count();
    let rest = &before[..before.len() - length];
    // Of a longer word they are the end.
    if length < 3 && !rest.last().is_some_and(|byte| is_of_name(*byte)) { rest } else { before }
}

/// Returns the lists of a text whose elements are joined with nothing between.
fn lists(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let joins = JOIN.find_iter(text).filter_map(|at| {
        let (before, behind) = (text.get(..at)?, text.get(at + JOIN_BYTES..)?);
        if NOTHING.iter().any(|nothing| before.ends_with(nothing)) {
            return Some(list_behind(text, at + JOIN_BYTES));
        }
        let is_ending = NOTHING.iter().any(|nothing| behind.starts_with(nothing));
        before.strip_suffix(b"]").filter(|_| is_ending).and_then(list_that_ends)
    });
    let calls =
        CONCATENATIONS.iter().flat_map(|call| call.find_iter(text).map(|at| at + call.needle().len()));
    joins.chain(calls.map(|start| list_behind(text, start)))
}

/// Returns the list that stands at a place, up to a bracket that is not one of its first.
fn list_behind(text: &[u8], at: usize) -> Range<usize> {
    let is_bracket = |byte: &u8| matches!(byte, b'(' | b')' | b'[' | b']' | b'{' | b'}');
    let near = text.get(at..).unwrap_or_default();
    let near = near.get(..LIST_BYTES_MAX).unwrap_or(near);
    let open = near.iter().take_while(|byte| is_bracket(byte)).count();
    let length = near.iter().skip(open).position(is_bracket).unwrap_or(near.len() - open);
    at + open..at + open + length
}

/// Returns the list in brackets that a text ends with, but for the last one.
fn list_that_ends(text: &[u8]) -> Option<Range<usize>> {
    let from = text.len().saturating_sub(LIST_BYTES_MAX);
    let open = memchr::memrchr2(b'[', b']', text.get(from..)?)? + from;
    (text.get(open) == Some(&b'[')).then_some(open..text.len())
}

/// Returns the string whose first quote stands at a place, without its quotes, if it ends in its line.
fn string_at(text: &[u8], at: usize) -> Option<Range<usize>> {
    let quote = text.get(at).filter(|byte| QUOTES.contains(byte))?;
    let near = text.get(at + 1..)?;
    let near = near.get(..=STRING_BYTES_MAX).unwrap_or(near);
    let length = near.iter().position(|byte| byte == quote || matches!(byte, b'\n' | 0))?;
    (near.get(length) == Some(quote)).then_some(at + 1..at + 1 + length)
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<String> {
        let readings = read(text.as_bytes()).unwrap();
        readings.map(|spelt| String::from_utf8(spelt.bytes().to_vec()).unwrap()).collect()
    }

    #[test]
    fn strings_are_joined_where_they_stand() {
        for written in [
            r#"token = "one" + "two""#,
            r#"token = "on" . "et" . "wo""#,
            "token = 'on' .. 'etwo'",
            "token = \"one\" +\n        \"two\"",
            "token = (\"one\"\n  f\"two\")",
            "token = (\n  \"on\"\n  \"et\"\n  \"wo\"\n)",
            "token = \"one\" \\\n  \"two\"",
            "token = 'one' || 'two'",
            "token = \"one\"&\"two\"",
            "token = `one`+`two`",
            "token = b\"one\" + rb\"two\"",
            r#"token = "one".concat("two")"#,
            r#"f("+", "one" + "two")"#,
        ] {
            let said = said(written);
            assert!(said.iter().any(|it| it.contains("onetwo")), "{written}: {said:?}");
        }
    }

    #[test]
    fn lists_are_joined_with_nothing_between() {
        for (written, meant) in [
            (r#"token = "".join(["one", "two"])"#, "onetwo"),
            ("token = ''.join(('on', 'et', 'wo'))", "onetwo"),
            (r#"const token = ["on", "etwo"].join("")"#, "onetwo"),
            ("SELECT CONCAT('one', 'two')", "onetwo"),
            ("=CONCATENATE(\"one\", \"two\")", "onetwo"),
            (r#"token = "one".concat("tw", "o")"#, "onetwo"),
        ] {
            let said = said(written);
            assert!(said.iter().any(|it| it.contains(meant)), "{written}: {said:?}");
        }
        for apart in [r#"x = ["one", "two"].join(", ")"#, r#"x = ["one", "two"]; y = ["three"].join("")"#] {
            assert!(said(apart).is_empty(), "{apart}");
        }
    }

    #[test]
    fn other_strings_stay_apart() {
        for text in [
            "",
            "He said \"yes\" and \"no\", and it isn't 'so'.",
            r#"{"a": "b", "c": ["d", "e"], "f": "g"}"#,
            r#"f("a", "b"); x = "a" == "b"; y = "a" if z else "b""#,
            r#"a = "one"; b = "two"; f(a, b); g(a); x = a * b"#,
            "echo 'one' 'two'",
            "name,\"one\",\"two\"\n3,\"four\",\"five\"\n",
            "\"one\",\"two\"\n\"three\",\"four\"\n\"five\",\"six\"\n",
            "What was said:\n\"one\"\n\"two\"\n\"three\"\n",
            "it's the cats' food. Don't 'ever' do that, 'please'",
            r#"x.split(".") and y.split("+"), z = "&""#,
        ] {
            assert!(said(text).is_empty() && !are_joined(text.as_bytes()), "{text}: {:?}", said(text));
        }
    }

    #[test]
    fn long_texts_are_read_in_linear_time() {
        let named = format!("a = '{}'; b = 'c'; ", "x".repeat(1000));
        for (begin, unit) in [
            ("", "\"a\" + "),
            ("", "a = \"b\"; "),
            ("", "\"\".join("),
            ("", "['].join('')"),
            ("", "[\"a\",\"b\"].join(\"\")"),
            ("", "\" \n"),
            ("(", "\"a\"\n"),
            ("", "a += 'b'; "),
            ("", "a += ''; a, a, "),
            ("", "a='b';a+a+"),
            (&named, "a + "),
            (&named, "a + b; "),
            (&named, "{a}{b} "),
        ] {
            let text = format!("{begin}{}", unit.repeat((1 << 18) / unit.len()));
            // What says too much is refused.
            let Ok(readings) = read(text.as_bytes()) else { continue };
            let bytes: usize = readings.map(|spelt| spelt.bytes().len()).sum();
            assert!(bytes <= 16 * text.len(), "{unit}: {bytes}");
        }
    }
}
