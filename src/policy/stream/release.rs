//! What leaves: events whose texts are all judged, with their masks put in, and the last one cut short.

use std::ops::Range;

use super::Flow;
use super::StreamInspector;
use super::held::Held;
use super::held::Segment;
use super::held::edit;
use super::stop::Found;
use super::stop::Stop;
use crate::llm::dialect::LaneKind;
use crate::llm::json::RawCursor;
use crate::policy::decision::Action;
use crate::policy::decision::Cleared;
use crate::policy::decision::FailMode;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::Unreadable;
use crate::policy::inspect::text::Written;
use crate::redact::splice::Edit;
use crate::redact::splice::join_overlapping;
use crate::redact::splice::override_with;
use crate::redact::splice::splice_piece;

impl StreamInspector {
    /// Releases every event at the front whose texts are all judged.
    pub(super) fn release(&mut self, out: &mut Vec<Cleared>) -> Flow {
        while let Some(front) = self.queue.front() {
            let judged = |segment: &Segment| segment.text.end <= self.lanes[segment.slot].judged_to;
            if !front.is_read || !front.segments.iter().all(judged) {
                break;
            }
            let Some(held) = self.queue.pop_front() else { break };
            self.held_bytes -= held.piece.held_bytes();
            if let Err(unreadable) = self.emit(held, out) {
                self.action = Action::Block;
                return Flow::Block(Some(unreadable));
            }
        }
        Flow::Continue
    }

    /// Releases one event with its masks put in.
    fn emit(&mut self, held: Held, out: &mut Vec<Cleared>) -> Result<(), Unreadable> {
        let Held { piece, payload, document, written, segments, mut edits, copies, .. } = held;
        self.track.sent(&piece, document.as_ref().map(|document| (&payload[..], document)));
        for segment in &segments {
            let slot = &mut self.lanes[segment.slot];
            let mut cursor = (written == Written::Json).then(|| RawCursor::new(&payload, &segment.string));
            let raw = || payload.get(segment.string.raw.clone()).unwrap_or_default().into();
            let text = document.as_ref().map_or_else(raw, |it| it.text(&payload, &segment.string));
            edits.extend(slot.edits(&segment.text, &text).into_iter().map(|(range, text)| {
                let range = cursor.as_mut().map_or(range.clone(), |cursor| cursor.raw_range(range));
                edit(&piece, written, range, &text)
            }));
            // What is said whole again is masked again.
            while !slot.is_whole
                && slot.masks.front().is_some_and(|masked| masked.range.end <= segment.text.end)
            {
                slot.masks.pop_front();
            }
        }
        if let Some(document) = &document {
            let is_piece = |segment: &&Segment| self.lanes[segment.slot].kind != LaneKind::Stray;
            let pieces = segments.iter().filter(is_piece).map(|segment| &segment.string.raw);
            let is_free = |raw: &Range<usize>| pieces.clone().all(|piece| piece != raw);
            edits.extend(self.parts.edits(&piece, (&payload, document), is_free));
        }
        edits.sort_by_key(|edit| edit.range.start);
        // A value may be found in a message alone, and as a part of another in all of them.
        join_overlapping(&mut edits);
        if !edits.is_empty() {
            copies.into_iter().for_each(|copy| override_with(&mut edits, copy));
        }
        let bytes = splice_piece(&piece, &edits).map_err(|_| Unreadable::Splice)?;
        self.track.left(&bytes);
        out.extend(Cleared::release(Action::Redact, bytes));
        Ok(())
    }

    /// Ends the stream: releases what was judged before the stop, up to the byte, and nothing after.
    pub(super) fn stop(&mut self, stop: Stop, inspector: &Inspector<'_>, out: &mut Vec<Cleared>) -> Flow {
        if let Stop::Unreadable(unreadable) = stop {
            self.action = self.action.max(inspector.policy.fail_mode.action());
            inspector.shadow().inspect(|shadow| self.shadow.act(shadow.fail_mode.action()));
            self.release(out);
            if inspector.policy.fail_mode == FailMode::Closed {
                return Flow::Block(Some(unreadable));
            }
            self.pass_on(out);
            return Flow::Open(unreadable);
        }
        self.action = Action::Block;
        self.release(out);
        if let Stop::Finding(found) = stop {
            self.release_up_to(inspector, found, out);
        }
        Flow::Block(None)
    }

    /// Lets everything that waits go as it came, masks aside, because the policy fails open.
    fn pass_on(&mut self, out: &mut Vec<Cleared>) {
        self.passes = true;
        for held in std::mem::take(&mut self.queue) {
            // What cannot be masked is the one thing that stays behind.
            let _ = self.emit(held, out);
        }
        self.held_bytes = 0;
        out.extend(Cleared::release(Action::Monitor, self.parser.take_rest()));
    }

    /// Releases the event in which a blocking match begins, without the match and what follows it.
    fn release_up_to(&mut self, inspector: &Inspector<'_>, found: Found, out: &mut Vec<Cleared>) {
        let Found { slot, from } = found;
        let Some(mut held) = self.queue.pop_front() else { return };
        let cut = |segment: &Segment| from.min(segment.text.end).saturating_sub(segment.text.start);
        let before = |segment: &Segment| {
            if segment.slot == slot {
                return segment.text.start < from;
            }
            // Of a string that is cut, what is left has to be judged in the other lanes that have it.
            let is_cut = |it: &&Segment| it.slot == slot && it.string.raw == segment.string.raw;
            let left = held.segments.iter().find(is_cut).map_or(segment.text.len(), cut);
            segment.text.start + left <= self.lanes[segment.slot].judged_to
        };
        if !held.is_read || held.segments.is_empty() || !held.segments.iter().all(before) {
            return;
        }
        for segment in held.segments.iter().filter(|segment| segment.slot == slot) {
            let text = from.min(segment.text.end) - segment.text.start..segment.text.len();
            let raw = match held.written {
                Written::Json => RawCursor::new(&held.payload, &segment.string).raw_range(text),
                Written::Plain | Written::Number | Written::Lines => text,
            };
            held.edits.push(Edit { range: held.piece.raw_range(raw), replacement: Vec::new() });
        }
        self.lanes[slot].masks.retain(|masked| masked.range.end <= from);
        let (payload, document) = (held.payload.clone(), held.document.clone());
        let marks = document.as_ref().map(|document| inspector.dialect.over_marks(&payload, document));
        held.edits.extend(marks.into_iter().flatten().map(|(range, with)| {
            let replacement = with.as_bytes().to_vec();
            Edit { range: held.piece.raw_range(range), replacement }
        }));
        // A piece that cannot be cut stays behind: less leaves, never more.
        let _ = self.emit(held, out);
        document.inspect(|document| self.track.cut(&payload, document));
    }
}
