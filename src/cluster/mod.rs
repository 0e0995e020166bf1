//! The nodes that share a database: who is there, and who of them does what only one may do.
//!
//! Everything here goes through the tables of the [store](crate::store), by compare-and-swap on their versions; no
//! lock of the database is held between two calls, and no two clocks are compared. A node counts as there while
//! its row changes: whoever looks measures by its own monotonic clock how long it has not.
//!
//! What it does not promise: that a node which was cut off knows it at once. It counts itself as away as soon as it
//! could not write its row for as long as the others would wait for it, or could not take over what they wrote.

mod budgets;
pub mod config;
#[cfg(test)]
mod fixture;
mod follow;
mod lease;
mod limits;
mod member;
mod reach;
mod redis;
mod replays;
mod rounds;
mod sessions;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use self::budgets::SharedBudgets;
pub use self::follow::Follower;
pub use self::lease::LEASES;
pub use self::lease::Lease;
pub use self::lease::Leases;
pub use self::limits::RedisServer;
pub use self::limits::SharedLimits;
pub use self::limits::WhenAway;
pub use self::member::AWAY_AFTER;
pub use self::member::AuditFacts;
pub use self::member::BEAT_EVERY;
pub use self::member::ClaimError;
pub use self::member::Members;
pub use self::member::Node;
pub use self::member::NodeFacts;
pub use self::reach::Reach;
pub use self::redis::NoRedisUrl;
pub use self::redis::RedisFacts;
pub use self::redis::RedisUrl;
pub use self::redis::ask_redis;
pub use self::replays::SharedReplays;
pub use self::sessions::SharedSessions;

/// How nodes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One node has the database for itself.
    Alone,
    /// Every node may write.
    Together,
}

/// How long something has lasted, in whole milliseconds.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
