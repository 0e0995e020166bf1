//! An audit entry in the words of each platform.

pub(super) mod cef;
pub(super) mod ecs;
pub(super) mod hec;
pub(super) mod leef;
pub(super) mod ocsf;
pub(super) mod plain;
pub(super) mod syslog;

use crate::govern::audit::Entry;
use crate::scan::threat::Severity;

/// Who tells: the same in every message of a process.
#[derive(Clone, Debug)]
pub(super) struct Teller {
    /// The release.
    pub(super) version: String,
    /// The node's name.
    pub(super) node: String,
}

/// The product's name in headers.
const PRODUCT: &str = "Portcullis";

/// Returns a severity on a scale of 0 (nothing was found) to 10.
fn out_of_ten(entry: &Entry) -> u8 {
    match entry.event.severity {
        None => 0,
        Some(Severity::Low) => 3,
        Some(Severity::Medium) => 5,
        Some(Severity::High) => 8,
        Some(Severity::Critical) => 10,
    }
}

/// Returns the names of the detectors that found something, each once.
fn detectors(entry: &Entry) -> Vec<&str> {
    let mut names: Vec<&str> = entry.event.findings.iter().map(|finding| finding.detector.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}
