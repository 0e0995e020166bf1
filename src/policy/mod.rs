//! What is done about what was found.

pub mod decision;
pub mod file;
pub mod handle;
pub mod inspect;
pub mod profile;
pub mod reload;
pub mod revision;
pub mod ruleset;
pub mod stream;
