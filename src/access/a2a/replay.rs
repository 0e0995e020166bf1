//! What agents have signed lately, so that a recorded request is not taken a second time.
//!
//! Each agent has a share of its own: one that signs without end locks out nobody but itself.

use std::collections::HashMap;

use parking_lot::Mutex;

/// The bytes of an HMAC-SHA256.
pub const MAC_BYTES: usize = 32;
/// The most signatures of one agent that are remembered at a time.
pub const REMEMBERED_MAX: usize = 65_536;

/// The signatures of one agent, and until when each is remembered, in Unix seconds.
type Signed = HashMap<[u8; MAC_BYTES], i64>;

/// What agents have signed lately.
#[derive(Default)]
pub struct Replays {
    agents: Mutex<HashMap<String, Signed>>,
}

/// What is known of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It comes for the first time, and is remembered now.
    First,
    /// It came before.
    Before,
    /// The agent's share is used up.
    Full,
}

impl Replays {
    /// Remembers a signature until `until`; times are in Unix seconds.
    pub fn remember(&self, agent: &str, mac: [u8; MAC_BYTES], now: i64, until: i64) -> Seen {
        let mut agents = self.agents.lock();
        if !agents.contains_key(agent) {
            agents.retain(|_, signed| signed.values().any(|until| *until >= now));
        }
        let signed = agents.entry(agent.to_owned()).or_default();
        if signed.get(&mac).is_some_and(|until| *until >= now) {
            return Seen::Before;
        }
        if signed.len() >= REMEMBERED_MAX {
            signed.retain(|_, until| *until >= now);
        }
        if signed.len() >= REMEMBERED_MAX {
            return Seen::Full;
        }
        signed.insert(mac, until);
        Seen::First
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_counts_once_while_it_is_remembered() {
        let replays = Replays::default();
        assert_eq!(replays.remember("a", [1; 32], 100, 130), Seen::First);
        assert_eq!(replays.remember("a", [1; 32], 130, 160), Seen::Before);
        assert_eq!(replays.remember("b", [1; 32], 130, 160), Seen::First);
        assert_eq!(replays.remember("a", [1; 32], 131, 160), Seen::First);
    }

    #[test]
    fn memory_is_bounded_for_each_agent() {
        let replays = Replays::default();
        let mac = |at: usize| {
            let mut mac = [0; MAC_BYTES];
            mac[..8].copy_from_slice(&at.to_be_bytes());
            mac
        };
        for at in 0..REMEMBERED_MAX {
            assert_eq!(replays.remember("a", mac(at), 100, 130), Seen::First);
        }
        assert_eq!(replays.remember("a", mac(REMEMBERED_MAX), 130, 160), Seen::Full);
        assert_eq!(replays.remember("b", mac(0), 130, 160), Seen::First);
        assert_eq!(replays.remember("a", mac(REMEMBERED_MAX), 131, 160), Seen::First);
        assert_eq!(replays.agents.lock()["a"].len(), 1);
    }
}
