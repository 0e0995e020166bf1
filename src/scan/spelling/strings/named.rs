//! Strings that have a name, and are put together by it.
//!
//! A name stands for the last string it was given before, or else for the first one behind, as in notes that tell at their end
//! what is what. Strings that are appended to one are a row of themselves; so are names and strings with operators between
//! them, and names in one template. Each row is read behind the name that it is given in turn.

use std::collections::HashMap;
use std::ops::Range;

use smallvec::SmallVec;
use smallvec::smallvec;

use super::LINK_BYTES_MAX;
use super::OPERATORS;
use super::QUOTES;
use super::is_of_name;
use super::string_at;
use super::without_prefix;
use crate::scan::scanner::ScanFault;

/// What stands between two names of a template, or of a text of a shell; a blank between them is one of the text.
const TEMPLATE_LINKS: [&[u8]; 6] = [b"}{", b"}${", b"}#{", b"}}{{", b"$", b"}$"];

/// What stands between two names where each has a sign before it.
const SIGNED_LINKS: [&[u8]; 2] = [b"+$", b".$"];

/// The longest name of a string, in bytes.
const NAME_BYTES_MAX: usize = 40;

/// How many strings with names a glance at a text looks at.
const GLANCE_NAMES_MAX: usize = 4096;

/// How many strings are appended to one; what comes behind them is one of its own.
const APPENDED_MAX: usize = 64;

/// The bytes that rows may have, however short their text, and beyond that for each byte of it.
const ROWS_BASE: usize = 1 << 16;
const ROWS_PER_BYTE: usize = 8;

/// What may stand between the sign of an assignment and the first name of a row.
const BEFORE_ROW: &[u8] = b" \t\"'`$f{(";

/// What a reading says, and where each part of it ends and comes from.
type Reading = (Vec<u8>, Vec<(usize, Range<usize>)>);

/// The strings that names were given, in the order of the text.
type Names<'t> = HashMap<&'t [u8], Vec<Part>>;

/// Strings that are a part of a row: one, or those that were appended to it.
type Part = SmallVec<[Range<usize>; 1]>;

/// What tells most names apart from those that strings have, without a look at either.
struct Glance {
    /// By the first byte of a name: of how many bytes there are some, as bits.
    lengths: [u64; 256],
}

/// A word of a program: what may be a name, or a string.
enum Word {
    Name(Range<usize>),
    String(Range<usize>),
}

/// Rows of a text as they are found.
struct Rows<'t> {
    text: &'t [u8],
    bytes: Vec<u8>,
    runs: Vec<(usize, Range<usize>)>,
    /// How many bytes they may still have.
    left: usize,
}

/// A row under way.
#[derive(Default)]
struct Row {
    parts: Vec<Range<usize>>,
    /// Before which of the parts a blank stands.
    blanks: Vec<bool>,
    /// How many words it has, and whether one of them is a name.
    words: usize,
    has_name: bool,
    /// Where its first word begins, and where its last one ends.
    start: usize,
    end: usize,
}

/// Tells whether some names of a text, or of several with NUL between them, may be put together.
pub(super) fn may_be_joined(text: &[u8]) -> bool {
    let (names, is_all) = names(text, GLANCE_NAMES_MAX);
    !is_all || read(text, &names, true).map_or(true, |rows| !rows.runs.is_empty())
}

/// Returns what the strings with names say where they are put together; nothing if none are.
///
/// # Errors
/// They say more than strings of such a text may.
pub(super) fn rows(text: &[u8]) -> Result<Option<Reading>, ScanFault> {
    let (names, _) = names(text, usize::MAX);
    let rows = read(text, &names, false)?;
    Ok((!rows.runs.is_empty()).then_some((rows.bytes, rows.runs)))
}

