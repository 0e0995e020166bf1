//! The response half of an exchange: a whole body judged before its status leaves, a stream judged as
//! it flows, bytes that hold no text passed on.

use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use bytes::BytesMut;
use http::HeaderName;
use http::HeaderValue;
use http::Method;
use http::StatusCode;
use http::header;
use pingora::http::ResponseHeader;
use pingora::protocols::http::HttpTask;
use pingora::proxy::Session;

use super::Gateway;
use super::Stop;
use super::begun::BEGIN_BYTES;
use super::begun::Begun;
use super::begun::CODED_LINE_BYTES;
use super::begun::LINE_BYTES;
use super::begun::begun_as_json;
use super::begun::error_media;
use super::begun::is_document;
use super::begun::is_opaque;
use super::begun::may_be_text;
use super::begun::shown;
use super::begun::speak_generic;
use super::begun::speaks_lines;
use super::begun::stream_begun;
use super::context::Exchange;
use super::context::Passage;
use super::gate::Reserved;
use super::lead;
use super::record::recorded_action;
use super::reject::Rejection;
use super::request::aside;
use super::request::coding_limits;
use crate::access::a2a::claims::is_reserved;
use crate::access::cookie;
use crate::admin::adapter::caller_left;
use crate::admin::adapter::delimit;
use crate::llm::media::Media;
use crate::llm::media::MediaFault;
use crate::llm::stream::StreamFormat;
use crate::policy::decision::Action;
use crate::policy::decision::Direction;
use crate::policy::decision::DocumentMode;
use crate::policy::decision::FailMode;
use crate::policy::inspect::Unreadable;
use crate::proxy::coding::Coding;
use crate::proxy::coding::CodingFault;
use crate::proxy::upstream::Reply;
use crate::proxy::upstream::nominated_fields;

/// Fields that tell of the bytes of a body: they are wrong of one in which a value was masked, and may be of a stream.
pub(super) const OF_BYTES: [&str; 5] = ["content-digest", "content-md5", "digest", "etag", "repr-digest"];
/// Fields of the provider's response that belong to its connection or to bytes that change.
const DROPPED: [&str; 9] = [
    "clear-site-data",
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
];

impl Gateway {
    /// Relays the provider's response.
    pub(super) async fn relay(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        passage: &Passage,
        reply: Reply,
    ) -> Result<(), Stop> {
        let head = reply.head();
        let declared = declared_of(&reply);
        let format = exchange.detected.as_ref().and_then(|detected| {
            declared.and_then(|declared| detected.dialect.stream_format(declared, &exchange.path))
        });
        let media = Media::parse(declared);
        // An error is told in one JSON text, whatever frames the answer that was asked for would have come in.
        let format = format.filter(|_| head.status.is_success() || media != Ok(Media::Json));
        // A text is one where its begin shows nothing else.
        let (is_text, format) =
            (format == Some(StreamFormat::Text), format.filter(|it| *it != StreamFormat::Text));
        // What is declared a stream is never waited for as a whole, known dialect or not.
        let format = format.or(match media {
            Ok(Media::EventStream) => Some(StreamFormat::Sse),
            Ok(Media::Ndjson) => Some(StreamFormat::Ndjson),
            Ok(Media::AmazonEvents) => Some(StreamFormat::AmazonEvents),
            _ => None,
        });
        let is_bodiless = session.req_header().method == Method::HEAD
            || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        match (format, &media) {
            _ if is_bodiless => {
                exchange.outcome.service = exchange.outcome.service.told();
                self.relay_head(session, exchange, reply).await
            }
            // In a box, for it is much larger than all that other answers need.
            (Some(format), _) => {
                let answer = (reply, Begun::default());
                Box::pin(self.relay_stream(session, exchange, passage, answer, format)).await
            }
            (None, Ok(Media::Undeclared | Media::Text | Media::Opaque)) => {
                self.relay_by_begin(session, exchange, passage, reply, (media, is_text)).await
            }
            (None, Ok(Media::Json)) if head.status.is_success() => {
                self.relay_by_begin(session, exchange, passage, reply, (media, false)).await
            }
            (None, _) => self.relay_whole(session, exchange, passage, (reply, Begun::default()), media).await,
        }
    }

