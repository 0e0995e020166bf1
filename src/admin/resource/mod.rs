//! The handlers, one resource a file, with the wire types they read and write.

pub mod audit;
pub mod audit_stream;
pub mod config;
pub mod health;
pub mod keys;
pub mod license;
pub mod metrics;
pub mod persistence;
pub mod policies;
pub mod profiles;
pub mod revisions;
pub mod scan;
pub mod screen;
pub mod siem;
pub mod signing;
pub mod status;
pub mod threat;
pub mod wire;
