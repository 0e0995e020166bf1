//! Guardrails between agents: who may ask for what, how often, and in its own words.
//!
//! In: the verdict on a connection's client certificate and the claims of a request's headers
//! ([`claims`]). Out: a [`chain::Pending`] that waits for the body, then a [`chain::Grant`], without which
//! nothing is forwarded; or a [`denial::Denial`] with one of the contract's fourteen codes. The order is
//! fixed: certificate, agent known, licence, rate, capability, integrity ([`chain`]).
//!
//! What agents may do is a YAML file ([`map`]), read anew when it changes ([`directory`]). Everything but
//! the directory is a function of its arguments, time included.

pub mod chain;
pub mod claims;
pub mod denial;
pub mod directory;
pub mod map;
pub mod replay;
pub mod shared;
pub mod signature;

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use super::limit::Buckets;
use directory::Directory;
use directory::ReadSecret;
use replay::Replays;
use shared::Asking;

/// What the guardrails remember between calls.
pub struct Guardrails {
    /// The agents and what they may do.
    pub directory: Directory,
    /// How much each agent has asked for.
    pub buckets: Arc<Buckets>,
    /// What each agent has signed lately.
    pub replays: Replays,
    /// What certificates of agents are judged by.
    pub vouching: Vouching,
    /// Asks the other nodes, where they remember together.
    together: OnceLock<Asking>,
}

/// What is in force of the files by which certificates of agents are judged.
#[derive(Debug, Default)]
pub struct Vouching {
    verifies: AtomicBool,
    revokes: AtomicBool,
}

impl Vouching {
    /// Notes whether there is an authority, and whether there are lists of what it has revoked.
    pub fn note(&self, verifies: bool, revokes: bool) {
        self.verifies.store(verifies, Ordering::Relaxed);
        self.revokes.store(revokes, Ordering::Relaxed);
    }

    /// Tells whether certificates can be verified at all.
    pub fn verifies(&self) -> bool {
        self.verifies.load(Ordering::Relaxed)
    }

    /// Tells whether certificates are looked up in lists of revoked ones.
    pub fn revokes(&self) -> bool {
        self.revokes.load(Ordering::Relaxed)
    }
}

/// How calls of agents are judged; changes without a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How far a request's time may be from ours, and how long its signature is remembered; 0: neither.
    pub replay_window_s: u64,
    /// Whether the signature must cover the time too.
    pub signed_timestamp: bool,
}

impl Guardrails {
    /// Returns guardrails that know no agent yet, and of what was signed no more than `replays`; secrets are read with
    /// `read`.
    pub fn new(buckets: Arc<Buckets>, replays: Replays, read: ReadSecret) -> Self {
        let (directory, vouching) = (Directory::new(read), Vouching::default());
        Self { directory, buckets, replays, vouching, together: OnceLock::new() }
    }

    /// Tells whether signatures are remembered together with other nodes.
    pub fn is_shared(&self) -> bool {
        self.together.get().is_some()
    }

    /// Remembers signatures together with other nodes from now on; the first who is asked stays it.
    pub fn share(&self, asking: Asking) {
        self.together.get_or_init(|| asking);
    }
}
