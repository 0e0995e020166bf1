//! The management API.

pub mod config;
