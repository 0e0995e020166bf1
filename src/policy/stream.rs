//! A stream, judged while it flows.
//!
//! In: bytes as the provider sends them, cut anywhere. Out: the same events, each released whole once
//! every text in it is judged, with masks where a value was found, or the end of the stream in the
//! caller's dialect. Texts that continue over events (a choice, a tool call's arguments) are joined in
//! lanes; a [`Lane`](crate::scan::lane::Lane) says up to where its text is settled, and nothing behind that leaves. Events keep
//! their order, so one lane under way holds the events after it. Nothing is ever released by a timer.
//!
//! A model reads a lane's text in windows, as it grows. It judges what was seen when a window ends, and what it finds
//! stops the text there: what stood before may have left by then, and is not held back for it.
//!
//! What it does not promise: an event held by a word under way leaves only with the next text of its
//! lane or with the lane's end. Words that a model takes for orders reach the caller, up to a window of them, before
//! the stream is cut.

mod alone;
mod continued;
mod ending;
mod held;
mod model;
mod outside;
mod release;
mod slot;
mod stop;
mod template;

use std::collections::HashMap;
use std::collections::HashSet;
use std::collections::VecDeque;
use std::hash::RandomState;
use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;

use self::held::Held;
use self::slot::Slot;
use self::slot::values;
use self::stop::Stop;
use self::template::Template;
use crate::llm::dialect::Channel;
use crate::llm::dialect::LaneKey;
use crate::llm::json;
use crate::llm::json::JsonString;
use crate::llm::refusal::StreamTrack;
use crate::llm::stream::StreamFormat;
use crate::llm::stream::StreamParser;
use crate::llm::stream::StreamPiece;
use crate::llm::usage::Usage;
use crate::policy::decision::Action;
use crate::policy::decision::Cleared;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::Observation;
use crate::policy::inspect::Unreadable;
use crate::policy::inspect::body;
use crate::policy::inspect::layer2::Gathered;
use crate::policy::inspect::layer3;
use crate::policy::inspect::text::Masked;
use crate::policy::inspect::text::Sheet;
use crate::policy::inspect::text::disjoint;
use crate::policy::inspect::text::fitted;
use crate::policy::inspect::text::inside;
use crate::policy::inspect::text::under;
use crate::redact::restore;
use crate::redact::splice::Edit;
use crate::redact::token::Vault;
use crate::scan::scanner::touches;
use crate::scan::threat::Finding;
use crate::scan::threat::Layer;
use crate::scan::trace::Leak;
use crate::scan::view;

/// Short texts that were found clean and are likely to come again in the next event.
const CLEAN_MEMO_MAX: usize = 64;
/// The longest text worth remembering as clean.
const CLEAN_MEMO_BYTES_MAX: usize = 128;

/// A stream under inspection.
pub struct StreamInspector {
    parser: StreamParser,
    lanes: Vec<Slot>,
    by_key: HashMap<LaneKey, usize>,
    queue: VecDeque<Held>,
    clean: HashSet<Box<[u8]>>,
    template: Option<Template>,
    usage: Usage,
    track: StreamTrack,
    observations: Vec<Observation>,
    shadow: Option<Action>,
    gathered: Gathered,
    /// What of the request's system prompt has come out.
    leak: Leak,
    action: Action,
    held_bytes: usize,
    /// Whether the stream could not be read and the policy lets it pass.
    passes: bool,
    /// The hashes of texts that are over and whose place another took.
    over: HashSet<u64>,
    hasher: RandomState,
    /// Whether the request hid values, which are put back; known from the first bytes on.
    restores: Option<bool>,
}

/// What became of the stream so far.
#[derive(Debug)]
pub enum Flow {
    /// It goes on.
    Continue,
    /// It cannot be read any further, and the policy lets it pass unread from here on.
    Open(Unreadable),
    /// It ends here: nothing after what was released may leave.
    Block(Option<Unreadable>),
}

