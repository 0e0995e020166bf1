//! What stands over the border of two texts that a model reads as one: parts of a message, or messages of one speaker in
//! a row.
//!
//! In: the texts of a document. Out: findings whose value begins in one text and ends in another, which no text holds
//! alone. Only what is near a border is read, with nothing in its place and with a space: who parts a value does not
//! say which. Of a request that is what is said to a model, or is said to be its own words, of an answer what it says, or
//! a tool or another agent. Answers that stand beside one another, as choices do, are no texts of one. What a dialect
//! calls a row is read in the same way, whole: words of a transcript, one by one.

use std::borrow::Cow;
use std::ops::Range;

use smallvec::SmallVec;

use super::shifted;
use crate::llm::dialect::Channel;
use crate::llm::dialect::Dialect;
use crate::llm::json::Document;
use crate::llm::json::JsonString;
use crate::llm::json::NodeId;
use crate::llm::json::RawCursor;
use crate::llm::json::StepView;
use crate::policy::decision::Direction;
use crate::policy::inspect::Unreadable;
use crate::policy::inspect::border::side_bytes;
use crate::policy::inspect::layer2;
use crate::policy::inspect::text::Sheet;
use crate::policy::inspect::text::Written;
use crate::redact::splice::Edit;
use crate::redact::splice::join_overlapping;

/// The names of members that hold the texts of messages, and what tools give back.
const TEXT_NAMES: [&[u8]; 5] = [b"text", b"content", b"output", b"logs", b"transcript"];
/// What such a member is called where it is an object that holds its text.
const INNER_NAME: &[u8] = b"value";
/// What a model may read in the place of a border.
const JOINTS: [&[u8]; 2] = [b"", b" "];

/// Texts of one speaker, one behind another.
#[derive(Default)]
pub(super) struct Borders<'d> {
    channel: Option<Channel>,
    strings: Vec<&'d JsonString>,
    /// The answers that stand beside one another, where there are several, and which of them is read.
    apart: Vec<NodeId>,
    answer: Option<NodeId>,
}

/// A string of a document, and what it says.
type Text<'d> = (&'d JsonString, Cow<'d, [u8]>);

/// What is read of the texts of one speaker.
#[derive(Default)]
struct Joined {
    bytes: Vec<u8>,
    stretches: Vec<Stretch>,
}

/// A part of a text within what is read.
struct Stretch {
    /// Where it lies there.
    place: Range<usize>,
    /// The number of the text.
    text: usize,
    /// Where it begins in the text.
    from: usize,
}

impl<'d> Borders<'d> {
    /// Returns the borders of a document of which nothing was read yet.
    pub(super) fn of(dialect: &Dialect, text: &[u8], document: &Document) -> Self {
        let apart = Some(dialect.apart(text, document)).filter(|answers| answers.len() > 1);
        Self { apart: apart.unwrap_or_default(), ..Self::default() }
    }

    /// Returns the answer that a string is part of, if there are several.
    fn answer(&self, document: &Document, string: &JsonString) -> Option<NodeId> {
        if self.apart.is_empty() {
            return None;
        }
        let mut way = std::iter::successors(Some(string.node), |node| document.parent(*node));
        way.find(|node| self.apart.contains(node))
    }

