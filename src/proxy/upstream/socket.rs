//! Sockets with a provider: a connection of its own, which speaks HTTP/1.1 until it is switched.

use bytes::Bytes;
use http::StatusCode;
use http::header;
use pingora::http::RequestHeader;
use pingora::http::ResponseHeader;
use pingora::prelude::timeout;
use pingora::protocols::http::client::HttpSession;
use pingora::protocols::http::v1::client::HttpSession as Http1Session;

use super::Purpose;
use super::UpstreamFault;
use super::UpstreamTimeouts;
use super::Upstreams;
use super::address;
use super::ask::INTERIM_MAX;
use crate::policy::route::Route;

/// A connection that was switched, on which both sides speak in frames.
pub struct Socket {
    session: Http1Session,
}

/// What a provider answers that does not switch: who reconnects has to tell a wrong key and a limit from a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unswitched {
    /// Its status, if it is one of an error.
    pub status: Option<StatusCode>,
    /// When to come back, in seconds.
    pub retry_after_s: Option<u64>,
}

impl Unswitched {
    fn read(head: &ResponseHeader) -> Self {
        let is_error = head.status.is_client_error() || head.status.is_server_error();
        let wait = head.headers.get(header::RETRY_AFTER).and_then(|wait| wait.to_str().ok());
        Self {
            status: is_error.then_some(head.status),
            retry_after_s: wait.and_then(|wait| wait.trim().parse().ok()),
        }
    }
}

impl Upstreams {
    /// Asks a provider to switch to WebSocket; where it does not, what it answers instead.
    ///
    /// `head` is the caller's handshake, without what belongs to its connection.
    pub async fn open_socket(
        &self,
        route: &Route,
        mut head: Box<RequestHeader>,
        path: &str,
        timeouts: UpstreamTimeouts,
    ) -> Result<Result<Socket, Unswitched>, UpstreamFault> {
        let purpose = Purpose::Socket(timeouts.idle);
        let (session, _, target) = self.connect(route, purpose, timeouts.connect).await?;
        let HttpSession::H1(mut session) = session else { return Err(UpstreamFault::Unreachable(None)) };
        address(&mut head, target, path, 0, false).map_err(UpstreamFault::Request)?;
        let asked = async {
            head.insert_header(header::CONNECTION, "Upgrade")?;
            head.insert_header(header::UPGRADE, "websocket")?;
            session.write_request_header(head).await?;
            for _ in 0..INTERIM_MAX {
                session.read_response().await?;
                let status = session.get_status();
                if status == Some(StatusCode::SWITCHING_PROTOCOLS)
                    || !status.is_some_and(|status| status.is_informational())
                {
                    break;
                }
            }
            Ok::<(), Box<pingora::Error>>(())
        };
        match timeout(timeouts.first_byte, asked).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(UpstreamFault::Broken(error.into_up())),
            Err(_) => return Err(UpstreamFault::Slow),
        }
        if !session.was_upgraded() {
            let told = session.resp_header().map(Unswitched::read);
            session.shutdown().await;
            return Ok(Err(told.unwrap_or_default()));
        }
        session.maybe_upgrade_body_writer();
        Ok(Ok(Socket { session }))
    }
}

impl Socket {
    /// Returns the head of the answer that switched.
    pub fn head(&self) -> &ResponseHeader {
        self.session.resp_header().expect("a socket is made after its head was read")
    }

    /// Returns the next bytes; `None` once the provider has left.
    pub async fn hear(&mut self) -> Result<Option<Bytes>, UpstreamFault> {
        self.session.read_body_bytes().await.map_err(|error| UpstreamFault::Broken(error.into_up()))
    }

    /// Sends bytes.
    pub async fn say(&mut self, bytes: &[u8]) -> Result<(), UpstreamFault> {
        let said = self.session.write_body(bytes).await;
        said.map(drop).map_err(|error| UpstreamFault::Broken(error.into_up()))
    }

    /// Cuts the connection.
    pub async fn cut(mut self) {
        self.session.shutdown().await;
    }
}
