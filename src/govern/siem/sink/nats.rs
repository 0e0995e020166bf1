//! A JetStream stream of a NATS server, as OCSF events.
//!
//! A message counts as taken once the stream has acknowledged it (docs.nats.io, "JetStream: publish acknowledgement").
//! Each has an id, so that a stream drops what it was sent before, as far back as its `duplicate_window` goes: two
//! minutes, as shipped. Messages are sent many at a time, in order; after a connection was opened or a message was not taken,
//! one alone goes first. What a stream refuses for its size is refused for good, and so is what the server refuses for
//! its size, by its own word on this connection: the figure it tells before TLS is anybody's, and only asks for care.
//! Anything else waits.
//!
//! # Why there is no client library here
//! Two that are maintained and pure Rust were read for it, and neither fits.
//!
//! - `async-nats` 0.51 (Apache-2.0, by the makers of NATS; rustls on ring, acknowledgements are told): it looks names up
//!   itself, and checks certificates for the name it connects to, so that an address which was judged here cannot be
//!   handed over with its name. It reads without a limit: a server that never ends a line, or announces a large message,
//!   takes all memory there is; and `-ERR` without a word, or a length near the largest number, makes it panic. It refuses
//!   TLS where one of the system's certificates cannot be read, and needs a second `rustls-native-certs`, and `url` with
//!   the tables of `idna`.
//! - `rskafka` 0.6 (MIT or Apache-2.0): connects to whichever brokers the first one names, by name, with nobody to judge
//!   the address; that is how Kafka works.
//!
//! What a publisher needs of NATS is eight verbs in lines of text, which [`protocol`] has.

mod connection;
mod protocol;

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;

use self::connection::Connection;
use self::connection::Introduction;
use self::protocol::Answer;
use self::protocol::Letter;
use super::Delivery;
use super::ReadSecret;
use super::Sink;
use super::Trouble;
use super::secret;
use crate::clock::Clock;
use crate::govern::audit::Entry;
use crate::govern::siem::config::NatsTarget;
use crate::govern::siem::format::Teller;
use crate::govern::siem::format::ocsf;
use crate::id::UlidSource;
use crate::tls::client::TlsClient;

/// How many messages may be on their way at a time, and how many bytes of them, but for the last one.
const WINDOW_MESSAGES: usize = 512;
const WINDOW_BYTES: usize = 1 << 20;
/// How long a server may take at most to refuse a message that is larger than it said it takes, before it is sent all of
/// it.
const REFUSAL_MAX: Duration = Duration::from_secs(2);

pub(super) struct Nats {
    target: NatsTarget,
    timeout: Duration,
    teller: Teller,
    access: Access,
    inboxes: UlidSource,
    open: Option<Connection>,
}

/// What a connection needs beside the address.
pub(super) struct Access {
    pub(super) tls: Option<TlsClient>,
    pub(super) read_secret: ReadSecret,
    pub(super) clock: Arc<dyn Clock>,
}

/// What became of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    Taken,
    Refused,
}

/// How a part of a batch ended.
enum Step {
    Done,
    /// And the server has closed the connection over it.
    Closed,
}

impl Nats {
    pub(super) fn new(target: NatsTarget, timeout_ms: u64, teller: Teller, access: Access) -> Self {
        let timeout = Duration::from_millis(timeout_ms);
        Self { target, timeout, teller, access, inboxes: UlidSource::default(), open: None }
    }

