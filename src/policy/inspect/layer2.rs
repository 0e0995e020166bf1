//! Layer 2 at work: what was found so far, where it stood, and which rules fire over it.
//!
//! A rule has no text of its own: where a policy says `redact`, the findings it rests on are masked by their own
//! detectors, and the rule itself is recorded. A rule that blocks, blocks.

use std::sync::Arc;

use super::Inspector;
use super::Observation;
use super::shadow::Foreseen;
use crate::llm::dialect::Channel;
use crate::llm::json::Document;
use crate::llm::json::JsonString;
use crate::llm::json::NodeId;
use crate::llm::json::Segment;
use crate::policy::decision::Action;
use crate::policy::decision::Direction;
use crate::policy::ruleset::Policy;
use crate::scan::rule::Fired;
use crate::scan::rule::Rule;
use crate::scan::rule::Scene;
use crate::scan::rule::fact::Fact;
use crate::scan::rule::fact::Facts;
use crate::scan::rule::fact::Place;
use crate::scan::rule::fact::ToolFact;
use crate::scan::rule::fact::value_key;
use crate::scan::threat::Confidence;
use crate::scan::threat::Decoded;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Layer;
use crate::scan::trace::Guarded;
use crate::scan::trace::Leak;

/// How far up from a string the name of its tool is looked for.
const TOOL_STEPS_MAX: usize = 4;
/// The most tools that are named where a rule is about tools.
const TOOLS_TOLD_MAX: usize = 8;
/// The longest name of a tool that is told to rules, in bytes.
const TOOL_BYTES_MAX: usize = 128;

/// What rules go by, as it gathers over a body or a stream.
#[derive(Default)]
pub struct Gathered {
    facts: Facts,
    /// What is shown of each fact: its channel, its place in its text, its masked value.
    shown: Vec<Shown>,
    /// The rules that fired.
    fired: DetectorSet,
    /// Whether something was added since rules were asked last.
    is_new: bool,
}

struct Shown {
    channel: Channel,
    decoded_from: Decoded,
    value: std::ops::Range<usize>,
    sample: String,
    within: Option<Arc<str>>,
}

/// What rules say about a body.
#[derive(Default)]
pub struct Weighed {
    /// The rules that fired, judged.
    pub observations: Vec<Observation>,
    /// What the shadow policy would have done about them, where there is one.
    pub shadow: Foreseen,
}

impl Gathered {
    /// Adds what was observed, with the value that was matched.
    pub fn note(&mut self, seen: &Observation, matched: &[u8]) {
        let fact = Fact {
            detector: seen.detector,
            confidence: seen.confidence,
            layer: seen.layer,
            decoded: seen.decoded_from.clone(),
            channel: seen.channel.as_str(),
            place: of_answer(None),
            span: seen.value.clone(),
            first: true,
        };
        if self.facts.push(fact, value_key(matched)).is_some() {
            self.is_new = true;
            let Observation { channel, decoded_from, value, sample, within, .. } = seen.clone();
            self.shown.push(Shown { channel, decoded_from, value, sample, within });
        }
    }

    /// Adds tools whose definitions changed or shadow others.
    pub fn note_tools(&mut self, tools: Vec<ToolFact>) {
        self.is_new |= !tools.is_empty();
        self.facts.tools.extend(tools);
    }

    /// Adds what came out of what is guarded, as far as that is more than was known.
    pub fn note_leak(&mut self, leak: &Leak, guarded: &Guarded) {
        let percent = leak.percent(guarded);
        self.is_new |= percent > self.facts.leaked;
        self.facts.leaked = self.facts.leaked.max(percent);
        self.note_taint(leak);
    }

    /// Adds whether a tool was called with what is tainted.
    pub fn note_taint(&mut self, leak: &Leak) {
        let is_tainted = leak.is_tainted();
        self.is_new |= is_tainted && !self.facts.tainted;
        self.facts.tainted |= is_tainted;
    }

    /// Returns how many facts there are.
    pub fn len(&self) -> usize {
        self.facts.list().len()
    }

    /// Tells whether there is none.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    /// Returns what was found, without content.
    pub fn into_facts(self) -> Vec<Fact> {
        self.facts.into_list()
    }

    /// Tells where the texts of the facts from `from` on stood.
    pub fn place(&mut self, from: usize, place: &Place) {
        self.facts.places_from(from).for_each(|stood| *stood = place.clone());
    }

    /// Asks the `wanted` rules that have not fired yet.
    pub fn weigh(&mut self, inspector: &Inspector<'_>, wanted: &DetectorSet) -> Weighed {
        let mut weighed = Weighed::default();
        if !std::mem::take(&mut self.is_new) {
            return weighed;
        }
        let scene = Scene {
            direction: inspector.direction.as_str(),
            dialect: inspector.dialect.name(),
            facts: &self.facts,
            asked: inspector.asked,
        };
        for fired in inspector.ruleset.layer2.judge(&scene, wanted, &self.fired) {
            self.fired.insert(fired.id);
            let Some(rule) = inspector.ruleset.layer2.rule(fired.id) else { continue };
            let decided = |policy: &Policy| self.action(inspector, policy, &fired, rule.confidence);
            let action = decided(inspector.policy);
            if let Some(shadow) = inspector.ruleset.shadow_of(inspector.policy) {
                weighed.shadow.note(fired.id, decided(shadow), action);
            }
            if action != Action::Allow {
                weighed.observations.push(self.observation(&fired, action, rule));
            }
        }
        weighed
    }

