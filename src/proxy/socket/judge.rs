//! What is said on a socket, judged: message by message from the caller, in lanes from the provider.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytes::BytesMut;

use super::super::Gateway;
use super::super::context::Exchange;
use super::super::context::Passage;
use super::super::context::Service;
use super::super::gate::GateFault;
use super::super::gate::Reserved;
use super::super::reject::Rejection;
use super::super::scope::is_limited;
use super::super::stream::Piece;
use super::asks::Asks;
use super::ear::Ear;
use super::queue::Queue;
use crate::llm::media::Media;
use crate::llm::stream::StreamFormat;
use crate::llm::websocket::Control;
use crate::llm::websocket::Message;
use crate::llm::websocket::Said;
use crate::llm::websocket::Side;
use crate::llm::websocket::SocketFault;
use crate::policy::decision::Direction;
use crate::policy::decision::FailMode;
use crate::policy::inspect::Observation;
use crate::policy::inspect::Unreadable;
use crate::policy::inspect::prompt::Prompt;
use crate::policy::stream::Flow;
use crate::policy::stream::StreamInspector;
use crate::scan::trace::Guarded;

/// The most findings of one socket that are recorded, in each direction; all of them are acted upon.
const RECORDED_MAX: usize = 10_000;
/// How many messages that tell the model something as its operator are guarded; of more, the latest.
const INSTRUCTIONS_MAX: usize = 8;

/// A socket under way.
pub(super) struct Line {
    from_caller: Ear,
    from_provider: Ear,
    inspector: StreamInspector,
    /// What the provider said and waits.
    waiting: Queue,
    instructions: Instructions,
    asks: Asks,
    /// When the caller last said something, on the monotonic clock.
    asked_at: Duration,
    /// Its share of the room of all.
    room: Reserved,
}

/// What the caller told the model as its operator, and what it brought that is tainted, message by message: the latest last.
#[derive(Default)]
struct Instructions {
    told: VecDeque<Arc<Guarded>>,
    tainted: Prompt,
}

/// What the provider said, in its lanes.
pub(super) struct Lanes<'a> {
    pub(super) inspector: &'a mut StreamInspector,
    waiting: &'a mut Queue,
    pub(super) asks: &'a mut Asks,
    pub(super) asked_at: Duration,
}

/// What may leave, and whether the socket goes on.
#[derive(Default)]
pub(super) struct Carried {
    pub(super) to_provider: Bytes,
    pub(super) to_caller: Bytes,
    pub(super) refused: Option<Rejection>,
}

impl Line {
    /// Returns a socket on which nothing was said yet, which takes from `room` what it holds.
    pub(super) fn new(exchange: &Exchange, passage: &Passage, room: Reserved) -> Self {
        let limit = exchange.rules.limits.stream_event_bytes_max;
        let passes = passage.route().websocket_uninspected;
        Self {
            from_caller: Ear::new(Side::Caller, limit, passes),
            from_provider: Ear::new(Side::Provider, limit, passes),
            // Messages come whole: there is nothing to cut.
            inspector: StreamInspector::new(StreamFormat::Ndjson, limit),
            waiting: Queue::default(),
            instructions: Instructions::default(),
            asks: Asks::default(),
            asked_at: exchange.began,
            room,
        }
    }

    /// Takes room for what it holds now: messages that are not whole, and those that wait, as they came and as they are
    /// judged.
    ///
    /// # Errors
    /// All sockets, streams and bodies together hold as much as they may.
    pub(super) fn take_room(&mut self) -> Result<(), GateFault> {
        let unread = self.from_caller.unread_bytes() + self.from_provider.unread_bytes();
        let held = self.waiting.bytes() + self.inspector.held_bytes() + self.instructions.tainted_bytes();
        self.room.hold(unread + held)
    }

    /// Tells whether one of the two has said farewell: what happens to the connections after that is no fault.
    pub(super) fn is_closing(&self) -> bool {
        self.from_caller.is_closed || self.from_provider.is_closed
    }

    /// Notes that something to the provider was given up before all of it was written.
    pub(super) fn cut_to_provider(&mut self) {
        self.from_caller.is_cut = true;
    }

    /// Notes that something to the caller was given up before all of it was written.
    pub(super) fn cut_to_caller(&mut self) {
        self.from_provider.is_cut = true;
    }

    /// Tells whether the provider may be sent a frame of ours.
    pub(super) fn may_tell_provider(&self) -> bool {
        self.from_caller.may_be_followed()
    }

