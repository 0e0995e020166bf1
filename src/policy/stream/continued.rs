//! Which text a string of an event continues, and what of it is new.
//!
//! Most texts come in pieces. Some are said whole each time, as far as they are known: only what is new of these is
//! fed, and all of the string waits for it.

use std::hash::BuildHasher;

use super::StreamInspector;
use super::held::Held;
use super::held::Segment;
use super::model;
use super::read::lone;
use super::slot::Slot;
use super::stop::Stop;
use crate::llm::dialect::LaneKey;
use crate::llm::dialect::LaneKind;
use crate::llm::json::HALF_BYTES;
use crate::llm::json::Halves;
use crate::llm::json::JsonString;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::Unreadable;
use crate::redact::token::Vault;
use crate::scan::lane::Lane;

/// From how many bytes on a piece that the next one begins with is taken for the whole text so far.
const WHOLE_BYTES_MIN: usize = 16;
/// How often in a row shorter ones have to be begun with for the same.
const WHOLE_TIMES_MIN: u8 = 2;
/// How many texts that are over are remembered when others need their places.
pub(super) const OVER_MAX: usize = 1 << 16;

/// Where a string of an event lies in its lane.
pub(super) struct Place {
    pub(super) slot: usize,
    /// Where it begins there.
    pub(super) start: usize,
    /// How many of its bytes are known already.
    pub(super) known: usize,
}

impl StreamInspector {
    /// Feeds what is new of a text to its lane, and notes where the event has it. What was found in the text alone are the
    /// observations from `told` on.
    pub(super) fn continued(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
        (key, string): (LaneKey, &JsonString),
        (text, told): (&[u8], usize),
    ) -> Result<(), Stop> {
        if !self.over.is_empty() && self.over.contains(&self.hasher.hash_one(&key)) {
            return if text.is_empty() { Ok(()) } else { Err(Unreadable::Resumed.into()) };
        }
        self.note_answer(&key);
        // A value that is one by itself is not likely to be a piece.
        let is_value = self.observations.len() > told;
        let Place { slot, start, known } = self.place(inspector, vault, key, (text, is_value))?;
        let hash = self.hasher.hash_one(text);
        let entry = &mut self.lanes[slot];
        let start = start + entry.half.map_or(0, |_| HALF_BYTES);
        let new = text.get(known..).unwrap_or_default();
        let new = entry.completed(new, Halves::of(&held.payload, string)).ok_or_else(|| lone(string))?;
        if !new.is_empty() {
            entry.resume()?;
        }
        if (entry.is_whole || entry.kind == LaneKind::Either) && !text.is_empty() {
            entry.said = Some((text.len(), hash));
        }
        // What is said whole was begun in events that wait: there the rest of it is not found alone.
        if !entry.is_whole {
            entry.note_alone(start, self.observations.get(told..).unwrap_or_default());
        }
        held.segments.push(Segment { slot, text: start..start + text.len(), string: string.clone() });
        self.feed(inspector, vault, slot, &new)
    }

    /// Tells whether a text can only be the next piece of a lane.
    pub(super) fn takes_piece(&self, slot: usize, text: &[u8]) -> bool {
        self.lanes.get(slot).is_some_and(|entry| {
            let is_open = !entry.ended && !entry.is_whole && entry.half.is_none();
            let may_be_whole = || text.len() >= WHOLE_BYTES_MIN || self.said_before(entry, text).is_some();
            is_open && (entry.kind != LaneKind::Either || !may_be_whole())
        })
    }

    /// Returns how much of a text was said last in its lane, where that is what it begins with.
    fn said_before(&self, entry: &Slot, text: &[u8]) -> Option<usize> {
        let (length, hash) = entry.said?;
        (self.hasher.hash_one(text.get(..length)?) == hash).then_some(length)
    }

