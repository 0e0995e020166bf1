//! What conditions are about: the findings of one body, and where they stood.

use std::collections::HashMap;
use std::collections::HashSet;
use std::ops::Range;

use crate::scan::threat::Confidence;
use crate::scan::threat::Decoded;
use crate::scan::threat::DetectorId;
use crate::scan::threat::Finding;
use crate::scan::threat::Layer;

/// The channels a text can come by; see `llm::dialect::Channel`.
pub const CHANNELS: [&str; 9] = [
    "system",
    "user",
    "assistant",
    "reasoning",
    "tool_definition",
    "tool_call",
    "tool_result",
    "credential",
    "metadata",
];

/// The directions a body can travel in.
pub const DIRECTIONS: [&str; 2] = ["request", "response"];

/// The most findings of one body that conditions look at, beside the first of a kind; all are counted.
pub const FACTS_MAX: usize = 128;

/// How many more they look at that are the first of their detector in their channel: many of one kind hide no other.
pub const FIRSTS_MAX: usize = 128;

/// The most of them that one detector has in one channel.
pub const FACTS_PER_KIND_MAX: usize = 32;

/// One finding, as conditions see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Who found it.
    pub detector: DetectorId,
    /// How sure the detector is.
    pub confidence: Confidence,
    /// The layer that fired.
    pub layer: Layer,
    /// What had to be undone to see it.
    pub decoded: Decoded,
    /// Whose text it was in; one of [`CHANNELS`].
    pub channel: &'static str,
    /// Where that text stood.
    pub place: Place,
    /// Which bytes of that text it is.
    pub span: Range<usize>,
    /// Whether no earlier finding had the same value, whoever found it.
    pub first: bool,
}

/// Where a text stands in a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The position of its message; none outside of messages.
    pub turn: Option<u32>,
    /// How many messages come after it; none outside of messages.
    pub age: Option<u32>,
    /// The tool that is called, described or answers, in lower case, where the body tells.
    pub tool: Option<Box<str>>,
}

/// A definition of a tool that is not what it was, or not what it seems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFact {
    /// The tool's name.
    pub name: Box<str>,
    /// The SHA-256 of its definition, in hexadecimal.
    pub definition: Box<str>,
    /// Whether the caller knew another definition under this name.
    pub changed: bool,
    /// Whether the body has two definitions for the name, or for two names that look alike.
    pub shadowed: bool,
}

/// The facts of one body as they gather.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    list: Vec<Fact>,
    values: HashSet<u64>,
    kinds: HashMap<(DetectorId, &'static str), usize>,
    counts: HashMap<DetectorId, Count>,
    /// Tools whose definitions are worth a look.
    pub tools: Vec<ToolFact>,
    /// How many percent of the request's system prompt came out in the answer.
    pub leaked: u8,
    /// Whether a tool is called with what stood near an injection in a tool's answer.
    pub tainted: bool,
}

/// How often a detector found something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All findings.
    pub all: usize,
    /// Findings with values that no earlier finding had.
    pub distinct: usize,
}

/// Returns a number that equal values share.
pub fn value_key(value: &[u8]) -> u64 {
    value
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |key, byte| (key ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Fact {
    /// Returns a finding as a fact, in a text of a channel that stands at `place`.
    pub fn of(found: &Finding, channel: &'static str, place: Place) -> Self {
        let Finding { detector, confidence, layer, decoded_from, span, .. } = found;
        let decoded = decoded_from.clone();
        Self {
            detector: *detector,
            confidence: *confidence,
            layer: *layer,
            decoded,
            channel,
            place,
            span: span.clone(),
            first: true,
        }
    }
}

impl Facts {
    /// Adds a finding whose value has the hash `value`; returns its place among the facts, unless there are too many.
    pub fn push(&mut self, mut fact: Fact, value: u64) -> Option<usize> {
        fact.first = self.values.insert(value);
        let count = self.counts.entry(fact.detector).or_default();
        count.all += 1;
        count.distinct += usize::from(fact.first);
        let of_kind = self.kinds.entry((fact.detector, fact.channel)).or_default();
        let room = if *of_kind == 0 { FACTS_MAX + FIRSTS_MAX } else { FACTS_MAX };
        if *of_kind >= FACTS_PER_KIND_MAX || self.list.len() >= room {
            return None;
        }
        *of_kind += 1;
        self.list.push(fact);
        Some(self.list.len() - 1)
    }

    /// Returns the facts in the order of the body.
    pub fn list(&self) -> &[Fact] {
        &self.list
    }

    /// Returns the facts alone, for the answer to the body that they are of.
    pub fn into_list(self) -> Vec<Fact> {
        self.list
    }

    /// Returns where the texts of the facts from `from` on stood, to be told.
    pub fn places_from(&mut self, from: usize) -> impl Iterator<Item = &mut Place> {
        self.list.iter_mut().skip(from).map(|fact| &mut fact.place)
    }

    /// Returns how often each detector found something.
    pub fn counts(&self) -> impl Iterator<Item = (DetectorId, Count)> + '_ {
        self.counts.iter().map(|(id, count)| (*id, *count))
    }

    /// Tells whether there is nothing to look at.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.tools.is_empty() && self.leaked == 0 && !self.tainted
    }
}
