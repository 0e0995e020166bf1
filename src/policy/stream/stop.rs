//! Why a stream may not go on.

use crate::policy::inspect::Unreadable;

/// What keeps text from leaving.
pub(super) enum Stop {
    Unreadable(Unreadable),
    /// A finding that blocks, in a text that goes on.
    Finding(Found),
    /// A finding that blocks, in a text of its own.
    Alone,
}

/// Where a finding that blocks begins: nothing of its lane from there on may leave.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) slot: usize,
    pub(super) from: usize,
}

impl From<Unreadable> for Stop {
    fn from(unreadable: Unreadable) -> Self {
        Self::Unreadable(unreadable)
    }
}
