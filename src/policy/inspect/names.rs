//! The tagger at work: which texts it reads for names, addresses and places.
//!
//! It reads what people and models write and what tools give back, wherever a policy names what it finds. It does not read
//! what tools are defined as, for a model must be told the very words; nor what only steers a call, such as the name
//! of a model: of that, texts of several words alone.

use std::borrow::Cow;

use crate::llm::dialect::Channel;
use crate::policy::ruleset::Ruleset;
use crate::scan::classifier::card::Learned;
use crate::scan::classifier::reading::TEXT_BYTES_MIN;
use crate::scan::tagger::escape;
use crate::scan::tagger::names::Names;
use crate::scan::tagger::reading::Late;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Finding;

/// Returns the tagger, if anything it finds is wanted.
pub fn wanted<'r>(ruleset: &'r Ruleset, wanted: &DetectorSet) -> Option<Names<'r>> {
    ruleset.layer3.tagger(wanted)
}

/// Tells whether the tagger reads texts of a channel; of some only texts of several words.
pub fn reads(channel: Channel, text: &[u8]) -> bool {
    match channel {
        Channel::System | Channel::User | Channel::Assistant | Channel::Reasoning => true,
        Channel::ToolCall | Channel::ToolResult => true,
        Channel::Metadata => has_words(text),
        Channel::ToolDefinition | Channel::Credential => false,
    }
}

/// Tells whether a text is more than a name, an id or a number, by a glance.
fn has_words(text: &[u8]) -> bool {
    text.len() >= TEXT_BYTES_MIN && (memchr::memchr(b' ', text).is_some() || !text.is_ascii())
}

/// Returns a number for what the tagger's verdict on a text of a channel depends on, beside those of the model.
pub fn reading(channel: Channel, text: &[u8]) -> u8 {
    if reads(channel, text) { 0x40 } else { 0 }
}

/// Returns a value of a finding as its reader takes it: a name that the tagger found behind escapes of JSON without them,
/// so that it is masked, let pass and put back as the same name elsewhere.
pub fn plain<'t>(ruleset: &Ruleset, finding: &Finding, value: &'t [u8]) -> Cow<'t, [u8]> {
    let is_name = || ruleset.layer3.kind(finding.detector).is_some_and(Learned::is_named_only);
    match finding.decoded_from.0.is_empty() || !is_name() {
        true => Cow::Borrowed(value),
        false => Cow::Owned(escape::undone(value)),
    }
}

/// Returns what is found in a whole text of a channel, for as long as there is time.
///
/// # Errors
/// The time was over before its end.
pub fn find(
    ruleset: &Ruleset,
    looked_for: &DetectorSet,
    text: &[u8],
    channel: Channel,
    expired: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Finding>, Late> {
    let names = wanted(ruleset, looked_for).filter(|_| reads(channel, text));
    names.map_or(Ok(Vec::new()), |names| names.find_in_time(text, expired))
}
