//! The management API.

pub mod adapter;
pub mod config;
