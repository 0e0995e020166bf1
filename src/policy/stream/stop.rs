//! Why a stream may not go on.

use crate::policy::inspect::Unreadable;

/// What keeps text from leaving.
pub(super) enum Stop {
    Unreadable(Unreadable),
    /// A finding that blocks: nothing of its lane from here on may leave.
    Finding {
        slot: usize,
        from: usize,
    },
    /// A finding that blocks, in a text of its own.
    Alone,
}

impl From<Unreadable> for Stop {
    fn from(unreadable: Unreadable) -> Self {
        Self::Unreadable(unreadable)
    }
}
