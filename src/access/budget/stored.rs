//! How budgets, and what was used of them, are stored.

use serde::Deserialize;
use serde::Serialize;

use super::Budget;
use super::Spent;
use crate::store::Record;

/// How many processes are told apart that wrote what was used of a budget.
const WRITERS_MAX: usize = 16;

/// A budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Granted {
    #[serde(flatten)]
    pub(super) budget: Budget,
    /// Which budget of its key it is: one that was taken away and given again is another. 0: it is not known, for an
    /// earlier release wrote it.
    #[serde(default)]
    pub(super) grant: u64,
}

/// What was used of a budget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Used {
    #[serde(flatten)]
    pub(super) spent: Spent,
    /// Of which budget of the key; 0: an earlier release wrote it.
    #[serde(default)]
    pub(super) grant: u64,
    /// What is in it: of each process that wrote lately the number of the last thing it wrote.
    #[serde(default)]
    pub(super) writers: Vec<(u64, u64)>,
}

impl Record for Granted {
    const VERSION: u32 = 1;
}

impl Record for Used {
    const VERSION: u32 = 1;
}

impl Granted {
    /// Returns a number that no other budget has.
    pub(super) fn number() -> u64 {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        u64::from_le_bytes(bytes).max(1)
    }
}

impl Used {
    /// Returns the number of the last thing in it that a process wrote.
    pub(super) fn last_of(&self, process: u64) -> Option<u64> {
        self.writers.iter().find(|(by, _)| *by == process).map(|(_, number)| *number)
    }
}

/// Returns what is in a record once a process has written something of a number; who did not write lately is forgotten.
pub(super) fn written(before: &[(u64, u64)], process: u64, number: u64) -> Vec<(u64, u64)> {
    let others: Vec<_> = before.iter().copied().filter(|(by, _)| *by != process).collect();
    let late = others.len().saturating_sub(WRITERS_MAX - 1);
    others.into_iter().skip(late).chain([(process, number)]).collect()
}
