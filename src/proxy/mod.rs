//! The data plane.

pub mod coding;
pub mod config;
pub mod gate;
pub mod guard;
pub mod head;
pub mod path;
pub mod upstream;
