//! Small bodies that rules are proven with: messages to be scanned, and findings that are simply there.

use std::fmt;

use serde::Deserialize;

use super::fact::Fact;
use super::fact::Facts;
use super::fact::Place;
use super::fact::ToolFact;
use super::fact::value_key;
use crate::scan::proof;
use crate::scan::scanner::Scanner;
use crate::scan::threat::Confidence;
use crate::scan::threat::Decoded;
use crate::scan::threat::Encoding;
use crate::scan::threat::Finding;
use crate::scan::threat::Layer;

/// What stands around the type of a detector where a valid value of it belongs: `{valid:email}`.
const VALID: (&str, char) = ("{valid:", '}');
/// How often a part may be repeated.
const REPEAT_MAX: usize = 64;

/// A body in which a rule must fire, or must not.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// `request` or `response`.
    #[serde(default = "request")]
    pub direction: String,
    /// The messages, in order; each is scanned.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// The messages of the request that the body answers.
    #[serde(default)]
    pub asked: Vec<Part>,
    /// Findings that are there without a text, as of a model.
    #[serde(default)]
    pub findings: Vec<Told>,
    /// Tools whose definitions changed or shadow others.
    #[serde(default)]
    pub tools: Vec<ToldTool>,
    /// How many percent of the request's system prompt came out.
    #[serde(default)]
    pub leaked: u8,
    /// Whether a tool is called with what stood near an injection.
    #[serde(default)]
    pub tainted: bool,
}

/// One message.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Whose text it is.
    pub channel: String,
    /// The text; `{valid:TYPE}` stands for a valid value of a detector.
    pub text: String,
    /// The position of its message; its own position among the parts where it is not told.
    pub turn: Option<u32>,
    /// The tool that is called, described or answers.
    pub tool: Option<String>,
    /// How often the text comes, each time with other values.
    #[serde(default = "once")]
    pub repeat: usize,
}

/// One finding.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// The detector.
    pub r#type: String,
    /// Whose text it was in.
    pub channel: String,
    /// How sure it is, in percent; the detector's own confidence where it is not told.
    pub confidence: Option<u8>,
    /// The layer that fires; the patterns' where it is not told.
    #[serde(default)]
    pub layer: Option<String>,
    /// The position of its message.
    pub turn: Option<u32>,
    /// At which byte of its text it stands.
    #[serde(default)]
    pub at: usize,
    /// How many encodings were undone.
    #[serde(default)]
    pub decoded: usize,
    /// How many there are, each with another value.
    #[serde(default = "once")]
    pub repeat: usize,
}

/// One tool.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ToldTool {
    /// Its name.
    pub name: String,
    /// Whether its definition is another than before.
    #[serde(default)]
    pub changed: bool,
    /// Whether another tool has, or seems to have, its name.
    #[serde(default)]
    pub shadowed: bool,
}

/// Finds what is in a text.
pub type Search<'a> = dyn Fn(&Scanner, &[u8]) -> Result<Vec<Finding>, ScenarioProblem> + 'a;

/// What keeps a scenario from being acted out.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ScenarioProblem {
    /// It names a channel or direction that does not exist.
    #[error("`{name}` is no channel, direction or layer")]
    Unknown {
        /// The name.
        name: String,
    },
    /// It names a detector that does not exist, or of which no valid value can be made.
    #[error("there is no detector `{name}`, or no valid value of it")]
    NoDetector {
        /// The name.
        name: String,
    },
    /// A text cannot be judged.
    #[error("a text cannot be judged: {reason}")]
    Unjudged {
        /// Why.
        reason: String,
    },
}

fn request() -> String {
    "request".to_owned()
}

fn once() -> usize {
    1
}

impl Scenario {
    /// Returns the direction as conditions know it.
    pub(super) fn way(&self) -> Result<&'static str, ScenarioProblem> {
        known(&super::fact::DIRECTIONS, &self.direction)
    }

    /// Acts the scenario out: what `search` finds in its messages, and what it says is there.
    pub(super) fn act(&self, scanner: &Scanner, search: &Search<'_>) -> Result<Facts, ScenarioProblem> {
        let mut facts = facts_of(&self.parts, scanner, search)?;
        for (at, told) in self.findings.iter().enumerate() {
            let channel = known(&super::fact::CHANNELS, &told.channel)?;
            for nth in 0..told.repeat.min(REPEAT_MAX) {
                facts.push(told.fact(scanner, channel)?, (at * REPEAT_MAX + nth) as u64);
            }
        }
        facts.tools = self.tools.iter().map(ToolFact::from).collect();
        facts.leaked = self.leaked;
        facts.tainted = self.tainted;
        Ok(facts)
    }

    /// Acts the request out that the body answers.
    pub(super) fn act_asked(
        &self,
        scanner: &Scanner,
        search: &Search<'_>,
    ) -> Result<Vec<Fact>, ScenarioProblem> {
        facts_of(&self.asked, scanner, search).map(Facts::into_list)
    }
}

