//! Which pieces of a stream continue which text, and where a text ends.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::Channel;
use super::Dialect;
use super::pattern::Ancestry;
use super::pattern::PathPattern;
use super::pattern::Wanted;
use super::pattern::glob;
use crate::llm::json::Document;
use crate::llm::json::JsonString;
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
    /// How it comes.
    pub kind: LaneKind,
    /// Whether the text is JSON itself.
    pub is_json: bool,
}

/// How a text comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneKind {
    /// In pieces that are put together.
    #[default]
    Pieces,
    /// In pieces, if in more than one, that follow one another: it is over when an event goes on without it.
    Brief,
    /// Whole, each time as far as it is known; over like the brief ones.
    Whole,
    /// In pieces or whole: its first pieces show which.
    Either,
    /// In messages, each of which may be a text of its own: read alone and put together; over like the brief ones, but
    /// by any other text.
    Messages,
    /// In members that no rule names: read alone, and put together where they may be pieces of one text.
    Stray,
    /// As it stands, in events or bodies that are no JSON; over when any other event comes.
    #[serde(skip)]
    Plain,
    /// Texts of other lanes, read once more as one, in the order in which they came; over like messages.
    #[serde(skip)]
    Joined,
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
    /// Whether only a member tells it: some providers write it into every event.
    pub is_by_member: bool,
    /// Whether they may go on all the same: what is likely to be the begin of a value is waited for.
    pub may_resume: bool,
}

impl LaneEnd {
    /// Tells whether a lane is among those that end.
    pub fn covers(&self, lane: &LaneKey) -> bool {
        let named = self.names.is_empty() || self.names.contains(&lane.name);
        named && lane.parts.starts_with(&self.parts)
    }

    /// Tells whether it ends every text; a member beside a text is not believed to.
    pub fn is_of_all(&self, is_beside: bool) -> bool {
        self.names.is_empty() && self.parts.is_empty() && !(self.is_by_member && is_beside)
    }
}

/// Where deltas of one kind of text are.
#[derive(Debug)]
pub(super) struct LaneRule {
    pub(super) name: String,
    pub(super) channel: Channel,
    pub(super) event: Option<String>,
    pub(super) kind: LaneKind,
    pub(super) is_json: bool,
    pub(super) path: PathPattern,
    pub(super) keys: Vec<Vec<String>>,
    /// Members beside the text; one that is true tells it from the others.
    pub(super) flags: Vec<String>,
}

/// Lanes whose texts are one text as well.
#[derive(Debug)]
pub(super) struct JoinedRule {
    pub(super) name: String,
    pub(super) lanes: Vec<String>,
}

/// Lanes of which one goes on where another is over.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SequelRule {
    lanes: Vec<String>,
    /// How many first members of their keys are the same.
    #[serde(default)]
    alike: usize,
}

/// What texts have in common that follow one another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sequel {
    name: String,
    channel: Channel,
    /// What their keys begin with.
    parts: SmallVec<[LanePart; 3]>,
}

impl Sequel {
    /// Tells whether an end is one of some of the texts alone.
    pub fn outlasts(&self, end: &LaneEnd) -> bool {
        end.parts.len() > self.parts.len()
    }
}

/// Where sound and images are.
#[derive(Debug)]
pub(super) struct SoundRule {
    pub(super) event: Option<String>,
    pub(super) path: PathPattern,
}

/// What ends texts.
#[derive(Debug)]
pub(super) struct EndRule {
    pub(super) names: Vec<String>,
    pub(super) event: Option<String>,
    pub(super) path: PathPattern,
    pub(super) keys: Vec<Vec<String>>,
    pub(super) may_resume: bool,
}

impl Dialect {
    /// Returns which text an event, or what came of a body, goes on with that is no JSON; none, where it always is.
    pub fn plain_lane(&self, event: Option<&str>) -> Option<LaneKey> {
        Some(LaneKey {
            name: event.unwrap_or_default().to_owned(),
            channel: self.plain_text?,
            parts: SmallVec::new(),
            kind: LaneKind::Plain,
            is_json: false,
        })
    }

