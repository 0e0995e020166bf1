//! Portcullis: a security gateway for AI traffic.

pub mod access;
pub mod admin;
pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod document;
pub mod error;
pub mod govern;
pub mod id;
pub mod llm;
pub mod policy;
pub mod proxy;
pub mod redact;
pub mod sample;
pub mod scan;
pub mod store;
pub mod telemetry;
pub mod tls;
