//! Frameworks of controls, from the built-in files and those that an operator lays over them.

use std::path::Path;
use std::sync::Arc;

use pingora::server::Server;

use super::loading::located;
use super::task::task;
use crate::config::ConfigFault;
use crate::document::Fault;
use crate::govern::compliance::desk::Desk;
use crate::govern::compliance::desk::Frameworks;
use crate::govern::compliance::framework;
use crate::scan::pack;
use crate::telemetry::Telemetry;

/// Reads the frameworks.
///
/// # Errors
/// Every fault of every file, with its line.
pub(super) fn load(plugins: &Path) -> Result<Frameworks, Vec<ConfigFault>> {
    let (files, unreadable) = pack::read_frameworks(plugins);
    let mut faults: Vec<Fault> = unreadable.into_iter().map(Fault::from).collect();
    let frameworks = framework::read(&files).map_err(|found| faults.extend(found));
    match frameworks {
        Ok(frameworks) if faults.is_empty() => Ok(frameworks),
        _ => Err(faults.into_iter().map(|fault| located(fault, plugins)).collect()),
    }
}

/// Reads them again; faulty ones change nothing.
pub(super) fn reload(desk: &Desk, plugins: &Path) {
    match load(plugins) {
        Ok(frameworks) => desk.set_frameworks(frameworks),
        Err(faults) => {
            for fault in faults {
                tracing::error!(%fault, "the frameworks could not be reloaded, the old ones still count");
            }
        }
    }
}

/// Lets the chain of the audit log be verified while the process runs.
pub(super) fn add_tasks(server: &mut Server, telemetry: &Arc<Telemetry>, desk: &Arc<Desk>) {
    let desk = Arc::clone(desk);
    server.add_service(task("compliance", telemetry, None, move |shutdown| desk.run(shutdown)));
}
