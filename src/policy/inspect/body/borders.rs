//! What stands over the border of two texts that a model reads as one: parts of a message, or messages of one speaker in
//! a row.
//!
//! In: the texts of a document. Out: findings whose value begins in one text and ends in another, which no text holds
//! alone. Only what is near a border is read, with nothing in its place and with a space: who parts a value does not
//! say which. Of a request that is what is said to a model, of an answer what it says, or a tool or another agent.

use std::borrow::Cow;
use std::ops::Range;

use super::shifted;
use crate::llm::dialect::Channel;
use crate::llm::json::Document;
use crate::llm::json::JsonString;
use crate::llm::json::RawCursor;
use crate::llm::json::StepView;
use crate::policy::decision::Direction;
use crate::policy::inspect::Unreadable;
use crate::policy::inspect::layer2;
use crate::policy::inspect::text::Sheet;
use crate::policy::inspect::text::Written;
use crate::redact::splice::Edit;
use crate::redact::splice::join_overlapping;

/// How much of a text is read at each of its ends, in bytes: what is parted is found within twice as much.
const SIDE_BYTES: usize = 256;
/// The names of members that hold the texts of messages.
const TEXT_NAMES: [&[u8]; 2] = [b"text", b"content"];
/// What a model may read in the place of a border.
const JOINTS: [&[u8]; 2] = [b"", b" "];

/// Texts of one speaker, one behind another.
#[derive(Default)]
pub(super) struct Borders<'d> {
    channel: Option<Channel>,
    texts: Vec<(&'d JsonString, Cow<'d, [u8]>)>,
}

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
    /// Takes the next text of a document that is no name of a member, and reads what stands over the borders before it
    /// if somebody else speaks now.
    pub(super) fn take(
        &mut self,
        sheet: &mut Sheet<'_, '_>,
        (text, offset): (&'d [u8], usize),
        (document, string, channel): (&'d Document, &'d JsonString, Channel),
    ) -> Result<(), Unreadable> {
        if channel == Channel::Metadata {
            return Ok(());
        }
        if self.channel != Some(channel) {
            self.read(sheet, (text, offset), document)?;
            self.channel = Some(channel);
        }
        let is_spoken = match (sheet.inspector.judged(), channel) {
            (_, Channel::ToolResult) => true,
            (Direction::Request, channel) => matches!(channel, Channel::System | Channel::User),
            (Direction::Response, channel) => channel == Channel::Assistant,
        };
        let is_text = || match document.step(text, string.node) {
            StepView::Key(name) => TEXT_NAMES.contains(&&*name),
            StepView::Root | StepView::Index(_) => false,
        };
        if is_spoken && is_text() {
            self.texts.push((string, document.text(text, string)));
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
        let texts = std::mem::take(&mut self.texts);
        let (Some(channel), [_, .., (last, _)]) = (self.channel, texts.as_slice()) else { return Ok(()) };
        let before = sheet.gathered().len();
        for joint in JOINTS {
            if (sheet.inspector.expired)() {
                return Err(Unreadable::Late);
            }
            let joined = Joined::of(&texts, joint);
            let mut findings = sheet.scan(&joined.bytes).map_err(Unreadable::from)?;
            findings.retain(|finding| joined.texts(&finding.value) > 1);
            if findings.is_empty() {
                continue;
            }
            sheet.found += findings.len();
            for masked in sheet.judge(&findings, channel, |range| joined.bytes.get(range)) {
                for (at, raw) in joined.raw(&masked.range, &texts, text).enumerate() {
                    let mask = if at == 0 { masked.text.as_str() } else { "" };
                    sheet
                        .edits
                        .push(Edit { range: shifted(raw, offset), replacement: Written::Json.write(mask) });
                }
            }
            // What a text was masked for alone may overlap.
            sheet.edits.sort_by_key(|edit| edit.range.start);
            join_overlapping(&mut sheet.edits);
            if sheet.gathered().len() > before {
                let place = layer2::place(sheet.inspector.direction, channel, text, document, last);
                sheet.gathered().place(before, &place);
                break;
            }
        }
        Ok(())
    }
}

impl Joined {
    /// Joins the ends of texts; what lies far from a border is left out, with a break in its place.
    fn of(texts: &[(&JsonString, Cow<'_, [u8]>)], joint: &[u8]) -> Self {
        let mut joined = Self::default();
        for (at, (_, text)) in texts.iter().enumerate() {
            let head = text.len().min(SIDE_BYTES);
            let tail = text.len().saturating_sub(SIDE_BYTES).max(head);
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

    /// Returns in how many texts a value lies.
    fn texts(&self, value: &Range<usize>) -> usize {
        let mut texts: Vec<usize> = self.parts(value).map(|(stretch, _)| stretch.text).collect();
        texts.dedup();
        texts.len()
    }

    /// Returns the bytes of the document that make up a value.
    fn raw<'t>(
        &'t self,
        value: &Range<usize>,
        texts: &'t [(&JsonString, Cow<'_, [u8]>)],
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
