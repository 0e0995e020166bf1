//! A file that its caller brings part by part: each is judged for itself, and then beside the others.

use pingora::proxy::Session;

use super::Gateway;
use super::context::Exchange;
use super::context::Passage;
use super::request::aside;
use crate::llm::media::Media;
use crate::policy::decision::Direction;
use crate::policy::inspect::Inspection;
use crate::policy::inspect::border::Ends;

/// The part of a file that a request brings.
pub(super) struct Part {
    /// What the requests have in common that bring the file.
    file: String,
    /// How the texts in it begin and end: that of the part, and of what is told beside it.
    ends: Vec<Ends>,
}

impl Gateway {
    /// Returns the part of a file that a request brings, if its path takes parts and it holds text.
    pub(super) fn part_of_file(
        &self,
        session: &Session,
        exchange: &Exchange,
        passage: &Passage,
        (body, media): (&[u8], Option<&Media>),
    ) -> Option<Part> {
        let path = passage.route().forwarded(&exchange.path);
        let file = exchange.rules.dialects.parted_file(path, session.req_header().uri.query())?;
        let ends = Ends::of(body, media?, exchange.rules.limits.multipart_parts_max);
        (!ends.is_empty()).then_some(Part { file, ends })
    }

    /// Judges what a part makes beside the others of its file, and adds that to what was found in it alone. What does not
    /// leave is beside none.
    pub(super) fn judge_beside_others(
        &self,
        exchange: &mut Exchange,
        passage: &Passage,
        Part { file, ends }: Part,
        mut alone: Inspection,
    ) -> Inspection {
        if alone.cleared.is_none() {
            return alone;
        }
        let now = self.clock.monotonic();
        for own in &ends {
            let others = self.parted_files.add(&file, own.clone(), now);
            let bytes = others.iter().map(|other| other.bytes()).sum::<usize>() + others.len() * own.bytes();
            let is_known = others.iter().any(|other| **other == *own);
            let others = &others;
            let seen: Vec<Inspection> =
                self.by_rules(exchange, passage, Direction::Request, |inspector, vault| {
                    let orders = others.iter().flat_map(|other| [(&**other, own), (own, &**other)]);
                    let judged =
                        || orders.map(|(one, next)| inspector.over_border(one, next, vault)).collect();
                    aside(bytes, judged)
                });
            seen.into_iter().for_each(|seen| add(&mut alone, seen));
            if alone.cleared.is_none() && !is_known {
                self.parted_files.take_back(&file, own);
            }
        }
        alone
    }
}

/// Adds what was found over a border to what was found in a part alone.
fn add(alone: &mut Inspection, seen: Inspection) {
    if seen.cleared.is_none() {
        (alone.cleared, alone.unreadable) = (None, seen.unreadable);
    }
    alone.action = alone.action.max(seen.action);
    alone.observations.extend(seen.observations);
    alone.shadow.merge(seen.shadow);
}
