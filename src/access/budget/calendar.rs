//! By whose clock days and months begin.

use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering;

use jiff::SignedDuration;
use jiff::Timestamp;

/// How far the clock that days and months begin by is ahead of this node's own; that is its own until it hears of another.
#[derive(Debug, Default)]
pub struct Calendar {
    ahead_ms: AtomicI64,
}

impl Calendar {
    /// Lets days begin by a clock that shows a moment, in Unix milliseconds, while this node's own shows another.
    pub fn follow(&self, shown_ms: i64, own: Timestamp) {
        self.ahead_ms.store(shown_ms.saturating_sub(own.as_millisecond()), Ordering::Relaxed);
    }

    /// Returns what that clock shows at a moment of this node's own.
    pub(super) fn now(&self, own: Timestamp) -> Timestamp {
        let ahead = SignedDuration::from_millis(self.ahead_ms.load(Ordering::Relaxed));
        own.checked_add(ahead).unwrap_or(own)
    }
}
