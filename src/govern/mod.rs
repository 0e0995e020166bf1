//! The record of what happened.

pub mod audit;
