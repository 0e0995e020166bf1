//! The management API as its callers see it: transcripts that can be read, and a table of who may what.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod browser;
mod changes;
mod document;
mod erasure;
mod evidence;
mod forger;
mod matrix;
mod oscal;
mod pages;
mod provider;
mod quota;
mod saml;
mod scan_time;
mod sessions;
mod sso;
mod stage;
mod stream;
mod transcript;
mod transcripts;
mod vouching;
mod world;