    /// Relays what is not declared to be a stream, and may be one: clients read events, and lines, whatever they are called.
    async fn relay_by_begin(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        passage: &Passage,
        mut reply: Reply,
        (media, is_text): (Result<Media, MediaFault>, bool),
    ) -> Result<(), Stop> {
        let (coding, limits) = (coding_of(&reply), coding_limits(&exchange.rules.limits));
        let (is_json, has_lines) = (media == Ok(Media::Json), speaks_lines(exchange));
        let stream_begun = |begin: &[u8]| match is_json {
            true => begun_as_json(begin, has_lines),
            false => stream_begun(begin),
        };
        let is_unsure = |begin: &[u8]| {
            let shown = shown(begin, &coding, limits);
            let may_be = begin.len() < BEGIN_BYTES || shown.starts_with(b"{");
            may_be && stream_begun(&shown).is_none()
        };
        let bytes_max = if matches!(coding, Ok(None)) { LINE_BYTES } else { CODED_LINE_BYTES };
        let begun = (Begun::default(), bytes_max);
        let begun = match self.begin(session, exchange, &mut reply, begun, is_unsure).await {
            Ok(begun) => begun,
            Err(stop) => {
                reply.cut().await;
                return Err(stop);
            }
        };
        let begin = shown(&begun.bytes, &coding, limits);
        // What goes on as events do without any data is nothing else.
        let may_be_events = !is_json && !begun.is_over && !begin.is_empty() && !begin.starts_with(b"{");
        let format = stream_begun(&begin).unwrap_or(may_be_events.then_some(StreamFormat::Sse));
        if format == Some(StreamFormat::TypedLines) {
            speak_generic(exchange);
        }
        let is_error = !reply.head().status.is_success();
        let format = format.filter(|format| !is_error || *format != StreamFormat::Ndjson);
        let comes_in_pieces = !begun.is_over && told_length(&reply).is_none();
        let is_text = is_text && !is_error && comes_in_pieces && may_be_text(&begin);
        let format = format.or_else(|| is_text.then_some(StreamFormat::Text));
        if let Some(format) = format {
            let answer = (reply, begun);
            return Box::pin(self.relay_stream(session, exchange, passage, answer, format)).await;
        }
        match media {
            Ok(Media::Opaque) => self.relay_declared_opaque(session, exchange, passage, (reply, begun)).await,
            media => self.relay_whole(session, exchange, passage, (reply, begun), media).await,
        }
    }

    async fn relay_head(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        mut reply: Reply,
    ) -> Result<(), Stop> {
        let mut head = self.head_of(session, &reply, exchange, &[])?;
        let told = reply.head().headers.get(header::CONTENT_LENGTH);
        if let Some(length) = told.filter(|_| head.status != StatusCode::NO_CONTENT) {
            head.insert_header(header::CONTENT_LENGTH, length.clone())?;
        }
        exchange.outcome.status = Some(head.status);
        self.keep(exchange).await?;
        session.response_duplex_vec(vec![HttpTask::Header(Box::new(head), true)]).await?;
        // Reading the body that is not there is what tells the connection that it may be used again.
        if matches!(reply.next().await, Ok(None)) {
            self.upstreams.release(reply).await;
        }
        Ok(())
    }

    async fn relay_whole(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        passage: &Passage,
        (mut reply, begun): (Reply, Begun),
        media: Result<Media, MediaFault>,
    ) -> Result<(), Stop> {
        let mut reserved = self.room_of(exchange);
        let limit = exchange.rules.limits.max_inspect_bytes;
        let body = self.whole_body(session, exchange, (&mut reply, begun), &mut reserved, limit).await;
        let body = match body {
            Ok(body) => decoded(&reply, exchange, body, &mut reserved)?,
            Err(stop) => {
                reply.cut().await;
                return Err(stop);
            }
        };
        let media = if reply.head().status.is_success() {
            media
        } else {
            error_media(declared_of(&reply), media, &body)
        };
        let _texts = self.room_for_texts(exchange, &body, &media).map_err(Rejection::from)?;
        exchange.guard_prompt();
        let inspection = self.inspect(exchange, passage, Direction::Response, body, media);
        exchange.acted(inspection.action);
        exchange.outcome.shadow.merge(inspection.shadow);
        exchange.outcome.response = inspection.observations;
        exchange.outcome.usage.merge(inspection.usage);
        if inspection.unreadable.is_none() {
            exchange.outcome.service = exchange.outcome.service.told();
        }
        let head = self.head_of(session, &reply, exchange, &["content-encoding"])?;
        self.upstreams.release(reply).await;
        let cleared = match (inspection.cleared, inspection.unreadable) {
            (Some(cleared), _) => cleared,
            (None, Some(unreadable)) => return Err(Rejection::UnreadableResponse(unreadable).into()),
            (None, None) => return Err(Rejection::ResponseBlocked.into()),
        };
        self.send_whole(session, exchange, head, cleared.into_bytes()).await
    }

    async fn send_whole(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        mut head: ResponseHeader,
        body: Bytes,
    ) -> Result<(), Stop> {
        exchange.outcome.status = Some(head.status);
        exchange.outcome.first_byte = Some(self.clock.monotonic() - exchange.began);
        head.insert_header(header::CONTENT_LENGTH, body.len())?;
        self.keep(exchange).await?;
        let is_empty = body.is_empty();
        let mut tasks = vec![HttpTask::Header(Box::new(head), is_empty)];
        if !is_empty {
            tasks.push(HttpTask::Body(Some(body), true));
        }
        session.response_duplex_vec(tasks).await?;
        Ok(())
    }

