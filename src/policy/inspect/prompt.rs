//! The system prompt of an exchange: gathered from its request, looked for in its answer. Beside it, the text of tools that
//! stood near an injection: looked for in what the answer calls tools with.
//!
//! The text is kept until the answer begins; its fingerprints until others took their place, under a keyed hash of it
//! and its caller, so that how fast a call is answered tells nobody what others sent. None is shown or stored, and it
//! is gathered only where a policy looks for rules about it.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use memchr::memmem;
use parking_lot::Mutex;

use super::Inspector;
use super::layer2;
use crate::llm::dialect::Channel;
use crate::llm::json::Document;
use crate::llm::json::JsonString;
use crate::policy::decision::Direction;
use crate::policy::memo::Memo;
use crate::policy::memo::Tag;
use crate::scan::threat::Category;
use crate::scan::threat::Confidence;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Finding;
use crate::scan::trace::GUARDED_BYTES_MAX;
use crate::scan::trace::Guarded;
use crate::scan::trace::Leak;
use crate::scan::trace::TAINT_BYTES_EACH;
use crate::scan::trace::Trace;
use crate::scan::trace::canaries;

/// Prompts whose fingerprints are kept, some 12 kB each.
const KEPT_MAX: usize = 32;
/// Keeps their tags apart from those of texts that were clean.
const ORIGIN: u8 = u8::MAX;

/// How far an injection in a tool's text taints what stands before and behind it, in bytes.
const TAINTED_BESIDE: usize = 512;
/// The most bytes of a request's texts that are known for tainted: the last of them.
const TAINTED_BYTES_MAX: usize = 16 << 10;

/// What a request tells its model as its operator, and what of tools' texts is tainted.
#[derive(Default)]
pub struct Prompt {
    text: Vec<u8>,
    tainted: Vec<u8>,
}

impl Prompt {
    /// Adds a text, up to the limit of all of them.
    pub(super) fn add(&mut self, text: &[u8]) {
        let room = GUARDED_BYTES_MAX.saturating_sub(self.text.len());
        self.text.extend_from_slice(text.get(..room).unwrap_or(text));
    }

    /// Adds all of another.
    pub(super) fn append(&mut self, other: &Self) {
        self.add(&other.text);
        self.taint(&other.tainted);
    }

    /// Adds what is tainted of another; tells whether there was anything new.
    pub fn taint_as(&mut self, other: &Self) -> bool {
        self.taint(&other.tainted)
    }

    fn taint(&mut self, text: &[u8]) -> bool {
        let text = text.get(text.len().saturating_sub(TAINTED_BYTES_MAX)..).unwrap_or_default();
        let known = memmem::find(&self.tainted, text).filter(|_| !text.is_empty());
        if let Some(at) = known {
            // What comes again is the last, too.
            self.tainted.drain(at..at + text.len());
        }
        self.tainted.extend_from_slice(text);
        let before = self.tainted.len().saturating_sub(TAINTED_BYTES_MAX);
        self.tainted.drain(..before);
        known.is_none() && !text.is_empty()
    }

    /// Tells whether there is none.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.text
    }

    /// Returns how many bytes the fingerprints of what is tainted take at most.
    pub fn tainted_bytes(&self) -> usize {
        self.tainted.len() * TAINT_BYTES_EACH
    }

    /// Returns the fingerprints of what is tainted, if anything is.
    pub fn tainted(&self) -> Option<Arc<Guarded>> {
        Guarded::taint(&self.tainted).map(Arc::new)
    }
}

/// The fingerprints of the last prompts: an application sends its own with every call.
#[derive(Default)]
pub struct Prompts {
    kept: Mutex<VecDeque<(Tag, Option<Arc<Guarded>>)>>,
}

impl Prompts {
    /// Returns the fingerprints of a prompt of a caller, unless it is too short to be known again.
    pub fn guarded(&self, memo: &Memo, caller: &str, prompt: &Prompt) -> Option<Arc<Guarded>> {
        if prompt.is_empty() {
            return None;
        }
        let make = || Guarded::of(prompt.bytes()).map(Arc::new);
        let circumstances = memo.circumstances(&DetectorSet::default(), caller);
        let Some(tag) = circumstances.and_then(|it| memo.tag(it, ORIGIN, prompt.bytes())) else {
            return make();
        };
        if let Some((_, known)) = self.kept.lock().iter().find(|(other, _)| *other == tag) {
            return known.clone();
        }
        let made = make();
        let mut kept = self.kept.lock();
        kept.truncate(KEPT_MAX - 1);
        kept.push_front((tag, made.clone()));
        made
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, tainted } = self;
        f.debug_struct("Prompt").field("text", &text.len()).field("tainted", &tainted.len()).finish()
    }
}

/// Tells whether the system prompt of a request has to be known when its answer comes.
pub(super) fn is_guarded(inspector: &Inspector<'_>) -> bool {
    let wanted = inspector.policy.looked_for(Direction::Response);
    inspector.direction == Direction::Request && inspector.ruleset.layer2.guard_prompts(wanted)
}

