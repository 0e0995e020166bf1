//! How far a reader has seen the logs of all nodes: what it comes back with.
//!
//! Each node's entries have one order, their ids; between nodes there is none, for what one recorded may reach the
//! others after what another recorded later. So a place is told node by node: a reader that comes back, to whichever
//! node, is given what each of them has behind it, however their transactions lay to each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::id::Ulid;

use super::event::Entry;

/// The most nodes of a place that is read.
const NODES_MAX: usize = 256;
/// What stands between nodes, and between a node and its entry.
const BETWEEN: char = '~';
const BEHIND: char = '.';

/// The last entry that was seen of each node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    nodes: BTreeMap<Arc<str>, Ulid>,
    /// What was seen of all others: everything up to this id.
    others: Ulid,
}

impl Seen {
    /// Returns the place of who has seen everything up to an id, of whatever node.
    pub fn up_to(id: Ulid) -> Self {
        Self { nodes: BTreeMap::new(), others: id }
    }

    /// Returns the place that a text tells: [`Seen::behind`] wrote it, or it is the id of an entry alone.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(BETWEEN);
        let entry: Ulid = parts.next()?.parse().ok()?;
        let mut seen = Self::up_to(entry);
        let (mut is_alone, mut others) = (true, Ulid(0));
        for part in parts {
            is_alone = false;
            match part.split_once(BEHIND) {
                None if !part.is_empty() => drop(seen.nodes.insert(part.into(), entry)),
                Some(("", id)) => others = id.parse().ok()?,
                Some((node, id)) => drop(seen.nodes.insert(node.into(), id.parse().ok()?)),
                None => return None,
            }
            if seen.nodes.len() > NODES_MAX {
                return None;
            }
        }
        if !is_alone {
            seen.others = others;
        }
        Some(seen)
    }

    /// Returns the last entry that was seen of a node.
    pub(super) fn of(&self, node: &str) -> Ulid {
        self.nodes.get(node).copied().unwrap_or(self.others)
    }

    /// Returns the newest entry that was seen of any node.
    pub(super) fn newest(&self) -> Ulid {
        self.nodes.values().copied().fold(self.others, Ulid::max)
    }

    /// Takes note of what was seen of a node.
    pub(super) fn note(&mut self, node: &Arc<str>, id: Ulid) {
        self.nodes.insert(Arc::clone(node), id);
    }

    /// Returns the place behind an entry, which is the last one seen: the entry's id, then each node with the last one
    /// seen of it, but for the entry's own, and what was seen of all others where that is anything.
    pub(super) fn behind(&self, entry: &Entry) -> String {
        self.told_with(entry.id)
    }

    /// Returns the place as it is, with no entry that was the last one.
    pub(super) fn told(&self) -> String {
        self.told_with(self.newest())
    }

    fn told_with(&self, last: Ulid) -> String {
        let mut text = last.to_string();
        for (node, id) in &self.nodes {
            text.push(BETWEEN);
            text += node;
            if *id != last {
                text.push(BEHIND);
                text += &id.to_string();
            }
        }
        if self.others > Ulid(0) {
            text.push(BETWEEN);
            text.push(BEHIND);
            text += &self.others.to_string();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::govern::audit::chain::Hash;
    use crate::govern::audit::event::AuditEvent;

    fn entry(id: u128) -> Entry {
        let event = AuditEvent::default();
        Entry {
            node: None,
            id: Ulid(id),
            recorded_unix_ms: None,
            event,
            hash: Hash::default(),
            previous_hash: Hash::default(),
        }
    }

    #[test]
    fn a_place_is_written_and_read_alike() {
        let mut seen = Seen::up_to(Ulid(0));
        seen.note(&"one".into(), Ulid(5));
        seen.note(&"two".into(), Ulid(9));
        let text = seen.behind(&entry(9));
        let [five, nine] = [5, 9].map(|id| Ulid(id).to_string());
        assert_eq!(text, format!("{nine}~one.{five}~two"));
        assert_eq!(Seen::parse(&text), Some(seen.clone()));
        assert_eq!(["one", "two", "three"].map(|node| seen.of(node)), [5, 9, 0].map(Ulid));
        let later = Seen { others: Ulid(7), ..seen };
        assert_eq!(Seen::parse(&later.behind(&entry(9))), Some(later.clone()));
        assert_eq!(later.of("three"), Ulid(7));
        assert_eq!(Seen::parse(&later.told()), Some(later.clone()));
        assert_eq!(Seen::up_to(Ulid(9)).told(), format!("{nine}~.{nine}"));
        assert_eq!(Seen::parse(&Seen::up_to(Ulid(9)).told()), Some(Seen::up_to(Ulid(9))));
        // An entry's id alone: of whatever node.
        assert_eq!(Seen::parse(&nine), Some(Seen::up_to(Ulid(9))));
    }

    #[test]
    fn what_is_no_place_is_refused() {
        let id = Ulid(1).to_string();
        let many: String = (0..=NODES_MAX).map(|node| format!("~{node}")).collect();
        for text in [
            "",
            "x",
            "~",
            &format!("{id}~"),
            &format!("{id}~one.x"),
            &format!("{id}~."),
            &(id.clone() + &many),
        ] {
            assert_eq!(Seen::parse(text), None, "{text}");
        }
    }
}
