//! The data plane.

pub mod config;
