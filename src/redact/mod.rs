//! Masks, and their exact placement in a body.

pub mod body;
pub mod mask;
pub mod nested;
pub mod restore;
pub mod splice;
pub mod token;