    async fn whole_body(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        (reply, begun): (&mut Reply, Begun),
        reserved: &mut Reserved,
        bytes_max: usize,
    ) -> Result<Bytes, Stop> {
        reserved.grow(begun.bytes.len()).map_err(Rejection::from)?;
        if begun.is_over {
            return Ok(begun.bytes);
        }
        let mut first = Some(begun.bytes).filter(|bytes| !bytes.is_empty());
        let mut joined = BytesMut::new();
        while let Some(piece) = self.next(session, exchange, reply).await? {
            reserved.grow(piece.len()).map_err(Rejection::from)?;
            if first.as_ref().map_or(0, Bytes::len) + joined.len() + piece.len() > bytes_max {
                return Err(Rejection::UnreadableResponse(Unreadable::TooLarge(bytes_max)).into());
            }
            match first.take() {
                None if joined.is_empty() => first = Some(piece),
                None => joined.extend_from_slice(&piece),
                Some(before) => {
                    joined.extend_from_slice(&before);
                    joined.extend_from_slice(&piece);
                }
            }
        }
        Ok(first.unwrap_or_else(|| joined.freeze()))
    }

    /// Relays what is declared to hold no text: its begin shows whether that is so. What is coded shows nothing.
    async fn relay_declared_opaque(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        passage: &Passage,
        (mut reply, begun): (Reply, Begun),
    ) -> Result<(), Stop> {
        let is_coded = !matches!(coding_of(&reply), Ok(None));
        let begun = match is_coded {
            true => Ok(begun),
            false => {
                let begun = (begun, BEGIN_BYTES);
                self.begin(session, exchange, &mut reply, begun, |begin| !is_opaque(begin)).await
            }
        };
        let begun = match begun {
            Ok(begun) => begun,
            Err(stop) => {
                reply.cut().await;
                return Err(stop);
            }
        };
        let limit = exchange.rules.limits.max_inspect_bytes;
        let is_short = told_length(&reply).is_some_and(|it| it <= limit);
        let is_read = is_short && passage.policy.documents != DocumentMode::Pass && is_document(&begun.bytes);
        if !is_coded && !is_read && is_opaque(&begun.bytes) {
            return self.relay_opaque(session, exchange, reply, begun).await;
        }
        if passage.policy.fail_mode == FailMode::Open && told_length(&reply).is_some_and(|it| it > limit) {
            self.count_unreadable(Some(&Unreadable::TooLarge(limit)));
            return self.relay_opaque(session, exchange, reply, begun).await;
        }
        self.relay_whole(session, exchange, passage, (reply, begun), Ok(Media::Opaque)).await
    }

    /// Takes as much of a response as shows what it is, and no more than so many bytes.
    async fn begin(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        reply: &mut Reply,
        (begun, bytes_max): (Begun, usize),
        is_unsure: impl Fn(&[u8]) -> bool,
    ) -> Result<Begun, Stop> {
        if begun.is_over {
            return Ok(begun);
        }
        let mut bytes = BytesMut::from(&begun.bytes[..]);
        while bytes.len() < bytes_max && is_unsure(&bytes) {
            match self.next(session, exchange, reply).await? {
                Some(piece) => bytes.extend_from_slice(&piece),
                None => return Ok(Begun { bytes: bytes.freeze(), is_over: true }),
            }
        }
        Ok(Begun { bytes: bytes.freeze(), is_over: false })
    }

    /// Passes on bytes that hold no text: images, audio. They are counted, not read.
    async fn relay_opaque(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        mut reply: Reply,
        begun: Begun,
    ) -> Result<(), Stop> {
        let mut head = self.head_of(session, &reply, exchange, &[])?;
        match reply.head().headers.get(header::CONTENT_LENGTH) {
            Some(length) => head.insert_header(header::CONTENT_LENGTH, length.clone())?,
            None => delimit(session.as_downstream_mut(), &mut head)?,
        }
        exchange.acted(Action::Allow);
        exchange.outcome.status = Some(head.status);
        exchange.outcome.first_byte = Some(self.clock.monotonic() - exchange.began);
        self.keep_begin(exchange).await?;
        session.as_downstream_mut().write_response_header(Box::new(head)).await?;
        let Begun { bytes, mut is_over } = begun;
        if !bytes.is_empty() {
            self.telemetry.metrics.opaque(bytes.len());
            session.as_downstream_mut().write_response_body(bytes, false).await?;
        }
        while !is_over {
            match self.next(session, exchange, &mut reply).await {
                Ok(Some(piece)) => {
                    self.telemetry.metrics.opaque(piece.len());
                    session.as_downstream_mut().write_response_body(piece, false).await?;
                }
                Ok(None) => is_over = true,
                Err(stop) => {
                    reply.cut().await;
                    return Err(stop.after_head());
                }
            }
        }
        self.keep(exchange).await.map_err(|unrecorded| Stop::from(unrecorded).after_head())?;
        session.as_downstream_mut().write_response_body(Bytes::new(), true).await?;
        self.upstreams.release(reply).await;
        Ok(())
    }

