//! What comments of a stream say, and fields that no client knows: each is read alone, and with those before it.
//!
//! They are no text, and hold nothing back: a provider sends them so that nobody takes it for dead. Of a value that is parted
//! over several the begin may leave; its rest is masked. What comes again as it was, and what counts, is never a part of one.

use std::ops::Range;

use super::Held;
use super::Stop;
use super::StreamInspector;
use crate::llm::dialect::Channel;
use crate::llm::sse;
use crate::llm::stream::StreamFormat;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::Unreadable;
use crate::policy::inspect::border::side_bytes;
use crate::policy::inspect::text::Written;
use crate::redact::splice::Edit;
use crate::redact::token::Vault;

/// A shorter number is taken for one that counts, in bytes.
const NUMBER_BYTES_MIN: usize = 8;

/// What the remarks of a stream said that have left.
#[derive(Default)]
pub(super) struct Remarks {
    /// How they end.
    tail: Vec<u8>,
    last: Vec<u8>,
}

/// Remarks that are read as one.
#[derive(Default)]
struct Joined {
    text: Vec<u8>,
    /// Where each begins there, and where it stands in its event; the first one is what has left.
    parts: Vec<(usize, Range<usize>)>,
}

impl Remarks {
    /// Returns the remarks at places of an event behind those before them, and remembers how they end; none, if they only
    /// say what was said. What has a value by itself, as `is_told` says of its place, is no part of another.
    fn join(
        &mut self,
        raw: &[u8],
        places: impl Iterator<Item = Range<usize>>,
        is_told: impl Fn(&Range<usize>) -> bool,
    ) -> Option<Joined> {
        let mut joined = Joined { text: std::mem::take(&mut self.tail), parts: vec![(0, 0..0)] };
        for place in places {
            let said = raw.get(place.clone()).unwrap_or_default();
            if is_told(&place) {
                joined.text.push(0);
            } else if self.last != said && !counts(said) {
                self.last = said.to_vec();
                joined.parts.push((joined.text.len(), place));
                joined.text.extend_from_slice(said);
            }
        }
        let kept = side_bytes(joined.text.iter().rev());
        self.tail = joined.text.get(joined.text.len() - kept..).unwrap_or_default().to_vec();
        (joined.parts.len() > 1).then_some(joined)
    }
}

impl Joined {
    /// Returns the parts of the text that a range of it lies in: which, and where.
    fn within(&self, range: &Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
        let ends = self.parts.iter().skip(1).map(|(start, _)| *start).chain([self.text.len()]);
        let parts = self.parts.iter().map(|(start, _)| *start).zip(ends).enumerate();
        let range = range.clone();
        parts.filter_map(move |(at, (start, end))| {
            let part = start.max(range.start)..end.min(range.end);
            (!part.is_empty()).then_some((at, part))
        })
    }

    /// Returns where in the event a range of the text stands, in each part that has not left.
    fn raw(&self, range: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
        self.within(range).filter(|(at, _)| *at > 0).filter_map(|(at, part)| {
            let (start, place) = self.parts.get(at)?;
            Some(part.start - start + place.start..part.end - start + place.start)
        })
    }
}

impl StreamInspector {
    /// Scans the remarks of an event for what is parted over several of them, or over them and those before.
    pub(super) fn scan_remarks(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
    ) -> Result<(), Stop> {
        let piece = &held.piece;
        let is_read = match self.track.format() {
            StreamFormat::Sse => true,
            StreamFormat::TypedLines => piece.data.is_empty(),
            StreamFormat::Ndjson
            | StreamFormat::JsonArray
            | StreamFormat::AmazonEvents
            | StreamFormat::Text => false,
        };
        let from = [0].into_iter().chain(piece.data.iter().map(|data| data.end));
        let until = piece.data.iter().map(|data| data.start).chain([piece.raw.len()]);
        let outside = from.zip(until).filter(|_| is_read);
        let places = outside.flat_map(|(from, until)| {
            let text = piece.raw.get(from..until).unwrap_or_default();
            sse::remarks(text).map(move |place| place.start + from..place.end + from)
        });
        let mut places = places.peekable();
        if places.peek().is_none() {
            return Ok(());
        }
        let is_told = |place: &Range<usize>| {
            held.edits.iter().any(|edit| edit.range.start < place.end && place.start < edit.range.end)
        };
        let Some(joined) = self.remarks.join(&piece.raw, places, is_told) else { return Ok(()) };
        let wanted = inspector.policy.looked_for(inspector.judged());
        let mut findings = inspector.ruleset.scanner.scan(&joined.text, wanted).map_err(Unreadable::from)?;
        findings.retain(|found| joined.within(&found.value).count() > 1);
        let value = |range: Range<usize>| joined.text.get(range);
        let (masks, blocked) = self.judge(inspector, vault, &findings, (Channel::Metadata, None), value);
        for masked in masks {
            held.edits.extend(joined.raw(&masked.range).enumerate().map(|(at, range)| {
                let mask = if at == 0 { masked.text.as_str() } else { "" };
                Edit { range, replacement: Written::Plain.write(mask) }
            }));
        }
        if blocked.is_some() { Err(Stop::Alone) } else { Ok(()) }
    }
}

/// Tells whether a remark is a short number.
fn counts(said: &[u8]) -> bool {
    let is_of_number = |byte: &u8| byte.is_ascii_digit() || b".:+-/ ".contains(byte);
    said.len() < NUMBER_BYTES_MIN && said.iter().all(is_of_number)
}
