//! A lane's text as it grows: fed to the lane, to the model and to the trace of the system prompt, and settled.
//!
//! Where one of the two reads the text, it is fed in pieces that end where the model's windows do, so that what stops a
//! text stops it at the same byte however the provider's events were cut.

use std::ops::Range;

use super::StreamInspector;
use super::names;
use super::names::Named;
use super::slot::Beside;
use super::stop::Found;
use super::stop::Stop;
use crate::llm::dialect::Channel;
use crate::llm::dialect::LaneKey;
use crate::llm::dialect::LaneKind;
use crate::llm::json::Document;
use crate::llm::json::JsonProblem;
use crate::policy::decision::Action;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::Unreadable;
use crate::policy::inspect::layer3::Heard;
use crate::policy::inspect::layer3::Judge;
use crate::policy::inspect::layer3::Reading;
use crate::policy::inspect::names as tagged;
use crate::policy::inspect::prompt;
use crate::redact::token::Vault;
use crate::scan::hold::Track;
use crate::scan::threat::Finding;
use crate::scan::trace::Trace;

/// Begins what reads a text of a channel beside its lane: the model and the tagger, where they read such texts, and the
/// trace of the system prompt. In messages, names were looked for in each; what is joined is read where it is said, and
/// what is stray alone.
pub(super) fn begin(inspector: &Inspector<'_>, key: &LaneKey) -> Beside {
    if matches!(key.kind, LaneKind::Joined | LaneKind::Stray) {
        return (None, None, None);
    }
    let channel = key.channel;
    // How a text of a channel that is read by its words begins tells nothing: all of it is.
    let is_named =
        key.kind != LaneKind::Messages && names::wanted(inspector).is_some() && tagged::reads(channel, WORDS);
    let named = is_named.then(Named::default);
    let reading = Reading::begin(judge_of(inspector), (inspector.judged(), channel));
    match inspector.guarded.filter(|_| prompt::is_told(channel)) {
        Some(_) => {
            let trace = Trace::begin(channel == Channel::ToolCall);
            (Some(reading.unwrap_or_else(Reading::silent)), named, Some(trace))
        }
        None => (reading, named, None),
    }
}

fn judge_of<'a>(inspector: &Inspector<'a>) -> Judge<'a> {
    let wanted = inspector.policy.looked_for(inspector.judged());
    let Inspector { ruleset, trial, expired, .. } = *inspector;
    Judge { ruleset, wanted, trial, expired }
}

/// A text of several words.
const WORDS: &[u8] = b"one text of several words";

impl StreamInspector {
    /// Looks for what is tainted in the calls of an event that come whole: their texts have no lanes that are followed as those
    /// of calls.
    pub(super) fn trace_calls(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        (payload, document, event): (&[u8], &Document, Option<&str>),
    ) -> Result<(), Stop> {
        let dialect = inspector.dialect;
        let Some(guarded) = inspector.guarded.filter(|guarded| guarded.taints()) else { return Ok(()) };
        for string in document.strings.iter().filter(|string| !string.key) {
            let is_call = dialect.channel(payload, document, string) == Channel::ToolCall;
            let lane = || dialect.lane(event, payload, document, string);
            let is_whole = is_call && lane().is_none_or(|lane| lane.channel != Channel::ToolCall);
            if is_whole && !prompt::is_name_of_tool(payload, document, string) {
                let mut trace = Trace::begin(true);
                trace.push(guarded, &mut self.leak, &document.text(payload, string));
                trace.finish(guarded, &mut self.leak);
            }
        }
        if !self.leak.is_tainted() {
            return Ok(());
        }
        self.gathered.note_leak(&self.leak, guarded);
        let (_, blocked) = self.judge(inspector, vault, &[], (Channel::ToolCall, None), |_| None);
        if blocked.is_some() { Err(Stop::Alone) } else { Ok(()) }
    }

    /// Takes the next text of a lane.
    pub(super) fn feed(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        slot: usize,
        text: &[u8],
    ) -> Result<(), Stop> {
        if (inspector.expired)() {
            return Err(Unreadable::Late.into());
        }
        self.lanes[slot].fed += text.len();
        if !matches!(self.lanes[slot].kind, LaneKind::Joined | LaneKind::Stray) {
            self.usage.text_bytes += text.len() as u64;
        }
        if self.lanes[slot].blocked_from.is_some() {
            return Ok(());
        }
        let Some(mut model) = self.lanes[slot].model.take() else {
            return self.feed_piece(inspector, vault, slot, text);
        };
        let mut rest = text;
        let mut fed = Ok(());
        while fed.is_ok() && !rest.is_empty() {
            let (piece, behind) = model.part(rest);
            fed = self.feed_piece(inspector, vault, slot, piece);
            if fed.is_ok() {
                fed = match model.read(judge_of(inspector), piece, behind).map_err(Unreadable::from) {
                    Ok(Some((until, heard))) => self.heed(inspector, vault, (slot, until), heard),
                    Ok(None) => Ok(()),
                    Err(unreadable) => Err(unreadable.into()),
                };
            }
            rest = behind;
        }
        self.lanes[slot].model = Some(model);
        fed
    }

    fn feed_piece(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        slot: usize,
        text: &[u8],
    ) -> Result<(), Stop> {
        let watch = inspector.policy.watch(inspector.judged());
        let lane = &mut self.lanes[slot];
        lane.begin(text);
        if *lane.restores.get_or_insert(self.restores == Some(true)) {
            lane.unrestored.extend_from_slice(text);
        }
        if let (Some(trace), Some(guarded)) = (&mut lane.trace, inspector.guarded) {
            trace.push(guarded, &mut self.leak, text);
        }
        let advance = lane.lane.feed(&inspector.ruleset.scanner, watch, text).map_err(Unreadable::from)?;
        let advance = lane.name(inspector, text, advance)?;
        self.settle(inspector, vault, slot, advance.judged_to, &advance.findings)
    }

