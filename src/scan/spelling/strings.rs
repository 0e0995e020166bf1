//! Strings that a program puts together: `"ghp_16C7" + "e42F29"`, and `a + b` of what was named before.
//!
//! In: a whole text. Out: readings of it. In one of them strings are joined where nothing but an operator or the end of a line
//! stands between them, and where a list of them is joined with nothing between; in another one stand those that have a
//! name and are put together by it, each row behind the name that it is given in turn. Nobody has to run the program: a
//! model that reads it does as much.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::Origin;
use super::Spelt;
use super::excerpt::Excerpt;
use super::same;
use super::viewed;
use crate::scan::threat::Spelling;
use crate::scan::view::View;

/// What strings stand in.
const QUOTES: [u8; 3] = [b'"', b'\'', b'`'];

/// What puts two strings together, in one language or another; the longer ones first.
const OPERATORS: [&[u8]; 9] = [b"..", b"||", b"<>", b"++", b"+", b".", b"&", b"~", b"\\"];

/// What may stand between two names besides these: the braces and signs of a template, and of a shell.
const NAME_LINKS: [&[u8]; 8] = [b"}{", b"}${", b"}#{", b"}}{{", b"$", b"}$", b"+$", b".$"];

/// What joins the elements of a list, with what stands before it in one language or behind it in another; and what joins those
/// that stand behind it.
static JOIN: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(".join("));
static CONCATENATIONS: LazyLock<[Finder<'static>; 3]> =
    LazyLock::new(|| ["oncat(", "ONCAT(", "ONCATENATE("].map(Finder::new));
const JOIN_BYTES: usize = ".join(".len();

/// Nothing, as a string.
const NOTHING: [&[u8]; 3] = [b"\"\"", b"''", b"``"];

/// The most bytes between two strings that belong together: an operator, and the indentation of the next line.
const LINK_BYTES_MAX: usize = 64;

/// The most bytes of a list whose elements are joined.
const LIST_BYTES_MAX: usize = 4096;

/// The longest name of a string, and the longest string with one, in bytes.
const NAME_BYTES_MAX: usize = 40;
const NAMED_BYTES_MAX: usize = 1024;

/// How many strings of a text may have names, and how many rows of them are read.
const NAMES_MAX: usize = 1024;
const ROWS_MAX: usize = 256;

/// How much around strings that are joined is read with them, in bytes: their name, and words that tell of a value.
const AROUND_BYTES: usize = 256;

/// A string that has a name, or several that were appended to it.
#[derive(Clone, Debug, Default)]
struct Named {
    said: Vec<u8>,
    /// From the first to the end of the last of them.
    place: Range<usize>,
}

/// What tells most names apart from those that strings have, without a look at either.
struct Glance {
    /// By the first byte of a name: of how many bytes there are some, as bits.
    lengths: [u64; 256],
}

/// What rows of names say.
#[derive(Default)]
struct Rows {
    bytes: Vec<u8>,
    /// Where each ends, and where it comes from.
    runs: Vec<(usize, Range<usize>)>,
}

/// Tells whether some strings of a text are put together.
pub(super) fn are_joined(text: &[u8]) -> bool {
    joints(text).next().is_some() || lists(text).next().is_some() || rows(text).is_some()
}

/// Returns the readings of a text with its strings put together.
pub(super) fn read(text: &[u8]) -> impl Iterator<Item = Spelt> {
    let joined = joined(text).map(|view| viewed(Spelling::Joined, view));
    let named = rows(text).map(|Rows { bytes, runs }| {
        let origin = Origin::Runs(runs);
        Spelt { origin, ..same(Spelling::Joined, bytes) }
    });
    joined.into_iter().chain(named)
}

/// Returns a text without what stands between strings that are put together where they stand.
fn joined(text: &[u8]) -> Option<View> {
    let mut between: Vec<Range<usize>> = joints(text).collect();
    for list in lists(text) {
        between.extend(links(text, list, |link| link == b","));
    }
    between.sort_unstable_by_key(|link| link.start);
    let (mut excerpt, mut end) = (Excerpt::of(text, AROUND_BYTES), 0);
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
    links(text, 0..text.len(), |link| link.is_empty() || OPERATORS.contains(&link))
}

/// Returns what stands between two strings of a part of a text, with the quotes on both sides, where it is one that joins
/// them; without blanks, of which there are some if nothing else is.
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
        if !first.is_ascii_whitespace()
            && first != b','
            && !OPERATORS.iter().any(|it| it.first() == Some(&first))
        {
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

/// Returns what stands before a string, without the letter by which some languages tell its kind.
fn without_prefix(link: &[u8]) -> &[u8] {
    match link {
        [before @ .., b'f' | b'r' | b'b' | b'u' | b'L' | b'@' | b'$'] => before,
        _ => link,
    }
}

/// Returns the lists of a text whose elements are joined with nothing between; no two overlap.
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

/// Returns what the strings with names say where they are put together; nothing if none are.
fn rows(text: &[u8]) -> Option<Rows> {
    let known = named(text);
    let mut rows = Rows::default();
    let mut appended: Vec<&Named> = known.values().filter(|it| it.place.len() > it.said.len()).collect();
    appended.sort_unstable_by_key(|it| it.place.start);
    appended.into_iter().for_each(|it| rows.add(b"", it));
    if known.len() > 1 {
        let glance = Glance::of(known.keys());
        let (mut start, mut end, mut row): (usize, usize, Vec<&Named>) = (0, 0, Vec::new());
        for place in names(text) {
            let name = text.get(place.clone()).filter(|name| glance.may_have(name));
            let next = name.and_then(|name| known.get(name));
            if row.is_empty() || next.is_none() || !is_name_link(text, end..place.start) {
                rows.put_together(text, start, &row);
                row.clear();
                start = place.start;
            }
            end = place.end;
            row.extend(next);
        }
        rows.put_together(text, start, &row);
    }
    (!rows.runs.is_empty()).then_some(rows)
}

/// Returns the strings of a text that are given a name, by it.
fn named(text: &[u8]) -> HashMap<&[u8], Named> {
    let mut known: HashMap<&[u8], Named> = HashMap::new();
    let mut at = 0;
    while let Some(sign) = memchr::memchr(b'=', text.get(at..).unwrap_or_default()).map(|found| at + found) {
        at = sign + 1;
        let Some((name, is_more)) = name_before(text, sign) else { continue };
        let Some(string) = string_behind(text, sign + 1) else { continue };
        at = string.end;
        let (Some(name), Some(said)) = (text.get(name), text.get(string.clone())) else { continue };
        let is_room = known.len() < NAMES_MAX;
        match known.get_mut(name).filter(|_| is_more) {
            Some(named) if named.said.len() + said.len() <= NAMED_BYTES_MAX => {
                named.said.extend_from_slice(said);
                named.place.end = string.end;
            }
            _ if is_room => {
                known.insert(name, Named { said: said.to_vec(), place: string });
            }
            _ => {}
        }
    }
    known
}

/// Returns the name before the sign of an assignment, and whether what is behind it is appended.
fn name_before(text: &[u8], sign: usize) -> Option<(Range<usize>, bool)> {
    let from = sign.saturating_sub(NAME_BYTES_MAX + 4);
    let before = text.get(from..sign)?;
    let (before, is_more) = match before {
        [rest @ .., b'+' | b'.'] => (rest, true),
        [rest @ .., b':'] => (rest, false),
        _ => (before, false),
    };
    let before = before.trim_ascii_end();
    let length = before.iter().rev().take_while(|byte| is_of_name(**byte)).count();
    let end = from + before.len();
    (1..=NAME_BYTES_MAX).contains(&length).then_some((end - length..end, is_more))
}

/// Returns the string that stands at a place, but for blanks before it.
fn string_behind(text: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = text.get(at..)?;
    let blanks = rest.iter().take(LINK_BYTES_MAX).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let quote = rest.get(blanks).filter(|byte| QUOTES.contains(byte))?;
    let start = at + blanks + 1;
    let near = text.get(start..)?;
    let near = near.get(..=NAMED_BYTES_MAX).unwrap_or(near);
    let length = near.iter().position(|byte| byte == quote || *byte == b'\n')?;
    (near.get(length) == Some(quote)).then_some(start..start + length)
}

/// Returns what may be names in a text.
fn names(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text.get(at..)?.iter().position(|byte| is_of_name(*byte))?;
        at = start + text.get(start..)?.iter().take_while(|byte| is_of_name(**byte)).count();
        Some(start..at)
    })
}

