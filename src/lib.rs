//! Portcullis: a security gateway for AI traffic. It stands between applications and their providers, reads every
//! body, streams included, and lets go what a policy allows.
//!
//! **Nothing leaves the gateway but as [`Cleared`](policy::decision::Cleared)**, which has one constructor.
//!
//! ```text
//!   caller                                                                                     provider
//!     │  head ───▶ admin::head, proxy::path      one meaning, or 400                               │
//!     │            access                        who calls, and how often                          │
//!     │  body ───▶ proxy::gate                   all of it, before anything is connected           │
//!     │            llm::json, media, multipart   every string, with its byte range                 │
//!     │            scan                          what is in them                                   │
//!     │            policy::inspect, decision     what is done about it ── block ──▶ llm::refusal   │
//!     │            redact::splice                the bytes that go, replaced in place              │
//!     │            Cleared ──────────────────────────────────────────▶ proxy::upstream ──────────▶ │
//!     │                                                                                            │
//!     │ ◀────────── Cleared ◀── policy::inspect ◀── whole answer ◀──── proxy::response ◀────────── │
//!     │ ◀────────── Cleared ◀── policy::stream  ◀── llm::sse, ndjson, array; scan::lane ◀───────── │
//!     │                                                                                            │
//!     └─ when it is over: proxy::record ──▶ telemetry, govern::audit (one event, hashed, on the disk)
//! ```
//!
//! # Layers
//! Arrows go down only; `tests/architecture.rs` holds the exact table, and fails when the code leaves it.
//!
//! ```text
//!   cli   app                      the program; the root that wires everything
//!   proxy   admin   config         the two planes; every module's settings
//!   govern   access   policy       what is written down; who calls; what is decided
//!   cluster                        the nodes that share a database
//!   store   telemetry   tls        what outlives the process; what is seen of it
//!   redact   scan   llm            text in, facts out: no async, no clock, no I/O
//!   attachment                     files in, texts out: PDFs, office documents, archives
//!   document   clock   id   error  the ground
//! ```
//!
//! # Invariants
//! - Nothing leaves but as `Cleared`.
//! - Every string is seen, whatever the schema.
//! - Bytes nobody changed leave as they came.
//! - One exchange, one ruleset, named `policy@revision`.
//! - What leaves a stream does not depend on how it was cut.
//! - Work is linear in the body, and everything bounded has a named limit.
//! - Time, the environment, Hyperscan, sled and Pingora each have one home.
//!
//! # Where to start
//! - *A request's way:* [`proxy`] is Pingora's phases in a table; then [`policy::inspect`].
//! - *A stream's way:* [`policy::stream`], [`scan::lane`], and [`manual::streaming`] for why it is enough.
//! - *A detector:* no Rust at all; [`manual::packs`].
//! - *Running it:* [`manual::operations`]. *Trusting it:* [`manual::threat_model`].

pub mod access;
pub mod admin;
pub mod app;
pub mod attachment;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod document;
pub mod error;
pub mod govern;
pub mod id;
pub mod llm;
pub mod manual;
pub mod otlp;
pub mod policy;
pub mod proxy;
pub mod redact;
pub mod sample;
pub mod scan;
pub mod store;
pub mod telemetry;
pub mod tls;

// Most of what tests take is starts, which take half as long with the program's allocator.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
