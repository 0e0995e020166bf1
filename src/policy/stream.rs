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
mod attached;
mod called;
mod continued;
mod ending;
mod held;
mod joined;
mod model;
mod names;
mod outside;
mod read;
mod release;
mod remark;
mod sequel;
mod slot;
mod stop;
mod stray;
mod template;

use std::collections::HashMap;
use std::collections::HashSet;
use std::collections::VecDeque;
use std::hash::RandomState;
use std::ops::Range;

use bytes::Bytes;

use self::called::Callings;
use self::ending::Answering;
use self::held::Held;
use self::remark::Remarks;
use self::sequel::Parts;
use self::slot::Slot;
use self::slot::values;
use self::stop::Stop;
use self::template::Template;
use crate::llm::dialect::Channel;
use crate::llm::dialect::LaneKey;
use crate::llm::dialect::Sequel;
use crate::llm::refusal::StreamTrack;
use crate::llm::stream::StreamFormat;
use crate::llm::stream::StreamParser;
use crate::llm::stream::StreamPiece;
use crate::llm::usage::Usage;
use crate::policy::decision::Action;
use crate::policy::decision::Cleared;
use crate::policy::decision::StreamBlock;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::Observation;
use crate::policy::inspect::Unreadable;
use crate::policy::inspect::layer2;
use crate::policy::inspect::layer2::Gathered;
use crate::policy::inspect::layer3;
use crate::policy::inspect::names as tagged;
use crate::policy::inspect::shadow::Foreseen;
use crate::policy::inspect::text::Masked;
use crate::policy::inspect::text::Sheet;
use crate::policy::inspect::text::disjoint;
use crate::policy::inspect::text::fitted;
use crate::policy::inspect::text::inside;
use crate::policy::inspect::text::under;
use crate::redact::restore;
use crate::redact::token::Vault;
use crate::scan::classifier::Spellings;
use crate::scan::threat::Finding;
use crate::scan::threat::Layer;
use crate::scan::trace::Leak;

/// Short texts that were found clean and are likely to come again in the next event.
const CLEAN_MEMO_MAX: usize = 64;
/// The longest text worth remembering as clean.
const CLEAN_MEMO_BYTES_MAX: usize = 128;

