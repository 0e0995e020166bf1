//! The record of what happened, and what people may ask of it.

pub mod abtest;
pub mod analytics;
pub mod audit;
pub mod compliance;
pub mod privacy;
pub mod siem;
pub mod trust;
