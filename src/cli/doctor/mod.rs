//! `portcullis doctor`: looks for what keeps a gateway from working, beside a running one or before the first start.
//!
//! It changes nothing and needs no credential. Exit codes: 0 nothing is wrong (warnings included); 1 something is; 78 the
//! configuration has faults, and nothing else was looked at.

mod license;
mod machine;
mod reach;
mod services;
mod state;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::EXIT_CONFIG;
use super::say;
use super::sources;
use crate::app;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::config::Config;

/// What to look at, and how to tell.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// The configuration; without it, the embedded defaults.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Tell as JSON: {"well": BOOL, "checks": [{"area", "name", "result", "detail"}]}.
    #[arg(long)]
    json: bool,
    /// Connect to nobody: providers, the database, Redis, collector and sinks are left out.
    #[arg(long)]
    offline: bool,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Good,
    Warning,
    Fault,
}

/// One thing that was looked at.
#[derive(Debug)]
struct Check {
    area: &'static str,
    name: String,
    outcome: Outcome,
    detail: String,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Warning => "warning",
            Self::Fault => "fault",
        }
    }
}

impl Check {
    fn new(area: &'static str, name: impl Into<String>, outcome: Outcome, detail: impl Into<String>) -> Self {
        Self { area, name: name.into(), outcome, detail: detail.into() }
    }
}

/// Looks at everything and tells.
pub fn run(arguments: &DoctorArguments) -> ExitCode {
    let (checks, code) = match app::check(&sources(arguments.config.clone())) {
        Ok(config) => {
            let checks = examine(&config, arguments.offline);
            let is_well = checks.iter().all(|check| check.outcome != Outcome::Fault);
            (checks, if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Err(faults) => {
            let told = faults
                .iter()
                .map(|fault| Check::new("configuration", "fault", Outcome::Fault, fault.to_string()));
            (told.collect(), ExitCode::from(EXIT_CONFIG))
        }
    };
    if arguments.json {
        tell_json(&checks)
    } else {
        tell_table(&checks)
    }
    code
}

fn examine(config: &Config, offline: bool) -> Vec<Check> {
    let (routes, policies) = (config.rules.routes.len(), config.rules.policies.len());
    let good = format!("{routes} routes, {policies} policies; packs and rules compile");
    let mut checks = vec![Check::new("configuration", "files", Outcome::Good, good)];
    let now = SystemClock.now();
    checks.extend(reach::certificates(config, now));
    checks.push(license::check(config, now));
    checks.extend(state::checks(config));
    checks.extend(machine::checks(config, now));
    if !offline {
        checks.extend(services::checks(config, now));
        checks.extend(reach::providers(config));
    }
    checks
}

fn tell_json(checks: &[Check]) {
    let told: Vec<_> = checks
        .iter()
        .map(|check| {
            json!({
                "area": check.area,
                "name": check.name,
                "result": check.outcome.as_str(),
                "detail": check.detail,
            })
        })
        .collect();
    let is_well = checks.iter().all(|check| check.outcome != Outcome::Fault);
    say(&json!({ "well": is_well, "checks": told }).to_string());
}

fn tell_table(checks: &[Check]) {
    let width = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
    for check in checks {
        let Check { area, name, outcome, detail } = check;
        say(&format!("{:<8} {area:<14} {name:<width$}  {detail}", outcome.as_str()));
    }
    let count = |wanted| checks.iter().filter(|check| check.outcome == wanted).count();
    say(&format!(
        "{} checks: {} faults, {} warnings",
        checks.len(),
        count(Outcome::Fault),
        count(Outcome::Warning)
    ));
}
