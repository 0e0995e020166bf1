//! Layer 3 at work: which texts of a body the model reads, and as whose words.

use crate::llm::dialect::Channel;
use crate::policy::decision::Direction;
use crate::policy::ruleset::Ruleset;
use crate::scan::classifier::Origin;
use crate::scan::classifier::Signals;
use crate::scan::classifier::reading::TEXT_BYTES_MIN;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Finding;

/// Returns whose words a channel carries, unless they are the protected model's own.
///
/// What a provider answers is its model's; but tools may answer through the gateway, too.
pub fn origin(direction: Direction, channel: Channel) -> Option<Origin> {
    match channel {
        Channel::ToolResult => Some(Origin::Tool),
        _ if direction == Direction::Response => None,
        Channel::System => Some(Origin::System),
        Channel::User | Channel::Metadata => Some(Origin::User),
        Channel::ToolDefinition => Some(Origin::Definition),
        Channel::Assistant | Channel::Reasoning | Channel::ToolCall => None,
    }
}

/// Returns a number for what the model's verdict on a text of a channel depends on.
pub fn reading(direction: Direction, channel: Channel) -> u8 {
    origin(direction, channel).map_or(u8::MAX, |origin| origin.index() as u8)
}

/// Tells whether the model has something to read in a text: more than a name, an id or a number.
pub fn reads(text: &[u8], direction: Direction, channel: Channel) -> bool {
    let has_words = || memchr::memchr(b' ', text).is_some() || !text.is_ascii();
    origin(direction, channel).is_some() && text.len() >= TEXT_BYTES_MIN && has_words()
}

/// Returns what the model finds in a text in which the first layer found `findings`.
pub fn find(
    ruleset: &Ruleset,
    text: &[u8],
    (direction, channel): (Direction, Channel),
    findings: &[Finding],
    wanted: &DetectorSet,
) -> Option<Finding> {
    let origin = origin(direction, channel).filter(|_| reads(text, direction, channel))?;
    let signals = Signals::of(findings, |id| ruleset.kind(id).map(|kind| kind.category));
    ruleset.layer3.find(text, origin, &signals, wanted)
}
