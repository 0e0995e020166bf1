//! Members of what a tool is given and gives back, where it is no text but values: each is read under its name, numbers
//! too.

use std::borrow::Cow;

use crate::llm::dialect::Channel;
use crate::llm::json::Document;
use crate::llm::json::NodeId;
use crate::llm::json::StepView;

/// The longest name that tells what a value is, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Tells whether what stands in a channel may be values, known by the names of their members.
pub fn holds_values(channel: Channel) -> bool {
    matches!(channel, Channel::ToolCall | Channel::ToolResult)
}

/// Returns the name that a value of a tool's input or result is read under: of its member, or of the array that it is in.
///
/// None for other channels, whose texts tell themselves what they are about.
pub fn name_of_value<'a>(
    text: &'a [u8],
    document: &'a Document,
    node: NodeId,
    channel: Channel,
) -> Option<Cow<'a, [u8]>> {
    if !holds_values(channel) {
        return None;
    }
    let array_of = |node: &NodeId| document.parent(*node).filter(|parent| document.is_array(*parent));
    let mut around = std::iter::successors(Some(node), array_of);
    let name = around.find_map(|node| match document.step(text, node) {
        StepView::Key(name) => Some(name),
        StepView::Root | StepView::Index(_) => None,
    })?;
    (name.len() <= NAME_BYTES_MAX).then_some(name)
}
