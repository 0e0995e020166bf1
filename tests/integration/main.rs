//! The gateway from outside: a real process, real sockets, and an upstream that follows a script.
#![allow(dead_code, reason = "the harness is whole, whichever of its parts the present tests use")]

mod a2a;
mod abtest;
mod answer_bodies;
mod answers;
mod attachments;
mod backup;
mod bedrock;
mod bounds;
mod budgets;
mod cli;
mod clients;
mod cluster;
mod compliance;
mod configuration;
mod crash;
mod dashboard;
mod doctor;
mod document;
mod dsar;
mod faults;
mod files;
mod fixtures;
mod framing;
mod gateway;
mod grafana;
mod guarded;
mod h2;
mod inspection;
mod keys;
mod license;
mod loss;
mod management;
mod metrics;
mod models;
mod names;
mod pressure;
mod privacy;
mod prompt_leak;
mod quotas;
mod readme;
mod realtime;
mod reload;
mod replay;
mod restart;
mod rules;
mod shadow;
mod siem;
mod signed;
mod soak;
mod sockets;
mod sso;
mod standing;
mod streams;
mod succession;
mod tainted;
mod tls;
mod traces;
mod upstream;
mod upstream_h2;
mod usage;
mod vectors;
mod wire;

// Most of what tests take is starts, which take half as long with the program's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
