//! The record of what happened, and what people may ask of it.

pub mod abtest;
pub mod audit;
pub mod keyring;
pub mod privacy;
pub mod trust;