impl StreamInspector {
    /// Returns an inspector at the begin of a stream.
    pub fn new(format: StreamFormat, event_bytes_max: usize) -> Self {
        Self {
            parser: StreamParser::new(format, event_bytes_max),
            lanes: Vec::new(),
            by_key: HashMap::new(),
            queue: VecDeque::new(),
            clean: HashSet::new(),
            template: None,
            usage: Usage::default(),
            track: StreamTrack::new(format),
            observations: Vec::new(),
            shadow: None,
            gathered: Gathered::default(),
            leak: Leak::default(),
            action: Action::Allow,
            held_bytes: 0,
            passes: false,
            over: HashSet::new(),
            hasher: RandomState::new(),
            restores: None,
        }
    }

    /// Takes the next bytes of the stream; what may leave is added to `out`.
    pub fn push(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        bytes: &[u8],
        out: &mut Vec<Cleared>,
    ) -> Flow {
        if self.passes {
            out.extend(Cleared::release(Action::Monitor, Bytes::copy_from_slice(bytes)));
            return Flow::Continue;
        }
        // What is masked in the answer itself is in the vault too, and is never put back.
        self.restores.get_or_insert(!vault.is_empty());
        let pieces = match self.parser.push(bytes) {
            Ok(pieces) => pieces,
            Err(fault) => return self.stop(Stop::Unreadable(fault.into()), inspector, out),
        };
        for piece in pieces {
            if let Err(stop) = self.take(inspector, vault, piece) {
                return self.stop(stop, inspector, out);
            }
            if let Flow::Block(unreadable) = self.release(out) {
                return Flow::Block(unreadable);
            }
            let limit = inspector.ruleset.limits.stream_hold_bytes_max;
            if self.held_bytes > limit {
                return self.stop(Unreadable::TooLarge(limit).into(), inspector, out);
            }
        }
        Flow::Continue
    }

    /// Ends the stream: everything is settled, and leaves or not.
    pub fn finish(&mut self, inspector: &Inspector<'_>, vault: &mut Vault, out: &mut Vec<Cleared>) -> Flow {
        if self.passes {
            return Flow::Continue;
        }
        let last = match self.parser.finish() {
            Ok(last) => last,
            Err(fault) => return self.stop(Stop::Unreadable(fault.into()), inspector, out),
        };
        if let Some(Err(stop)) = last.map(|piece| self.take(inspector, vault, piece)) {
            return self.stop(stop, inspector, out);
        }
        for slot in 0..self.lanes.len() {
            if let Err(stop) = self.end_lane(inspector, vault, slot) {
                return self.stop(stop, inspector, out);
            }
        }
        match self.release(out) {
            Flow::Continue if !self.queue.is_empty() => {
                self.stop(Unreadable::Unjudged.into(), inspector, out)
            }
            flow => flow,
        }
    }

    /// Returns the strictest action taken so far.
    pub fn action(&self) -> Action {
        self.action
    }

    /// Returns what the shadow policy would have done so far, where there is one.
    pub fn shadow(&self) -> Option<Action> {
        self.shadow
    }

    /// Takes the findings made so far.
    pub fn take_observations(&mut self) -> Vec<Observation> {
        std::mem::take(&mut self.observations)
    }

    /// Returns the token counts seen so far.
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Returns what the end of the stream must know of its begin.
    pub fn track(&self) -> &StreamTrack {
        &self.track
    }

    /// Returns how many bytes wait to be judged.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Returns how many bytes wait for the rest of their event.
    pub fn unread_bytes(&mut self) -> usize {
        self.parser.unread_bytes()
    }

    fn take(&mut self, inspector: &Inspector<'_>, vault: &mut Vault, piece: StreamPiece) -> Result<(), Stop> {
        self.held_bytes += piece.raw.len();
        let mut held = Held::new(piece);
        let known = self.template.as_ref().and_then(|template| template.text(&held));
        let taken = match known.filter(|(slot, string)| self.takes_piece(*slot, string.raw.len())) {
            Some((slot, string)) => self.read_known(inspector, vault, &mut held, slot, string),
            None => self.read_new(inspector, vault, &mut held),
        };
        self.queue.push_back(held);
        for slot in taken? {
            self.end_lane(inspector, vault, slot)?;
        }
        Ok(())
    }

