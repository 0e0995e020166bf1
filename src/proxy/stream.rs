//! A streamed response: judged event by event, ended in the caller's dialect where it has to be.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytes::BytesMut;
use pingora::proxy::Session;

use super::Gateway;
use super::Stop;
use super::context::Exchange;
use super::context::Passage;
use super::reject::Rejection;
use super::request::aside;
use super::request::coding_limits;
use crate::admin::adapter::delimit;
use crate::llm::dialect::Detected;
use crate::llm::refusal::DEFAULT_WIRE;
use crate::llm::stream::StreamFormat;
use crate::policy::decision::Cleared;
use crate::policy::decision::Direction;
use crate::policy::decision::StreamBlock;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::Pinning;
use crate::policy::inspect::Unreadable;
use crate::policy::stream::Flow;
use crate::policy::stream::StreamInspector;
use crate::proxy::begun::Begun;
use crate::proxy::coding::Coding;
use crate::proxy::coding::StreamDecoder;
use crate::proxy::response::OF_BYTES;
use crate::proxy::upstream::Reply;

/// What of a stream is judged next.
pub(super) enum Piece {
    /// Bytes, cut anywhere.
    Bytes(Bytes),
    /// A message that came as a whole.
    Message(Bytes),
    /// Its end.
    End,
}

/// How a stream came to its end.
enum End {
    /// The provider finished it.
    Finished,
    /// The policy, or what could not be read, ended it.
    Refused(Rejection),
    /// The provider broke off.
    Broken(Rejection),
    /// The caller left.
    Gone(Stop),
}

impl Gateway {
    /// Relays a stream.
    pub(super) async fn relay_stream(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        passage: &Passage,
        (mut reply, begun): (Reply, Begun),
        format: StreamFormat,
    ) -> Result<(), Stop> {
        let mut decoder = decoder(&reply, exchange).map_err(Rejection::UnreadableResponse)?;
        let dropped = [&["content-encoding"][..], &OF_BYTES].concat();
        let mut head = self.head_of(session, &reply, exchange, &dropped)?;
        delimit(session.as_downstream_mut(), &mut head)?;
        exchange.outcome.status = Some(head.status);
        exchange.outcome.is_stream = true;
        exchange.outcome.service = exchange.outcome.service.told();
        self.keep_begin(exchange).await?;
        session.as_downstream_mut().write_response_header(Box::new(head)).await?;
        exchange.guard_prompt();
        let mut inspector = StreamInspector::new(format, exchange.rules.limits.stream_event_bytes_max);
        let end =
            self.pump(session, exchange, passage, (&mut reply, begun), &mut decoder, &mut inspector).await;
        exchange.acted(inspector.action());
        exchange.outcome.shadow.merge(inspector.shadow().clone());
        exchange.outcome.response = inspector.take_observations();
        exchange.outcome.usage.merge(inspector.usage().clone());
        self.telemetry.metrics.opaque(inspector.take_opaque_bytes());
        self.telemetry.metrics.documents(&inspector.take_documents());
        if matches!(end, End::Gone(_)) && inspector.usage().text_bytes == 0 {
            // Who leaves while the model still thinks has not seen what it costs.
            exchange.outcome.service = exchange.outcome.service.unread();
        }
        let end = match end {
            End::Finished => self.keep(exchange).await.map_or_else(End::Broken, |()| End::Finished),
            cut => cut,
        };
        match end {
            End::Finished => {
                session.as_downstream_mut().write_response_body(Bytes::new(), true).await?;
                self.upstreams.release(reply).await;
                Ok(())
            }
            End::Refused(rejection) | End::Broken(rejection) => {
                reply.cut().await;
                self.end_stream(session, exchange, passage, &inspector, rejection).await
            }
            End::Gone(stop) => {
                reply.cut().await;
                Err(stop)
            }
        }
    }

    /// Moves the stream until it ends.
    async fn pump(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        passage: &Passage,
        (reply, begun): (&mut Reply, Begun),
        decoder: &mut Option<StreamDecoder>,
        inspector: &mut StreamInspector,
    ) -> End {
        let mut room = self.room_of(exchange);
        let mut first = Some(begun.bytes).filter(|bytes| !bytes.is_empty());
        loop {
            let next = match first.take() {
                None if begun.is_over => Ok(None),
                None => self.next(session, exchange, reply).await,
                first => Ok(first),
            };
            let piece = match next {
                Ok(piece) => piece,
                // What waits may be the begin of a match whose rest never came: it stays here.
                Err(Stop::Reject(rejection)) => return End::Broken(rejection),
                Err(gone) => return End::Gone(gone),
            };
            let is_last = piece.is_none();
            // A coding that breaks off is a provider that does: what was said so far is not all.
            if is_last && decoder.as_mut().is_some_and(|decoder| decoder.finish().is_err()) {
                return End::Broken(Rejection::UnreadableResponse(Unreadable::Coding));
            }
            let piece = match (piece, decoder.as_mut()) {
                (Some(piece), Some(decoder)) => match decoder.push(&piece) {
                    Ok(piece) => Some(piece),
                    Err(_) => return End::Refused(Rejection::UnreadableResponse(Unreadable::Coding)),
                },
                (piece, _) => piece,
            };
            let piece = piece.map_or(Piece::End, Piece::Bytes);
            let (cleared, flow) = self.judge_piece(exchange, passage, inspector, piece);
            if let Err(stop) = self.write_cleared(session, exchange, cleared).await {
                return End::Gone(stop);
            }
            if let (Err(fault), Flow::Continue) =
                (room.hold(inspector.held_bytes() + inspector.unread_bytes()), &flow)
            {
                return End::Refused(fault.into());
            }
            if let Flow::Open(unreadable) = &flow {
                exchange.outcome.service = exchange.outcome.service.unread();
                self.count_unreadable(Some(unreadable));
            }
            match flow {
                Flow::Block(None) => return End::Refused(Rejection::ResponseBlocked),
                Flow::Block(Some(unreadable)) => {
                    self.count_unreadable(Some(&unreadable));
                    return End::Refused(Rejection::UnreadableResponse(unreadable));
                }
                Flow::Continue | Flow::Open(_) if is_last => return End::Finished,
                Flow::Continue | Flow::Open(_) => {}
            }
        }
    }

