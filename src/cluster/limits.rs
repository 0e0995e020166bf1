//! Quotas that all nodes share.
//!
//! A node decides by what it knows, at once and without asking anybody; what callers took it tells Redis a few
//! milliseconds later, where one script adds it to what they took elsewhere, by Redis' own clock, and answers what is
//! left. So a caller can take more than its quota only by what arrives at the other nodes within the time of one
//! such round, at most one burst at each; and what was taken too much is missing afterwards, so that the rate holds.
//!
//! While Redis is away the configuration says whether each node counts for itself or refuses what is counted.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::redis::Answer;
use super::redis::Connection;
use super::redis::RedisUrl;
use super::rounds::Reach;
use crate::access::a2a::shared::Told;
use crate::access::limit::Buckets;
use crate::access::limit::Taken;
use crate::clock::Clock;
use crate::telemetry::metrics::Metrics;
use crate::tls::client::TlsClient;

/// How long a round waits for more to tell.
const GATHER: Duration = Duration::from_millis(5);
/// How many callers one round tells of.
const ROUND_MAX: usize = 1000;
/// How much longer whoever waits for a round waits than it may take.
const MARGIN: Duration = Duration::from_millis(10);
/// How long to wait before Redis is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Adds what was taken to when a bucket is full again, in microseconds of the server's clock; answers how long that is
/// from now. One key each, all with one hash tag, so that a cluster keeps them together.
const SCRIPT: &str = "
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local full = tonumber(redis.call('GET', KEYS[1]) or now)
if full < now then full = now end
full = math.min(full + tonumber(ARGV[1]), now + 2 * tonumber(ARGV[2]))
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000) + 1000)
return full - now
";

/// What happens while Redis is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenAway {
    /// Each node counts for itself.
    Local,
    /// What is counted is refused.
    Refuse,
}

impl WhenAway {
    /// Returns what is told of an agent's signature while Redis is away.
    pub fn told(self) -> Told {
        match self {
            Self::Local => Told::Unknown,
            Self::Refuse => Told::Refused,
        }
    }
}

/// The Redis that nodes share.
#[derive(Clone)]
pub struct RedisServer {
    /// Where Redis is.
    pub url: RedisUrl,
    /// How it is reached where its URL says so.
    pub tls: TlsClient,
    /// How long a round may take.
    pub timeout: Duration,
    /// What happens while it is away.
    pub when_away: WhenAway,
    /// Gives the time.
    pub clock: Arc<dyn Clock>,
    /// Counts rounds.
    pub metrics: Arc<Metrics>,
    /// Whether it is known to be away, to all who ask it.
    pub reach: Arc<Reach>,
}

/// Shares the buckets of two kinds of callers.
pub struct SharedLimits {
    /// The buckets of each kind.
    pub kinds: Vec<Arc<Buckets>>,
    /// Where they are shared.
    pub server: RedisServer,
}

impl RedisServer {
    /// Returns how long a request waits to be told anything: no longer than a round takes, so that what is away is known to
    /// be when it goes on.
    pub fn patience(&self) -> Duration {
        self.timeout.saturating_add(MARGIN)
    }

    pub(super) async fn open(&self) -> io::Result<Connection> {
        Connection::open(&self.url, &self.tls, self.timeout).await
    }
}

impl SharedLimits {
    /// Tells and learns until `shutdown` resolves.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        self.kinds.iter().for_each(|buckets| buckets.share());
        let mut connection = None;
        let mut was_away = false;
        loop {
            let pause = if was_away { PAUSE } else { GATHER };
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                () = tokio::time::sleep(pause) => {}
            }
            let is_away = match self.round(&mut connection).await {
                Ok(told) => {
                    self.server.metrics.shared_limits("told", told as u64);
                    false
                }
                Err(error) => {
                    connection = None;
                    self.server.metrics.shared_limits("away", 1);
                    if !was_away {
                        tracing::error!(%error, "Redis is away: quotas are not shared");
                    }
                    true
                }
            };
            if was_away && !is_away {
                tracing::info!("Redis is back: quotas are shared");
            }
            let refuses = is_away && self.server.when_away == WhenAway::Refuse;
            self.kinds.iter().for_each(|buckets| buckets.refuse(refuses));
            was_away = is_away;
        }
    }

    /// Tells what was taken since the last round, learns what is left, and returns of how many callers.
    async fn round(&self, connection: &mut Option<(Connection, Vec<u8>)>) -> io::Result<usize> {
        if connection.is_none() {
            *connection = Some(self.connect().await?);
        }
        let Some((open, script)) = connection else { return Ok(0) };
        let mut told = 0;
        for buckets in &self.kinds {
            let taken = buckets.taken(ROUND_MAX);
            if taken.is_empty() {
                continue;
            }
            let commands: Vec<Vec<Vec<u8>>> =
                taken.iter().map(|it| command(script, buckets.kind().as_str(), it)).collect();
            match open.ask_all(&commands).await.and_then(|answers| left(&answers)) {
                Ok(left) => {
                    told += taken.len();
                    let now = self.server.clock.now();
                    taken.iter().zip(left).for_each(|(it, left)| buckets.learn(it, full_at(now, left)));
                }
                Err(error) => {
                    buckets.untell(taken);
                    return Err(error);
                }
            }
        }
        Ok(told)
    }

    async fn connect(&self) -> io::Result<(Connection, Vec<u8>)> {
        let mut open = self.server.open().await?;
        match open.ask(&[b"SCRIPT".to_vec(), b"LOAD".to_vec(), SCRIPT.into()]).await? {
            Answer::Text(name) => Ok((open, name)),
            Answer::Refused(reason) => Err(io::Error::other(reason)),
            Answer::Number(_) | Answer::Nothing => Err(io::Error::other("this is not Redis")),
        }
    }
}

fn command(script: &[u8], kind: &str, taken: &Taken) -> Vec<Vec<u8>> {
    let micros = |nanos: i128| nanos.div_euclid(1000).to_string().into_bytes();
    vec![
        b"EVALSHA".to_vec(),
        script.to_vec(),
        b"1".to_vec(),
        format!("{{portcullis}}:{kind}:{:016x}", taken.caller).into_bytes(),
        micros(taken.cost_ns),
        micros(taken.capacity_ns),
    ]
}

/// Returns how long it is until each bucket is full, in microseconds. A script that is not known any more is loaded
/// anew with the next connection.
fn left(answers: &[Answer]) -> io::Result<Vec<i64>> {
    let number = |answer: &Answer| match answer {
        Answer::Number(left) => Ok(*left),
        Answer::Refused(reason) => Err(io::Error::other(reason.clone())),
        Answer::Text(_) | Answer::Nothing => Err(io::Error::other("this is not Redis")),
    };
    answers.iter().map(number).collect()
}

fn full_at(now: Timestamp, left_us: i64) -> i128 {
    now.as_nanosecond() + i128::from(left_us) * 1000
}
