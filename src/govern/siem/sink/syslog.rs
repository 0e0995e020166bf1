//! A syslog daemon, over UDP, TCP or TLS.
//!
//! Syslog acknowledges nothing. Over a stream, what a daemon had not read when it went away is therefore in doubt:
//! a connection that breaks has all entries sent again that were sent in the last moments it was used, as many as
//! may still have been on their way. The system gives a silent connection up after [`SILENCE_MAX`], which is
//! less. Over UDP nothing can be known, and nothing is promised.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::UdpSocket;
use tokio::time::timeout;

use super::Delivery;
use super::Sink;
use super::Trouble;
use crate::clock::Clock;
use crate::govern::audit::Entry;
use crate::govern::siem::address;
use crate::govern::siem::config::SyslogTarget;
use crate::govern::siem::config::SyslogTransport;
use crate::govern::siem::format::Teller;
use crate::govern::siem::format::syslog;
use crate::govern::siem::http::Stream;
use crate::govern::siem::http::connect;
use crate::tls::client::TlsClient;

/// How long sent bytes may stay unacknowledged by the other side's system before the connection counts as dead.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// How much of what was sent last is in doubt when a connection breaks, by the time it was sent.
const DOUBT: Duration = Duration::from_secs(30);
/// How long a daemon that just closed its end is listened for after a batch.
const FAREWELL: Duration = Duration::from_millis(50);

pub(super) struct Syslog {
    target: SyslogTarget,
    tls: Option<TlsClient>,
    timeout: Duration,
    teller: Teller,
    clock: Arc<dyn Clock>,
    open: Option<Stream>,
    /// When each of the last batches was sent, and how many entries it had.
    sent: VecDeque<(Duration, usize)>,
    in_doubt: usize,
}

impl Syslog {
    pub(super) fn new(
        target: SyslogTarget,
        tls: Option<TlsClient>,
        timeout_ms: u64,
        teller: Teller,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            target,
            tls,
            timeout: Duration::from_millis(timeout_ms),
            teller,
            clock,
            open: None,
            sent: VecDeque::new(),
            in_doubt: 0,
        }
    }

    fn message(&self, entry: &Entry) -> Result<Vec<u8>, Trouble> {
        let bytes_max = self.target.message_bytes_max;
        syslog::message(entry, self.target.payload, bytes_max, &self.teller).map_err(|_| Trouble::Unsendable)
    }

    async fn send_datagrams(&self, entries: &[&Entry]) -> Result<(), Trouble> {
        let unreachable = |error: io::Error| Trouble::Unreachable(error.kind());
        let to = address::resolve(&self.target.peer).await.map_err(unreachable)?;
        let to = *to.first().ok_or(Trouble::Unreachable(io::ErrorKind::NotFound))?;
        let from = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(from).await.map_err(unreachable)?;
        socket.connect(to).await.map_err(unreachable)?;
        for entry in entries {
            socket.send(&self.message(entry)?).await.map_err(unreachable)?;
        }
        Ok(())
    }

    async fn send_stream(&mut self, entries: &[&Entry]) -> Result<(), Trouble> {
        let mut bytes = Vec::new();
        for entry in entries {
            syslog::frame(self.target.transport, &self.message(entry)?, &mut bytes);
        }
        if let Some(stream) = &mut self.open
            && has_left(stream, Duration::ZERO).await
        {
            let now = self.clock.monotonic();
            self.broke(now);
            return Err(Trouble::Broken);
        }
        let mut stream = match self.open.take() {
            Some(stream) => stream,
            None => {
                let stream = connect(&self.target.peer, self.tls.as_ref()).await?;
                give_up_when_silent(&stream);
                stream
            }
        };
        let written = timeout(self.timeout, write(&mut stream, &bytes)).await;
        let now = self.clock.monotonic();
        if !matches!(written, Ok(Ok(()))) || has_left(&mut stream, FAREWELL).await {
            self.broke(now);
            return Err(if written.is_err() { Trouble::Slow } else { Trouble::Broken });
        }
        self.open = Some(stream);
        self.sent.push_back((now, entries.len()));
        while self.sent.front().is_some_and(|(at, _)| now.saturating_sub(*at) > DOUBT) {
            self.sent.pop_front();
        }
        Ok(())
    }

    /// Takes note that the connection is gone, and of what may be gone with it. A connection that lay idle for
    /// longer had delivered everything, or the system would have given it up.
    fn broke(&mut self, now: Duration) {
        self.open = None;
        let idle = self.sent.back().is_none_or(|(at, _)| now.saturating_sub(*at) > DOUBT);
        let sent: usize = self.sent.drain(..).map(|(_, entries)| entries).sum();
        self.in_doubt = if idle { 0 } else { sent };
    }
}

#[async_trait]
impl Sink for Syslog {
    async fn deliver(&mut self, entries: &[&Entry]) -> Result<Delivery, Trouble> {
        match self.target.transport {
            SyslogTransport::Udp => self.send_datagrams(entries).await?,
            SyslogTransport::OctetCounted | SyslogTransport::Lines => self.send_stream(entries).await?,
        }
        Ok(Delivery::Taken)
    }

    fn in_doubt(&mut self) -> usize {
        std::mem::take(&mut self.in_doubt)
    }
}

async fn write(stream: &mut Stream, bytes: &[u8]) -> io::Result<()> {
    match stream {
        Stream::Plain(stream) => stream.write_all(bytes).await,
        Stream::Tls(stream) => {
            stream.write_all(bytes).await?;
            stream.flush().await
        }
    }
}

/// Tells whether the daemon has closed its end; what it says otherwise is passed over.
async fn has_left(stream: &mut Stream, patience: Duration) -> bool {
    let mut said = [0; 512];
    let read = async {
        match stream {
            Stream::Plain(stream) => stream.read(&mut said).await,
            Stream::Tls(stream) => stream.read(&mut said).await,
        }
    };
    matches!(timeout(patience, read).await, Ok(Ok(0) | Err(_)))
}

fn give_up_when_silent(stream: &Stream) {
    let socket: &TcpStream = match stream {
        Stream::Plain(stream) => stream,
        Stream::Tls(stream) => stream.get_ref().0,
    };
    let limit = u32::try_from(SILENCE_MAX.as_millis()).unwrap_or(u32::MAX);
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(socket, limit) {
        tracing::warn!(%error, "a syslog connection keeps the system's own limits");
    }
}
