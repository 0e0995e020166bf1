//! Where human text sits in a body.

pub mod array;
pub mod dialect;
pub mod json;
pub mod media;
pub mod multipart;
pub mod ndjson;
pub mod refusal;
pub mod sse;
pub mod usage;