    /// Returns what a policy does about a rule; there is nothing of its own to mask.
    ///
    /// A rule about tools has their definitions' hashes for values: an allow-list excuses it that has them all.
    fn action(
        &self,
        inspector: &Inspector<'_>,
        policy: &Policy,
        fired: &Fired,
        confidence: Confidence,
    ) -> Action {
        let (Inspector { caller, now, .. }, direction) = (inspector, inspector.judged());
        let judge = |value: &[u8]| match policy.judge(direction, fired.id, confidence, value, *caller, *now) {
            Action::Redact => Action::Monitor,
            decided => decided,
        };
        if !fired.facts.is_empty() || self.facts.tools.is_empty() {
            return judge(&[]);
        }
        Action::strictest(self.facts.tools.iter().map(|tool| judge(tool.definition.as_bytes())))
    }

    /// Returns a rule as it is reported: at the first finding it is about, or with the tools it is about.
    fn observation(&self, fired: &Fired, action: Action, rule: &Rule) -> Observation {
        let about_body = fired.facts.is_empty();
        let about = if !about_body {
            None
        } else if rule.needs.follows_taint() {
            Some(Channel::ToolCall)
        } else if !self.facts.tools.is_empty() {
            Some(Channel::ToolDefinition)
        } else {
            (self.facts.leaked > 0).then_some(Channel::Assistant)
        };
        let first = fired.facts.first().map_or(0, |first| *first);
        let shown = self.shown.get(first).filter(|_| about.is_none());
        let channel = about.unwrap_or(Channel::Metadata);
        Observation {
            detector: fired.id,
            action,
            confidence: rule.confidence,
            layer: Layer::L2Rules,
            decoded_from: shown.map(|shown| shown.decoded_from.clone()).unwrap_or_default(),
            channel: shown.map_or(channel, |shown| shown.channel),
            value: shown.map_or(0..0, |shown| shown.value.clone()),
            sample: shown.map_or_else(|| self.tools_told(), |shown| shown.sample.clone()),
            within: shown.and_then(|shown| shown.within.clone()),
        }
    }

    /// Names the tools that are worth a look, each with the hash by which it can be allowed.
    fn tools_told(&self) -> String {
        let told = self.facts.tools.iter().take(TOOLS_TOLD_MAX);
        let told: Vec<String> =
            told.map(|tool| format!("{} sha256:{}", tool.name, tool.definition)).collect();
        told.join(", ")
    }
}

/// Returns where a string of a body stands: its message, and the tool it belongs to.
pub fn place(
    direction: Direction,
    channel: Channel,
    text: &[u8],
    document: &Document,
    string: &JsonString,
) -> Place {
    let tool = tool_of(channel, text, document, string);
    if direction == Direction::Response {
        return of_answer(tool);
    }
    let path = document.path(text, string.node);
    let message = match path.segments.as_slice() {
        [Segment::Key(list), Segment::Index(at), ..] if channel != Channel::ToolDefinition => {
            let list = document.find(text, &[list]);
            list.map(|list| (*at, document.children(list).count()))
        }
        _ => None,
    };
    let number = |at: usize| u32::try_from(at).ok();
    Place {
        turn: message.and_then(|(at, _)| number(at)),
        age: message.and_then(|(at, count)| number(count.saturating_sub(at + 1))),
        tool,
    }
}

/// Returns where a text of an answer stands: it is one message, whatever its choices.
pub fn of_answer(tool: Option<Box<str>>) -> Place {
    Place { turn: Some(0), age: Some(0), tool }
}

/// Returns the tool that a string of a channel belongs to, where it stands beside or below the tool's name.
pub fn tool_of(channel: Channel, text: &[u8], document: &Document, string: &JsonString) -> Option<Box<str>> {
    match channel {
        Channel::ToolCall | Channel::ToolResult | Channel::ToolDefinition => {
            tool(text, document, string.node)
        }
        Channel::System | Channel::User | Channel::Assistant | Channel::Reasoning => None,
        Channel::Credential | Channel::Metadata => None,
    }
}

/// Returns the name of a tool as rules are told it: in lower case; none that is too long for one.
pub fn told_name(name: &str) -> Option<Box<str>> {
    (name.len() <= TOOL_BYTES_MAX).then(|| name.to_ascii_lowercase().into())
}

/// Returns the `name` beside or above a string.
fn tool(text: &[u8], document: &Document, node: NodeId) -> Option<Box<str>> {
    let above = std::iter::successors(Some(node), |node| document.parent(*node)).take(TOOL_STEPS_MAX + 1);
    let named = |node: NodeId| document.str_of(text, document.child(text, node, "name")?);
    let name = above.skip(1).find_map(named)?;
    told_name(&name)
}
