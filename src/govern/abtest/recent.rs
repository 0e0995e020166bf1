//! The request ids that were counted lately, and how; bounded, and forgotten with the process.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::hash::RandomState;

/// How many requests of a test are remembered.
pub const RECENT_MAX: usize = 16_384;

/// How a request was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// By live traffic.
    Live {
        /// The place of the variant that judged it.
        variant: usize,
        /// Whether its model detected something.
        detected: bool,
    },
    /// By somebody who fed it back.
    Reported,
}

/// The requests that were counted lately.
#[derive(Debug, Default)]
pub struct Recent {
    keys: RandomState,
    seen: HashMap<u64, Seen>,
    order: VecDeque<u64>,
}

impl Recent {
    /// Returns how a request was counted.
    pub fn get(&self, request_id: &str) -> Option<Seen> {
        self.seen.get(&self.keys.hash_one(request_id)).copied()
    }

    /// Notes how a request was counted, and forgets the oldest one where there are too many.
    pub fn note(&mut self, request_id: &str, seen: Seen) {
        let key = self.keys.hash_one(request_id);
        if self.seen.insert(key, seen).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > RECENT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten() {
        let mut recent = Recent::default();
        (0..RECENT_MAX + 1).for_each(|id| recent.note(&id.to_string(), Seen::Reported));
        assert_eq!((recent.get("0"), recent.get("1")), (None, Some(Seen::Reported)));
        recent.note("1", Seen::Live { variant: 0, detected: true });
        assert_eq!(recent.get("1"), Some(Seen::Live { variant: 0, detected: true }));
        assert_eq!((recent.seen.len(), recent.order.len()), (RECENT_MAX, RECENT_MAX));
    }
}
