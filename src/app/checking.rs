//! What is wrong with a configuration, told whole: by a check, and by a start that is refused.

use super::Wanted;
use super::loading;
use super::state::StateError;
use crate::config::Config;
use crate::config::ConfigFault;
use crate::config::Sources;
use crate::config::provision;

/// Builds everything that a start would build, without binding or starting anything.
///
/// # Errors
/// All faults.
pub fn check(sources: &Sources) -> Result<Config, Vec<ConfigFault>> {
    sources.check(|config| [provision::passed_over(config), loading::faults(config, sources)].concat())
}

/// Reads the configuration; where another process hands over, all that it names, too.
pub(super) fn checked(wanted: &Wanted) -> Result<Config, Vec<ConfigFault>> {
    let sources = &wanted.sources;
    let read = sources.check(|config| match wanted.take_over {
        // Whoever hands over wants to know before, not after.
        true => loading::faults(config, sources),
        false => Vec::new(),
    });
    read.map_err(|faults| whole(faults, sources))
}

/// Tells of rules that are refused all that a check finds.
pub(super) fn told_whole(error: StateError, sources: &Sources) -> StateError {
    match error {
        StateError::Rules(faults) => StateError::Rules(whole(faults, sources)),
        other => other,
    }
}

/// Returns what a check finds, where the faults that refuse a start are among it. Those of rules that were stored are not.
fn whole(faults: Vec<ConfigFault>, sources: &Sources) -> Vec<ConfigFault> {
    let found = check(sources).err().unwrap_or_default();
    let is_found = |fault: &ConfigFault| found.contains(fault);
    if faults.iter().all(is_found) { found } else { faults }
}
