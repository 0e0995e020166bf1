//! Text of XML and HTML as office files hold it: what stands between tags, and apart from it what stands in them.
//!
//! Not a parser: a mark-up that is broken reads as far as it can be told apart, and no entity stands for more than a
//! sign. Words that the file cuts over runs are one here; paragraphs, cells and lines end where the format ends them.

use std::borrow::Cow;

/// Elements within a line that hold text, by their local names: it goes on behind them.
const INLINE: &[&str] = &[
    "a",
    "abbr",
    "b",
    "bdi",
    "bdo",
    "big",
    "cite",
    "code",
    "deltext",
    "delinstrtext",
    "dfn",
    "em",
    "fld",
    "font",
    "i",
    "instrtext",
    "kbd",
    "mark",
    "phonetic",
    "q",
    "r",
    "rt",
    "ruby",
    "s",
    "samp",
    "small",
    "span",
    "strike",
    "strong",
    "sub",
    "sup",
    "t",
    "tt",
    "u",
    "var",
    "wbr",
];
/// Elements that end a line, however they end themselves.
const LINES: &[&str] = &[
    "annotation",
    "br",
    "comment",
    "cr",
    "div",
    "dd",
    "dt",
    "h",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "li",
    "line-break",
    "p",
    "row",
    "section",
    "si",
    "table-row",
    "title",
    "tr",
];
/// Elements that end a cell of a row.
const CELLS: &[&str] = &["c", "covered-table-cell", "tab", "table-cell", "tc", "td", "th", "v"];
/// Attributes whose values somebody wrote, by their local names.
const ATTRIBUTES: &[&str] = &[
    "alt",
    "author",
    "content",
    "descr",
    "description",
    "display",
    "error",
    "errortitle",
    "formula",
    "href",
    "initials",
    "label",
    "name",
    "placeholder",
    "prompt",
    "prompttitle",
    "src",
    "string",
    "string-value",
    "summary",
    "target",
    "text",
    "title",
    "tooltip",
    "value",
];
/// The longest name of an element or an attribute, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// The longest entity, in bytes.
const ENTITY_BYTES_MAX: usize = 12;

/// What a file of mark-up says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// The text between its tags.
    pub(super) text: String,
    /// What attributes, comments and declarations say, a line each.
    pub(super) aside: String,
    /// Whether text was the last that was read.
    ends_in_text: bool,
}

/// Reads mark-up.
pub(super) fn read(source: &str) -> Said {
    let mut said = Said::default();
    let (mut rest, quotes) = (source, LastQuotes::of(source));
    while let Some(at) = rest.find('<') {
        said.add(&rest[..at]);
        rest = said.tag(&rest[at..], quotes);
    }
    said.add(rest);
    said
}

impl Said {
    /// Reads what begins as a tag; returns what stands behind it.
    fn tag<'s>(&mut self, source: &'s str, quotes: LastQuotes) -> &'s str {
        if let Some(comment) = source.strip_prefix("<!--") {
            let (comment, rest) = comment.split_once("-->").unwrap_or((comment, ""));
            self.tell_aside(comment);
            return rest;
        }
        if let Some(data) = source.strip_prefix("<![CDATA[") {
            let (data, rest) = data.split_once("]]>").unwrap_or((data, ""));
            self.text.push_str(data);
            self.ends_in_text = true;
            return rest;
        }
        let Some(end) = quotes.end_of_tag(source) else {
            self.add(source);
            return "";
        };
        let (tag, rest) = (&source[1..end], &source[end + 1..]);
        match tag.as_bytes().first() {
            Some(b'!') => self.tell_aside(tag),
            Some(b'?') => {}
            Some(b'/') => self.close(&local_name(&tag[1..])),
            Some(byte) if byte.is_ascii_alphabetic() || *byte == b'_' || *byte >= 0x80 => self.open(tag),
            _ => {
                self.text.push('<');
                return &source[1..];
            }
        }
        rest
    }

    fn open(&mut self, tag: &str) {
        let name = local_name(tag);
        if LINES.contains(&&*name) {
            self.end_with('\n');
        } else if CELLS.contains(&&*name) {
            self.end_with('\t');
        } else if name == "s" {
            self.text.push(' ');
        }
        self.ends_in_text = false;
        self.attributes(tag);
    }

    fn close(&mut self, name: &str) {
        let ends_in_text = std::mem::take(&mut self.ends_in_text);
        if CELLS.contains(&name) {
            self.end_with('\t');
        } else if LINES.contains(&name) || ends_in_text && !INLINE.contains(&name) {
            self.end_with('\n');
        }
    }

    /// Ends a line or a cell, unless nothing stands in it.
    fn end_with(&mut self, end: char) {
        match self.text.chars().next_back() {
            None | Some('\n') => {}
            Some('\t') if end == '\n' => {
                self.text.pop();
                self.text.push(end);
            }
            Some('\t') => {}
            Some(_) => self.text.push(end),
        }
    }

    /// Adds text between tags. White space that only lays out the mark-up says nothing.
    fn add(&mut self, text: &str) {
        let is_layout = text.contains('\n') && text.trim().is_empty();
        if !is_layout && !text.is_empty() {
            self.text.push_str(&plain(text));
            self.ends_in_text = true;
        }
    }

    fn attributes(&mut self, tag: &str) {
        let mut rest = tag;
        while let Some(at) = rest.find('=') {
            let name = rest[..at].trim_end();
            let mut parts = name.rsplit(|sign: char| sign.is_whitespace() || sign == '"' || sign == '\'');
            let name = local_name(parts.next().unwrap_or_default());
            let value = rest[at + 1..].trim_start();
            let quote = value.chars().next().filter(|sign| matches!(sign, '"' | '\''));
            let inner = value.get(quote.map_or(0, char::len_utf8)..).unwrap_or_default();
            let ends = |sign: char| quote.map_or(sign.is_whitespace(), |quote| sign == quote);
            let end = inner.find(ends).unwrap_or(inner.len());
            if ATTRIBUTES.contains(&&*name) {
                self.tell_aside(&plain(&inner[..end]));
            }
            rest = &inner[end..];
        }
    }

    fn tell_aside(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.aside.push_str(text);
            self.aside.push('\n');
        }
    }
}