    /// Feeds the text of an event that is known but for it.
    fn read_known(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
        slot: usize,
        string: JsonString,
    ) -> Result<SmallVec<[usize; 2]>, Stop> {
        let payload = held.payload.clone();
        let text = payload.get(string.raw.clone()).unwrap_or_default();
        self.lanes[slot].said = None;
        held.holds_only(slot, self.lanes[slot].fed, string);
        self.feed(inspector, vault, slot, text).map(|()| SmallVec::new())
    }

    /// Reads an event, and remembers its form where the next one may share it.
    fn read_new(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
    ) -> Result<SmallVec<[usize; 2]>, Stop> {
        let told = self.observations.len();
        let ended = self.read(inspector, vault, held)?;
        self.template = None;
        if ended.is_empty() && self.observations.len() == told {
            self.template = Template::of(held).filter(|it| !self.lanes[it.slot()].is_whole);
        }
        Ok(ended)
    }

    /// Reads one event and feeds its texts; returns the lanes it ends.
    fn read(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
    ) -> Result<SmallVec<[usize; 2]>, Stop> {
        self.scan_outside(inspector, vault, held)?;
        let payload = held.payload.clone();
        held.is_read = payload.trim_ascii().is_empty() || inspector.dialect.is_terminator(&payload);
        if payload.trim_ascii().is_empty() {
            return Ok(SmallVec::new());
        }
        if held.is_read {
            return Ok((0..self.lanes.len()).collect());
        }
        let event = held.piece.event.clone();
        if inspector.dialect.is_plain(event.as_deref()) {
            return self.scan_plain(inspector, vault, held);
        }
        let document = json::walk(&payload, &inspector.ruleset.limits.json()).map_err(Unreadable::from)?;
        inspector.dialect.check_keys(&payload, &document).map_err(Unreadable::from)?;
        self.usage.merge(Usage::read(inspector.dialect, &payload, &document));
        self.pin_tools(inspector, vault, &payload, &document)?;
        let mut suspects = Vec::new();
        let wanted = inspector.policy.looked_for(inspector.judged());
        // Between agents an event is a whole message, and is read as a whole body would be.
        let is_message = inspector.dialect.is_between_peers();
        inspector.ruleset.scanner.suspects(&payload, wanted, &mut suspects).map_err(Unreadable::from)?;
        let mut stop = None;
        for (at, string) in document.strings.iter().enumerate() {
            if let Some(key) = inspector.dialect.lane(event.as_deref(), &payload, &document, string) {
                let text = document.text(&payload, string);
                match self.continued(inspector, vault, held, (key, string), &text) {
                    // The rest of the event is read first: what stands before the match may only leave with it.
                    Err(Stop::Finding(found)) => drop(stop.get_or_insert(Stop::Finding(found))),
                    fed => fed?,
                }
                continue;
            }
            let raw = &payload[string.raw.clone()];
            let tells = || layer3::reads_alone(inspector.dialect.channel(&payload, &document, string));
            if is_message
                || layer3::has_words(raw) && tells()
                || touches(&suspects, &string.raw)
                || string.escaped
                || view::needs_views(raw)
                || restore::may_hold(vault, raw)
            {
                let is_suspect = touches(&suspects, &string.raw);
                self.scan_string(inspector, vault, held, (&document, at), is_suspect)?;
            }
        }
        self.scan_numbers(inspector, vault, held, &document)?;
        let ends = inspector.dialect.lane_ends(event.as_deref(), &payload, &document);
        held.copies.extend(inspector.dialect.copies(&payload, &document).into_iter().map(|(range, none)| {
            Edit { range: held.piece.raw_range(range), replacement: none.as_bytes().to_vec() }
        }));
        held.document = Some(document);
        held.is_read = true;
        stop.map_or(Ok(()), Err)?;
        Ok(self.ended_by(held, &ends))
    }

