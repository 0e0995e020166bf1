//! A syslog daemon, over UDP, TCP or TLS.
//!
//! Syslog acknowledges nothing. Over a stream, what a daemon had not read when it went away is therefore in doubt:
//! a connection that breaks has all entries sent again that were sent in the last moments it was used, as many as
//! may still have been on their way, but none more than [`AGAIN_MAX`] times: connections that all break early, as some
//! firewalls have it, must not bring more back each time. The system gives a silent connection up after [`SILENCE_MAX`], which is
//! less. A connection that we end ourselves is ended on our side first: a daemon that has read all of it ends its own,
//! and one that does not in time leaves it in doubt. So is one that ends in the midst of a batch, whose rest is sent for
//! it: of a busy daemon, whoever takes the place over sends that batch again and nothing before it.
//!
//! Over UDP all that can be known is that nobody listens: the daemon's host refuses a datagram then. It is listened for
//! that after each batch, and looked for before each datagram; what was refused is sent again, with what had been sent no
//! longer than [`REFUSED_WITHIN`] before. What a network drops, or a daemon that is too slow, is lost, and nobody is told.
//!
//! A daemon may close its connection after each message, or after so many: RFC 6587 lets it, and no answer tells what it
//! has read. Where a connection ends on a batch, the batch goes on in smaller parts, each on a connection of its own, down
//! to a single message; such a one that the daemon's end follows in good order counts as read. One whose connection is
//! broken each time is sent as often as any entry ([`AGAIN_MAX`]) and then counts as read, too: what comes behind it has to
//! go on. Parts grow again as connections stay.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustix::net::sockopt;
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
use crate::govern::siem::config::Peer;
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
/// How often an entry is sent again at most.
const AGAIN_MAX: u8 = 3;
/// How long a connection may be silent before the system asks whether the other side is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// How long it is listened after a batch for a daemon that just closed its end, or refuses it.
const FAREWELL: Duration = Duration::from_millis(50);
/// How long a datagram's refusal may be on its way: what was sent no longer before one is in doubt.
const REFUSED_WITHIN: Duration = Duration::from_secs(1);
/// How long a daemon that is told that nothing more comes may take to read what came.
const CLOSING_MAX: Duration = Duration::from_secs(5);

pub(super) struct Syslog {
    target: SyslogTarget,
    tls: Option<TlsClient>,
    timeout: Duration,
    teller: Teller,
    clock: Arc<dyn Clock>,
    open: Option<Stream>,
    /// Where datagrams leave, and their refusals come in.
    datagrams: Option<UdpSocket>,
    /// The last batches.
    sent: VecDeque<Sent>,
    /// Entries that are to be sent again, the oldest first, and how often that is.
    again: VecDeque<(usize, u8)>,
    in_doubt: usize,
    /// How many entries are written at a time.
    at_once: usize,
    /// What is being written, and how much of it is.
    leaving: (Vec<u8>, usize),
    /// How often the entry that is next has been sent alone over connections that broke.
    alone: u8,
}

/// Entries that were sent at one time.
#[derive(Clone, Copy)]
struct Sent {
    at: Duration,
    entries: usize,
    /// How often they had been sent before.
    again: u8,
}

