//! Reads one event: whose its texts are, and what has to be looked at.

use std::hash::BuildHasher;

use smallvec::SmallVec;

use super::StreamInspector;
use super::held::Held;
use super::names;
use super::stop::Stop;
use super::template::Template;
use crate::llm::dialect::Channel;
use crate::llm::dialect::LaneKey;
use crate::llm::dialect::LaneKind;
use crate::llm::json;
use crate::llm::json::Halves;
use crate::llm::json::JsonProblem;
use crate::llm::json::JsonString;
use crate::llm::stream::StreamFormat;
use crate::llm::usage::Usage;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::Unreadable;
use crate::policy::inspect::attached::Brought;
use crate::policy::inspect::body;
use crate::policy::inspect::layer3;
use crate::policy::inspect::names as tagged;
use crate::policy::inspect::text::Sheet;
use crate::redact::restore;
use crate::redact::splice::Edit;
use crate::redact::token::Vault;
use crate::scan::classifier::reading::may_say;
use crate::scan::view;

impl StreamInspector {
    /// Feeds the text of an event that is known but for it.
    pub(super) fn read_known(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
        slot: usize,
        string: JsonString,
    ) -> Result<SmallVec<[usize; 2]>, Stop> {
        let payload = held.payload.clone();
        let text = payload.get(string.raw.clone()).unwrap_or_default();
        let hash = (self.lanes[slot].kind == LaneKind::Either).then(|| self.hasher.hash_one(text));
        let entry = &mut self.lanes[slot];
        (entry.said, entry.grown) = (hash.map(|hash| (text.len(), hash)), 0);
        held.holds_only(slot, self.lanes[slot].fed, string);
        self.feed(inspector, vault, slot, text).map(|()| SmallVec::new())
    }

    /// Reads an event, and remembers its form where the next one may share it.
    pub(super) fn read_new(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
    ) -> Result<SmallVec<[usize; 2]>, Stop> {
        let told = self.observations.len();
        let ended = self.read(inspector, vault, held)?;
        self.template = None;
        if ended.is_empty() && self.observations.len() == told {
            self.template = Template::of(held).filter(|it| self.is_plain(it.slot()));
        }
        Ok(ended)
    }

    /// Tells whether a piece of a lane is read no otherwise than as one.
    fn is_plain(&self, slot: usize) -> bool {
        let entry = &self.lanes[slot];
        let is_other =
            matches!(entry.kind, LaneKind::Messages | LaneKind::Joined | LaneKind::Stray | LaneKind::Plain);
        !entry.is_whole && !is_other
    }

    /// Reads one event and feeds its texts; returns the lanes it ends. NUL is in no text but in one of wide characters, which
    /// a client may know how to read.
    fn read(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
    ) -> Result<SmallVec<[usize; 2]>, Stop> {
        if self.track.format() != StreamFormat::AmazonEvents && held.piece.raw.contains(&0) {
            return Err(Unreadable::NotText.into());
        }
        self.scan_outside(inspector, vault, held)?;
        let payload = held.payload.clone();
        held.is_read = inspector.dialect.is_terminator(&payload);
        if held.is_read {
            return Ok((0..self.lanes.len()).collect());
        }
        let event = held.piece.event.clone();
        if inspector.dialect.is_plain(event.as_deref()) {
            return self.scan_plain(inspector, vault, held);
        }
        let walked = json::walk_event(&payload, &inspector.ruleset.limits.json());
        if let Some(key) = self.plain_lane(inspector, held, &walked) {
            return self.say_plain(inspector, vault, held, key);
        }
        if payload.trim_ascii().is_empty() {
            held.is_read = true;
            return Ok(SmallVec::new());
        }
        let document = walked.map_err(Unreadable::from)?;
        inspector.dialect.check_keys(&payload, &document).map_err(Unreadable::from)?;
        let is_counted = self.count(Usage::read(inspector.dialect, &payload, &document));
        self.pin_tools(inspector, vault, &payload, &document)?;
        self.note_called(inspector, (&payload, &document, event.as_deref()));
        self.trace_calls(inspector, vault, (&payload, &document, event.as_deref()))?;
        let stop = self.read_strings(inspector, vault, held, (&payload, &document, event.as_deref()))?;
        if stop.is_none() {
            self.scan_borders(inspector, vault, held, &document)?;
        }
        self.scan_numbers(inspector, vault, held, &document)?;
        self.scan_documents(inspector, vault, std::mem::take(&mut held.attached))?;
        let ends = inspector.dialect.lane_ends(event.as_deref(), &payload, &document);
        self.end_counted(is_counted, &ends);
        held.copies.extend(inspector.dialect.copies(&payload, &document).into_iter().map(|(range, none)| {
            Edit { range: held.piece.raw_range(range), replacement: none.as_bytes().to_vec() }
        }));
        held.document = Some(document);
        held.is_read = true;
        stop.map_or(Ok(()), Err)?;
        if self.is_body(inspector, held) {
            self.begin_anew();
            return Ok((0..self.lanes.len()).collect());
        }
        let ended = self.ended_by(inspector, held, &ends);
        let is_said = held.segments.iter().any(|segment| !segment.text.is_empty());
        if self.is_conversation && ends.iter().any(|end| end.is_of_all(is_said)) {
            self.begin_anew();
        }
        Ok(ended)
    }

