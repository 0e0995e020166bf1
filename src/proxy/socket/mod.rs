//! WebSockets: opened with the provider first, then carried frame by frame, each message judged on its way.
//!
//! The gateway offers no extension, so nothing is compressed. What the caller says is judged message by message, as a
//! whole request body would be; what the provider says runs in lanes, as a stream does, so that a text in pieces is one
//! text. Messages keep their order and, unless something in them is masked, their frames. Pings and pongs overtake what
//! waits. A block is told in the provider's own error event, and both sides are closed. A socket that the gateway leaves,
//! because it was silent for too long or the process ends, gives up what waits for a word under way and is closed on
//! both sides. No frame of ours follows bytes that passed unread, or a frame that was not written whole. Each answer
//! that tells what it used is counted, and settled with the key's budget, as it ends; what one may use is reserved as it
//! is asked for, and nothing while nothing is.
//!
//! Pingora's own way of proxying would write the head first and could not end either side in frames of its own.

mod asks;
mod ear;
mod judge;
mod queue;

use std::time::Duration;

use bytes::Bytes;
use pingora::http::ResponseHeader;
use pingora::proxy::Session;
use tokio::time::sleep;
use tokio::time::timeout;

use self::judge::Carried;
use self::judge::Line;
use super::Gateway;
use super::Stop;
use super::a2a;
use super::context::Exchange;
use super::context::Passage;
use super::gate::GateFault;
use super::reject::Rejection;
use super::response::rest_of;
use super::trace;
use super::upstream;
use super::upstream::Socket;
use super::upstream::Unswitched;
use super::upstream::UpstreamFault;
use crate::llm::refusal::DEFAULT_WIRE;
use crate::llm::websocket;
use crate::llm::websocket::GOING_AWAY;
use crate::llm::websocket::INTERNAL_ERROR;
use crate::llm::websocket::POLICY_VIOLATION;
use crate::llm::websocket::TRY_AGAIN_LATER;
use crate::policy::decision::Action;
use crate::telemetry::lifecycle::Reached;
use crate::telemetry::lifecycle::Stage;

/// Fields of the provider's handshake that the caller needs to believe it.
const HANDSHAKE: [&str; 2] = ["sec-websocket-accept", "sec-websocket-protocol"];
const EXTENSIONS: &str = "sec-websocket-extensions";
/// How long a side may take over the last that it is told: who does not read is not waited for.
const FAREWELL: Duration = Duration::from_secs(1);

/// How a socket came to its end.
enum End {
    /// One of the two left.
    Over,
    /// Neither said anything for too long, or this process ends.
    Left,
    /// What was said may not pass, or cannot be read, or the provider broke off.
    Refused(Rejection),
}

/// What happens next on a socket.
enum Turn {
    Caller(pingora::Result<Option<Bytes>>),
    Provider(Result<Option<Bytes>, UpstreamFault>),
    Silence,
    /// This process ends.
    Draining,
    /// It is time to ask whether the caller still counts.
    Asked,
}

impl Gateway {
    /// Opens a socket with the provider and carries it until its end.
    pub(super) async fn carry_socket(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        passage: &Passage,
    ) -> Result<(), Stop> {
        let mut socket = self.open_socket(session, exchange, passage).await?;
        let head = self.switched(&socket, exchange)?;
        exchange.outcome.status = Some(head.status);
        exchange.outcome.switched = Some(self.clock.monotonic().saturating_sub(exchange.began));
        exchange.acted(Action::Allow);
        self.keep_begin(exchange).await?;
        // A socket may be silent for longer than a request; who is silent for too long is told from the loop.
        session.as_downstream_mut().set_read_timeout(None);
        session.as_downstream_mut().write_response_header(Box::new(head)).await?;
        let mut line = Line::new(exchange, passage, self.room_of(exchange));
        let end = self.carry(session, exchange, passage, &mut socket, &mut line).await;
        line.note_heard(exchange);
        self.end_socket(session, exchange, socket, (&line, end.as_ref().ok())).await;
        end.map(drop)
    }

    async fn open_socket(
        &self,
        session: &Session,
        exchange: &mut Exchange,
        passage: &Passage,
    ) -> Result<Socket, Rejection> {
        let path = super::forwarded_path(session, exchange, passage);
        let mut head = upstream::without_connection(session.req_header());
        self.exchange_key(&mut head, exchange, passage)?;
        a2a::strip_reserved(&mut head);
        trace::tell(&mut head, exchange).map_err(|_| Rejection::Internal)?;
        head.remove_header(EXTENSIONS);
        let began = self.clock.monotonic();
        let opened = self.upstreams.open_socket(passage.route(), head, &path, self.timeouts(passage)).await;
        exchange.outcome.upstream = Some(self.clock.monotonic().saturating_sub(began));
        opened?.map_err(Rejection::UpgradeFailed)
    }

    /// Returns the head that tells the caller of the switch; a provider that switches to what nobody offered has none.
    fn switched(&self, socket: &Socket, exchange: &Exchange) -> Result<ResponseHeader, Stop> {
        let told = &socket.head().headers;
        if told.contains_key(EXTENSIONS) {
            return Err(Rejection::UpgradeFailed(Unswitched::default()).into());
        }
        let mut head = ResponseHeader::build(socket.head().status, Some(12))?;
        head.insert_header(http::header::CONNECTION, "Upgrade")?;
        head.insert_header(http::header::UPGRADE, "websocket")?;
        for name in HANDSHAKE {
            if let Some(value) = told.get(name) {
                head.insert_header(name, value.clone())?;
            }
        }
        self.decorate(&mut head, exchange)?;
        Ok(head)
    }

