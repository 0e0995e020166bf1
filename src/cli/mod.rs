//! The commands of the program.
//!
//! Exit codes: 0 done, 1 failed, 2 called wrongly (clap's), 3 findings (`scan`), 4 a log that is not what was
//! written (`audit verify`), 78 a faulty
//! configuration (`EX_CONFIG` of sysexits.h).

mod api;
mod audit;
mod backup;
mod doctor;
mod key;
mod license;
mod manual;
mod progress;
mod rules;
mod scan;
mod top;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::Subcommand;

use crate::app;
use crate::app::Invocation;
use crate::app::StartError;
use crate::app::StateError;
use crate::app::Wanted;
use crate::config::ConfigFault;
use crate::config::Sources;
use crate::config::env::Environment;

const EXIT_CONFIG: u8 = 78;
const EXIT_FINDINGS: u8 = 3;

/// A security gateway for AI traffic.
#[derive(Debug, Parser)]
#[command(name = "portcullis", version = app::VERSION, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway.
    Run {
        /// The configuration; without it, the embedded defaults.
        #[arg(short, long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Answer all routes with the built-in sample provider instead of their upstreams.
        #[arg(long)]
        with_sample_provider: bool,
        /// Write the bound addresses to this file, as JSON, once the gateway answers.
        #[arg(long, value_name = "FILE")]
        ready_file: Option<PathBuf>,
        /// Take the place of the process at the other end of standard input (SIGUSR2 starts this).
        #[arg(long, hide = true)]
        take_over: bool,
        /// Wait until the process that took the place serves, and take it back where it does not (SIGUSR2 starts this).
        #[arg(long, hide = true)]
        stand_by: bool,
    },
    /// Check a configuration and print every fault with file and line.
    Check {
        /// The configuration; without it, the embedded defaults.
        #[arg(short, long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Scan files, or standard input (`-`), and print what is found.
    Scan(scan::ScanArguments),
    /// List, prove and explain what is looked for: detectors and rules.
    #[command(subcommand)]
    Rules(rules::RulesCommand),
    /// Verify a copy of the audit log.
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// List, make, replace and revoke the API keys of a running gateway.
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Make licence keys and licences, and show what a licence says.
    #[command(subcommand)]
    License(license::LicenseCommand),
    /// Look for what keeps a gateway from working: configuration, certificates, licence, state, clock, limits, providers.
    Doctor(doctor::DoctorArguments),
    /// Show what a running gateway does: traffic, findings and latencies, drawn anew every few seconds.
    Top(top::TopArguments),
    /// Back up the state directory to one file, while the gateway runs or while it does not.
    Backup(backup::BackupArguments),
    /// Verify a backup, and restore it into a new state directory.
    Restore(backup::RestoreArguments),
    /// Print the completions of a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, in roff.
    Man,
    /// Run only the built-in sample provider.
    Demo {
        /// Where to listen.
        #[arg(long, default_value = "127.0.0.1:9000", value_name = "ADDRESS")]
        listen: SocketAddr,
    },
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Run { config, with_sample_provider, ready_file, take_over, stand_by } => {
            let (sources, invocation) = (sources(config), Invocation::of_process());
            let wanted =
                Wanted { sources, with_sample_provider, ready_file, take_over, stand_by, invocation };
            app::run(wanted).map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS)
        }
        Command::Check { config } => check(&sources(config)),
        Command::Scan(arguments) => scan::run(&arguments),
        Command::Rules(command) => rules::run(&command),
        Command::Audit(command) => audit::run(&command),
        Command::Key(command) => key::run(&command),
        Command::License(command) => license::run(&command),
        Command::Backup(arguments) => backup::backup(&arguments),
        Command::Restore(arguments) => backup::restore(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man => manual::page(),
        Command::Demo { listen } => demo(listen),
    }
}

fn sources(file: Option<PathBuf>) -> Sources {
    Sources { file, sample_provider: None, environment: Environment::of_process() }
}

fn check(sources: &Sources) -> ExitCode {
    match app::check(sources) {
        Ok(config) => {
            let (routes, policies) = (config.rules.routes.len(), config.rules.policies.len());
            say(&format!("the configuration is good: {routes} routes, {policies} policies"));
            ExitCode::SUCCESS
        }
        Err(faults) => {
            complain_of(&faults);
            ExitCode::from(EXIT_CONFIG)
        }
    }
}

fn failed(error: &StartError) -> ExitCode {
    match error {
        StartError::Config(faults) | StartError::State(StateError::Rules(faults)) => {
            complain_of(faults);
            ExitCode::from(EXIT_CONFIG)
        }
        StartError::State(_)
        | StartError::Listen { .. }
        | StartError::Files { .. }
        | StartError::Sockets(_)
        | StartError::TakeOver(_)
        | StartError::Signals(_) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn demo(listen: SocketAddr) -> ExitCode {
    let told = |address| say(&format!("the sample provider answers on http://{address}"));
    match app::demo(listen, told) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("cannot listen on {listen}: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn complain_of(faults: &[ConfigFault]) {
    faults.iter().for_each(|fault| complain(&fault.to_string()));
    let what = if faults.len() == 1 { "fault" } else { "faults" };
    complain(&format!("{} {what}: nothing was started or changed", faults.len()));
}

/// Prints a line; a reader that went away has seen enough.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Prints a line for people.
fn complain(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
