//! The record of what happened.

pub mod analytics;
pub mod audit;
pub mod compliance;