/// Whether a daemon is still there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    There,
    /// It has closed its end: what it had not read by then would have made that a reset.
    Left,
    /// The connection is gone, and what was on its way with it.
    Broken,
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
            datagrams: None,
            sent: VecDeque::new(),
            again: VecDeque::new(),
            in_doubt: 0,
            at_once: usize::MAX,
            leaving: (Vec::new(), 0),
            alone: 0,
        }
    }

    fn message(&self, entry: &Entry) -> Result<Vec<u8>, Trouble> {
        let bytes_max = self.target.message_bytes_max;
        syslog::message(entry, self.target.payload, bytes_max, &self.teller).map_err(|_| Trouble::Unsendable)
    }

    async fn send_datagrams(&mut self, entries: &[&Entry]) -> Result<(), Trouble> {
        let messages = entries.iter().map(|entry| self.message(entry)).collect::<Result<Vec<_>, _>>()?;
        let socket = match self.datagrams.take() {
            // One that went on to an address that the name no longer has would never be refused.
            Some(socket) if leads_to(&socket, &self.target.peer).await? => socket,
            _ => socket_to(&self.target.peer).await?,
        };
        let sent = send_all(&socket, &messages).await;
        let now = self.clock.monotonic();
        if let Err(error) = sent {
            self.sent.retain(|sent| now.saturating_sub(sent.at) <= REFUSED_WITHIN);
            self.broke(Standing::Broken, now);
            return Err(Trouble::unreachable(error));
        }
        self.datagrams = Some(socket);
        self.note_sent(entries.len(), now);
        Ok(())
    }

    /// Sends entries in parts; returns how many were sent, and what ended it before all were.
    async fn send_stream(&mut self, entries: &[&Entry]) -> Result<(usize, Option<Trouble>), Trouble> {
        let mut sent = 0;
        while let Some(rest) = entries.get(sent..).filter(|rest| !rest.is_empty()) {
            let part = rest.get(..self.at_once).unwrap_or(rest);
            match self.send_part(part).await {
                Ok(()) => sent += part.len(),
                Err(trouble) if sent == 0 => return Err(trouble),
                Err(trouble) => return Ok((sent, Some(trouble))),
            }
        }
        Ok((sent, None))
    }

    async fn send_part(&mut self, entries: &[&Entry]) -> Result<(), Trouble> {
        let mut bytes = Vec::new();
        for entry in entries {
            syslog::frame(self.target.transport, &self.message(entry)?, &mut bytes);
        }
        if let Some(stream) = &mut self.open {
            let standing = standing(stream, Duration::ZERO).await;
            if standing != Standing::There {
                let now = self.clock.monotonic();
                self.broke(standing, now);
                return Err(Trouble::Broken);
            }
        }
        if self.open.is_none() {
            let mut stream = connect(&self.target.peer, self.tls.as_ref()).await?;
            give_up_when_silent(&stream);
            // Whoever ends a connection before anything came over it is no daemon that closes after each message.
            if self.at_once == 1 && standing(&mut stream, FAREWELL).await != Standing::There {
                return Err(Trouble::Unreachable(io::ErrorKind::ConnectionReset));
            }
            self.open = Some(stream);
        }
        self.leaving = (bytes, 0);
        let written = timeout(self.timeout, self.write()).await;
        let now = self.clock.monotonic();
        let standing = match (&written, &mut self.open) {
            (Ok(Ok(())), Some(stream)) => Some(standing(stream, FAREWELL).await),
            _ => None,
        };
        let counts_as_read = match standing {
            Some(Standing::There) => true,
            Some(ended) => self.counts_as_read(entries.len(), ended),
            None => false,
        };
        if !counts_as_read {
            self.at_once = (entries.len() / 2).max(1);
            self.broke(standing.unwrap_or(Standing::Broken), now);
            return Err(if written.is_err() { Trouble::Slow } else { Trouble::Broken });
        }
        self.alone = 0;
        self.note_sent(entries.len(), now);
        if standing == Some(Standing::There) {
            self.at_once = self.at_once.saturating_mul(2);
        } else {
            // With it all that went over the connection counts as read.
            (self.open, self.sent) = (None, VecDeque::new());
        }
        Ok(())
    }

    /// Tells whether entries that were written count as read although the connection is gone.
    fn counts_as_read(&mut self, entries: usize, ended: Standing) -> bool {
        if entries > 1 {
            return false;
        }
        self.alone += 1;
        ended == Standing::Left || self.alone > AGAIN_MAX
    }

    /// Writes what is still to leave.
    async fn write(&mut self) -> io::Result<()> {
        let ((bytes, written), Some(stream)) = (&mut self.leaving, &mut self.open) else { return Ok(()) };
        while let Some(rest) = bytes.get(*written..).filter(|rest| !rest.is_empty()) {
            *written += match stream {
                Stream::Plain(stream) => stream.write(rest).await?,
                Stream::Tls(stream) => stream.write(rest).await?,
            };
        }
        match stream {
            Stream::Plain(stream) => stream.flush().await,
            Stream::Tls(stream) => stream.flush().await,
        }
    }

    /// Takes note of entries that were sent: first those that had been before.
    fn note_sent(&mut self, mut entries: usize, at: Duration) {
        while entries > 0 {
            let (left, again) = self.again.pop_front().unwrap_or((entries, 0));
            let taken = left.min(entries);
            if left > taken {
                self.again.push_front((left - taken, again));
            }
            self.sent.push_back(Sent { at, entries: taken, again });
            entries -= taken;
        }
        while self.sent.front().is_some_and(|sent| at.saturating_sub(sent.at) > DOUBT) {
            self.sent.pop_front();
        }
    }

    /// Takes note that the connection is gone, and of what may be gone with it: nothing where it lay idle for longer and
    /// was closed then.
    fn broke(&mut self, standing: Standing, now: Duration) {
        self.open = None;
        let idle = self.sent.back().is_none_or(|sent| now.saturating_sub(sent.at) > DOUBT);
        let sent = std::mem::take(&mut self.sent);
        if idle && standing == Standing::Left {
            return;
        }
        // Those that were sent most often are the oldest.
        for Sent { entries, again, .. } in sent.into_iter().rev().filter(|sent| sent.again < AGAIN_MAX) {
            self.in_doubt += entries;
            self.again.push_front((entries, again + 1));
        }
    }
}

