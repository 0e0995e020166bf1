//! Which texts an event ends, and what begins anew then.

use std::collections::HashSet;

use smallvec::SmallVec;

use super::StreamInspector;
use super::held::Held;
use crate::llm::dialect::Channel;
use crate::llm::dialect::LaneEnd;
use crate::llm::dialect::LaneKey;
use crate::llm::dialect::LaneKind;
use crate::llm::dialect::LanePart;
use crate::llm::usage::Usage;
use crate::policy::inspect::Inspector;

/// The most answers of a conversation that are told apart while they are under way.
const ANSWERS_MAX: usize = 64;

/// How much of a stream waits at most for a brief text or a message that ends in what is likely to be a value.
const BEGUN_HOLD_BYTES_MAX: usize = 64 << 10;

/// The texts of one event that says anything, by their lanes.
type Said<'a> = SmallVec<[(&'a LaneKey, usize); 4]>;

/// The answers of a conversation that said something, and whose end has not told what they used.
#[derive(Default)]
pub(super) struct Answering {
    /// What the keys of their texts begin with: the answer's id, where the provider tells it.
    ids: HashSet<LanePart>,
    /// Whether there was sound since an answer was counted: which one it belongs to is not told.
    sounds: bool,
}

impl StreamInspector {
    /// Returns the lanes that an event ends; its own texts were fed.
    ///
    /// An event of its own is the end of a text. A member that tells an end is not believed beside a text that it would
    /// end: some providers write it into each event. It, and that a brief text is not gone on with, ends a text that
    /// may be resumed: then it is judged together with what comes, and of a value that had begun to leave the rest is
    /// masked, or ends the stream where more has left than might be a word. So each event ends a member that no rule
    /// names where nothing may wait for what follows.
    pub(super) fn ended_by(
        &mut self,
        inspector: &Inspector<'_>,
        held: &Held,
        ends: &[LaneEnd],
    ) -> SmallVec<[usize; 2]> {
        let has_text = |slot: usize| {
            held.segments.iter().any(|segment| segment.slot == slot && !segment.text.is_empty())
        };
        let said: Said<'_> =
            self.by_key.iter().filter(|(_, slot)| has_text(**slot)).map(|(key, slot)| (key, *slot)).collect();
        let is_stray = |slot: usize| self.lanes[slot].kind == LaneKind::Stray;
        let is_awaited = self.is_awaited(inspector);
        let (strays, said): (Said<'_>, Said<'_>) = said.into_iter().partition(|(_, slot)| is_stray(*slot));
        let (mut ended, mut seemingly) = (SmallVec::new(), SmallVec::<[usize; 2]>::new());
        let mut over = SmallVec::<[usize; 2]>::new();
        for (key, slot) in self.by_key.iter().map(|(key, slot)| (key, *slot)) {
            let covers = |end: &&LaneEnd| end.covers(key);
            let is_beside =
                |end: &LaneEnd| end.is_by_member && said.iter().any(|(other, _)| end.covers(other));
            let believed = |end: &LaneEnd| !is_beside(end) && (!end.may_resume || self.may_pass(slot));
            let sequel = self.lanes[slot].sequel.as_ref();
            let outlasts = |end: &LaneEnd| sequel.is_some_and(|sequel| sequel.outlasts(end));
            if ends.iter().filter(covers).any(|end| !end.is_by_member && !outlasts(end)) {
                ended.push(slot);
            } else if ends.iter().filter(covers).any(|end| outlasts(end) && !is_beside(end)) {
                over.push(slot);
                if self.may_pass(slot) {
                    seemingly.push(slot);
                }
            } else if ends.iter().filter(covers).any(believed)
                || self.is_passed_by(key, slot, &said)
                || self.is_left_out(slot, &strays, &said)
                || is_awaited && strays.iter().any(|(_, stray)| *stray == slot)
            {
                seemingly.push(slot);
            }
        }
        over.into_iter().for_each(|slot| self.lanes[slot].is_over = true);
        for slot in seemingly {
            let Some(entry) = self.lanes.get_mut(slot).filter(|entry| !entry.ended && entry.fed > 0) else {
                continue;
            };
            let before = (entry.lane.clone(), entry.model.clone(), entry.names.clone(), entry.trace.clone());
            entry.resumable = Some(Box::new(before));
            ended.push(slot);
        }
        ended
    }