    /// Compares the tools that an event offers with those that its caller knows.
    fn pin_tools(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        payload: &[u8],
        document: &json::Document,
    ) -> Result<(), Stop> {
        if inspector.pins.is_none() {
            return Ok(());
        }
        let mut sheet = Sheet::new(inspector, vault);
        std::mem::swap(sheet.gathered(), &mut self.gathered);
        body::pin_tools(&mut sheet, payload, document);
        std::mem::swap(sheet.gathered(), &mut self.gathered);
        let (_, blocked) = self.judge(inspector, vault, &[], Channel::ToolDefinition, |_| None);
        if blocked.is_some() { Err(Stop::Alone) } else { Ok(()) }
    }

    /// Scans a text that no later event continues, under the name of its member where that tells a secret.
    fn scan_alone(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        (name, text): (&[u8], &[u8]),
        channel: Channel,
    ) -> Result<Vec<Masked>, Stop> {
        if (inspector.expired)() {
            return Err(Unreadable::Late.into());
        }
        if name.is_empty() && self.clean.contains(text) {
            return Ok(Vec::new());
        }
        let (ruleset, is_message) = (inspector.ruleset, inspector.dialect.is_between_peers());
        let wanted = inspector.policy.looked_for(inspector.judged());
        let findings = under(name, text, |text| match is_message {
            true => ruleset.scanner.scan_spelt(text, wanted),
            false => ruleset.scanner.scan(text, wanted),
        });
        let mut findings = findings.map_err(Unreadable::from)?;
        if is_message || layer3::reads_alone(channel) {
            let judge = layer3::Judge { ruleset, wanted, trial: inspector.trial };
            findings.extend(layer3::find(judge, text, (inspector.judged(), channel), &findings));
        }
        if findings.is_empty() && !restore::may_hold(vault, text) {
            // What a model finds depends on whose words they are, which the memory does not know.
            if !is_message
                && name.is_empty()
                && !layer3::reads_alone(channel)
                && text.len() <= CLEAN_MEMO_BYTES_MAX
                && self.clean.len() < CLEAN_MEMO_MAX
            {
                self.clean.insert(text.into());
            }
            return Ok(Vec::new());
        }
        let (mut masks, blocked) = self.judge(inspector, vault, &findings, channel, |range| text.get(range));
        masks.extend(values(restore::find(vault, text, inside(channel, text), true), 0));
        if blocked.is_some() { Err(Stop::Alone) } else { Ok(fitted(disjoint(masks), text, channel)) }
    }

    /// Judges findings; returns the masks, and where the first blocking one begins.
    fn judge<'t>(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        findings: &[Finding],
        channel: Channel,
        value: impl Fn(Range<usize>) -> Option<&'t [u8]>,
    ) -> (Vec<Masked>, Option<usize>) {
        let mut sheet = Sheet::new(inspector, vault);
        std::mem::swap(sheet.gathered(), &mut self.gathered);
        let masks = sheet.judge(findings, channel, value);
        sheet.weigh();
        std::mem::swap(sheet.gathered(), &mut self.gathered);
        let shadow = sheet.shadow();
        let observations = sheet.take_observations();
        let blocks = |observation: &&Observation| observation.action == Action::Block;
        // A rule may be about what was found long before; it ends the text at what made it fire.
        let latest = findings.iter().map(|finding| finding.value.start).min().unwrap_or_default();
        let from = |seen: &Observation| if seen.layer == Layer::L2Rules { latest } else { seen.value.start };
        let blocked = observations.iter().filter(blocks).map(from).min();
        self.action =
            observations.iter().map(|observation| observation.action).fold(self.action, Action::max);
        self.shadow = self.shadow.max(shadow);
        self.observations.extend(observations);
        (masks, blocked)
    }
}
