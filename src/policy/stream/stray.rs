//! Members of events that no rule names: each is read alone, and those that may be pieces of one text are put together.
//!
//! Most of them are states, names and counters. These are no text, and hold nothing back; what comes again as it was is
//! none either. What holds a value cut in two is running text, or ends in what is no word, or in pieces that were not said
//! before and make none together: that waits for what comes next in the same place, until another event goes on without
//! it. Where the begin of a value has left, its rest is taken out:
//! so it always is where the other end may wait for an answer to what would wait, on a socket or in a call of MCP.

use std::hash::BuildHasher;

use super::StreamInspector;
use super::continued::Place;
use super::held::Held;
use super::held::Segment;
use super::model;
use super::slot::Slot;
use super::stop::Stop;
use crate::llm::dialect::LaneKey;
use crate::llm::dialect::LaneKind;
use crate::llm::json::JsonString;
use crate::policy::inspect::Inspector;
use crate::redact::token::Vault;

/// How many members are followed at once; half of all lanes at most.
const STRAYS_MAX: usize = 32;

impl StreamInspector {
    /// Feeds a string to the text that its member says over events, if it may be a piece of one. What was found in it alone
    /// are the observations from `told` on.
    pub(super) fn stray(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
        (key, string): (LaneKey, &JsonString),
        (text, told): (&[u8], usize),
    ) -> Result<(), Stop> {
        if text.is_empty() {
            return Ok(());
        }
        let Some(slot) = self.stray_slot(inspector, vault, held, &key)? else { return Ok(()) };
        let hash = self.hasher.hash_one(text);
        let said = (text.len(), hash);
        let entry = &mut self.lanes[slot];
        let is_same = entry.repeats(said);
        if entry.is_label(text, is_same) {
            entry.said = Some(said);
            return Ok(());
        }
        let is_running = entry.is_running || goes_on(text, entry.fed);
        let Place { slot, start, known } = self.place(inspector, vault, key, (text, false))?;
        let new = text.get(known..).unwrap_or_default();
        let entry = &mut self.lanes[slot];
        (entry.said, entry.is_running) = (Some(said), is_running);
        entry.note_piece(text, hash);
        if !new.is_empty() {
            entry.resume()?;
        }
        // What is said whole was begun in events that wait: there the rest of it is not found alone.
        if !entry.is_whole {
            entry.note_alone(start, self.observations.get(told..).unwrap_or_default());
        }
        held.segments.push(Segment { slot, text: start..start + text.len(), string: string.clone() });
        self.feed(inspector, vault, slot, new)
    }

    /// Tells whether the other end may wait for an answer to the very message that would wait.
    pub(super) fn is_awaited(&self, inspector: &Inspector<'_>) -> bool {
        self.is_conversation || inspector.dialect.asks_back()
    }

    /// Returns where a member's text is followed, in the place of another that nothing waits for where there is no more
    /// room; none, where all of them wait.
    fn stray_slot(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &Held,
        key: &LaneKey,
    ) -> Result<Option<usize>, Stop> {
        let goes_on = |slot: &usize| !self.lanes[*slot].ended || self.lanes[*slot].resumable.is_some();
        if let Some(slot) = self.by_key.get(key).copied().filter(goes_on) {
            return Ok(Some(slot));
        }
        let limit = inspector.ruleset.limits.stream_lanes_max;
        let is_stray = |lane: &&Slot| lane.kind == LaneKind::Stray;
        let strays = self.lanes.iter().filter(is_stray).count();
        if strays < STRAYS_MAX.min(limit / 2) && self.lanes.len() < limit {
            return self.open(inspector, key.clone()).map(Some);
        }
        let Some(slot) = (0..self.lanes.len()).find(|slot| self.is_idle_stray(*slot, held)) else {
            return Ok(None);
        };
        self.end_lane(inspector, vault, slot)?;
        self.by_key.retain(|_, other| *other != slot);
        self.lanes[slot] = Slot::new(key, model::begin(inspector, key));
        self.by_key.insert(key.clone(), slot);
        Ok(Some(slot))
    }

    fn is_idle_stray(&self, slot: usize, held: &Held) -> bool {
        let entry = &self.lanes[slot];
        let has = |held: &Held| held.segments.iter().any(|segment| segment.slot == slot);
        let is_settled = entry.judged_to == entry.fed || entry.ended && entry.resumable.is_none();
        entry.kind == LaneKind::Stray && is_settled && !has(held) && !self.queue.iter().any(has)
    }
}

/// Tells whether a piece, behind so many bytes of its text, shows that this is of several words.
fn goes_on(piece: &[u8], before: usize) -> bool {
    let has_word = before > 0 || piece.iter().any(u8::is_ascii_alphabetic);
    has_word && piece.iter().any(u8::is_ascii_whitespace)
}
