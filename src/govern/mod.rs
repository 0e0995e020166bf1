//! The record of what happened.

pub mod audit;
pub mod siem;