    /// Returns the lane that a string of a stream's event continues; none when it stands on its own.
    ///
    /// Works on whole bodies too, where a text comes in pieces (`logprobs`).
    pub fn lane(
        &self,
        event: Option<&str>,
        body: &[u8],
        doc: &Document,
        string: &JsonString,
    ) -> Option<LaneKey> {
        if string.key {
            return None;
        }
        let steps = Ancestry::of(doc, string.node);
        let kind = event_kind(body, doc);
        let by_rule = |rule: &LaneRule| {
            let key = rule.key(event, kind.as_deref(), body, doc, &steps)?;
            if !rule.is_open() {
                return Some(key);
            }
            // What an answer cites of a tool or a document stays what it is.
            let is_cited = self.channel(body, doc, string) == Channel::ToolResult;
            let channel = if is_cited { Channel::ToolResult } else { key.channel };
            (!self.is_label(body, doc, &steps)).then_some(LaneKey { channel, ..key })
        };
        self.lanes.iter().find_map(by_rule).or_else(|| by_leaf(&self.lane_leaves, body, doc, &steps))
    }

    /// Returns the lane of a string of a stream's event that has none by [`lane`](Self::lane) and may be a piece of a text
    /// all the same: no rule names its member, and it is no label.
    pub fn stray(
        &self,
        event: Option<&str>,
        body: &[u8],
        doc: &Document,
        string: &JsonString,
    ) -> Option<LaneKey> {
        if string.key || self.strays.is_empty() {
            return None;
        }
        let steps = Ancestry::of(doc, string.node);
        let kind = event_kind(body, doc);
        let by_rule = |rule: &LaneRule| {
            let key = rule.key(event, kind.as_deref(), body, doc, &steps)?;
            let is_text = !rule.is_open() || !self.is_label(body, doc, &steps);
            is_text.then(|| LaneKey { channel: self.channel(body, doc, string), ..key })
        };
        self.strays.iter().find_map(by_rule)
    }

    /// Returns the texts that a lane's text is a part of, beside its own.
    pub fn joined(&self, lane: &LaneKey) -> Vec<LaneKey> {
        self.joined.iter().filter_map(|rule| rule.key(lane)).collect()
    }

    /// Returns what a lane's text has in common with those that it goes on with, and that go on with it, if any do.
    pub fn sequel(&self, lane: &LaneKey) -> Option<Sequel> {
        let rule = self.sequels.iter().find(|rule| rule.lanes.contains(&lane.name))?;
        let parts = lane.parts.iter().take(rule.alike).cloned().collect();
        Some(Sequel { name: lane.name.clone(), channel: lane.channel, parts })
    }

    /// Tells whether the innermost key on a way is that of an id, a name or a state, which never comes in pieces.
    fn is_label(&self, body: &[u8], doc: &Document, way: &Ancestry) -> bool {
        let Some(leaf) = way.last_key(body, doc) else { return false };
        let fits = |label: &String| match std::str::from_utf8(&leaf) {
            Ok(leaf) => glob(label, leaf),
            Err(_) => false,
        };
        self.metadata_keys.iter().any(|key| key.as_bytes() == &*leaf) || self.labels.iter().any(fits)
    }
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
        let mut parts: SmallVec<[LanePart; 3]> =
            self.keys.iter().map(|path| part_at(body, doc, path)).collect();
        for (wanted, node) in self.path.steps.iter().zip(way.steps()) {
            if *wanted == Wanted::Each {
                parts.push(element(body, doc, *node));
            }
        }
        let beside = way.steps().last().and_then(|node| doc.parent(*node));
        let is_true = |flag: &str| {
            let member = beside.and_then(|beside| doc.child(body, beside, flag));
            member.and_then(|member| doc.bool_of(member)) == Some(true)
        };
        let mut flags = self.flags.iter().filter(|flag| is_true(flag)).peekable();
        // What a flag tells apart, such as a thought, is over when the answer goes on.
        let is_apart = flags.peek().is_some();
        let kind = if is_apart { LaneKind::Brief } else { self.kind };
        if is_apart && parts.is_empty() {
            parts.push(LanePart::None);
        }
        parts.extend(flags.map(|flag| LanePart::Text(flag.as_str().into())));
        if self.is_open() {
            let (name, inner) = way_below(body, doc, way, self.path.steps.len() - 1);
            parts.push(LanePart::Text(clipped(&name).into()));
            parts.extend(inner);
        }
        let (name, channel) = (self.name.clone(), self.channel);
        Some(LaneKey { name, channel, parts, kind, is_json: self.is_json })
    }

    /// Tells whether it is about everything below a place, or every member there.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.path.steps.last(), Some(Wanted::Below | Wanted::AnyKey))
    }
}

impl JoinedRule {
    /// Returns the text that a lane's text is a part of, too.
    pub(super) fn key(&self, lane: &LaneKey) -> Option<LaneKey> {
        self.lanes.contains(&lane.name).then(|| LaneKey {
            name: self.name.clone(),
            channel: lane.channel,
            parts: SmallVec::new(),
            kind: LaneKind::Joined,
            is_json: false,
        })
    }
}

