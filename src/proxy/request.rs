//! The request half of an exchange: taken whole, decoded, judged, and cleared or refused.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header;
use pingora::proxy::Session;

use super::Gateway;
use super::context::Exchange;
use super::context::Passage;
use super::gate;
use super::gate::GateFault;
use super::gate::HeldBody;
use super::gate::Reserved;
use super::meter::note_models;
use super::reject::Rejection;
use super::signed::covers_body;
use super::signed::drop_digests;
use super::signed::tells_digest;
use crate::llm::dialect::DialectKind;
use crate::llm::dialect::Wire;
use crate::llm::json;
use crate::llm::jsonrpc;
use crate::llm::media::Media;
use crate::llm::media::MediaFault;
use crate::policy::decision::Action;
use crate::policy::decision::Cleared;
use crate::policy::decision::Direction;
use crate::policy::inspect::Inspection;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::Pinning;
use crate::policy::inspect::Unreadable;
use crate::policy::route::RouteDialect;
use crate::proxy::coding::Coding;
use crate::proxy::coding::CodingLimits;
use crate::redact::token::Vault;

/// Longer bodies and events are read off the worker's own loop, so that other exchanges go on.
const BLOCKING_BYTES: usize = 32 << 10;
/// Longer JSON is taken apart there too; of what is shorter, only the texts that were never read before count.
const PARSED_BYTES: usize = 256 << 10;

impl Gateway {
    /// Takes, judges and clears the request body.
    pub(super) async fn clear_request(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        passage: &Passage,
    ) -> Result<Cleared, Rejection> {
        let media = media_of(session, exchange, passage);
        let limits = &exchange.rules.limits;
        let whole_max = match media {
            Ok(Media::Multipart { .. } | Media::Opaque | Media::File) => limits.max_body_bytes,
            _ => limits.max_inspect_bytes,
        };
        let deadline = Duration::from_millis(self.config.timeouts.body_ms);
        let mut pending = exchange.pending.take();
        let watch = |piece: &[u8]| pending.iter_mut().for_each(|pending| pending.update(piece));
        let room = self.room_of(exchange);
        let held = gate::take_body(session, room, whole_max, deadline, watch).await?;
        let HeldBody { bytes, mut reserved } = held;
        self.check_integrity(exchange, passage, pending).await?;
        // A body that its caller has signed: what leaves has to be equal to it, unless the route signs it anew.
        let is_signed = passage.route().aws.is_none() && covers_body(session);
        let came = (is_signed || tells_digest(session.req_header())).then(|| bytes.clone());
        let coding = Coding::of(&session.req_header().headers)?;
        let body = match coding {
            // What was decoded would have to leave encoded as it came: nobody can promise that.
            Some(_) if is_signed => return Err(Rejection::SignedCoding),
            Some(coding) => {
                let limits = coding_limits(&exchange.rules.limits);
                aside(usize::MAX, || coding.decode(&bytes, limits, &mut reserved))?
            }
            None => bytes,
        };
        exchange.reserved = Some(reserved);
        self.read_ahead(session, exchange, passage, &body, media.as_ref().ok())?;
        self.enrol(exchange);
        let _texts = self.room_for_texts(exchange, &body, &media)?;
        let part = self.part_of_file(session, exchange, passage, (&body, media.as_ref().ok()));
        let mut inspection = self.inspect(exchange, passage, Direction::Request, body, media);
        if let Some(part) = part {
            inspection = self.judge_beside_others(exchange, passage, part, inspection);
        }
        exchange.acted(inspection.action);
        exchange.outcome.shadow.merge(inspection.shadow);
        exchange.outcome.request = inspection.observations;
        exchange.outcome.asked = inspection.usage;
        exchange.prompt = inspection.prompt;
        exchange.note_asked(inspection.facts);
        match (inspection.cleared, inspection.unreadable) {
            (Some(cleared), _) if came.is_some_and(|came| came != *cleared.bytes()) => {
                if is_signed {
                    exchange.acted(Action::Block);
                    return Err(Rejection::SignedRequest);
                }
                drop_digests(session.req_header_mut());
                Ok(cleared)
            }
            (Some(cleared), _) => Ok(cleared),
            (None, Some(unreadable)) => Err(Rejection::UnreadableRequest(unreadable)),
            (None, None) => Err(Rejection::RequestBlocked),
        }
    }

    /// Reads of a request what has to be known before it is judged, and refuses what its key may not ask for. Of most
    /// that is nothing: each part goes aside on its own where it has to read the body.
    fn read_ahead(
        &self,
        session: &Session,
        exchange: &mut Exchange,
        passage: &Passage,
        body: &Bytes,
        media: Option<&Media>,
    ) -> Result<(), Rejection> {
        self.check_scope(session, exchange, body, media)?;
        note_models(session.req_header(), exchange, passage, body, media);
        self.detect(exchange, passage, body);
        if exchange.detected.as_ref().is_some_and(|detected| detected.wire == Wire::JsonRpc) {
            exchange.call_id = aside(body.len(), || jsonrpc::id_of(body));
        }
        self.note_tools(exchange, body);
        Ok(())
    }

