//! The system prompt of an exchange: gathered from its request, looked for in its answer.
//!
//! The text is kept until the answer begins, its fingerprints until the answer ends, and neither is shown or stored. It
//! is gathered only where a policy looks for rules about it.

use std::fmt;

use super::Inspector;
use crate::llm::dialect::Channel;
use crate::policy::decision::Direction;
use crate::scan::trace::GUARDED_BYTES_MAX;
use crate::scan::trace::Guarded;
use crate::scan::trace::Leak;
use crate::scan::trace::Trace;

/// What a request tells its model as its operator.
#[derive(Default)]
pub struct Prompt(Vec<u8>);

impl Prompt {
    /// Adds a text, up to the limit of all of them.
    pub(super) fn add(&mut self, text: &[u8]) {
        let room = GUARDED_BYTES_MAX.saturating_sub(self.0.len());
        self.0.extend_from_slice(text.get(..room).unwrap_or(text));
    }

    /// Adds all of another.
    pub(super) fn append(&mut self, other: &Self) {
        self.add(&other.0);
    }

    /// Returns its fingerprints, unless it is too short to be known again.
    pub fn guarded(&self) -> Option<Guarded> {
        Guarded::of(&self.0)
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Prompt").field(&self.0.len()).finish()
    }
}

/// Tells whether the system prompt of a request has to be known when its answer comes.
pub(super) fn is_guarded(inspector: &Inspector<'_>) -> bool {
    let wanted = inspector.policy.looked_for(Direction::Response);
    inspector.direction == Direction::Request && inspector.ruleset.layer2.guard_prompts(wanted)
}

/// Tells whether a text of an answer is its model's own: what it says, thinks or hands to a tool.
pub fn is_told(channel: Channel) -> bool {
    matches!(channel, Channel::Assistant | Channel::Reasoning | Channel::ToolCall)
}

/// Returns how many percent of a guarded text some whole texts tell.
pub(super) fn leaked<'t>(guarded: &Guarded, texts: impl Iterator<Item = &'t [u8]>) -> u8 {
    let mut leak = Leak::default();
    for text in texts {
        let mut trace = Trace::default();
        trace.push(guarded, &mut leak, text);
        trace.finish(guarded, &mut leak);
    }
    leak.percent(guarded)
}
