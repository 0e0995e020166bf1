//! The gateway from outside: a real process, real sockets, and an upstream that follows a script.
#![allow(dead_code, reason = "the harness is whole, whichever of its parts the present tests use")]

mod clients;
mod gateway;
mod inspection;
mod streams;
mod upstream;
mod upstream_h2;
mod vectors;
mod wire;