impl SoundRule {
    pub(super) fn fits(
        &self,
        event: Option<&str>,
        kind: Option<&str>,
        body: &[u8],
        doc: &Document,
        way: &Ancestry,
    ) -> bool {
        fits_event(self.event.as_deref(), event, kind) && self.path.matches(body, doc, way)
    }
}

impl EndRule {
    pub(super) fn ends(
        &self,
        event: Option<&str>,
        kind: Option<&str>,
        body: &[u8],
        doc: &Document,
    ) -> Vec<LaneEnd> {
        if !fits_event(self.event.as_deref(), event, kind) {
            return Vec::new();
        }
        let places = keyed(&self.keys, &self.path, body, doc);
        let is_told = |node| {
            let is_empty = doc.str_of(body, node).is_some_and(|text| text.is_empty());
            doc.is_set(node) && doc.bool_of(node) != Some(false) && !is_empty
        };
        let is_by_member = !self.path.steps.is_empty();
        let may_resume = self.may_resume;
        let end = |parts| LaneEnd { names: self.names.clone(), parts, is_by_member, may_resume };
        places.into_iter().filter(|(node, _)| is_told(*node)).map(|(_, parts)| end(parts)).collect()
    }
}

/// A value of an event, and what the keys of the texts are made of that it is about.
type Place = (NodeId, SmallVec<[LanePart; 3]>);

/// Returns the values at a path, each with what stands at `keys` and the element of each `[*]` on its way.
pub(super) fn keyed(keys: &[Vec<String>], path: &PathPattern, body: &[u8], doc: &Document) -> Vec<Place> {
    let keys: SmallVec<[LanePart; 3]> = keys.iter().map(|path| part_at(body, doc, path)).collect();
    let mut places = vec![(NodeId::ROOT, keys)];
    for wanted in &path.steps {
        places =
            places.into_iter().flat_map(|(node, parts)| step_into(wanted, body, doc, node, parts)).collect();
    }
    places
}

fn step_into(
    wanted: &Wanted,
    body: &[u8],
    doc: &Document,
    node: NodeId,
    parts: SmallVec<[LanePart; 3]>,
) -> Vec<Place> {
    match wanted {
        Wanted::Key(key) => doc.child(body, node, key).map(|child| (child, parts)).into_iter().collect(),
        Wanted::Each => {
            let elements = doc.children(node).filter(|_| doc.is_array(node));
            elements.map(|child| (child, with(&parts, element(body, doc, child)))).collect()
        }
        Wanted::Run => {
            doc.children(node).filter(|_| doc.is_array(node)).map(|child| (child, parts.clone())).collect()
        }
        Wanted::AnyKey => {
            doc.children(node).filter(|_| doc.is_object(node)).map(|child| (child, parts.clone())).collect()
        }
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
    let (name, parts) = way_below(body, doc, way, 0);
    Some(LaneKey { name, channel: Channel::Assistant, parts, kind: LaneKind::Either, is_json: false })
}

/// Returns the members on a way, from a step on, joined by dots, and its elements.
fn way_below(body: &[u8], doc: &Document, way: &Ancestry, from: usize) -> (String, SmallVec<[LanePart; 3]>) {
    let mut name = String::new();
    let mut parts = SmallVec::new();
    for node in way.steps().iter().skip(from) {
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
    (name, parts)
}

/// Returns what an event says it is: its outermost `type`, or `event_type` where it has none (Cohere's first version).
pub(super) fn event_kind<'a>(body: &'a [u8], doc: &Document) -> Option<Cow<'a, str>> {
    doc.str_at(body, &["type"]).or_else(|| doc.str_at(body, &["event_type"]))
}

/// Tells whether an event is one that a rule is about, by its name or by what it says it is.
pub(super) fn fits_event(wanted: Option<&str>, event: Option<&str>, kind: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| [event, kind].into_iter().flatten().any(|told| glob(wanted, told)))
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
    let number = || doc.number_text(body, node).map(position);
    let text = || doc.str_of(body, node).map(|text| position(&text));
    number().or_else(text).unwrap_or(LanePart::None)
}

/// Reads a position however it is written, as `0`, `0.0` or `"0"`; everything else is an id.
fn position(text: &str) -> LanePart {
    let digits = text.strip_suffix(".0").unwrap_or(text);
    match digits.parse::<u64>() {
        Ok(number) if number.to_string() == digits => LanePart::Number(number),
        _ => LanePart::Text(clipped(text).into()),
    }
}

fn clipped(text: &str) -> &str {
    let mut end = text.len().min(PART_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
