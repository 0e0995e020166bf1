//! Who calls, what they may do, and how often.
//!
//! A credential is taken from a request by [`credential`], looked up by [`authenticator`], and answers as a
//! [`credential::Principal`] with a [`role::Role`]; what a role may do is one table. Callers of
//! provider routes are known only as a keyed hash ([`identity`]); agents by their certificates ([`a2a`]).
//! People ([`user`]) sign in with a key, a password or by [`sso`], and hold a [`session`] or carry bearer tokens
//! ([`token`]) then. Quotas are token buckets ([`limit`]); what a key may use in a day and a month is its [`budget`].
//! What the deployment itself vouches for is signed by one ring of keys ([`signing`]).

pub mod a2a;
pub mod authenticator;
pub mod budget;
pub mod concurrency;
pub mod config;
pub mod cookie;
pub mod credential;
pub mod identity;
pub mod jose;
pub mod key;
pub mod keyring;
pub mod license;
pub mod limit;
pub mod name;
pub mod password;
pub mod patience;
pub mod place;
pub mod refusals;
pub mod role;
pub mod scope;
pub mod secret;
pub mod secret_file;
pub mod session;
pub mod signing;
pub mod spent;
pub mod sso;
pub mod throttle;
pub mod tier;
pub mod token;
pub mod url;
pub mod user;