    /// Takes the next text of a document that is no name of a member, and reads what stands over the borders before it
    /// if somebody else speaks now.
    pub(super) fn take(
        &mut self,
        sheet: &mut Sheet<'_, '_>,
        (text, offset): (&'d [u8], usize),
        (document, string, channel): (&'d Document, &'d JsonString, Channel),
    ) -> Result<(), Unreadable> {
        if matches!(channel, Channel::Metadata | Channel::Credential) {
            return Ok(());
        }
        let answer = self.answer(document, string);
        if (self.channel, self.answer) != (Some(channel), answer) {
            self.read(sheet, (text, offset), document)?;
            (self.channel, self.answer) = (Some(channel), answer);
        }
        let is_spoken = match (sheet.inspector.judged(), channel) {
            (_, Channel::ToolResult) => true,
            (Direction::Request, channel) => {
                matches!(channel, Channel::System | Channel::User | Channel::Assistant)
            }
            (Direction::Response, channel) => channel == Channel::Assistant,
        };
        if is_spoken && is_text(text, document, string) {
            self.strings.push(string);
        }
        Ok(())
    }

    /// Reads what stands over the borders of the texts that were taken last.
    pub(super) fn read(
        &mut self,
        sheet: &mut Sheet<'_, '_>,
        (text, offset): (&'d [u8], usize),
        document: &Document,
    ) -> Result<(), Unreadable> {
        let read = match self.channel {
            Some(channel) => read_joined(sheet, (text, offset), document, (&self.strings, channel)),
            None => Ok(()),
        };
        self.strings.clear();
        read
    }
}

/// Returns the strings of an event of a stream that may be texts of one speaker; `is_free` tells which of them are pieces
/// of no text that goes on over events.
pub(in crate::policy) fn texts_of_event<'d>(
    text: &[u8],
    document: &'d Document,
    is_free: impl Fn(&JsonString) -> bool,
) -> SmallVec<[&'d JsonString; 2]> {
    let is_said = |string: &&JsonString| !string.key && is_text(text, document, string) && is_free(string);
    document.strings.iter().filter(is_said).collect()
}

/// Reads what stands over the borders of texts that an event of a stream says at once, as in a body.
pub(in crate::policy) fn read_event(
    sheet: &mut Sheet<'_, '_>,
    (text, document): (&[u8], &Document),
    strings: &[&JsonString],
) -> Result<(), Unreadable> {
    let dialect = sheet.inspector.dialect;
    let mut borders = Borders::of(dialect, text, document);
    for string in strings {
        let channel = dialect.channel(text, document, string);
        borders.take(sheet, (text, 0), (document, string, channel))?;
    }
    borders.read(sheet, (text, 0), document)
}

/// Tells whether a string is in a member that holds the text of a message.
fn is_text(text: &[u8], document: &Document, string: &JsonString) -> bool {
    let is_named = |node: NodeId| match document.step(text, node) {
        StepView::Key(name) => TEXT_NAMES.contains(&&*name),
        StepView::Root | StepView::Index(_) => false,
    };
    let is_inner = || matches!(document.step(text, string.node), StepView::Key(name) if &*name == INNER_NAME);
    is_named(string.node) || is_inner() && document.parent(string.node).is_some_and(is_named)
}

/// Reads the rows of a document, each as one text.
pub(super) fn read_rows(
    sheet: &mut Sheet<'_, '_>,
    (text, offset): (&[u8], usize),
    document: &Document,
) -> Result<(), Unreadable> {
    let dialect = sheet.inspector.dialect;
    for row in dialect.rows(text, document) {
        let Some(first) = row.first() else { continue };
        let channel = dialect.channel(text, document, first);
        read_joined(sheet, (text, offset), document, (&row, channel))?;
    }
    Ok(())
}

/// Reads what stands over the borders of texts. What was found without anything in the place of a border is not told
/// again of the same texts.
fn read_joined(
    sheet: &mut Sheet<'_, '_>,
    (text, offset): (&[u8], usize),
    document: &Document,
    (strings, channel): (&[&JsonString], Channel),
) -> Result<(), Unreadable> {
    // Most speakers say one text and then are silent.
    let [_, .., last] = strings else { return Ok(()) };
    let texts: Vec<Text<'_>> = strings.iter().map(|string| (*string, document.text(text, string))).collect();
    let mut told: Vec<Range<usize>> = Vec::new();
    for joint in JOINTS {
        if (sheet.inspector.expired)() {
            return Err(Unreadable::Late);
        }
        let before = sheet.gathered().len();
        let joined = Joined::of(&texts, joint);
        let mut findings = sheet.scan(&joined.bytes).map_err(Unreadable::from)?;
        let is_new =
            |found: &Range<usize>| !told.iter().any(|it| it.start < found.end && found.start < it.end);
        findings.retain(|finding| {
            let found = joined.texts(&finding.value);
            found.len() > 1 && is_new(&found)
        });
        if findings.is_empty() {
            continue;
        }
        told.extend(findings.iter().map(|finding| joined.texts(&finding.value)));
        sheet.found += findings.len();
        for masked in sheet.judge(&findings, channel, |range| joined.bytes.get(range)) {
            for (at, raw) in joined.raw(&masked.range, &texts, text).enumerate() {
                let mask = if at == 0 { masked.text.as_str() } else { "" };
                let edit = Edit { range: shifted(raw, offset), replacement: Written::Json.write(mask) };
                sheet.edits.push(edit);
            }
        }
        // What a text was masked for alone may overlap.
        sheet.edits.sort_by_key(|edit| edit.range.start);
        join_overlapping(&mut sheet.edits);
        let place = layer2::place(sheet.inspector.direction, channel, text, document, last);
        sheet.gathered().place(before, &place);
    }
    Ok(())
}

impl Joined {
    /// Joins the ends of texts; what lies far from a border is left out, with a break in its place.
    fn of(texts: &[Text<'_>], joint: &[u8]) -> Self {
        let mut joined = Self::default();
        for (at, (_, text)) in texts.iter().enumerate() {
            let head = side_bytes(text.iter());
            let tail = text.len().saturating_sub(side_bytes(text.iter().rev())).max(head);
            if at > 0 {
                joined.bytes.extend_from_slice(joint);
            }
            joined.add(at, 0, text.get(..head).unwrap_or_default());
            if tail > head {
                joined.bytes.push(0);
            }
            joined.add(at, tail, text.get(tail..).unwrap_or_default());
        }
        joined
    }

    fn add(&mut self, text: usize, from: usize, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.stretches.push(Stretch { place: start..self.bytes.len(), text, from });
    }

    /// Returns the stretches that a value lies in, each with its part of it.
    fn parts(&self, value: &Range<usize>) -> impl Iterator<Item = (&Stretch, Range<usize>)> {
        let (start, end) = (value.start, value.end);
        self.stretches.iter().filter_map(move |stretch| {
            let part = stretch.place.start.max(start)..stretch.place.end.min(end);
            (!part.is_empty()).then_some((stretch, part))
        })
    }

    /// Returns the numbers of the texts that a value lies in.
    fn texts(&self, value: &Range<usize>) -> Range<usize> {
        let first = self.parts(value).next().map_or(0, |(stretch, _)| stretch.text);
        let last = self.parts(value).last().map_or(first, |(stretch, _)| stretch.text + 1);
        first..last
    }

    /// Returns the bytes of the document that make up a value.
    fn raw<'t>(
        &'t self,
        value: &Range<usize>,
        texts: &'t [Text<'_>],
        document: &'t [u8],
    ) -> impl Iterator<Item = Range<usize>> + 't {
        let parts: Vec<(&Stretch, Range<usize>)> = self.parts(value).collect();
        parts.into_iter().filter_map(move |(stretch, part)| {
            let (string, _) = texts.get(stretch.text)?;
            let in_text = |at: usize| at - stretch.place.start + stretch.from;
            Some(RawCursor::new(document, string).raw_range(in_text(part.start)..in_text(part.end)))
        })
    }
}
