//! The gateway from outside: a real process, real sockets, and an upstream that follows a script.
#![allow(dead_code, reason = "the harness is whole, whichever of its parts the present tests use")]

mod answers;
mod bounds;
mod cli;
mod clients;
mod crash;
mod faults;
mod framing;
mod gateway;
mod h2;
mod inspection;
mod keys;
mod license;
mod metrics;
mod pressure;
mod readme;
mod reload;
mod rules;
mod siem;
mod streams;
mod tls;
mod upstream;
mod upstream_h2;
mod vectors;
mod wire;
