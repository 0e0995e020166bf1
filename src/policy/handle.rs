//! The one place where the running ruleset is found, and swapped.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::policy::ruleset::Ruleset;

/// Hands out the running ruleset; cheap to clone, never blocks.
#[derive(Clone)]
pub struct RulesetHandle {
    current: Arc<ArcSwap<Ruleset>>,
}

impl RulesetHandle {
    /// Returns a handle that hands out `first`.
    pub fn new(first: Ruleset) -> Self {
        Self { current: Arc::new(ArcSwap::from_pointee(first)) }
    }

    /// Returns the running ruleset; an exchange calls this once and keeps what it gets.
    pub fn load(&self) -> Arc<Ruleset> {
        self.current.load_full()
    }

    /// Makes a ruleset the running one; exchanges under way keep theirs.
    pub(crate) fn publish(&self, next: Arc<Ruleset>) {
        self.current.store(next);
    }
}
