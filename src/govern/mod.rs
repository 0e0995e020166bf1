//! The record of what happened.

pub mod abtest;
pub mod audit;
pub mod trust;