    /// Tells whether the caller may be sent a frame of ours.
    pub(super) fn may_tell_caller(&self) -> bool {
        self.from_provider.may_be_followed()
    }

    /// Notes what was done about the provider's words.
    pub(super) fn note_heard(&self, exchange: &mut Exchange) {
        exchange.acted(self.inspector.action());
        exchange.outcome.shadow.merge(self.inspector.shadow().clone());
        // What was said of an answer that did not come to its end.
        exchange.outcome.usage.merge(self.inspector.usage().clone());
    }
}

impl Instructions {
    /// Guards what a message told the model as its operator, beside what others told it.
    fn add(&mut self, exchange: &mut Exchange, inspector: &mut StreamInspector) {
        let (told, prompt) = exchange.take_guarded();
        let told = told.filter(|it| !self.told.iter().any(|known| Arc::ptr_eq(known, it)));
        let (is_told, is_tainted) = (told.is_some(), self.tainted.taint_as(&prompt));
        if !is_told && !is_tainted {
            return;
        }
        self.told.extend(told);
        let before = self.told.len().saturating_sub(INSTRUCTIONS_MAX);
        self.told.drain(..before);
        let all = self.told.iter().cloned().chain(self.tainted.tainted()).collect();
        exchange.guarded = Some(Arc::new(Guarded::several(all)));
        // Of instructions that stay, what was told stays told.
        inspector.guard_anew(if is_told { 0 } else { self.told.len() });
    }

    /// Returns how many bytes what is tainted takes.
    fn tainted_bytes(&self) -> usize {
        self.tainted.tainted_bytes()
    }
}

impl Gateway {
    /// Judges what the caller said.
    pub(super) fn caller_said(
        &self,
        exchange: &mut Exchange,
        passage: &Passage,
        line: &mut Line,
        bytes: &[u8],
    ) -> Carried {
        let mut out = BytesMut::new();
        line.asked_at = self.clock.monotonic();
        let Line { from_caller, inspector, instructions, asks, .. } = line;
        let heard = from_caller.hear(bytes, &mut out, |said, out| {
            out.extend_from_slice(&self.caller_message(exchange, passage, asks, said)?);
            instructions.add(exchange, inspector);
            Ok(())
        });
        let heard = self.heard((exchange, passage), heard, Rejection::UnreadableRequest, |_| Ok(()));
        let heard = heard.map(|passes| passes.then(|| out.extend_from_slice(&from_caller.pass())));
        Carried { to_provider: out.freeze(), refused: heard.err(), ..Carried::default() }
    }

    /// Judges what the provider said.
    pub(super) fn provider_said(
        &self,
        exchange: &mut Exchange,
        passage: &Passage,
        line: &mut Line,
        bytes: &[u8],
    ) -> Carried {
        let mut out = BytesMut::new();
        let Line { from_provider, inspector, waiting, asks, asked_at, .. } = line;
        let mut lanes = Lanes { inspector, waiting, asks, asked_at: *asked_at };
        let heard = from_provider.hear(bytes, &mut out, |said, out| {
            self.provider_message(exchange, passage, &mut lanes, said, out)
        });
        let heard = self.heard((exchange, passage), heard, Rejection::UnreadableResponse, |exchange| {
            self.run(exchange, passage, &mut lanes, Piece::End, &mut out)
        });
        let heard = heard.map(|passes| passes.then(|| out.extend_from_slice(&from_provider.pass())));
        Carried { to_caller: out.freeze(), refused: heard.err(), ..Carried::default() }
    }

    /// Decides about what was heard of one side; returns whether everything from here on passes unread, once what waits
    /// is settled. Where a budget pays, or a key is limited, nothing does: what is not read is not known.
    fn heard(
        &self,
        (exchange, passage): (&mut Exchange, &Passage),
        heard: Result<Option<SocketFault>, Rejection>,
        refused: fn(Unreadable) -> Rejection,
        settle: impl FnOnce(&mut Exchange) -> Result<(), Rejection>,
    ) -> Result<bool, Rejection> {
        let Some(fault) = heard? else { return Ok(false) };
        self.pass_or_refuse(passage, fault.into(), refused)?;
        if self.is_budgeted(exchange) || is_limited(exchange) {
            return Err(refused(fault.into()));
        }
        settle(exchange).map(|()| true)
    }