#[async_trait]
impl Sink for Syslog {
    async fn deliver(&mut self, entries: &[&Entry]) -> Result<Delivery, Trouble> {
        if self.target.transport == SyslogTransport::Udp {
            self.send_datagrams(entries).await?;
            return Ok(Delivery::Taken);
        }
        Ok(match self.send_stream(entries).await? {
            (sent, Some(because)) => {
                Delivery::Partly { refused: Vec::new(), again: (sent..entries.len()).collect(), because }
            }
            (_, None) => Delivery::Taken,
        })
    }

    fn in_doubt(&mut self) -> usize {
        std::mem::take(&mut self.in_doubt)
    }

    fn unsettled(&self) -> usize {
        if self.target.transport == SyslogTransport::Udp {
            // Nothing would tell whoever takes the place over.
            return 0;
        }
        self.sent.iter().map(|sent| sent.entries).sum()
    }

    async fn close(&mut self) {
        // A message that is cut short would be no message, and what was written before it is to be read.
        let is_written = matches!(timeout(CLOSING_MAX, self.write()).await, Ok(Ok(())));
        let Some(mut stream) = self.open.take().filter(|_| is_written) else { return };
        let has_read_all = async {
            // One that ended its own side before ours may have left the last of it unread.
            standing(&mut stream, Duration::ZERO).await == Standing::There
                && shutdown(&mut stream).await.is_ok()
                && standing(&mut stream, CLOSING_MAX).await == Standing::Left
        };
        if matches!(timeout(CLOSING_MAX, has_read_all).await, Ok(true)) {
            self.sent.clear();
        }
    }
}

/// Tells whether a socket is connected to an address that a peer has still.
async fn leads_to(socket: &UdpSocket, peer: &Peer) -> Result<bool, Trouble> {
    let addresses = address::resolve(peer).await?;
    Ok(socket.peer_addr().is_ok_and(|to| addresses.contains(&to)))
}

async fn socket_to(peer: &Peer) -> Result<UdpSocket, Trouble> {
    let to = address::resolve(peer).await?;
    let to = *to.first().ok_or(Trouble::Unreachable(io::ErrorKind::NotFound))?;
    let from = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(from).await.map_err(Trouble::unreachable)?;
    socket.connect(to).await.map_err(Trouble::unreachable)?;
    Ok(socket)
}

/// Sends datagrams, and waits a moment for their refusal.
async fn send_all(socket: &UdpSocket, messages: &[Vec<u8>]) -> io::Result<()> {
    for message in messages {
        // Of a refusal that came in meanwhile this tells, and sends nothing.
        socket.send(message).await?;
    }
    let mut said = [0; 512];
    let refused = async {
        loop {
            if let Err(error) = socket.recv(&mut said).await {
                return error;
            }
        }
    };
    timeout(FAREWELL, refused).await.map_or(Ok(()), Err)
}

/// Tells the other side that nothing more comes.
async fn shutdown(stream: &mut Stream) -> io::Result<()> {
    match stream {
        Stream::Plain(stream) => stream.shutdown().await,
        Stream::Tls(stream) => stream.shutdown().await,
    }
}

/// Tells whether the daemon is still there; what it says is passed over.
async fn standing(stream: &mut Stream, patience: Duration) -> Standing {
    let mut said = [0; 512];
    let silent = async {
        loop {
            let read = match stream {
                Stream::Plain(stream) => stream.read(&mut said).await,
                Stream::Tls(stream) => stream.read(&mut said).await,
            };
            match read {
                Ok(0) => return Standing::Left,
                Ok(_) => {}
                Err(_) => return Standing::Broken,
            }
        }
    };
    timeout(patience, silent).await.unwrap_or(Standing::There)
}

fn give_up_when_silent(stream: &Stream) {
    let socket: &TcpStream = match stream {
        Stream::Plain(stream) => stream,
        Stream::Tls(stream) => stream.get_ref().0,
    };
    let limit = u32::try_from(SILENCE_MAX.as_millis()).unwrap_or(u32::MAX);
    let limited = sockopt::set_tcp_user_timeout(socket, limit)
        .and_then(|()| sockopt::set_socket_keepalive(socket, true))
        .and_then(|()| sockopt::set_tcp_keepidle(socket, KEEP_ALIVE));
    if let Err(error) = limited {
        tracing::warn!(%error, "a syslog connection keeps the system's own limits");
    }
}

#[cfg(test)]
mod tests;