    /// Returns the next piece of the response, unless the caller has left, or counts no more.
    ///
    /// The caller is asked first: a provider that never pauses, while all it says is held back, would
    /// otherwise hide that nobody waits for it.
    pub(super) async fn next(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        reply: &mut Reply,
    ) -> Result<Option<Bytes>, Stop> {
        let mut piece = pin!(reply.next());
        loop {
            let rest = self.ensure_standing(session, exchange)?;
            tokio::select! {
                biased;
                left = caller_left(session.as_downstream_mut()) => return Err(Stop::gone(Some(left))),
                piece = &mut piece => return Ok(piece.map_err(Rejection::from)?),
                () = rest_of(rest) => {}
            }
        }
    }

    /// Returns the head for the caller: the provider's, without what changes, with the decision.
    pub(super) fn head_of(
        &self,
        session: &Session,
        reply: &Reply,
        exchange: &Exchange,
        dropped: &[&str],
    ) -> Result<ResponseHeader, Stop> {
        let source = reply.head();
        let mut head = ResponseHeader::build(source.status, Some(source.headers.len() + 8))?;
        let keeps =
            |name: &HeaderName| !DROPPED.contains(&name.as_str()) && !dropped.contains(&name.as_str());
        let nominated = nominated_fields(&source.headers);
        let is_changed = recorded_action(&exchange.outcome) == Action::Redact;
        let keeps = |name: &HeaderName| {
            let is_stale = is_changed && OF_BYTES.contains(&name.as_str());
            keeps(name)
                && !is_reserved(name.as_str())
                && !is_stale
                && !nominated.iter().any(|it| it == name.as_str())
        };
        // A provider's answer is of our host, and its cookies would be of our console too.
        let plants = |name: &HeaderName, value: &HeaderValue| {
            *name == header::SET_COOKIE && cookie::sets_ours(value.as_bytes())
        };
        let kept = source.headers.iter().filter(|(name, value)| keeps(name) && !plants(name, value));
        for (name, value) in kept {
            head.append_header(name.clone(), reply.shown(value))?;
        }
        lead::back(session, exchange, &mut head)?;
        self.decorate(&mut head, exchange)?;
        Ok(head)
    }

    /// Adds what every answer carries: the request id, the decision and the quota.
    pub(super) fn decorate(&self, head: &mut ResponseHeader, exchange: &Exchange) -> pingora::Result<()> {
        head.insert_header("x-request-id", &exchange.request_id)?;
        if let Some(decided_by) = exchange.decided_by() {
            head.insert_header("x-portcullis-action", recorded_action(&exchange.outcome).as_str())?;
            head.insert_header("x-portcullis-policy", decided_by)?;
        }
        let limit = exchange.limit.unwrap_or_else(|| self.unlimited());
        head.insert_header("x-ratelimit-limit", limit.limit)?;
        head.insert_header("x-ratelimit-remaining", limit.remaining)?;
        head.insert_header("x-ratelimit-reset", limit.reset_unix)?;
        Ok(())
    }
}

/// Resolves after a while; never, where there is none.
pub(super) async fn rest_of(rest: Option<Duration>) {
    match rest {
        Some(rest) => tokio::time::sleep(rest).await,
        None => pending().await,
    }
}

/// Returns what the provider calls its answer.
fn declared_of(reply: &Reply) -> Option<&str> {
    reply.head().headers.get(header::CONTENT_TYPE)?.to_str().ok()
}

/// Returns how long the provider says that its answer is.
fn told_length(reply: &Reply) -> Option<usize> {
    reply.head().headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns the content coding that the provider tells.
fn coding_of(reply: &Reply) -> Result<Option<Coding>, CodingFault> {
    Coding::of(&reply.head().headers)
}

/// Returns a body without its coding, if it has one; what it unfolds to is `reserved` like the body itself.
fn decoded(
    reply: &Reply,
    exchange: &Exchange,
    body: Bytes,
    reserved: &mut Reserved,
) -> Result<Bytes, Rejection> {
    let limits = coding_limits(&exchange.rules.limits);
    let decoded = match coding_of(reply) {
        Ok(Some(coding)) => aside(usize::MAX, || coding.decode(&body, limits, reserved)),
        Ok(None) => Ok(body),
        Err(fault) => Err(fault),
    };
    decoded.map_err(Rejection::of_response)
}
