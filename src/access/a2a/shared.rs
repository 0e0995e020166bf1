//! What agents have signed lately, asked of all nodes together.
//!
//! The memory of a node ([`super::replay`]) answers first; only what is new to it is asked here. Whoever shares the
//! memory takes the questions from the channel; while it is away, the deployment's configuration says what becomes of
//! them.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::oneshot;

use super::replay::MAC_BYTES;
use super::replay::Name;
use super::replay::Seen;
use super::replay::name;
use crate::access::patience::Patience;

/// How many questions wait at the most; more are answered as if the memory were away.
pub const QUESTIONS_MAX: usize = 4096;

/// Asks whether a signature came to any node before.
#[derive(Debug)]
pub struct Question {
    /// What stands for the agent and its signature.
    pub name: Name,
    /// How long it is remembered.
    pub kept_for: Duration,
    /// Takes the answer.
    pub answer: oneshot::Sender<Told>,
}

/// What the nodes know together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// What is known of the signature.
    Seen(Seen),
    /// Nobody can tell, and each node goes by what it knows itself.
    Unknown,
    /// Nobody can tell, and what cannot be told is refused.
    Refused,
}

/// Asks.
#[derive(Clone, Debug)]
pub struct Asking {
    questions: mpsc::Sender<Question>,
    alone: Told,
    /// How long a request waits, all in all.
    in_all: Duration,
}

impl Asking {
    /// Returns what asks, and where its questions come out; a request that has waited for so long, all in all,
    /// is answered with `alone`.
    pub fn channel(alone: Told, in_all: Duration) -> (Self, mpsc::Receiver<Question>) {
        let (questions, asked) = mpsc::channel(QUESTIONS_MAX);
        (Self { questions, alone, in_all }, asked)
    }

    /// Asks for one signature, and has it remembered.
    pub async fn remember(
        &self,
        agent: &str,
        (mac, kept_for): (&[u8; MAC_BYTES], Duration),
        patience: &Patience,
    ) -> Told {
        let name = name(agent, mac);
        let (answer, answered) = oneshot::channel();
        match self.questions.try_send(Question { name, kept_for, answer }) {
            Ok(()) => patience.wait(self.in_all, answered).await.and_then(Result::ok).unwrap_or(self.alone),
            Err(_) => self.alone,
        }
    }
}