/// Reads the rows of a text, or for a glance those up to the first.
fn read<'t>(text: &'t [u8], names: &Names<'t>, is_glance: bool) -> Result<Rows<'t>, ScanFault> {
    let left = ROWS_BASE.saturating_add(text.len().saturating_mul(ROWS_PER_BYTE));
    let mut rows = Rows { text, bytes: Vec::new(), runs: Vec::new(), left };
    let mut appended: Vec<&Part> = names.values().flatten().filter(|part| part.len() > 1).collect();
    appended.sort_unstable_by_key(|part| part.first().map(|string| string.start));
    appended.dedup();
    for part in appended {
        rows.charge(part)?;
        rows.add(b"", part, &[]);
    }
    if names.is_empty() {
        return Ok(rows);
    }
    let (glance, mut row) = (Glance::of(names.keys()), Row::default());
    for word in words(text) {
        let is_name = matches!(word, Word::Name(_));
        let (place, part): (_, Option<Part>) = match word {
            Word::String(string) => (string.start - 1..string.end + 1, Some(smallvec![string])),
            Word::Name(place) => {
                let name = text.get(place.clone()).filter(|name| glance.may_have(name));
                let known = name.and_then(|name| names.get(name));
                (place.clone(), known.and_then(|known| before(known, place.start)).cloned())
            }
        };
        let may_follow = part.is_some() && !row.parts.is_empty();
        let link = may_follow.then(|| link(text, row.end..place.start)).flatten();
        let part = part.unwrap_or_default();
        match link {
            Some(_) => {
                if row.words == 1 {
                    rows.charge(&row.parts)?;
                }
                rows.charge(&part)?;
            }
            None => {
                rows.end(&row);
                if is_glance && !rows.runs.is_empty() {
                    return Ok(rows);
                }
                row = Row { start: place.start, ..Row::default() };
            }
        }
        row.end = place.end;
        row.take(part, is_name, link.unwrap_or(false));
    }
    rows.end(&row);
    Ok(rows)
}

/// Returns the last string that a name was given before a place, or else the first one behind it.
fn before(known: &[Part], place: usize) -> Option<&Part> {
    let begins_before = |part: &Part| part.first().is_some_and(|string| string.start < place);
    known.get(known.partition_point(begins_before).saturating_sub(1))
}

