//! Which pieces of a stream continue which text, and where a text ends.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::Channel;
use super::pattern::Ancestry;
use super::pattern::PathPattern;
use super::pattern::Wanted;
use crate::llm::json::Document;
use crate::llm::json::NodeId;
use crate::llm::json::StepView;

/// Longer texts in a lane's key count up to here: an id never is.
const PART_BYTES_MAX: usize = 128;

/// What tells one text of a stream from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneKey {
    /// The kind of text: `content`, `arguments`, `thinking` …
    pub name: String,
    /// Whose words it is.
    pub channel: Channel,
    /// Its choice, its tool call, its block, in this order.
    pub parts: SmallVec<[LanePart; 3]>,
}

/// A position or an id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LanePart {
    /// A position.
    Number(u64),
    /// An id.
    Text(Box<str>),
    /// Not told.
    None,
}

/// Lanes that end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneEnd {
    /// The kinds of text that end; all when empty.
    pub names: Vec<String>,
    /// What the keys of those lanes begin with.
    pub parts: SmallVec<[LanePart; 3]>,
}

impl LaneEnd {
    /// Tells whether a lane is among those that end.
    pub fn covers(&self, lane: &LaneKey) -> bool {
        let named = self.names.is_empty() || self.names.contains(&lane.name);
        named && lane.parts.starts_with(&self.parts)
    }
}

/// Where deltas of one kind of text are.
#[derive(Debug)]
pub(super) struct LaneRule {
    pub(super) name: String,
    pub(super) channel: Channel,
    pub(super) event: Option<String>,
    pub(super) path: PathPattern,
    pub(super) keys: Vec<Vec<String>>,
}

/// What ends texts.
#[derive(Debug)]
pub(super) struct EndRule {
    pub(super) names: Vec<String>,
    pub(super) event: Option<String>,
    pub(super) path: PathPattern,
    pub(super) keys: Vec<Vec<String>>,
}

impl LaneRule {
    pub(super) fn key(
        &self,
        event: Option<&str>,
        kind: Option<&str>,
        body: &[u8],
        doc: &Document,
        way: &Ancestry,
    ) -> Option<LaneKey> {
        if !fits_event(self.event.as_deref(), event, kind) || !self.path.matches(body, doc, way) {
            return None;
        }
        let mut parts: SmallVec<[LanePart; 3]> = self.keys.iter().map(|path| part_at(body, doc, path)).collect();
        for (wanted, node) in self.path.steps.iter().zip(way.steps()) {
            if *wanted == Wanted::Each {
                parts.push(element(body, doc, *node));
            }
        }
        Some(LaneKey { name: self.name.clone(), channel: self.channel, parts })
    }
}

impl EndRule {
    pub(super) fn ends(&self, event: Option<&str>, kind: Option<&str>, body: &[u8], doc: &Document) -> Vec<LaneEnd> {
        if !fits_event(self.event.as_deref(), event, kind) {
            return Vec::new();
        }
        let keys: SmallVec<[LanePart; 3]> = self.keys.iter().map(|path| part_at(body, doc, path)).collect();
        let mut places = vec![(NodeId::ROOT, keys)];
        for wanted in &self.path.steps {
            places = places.into_iter().flat_map(|(node, parts)| step_into(wanted, body, doc, node, parts)).collect();
        }
        places.retain(|(node, _)| doc.is_set(*node) && doc.bool_of(*node) != Some(false));
        places.into_iter().map(|(_, parts)| LaneEnd { names: self.names.clone(), parts }).collect()
    }
}

type Place = (NodeId, SmallVec<[LanePart; 3]>);

fn step_into(wanted: &Wanted, body: &[u8], doc: &Document, node: NodeId, parts: SmallVec<[LanePart; 3]>) -> Vec<Place> {
    match wanted {
        Wanted::Key(key) => doc.child(body, node, key).map(|child| (child, parts)).into_iter().collect(),
        Wanted::Each => {
            let elements = doc.children(node).filter(|_| doc.is_array(node));
            elements.map(|child| (child, with(&parts, element(body, doc, child)))).collect()
        }
        Wanted::Run => doc.children(node).filter(|_| doc.is_array(node)).map(|child| (child, parts.clone())).collect(),
        Wanted::AnyKey => doc.children(node).filter(|_| doc.is_object(node)).map(|child| (child, parts.clone())).collect(),
        Wanted::Below => vec![(node, parts)],
    }
}

fn with(parts: &[LanePart], part: LanePart) -> SmallVec<[LanePart; 3]> {
    parts.iter().cloned().chain([part]).collect()
}

/// Returns the lane of a string whose innermost key is usual for text that comes in pieces.
pub(super) fn by_leaf(leaves: &[String], body: &[u8], doc: &Document, way: &Ancestry) -> Option<LaneKey> {
    let leaf = way.last_key(body, doc)?;
    leaves.iter().find(|known| known.as_bytes() == &*leaf)?;
    let mut name = String::new();
    let mut parts = SmallVec::new();
    for node in way.steps() {
        match doc.step(body, *node) {
            StepView::Key(key) => {
                let separator = if name.is_empty() { "" } else { "." };
                name.push_str(separator);
                name.push_str(clipped(&String::from_utf8_lossy(&key)));
            }
            StepView::Index(_) => parts.push(element(body, doc, *node)),
            StepView::Root => {}
        }
    }
    Some(LaneKey { name, channel: Channel::Assistant, parts })
}

/// Returns what an event says it is: its outermost `type`.
pub(super) fn event_kind<'a>(body: &'a [u8], doc: &Document) -> Option<Cow<'a, str>> {
    doc.str_at(body, &["type"])
}

fn fits_event(wanted: Option<&str>, event: Option<&str>, kind: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| event == Some(wanted) || kind == Some(wanted))
}

/// Returns an element's `index` where it has one, else its position.
fn element(body: &[u8], doc: &Document, node: NodeId) -> LanePart {
    let told = doc.child(body, node, "index").filter(|_| doc.is_object(node));
    match (told.map(|index| part(body, doc, index)), doc.step(body, node)) {
        (Some(told @ (LanePart::Number(_) | LanePart::Text(_))), _) => told,
        (_, StepView::Index(position)) => LanePart::Number(position as u64),
        (_, StepView::Key(_) | StepView::Root) => LanePart::None,
    }
}

fn part_at(body: &[u8], doc: &Document, path: &[String]) -> LanePart {
    let node = path.iter().try_fold(NodeId::ROOT, |node, key| doc.child(body, node, key));
    node.map_or(LanePart::None, |node| part(body, doc, node))
}

fn part(body: &[u8], doc: &Document, node: NodeId) -> LanePart {
    let number = || doc.number_text(body, node).map(|text| match text.parse() {
        Ok(number) => LanePart::Number(number),
        Err(_) => LanePart::Text(clipped(text).into()),
    });
    let text = || doc.str_of(body, node).map(|text| LanePart::Text(clipped(&text).into()));
    number().or_else(text).unwrap_or(LanePart::None)
}

fn clipped(text: &str) -> &str {
    let mut end = text.len().min(PART_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
