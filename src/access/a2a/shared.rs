//! What agents have signed lately, asked of all nodes together.
//!
//! The memory of a node ([`super::replay`]) answers first; only what is new to it is asked here. Whoever shares the
//! memory takes the questions from the channel; while it is away, the deployment's configuration says what becomes of
//! them.

use std::time::Duration;

use sha2::Digest;
use sha2::Sha256;
use tokio::sync::mpsc;
use tokio::sync::oneshot;

use super::replay::MAC_BYTES;
use super::replay::Seen;

/// How many questions wait at the most; more are answered as if the memory were away.
pub const QUESTIONS_MAX: usize = 4096;

/// Asks whether a signature came to any node before.
#[derive(Debug)]
pub struct Question {
    /// What stands for the agent and its signature.
    pub name: [u8; 32],
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
}

impl Asking {
    /// Returns what asks, and where its questions come out; those that nobody takes are answered with `alone`.
    pub fn channel(alone: Told) -> (Self, mpsc::Receiver<Question>) {
        let (questions, asked) = mpsc::channel(QUESTIONS_MAX);
        (Self { questions, alone }, asked)
    }

    /// Asks for one signature, and has it remembered.
    pub async fn remember(&self, agent: &str, mac: &[u8; MAC_BYTES], kept_for: Duration) -> Told {
        // Neither contains the other's end: a MAC is always as long.
        let name = Sha256::new().chain_update(mac).chain_update(agent).finalize().into();
        let (answer, answered) = oneshot::channel();
        match self.questions.try_send(Question { name, kept_for, answer }) {
            Ok(()) => answered.await.unwrap_or(self.alone),
            Err(_) => self.alone,
        }
    }
}