    /// Reserves room for the texts of a body, which are read side by side while it is judged.
    pub(super) fn room_for_texts(
        &self,
        exchange: &Exchange,
        body: &Bytes,
        media: &Result<Media, MediaFault>,
    ) -> Result<Reserved, GateFault> {
        let mut room = self.room_of(exchange);
        if !matches!(media, Ok(Media::Opaque | Media::File)) {
            room.grow(body.len())?;
        }
        Ok(room)
    }

    /// Asks the body whose shape the exchange has, where neither the route nor the path told.
    fn detect(&self, exchange: &mut Exchange, passage: &Passage, body: &Bytes) {
        let told = exchange
            .detected
            .as_ref()
            .is_some_and(|detected| detected.dialect.kind() != DialectKind::Generic);
        if told || passage.route().dialect != RouteDialect::Auto {
            return;
        }
        let rules = &exchange.rules;
        let document = aside(body.len(), || json::walk(body, &rules.limits.json()));
        if let Ok(document) = document {
            exchange.detected = Some(rules.dialects.detect(&exchange.path, Some((body, &document))));
        }
    }

    /// Judges a whole body of either direction.
    pub(super) fn inspect(
        &self,
        exchange: &mut Exchange,
        passage: &Passage,
        direction: Direction,
        body: Bytes,
        media: Result<Media, MediaFault>,
    ) -> Inspection {
        let inspection = self.by_rules(exchange, passage, direction, |inspector, vault| {
            let bytes = match media {
                _ if inspector.is_slow() => usize::MAX,
                Ok(Media::Json) if body.len() <= PARSED_BYTES => 0,
                _ => body.len(),
            };
            aside(bytes, || inspector.body(body, media, vault))
        });
        self.count_unreadable(inspection.unreadable.as_ref());
        self.telemetry.metrics.opaque(inspection.opaque_bytes);
        self.telemetry.metrics.documents(&inspection.documents);
        inspection
    }

    /// Lets something of either direction be judged by the rules of an exchange.
    pub(super) fn by_rules<T>(
        &self,
        exchange: &mut Exchange,
        passage: &Passage,
        direction: Direction,
        judge: impl FnOnce(&Inspector<'_>, &mut Vault) -> T,
    ) -> T {
        let began = self.clock.monotonic();
        let deadline = began + Duration::from_millis(exchange.rules.limits.scan_ms);
        let expired = || self.clock.monotonic() > deadline;
        let detected = exchange.detected.clone().unwrap_or_else(|| exchange.rules.dialects.detect("", None));
        let rules = Arc::clone(&exchange.rules);
        let inspector = Inspector {
            ruleset: &rules,
            policy: &passage.policy,
            direction,
            dialect: &detected.dialect,
            caller: exchange.caller.as_ref(),
            pins: Some(Pinning { pins: &self.pins, route: &passage.route().name }),
            now: self.clock.now(),
            masker: &self.masker,
            trial: exchange.enrolled.as_ref().map(|enrolled| &enrolled.trial),
            guarded: exchange.guarded.as_deref().filter(|_| direction == Direction::Response),
            asked: if direction == Direction::Response { &exchange.asked } else { &[] },
            expired: &expired,
            aside: |bytes, work| aside(bytes, work),
        };
        let judged = judge(&inspector, &mut exchange.vault);
        exchange.outcome.scanning += self.clock.monotonic() - began;
        judged
    }

    pub(super) fn count_unreadable(&self, unreadable: Option<&Unreadable>) {
        if let Some(unreadable) = unreadable {
            self.telemetry.metrics.unreadable(unreadable.reason());
        }
    }
}

/// Returns what the body of a request is: by its type, unless its path says that it is a file, whatever SDKs call it.
fn media_of(session: &Session, exchange: &Exchange, passage: &Passage) -> Result<Media, MediaFault> {
    let media = Media::parse(text_header(session, header::CONTENT_TYPE))?;
    let takes_file = || exchange.rules.dialects.takes_file(passage.route().forwarded(&exchange.path));
    Ok(match media {
        Media::Json | Media::Text | Media::Opaque | Media::Undeclared if takes_file() => Media::File,
        media => media,
    })
}

/// Does work on so many bytes, off the worker's own loop where they are many.
pub(super) fn aside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes > BLOCKING_BYTES { tokio::task::block_in_place(work) } else { work() }
}

/// Returns a header as text, where it is one.
pub(super) fn text_header(session: &Session, name: header::HeaderName) -> Option<&str> {
    session.get_header(name).and_then(|value| value.to_str().ok())
}

/// Returns how far an encoded body may unfold.
pub(super) fn coding_limits(limits: &crate::policy::limits::Limits) -> CodingLimits {
    CodingLimits {
        decoded_bytes_max: limits.decompressed_bytes_max,
        ratio_max: limits.decompressed_ratio_max,
        ratio_from_bytes: limits.decompressed_ratio_from_bytes,
    }
}
