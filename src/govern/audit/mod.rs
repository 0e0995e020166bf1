//! The audit log.

pub mod config;
mod chain;
mod event;
#[cfg(test)]
mod fault;
mod journal;
mod log;
#[cfg(test)]
mod sample;
mod segment;
mod stored;
