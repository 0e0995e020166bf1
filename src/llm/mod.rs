//! Where human text sits in a body, whole or streamed, and how to say no in the caller's own shape.

mod array;
pub mod asked;
pub mod dialect;
pub mod eventstream;
pub mod json;
pub mod jsonrpc;
pub mod media;
pub mod multipart;
pub mod ndjson;
pub mod plain;
pub mod refusal;
pub mod sse;
pub mod stream;
pub mod tools;
pub mod typed;
pub mod usage;
pub mod websocket;

#[cfg(test)]
mod traffic_tests;
