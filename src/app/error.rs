//! What keeps a gateway from starting.

use std::net::SocketAddr;

use super::state::StateError;
use crate::config::ConfigFault;

/// Why the gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is wrong; here is all of it.
    #[error("the configuration has {} faults", .0.len())]
    Config(Vec<ConfigFault>),
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// An address cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The process may have too few files open.
    #[error("{allowed} open files are not enough, {least} are the least: raise LimitNOFILE, or ulimit -n")]
    Files {
        /// How many it may have open.
        allowed: u64,
        /// How many it needs.
        least: u64,
    },
    /// The sockets cannot be served: too many files are open.
    #[error("the listening sockets cannot be used: {0}")]
    Sockets(#[source] std::io::Error),
    /// Nobody hands a place over.
    #[error("there is no process to take over from at standard input: {0}")]
    TakeOver(#[source] std::io::Error),
    /// Nobody could ask the process for anything.
    #[error("signals cannot be listened for: {0}")]
    Signals(#[source] std::io::Error),
}
