//! A connection to Redis, or to Valkey: as much of its protocol (RESP 2) as one script needs.

use std::io;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio::io::AsyncBufReadExt;
use tokio::io::AsyncRead;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWrite;
use tokio::io::AsyncWriteExt;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::tls::client::TlsClient;

/// The longest line of an answer, in bytes.
const LINE_BYTES_MAX: u64 = 4096;
/// The longest text of an answer, in bytes.
const TEXT_BYTES_MAX: usize = 64 << 10;
const PORT: u16 = 6379;

trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// Where a server is, and what it wants to see: `redis://[USER:PASSWORD@]HOST[:PORT]`, `rediss` for TLS. User and password
/// may be in percent encoding, as in other URLs: a `%` of theirs is `%25`.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    host: String,
    port: u16,
    user: String,
    password: String,
    is_secured: bool,
}

/// The text is no URL of a server.
#[derive(Debug, thiserror::Error)]
#[error("the URL of Redis is none: expected redis://:PASSWORD@HOST:PORT, or rediss:// with TLS")]
pub struct NoRedisUrl;

/// An open connection.
pub(super) struct Connection {
    wire: BufReader<Box<dyn Wire>>,
    timeout: Duration,
}

/// What a server answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Text(Vec<u8>),
    Number(i64),
    Refused(String),
    Nothing,
}

impl std::fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisUrl").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

impl RedisUrl {
    /// Returns the same, of another server of the same deployment; without a host, of the same host.
    pub(super) fn at(&self, host: &str, port: u16) -> Self {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = if host.is_empty() { &self.host } else { host };
        Self { host: host.to_owned(), port, ..self.clone() }
    }
}

impl std::str::FromStr for RedisUrl {
    type Err = NoRedisUrl;

    fn from_str(text: &str) -> Result<Self, NoRedisUrl> {
        let (scheme, rest) = text.trim().split_once("://").ok_or(NoRedisUrl)?;
        let is_secured = match scheme {
            "redis" => false,
            "rediss" => true,
            _ => return Err(NoRedisUrl),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (given, place) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (user, password) = given.split_once(':').unwrap_or(("", given));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| NoRedisUrl)?),
            _ => (place, PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() || host.contains('/') {
            return Err(NoRedisUrl);
        }
        let [user, password] =
            [user, password].map(|text| percent_decode_str(text).decode_utf8_lossy().into_owned());
        Ok(Self { host, port, user, password, is_secured })
    }
}

impl Connection {
    /// Connects, and proves who we are where that is asked.
    pub(super) async fn open(url: &RedisUrl, tls: &TlsClient, limit: Duration) -> io::Result<Self> {
        let opening = async {
            let stream = TcpStream::connect((url.host.as_str(), url.port)).await?;
            stream.set_nodelay(true)?;
            let wire: Box<dyn Wire> = match url.is_secured {
                true => Box::new(tls.connect(&url.host, stream).await?),
                false => Box::new(stream),
            };
            Ok::<_, io::Error>(Self { wire: BufReader::new(wire), timeout: limit })
        };
        let mut opened = timeout(limit, opening).await.map_err(|_| io::ErrorKind::TimedOut)??;
        if !url.password.is_empty() {
            let mut words = vec![b"AUTH".to_vec()];
            words.extend((!url.user.is_empty()).then(|| url.user.clone().into_bytes()));
            words.push(url.password.clone().into_bytes());
            if let Answer::Refused(_) = opened.ask(&words).await? {
                return Err(io::Error::other("Redis refuses the credentials"));
            }
        }
        Ok(opened)
    }

