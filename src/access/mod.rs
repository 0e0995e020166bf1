//! Who calls, what they may do, and how often.
//!
//! A credential is taken from a request by [`credential`], looked up by [`key`], and answers as a
//! [`credential::Principal`] with a [`role::Role`]; what a role may do is one table. Callers of
//! provider routes are known only as a keyed hash ([`identity`]). Quotas are token buckets ([`limit`]).
//! What the deployment itself vouches for is signed by one ring of keys ([`signing`]).

pub mod credential;
pub mod identity;
pub mod jose;
pub mod key;
pub mod license;
pub mod limit;
pub mod role;
pub mod secret;
pub mod signing;
pub mod tier;
