//! The audit log.

pub mod config;
mod chain;
mod event;
#[cfg(test)]
mod fault;
mod index;
mod journal;
mod log;
mod place;
mod query;
#[cfg(test)]
mod sample;
mod segment;
mod stored;
mod tally;
