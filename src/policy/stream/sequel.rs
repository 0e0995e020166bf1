//! Texts that follow one another, as blocks of one answer do: a value may begin in one and end in the next.
//!
//! They are one text of one lane. The end of one of them is the end of none where it ends in what is likely to be the
//! begin of a value: that waits for the next. Events that repeat such a text whole have a part of the value alone, which
//! nothing would tell there: it is remembered, and taken out of them when they leave.

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::ops::Range;

use super::StreamInspector;
use super::continued::OVER_MAX;
use super::continued::Place;
use super::stop::Stop;
use crate::llm::dialect::LaneKey;
use crate::llm::json::Document;
use crate::llm::json::raw_range;
use crate::llm::stream::StreamPiece;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::Unreadable;
use crate::policy::inspect::text::Masked;
use crate::policy::inspect::text::Written;
use crate::redact::splice::Edit;
use crate::scan::lane::STREAM_HOLD_BYTES_MAX;

/// The shortest part of a parted value that is looked for in events that repeat a text.
const PART_BYTES_MIN: usize = 4;
/// How many parts of parted values are remembered.
const PARTS_MAX: usize = 256;

/// Where the texts begin that go on with the first one of a lane.
#[derive(Debug, Default)]
pub(super) struct Borders(Vec<usize>);

/// What a parted value left in one of the texts.
struct Part {
    bytes: Vec<u8>,
    /// What stands in its place.
    mask: String,
    /// Whether the text begins, and ends, with it.
    at_begin: bool,
    at_end: bool,
}

/// What the values left that were found over the borders of texts.
#[derive(Default)]
pub(super) struct Parts(Vec<Part>);

impl Borders {
    fn add(&mut self, at: usize) {
        self.0.retain(|before| before + STREAM_HOLD_BYTES_MAX >= at);
        self.0.push(at);
    }

    /// Returns the parts of what is masked, where that stands over borders.
    fn parts<'t>(&self, masked: &Masked, value: impl Fn(Range<usize>) -> Option<&'t [u8]>) -> Vec<Part> {
        let Range { start, end } = masked.range;
        let within: Vec<usize> = self.0.iter().copied().filter(|at| start < *at && *at < end).collect();
        if within.is_empty() {
            return Vec::new();
        }
        let ends = within.iter().copied().chain([end]);
        let starts = [start].into_iter().chain(within.iter().copied());
        let part = |(from, to): (usize, usize)| {
            let bytes = value(from..to)?.to_vec();
            let mask = if from == start { masked.text.clone() } else { String::new() };
            (bytes.len() >= PART_BYTES_MIN).then_some(Part {
                bytes,
                mask,
                at_begin: from != start,
                at_end: to != end,
            })
        };
        starts.zip(ends).filter_map(part).collect()
    }
}

impl Part {
    /// Returns where a text has it.
    fn place(&self, text: &[u8]) -> Option<Range<usize>> {
        let is_whole = self.at_begin && self.at_end;
        match () {
            () if is_whole => (text == self.bytes).then_some(0..text.len()),
            () if self.at_end => {
                text.ends_with(&self.bytes).then(|| text.len() - self.bytes.len()..text.len())
            }
            () => text.starts_with(&self.bytes).then_some(0..self.bytes.len()),
        }
    }
}

impl Parts {
    /// Remembers what is masked over the borders of texts.
    ///
    /// # Errors
    /// Fails where there are more than are remembered: what repeats them could not be masked.
    pub(super) fn note<'t>(
        &mut self,
        borders: &Borders,
        masks: &[Masked],
        value: impl Fn(Range<usize>) -> Option<&'t [u8]>,
    ) -> Result<(), Unreadable> {
        if borders.0.is_empty() {
            return Ok(());
        }
        for masked in masks {
            self.0.extend(borders.parts(masked, &value));
        }
        if self.0.len() > PARTS_MAX { Err(Unreadable::TooManyLanes(PARTS_MAX)) } else { Ok(()) }
    }

    /// Tells whether one of the parts is in a text.
    pub(super) fn are_in<'t>(&self, text: impl FnOnce() -> Cow<'t, [u8]>) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let text = text();
        self.0.iter().any(|part| part.place(&text).is_some())
    }

    /// Returns what takes the parts out of the strings of an event that are pieces of no text, as `is_free` tells by their
    /// places.
    pub(super) fn edits(
        &self,
        piece: &StreamPiece,
        (payload, document): (&[u8], &Document),
        is_free: impl Fn(&Range<usize>) -> bool,
    ) -> Vec<Edit> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let strings = document.strings.iter().filter(|string| !string.key && is_free(&string.raw));
        let edits = strings.flat_map(|string| {
            let text = document.text(payload, string);
            let places = self.0.iter().filter_map(move |part| Some((part.place(&text)?, part)));
            places.map(|(place, part)| {
                let range = piece.raw_range(raw_range(payload, string, place));
                Edit { range, replacement: Written::Json.write(&part.mask) }
            })
        });
        edits.collect()
    }
}

impl StreamInspector {
    /// Begins a text: behind the one that it follows, where there is one, or as one of its own.
    pub(super) fn begin_text(&mut self, inspector: &Inspector<'_>, key: LaneKey) -> Result<Place, Stop> {
        let Some(sequel) = inspector.dialect.sequel(&key) else {
            return Ok(Place { slot: self.open(inspector, key)?, start: 0, known: 0 });
        };
        let before = self.sequels.get(&sequel).copied();
        let slot = match before.filter(|slot| self.lanes[*slot].may_be_followed(&sequel)) {
            Some(slot) => self.follow(slot, key)?,
            None => self.open(inspector, key)?,
        };
        self.lanes[slot].sequel = Some(sequel.clone());
        self.sequels.insert(sequel, slot);
        Ok(Place { slot, start: self.lanes[slot].fed, known: 0 })
    }

    /// Lets a text go on with the one of a lane, which is over.
    fn follow(&mut self, slot: usize, key: LaneKey) -> Result<usize, Unreadable> {
        let (hasher, over) = (&self.hasher, &mut self.over);
        self.by_key.retain(|key, other| {
            let is_other = *other != slot;
            if !is_other {
                over.insert(hasher.hash_one(key));
            }
            is_other
        });
        if self.over.len() > OVER_MAX {
            return Err(Unreadable::TooManyLanes(OVER_MAX));
        }
        self.by_key.insert(key, slot);
        let entry = &mut self.lanes[slot];
        entry.is_over = false;
        entry.borders.add(entry.fed);
        Ok(slot)
    }
}