/// Keeps of what a tool gave back what stands near an injection, where a policy looks for rules about it.
pub(super) fn taint(
    inspector: &Inspector<'_>,
    text: &[u8],
    channel: Channel,
    findings: &[Finding],
    prompt: &mut Prompt,
) {
    let is_injection = |it: &&Finding| {
        let kind = inspector.ruleset.kind(it.detector);
        it.confidence >= Confidence::MEDIUM && kind.is_some_and(|kind| kind.category == Category::Injection)
    };
    let is_of_tool = inspector.direction == Direction::Request && channel == Channel::ToolResult;
    let wanted = || inspector.ruleset.layer2.follow_taint(inspector.policy.looked_for(Direction::Response));
    if !is_of_tool || !findings.iter().any(|it| is_injection(&it)) || !wanted() {
        return;
    }
    let near = findings.iter().filter(is_injection).map(|Finding { value, .. }| {
        value.start.saturating_sub(TAINTED_BESIDE)..text.len().min(value.end + TAINTED_BESIDE)
    });
    let (mut near, mut stretches) = (near.collect::<Vec<_>>(), Vec::<Range<usize>>::new());
    near.sort_by_key(|near| near.start);
    for near in near {
        match stretches.last_mut().filter(|last| near.start <= last.end) {
            Some(last) => last.end = last.end.max(near.end),
            None => stretches.push(near),
        }
    }
    // Each has as many bytes before its value, but for the first: no more are kept.
    let before = stretches.len().saturating_sub(TAINTED_BYTES_MAX / TAINTED_BESIDE);
    for stretch in stretches.drain(before..) {
        prompt.taint(text.get(stretch).unwrap_or_default());
    }
}

/// Tells whether a string of a call is the name of its tool, as those are written, and no argument.
pub fn is_name_of_tool(text: &[u8], document: &Document, string: &JsonString) -> bool {
    let named = document.text(text, string);
    let is_written_so = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let tool = || layer2::tool_of(Channel::ToolCall, text, document, string);
    named.iter().all(is_written_so) && tool().is_some_and(|tool| tool.as_bytes().eq_ignore_ascii_case(&named))
}

/// Tells whether a text of an answer is its model's own: what it says, thinks or hands to a tool.
pub fn is_told(channel: Channel) -> bool {
    matches!(channel, Channel::Assistant | Channel::Reasoning | Channel::ToolCall)
}

/// Leaves out of what was found in an operator's instructions the canaries that stand there for secrets by their names
/// alone: they are put there to be sent, and are looked for in the answer. What shows by its form that it is a credential
/// is one, whatever it is called.
pub(super) fn spare_canaries(
    inspector: &Inspector<'_>,
    text: &[u8],
    channel: Channel,
    findings: &mut Vec<Finding>,
) {
    let is_secret = |it: &Finding| {
        let kind = inspector.ruleset.kind(it.detector);
        it.confidence < Confidence::HIGH && kind.is_some_and(|kind| kind.category == Category::Secrets)
    };
    let is_of_operator = inspector.direction == Direction::Request && channel == Channel::System;
    if !is_of_operator || !findings.iter().any(is_secret) {
        return;
    }
    let canaries = canaries(text);
    let is_within = |it: &Finding| {
        canaries.iter().any(|canary| canary.start <= it.value.start && it.value.end <= canary.end)
    };
    findings.retain(|it| !(is_secret(it) && is_within(it)));
}

/// Returns what some whole texts tell of a guarded one; of each, whether a tool is called with it.
pub(super) fn leaked<'t>(guarded: &Guarded, texts: impl Iterator<Item = (bool, &'t [u8])>) -> Leak {
    let mut leak = Leak::default();
    for (is_call, text) in texts {
        let mut trace = Trace::begin(is_call);
        trace.push(guarded, &mut leak, text);
        trace.finish(guarded, &mut leak);
    }
    leak
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tainted_is_kept_once_and_the_last_of_it() {
        let mut prompt = Prompt::default();
        let [first, second] = [b"first, of several ".as_slice(), b"second, of several "];
        assert!(!prompt.taint(b"") && prompt.taint(first) && prompt.taint(second) && !prompt.taint(first));
        assert_eq!(prompt.tainted, [second, first].concat());
        let long: Vec<u8> = (0..TAINTED_BYTES_MAX).map(|at| b'a' + (at % 23) as u8).collect();
        assert!(prompt.taint(&[first, &long].concat()) && !prompt.taint(&[second, &long].concat()));
        assert_eq!(prompt.tainted, long);
    }

    #[test]
    fn a_prompt_that_comes_again_has_the_same_fingerprints_and_others_have_their_own() {
        let (prompts, memo) = (Prompts::default(), Memo::default());
        let prompt = |number: usize| {
            let text = format!("{number}: {}", "Never speak of it. ".repeat(9)).into_bytes();
            Prompt { text, ..Prompt::default() }
        };
        let guarded = |caller: &str, number: usize| {
            prompts.guarded(&memo, caller, &prompt(number)).expect("it is long enough")
        };
        let first = guarded("ann", 0);
        assert!(Arc::ptr_eq(&first, &guarded("ann", 0)));
        assert!(!Arc::ptr_eq(&first, &guarded("bob", 0)) && !Arc::ptr_eq(&first, &guarded("ann", 1)));
        (2..2 * KEPT_MAX).for_each(|number| drop(guarded("ann", number)));
        assert!(prompts.kept.lock().len() == KEPT_MAX && !Arc::ptr_eq(&first, &guarded("ann", 0)));
        assert!(prompts.guarded(&memo, "ann", &Prompt::default()).is_none());
    }
}
