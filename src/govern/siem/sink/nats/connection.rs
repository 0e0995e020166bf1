//! One connection to one NATS server.
//!
//! The address is looked up, judged and connected to here, as for every sink, and TLS is that of all the gateway asks for:
//! the server's name is the one of the configuration. A server that names others is not followed.

use bytes::BytesMut;
use tokio::io::AsyncRead;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWrite;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::protocol;
use super::protocol::Answer;
use super::protocol::Info;
use super::protocol::Letter;
use super::protocol::Said;
use crate::govern::siem::config::NatsTarget;
use crate::govern::siem::http::CONNECT_MAX;
use crate::govern::siem::http::connect_tcp;
use crate::govern::siem::sink::Trouble;
use crate::tls::client::TlsClient;

/// How much is read at a time.
const PIECE_BYTES: usize = 8 << 10;

/// A stream of either kind.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// What a connection is opened with.
pub(super) struct Introduction<'a> {
    pub(super) tls: Option<&'a TlsClient>,
    /// The token or the password.
    pub(super) secret: Option<String>,
    /// The release, as the server is told.
    pub(super) version: &'a str,
    /// Where answers go: words that nobody else knows, and a full stop.
    pub(super) inbox: String,
}

/// An open connection that is signed in.
pub(super) struct Connection {
    stream: Box<dyn Duplex>,
    read: BytesMut,
    /// What is still to be written: whoever drops a call in the midst of it leaves the rest here.
    leaving: BytesMut,
    target: NatsTarget,
    inbox: String,
    /// The largest message by the server's word, in bytes.
    message_bytes_max: usize,
    /// How many messages were made.
    made: u64,
    /// Whether the last messages were taken: where nobody takes them, there need not be many to learn it.
    pub(super) is_proven: bool,
}

impl Connection {
    /// Opens a connection and signs in.
    ///
    /// # Errors
    /// The server cannot be reached in time, is not whom its certificate should vouch for, or does not let the sink in.
    pub(super) async fn open(target: &NatsTarget, with: Introduction<'_>) -> Result<Self, Trouble> {
        let opened = timeout(CONNECT_MAX, Self::shake(target, with)).await;
        opened.map_err(|_| Trouble::Slow)?
    }

    async fn shake(target: &NatsTarget, with: Introduction<'_>) -> Result<Self, Trouble> {
        let mut tcp = connect_tcp(&target.peer).await?;
        let mut read = BytesMut::new();
        let Said::Info(info) = said(&mut tcp, &mut read, target, &with.inbox).await? else {
            return Err(Trouble::Nonsense);
        };
        let stream: Box<dyn Duplex> = match with.tls {
            // What stands behind it was not said by whom the certificate vouches for.
            Some(_) if !read.is_empty() => return Err(Trouble::Nonsense),
            Some(tls) => {
                let secured = tls.connect(&target.peer.host, tcp).await;
                Box::new(secured.map_err(Trouble::unreachable)?)
            }
            None if info.tls_required => return Err(Trouble::Unsecured),
            None => Box::new(tcp),
        };
        let mut connection = Self {
            stream,
            read,
            leaving: BytesMut::new(),
            target: target.clone(),
            inbox: with.inbox,
            message_bytes_max: info.max_payload,
            made: 0,
            is_proven: false,
        };
        let hello = protocol::hello(target, with.secret.as_deref(), with.version)?;
        connection.write(&hello).await?;
        while connection.hear().await? != Said::Pong {}
        let listen = protocol::listen(&connection.inbox);
        connection.write(&listen).await?;
        Ok(connection)
    }

    /// Tells whether a message is one that the server takes, by its own word.
    pub(super) fn takes(&self, letter: &Letter) -> bool {
        letter.counted <= self.message_bytes_max
    }

    /// Makes a message, and returns it with its number.
    pub(super) fn letter(&mut self, entry: &str, event: &[u8]) -> (u64, Letter) {
        self.made += 1;
        (self.made, protocol::letter(&self.target, entry, &self.inbox, self.made, event))
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// The connection broke.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        self.leaving.extend_from_slice(bytes);
        self.flush().await
    }

    /// Waits for the answer to a message; what else the server says is dealt with.
    ///
    /// # Errors
    /// The connection broke, or the server says that something is wrong.
    pub(super) async fn answer(&mut self) -> Result<(u64, Answer), Trouble> {
        loop {
            if let Said::Answer(number, answer) = self.hear().await? {
                return Ok((number, answer));
            }
        }
    }

    /// Listens until the connection ends. Dropping the call loses nothing.
    pub(super) async fn listen(&mut self) {
        while self.hear().await.is_ok() {}
    }

    async fn hear(&mut self) -> Result<Said, Trouble> {
        // A server that wants to hear something may have been answered in part.
        self.flush().await?;
        let said = said(&mut self.stream, &mut self.read, &self.target, &self.inbox).await?;
        match &said {
            Said::Fault(trouble) => return Err(trouble.clone()),
            Said::Ping => self.write(b"PONG\r\n").await?,
            Said::Info(Info { max_payload, .. }) => self.message_bytes_max = *max_payload,
            Said::Pong | Said::Answer(..) | Said::Other => {}
        }
        Ok(said)
    }

    async fn flush(&mut self) -> Result<(), Trouble> {
        while !self.leaving.is_empty() {
            self.stream.write_buf(&mut self.leaving).await.map_err(|_| Trouble::Broken)?;
        }
        self.stream.flush().await.map_err(|_| Trouble::Broken)
    }
}

/// Waits for the next thing that a server says.
async fn said(
    stream: &mut (impl AsyncRead + Unpin),
    read: &mut BytesMut,
    target: &NatsTarget,
    inbox: &str,
) -> Result<Said, Trouble> {
    loop {
        if let Some(said) = protocol::take(read, target, inbox)? {
            return Ok(said);
        }
        read.reserve(PIECE_BYTES);
        if stream.read_buf(read).await.map_err(|_| Trouble::Broken)? == 0 {
            return Err(Trouble::Broken);
        }
    }
}
