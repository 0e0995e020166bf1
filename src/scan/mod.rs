//! Text to threats. Pure: no async, no clock, no I/O.

pub mod check;
pub mod decode;
pub mod detector;
pub mod engine;
pub mod hold;
pub mod lane;
pub mod pack;
pub mod proof;
pub mod score;
pub mod threat;
pub mod view;