/// Tells whether two names are put together by what stands between them.
fn is_name_link(text: &[u8], between: Range<usize>) -> bool {
    let is_near = between.len() <= LINK_BYTES_MAX;
    let Some(link) = text.get(between).filter(|_| is_near) else { return false };
    let link: Vec<u8> = link.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    OPERATORS.contains(&link.as_slice()) || NAME_LINKS.contains(&link.as_slice())
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl Glance {
    fn of<'n>(names: impl Iterator<Item = &'n &'n [u8]>) -> Self {
        let mut lengths = [0; 256];
        for name in names {
            let first = name.first().copied().unwrap_or_default();
            lengths[usize::from(first)] |= 1_u64 << name.len();
        }
        Self { lengths }
    }

    fn may_have(&self, name: &[u8]) -> bool {
        let first = name.first().copied().unwrap_or_default();
        name.len() <= NAME_BYTES_MAX && self.lengths[usize::from(first)] >> name.len() & 1 == 1
    }
}

impl Rows {
    /// Adds what strings say together that are put together from a place on, behind the name they are given there.
    fn put_together(&mut self, text: &[u8], start: usize, row: &[&Named]) {
        let ([first, rest @ ..], true) = (row, row.len() > 1) else { return };
        let together = rest.iter().fold((*first).clone(), |all, next| Named {
            said: [all.said, next.said.clone()].concat(),
            place: all.place.start.min(next.place.start)..all.place.end.max(next.place.end),
        });
        let from = start.saturating_sub(LINK_BYTES_MAX);
        let before = text.get(from..start).unwrap_or_default();
        let is_given = |sign: &usize| {
            let between = before.get(sign + 1..).unwrap_or_default();
            between.iter().all(|byte| b" \t\"'`$f{(".contains(byte))
        };
        let sign = memchr::memrchr(b'=', before).filter(is_given);
        let name = sign.and_then(|sign| name_before(text, from + sign));
        self.add(name.and_then(|(name, _)| text.get(name)).unwrap_or_default(), &together);
    }