/// A stream under inspection.
pub struct StreamInspector {
    parser: StreamParser,
    lanes: Vec<Slot>,
    by_key: HashMap<LaneKey, usize>,
    /// Which lane has the last of the texts that follow one another.
    sequels: HashMap<Sequel, usize>,
    parts: Parts,
    remarks: Remarks,
    queue: VecDeque<Held>,
    clean: HashSet<Box<[u8]>>,
    template: Option<Template>,
    usage: Usage,
    track: StreamTrack,
    observations: Vec<Observation>,
    shadow: Foreseen,
    gathered: Gathered,
    /// The tools that are called.
    called: Callings,
    /// What of the request's system prompt has come out.
    leak: Leak,
    action: Action,
    held_bytes: usize,
    /// Whether the stream could not be read and the policy lets it pass.
    passes: bool,
    /// Whether it goes on after the end of an answer with the next: its messages come whole.
    is_conversation: bool,
    /// Whether an answer of it ended that tells what it used.
    is_counted: bool,
    answering: Answering,
    /// The hashes of texts that are over and whose place another took.
    over: HashSet<u64>,
    hasher: RandomState,
    /// Whether the request hid values, which are put back; known from the first bytes on, or with each message.
    restores: Option<bool>,
    /// How many bytes of sound and images passed unread.
    opaque_bytes: usize,
    /// What became of each document that came, in one word.
    documents: Vec<&'static str>,
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
            sequels: HashMap::new(),
            parts: Parts::default(),
            remarks: Remarks::default(),
            queue: VecDeque::new(),
            clean: HashSet::new(),
            template: None,
            usage: Usage::default(),
            track: StreamTrack::new(format),
            observations: Vec::new(),
            shadow: Foreseen::default(),
            gathered: Gathered::default(),
            called: Callings::default(),
            leak: Leak::default(),
            action: Action::Allow,
            held_bytes: 0,
            passes: false,
            is_conversation: false,
            is_counted: false,
            answering: Answering::default(),
            over: HashSet::new(),
            hasher: RandomState::new(),
            restores: None,
            opaque_bytes: 0,
            documents: Vec::new(),
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
        if let Some(format) = self.parser.take_reframed() {
            self.track = StreamTrack::new(format);
        }
        if inspector.policy.stream_block == StreamBlock::Graceful {
            self.track.follow_items();
        }
        for piece in pieces {
            match self.offer(inspector, vault, piece, out) {
                Flow::Continue => {}
                end => return end,
            }
        }
        Flow::Continue
    }

    /// Takes the next message of a stream whose messages come whole; what may leave is added to `out`, message by message.
    pub fn message(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        message: Bytes,
        out: &mut Vec<Cleared>,
    ) -> Flow {
        if self.passes {
            out.extend(Cleared::release(Action::Monitor, message));
            return Flow::Continue;
        }
        self.restores = Some(!vault.is_empty());
        self.is_conversation = true;
        let data = smallvec::smallvec![0..message.len()];
        let piece = StreamPiece { raw: message, event: None, data, terminated: true, frame: None };
        self.offer(inspector, vault, piece, out)
    }

    /// Takes the next piece; what may leave is added to `out`.
    fn offer(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        piece: StreamPiece,
        out: &mut Vec<Cleared>,
    ) -> Flow {
        if let Err(stop) = self.take(inspector, vault, piece) {
            return self.stop(stop, inspector, out);
        }
        if let Flow::Block(unreadable) = self.release(out) {
            return Flow::Block(unreadable);
        }
        let limit = inspector.ruleset.limits.stream_hold_bytes_max;
        match self.held_bytes > limit {
            true => self.stop(Unreadable::TooLarge(limit).into(), inspector, out),
            false => Flow::Continue,
        }
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
    pub fn shadow(&self) -> &Foreseen {
        &self.shadow
    }

    /// Takes the findings made so far.
    pub fn take_observations(&mut self) -> Vec<Observation> {
        std::mem::take(&mut self.observations)
    }

    /// Takes how many bytes passed unread, because they are declared to be sound or images and hold no text.
    pub fn take_opaque_bytes(&mut self) -> usize {
        std::mem::take(&mut self.opaque_bytes)
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
        self.held_bytes += piece.held_bytes();
        let mut held = Held::new(piece);
        let known = self.template.as_ref().and_then(|template| template.text(&held));
        let taken =
            match known.filter(|(slot, string)| self.takes_piece(*slot, &held.payload[string.raw.clone()])) {
                Some((slot, string)) => self.read_known(inspector, vault, &mut held, slot, string),
                None => self.read_new(inspector, vault, &mut held),
            };
        self.queue.push_back(held);
        for slot in taken? {
            self.end_lane(inspector, vault, slot)?;
        }
        Ok(())
    }

    /// Scans a text that no later event continues, under the name of its member where that tells a secret.
    fn scan_alone(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        (name, text): (&[u8], &[u8]),
        (channel, tool): (Channel, Option<Box<str>>),
    ) -> Result<Vec<Masked>, Stop> {
        if (inspector.expired)() {
            return Err(Unreadable::Late.into());
        }
        let (ruleset, is_message) = (inspector.ruleset, inspector.dialect.is_between_peers());
        // What a model finds depends on whose words they are, which the memory does not know.
        let is_model_asked = is_message
            || layer3::reads_alone(channel)
            || names::wanted(inspector).is_some() && tagged::reads(channel, text);
        let may_be_known = name.is_empty() && !is_model_asked && text.len() <= CLEAN_MEMO_BYTES_MAX;
        if may_be_known && self.clean.contains(text) {
            return Ok(Vec::new());
        }
        let wanted = inspector.policy.looked_for(inspector.judged());
        let findings = under(name, text, |text| match is_message {
            true => ruleset.scanner.scan_spelt(text, wanted).map(|searched| searched.findings),
            false => ruleset.scanner.scan(text, wanted),
        });
        let mut findings = findings.map_err(Unreadable::from)?;
        if is_message || layer3::reads_alone(channel) {
            let (trial, expired) = (inspector.trial, inspector.expired);
            let judge = layer3::Judge { ruleset, wanted, trial, expired };
            let spellings = if is_message { Spellings::All } else { Spellings::Unread };
            let read = layer3::find(judge, text, (inspector.judged(), channel), spellings, &mut findings);
            read.map_err(Unreadable::from)?;
        }
        let named = tagged::find(ruleset, wanted, text, channel, inspector.expired);
        findings.extend(named.map_err(Unreadable::from)?);
        if findings.is_empty() && !restore::may_hold(vault, text) {
            if may_be_known && self.clean.len() < CLEAN_MEMO_MAX {
                self.clean.insert(text.into());
            }
            return Ok(Vec::new());
        }
        let (mut masks, blocked) =
            self.judge(inspector, vault, &findings, (channel, tool), |range| text.get(range));
        masks.extend(values(restore::find(vault, text, inside(text)), 0));
        if blocked.is_some() { Err(Stop::Alone) } else { Ok(fitted(disjoint(masks), text)) }
    }

    /// Judges findings in a text of a channel, and of a tool where it is one's; returns the masks, and where the first
    /// blocking one begins.
    fn judge<'t>(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        findings: &[Finding],
        (channel, tool): (Channel, Option<Box<str>>),
        value: impl Fn(Range<usize>) -> Option<&'t [u8]>,
    ) -> (Vec<Masked>, Option<usize>) {
        let mut sheet = Sheet::new(inspector, vault);
        std::mem::swap(sheet.gathered(), &mut self.gathered);
        let told = sheet.gathered().len();
        let masks = sheet.judge(findings, channel, value);
        sheet.gathered().place(told, &layer2::of_answer(tool));
        sheet.weigh();
        std::mem::swap(sheet.gathered(), &mut self.gathered);
        let shadow = sheet.take_shadow();
        let observations = sheet.take_observations();
        let blocks = |observation: &&Observation| observation.action == Action::Block;
        // A rule may be about what was found long before; it ends the text at what made it fire.
        let latest = findings.iter().map(|finding| finding.value.start).min().unwrap_or_default();
        let from = |seen: &Observation| if seen.layer == Layer::L2Rules { latest } else { seen.value.start };
        let blocked = observations.iter().filter(blocks).map(from).min();
        self.action =
            observations.iter().map(|observation| observation.action).fold(self.action, Action::max);
        self.shadow.merge(shadow);
        self.observations.extend(observations);
        (masks, blocked)
    }
}
