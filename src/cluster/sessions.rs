//! Ends and last uses of browsers' sessions, which all nodes know together in Redis.
//!
//! One key for each session that was used lately, under a keyed hash of its id: the moment of its last use, or that it has
//! ended, for as long as it could have lived. A lookup learns both and writes its own use in one round trip; an end is
//! written before it is answered, or else as soon as it can be. The store keeps sessions as before, so that a Redis that
//! loses what it knew takes nothing along but uses of the last minute, and ends that the other nodes have not heard of from
//! the store.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::MissedTickBehavior;

use super::limits::RedisServer;
use super::limits::WhenAway;
use super::millis;
use super::redis::Answer;
use super::rounds::Command;
use super::rounds::Rounds;
use crate::access::session::SessionStore;
use crate::access::session::shared::Asked;
use crate::access::session::shared::Name;
use crate::access::session::shared::Question;
use crate::access::session::shared::Shared;
use crate::access::session::shared::Told;

const SCRIPT: &str = include_str!("sessions.lua");
/// How many questions are asked in one breath.
const ROUND_MAX: usize = 256;
const ENDED: &[u8] = b"ended";
/// How often ends are said again that could not be said.
const AGAIN: Duration = Duration::from_secs(1);

/// Answers the questions of this node.
pub struct SharedSessions {
    shared: Shared,
    server: RedisServer,
}

impl WhenAway {
    /// Returns what is told of a session while Redis is away.
    fn told_of_session(self) -> Told {
        match self {
            Self::Local => Told::Unknown,
            Self::Refuse => Told::Refused,
        }
    }
}

impl SharedSessions {
    /// Lets the ends and last uses of a node's sessions be shared.
    pub fn new(sessions: &SessionStore, server: RedisServer) -> Self {
        let shared = sessions.share(server.when_away.told_of_session(), server.patience());
        Self { shared, server }
    }

    /// Answers until `shutdown` resolves.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let mut rounds = Rounds::new(self.server.clone(), "ends and uses of sessions", SCRIPT);
        let mut again = tokio::time::interval(AGAIN);
        again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let unsaid = Arc::clone(&self.shared.unsaid);
        loop {
            let mut round = Vec::new();
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                () = rounds.found() => {}
                count = self.shared.questions.recv_many(&mut round, ROUND_MAX) => if count == 0 {
                    return;
                },
                _ = again.tick(), if !unsaid.is_empty() => {}
            }
            // An end counts whether or not somebody waits for it.
            round.retain(|question| question.asked == Asked::End || !question.answer.is_closed());
            self.round(&mut rounds, round).await;
        }
    }

    /// Says first what could not be said before, then asks.
    async fn round(&self, rounds: &mut Rounds, round: Vec<Question>) {
        let ends = self.shared.unsaid.take(ROUND_MAX);
        if ends.is_empty() && round.is_empty() {
            return;
        }
        let commands = |script: &[u8]| {
            let ends = ends.iter().map(|name| end(name, self.shared.lifetime));
            ends.chain(round.iter().map(|question| command(question, script))).collect()
        };
        let told: Vec<Told> = match rounds.ask(commands).await {
            Some(answers) => answers.iter().map(|answer| self.told(answer)).collect(),
            None => vec![self.server.when_away.told_of_session(); ends.len() + round.len()],
        };
        let count = ends.len();
        self.shared.unsaid.keep(ends.into_iter().zip(&told).filter(is_unsaid).map(|(name, _)| name));
        for (question, told) in round.into_iter().zip(told.into_iter().skip(count)) {
            if question.asked == Asked::End {
                self.shared.unsaid.keep(Some((question.name, &told)).filter(is_unsaid).map(|(name, _)| name));
            }
            // Whoever asked may have gone.
            let _ = question.answer.send(told);
        }
    }

    fn told(&self, answer: &Answer) -> Told {
        match answer {
            // To what was said of an end.
            Answer::Text(_) => Told::Ended,
            Answer::Number(seen) if *seen >= 0 => {
                Timestamp::from_millisecond(*seen).map_or(Told::Ended, Told::Seen)
            }
            Answer::Number(_) => Told::Ended,
            Answer::Refused(_) | Answer::Nothing => {
                self.server.metrics.shared_limits("away", 1);
                self.server.when_away.told_of_session()
            }
        }
    }
}

fn is_unsaid((_, told): &(Name, &Told)) -> bool {
    **told != Told::Ended
}

/// Returns what says that a session has ended.
fn end(name: &Name, kept_for: Duration) -> Command {
    vec![b"SET".to_vec(), key(name), ENDED.to_vec(), b"PX".to_vec(), kept(kept_for)]
}

fn key(name: &Name) -> Vec<u8> {
    let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{{portcullis}}:session:{name}").into_bytes()
}

fn kept(kept_for: Duration) -> Vec<u8> {
    millis(kept_for.max(Duration::from_millis(1))).to_string().into_bytes()
}

fn command(question: &Question, script: &[u8]) -> Command {
    let Some((seen, used)) = question.asked.millis() else { return end(&question.name, question.kept_for) };
    let (name, kept) = (key(&question.name), kept(question.kept_for));
    let (now, idle) = used.map(|(now, idle)| (now.to_string(), idle.to_string())).unwrap_or_default();
    let begin = [b"EVALSHA".to_vec(), script.to_vec(), b"1".to_vec(), name];
    let words = [seen.to_string(), now, idle].map(String::into_bytes);
    begin.into_iter().chain(words).chain([kept]).collect()
}

#[cfg(test)]
mod tests;