/// Returns at most so many strings of a text that are given a name, by it, and whether these are all.
fn names(text: &[u8], most: usize) -> (Names<'_>, bool) {
    let (mut names, mut count, mut at): (Names<'_>, usize, usize) = (HashMap::new(), 0, 0);
    while let Some(sign) = memchr::memchr(b'=', text.get(at..).unwrap_or_default()).map(|found| at + found) {
        at = sign + 1;
        let Some(given) = given_before(text, sign) else { continue };
        let Some(string) = string_behind(text, sign + 1) else { continue };
        at = string.end;
        if count == most {
            return (names, false);
        }
        count += 1;
        if given.is_more && string.is_empty() {
            continue;
        }
        let has_room = |part: &&mut Part| given.is_more && part.len() < APPENDED_MAX;
        for name in [Some(&given.name), given.typed.as_ref()].into_iter().flatten() {
            let known = names.entry(text.get(name.clone()).unwrap_or_default()).or_default();
            match known.last_mut().filter(has_room) {
                Some(part) => part.push(string.clone()),
                None => known.push(smallvec![string.clone()]),
            }
        }
    }
    (names, true)
}

/// What stands before the sign of an assignment.
struct Given {
    name: Range<usize>,
    /// The name before a colon, where `name` may be the kind of value that it has.
    typed: Option<Range<usize>>,
    /// Whether what is behind the sign is appended.
    is_more: bool,
}

/// Returns what stands before the sign of an assignment, if a name does.
fn given_before(text: &[u8], sign: usize) -> Option<Given> {
    let from = sign.saturating_sub(3 * NAME_BYTES_MAX);
    let before = text.get(from..sign)?;
    let (before, is_more) = match before {
        [rest @ .., b'+' | b'.'] => (rest, true),
        [rest @ .., b':'] => (rest, false),
        _ => (before, false),
    };
    let last = last_name(before)?;
    let rest = without_blanks(before.get(..last.start)?);
    let rest = without_blanks(rest.strip_suffix(b"&").unwrap_or(rest));
    let typed = rest.strip_suffix(b":").filter(|rest| !rest.ends_with(b":")).and_then(last_name);
    let placed = |name: Range<usize>| from + name.start..from + name.end;
    Some(Given { name: placed(last), typed: typed.map(placed), is_more })
}

/// Returns a text without the blanks at its end.
fn without_blanks(text: &[u8]) -> &[u8] {
    let blanks = text.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    text.get(..text.len() - blanks).unwrap_or_default()
}

/// Returns the name that a text ends with, but for blanks.
fn last_name(text: &[u8]) -> Option<Range<usize>> {
    let text = text.trim_ascii_end();
    let length = text.iter().rev().take_while(|byte| is_of_name(**byte)).count();
    (1..=NAME_BYTES_MAX).contains(&length).then_some(text.len() - length..text.len())
}

/// Returns the string that stands at a place, but for blanks before it and the letters of its kind.
fn string_behind(text: &[u8], at: usize) -> Option<Range<usize>> {
    let near = text.get(at..)?;
    let near = near.get(..LINK_BYTES_MAX).unwrap_or(near);
    let quote = near.iter().position(|byte| QUOTES.contains(byte))?;
    let before = without_prefix(near.get(..quote)?);
    before.iter().all(|byte| matches!(byte, b' ' | b'\t')).then(|| string_at(text, at + quote)).flatten()
}

/// Returns the words of a text. What is written within a string is a word of it where it may be a template.
fn words(text: &[u8]) -> impl Iterator<Item = Word> {
    let (mut at, mut end_of_template) = (0, None);
    std::iter::from_fn(move || {
        let is_begin = |byte: &u8| is_of_name(*byte) || QUOTES.contains(byte);
        loop {
            let start = at + text.get(at..)?.iter().position(is_begin)?;
            if is_of_name(*text.get(start)?) {
                at = start + text.get(start..)?.iter().take_while(|byte| is_of_name(**byte)).count();
                return Some(Word::Name(start..at));
            }
            at = start + 1;
            // An apostrophe begins none.
            let before = without_prefix(text.get(..start).unwrap_or_default());
            if before.last().is_some_and(|byte| is_of_name(*byte)) || end_of_template == Some(start) {
                continue;
            }
            let Some(string) = string_at(text, start) else { continue };
            if text.get(string.clone()).is_some_and(|said| memchr::memchr2(b'{', b'$', said).is_some()) {
                end_of_template = Some(string.end);
                continue;
            }
            at = string.end + 1;
            return Some(Word::String(string));
        }
    })
}

/// Tells whether words are put together by what stands between them, and then whether a blank stays there.
fn link(text: &[u8], between: Range<usize>) -> Option<bool> {
    let between = text.get(between).filter(|between| between.len() <= LINK_BYTES_MAX)?;
    let link: Vec<u8> = between.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    if TEMPLATE_LINKS.contains(&link.as_slice()) {
        return Some(between.len() > link.len());
    }
    let is_operator = OPERATORS.contains(&link.as_slice()) || SIGNED_LINKS.contains(&link.as_slice());
    is_operator.then_some(false)
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

impl Row {
    /// Takes a part behind the others.
    fn take(&mut self, part: Part, is_name: bool, has_blank: bool) {
        self.words += 1;
        self.has_name |= is_name && !part.is_empty();
        for (at, string) in part.into_iter().enumerate() {
            self.blanks.push(has_blank && at == 0);
            self.parts.push(string);
        }
    }
}

impl Rows<'_> {
    /// Adds a row that has ended, behind the name that it is given.
    fn end(&mut self, row: &Row) {
        if !row.has_name || row.words < 2 {
            return;
        }
        let from = row.start.saturating_sub(LINK_BYTES_MAX);
        let before = self.text.get(from..row.start).unwrap_or_default();
        let is_given = |sign: &usize| {
            let between = before.get(sign + 1..).unwrap_or_default();
            between.iter().all(|byte| BEFORE_ROW.contains(byte))
        };
        let sign = memchr::memrchr(b'=', before).filter(is_given);
        let given = sign.and_then(|sign| given_before(self.text, from + sign));
        let name = given.and_then(|given| self.text.get(given.typed.unwrap_or(given.name)));
        let name = name.unwrap_or_default();
        self.add(name, &row.parts, &row.blanks);
    }

    /// Takes the bytes of some strings from those that rows may have.
    fn charge(&mut self, strings: &[Range<usize>]) -> Result<(), ScanFault> {
        let length: usize = strings.iter().map(Range::len).sum();
        self.left = self.left.checked_sub(length).ok_or(ScanFault::TooMuchDecoded)?;
        Ok(())
    }

    /// Adds what strings say together, with the blanks before some of them, behind a name. Whatever else is written stands
    /// for a quote: there is one on each side of a string.
    fn add(&mut self, name: &[u8], parts: &[Range<usize>], blanks: &[bool]) {
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return };
        if parts.iter().all(Range::is_empty) {
            return;
        }
        if !name.is_empty() {
            self.write(&[name, b" = "].concat(), first.start - 1..first.start);
        }
        for (at, part) in parts.iter().enumerate() {
            if blanks.get(at).is_some_and(|has_blank| *has_blank) {
                self.write(b" ", part.start - 1..part.start);
            }
            self.write(self.text.get(part.clone()).unwrap_or_default(), part.clone());
        }
        self.write(b"\n", last.end..last.end + 1);
    }

    fn write(&mut self, bytes: &[u8], place: Range<usize>) {
        if !bytes.is_empty() {
            self.bytes.extend_from_slice(bytes);
            self.runs.push((self.bytes.len(), place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        let read = rows(text.as_bytes()).unwrap();
        read.map(|(bytes, _)| String::from_utf8(bytes).unwrap()).unwrap_or_default()
    }

    #[test]
    fn names_stand_for_their_strings() {
        for (written, meant) in [
            (r#"a = "one"; b = "two"; token = a + b"#, "token = onetwo\n"),
            ("a='one'\nb='two'\nexport TOKEN=\"$a$b\"", "TOKEN = onetwo\n"),
            ("$b = 'two'; $a = 'one'; $token = $a . $b;", "token = onetwo\n"),
            ("const a = 'one', b = 'two'; const token = `${a}${b}`;", "token = onetwo\n"),
            ("let a: &str = \"one\"; const b: string = \"two\"; login(a + b)", "onetwo\n"),
            ("a := \"one\"\nb := \"two\"\nlogin(a + b)", "onetwo\n"),
            ("a = b\"one\"\nb = \"two\"\nprint(f\"{a}{b}\")", "onetwo\n"),
            ("a = 'one'; b = 'two'; print(f\"{a} {b}\")", "one two\n"),
            ("read a + b, where a = 'one' and b = 'two'", "onetwo\n"),
            ("prefix = 'one'; token = prefix + 'two'", "token = onetwo\n"),
            ("tail = 'two'; token = 'on' + 'e' + tail", "token = onetwo\n"),
            ("s = \"one\"\ns += \"two\"", "onetwo\n"),
            ("It says:\na = 'one'\nb = 'two'\nDo a + b.", "onetwo\n"),
            ("Given: a = 'one', and: b = 'two'. Do a + b.", "onetwo\n"),
            ("a = 'one'; b = 'two'; f(a + b); a = ''; b = 'x'", "onetwo\n"),
        ] {
            assert_eq!(said(written), meant, "{written}");
        }
    }

    #[test]
    fn what_is_not_put_together_is_not_read() {
        for text in
            ["a = 'one'; b = 'two'; f(a, b)", "a = ''; b = ''; a + b", "it's a = b + c", "x = 'a' + y"]
        {
            assert_eq!(said(text), "", "{text}");
        }
    }

    #[test]
    fn every_part_leads_back_to_its_string() {
        let text = r#"b = "two"; a = "one"; token = a + b"#;
        let (bytes, runs) = rows(text.as_bytes()).unwrap().unwrap();
        let mut from = 0;
        for (end, place) in runs {
            let (said, stands) = (&bytes[from..end], &text.as_bytes()[place]);
            assert!(said == stands || stands == b"\"", "{said:?} {stands:?}");
            from = end;
        }
        assert_eq!(from, bytes.len());
    }

    #[test]
    fn one_text_takes_no_quote_for_another_one() {
        let texts = "He wrote x=\"\0a=\"one\"\nb=\"two\"\nsend(a + b)";
        assert!(may_be_joined(texts.as_bytes()));
    }

    #[test]
    fn more_names_than_a_glance_looks_at_may_be_put_together() {
        let text = (0..=GLANCE_NAMES_MAX).map(|at| format!("a{at} = 'x'\n")).collect::<String>();
        assert!(may_be_joined(text.as_bytes()));
    }

    #[test]
    fn nothing_that_stands_before_a_row_hides_it() {
        let filler = format!("a = '{}'; e = ''; {}", "x".repeat(1000), "f(a + e); ".repeat(20));
        let long = format!("a = '{}'; f(a + b + c)", "x".repeat(1020));
        let empty = "s = 'on'; ".to_owned() + &"s += ''; ".repeat(100) + "s += 'etwo'";
        for text in [
            format!("{filler}b = 'one'; c = 'two'; f(b + c)"),
            format!("b = 'one'; c = 'two'; {long}"),
            empty,
        ] {
            assert!(said(&text).contains("onetwo"), "{}", text.len());
        }
    }

    #[test]
    fn what_says_more_than_a_text_may_is_refused() {
        let text = format!("a = '{}'; {}", "x".repeat(1000), "a + ".repeat(10_000));
        assert!(matches!(rows(text.as_bytes()), Err(ScanFault::TooMuchDecoded)));
        assert!(may_be_joined(text.as_bytes()));
    }
}
