//! The machine: its clock, and what it lets a process do.

use jiff::Timestamp;
use jiff::ToSpan;

use super::Check;
use super::Outcome;
use crate::app;
use crate::config::Config;

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
    let (wanted, [allowed, maximum]) = (app::files_wanted(config), app::files_allowed());
    let (outcome, detail) = match (allowed, maximum) {
        (None, _) => (Outcome::Good, "unlimited".to_owned()),
        (Some(allowed), _) if allowed >= wanted => (Outcome::Good, format!("{allowed}, {wanted} are enough")),
        (Some(allowed), maximum) if maximum.is_none_or(|maximum| maximum >= wanted) => {
            (Outcome::Good, format!("{allowed}, a start raises it to {wanted}"))
        }
        (Some(allowed), maximum) => {
            let most = maximum.unwrap_or(allowed);
            let detail =
                format!("{most} at most, max_connections may need {wanted}: raise LimitNOFILE, or ulimit -n");
            (Outcome::Warning, detail)
        }
    };
    Check::new("machine", "open files", outcome, detail)
}
