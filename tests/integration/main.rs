//! The gateway from outside: a real process, real sockets, and an upstream that follows a script.
#![allow(dead_code, reason = "the harness is whole, whichever of its parts the present tests use")]

mod a2a;
mod abtest;
mod answers;
mod bounds;
mod cli;
mod clients;
mod cluster;
mod compliance;
mod crash;
mod document;
mod faults;
mod framing;
mod gateway;
mod h2;
mod inspection;
mod keys;
mod license;
mod metrics;
mod pressure;
mod privacy;
mod quotas;
mod readme;
mod reload;
mod rules;
mod siem;
mod sso;
mod streams;
mod tls;
mod upstream;
mod upstream_h2;
mod usage;
mod vectors;
mod wire;
