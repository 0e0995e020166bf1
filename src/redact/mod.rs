//! Masks, and their exact placement in a body.

pub mod mask;
pub mod splice;
pub mod token;
