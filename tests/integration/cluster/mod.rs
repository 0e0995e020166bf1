//! Several gateways, and the servers they share: real ones, each on a port and a directory of its own.

#[path = "../../../src/store/fixture.rs"]
mod postgres;
mod store;