    /// Carries what is said until one side ends it, or may not go on.
    async fn carry(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        passage: &Passage,
        socket: &mut Socket,
        line: &mut Line,
    ) -> Result<End, Stop> {
        let idle_max = self.timeouts(passage).idle;
        let mut draining = self.telemetry.lifecycle.reached(Stage::Draining);
        let mut heard_at = self.clock.monotonic();
        loop {
            let rest = match self.ensure_standing(session, exchange) {
                Ok(rest) => rest,
                Err(rejection) => return Ok(End::Refused(rejection)),
            };
            let idle = (heard_at + idle_max).saturating_sub(self.clock.monotonic());
            let (mut carried, end) = match turn(session, socket, &mut draining, (idle, rest)).await {
                Turn::Caller(Ok(Some(bytes))) => (self.caller_said(exchange, passage, line, &bytes), None),
                Turn::Provider(Ok(Some(bytes))) => {
                    (self.provider_said(exchange, passage, line, &bytes), None)
                }
                Turn::Provider(Ok(None)) => (self.settle(exchange, passage, line), Some(End::Over)),
                Turn::Silence | Turn::Draining => (self.settle(exchange, passage, line), Some(End::Left)),
                Turn::Provider(Err(_)) if line.is_closing() => return Ok(End::Over),
                Turn::Provider(Err(fault)) => return Ok(End::Refused(fault.into())),
                Turn::Caller(Ok(None) | Err(_)) => return Ok(End::Over),
                Turn::Asked => continue,
            };
            if let Err(rejection) = self.pay(exchange).await {
                carried.to_provider = Bytes::new();
                carried.refused.get_or_insert(rejection);
            }
            if let Err(fault) = line.take_room() {
                carried.refused.get_or_insert(fault.into());
            }
            if let Some(end) = self.write(session, exchange, socket, (line, carried)).await?.or(end) {
                return Ok(end);
            }
            heard_at = self.clock.monotonic();
        }
    }

    /// Writes what may leave, for as long as the caller counts; returns the end that this is, if so.
    async fn write(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        socket: &mut Socket,
        (line, carried): (&mut Line, Carried),
    ) -> Result<Option<End>, Stop> {
        let Carried { to_provider, to_caller, refused } = carried;
        let connection = session.digest().and_then(|digest| digest.ssl_digest.clone());
        if !to_provider.is_empty() {
            let said = self.while_standing(exchange, connection.as_deref(), socket.say(&to_provider)).await;
            let end = match said {
                Ok(Ok(())) => None,
                Ok(Err(_)) if line.is_closing() => Some(End::Over),
                Ok(Err(fault)) => Some(End::Refused(fault.into())),
                Err(rejection) => Some(End::Refused(rejection)),
            };
            if end.is_some() {
                line.cut_to_provider();
                return Ok(end);
            }
        }
        if !to_caller.is_empty() {
            let writing = session.as_downstream_mut().write_response_body(to_caller, false);
            match self.while_standing(exchange, connection.as_deref(), writing).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) if line.is_closing() => return Ok(Some(End::Over)),
                Ok(Err(error)) => return Err(error.into()),
                Err(rejection) => {
                    line.cut_to_caller();
                    return Ok(Some(End::Refused(rejection)));
                }
            }
        }
        Ok(refused.map(End::Refused))
    }

    /// Tells both sides that a socket ends, where that is not their own doing, and cuts the provider off.
    ///
    /// Best effort on either side, and of neither for the other: it is over.
    async fn end_socket(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        mut socket: Socket,
        (line, end): (&Line, Option<&End>),
    ) {
        let told = match end {
            Some(End::Refused(rejection)) => self.refused(exchange, rejection),
            Some(End::Left) => websocket::close(GOING_AWAY, "", None),
            Some(End::Over) | None => Bytes::new(),
        };
        let mask = (self.ids.next(self.clock.now().as_millisecond()).0 as u32).to_be_bytes();
        let is_ours = !told.is_empty();
        let provider = async {
            if is_ours && line.may_tell_provider() {
                let _ = socket.say(&websocket::close(GOING_AWAY, "", Some(mask))).await;
            }
            socket.cut().await;
        };
        let caller = async {
            let told = if line.may_tell_caller() { told } else { Bytes::new() };
            let _ = session.as_downstream_mut().write_response_body(told, true).await;
        };
        let _ = tokio::join!(timeout(FAREWELL, provider), timeout(FAREWELL, caller));
    }

    /// Notes why a socket is refused; returns what its caller is told, in the provider's own words.
    fn refused(&self, exchange: &mut Exchange, rejection: &Rejection) -> Bytes {
        let answer = rejection.answer();
        exchange.outcome.reason = Some(answer.code);
        exchange.outcome.is_denied = rejection.is_denial();
        exchange.refused(rejection);
        let wire = exchange.detected.as_ref().map_or(DEFAULT_WIRE, |detected| detected.wire);
        let event = websocket::text(&self.refusal(&answer, exchange).socket_error(wire));
        let status = match rejection {
            Rejection::Gate(GateFault::Overloaded) => TRY_AGAIN_LATER,
            _ if rejection.is_denial() => POLICY_VIOLATION,
            _ => INTERNAL_ERROR,
        };
        [event, websocket::close(status, answer.code, None)].concat().into()
    }
}

async fn turn(
    session: &mut Session,
    socket: &mut Socket,
    draining: &mut Reached,
    (idle, rest): (Duration, Option<Duration>),
) -> Turn {
    tokio::select! {
        said = session.as_downstream_mut().read_request_body() => Turn::Caller(said),
        said = socket.hear() => Turn::Provider(said),
        () = draining => Turn::Draining,
        () = sleep(idle) => Turn::Silence,
        () = rest_of(rest) => Turn::Asked,
    }
}
