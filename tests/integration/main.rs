//! The gateway from outside: a real process, real sockets, and an upstream that follows a script.
#![allow(dead_code, reason = "the harness is whole, whichever of its parts the present tests use")]

mod cli;
mod clients;
mod crash;
mod gateway;
mod inspection;
mod readme;
mod reload;
mod upstream;
mod upstream_h2;
mod vectors;
mod wire;
