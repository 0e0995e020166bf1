//! Metrics, logs and today's statistics.

pub mod config;
