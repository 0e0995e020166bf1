//! What a body must have for a condition to be asked at all: a glance instead of an evaluation.

use std::fmt;
use std::str::FromStr;

use super::Known;
use super::Scene;
use super::fact::CHANNELS;
use super::fact::DIRECTIONS;
use super::fact::Fact;
use crate::scan::threat::Category;
use crate::scan::threat::Layer;
use crate::scan::threat::UnknownName;

/// The word for findings behind an encoding.
const DECODED: &str = "decoded";
/// The word for tools whose definitions are worth a look.
const TOOLS: &str = "tools";
/// The word for a system prompt of which something came out.
const LEAKED: &str = "leaked";
/// The word for a call of a tool with text that nobody trusts.
const TAINTED: &str = "tainted";

/// What a rule needs: everything named must be there, in whichever findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs(u32);

/// What a body has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen(u32);

impl Needs {
    /// Adds what `other` needs.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Tells whether a text of a stream can make the rule fire by a finding of a category: then it waits for those.
    ///
    /// Texts that come in pieces are the model's own; a rule about a person's words or a tool's never waits.
    pub fn may_rest_on(self, category: Category) -> bool {
        let bits = |named: &[&str]| {
            words().filter(|(_, word)| named.contains(word)).fold(0, |all, (bit, _)| all | bit)
        };
        let categories = self.0 & bits(&Category::ALL.map(Category::as_str));
        let of_others = bits(&["request", "system", "user", "tool_result", "tool_definition"]);
        let rests = categories == 0 || categories & bits(&[category.as_str()]) != 0;
        rests && self.0 & (of_others | bits(&[LEAKED, TAINTED])) == 0
    }

    /// Tells whether the rule is about what came out of a system prompt.
    pub fn guards_prompts(self) -> bool {
        self.names(LEAKED)
    }

    /// Tells whether the rule is about what tools are called with.
    pub fn follows_taint(self) -> bool {
        self.names(TAINTED)
    }

    fn names(self, named: &str) -> bool {
        words().any(|(bit, word)| word == named && self.0 & bit != 0)
    }

    pub(super) fn met_by(self, seen: &Seen) -> bool {
        self.0 & !seen.0 == 0
    }
}

impl Seen {
    pub(super) fn of(scene: &Scene<'_>, known: &[Known]) -> Self {
        let mut seen = Self::default();
        seen.see(scene.direction);
        if !scene.facts.tools.is_empty() {
            seen.see(TOOLS);
        }
        if scene.facts.leaked > 0 {
            seen.see(LEAKED);
        }
        if scene.facts.tainted {
            seen.see(TAINTED);
        }
        seen.and(scene.facts.list(), known)
    }

    /// Adds what facts have.
    pub(super) fn and(mut self, facts: &[Fact], known: &[Known]) -> Self {
        for fact in facts {
            self.see(fact.channel);
            self.see(fact.layer.as_str());
            if !fact.decoded.0.is_empty() {
                self.see(DECODED);
            }
            if let Some(kind) = known.get(usize::from(fact.detector.0)) {
                self.see(kind.category.as_str());
            }
        }
        self
    }

    fn see(&mut self, word: &str) {
        self.0 |= word.parse::<Needs>().map_or(0, |needs| needs.0);
    }
}

/// Returns every word, in the order of its bit.
fn words() -> impl Iterator<Item = (u32, &'static str)> {
    let layers = [Layer::L1Regex, Layer::L2Rules, Layer::L3Ml].map(Layer::as_str);
    let closed = CHANNELS.into_iter().chain(DIRECTIONS).chain(layers);
    let words = closed.chain(Category::ALL.map(Category::as_str)).chain([DECODED, TOOLS, LEAKED, TAINTED]);
    words.enumerate().map(|(at, word)| (1 << at, word))
}

/// Writes the words, separated by commas.
impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<&str> = words().filter(|(bit, _)| self.0 & bit != 0).map(|(_, word)| word).collect();
        f.write_str(&named.join(", "))
    }
}

impl FromStr for Needs {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let expected = "a category, a channel, a direction, a layer, decoded, tools, leaked, tainted";
        let found = words().find(|(_, word)| *word == text);
        found.map(|(bit, _)| Self(bit)).ok_or(UnknownName { expected })
    }
}