    /// Ends a lane: all of its text is judged.
    pub(super) fn end_lane(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        slot: usize,
    ) -> Result<(), Stop> {
        if std::mem::replace(&mut self.lanes[slot].ended, true) {
            return Ok(());
        }
        if self.lanes[slot].half.is_some() {
            return Err(Unreadable::from(JsonProblem::LoneSurrogate.at(0)).into());
        }
        let watch = inspector.policy.watch(inspector.judged());
        let advance = self.lanes[slot].lane.finish(&inspector.ruleset.scanner, watch);
        let advance = self.lanes[slot].name_end(inspector, advance.map_err(Unreadable::from)?);
        let settled = self.settle(inspector, vault, slot, advance.judged_to, &advance.findings);
        if settled.is_err() && self.lanes[slot].kind == LaneKind::Stray && self.is_awaited(inspector) {
            self.keep_last();
        }
        settled?;
        let lane = &mut self.lanes[slot];
        if lane.blocked_from.is_some() {
            return Ok(());
        }
        if let (Some(trace), Some(guarded)) = (&mut lane.trace, inspector.guarded) {
            trace.finish(guarded, &mut self.leak);
        }
        let until = lane.fed;
        let heard = lane.model.as_mut().map_or(Ok(None), |model| model.finish(judge_of(inspector)));
        let heard = heard.map_err(Unreadable::from)?;
        let heeded = self.heed(inspector, vault, (slot, until), heard);
        if heeded.is_err() {
            // The text is refused as a whole: the event that says that it ended well stays behind.
            self.keep_last();
        }
        heeded
    }

    /// Keeps the last event from leaving, whatever of it is judged.
    fn keep_last(&mut self) {
        if let Some(last) = self.queue.back_mut() {
            last.is_read = false;
        }
    }

    /// Takes a lane's progress: masks are noted, and a finding that blocks stops the stream.
    fn settle(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        slot: usize,
        judged_to: usize,
        findings: &[Finding],
    ) -> Result<(), Stop> {
        let watch = inspector.policy.watch(inspector.judged());
        let findings = self.lanes[slot].news(findings, watch.detectors(Track::Enforced))?;
        let mut blocked = None;
        for together in self.lanes[slot].together(&findings) {
            if blocked.is_none() && !together.is_empty() {
                blocked = self.judge_in(inspector, vault, slot, together)?;
            }
        }
        let is_awaited = self.is_awaited(inspector);
        let entry = &mut self.lanes[slot];
        let mut judged_to = judged_to;
        if entry.restores == Some(true) {
            entry.restore(vault);
            judged_to = judged_to.min(entry.restored_to);
        }
        if entry.kind == LaneKind::Joined {
            judged_to = entry.joined_from(judged_to);
            // Unlike that of other texts, what is judged of it may be found to have begun a value.
            entry.left_to = judged_to.max(entry.left_to);
        }
        if entry.kind == LaneKind::Stray {
            judged_to = if is_awaited { entry.fed } else { entry.stray_from(judged_to) };
        }
        entry.settled_to = judged_to;
        let Some(from) = blocked else {
            entry.judged_to = judged_to.max(entry.judged_to);
            return Ok(());
        };
        entry.judged_to = judged_to.min(from).max(entry.judged_to);
        Err(self.stop_at(slot, from))
    }

    /// Judges findings in a lane and notes their masks; returns where the first blocking one begins.
    fn judge_in(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        slot: usize,
        findings: &[Finding],
    ) -> Result<Option<usize>, Unreadable> {
        let (channel, tool) = (self.lanes[slot].channel, self.tool_of(slot));
        let lane = std::mem::take(&mut self.lanes[slot].lane);
        let names = self.lanes[slot].names.take();
        let value = |range: Range<usize>| {
            lane.value(&range).or_else(|| names.as_ref().and_then(|names| names.value(&range)))
        };
        let (masks, blocked) = self.judge(inspector, vault, findings, (channel, tool), value);
        let noted = self.parts.note(&self.lanes[slot].borders, &masks, value);
        (self.lanes[slot].lane, self.lanes[slot].names) = (lane, names);
        self.lanes[slot].add(masks);
        noted.map(|()| blocked)
    }

    /// Judges what the model found, and what came out of the system prompt; what stops the text stops it where the
    /// window ended.
    ///
    /// What has left cannot be masked: where a policy says `redact`, it is recorded.
    fn heed(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        (slot, until): (usize, usize),
        heard: Option<Heard>,
    ) -> Result<(), Stop> {
        if let Some(guarded) = inspector.guarded {
            self.gathered.note_leak(&self.leak, guarded);
        }
        // What stands behind may be a part of a name, or of another value that is not told yet.
        let until = until.min(self.lanes[slot].judged_to);
        let (channel, tool) = (self.lanes[slot].channel, self.tool_of(slot));
        let (finding, value) = heard.map(|heard| (heard.finding, heard.value)).unzip();
        let (told, before) = (self.observations.len(), self.action);
        self.judge(inspector, vault, finding.as_slice(), (channel, tool), |_| value.as_deref());
        let told = self.observations.iter_mut().skip(told);
        let actions = told.map(|seen| {
            seen.action = if seen.action == Action::Redact { Action::Monitor } else { seen.action };
            seen.action
        });
        let action = Action::strictest(actions);
        self.action = before.max(action);
        if action == Action::Block { Err(self.stop_at(slot, until)) } else { Ok(()) }
    }

    fn stop_at(&mut self, slot: usize, from: usize) -> Stop {
        self.lanes[slot].blocked_from = Some(from);
        Stop::Finding(Found { slot, from })
    }
}
