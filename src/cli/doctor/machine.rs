//! The machine: its clock, and what it lets a process do.

use jiff::Timestamp;
use jiff::ToSpan;

use super::Check;
use super::Outcome;
use crate::app;
use crate::config::Config;

/// What a connection of a caller may cost: its own descriptor, and one to a provider.
const FILES_PER_CONNECTION: u64 = 2;
/// The store, segments, listeners, sinks.
const FILES_BESIDE: u64 = 128;
const LIMITS: &str = "/proc/self/limits";
const OPEN_FILES: &str = "Max open files";

/// Looks at the clock and at limits.
pub(super) fn checks(config: &Config, now: Timestamp) -> Vec<Check> {
    vec![clock(config, now), files(config)]
}

/// A clock that stands before this program was made, or before what it wrote, is wrong.
fn clock(config: &Config, now: Timestamp) -> Check {
    let built: Option<Timestamp> = app::BUILD_DATE.parse().ok();
    if built.is_some_and(|built| now < built) {
        let detail = format!("it is {now}, before this program was built ({})", app::BUILD_DATE);
        return Check::new("machine", "clock", Outcome::Fault, detail);
    }
    let entries = std::fs::read_dir(config.store.path.join("audit")).into_iter().flatten().flatten();
    let newest = entries.filter_map(|entry| entry.metadata().ok()?.modified().ok()).max();
    let newest = newest.and_then(|time| Timestamp::try_from(time).ok());
    if let Some(newest) = newest.filter(|newest| now + 5.minutes() < *newest) {
        let detail = format!("it is {now}, but the log was written at {newest}");
        return Check::new("machine", "clock", Outcome::Fault, detail);
    }
    Check::new("machine", "clock", Outcome::Good, format!("{now:.0}"))
}

fn files(config: &Config) -> Check {
    let connections = (config.proxy.max_connections + config.admin.max_connections) as u64;
    let wanted = connections * FILES_PER_CONNECTION + FILES_BESIDE;
    let text = std::fs::read_to_string(LIMITS).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(OPEN_FILES));
    let soft = line.and_then(|rest| rest.split_whitespace().next());
    match soft.map(|soft| (soft, soft.parse::<u64>())) {
        Some(("unlimited", _)) => Check::new("machine", "open files", Outcome::Good, "unlimited"),
        Some((_, Ok(soft))) if soft >= wanted => {
            Check::new("machine", "open files", Outcome::Good, format!("{soft}, {wanted} are enough"))
        }
        Some((_, Ok(soft))) => {
            let detail =
                format!("{soft}, max_connections may need {wanted}: raise LimitNOFILE, or ulimit -n");
            Check::new("machine", "open files", Outcome::Warning, detail)
        }
        _ => Check::new("machine", "open files", Outcome::Warning, "the limit cannot be read"),
    }
}