/// Returns what `search` finds in messages.
fn facts_of(parts: &[Part], scanner: &Scanner, search: &Search<'_>) -> Result<Facts, ScenarioProblem> {
    let mut facts = Facts::default();
    let last = parts.iter().enumerate().map(|(at, part)| part.turn.unwrap_or(at as u32)).max();
    for (at, part) in parts.iter().enumerate() {
        let channel = known(&super::fact::CHANNELS, &part.channel)?;
        let turn = part.turn.unwrap_or(at as u32);
        let tool = part.tool.as_deref().map(Box::from);
        let place = Place { turn: Some(turn), age: last.map(|last| last - turn), tool };
        let text = part.written(scanner)?;
        for found in search(scanner, text.as_bytes())? {
            let value = value_key(text.as_bytes().get(found.value.clone()).unwrap_or_default());
            facts.push(Fact::of(&found, channel, place.clone()), value);
        }
    }
    Ok(facts)
}

/// Writes the scenario for people, a line for each thing that is there.
impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = |repeat: usize| if repeat > 1 { format!(" ({repeat} times)") } else { String::new() };
        let part = |part: &Part| {
            let tool = part.tool.as_deref().map(|tool| format!(" of {tool}")).unwrap_or_default();
            format!("{}{tool}: {:?}{}", part.channel, part.text, times(part.repeat))
        };
        let told = |told: &Told| {
            let layer = told.layer.as_deref().map(|layer| format!(", {layer}")).unwrap_or_default();
            let decoded = if told.decoded > 0 { ", decoded" } else { "" };
            format!("{}: a {}{layer}{decoded}{}", told.channel, told.r#type, times(told.repeat))
        };
        let tool = |tool: &ToldTool| {
            let what = if tool.changed { "changed" } else { "shadowed" };
            format!("tool {}: {what}", tool.name)
        };
        let asked = self.asked.iter().map(|asked| format!("after {}", part(asked)));
        let lines = asked.chain(self.parts.iter().map(part)).chain(self.findings.iter().map(told));
        let leaked = (self.leaked > 0).then(|| format!("{} % of the system prompt", self.leaked));
        let tainted = self.tainted.then(|| "a call with tainted text".to_owned());
        let lines = lines.chain(self.tools.iter().map(tool)).chain(leaked).chain(tainted);
        let lines: Vec<String> = lines.collect();
        write!(f, "{}: {}", self.direction, lines.join("; "))
    }
}

impl Part {
    /// Writes the text out, with valid values where they belong.
    fn written(&self, scanner: &Scanner) -> Result<String, ScenarioProblem> {
        let mut lines = Vec::new();
        for seed in 0..self.repeat.min(REPEAT_MAX) {
            let mut line = String::new();
            let mut rest = self.text.as_str();
            while let Some((before, after)) = rest.split_once(VALID.0) {
                let (name, after) = after.split_once(VALID.1).unwrap_or((after, ""));
                line.push_str(before);
                line.push_str(&valid(scanner, name, seed as u64)?);
                rest = after;
            }
            line.push_str(rest);
            lines.push(line);
        }
        Ok(lines.join("\n"))
    }
}

impl Told {
    fn fact(&self, scanner: &Scanner, channel: &'static str) -> Result<Fact, ScenarioProblem> {
        let name = &self.r#type;
        let none = || ScenarioProblem::NoDetector { name: name.clone() };
        let detector = scanner.find(name).ok_or_else(none)?;
        let own = scanner.detector(detector).ok_or_else(none)?.confidence;
        let decoded = Decoded(std::iter::repeat_n(Encoding::Base64, self.decoded.min(3)).collect());
        Ok(Fact {
            detector,
            confidence: self.confidence.map_or(own, Confidence::from_percent),
            layer: self.layer()?,
            decoded,
            channel,
            place: Place { turn: self.turn, age: None, tool: None },
            span: self.at..self.at,
            first: true,
        })
    }
}

impl Told {
    fn layer(&self) -> Result<Layer, ScenarioProblem> {
        let Some(name) = self.layer.as_deref() else { return Ok(Layer::L1Regex) };
        let all = [Layer::L1Regex, Layer::L2Rules, Layer::L3Ml];
        let found = all.into_iter().find(|layer| layer.as_str() == name);
        found.ok_or_else(|| ScenarioProblem::Unknown { name: name.to_owned() })
    }
}

impl From<&ToldTool> for ToolFact {
    fn from(told: &ToldTool) -> Self {
        let ToldTool { name, changed, shadowed } = told;
        Self { name: name.as_str().into(), definition: "".into(), changed: *changed, shadowed: *shadowed }
    }
}

fn valid(scanner: &Scanner, name: &str, seed: u64) -> Result<String, ScenarioProblem> {
    let detector = scanner.find(name).and_then(|id| scanner.detector(id));
    let value = detector.and_then(|detector| proof::valid_value(detector, seed));
    let text = value.and_then(|value| String::from_utf8(value).ok());
    text.ok_or_else(|| ScenarioProblem::NoDetector { name: name.to_owned() })
}

fn known<const N: usize>(names: &[&'static str; N], name: &str) -> Result<&'static str, ScenarioProblem> {
    let found = names.iter().find(|known| **known == name).copied();
    found.ok_or_else(|| ScenarioProblem::Unknown { name: name.to_owned() })
}