    /// Forgets which texts there were: in a conversation, and where events are bodies, what is said after the end of all of
    /// them is another's, even where it stands in the same place.
    pub(super) fn begin_anew(&mut self) {
        self.by_key.clear();
        self.sequels.clear();
        self.over.clear();
        self.lanes.iter_mut().for_each(|lane| lane.resumable = None);
    }

    /// Takes what an event tells of use; returns whether that is all that something used.
    pub(super) fn count(&mut self, told: Usage) -> bool {
        let is_whole = told.total().is_some();
        self.usage.merge(told);
        is_whole
    }

    /// Notes that an answer of a conversation is under way: a text of it, and no text of the caller's, goes on.
    pub(super) fn note_answer(&mut self, key: &LaneKey) {
        let is_of_answer = self.is_conversation && key.channel != Channel::User;
        let ids = &mut self.answering.ids;
        let id = key.parts.first().unwrap_or(&LanePart::None);
        if is_of_answer && ids.len() < ANSWERS_MAX && !ids.contains(id) {
            ids.insert(id.clone());
        }
    }

    /// Lets so many bytes of sound or of an image pass unread.
    pub(super) fn pass_sound(&mut self, bytes: usize) {
        self.opaque_bytes += bytes;
        self.answering.sounds = true;
    }

    /// Notes what an event of a conversation ends, if it tells all that this used. Other answers go on.
    pub(super) fn end_counted(&mut self, is_counted: bool, ends: &[LaneEnd]) {
        for end in ends.iter().filter(|_| is_counted && self.is_conversation) {
            self.is_counted = true;
            self.answering.sounds = false;
            match end.parts.first() {
                Some(id) => drop(self.answering.ids.remove(id)),
                None => self.answering.ids.clear(),
            }
        }
    }

    /// Tells whether a conversation's answer said something that is not counted yet.
    pub fn is_answering(&self) -> bool {
        self.answering.sounds || !self.answering.ids.is_empty()
    }

    /// Takes what the answers of a conversation used that ended and tell it, if any did since this was asked last.
    pub fn take_counted(&mut self) -> Option<Usage> {
        std::mem::take(&mut self.is_counted).then(|| std::mem::take(&mut self.usage))
    }

    /// Follows other guarded texts from here on: the first of several are those they were.
    pub fn guard_anew(&mut self, kept: usize) {
        self.gathered.note_taint(&self.leak);
        self.leak.forget_others(kept);
    }

    /// Tells whether a stray text that waits is over: an event goes on without it. It may leave some out while it ends in
    /// what is likely to be a value, but for those that say anything else.
    fn is_left_out(&self, slot: usize, strays: &Said<'_>, said: &Said<'_>) -> bool {
        let entry = &self.lanes[slot];
        let waits = entry.kind == LaneKind::Stray && entry.judged_to < entry.fed;
        let is_said = || strays.iter().any(|(_, other)| *other == slot);
        waits && !is_said() && (!said.is_empty() || !strays.is_empty() || !entry.is_begun())
    }

    /// Tells whether a brief text is over: the same choice goes on with others. Messages and joined texts are, where
    /// anything else goes on, and what stands as it is, where any other event comes. Those would wait for more of it; but they do wait, for so many bytes, where it ends in what
    /// is likely to be a value.
    fn is_passed_by(&self, key: &LaneKey, slot: usize, said: &Said<'_>) -> bool {
        let goes_on = |other: &LaneKey| match key.kind {
            LaneKind::Whole => choice(other) == choice(key),
            LaneKind::Brief => choice(other) == choice(key) && self.may_pass(slot),
            LaneKind::Messages | LaneKind::Joined => self.may_pass(slot),
            LaneKind::Pieces | LaneKind::Either | LaneKind::Stray | LaneKind::Plain => false,
        };
        let goes_on = || match key.kind {
            LaneKind::Plain => self.may_pass(slot),
            _ => said.iter().any(|(other, _)| goes_on(other)),
        };
        said.iter().all(|(_, other)| *other != slot) && goes_on()
    }

    /// Tells whether a text need not be waited for: it ends in no more than a word or a number, or too much waits for it.
    fn may_pass(&self, slot: usize) -> bool {
        self.held_bytes > BEGUN_HOLD_BYTES_MAX || !self.lanes[slot].is_begun()
    }
}

/// Returns which choice a text belongs to, where the provider tells it.
fn choice(key: &LaneKey) -> &LanePart {
    key.parts.first().unwrap_or(&LanePart::None)
}