    /// Returns where a text lies, of which is told whether it holds a value by itself.
    pub(super) fn place(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        key: LaneKey,
        (text, is_value): (&[u8], bool),
    ) -> Result<Place, Stop> {
        let Some(slot) = self.by_key.get(&key).copied() else {
            return self.begin_text(inspector, key);
        };
        let entry = &self.lanes[slot];
        if entry.is_over && !text.is_empty() {
            return Err(Unreadable::Resumed.into());
        }
        let said = self.said_before(entry, text);
        let grown = said.filter(|known| *known < text.len()).map_or(0, |_| entry.grown.saturating_add(1));
        let is_grown = grown >= WHOLE_TIMES_MIN || is_value;
        let is_pieces = Place { slot, start: entry.fed, known: 0 };
        let place = match said {
            Some(known) if entry.is_whole => Place { slot, start: 0, known },
            None if entry.is_whole && entry.fed > 0 && !text.is_empty() => {
                self.end_lane(inspector, vault, slot)?;
                Place { slot: self.open(inspector, key)?, start: 0, known: 0 }
            }
            Some(known) if (known >= WHOLE_BYTES_MIN || is_grown) && known < text.len() && !entry.ended => {
                let new = self.open(inspector, key)?;
                self.lanes[new].is_whole = true;
                self.move_held(inspector, vault, (slot, new), text)?;
                Place { slot: new, start: 0, known: 0 }
            }
            Some(_) | None => is_pieces,
        };
        self.lanes[place.slot].grown = grown;
        Ok(place)
    }

    /// Lets the strings that wait belong to the lane in which they are said whole.
    fn move_held(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        (old, new): (usize, usize),
        text: &[u8],
    ) -> Result<(), Stop> {
        let mut is_left = false;
        for held in &mut self.queue {
            let (payload, document) = (&held.payload, &held.document);
            for segment in held.segments.iter_mut().filter(|segment| segment.slot == old) {
                let raw = || payload.get(segment.string.raw.clone()).unwrap_or_default().into();
                let said = document.as_ref().map_or_else(raw, |it| it.text(payload, &segment.string));
                match text.starts_with(&said) {
                    true => (segment.slot, segment.text) = (new, 0..said.len()),
                    false => is_left = true,
                }
            }
        }
        if is_left {
            return self.end_lane(inspector, vault, old);
        }
        // Pieces that are none make no text: what they seemed to say is not judged.
        let entry = &mut self.lanes[old];
        (entry.ended, entry.lane, entry.names) = (true, Lane::new(), None);
        Ok(())
    }

    /// Begins a text, in the place of one that is over where there is no other.
    pub(super) fn open(&mut self, inspector: &Inspector<'_>, key: LaneKey) -> Result<usize, Stop> {
        let limit = inspector.ruleset.limits.stream_lanes_max;
        let slot = match self.lanes.len() < limit {
            true => self.lanes.len(),
            false => self.free_slot().ok_or(Unreadable::TooManyLanes(limit))?,
        };
        let entry = Slot::new(&key, model::begin(inspector, &key));
        match self.lanes.get_mut(slot) {
            Some(place) => *place = entry,
            None => self.lanes.push(entry),
        }
        self.by_key.insert(key, slot);
        Ok(slot)
    }

    /// Returns the place of a text that is over and has nothing in an event that waits.
    fn free_slot(&mut self) -> Option<usize> {
        let waits = |slot: usize| {
            self.queue.iter().any(|held| held.segments.iter().any(|segment| segment.slot == slot))
        };
        let is_over = |slot: usize| self.lanes[slot].ended && self.lanes[slot].resumable.is_none();
        let free = (0..self.lanes.len()).find(|slot| is_over(*slot) && !waits(*slot))?;
        let hasher = &self.hasher;
        let over = &mut self.over;
        self.by_key.retain(|key, slot| {
            let is_other = *slot != free;
            if !is_other {
                over.insert(hasher.hash_one(key));
            }
            is_other
        });
        (self.over.len() <= OVER_MAX).then_some(free)
    }
}