    /// Says one command and returns the answer to it.
    pub(super) async fn ask(&mut self, words: &[Vec<u8>]) -> io::Result<Answer> {
        let answers = self.ask_all(std::slice::from_ref(&words.to_vec())).await?;
        answers.into_iter().next().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Says commands in one breath, and returns the answers in their order.
    pub(super) async fn ask_all(&mut self, commands: &[Vec<Vec<u8>>]) -> io::Result<Vec<Answer>> {
        let mut said = Vec::new();
        for words in commands {
            said.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            for word in words {
                said.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                said.extend_from_slice(word);
                said.extend_from_slice(b"\r\n");
            }
        }
        let limit = self.timeout;
        let exchange = async {
            self.wire.write_all(&said).await?;
            self.wire.flush().await?;
            let mut answers = Vec::with_capacity(commands.len());
            for _ in commands {
                answers.push(self.answer().await?);
            }
            Ok(answers)
        };
        timeout(limit, exchange).await.map_err(|_| io::ErrorKind::TimedOut)?
    }

    async fn answer(&mut self) -> io::Result<Answer> {
        let odd = || io::Error::other("this is not Redis");
        let mut line = Vec::new();
        (&mut self.wire).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
        let line = line.strip_suffix(b"\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        let (kind, rest) = line.split_first().ok_or_else(odd)?;
        let text = String::from_utf8_lossy(rest).into_owned();
        match kind {
            b'+' => Ok(Answer::Text(rest.to_vec())),
            b'-' => Ok(Answer::Refused(text)),
            b':' => text.parse().map(Answer::Number).map_err(|_| odd()),
            b'$' if text == "-1" => Ok(Answer::Nothing),
            b'$' => {
                let length: usize = text.parse().ok().filter(|it| *it <= TEXT_BYTES_MAX).ok_or_else(odd)?;
                let mut bytes = vec![0; length + 2];
                self.wire.read_exact(&mut bytes).await?;
                bytes.truncate(length);
                Ok(Answer::Text(bytes))
            }
            _ => Err(odd()),
        }
    }
}

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisFacts {
    /// Whether it follows another one, and takes nothing that is written.
    pub is_replica: bool,
    /// Whether it forgets what nobody asked it to forget, when its memory is full.
    pub evicts: bool,
    /// Why it does not run a script that writes, in its own words: nothing can be shared.
    pub refuses: Option<String>,
}

/// A script of the kind that shares: it writes a key, which is gone a moment later.
const PROBE: &str = "return redis.call('SET', KEYS[1], '1', 'PX', 1)";
/// How a node of a cluster begins that has other keys.
const SENT_ON: [&str; 2] = ["MOVED ", "ASK "];
/// The key, where a cluster has all others.
const PROBE_KEY: &str = "{portcullis}:probe";

/// Asks a server about itself, and whether it takes what is written. One that does not say counts as what is wanted.
///
/// # Errors
/// It cannot be reached, refuses the credentials, or is not able to answer now.
pub async fn ask_redis(url: &RedisUrl, tls: &TlsClient, limit: Duration) -> io::Result<RedisFacts> {
    let mut open = Connection::open(url, tls, limit).await?;
    if let Answer::Refused(reason) = open.ask(&[b"PING".to_vec()]).await? {
        return Err(io::Error::other(reason));
    }
    let mut said = String::new();
    for section in [b"replication".as_slice(), b"memory"] {
        if let Answer::Text(text) = open.ask(&[b"INFO".to_vec(), section.to_vec()]).await? {
            said.push_str(&String::from_utf8_lossy(&text));
        }
    }
    let probe = ["EVAL", PROBE, "1", PROBE_KEY].map(|word| word.as_bytes().to_vec());
    let refuses = match open.ask(&probe).await? {
        Answer::Refused(reason) if !SENT_ON.iter().any(|code| reason.starts_with(code)) => Some(reason),
        Answer::Refused(_) | Answer::Text(_) | Answer::Number(_) | Answer::Nothing => None,
    };
    let says = |line: &str| said.lines().any(|said| said == line);
    let is_bounded = said.contains("\nmaxmemory:") && !says("maxmemory:0");
    Ok(RedisFacts {
        is_replica: says("role:slave"),
        evicts: is_bounded && !says("maxmemory_policy:noeviction"),
        refuses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let read = |text: &str| text.parse::<RedisUrl>().ok();
        let url = read("rediss://me:se:cret@cache.internal:6380/\n").unwrap();
        assert_eq!((url.host.as_str(), url.port, url.is_secured), ("cache.internal", 6380, true));
        assert_eq!((url.user.as_str(), url.password.as_str()), ("me", "se:cret"));
        assert!(!format!("{url:?}").contains("cret"));
        let url = read("redis://m%65:p%40ss%2Fw%3Ard%25@x").unwrap();
        assert_eq!((url.user.as_str(), url.password.as_str()), ("me", "p@ss/w:rd%"));
        assert_eq!(read("redis://[::1]").map(|url| (url.host, url.port)), Some(("::1".to_owned(), PORT)));
        for odd in ["", "http://x", "redis://", "redis://x:port", "redis://x/y/z"] {
            assert!(read(odd).is_none(), "{odd}");
        }
    }
}
