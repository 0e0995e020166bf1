//! The book: what the gateway promises, what it does not, and how it is run.
//!
//! - [`threat_model`]: whom it stops, how others failed, and the line here that prevents it.
//! - [`streaming`]: how a stream is judged while it flows.
//! - [`packs`]: how detectors are written, and how they prove themselves.
//! - [`detection`]: how often the scanner is right and wrong, with the commands that measure it.
//! - [`operations`]: reload, restart, crash, full disk, durability.
//! - [`cluster`]: several gateways on one database, and what each failure does.
//! - [`record`]: what is written down, how a copy is verified, how somebody is forgotten.
//! - [`trust`]: what moves an agent's score, and how an attestation is verified.
//! - [`experiments`]: A/B tests of the third layer.
//! - [`usage`]: tokens, prices, budgets, anomalies, and what reports of compliance are worth.
//! - [`compatibility`]: which APIs are understood, and how a refusal looks to them.

pub mod cluster;
pub mod compatibility;
pub mod detection;
pub mod experiments;
pub mod operations;
pub mod packs;
pub mod record;
pub mod streaming;
pub mod threat_model;
pub mod trust;
pub mod usage;