    /// Adds what strings say together behind a name.
    fn add(&mut self, name: &[u8], together: &Named) {
        if self.runs.len() == ROWS_MAX {
            return;
        }
        if !name.is_empty() {
            self.bytes.extend([name, b" = "].concat());
        }
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(&together.said);
        self.bytes.extend_from_slice(b"\"\n");
        self.runs.push((self.bytes.len(), together.place.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<String> {
        read(text.as_bytes()).map(|spelt| String::from_utf8(spelt.bytes().to_vec()).unwrap()).collect()
    }

    #[test]
    fn strings_are_joined_where_they_stand() {
        for written in [
            r#"token = "one" + "two""#,
            r#"token = "on" . "et" . "wo""#,
            "token = 'on' .. 'etwo'",
            "token = \"one\" +\n        \"two\"",
            "token = (\"one\"\n  f\"two\")",
            "token = \"one\" \\\n  \"two\"",
            "token = 'one' || 'two'",
            "token = \"one\"&\"two\"",
            "token = `one`+`two`",
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
            (r#"token = "one".concat("tw", "o")"#, "two"),
        ] {
            let said = said(written);
            assert!(said.iter().any(|it| it.contains(meant)), "{written}: {said:?}");
        }
        for apart in [r#"x = ["one", "two"].join(", ")"#, r#"x = ["one", "two"]; y = ["three"].join("")"#] {
            assert!(said(apart).is_empty(), "{apart}");
        }
    }

    #[test]
    fn names_stand_for_their_strings() {
        for (written, meant) in [
            (r#"a = "one"; b = "two"; token = a + b"#, "token = \"onetwo\"\n"),
            ("a='one'\nb='two'\nexport TOKEN=\"$a$b\"", "TOKEN = \"onetwo\"\n"),
            ("$b = 'two'; $a = 'one'; $token = $a . $b;", "token = \"onetwo\"\n"),
            ("const a = 'one', b = 'two'; const token = `${a}${b}`;", "token = \"onetwo\"\n"),
            ("a := \"one\"\nb := \"two\"\nlogin(a + b)", "\"onetwo\"\n"),
            ("a = \"one\"\nb = \"two\"\nprint(f\"{a}{b}\")", "\"onetwo\"\n"),
            ("s = \"one\"\ns += \"two\"", "\"onetwo\"\n"),
        ] {
            assert_eq!(said(written), [meant], "{written}");
        }
    }

    #[test]
    fn what_a_row_says_leads_back_to_its_strings() {
        let text = r#"b = "two"; a = "one"; token = a + b"#;
        let spelt = read(text.as_bytes()).next().unwrap();
        let place = spelt.place(&(9..15), text.len());
        assert_eq!(&text[place], r#"two"; a = "one"#);
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
            "it's the cats' food. Don't 'ever' do that, 'please'",
        ] {
            assert!(said(text).is_empty() && !are_joined(text.as_bytes()), "{text}: {:?}", said(text));
        }
    }

    #[test]
    fn long_texts_are_read_in_linear_time() {
        for unit in [
            "\"a\" + ",
            "a = \"b\"; ",
            "a + b + ",
            "\"\".join(",
            "['].join('')",
            "[\"a\",\"b\"].join(\"\")",
            "\" \n",
            "a='b';a+a+",
        ] {
            let text = unit.repeat((1 << 20) / unit.len());
            let bytes: usize = read(text.as_bytes()).map(|spelt| spelt.bytes().len()).sum();
            assert!(bytes <= 2 * text.len(), "{unit}");
        }
    }
}
