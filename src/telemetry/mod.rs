//! Metrics, logs and today's statistics.
