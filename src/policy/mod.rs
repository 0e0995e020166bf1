//! What is done about what was found.
//!
//! In: what an operator wrote (policies, routes, limits) and what the scanner can find. Out: one
//! immutable [`ruleset::Ruleset`] at a time, swapped whole, that answers for every finding what is
//! done about it. Policy never knows the audit log: it announces what changed, and whoever builds
//! the process subscribes.
//!
//! Read [`decision`] first, then [`file`](mod@file), [`ruleset`], [`reload`].

pub mod a2a;
pub mod allow;
pub mod build;
pub mod decision;
pub mod file;
#[cfg(test)]
mod fixture;
pub mod handle;
pub mod inspect;
pub mod limits;
pub mod memo;
pub mod parted;
pub mod pin;
pub mod profile;
pub mod reload;
pub mod revision;
pub mod route;
pub mod ruleset;
pub mod stream;
pub mod watch;
mod watches;

/// What happens to a body that cannot be inspected, where a policy does not say.
pub const FAIL_MODE_DEFAULT: decision::FailMode = decision::FailMode::Closed;
