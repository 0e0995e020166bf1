//! Answers that are read again: what they used is told at each reading, and counts once.
//!
//! A job in the background tells what it used when it is asked for, not when it is begun, so that reading cannot be
//! free; and a stored answer may be read any number of times.

use std::collections::HashSet;
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::hash::RandomState;

use parking_lot::Mutex;

/// How many answers are remembered, some 24 bytes each; the oldest make room.
const ANSWERS_MAX: usize = 65_536;

/// The answers whose use was counted when they were read.
#[derive(Default)]
pub struct ReadBack {
    counted: Mutex<Counted>,
    hasher: RandomState,
}

#[derive(Default)]
struct Counted {
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl ReadBack {
    /// Tells whether what an answer told is to be counted: its caller reads it from this path for the first time.
    pub fn is_first(&self, caller: &str, path: &str) -> bool {
        let answer = self.hasher.hash_one((caller, path));
        let mut counted = self.counted.lock();
        if !counted.known.insert(answer) {
            return false;
        }
        counted.order.push_back(answer);
        if counted.order.len() > ANSWERS_MAX
            && let Some(oldest) = counted.order.pop_front()
        {
            counted.known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_counts_once_for_each_of_its_readers() {
        let read = ReadBack::default();
        assert!(read.is_first("ann", "/v1/responses/a") && read.is_first("bob", "/v1/responses/a"));
        assert!(!read.is_first("ann", "/v1/responses/a"));
        (0..2 * ANSWERS_MAX).for_each(|n| assert!(read.is_first("ann", &n.to_string())));
        let counted = read.counted.lock();
        assert_eq!((counted.known.len(), counted.order.len()), (ANSWERS_MAX, ANSWERS_MAX));
    }
}
