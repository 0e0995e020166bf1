//! Which tool a text of a stream is for: rules ask whom a tool reaches that is given what was found.
//!
//! A tool is named in the first event of its call, and its arguments come in those after it. Where a text stands beside
//! the name it is for that tool, too.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::StreamInspector;
use crate::llm::dialect::Called;
use crate::llm::dialect::Channel;
use crate::llm::dialect::LaneKey;
use crate::llm::dialect::LanePart;
use crate::llm::json::Document;
use crate::llm::json::JsonString;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::layer2;

/// How many calls are known at once; where there are more, those before are over.
const CALLS_MAX: usize = 1024;

/// What the keys of a call's texts are made of.
pub(super) type Call = SmallVec<[LanePart; 3]>;

/// The names of the tools that are called.
#[derive(Default)]
pub(super) struct Callings(HashMap<Call, Box<str>>);

impl Callings {
    /// Notes the name of a call's tool; some name it as nothing in the events that follow.
    fn note(&mut self, call: Call, tool: Option<Box<str>>) {
        let Some(tool) = tool.filter(|tool| !tool.is_empty()) else { return };
        if self.0.len() >= CALLS_MAX {
            self.0.clear();
        }
        self.0.insert(call, tool);
    }
}

/// Returns what tells whose a text is, where it may be one of a tool.
pub(super) fn call_of(key: &LaneKey) -> Option<Call> {
    let is_of_tool = matches!(key.channel, Channel::ToolCall | Channel::ToolResult | Channel::ToolDefinition);
    is_of_tool.then(|| key.parts.clone())
}

impl StreamInspector {
    /// Notes the tools that an event names.
    pub(super) fn note_called(
        &mut self,
        inspector: &Inspector<'_>,
        (payload, document, event): (&[u8], &Document, Option<&str>),
    ) {
        for Called { parts, name } in inspector.dialect.called(event, payload, document) {
            self.called.note(parts, layer2::told_name(&name));
        }
    }

    /// Notes the tool that a piece of a text stands beside the name of.
    pub(super) fn note_beside(
        &mut self,
        key: &LaneKey,
        (payload, document): (&[u8], &Document),
        string: &JsonString,
    ) {
        let Some(call) = call_of(key) else { return };
        self.called.note(call, layer2::tool_of(key.channel, payload, document, string));
    }

    /// Returns the tool that a lane's text is for, where that is known.
    pub(super) fn tool_of(&self, slot: usize) -> Option<Box<str>> {
        let call = self.lanes.get(slot)?.call.as_ref()?;
        self.called.0.get(call).cloned()
    }
}
