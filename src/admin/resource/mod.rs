//! The handlers, one resource a file, with the wire types they read and write.

pub mod audit;
pub mod audit_export;
pub mod audit_stream;
pub mod auth;
pub mod config;
pub mod dsar;
pub mod guardrails;
pub mod health;
pub mod keys;
pub mod legal_holds;
pub mod license;
pub mod metrics;
pub mod persistence;
pub mod policies;
pub mod profiles;
pub mod revisions;
pub mod scan;
pub mod screen;
pub mod sessions;
pub mod sign_in;
pub mod signing;
pub mod status;
pub mod threat;
pub mod users;
pub mod wire;