    /// Settles what waits when the provider says nothing more.
    pub(super) fn settle(&self, exchange: &mut Exchange, passage: &Passage, line: &mut Line) -> Carried {
        let mut out = BytesMut::new();
        let Line { inspector, waiting, asks, asked_at, .. } = line;
        let mut lanes = Lanes { inspector, waiting, asks, asked_at: *asked_at };
        let ended = self.run(exchange, passage, &mut lanes, Piece::End, &mut out);
        Carried { to_caller: out.freeze(), refused: ended.err(), ..Carried::default() }
    }

    /// Decides about what cannot be read.
    fn pass_or_refuse(
        &self,
        passage: &Passage,
        unreadable: Unreadable,
        refused: fn(Unreadable) -> Rejection,
    ) -> Result<(), Rejection> {
        self.count_unreadable(Some(&unreadable));
        match passage.policy.fail_mode {
            FailMode::Closed => Err(refused(unreadable)),
            FailMode::Open => Ok(()),
        }
    }

    fn caller_message(
        &self,
        exchange: &mut Exchange,
        passage: &Passage,
        asks: &mut Asks,
        said: Said,
    ) -> Result<Bytes, Rejection> {
        match said {
            Said::Message(message) => {
                self.check_message_scope(exchange, &message)?;
                let known = exchange.outcome.asked.text_bytes;
                let left = self.alone(exchange, passage, Direction::Request, &message)?;
                self.note_asked(exchange, asks, &message, known);
                Ok(left)
            }
            Said::Ping(control) | Said::Close(control) => {
                self.control(exchange, passage, Direction::Request, &control)?;
                Ok(control.raw)
            }
        }
    }

    fn provider_message(
        &self,
        exchange: &mut Exchange,
        passage: &Passage,
        lanes: &mut Lanes<'_>,
        said: Said,
        out: &mut BytesMut,
    ) -> Result<(), Rejection> {
        match said {
            Said::Message(message) if runs(exchange, &message) => {
                let payload = message.payload.clone();
                lanes.waiting.push_running(message);
                self.run(exchange, passage, lanes, Piece::Message(payload), out)?;
                self.ensure_room(exchange, passage, lanes, out)?;
                self.count_answer(exchange, lanes);
                Ok(())
            }
            Said::Message(message) => {
                let judged = self.alone(exchange, passage, Direction::Response, &message)?;
                lanes.waiting.push_judged(judged);
                lanes.waiting.release(Vec::new(), out)?;
                self.ensure_room(exchange, passage, lanes, out)
            }
            // Nobody waits with these for a word under way.
            Said::Ping(control) => {
                self.control(exchange, passage, Direction::Response, &control)?;
                out.extend_from_slice(&control.raw);
                Ok(())
            }
            Said::Close(control) => {
                self.run(exchange, passage, lanes, Piece::End, out)?;
                self.control(exchange, passage, Direction::Response, &control)?;
                out.extend_from_slice(&control.raw);
                Ok(())
            }
        }
    }

    /// Judges the next message of the provider in its lanes, or their end; adds what may leave.
    fn run(
        &self,
        exchange: &mut Exchange,
        passage: &Passage,
        lanes: &mut Lanes<'_>,
        piece: Piece,
        out: &mut BytesMut,
    ) -> Result<(), Rejection> {
        let Lanes { inspector, waiting, .. } = lanes;
        let (cleared, flow) =
            sealed(exchange, |exchange| self.judge_piece(exchange, passage, inspector, piece));
        note(&mut exchange.outcome.response, inspector.take_observations());
        self.telemetry.metrics.opaque(inspector.take_opaque_bytes());
        self.telemetry.metrics.documents(&inspector.take_documents());
        waiting.release(cleared, out)?;
        match flow {
            Flow::Continue => Ok(()),
            Flow::Open(unreadable) => {
                self.count_unreadable(Some(&unreadable));
                if self.is_budgeted(exchange) {
                    // It would pass unread from here on, and what it is may be an answer.
                    exchange.outcome.service = Service::Untold;
                    return Err(Rejection::UnreadableResponse(unreadable));
                }
                Ok(())
            }
            Flow::Block(None) => Err(Rejection::ResponseBlocked),
            Flow::Block(Some(unreadable)) => {
                self.count_unreadable(Some(&unreadable));
                Err(Rejection::UnreadableResponse(unreadable))
            }
        }
    }