    /// Tells whether an event is a body of its own. One that goes on with what comes in pieces is none, whatever it says.
    fn is_body(&self, inspector: &Inspector<'_>, held: &Held) -> bool {
        let mut kinds = held.segments.iter().map(|segment| self.lanes[segment.slot].kind);
        let is_said = held.document.as_ref().is_some_and(|it| inspector.dialect.is_body(&held.payload, it));
        is_said && kinds.all(|kind| matches!(kind, LaneKind::Either | LaneKind::Stray))
    }

    /// Feeds the texts of an event that go on over events, and scans the others where something may be in them; returns
    /// what stopped a text. The rest of the event is read then, too: what stands before the match may only leave with it.
    fn read_strings(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
        (payload, document, event): (&[u8], &json::Document, Option<&str>),
    ) -> Result<Option<Stop>, Stop> {
        let wanted = inspector.policy.looked_for(inspector.judged());
        // Between agents an event is a whole message, and is read as a whole body would be.
        let is_message = inspector.dialect.is_between_peers();
        let suspects = inspector.ruleset.scanner.suspects(payload, wanted).map_err(Unreadable::from)?;
        let mut stop = None;
        for (at, string) in document.strings.iter().enumerate() {
            let brought = Brought::of(inspector, event, (payload, document), string).unwrap_or_default();
            held.attached.extend(brought.attached);
            if brought.is_file || inspector.dialect.is_sound(event, payload, document, string) {
                self.pass_sound(string.raw.len());
                continue;
            }
            let lane = inspector.dialect.lane(event, payload, document, string);
            let may_be_parted = lane.as_ref().is_some_and(|key| may_be_parted(inspector, key));
            if string.escaped && !may_be_parted && Halves::of(payload, string) != Halves::default() {
                return Err(lone(string).into());
            }
            if let Some(key) = lane {
                self.note_beside(&key, (payload, document), string);
                let (text, told) = (document.text(payload, string), self.observations.len());
                if key.kind == LaneKind::Either {
                    self.scan_begin(inspector, vault, held, (&key, string), &text)?;
                }
                if key.kind == LaneKind::Messages {
                    let is_suspect = suspects.touch(&string.raw);
                    self.scan_string(inspector, vault, held, (document, at), is_suspect)?;
                }
                match self.said(inspector, vault, held, (key, string), (&text, told)) {
                    Err(Stop::Finding(found)) => drop(stop.get_or_insert(Stop::Finding(found))),
                    fed => fed?,
                }
                continue;
            }
            let told = self.observations.len();
            let raw = &payload[string.raw.clone()];
            let channel = || inspector.dialect.channel(payload, document, string);
            if is_message
                || names::wanted(inspector).is_some() && tagged::reads(channel(), raw)
                || may_say(raw) && layer3::reads_alone(channel())
                || suspects.touch(&string.raw)
                || string.escaped
                || view::needs_views(raw)
                || restore::may_hold(vault, raw)
            {
                let is_suspect = suspects.touch(&string.raw);
                self.scan_string(inspector, vault, held, (document, at), is_suspect)?;
            }
            if let Some(key) = inspector.dialect.stray(event, payload, document, string) {
                self.note_beside(&key, (payload, document), string);
                let text = document.text(payload, string);
                match self.stray(inspector, vault, held, (key, string), (&text, told)) {
                    // The begin of a message would be taken for all of it.
                    Err(Stop::Finding(_)) if inspector.dialect.asks_back() => return Err(Stop::Alone),
                    Err(Stop::Finding(found)) => drop(stop.get_or_insert(Stop::Finding(found))),
                    fed => fed?,
                }
            }
        }
        Ok(stop)
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
        let (_, blocked) = self.judge(inspector, vault, &[], (Channel::ToolDefinition, None), |_| None);
        if blocked.is_some() { Err(Stop::Alone) } else { Ok(()) }
    }
}

/// Tells whether pieces of a lane's text may be parted within a character.
fn may_be_parted(inspector: &Inspector<'_>, key: &LaneKey) -> bool {
    matches!(key.kind, LaneKind::Pieces | LaneKind::Brief) && inspector.dialect.joined(key).is_empty()
}

/// Returns the fault of a string that has half of a character.
pub(super) fn lone(string: &JsonString) -> Unreadable {
    JsonProblem::LoneSurrogate.at(string.raw.start).into()
}
