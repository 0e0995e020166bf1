//! What agents have signed lately, remembered by all nodes together in Redis.
//!
//! One key for each signature, which Redis forgets by itself; whoever sets it first was the first. Questions that wait
//! are asked in one breath.

use std::future::Future;
use std::pin::pin;

use tokio::sync::mpsc;

use super::limits::RedisServer;
use super::redis::Answer;
use super::rounds::Command;
use super::rounds::Rounds;
use crate::access::a2a::replay::Seen;
use crate::access::a2a::shared::Question;
use crate::access::a2a::shared::Told;

/// How many questions are asked in one breath.
const ROUND_MAX: usize = 256;

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
        let mut rounds = Rounds::new(self.server.clone(), "what agents signed", "");
        loop {
            let mut round = Vec::new();
            tokio::select! {
                biased;
                () = rounds.found() => continue,
                _ = self.questions.recv_many(&mut round, ROUND_MAX) => {}
                () = &mut shutdown => return,
            }
            if round.is_empty() {
                return;
            }
            // Whoever waits no longer would be remembered in vain.
            round.retain(|question| !question.answer.is_closed());
            let answers = rounds.ask(|_| round.iter().map(command).collect()).await;
            let told = match answers {
                Some(answers) => answers.iter().map(|answer| self.told(answer)).collect(),
                None => vec![self.server.when_away.told(); round.len()],
            };
            for (question, told) in round.into_iter().zip(told) {
                // Whoever asked may have gone.
                let _ = question.answer.send(told);
            }
        }
    }

    fn told(&self, answer: &Answer) -> Told {
        match answer {
            Answer::Text(_) => Told::Seen(Seen::First),
            Answer::Nothing => Told::Seen(Seen::Before),
            // Out of memory, or a replica: of this one nobody can tell.
            Answer::Refused(_) | Answer::Number(_) => {
                self.server.metrics.shared_limits("away", 1);
                self.server.when_away.told()
            }
        }
    }
}

fn command(question: &Question) -> Command {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::access::a2a::shared::Asking;
    use crate::access::patience::Patience;
    use crate::clock::Clock;
    use crate::clock::ManualClock;
    use crate::cluster::limits::WhenAway;
    use crate::cluster::rounds::PAUSE;
    use crate::telemetry::metrics::Metrics;
    use crate::tls::client::TlsClient;

    const REPLICA: &[u8] = b"-READONLY You can't write against a read only replica.\r\n";
    const FULL: &[u8] = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n";

    /// Answers each connection in its own way, whatever it asks; tells how many there were.
    async fn answering(listener: TcpListener, answers: Vec<&'static [u8]>, begun: Arc<AtomicUsize>) {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            begun.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let mut asked = [0; 1024];
                while stream.read(&mut asked).await.is_ok_and(|count| count > 0) {
                    stream.write_all(answer).await.unwrap();
                }
            });
        }
    }

    struct World {
        asking: Asking,
        clock: Arc<ManualClock>,
        /// How many connections there were.
        begun: Arc<AtomicUsize>,
    }

    impl World {
        async fn start(answers: Vec<&'static [u8]>) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("redis://{}", listener.local_addr().unwrap()).parse().unwrap();
            let begun = Arc::new(AtomicUsize::new(0));
            tokio::spawn(answering(listener, answers, Arc::clone(&begun)));
            let clock = Arc::new(ManualClock::new("2026-11-21T12:00:00Z".parse().unwrap()));
            let server = RedisServer {
                url,
                tls: TlsClient::new(None).unwrap(),
                timeout: Duration::from_secs(10),
                when_away: WhenAway::Refuse,
                clock: Arc::clone(&clock) as Arc<dyn Clock>,
                metrics: Arc::new(Metrics::new("0", "0")),
                reach: Arc::default(),
            };
            let (asking, questions) = Asking::channel(Told::Refused, server.patience());
            tokio::spawn(SharedReplays { questions, server }.run(std::future::pending()));
            Self { asking, clock, begun }
        }

        /// Asks once; returns what is told, and how many connections there were by then.
        async fn ask(&self) -> (Told, usize) {
            let told = self
                .asking
                .remember("planner", (&[1; 32], Duration::from_secs(60)), &Patience::default())
                .await;
            (told, self.begun.load(Ordering::Relaxed))
        }
    }

    #[tokio::test]
    async fn whoever_took_over_is_asked_after_a_refusal() {
        let world = World::start(vec![REPLICA, b"+OK\r\n"]).await;
        assert_eq!(world.ask().await, (Told::Refused, 1), "of this one nobody can tell");
        assert_eq!(world.ask().await, (Told::Seen(Seen::First), 2));
        assert_eq!(world.ask().await, (Told::Seen(Seen::First), 2), "the connection that answers is kept");
    }

    #[tokio::test]
    async fn a_server_that_nobody_took_over_from_is_left_alone_for_a_while() {
        let world = World::start(vec![REPLICA, REPLICA, REPLICA, b"+OK\r\n"]).await;
        assert_eq!(world.ask().await, (Told::Refused, 1));
        for _ in 0..3 {
            assert_eq!(world.ask().await, (Told::Refused, 2));
        }
        world.clock.advance(PAUSE);
        for _ in 0..3 {
            assert_eq!(world.ask().await, (Told::Refused, 3));
        }
        world.clock.advance(PAUSE);
        assert_eq!(world.ask().await, (Told::Seen(Seen::First), 4));
    }

    #[tokio::test]
    async fn a_server_that_is_full_is_the_one_to_ask_all_the_same() {
        let world = World::start(vec![FULL]).await;
        for _ in 0..3 {
            assert_eq!(world.ask().await, (Told::Refused, 1));
        }
    }
}
