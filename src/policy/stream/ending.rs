//! Which texts an event ends.

use smallvec::SmallVec;

use super::StreamInspector;
use super::held::Held;
use crate::llm::dialect::LaneEnd;
use crate::llm::dialect::LaneKey;
use crate::llm::dialect::LaneKind;

/// The texts of one event that says anything, by their lanes.
type Said<'a> = SmallVec<[(&'a LaneKey, usize); 4]>;

impl StreamInspector {
    /// Returns the lanes that an event ends; its own texts were fed.
    ///
    /// An event of its own is the end of a text. A member that tells an end is not believed beside a text that it would
    /// end: some providers write it into each event. It, and that a brief text is not gone on with, ends a text that
    /// may be resumed: then it is judged together with what comes, and a value that had begun to leave ends the stream.
    pub(super) fn ended_by(&mut self, held: &Held, ends: &[LaneEnd]) -> SmallVec<[usize; 2]> {
        let has_text = |slot: usize| {
            held.segments.iter().any(|segment| segment.slot == slot && !segment.text.is_empty())
        };
        let said: Said<'_> =
            self.by_key.iter().filter(|(_, slot)| has_text(**slot)).map(|(key, slot)| (key, *slot)).collect();
        let (mut ended, mut seemingly) = (SmallVec::new(), SmallVec::<[usize; 2]>::new());
        for (key, slot) in self.by_key.iter().map(|(key, slot)| (key, *slot)) {
            let covers = |end: &&LaneEnd| end.covers(key);
            let believed =
                |end: &LaneEnd| !end.is_by_member || !said.iter().any(|(other, _)| end.covers(other));
            if ends.iter().filter(covers).any(|end| !end.is_by_member) {
                ended.push(slot);
            } else if ends.iter().filter(covers).any(believed) || is_passed_by(key, slot, &said) {
                seemingly.push(slot);
            }
        }
        for slot in seemingly {
            let Some(entry) = self.lanes.get_mut(slot).filter(|entry| !entry.ended && entry.fed > 0) else {
                continue;
            };
            entry.resumable = Some(Box::new((entry.lane.clone(), entry.model.clone(), entry.trace.clone())));
            ended.push(slot);
        }
        ended
    }
}

/// Tells whether a brief text is over: the same choice goes on with others.
fn is_passed_by(key: &LaneKey, slot: usize, said: &Said<'_>) -> bool {
    let of_choice = |other: &LaneKey| other.parts.first() == key.parts.first();
    matches!(key.kind, LaneKind::Brief | LaneKind::Whole)
        && said.iter().any(|(other, _)| of_choice(other))
        && said.iter().all(|(_, other)| *other != slot)
}
