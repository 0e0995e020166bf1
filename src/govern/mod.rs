//! The record of what happened, and what people may ask of it.

pub mod audit;
pub mod keyring;
pub mod privacy;
