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

use super::reach::Reach;
use super::redis::Answer;
use super::redis::Connection;
use super::redis::RedisUrl;
use super::rounds::Command;
use super::rounds::PAUSE;
use super::rounds::Rounds;
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
    /// Where Redis is, or any node of its cluster.
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
    /// Whether it is known to be away, and which node of a cluster to ask, to all who do.
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

    pub(super) async fn open(&self, place: &RedisUrl) -> io::Result<Connection> {
        Connection::open(place, &self.tls, self.timeout).await
    }

    /// Returns the place to ask next.
    pub(super) fn place(&self) -> RedisUrl {
        self.reach.place(&self.url)
    }
}

impl SharedLimits {
    /// Tells and learns until `shutdown` resolves.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let mut rounds = Rounds::new(self.server.clone(), "quotas", SCRIPT);
        self.kinds.iter().for_each(|buckets| buckets.share());
        // Nothing is known yet; to ask nothing finds out.
        let mut is_away = rounds.ask(|_| Vec::new()).await.is_none();
        loop {
            let refuses = is_away && self.server.when_away == WhenAway::Refuse;
            self.kinds.iter().for_each(|buckets| buckets.refuse(refuses));
            let pause = if is_away { PAUSE } else { GATHER };
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                () = rounds.found() => {}
                () = tokio::time::sleep(pause) => {}
            }
            let told = self.round(&mut rounds).await;
            let (result, count) = told.map_or(("away", 1), |told| ("told", told as u64));
            self.server.metrics.shared_limits(result, count);
            is_away = told.is_none();
        }
    }

    /// Tells what was taken since the last round, learns what is left, and returns of how many callers; `None`: nobody
    /// can tell, of some at least, who are told of later.
    async fn round(&self, rounds: &mut Rounds) -> Option<usize> {
        if self.server.reach.is_away() {
            // Lets go of a connection that may have ended meanwhile.
            rounds.ask(|_| Vec::new()).await?;
        }
        let mut told = 0;
        for buckets in &self.kinds {
            let taken = buckets.taken(ROUND_MAX);
            if taken.is_empty() {
                continue;
            }
            let kind = buckets.kind().as_str();
            let answers =
                rounds.ask(|script| taken.iter().map(|it| command(script, kind, it)).collect()).await;
            let (now, count) = (self.server.clock.now(), taken.len());
            let mut answers = answers.unwrap_or_default().into_iter();
            let is_untold = |it: &Taken| match answers.next() {
                Some(Answer::Number(left)) => {
                    buckets.learn(it, full_at(now, left));
                    false
                }
                Some(Answer::Refused(_) | Answer::Text(_) | Answer::Nothing) | None => true,
            };
            let untold: Vec<Taken> = taken.into_iter().filter(is_untold).collect();
            if !untold.is_empty() {
                buckets.untell(untold);
                return None;
            }
            told += count;
        }
        Some(told)
    }
}

fn command(script: &[u8], kind: &str, taken: &Taken) -> Command {
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

fn full_at(now: Timestamp, left_us: i64) -> i128 {
    now.as_nanosecond() + i128::from(left_us) * 1000
}

#[cfg(test)]
mod tests;
