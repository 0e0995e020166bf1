//! Text to threats. Pure: no async, no clock; the only I/O is reading an overlay of packs.
//!
//! A text is read as it stands, as its reader takes it ([`view`]) and as what is encoded in it ([`decode`]).
//! Each reading is searched by one Hyperscan database ([`engine`]) for the first-stage shapes ([`shape`]) of all
//! detectors, and each candidate is placed and judged by the detector itself ([`confirm`]).

mod chance;
pub mod check;
pub mod classifier;
pub mod confirm;
pub mod decode;
pub mod detector;
pub mod edges;
pub mod engine;
#[cfg(test)]
mod fixture;
pub mod growing;
pub mod hold;
pub mod kind;
pub mod lane;
pub mod numbers;
pub mod pack;
pub mod proof;
pub mod rule;
pub mod scanner;
pub mod score;
pub mod shape;
pub mod spelling;
pub mod tagger;
pub mod threat;
pub mod trace;
pub mod unwrapped;
pub mod view;
pub mod words;
