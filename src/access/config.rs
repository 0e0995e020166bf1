//! What credentials need to know before anybody shows one.

use super::password::Cost;
use super::token::TokenConfig;

/// The access plane's configuration; a change needs a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthConfig {
    /// How bearer tokens are made.
    pub tokens: TokenConfig,
    /// What hashing a password takes.
    pub password_cost: Cost,
}
