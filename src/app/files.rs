//! How many files the process may have open at once: as many as its connections ask for, where the system lets it.

use rustix::process::Resource;
use rustix::process::Rlimit;
use rustix::process::getrlimit;
use rustix::process::setrlimit;

use super::StartError;
use crate::config::Config;

/// What a connection of a caller may cost: its own descriptor, and one to a provider.
const FILES_PER_CONNECTION: u64 = 2;
/// The store, segments, listeners, sinks.
const FILES_BESIDE: u64 = 128;
/// Without so many a start fails somewhere on its way.
const FILES_MIN: u64 = 256;

/// Returns how many files a gateway of a configuration may want to have open.
pub fn files_wanted(config: &Config) -> u64 {
    let connections = (config.proxy.max_connections + config.admin.max_connections) as u64;
    connections * FILES_PER_CONNECTION + FILES_BESIDE
}

/// Returns how many files this process may have open, and how many it may allow itself; `None`: as many as it likes.
pub fn files_allowed() -> [Option<u64>; 2] {
    let limit = getrlimit(Resource::Nofile);
    [limit.current, limit.maximum]
}

/// Raises what this process may have open to what its configuration wants, as far as the system lets it.
///
/// # Errors
/// What it may have open then is not enough for a start.
pub(super) fn allow_files(config: &Config) -> Result<(), StartError> {
    let (wanted, [mut allowed, maximum]) = (files_wanted(config), files_allowed());
    let raised = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if allowed.is_some_and(|allowed| allowed < raised) {
        let limit = Rlimit { current: Some(raised), maximum };
        if setrlimit(Resource::Nofile, limit).is_ok() {
            allowed = Some(raised);
        }
    }
    match allowed {
        Some(allowed) if allowed < FILES_MIN => Err(StartError::Files { allowed, least: FILES_MIN }),
        Some(allowed) if allowed < wanted => {
            tracing::warn!(allowed, wanted, "connections may have to be refused for want of open files");
            Ok(())
        }
        _ => Ok(()),
    }
}
