//! The audit log.

pub mod config;
