//! The data plane.

pub mod coding;
pub mod gate;
pub mod guard;
pub mod head;
pub mod path;
pub mod upstream;