/// Where the last quotes of each kind stand in mark-up, as seen from its end: behind them none ends.
#[derive(Clone, Copy)]
struct LastQuotes {
    double: usize,
    single: usize,
}

impl LastQuotes {
    fn of(source: &str) -> Self {
        let left = |quote: char| source.rfind(quote).map_or(0, |at| source.len() - at);
        Self { double: left('"'), single: left('\'') }
    }

    /// Returns where a tag ends: at the first `>` outside quotes. A quote that does not end is none.
    fn end_of_tag(self, source: &str) -> Option<usize> {
        let mut quote = None;
        for (at, byte) in source.bytes().enumerate() {
            let left = source.len() - at;
            match (quote, byte) {
                (None, b'>') => return Some(at),
                (None, b'"') if left > self.double => quote = Some(byte),
                (None, b'\'') if left > self.single => quote = Some(byte),
                (Some(open), byte) if open == byte => quote = None,
                _ => {}
            }
        }
        None
    }
}

/// Returns the name that a tag or an attribute begins with, without its prefix, in lower case.
fn local_name(tag: &str) -> Cow<'_, str> {
    let end =
        tag.find(|sign: char| sign.is_whitespace() || matches!(sign, '/' | '>' | '=')).unwrap_or(tag.len());
    let name = tag.get(..end.min(NAME_BYTES_MAX)).unwrap_or_default();
    let local = name.rsplit(':').next().unwrap_or_default();
    match local.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(local.to_ascii_lowercase()),
        false => Cow::Borrowed(local),
    }
}

/// Returns text with its entities undone.
fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        let entity = &rest[at + 1..];
        let end = entity.bytes().take(ENTITY_BYTES_MAX).position(|byte| byte == b';');
        match end.and_then(|end| Some((sign(&entity[..end])?, end))) {
            Some((sign, end)) => {
                plain.push(sign);
                rest = &entity[end + 1..];
            }
            None => {
                plain.push('&');
                rest = entity;
            }
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Returns the sign that an entity stands for.
fn sign(entity: &str) -> Option<char> {
    if let Some(number) = entity.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        return code.ok().and_then(char::from_u32);
    }
    match entity {
        "amp" => Some('&'),
        "apos" => Some('\''),
        "gt" => Some('>'),
        "lt" => Some('<'),
        "nbsp" => Some('\u{a0}'),
        "quot" => Some('"'),
        "shy" => Some('\u{ad}'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let cases = [
            (
                "<w:p><w:r><w:t>AKIA</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>QRST</w:t></w:r></w:p><w:p>x</w:p>",
                "AKIAQRST\nx\n",
            ),
            ("<si><t>one</t></si>\n  <si><r><t>t</t></r><r><t>wo</t></r></si>", "one\ntwo\n"),
            ("<row><c><v>1</v></c><c><v>2</v></c></row><row><c><v>3</v></c></row>", "1\t2\n3\n"),
            ("<text:p>a<text:tab/>b<text:s/>c<text:line-break/>d</text:p>", "a\tb c\nd\n"),
            ("<dc:title>A</dc:title><dc:creator>B</dc:creator>", "A\nB\n"),
            ("a &lt;b&gt; &#65;&#x42; &amp;amp; &none; & c", "a <b> AB &amp; &none; & c"),
            ("<p>1 < 2 <![CDATA[<raw>]]></p>", "1 < 2 <raw>\n"),
            ("<p a='>'>in</p>broken <p", "in\nbroken <p"),
            ("<é>ü</é>", "ü\n"),
        ];
        for (source, text) in cases {
            assert_eq!(read(source).text, text, "{source}");
        }
    }

    #[test]
    fn what_stands_in_tags_is_told_apart() {
        let said =
            read("<wp:docPr id=\"1\" descr=\"a &quot;cat&quot;\"/><!-- hid --><a href='x y' b=1>t</a>");
        assert_eq!((&*said.text, &*said.aside), ("t", "a \"cat\"\n hid \nx y\n"));
    }
}