    /// Makes sure that no more waits than may; where the policy fails open, what waits is settled as if it were all.
    fn ensure_room(
        &self,
        exchange: &mut Exchange,
        passage: &Passage,
        lanes: &mut Lanes<'_>,
        out: &mut BytesMut,
    ) -> Result<(), Rejection> {
        let limit = exchange.rules.limits.stream_hold_bytes_max;
        if lanes.waiting.bytes() <= limit {
            return Ok(());
        }
        self.pass_or_refuse(passage, Unreadable::TooLarge(limit), Rejection::UnreadableResponse)?;
        self.run(exchange, passage, lanes, Piece::End, out)
    }

    /// Judges one message as a whole body is judged; returns the frames that may leave.
    fn alone(
        &self,
        exchange: &mut Exchange,
        passage: &Passage,
        direction: Direction,
        message: &Message,
    ) -> Result<Bytes, Rejection> {
        let media = match message.is_text {
            _ if holds_json(message) => Media::Json,
            true => Media::Text,
            false => Media::Binary,
        };
        let left = self.judged(exchange, passage, direction, (message.payload.clone(), media))?;
        Ok(if left == message.payload { message.raw.clone() } else { message.with(&left) })
    }

    /// Judges what a control frame carries. It is the sender's own and comes back to it: it is never rewritten.
    fn control(
        &self,
        exchange: &mut Exchange,
        passage: &Passage,
        direction: Direction,
        control: &Control,
    ) -> Result<(), Rejection> {
        let left = self.judged(exchange, passage, direction, (control.payload.clone(), Media::Binary))?;
        if left == control.payload { Ok(()) } else { Err(blocked(direction)) }
    }

    fn judged(
        &self,
        exchange: &mut Exchange,
        passage: &Passage,
        direction: Direction,
        (payload, media): (Bytes, Media),
    ) -> Result<Bytes, Rejection> {
        let inspection = match direction {
            Direction::Request => self.inspect(exchange, passage, direction, payload, Ok(media)),
            Direction::Response => {
                sealed(exchange, |exchange| self.inspect(exchange, passage, direction, payload, Ok(media)))
            }
        };
        match direction {
            Direction::Request => {
                exchange.outcome.asked.merge(inspection.usage);
                exchange.prompt = inspection.prompt;
                exchange.note_asked(inspection.facts);
            }
            Direction::Response => exchange.outcome.usage.merge(inspection.usage),
        }
        exchange.acted(inspection.action);
        exchange.outcome.shadow.merge(inspection.shadow);
        let known = match direction {
            Direction::Request => &mut exchange.outcome.request,
            Direction::Response => &mut exchange.outcome.response,
        };
        note(known, inspection.observations);
        match (inspection.cleared, inspection.unreadable) {
            (Some(cleared), _) => Ok(cleared.into_bytes()),
            (None, None) => Err(blocked(direction)),
            (None, Some(unreadable)) => Err(match direction {
                Direction::Request => Rejection::UnreadableRequest(unreadable),
                Direction::Response => Rejection::UnreadableResponse(unreadable),
            }),
        }
    }
}

/// Judges the provider's words. What the caller's own messages hid is put back into them; what they hide themselves is
/// not, ever: on a socket either side hears those of the other, and a placeholder that stands for a word of the
/// provider's would come back as that word.
fn sealed<T>(exchange: &mut Exchange, judge: impl FnOnce(&mut Exchange) -> T) -> T {
    exchange.vault.seal();
    let judged = judge(exchange);
    exchange.vault.unseal();
    judged
}

/// Tells whether a message of the provider is judged with those that it continues: only where its API has events that
/// end a text. Elsewhere nobody could tell a whole text from one that goes on, and it would wait for what never comes.
fn runs(exchange: &Exchange, message: &Message) -> bool {
    let ends_texts = exchange.detected.as_ref().is_some_and(|detected| detected.dialect.ends_texts());
    ends_texts && holds_json(message)
}

/// Tells whether a message is JSON to whoever hears it: some take it from binary frames too, which more often hold
/// sound.
pub(super) fn holds_json(message: &Message) -> bool {
    let is_text = || std::str::from_utf8(&message.payload).is_ok() && !Media::looks_binary(&message.payload);
    Media::may_be_json(&message.payload) && (message.is_text || is_text())
}

fn note(known: &mut Vec<Observation>, found: Vec<Observation>) {
    let room = RECORDED_MAX.saturating_sub(known.len());
    known.extend(found.into_iter().take(room));
}

fn blocked(direction: Direction) -> Rejection {
    match direction {
        Direction::Request => Rejection::RequestBlocked,
        Direction::Response => Rejection::ResponseBlocked,
    }
}