    /// Judges what comes next of a stream, or its end.
    pub(super) fn judge_piece(
        &self,
        exchange: &mut Exchange,
        passage: &Passage,
        stream: &mut StreamInspector,
        piece: Piece,
    ) -> (Vec<Cleared>, Flow) {
        let began = self.clock.monotonic();
        let deadline = began + Duration::from_millis(exchange.rules.limits.scan_ms);
        let expired = || self.clock.monotonic() > deadline;
        let rules = Arc::clone(&exchange.rules);
        let detected = exchange.detected.clone().unwrap_or_else(|| rules.dialects.detect("", None));
        let inspector = Inspector {
            ruleset: &rules,
            policy: &passage.policy,
            direction: Direction::Response,
            dialect: &detected.dialect,
            caller: exchange.caller.as_ref(),
            pins: detected
                .dialect
                .is_between_peers()
                .then_some(Pinning { pins: &self.pins, route: &passage.route().name }),
            now: self.clock.now(),
            masker: &self.masker,
            trial: exchange.enrolled.as_ref().map(|enrolled| &enrolled.trial),
            guarded: exchange.guarded.as_deref(),
            asked: &exchange.asked,
            expired: &expired,
            aside: |bytes, work| aside(bytes, work),
        };
        let mut cleared = Vec::new();
        let (vault, unread) = (&mut exchange.vault, stream.unread_bytes());
        let bytes = match &piece {
            Piece::Bytes(bytes) | Piece::Message(bytes) => bytes.len(),
            Piece::End => 0,
        };
        let bytes = if inspector.is_slow() { usize::MAX } else { unread + bytes };
        let flow = aside(bytes, || match piece {
            Piece::Bytes(bytes) => stream.push(&inspector, vault, &bytes, &mut cleared),
            Piece::Message(message) => stream.message(&inspector, vault, message, &mut cleared),
            Piece::End => stream.finish(&inspector, vault, &mut cleared),
        });
        exchange.outcome.scanning += self.clock.monotonic() - began;
        (cleared, flow)
    }

    async fn write_cleared(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        cleared: Vec<Cleared>,
    ) -> Result<(), Stop> {
        let mut pieces = cleared.into_iter().map(Cleared::into_bytes);
        let Some(first) = pieces.next() else { return Ok(()) };
        let bytes = match pieces.len() {
            0 => first,
            _ => {
                let mut joined = BytesMut::from(&first[..]);
                pieces.for_each(|piece| joined.extend_from_slice(&piece));
                joined.freeze()
            }
        };
        if exchange.outcome.first_byte.is_none() {
            exchange.outcome.first_byte = Some(self.clock.monotonic() - exchange.began);
        }
        session.as_downstream_mut().write_response_body(bytes, false).await?;
        Ok(())
    }

    /// Ends a stream before its time, so that the caller's SDK sees what happened. Of a text without any frame only the end
    /// of the connection tells it, unless it is to look as if it were whole.
    async fn end_stream(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        passage: &Passage,
        inspector: &StreamInspector,
        rejection: Rejection,
    ) -> Result<(), Stop> {
        let answer = rejection.answer();
        exchange.outcome.reason = Some(answer.code);
        exchange.outcome.is_denied = rejection.is_denial();
        exchange.refused(&rejection);
        let refusal = self.refusal(&answer, exchange);
        let wire = exchange.detected.as_ref().map_or(DEFAULT_WIRE, |detected: &Detected| detected.wire);
        let graceful = matches!(rejection, Rejection::ResponseBlocked)
            && passage.policy.stream_block == StreamBlock::Graceful;
        let ending = match graceful {
            true => refusal.stream_graceful(wire, inspector.track()),
            false => refusal.stream_error(wire, inspector.track()),
        };
        // It ends in an error, recorded or not.
        let _ = self.keep(exchange).await;
        if !graceful && inspector.track().format() == StreamFormat::Text {
            return Err(Stop::gone(None));
        }
        session.as_downstream_mut().write_response_body(Bytes::from(ending), true).await?;
        Ok(())
    }
}

fn decoder(reply: &Reply, exchange: &Exchange) -> Result<Option<StreamDecoder>, Unreadable> {
    let coding = Coding::of(&reply.head().headers).map_err(|_| Unreadable::Coding)?;
    let decoder = coding.map(|coding| StreamDecoder::new(coding, coding_limits(&exchange.rules.limits)));
    decoder.transpose().map_err(|_| Unreadable::Coding)
}
