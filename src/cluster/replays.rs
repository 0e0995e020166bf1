//! What agents have signed lately, remembered by all nodes together in Redis.
//!
//! One key for each signature, which Redis forgets by itself; whoever sets it first was the first. Questions that wait
//! are asked in one breath.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::mpsc;

use super::limits::RedisServer;
use super::redis::Answer;
use super::redis::Connection;
use crate::access::a2a::replay::Seen;
use crate::access::a2a::shared::Question;
use crate::access::a2a::shared::Told;

/// How many questions are asked in one breath.
const ROUND_MAX: usize = 256;
/// How long to wait before Redis is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Answers the questions of this node.
pub struct SharedReplays {
    /// Where they come from.
    pub questions: mpsc::Receiver<Question>,
    /// Where Redis is.
    pub server: RedisServer,
}

impl SharedReplays {
    /// Answers until `shutdown` resolves.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let mut connection = None;
        // Since when Redis is not asked again for a while.
        let mut away: Option<Duration> = None;
        loop {
            let mut round = Vec::new();
            tokio::select! {
                biased;
                _ = self.questions.recv_many(&mut round, ROUND_MAX) => {}
                () = &mut shutdown => return,
            }
            if round.is_empty() {
                return;
            }
            let now = self.server.clock.monotonic();
            if away.is_some_and(|since| now.saturating_sub(since) < PAUSE) {
                self.answer_alone(round);
                continue;
            }
            match self.ask(&mut connection, &round).await {
                Ok(answers) => {
                    away = None;
                    for (question, told) in round.into_iter().zip(answers) {
                        // Whoever asked may have gone.
                        let _ = question.answer.send(told);
                    }
                }
                Err(error) => {
                    if away.is_none() {
                        tracing::error!(%error, "Redis is away: what agents signed is not shared");
                    }
                    (connection, away) = (None, Some(self.server.clock.monotonic()));
                    self.server.metrics.shared_limits("away", 1);
                    self.answer_alone(round);
                }
            }
        }
    }

    fn answer_alone(&self, round: Vec<Question>) {
        let told = self.server.when_away.told();
        for question in round {
            let _ = question.answer.send(told);
        }
    }

    /// Asks; once more over a new connection where the one that was kept has ended meanwhile.
    async fn ask(&self, connection: &mut Option<Connection>, round: &[Question]) -> io::Result<Vec<Told>> {
        let was_open = connection.is_some();
        match self.ask_once(connection, round).await {
            Err(error) if was_open && error.kind() != io::ErrorKind::TimedOut => {
                *connection = None;
                self.ask_once(connection, round).await
            }
            told => told,
        }
    }

    async fn ask_once(
        &self,
        connection: &mut Option<Connection>,
        round: &[Question],
    ) -> io::Result<Vec<Told>> {
        if connection.is_none() {
            *connection = Some(self.server.open().await?);
        }
        let Some(open) = connection else { return Err(io::ErrorKind::NotConnected.into()) };
        let commands: Vec<Vec<Vec<u8>>> = round.iter().map(command).collect();
        let answers = open.ask_all(&commands).await?;
        Ok(answers.into_iter().map(|answer| self.told(&answer)).collect())
    }

    fn told(&self, answer: &Answer) -> Told {
        match answer {
            Answer::Text(_) => Told::Seen(Seen::First),
            Answer::Nothing => Told::Seen(Seen::Before),
            // Out of memory, say: of this one nobody can tell.
            Answer::Refused(_) | Answer::Number(_) => {
                self.server.metrics.shared_limits("away", 1);
                self.server.when_away.told()
            }
        }
    }
}

fn command(question: &Question) -> Vec<Vec<u8>> {
    let name: String = question.name.iter().map(|byte| format!("{byte:02x}")).collect();
    let kept_ms = question.kept_for.as_millis().max(1).to_string();
    vec![
        b"SET".to_vec(),
        format!("{{portcullis}}:signed:{name}").into_bytes(),
        b"1".to_vec(),
        b"NX".to_vec(),
        b"PX".to_vec(),
        kept_ms.into_bytes(),
    ]
}
