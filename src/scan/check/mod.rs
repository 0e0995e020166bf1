//! The closed set of checks that judge a matched value.

pub mod identity;
pub mod secret;