    /// Sends entries until the first trouble. Whoever drops the call drops the connection with it.
    async fn send(&mut self, entries: &[&Entry], fates: &mut [Fate]) -> Result<(), Trouble> {
        let mut at = 0;
        while let (Some(entries), Some(fates)) = (entries.get(at..), fates.get_mut(at..)) {
            if entries.is_empty() {
                break;
            }
            let mut connection = match self.standing().await {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            let patience = REFUSAL_MAX.min(self.timeout / 2);
            let sent = send_some(&mut connection, entries, fates, &self.teller, patience);
            let sent = timeout(self.timeout, sent).await.unwrap_or(Err(Trouble::Slow));
            let is_whole = match &sent {
                Ok(Step::Done) => true,
                Ok(Step::Closed) => false,
                // All messages were answered, if not well.
                Err(trouble) => {
                    matches!(trouble, Trouble::NoStream | Trouble::OtherStream | Trouble::Stream(_))
                }
            };
            self.open = Some(connection).filter(|_| is_whole);
            sent?;
            at += fates.iter().take_while(|fate| **fate != Fate::Open).count();
        }
        Ok(())
    }

    /// Returns the connection of the batch before, unless it has ended since.
    async fn standing(&mut self) -> Option<Connection> {
        let mut connection = self.open.take()?;
        let has_ended = timeout(Duration::ZERO, connection.listen()).await.is_ok();
        Some(connection).filter(|_| !has_ended)
    }

    async fn connect(&mut self) -> Result<Connection, Trouble> {
        let own = self.inboxes.next(self.access.clock.now().as_millisecond());
        let with = Introduction {
            tls: self.access.tls.as_ref(),
            secret: secret(self.target.secret.as_ref(), &self.access.read_secret)?,
            version: &self.teller.version,
            inbox: format!("_INBOX.{own}."),
        };
        Connection::open(&self.target, with).await
    }
}

#[async_trait]
impl Sink for Nats {
    async fn deliver(&mut self, entries: &[&Entry]) -> Result<Delivery, Trouble> {
        let mut fates = vec![Fate::Open; entries.len()];
        let sent = self.send(entries, &mut fates).await;
        let places = |wanted: Fate| -> Vec<usize> {
            fates.iter().enumerate().filter(|(_, fate)| **fate == wanted).map(|(at, _)| at).collect()
        };
        let (refused, again) = (places(Fate::Refused), places(Fate::Open));
        match sent {
            Ok(()) if refused.is_empty() => Ok(Delivery::Taken),
            // There is nothing to be sent again then.
            Ok(()) => Ok(Delivery::Partly { refused, again, because: Trouble::Broken }),
            Err(trouble) if again.len() == entries.len() => Err(trouble),
            Err(because) => Ok(Delivery::Partly { refused, again, because }),
        }
    }

    async fn idle(&mut self) -> Infallible {
        if let Some(connection) = &mut self.open {
            // A server asks now and then whether anybody is there.
            connection.listen().await;
            self.open = None;
        }
        pending().await
    }

    async fn close(&mut self) {
        self.open = None;
    }
}

/// Sends the first of some entries, as many as may be on their way at a time, and waits for their answers.
async fn send_some(
    connection: &mut Connection,
    entries: &[&Entry],
    fates: &mut [Fate],
    teller: &Teller,
    patience: Duration,
) -> Result<Step, Trouble> {
    let messages_max = if connection.is_proven { WINDOW_MESSAGES } else { 1 };
    let (mut bytes, mut numbers) = (Vec::new(), Vec::new());
    for entry in entries.iter().take(messages_max) {
        let event = serde_json::to_vec(&ocsf::event(entry, teller)).map_err(|_| Trouble::Unsendable)?;
        let (number, letter) = connection.letter(&entry.id.to_string(), &event);
        if !connection.takes(&letter) {
            match (numbers.is_empty(), fates.first_mut()) {
                (true, Some(fate)) => return send_large(connection, (number, letter), fate, patience).await,
                _ => break,
            }
        }
        numbers.push(number);
        bytes.extend_from_slice(&letter.line);
        bytes.extend_from_slice(&letter.body);
        if bytes.len() >= WINDOW_BYTES {
            break;
        }
    }
    connection.write(&bytes).await?;
    settle(connection, &numbers, fates).await.map(|()| Step::Done)
}

/// Sends a message that is larger than the server said it takes: the line that announces it first, and the rest if the
/// server does not refuse it in so many words.
async fn send_large(
    connection: &mut Connection,
    (number, letter): (u64, Letter),
    fate: &mut Fate,
    patience: Duration,
) -> Result<Step, Trouble> {
    connection.write(&letter.line).await?;
    match timeout(patience, connection.answer()).await {
        Ok(Err(Trouble::Batch(_))) => {
            *fate = Fate::Refused;
            Ok(Step::Closed)
        }
        Ok(Err(trouble)) => Err(trouble),
        Ok(Ok(_)) => Err(Trouble::Nonsense),
        Err(_) => {
            connection.write(&letter.body).await?;
            settle(connection, &[number], std::slice::from_mut(fate)).await.map(|()| Step::Done)
        }
    }
}

/// Waits until all messages are answered; an answer may come before that to an earlier one.
async fn settle(connection: &mut Connection, numbers: &[u64], fates: &mut [Fate]) -> Result<(), Trouble> {
    let mut waiting: Vec<(u64, &mut Fate)> = numbers.iter().copied().zip(fates).collect();
    let mut failed = None;
    while !waiting.is_empty() {
        let (number, answer) = connection.answer().await?;
        let Some(at) = waiting.iter().position(|(own, _)| *own == number) else { continue };
        let (_, fate) = waiting.remove(at);
        match answer {
            Answer::Taken => *fate = Fate::Taken,
            Answer::Refused => *fate = Fate::Refused,
            Answer::Failed(trouble) => failed = failed.or(Some(trouble)),
        }
    }
    connection.is_proven = failed.is_none();
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests;
