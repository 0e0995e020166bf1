//! `portcullis top`: what a running gateway does, as a screen that is drawn anew.
//!
//! Everything on it comes from `/metrics` of the management plane, read twice: rates are of the time between.

mod figures;
mod screen;

use std::io::IsTerminal;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use http::Method;

use self::figures::Figures;
use super::api::Api;
use super::api::ApiArguments;
use super::api::ApiFault;
use super::complain;
use crate::clock::Clock;
use crate::clock::SystemClock;

/// Clears a terminal and goes to its first place (ECMA-48).
const CLEAR: &str = "\x1b[2J\x1b[H";
const PATH: &str = "/metrics";

/// What to show, of whom.
#[derive(Debug, Args)]
pub(super) struct TopArguments {
    #[command(flatten)]
    api: ApiArguments,
    /// Seconds between two screens.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
    /// Show so many screens, and end; the first tells everything since the gateway began.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    screens: Option<u64>,
}

/// Draws screens until it is interrupted, or has drawn as many as were wanted.
pub(super) fn run(arguments: &TopArguments) -> ExitCode {
    match draw(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            complain(&fault.to_string());
            ExitCode::FAILURE
        }
    }
}

fn draw(arguments: &TopArguments) -> Result<(), ApiFault> {
    let api = Api::of(&arguments.api)?;
    let is_terminal = std::io::stdout().is_terminal();
    let mut before: Option<(Figures, Duration)> = None;
    for drawn in 1.. {
        let now = (figures(&api)?, SystemClock.monotonic());
        let since = before.as_ref().map(|(figures, at)| (figures, now.1.saturating_sub(*at)));
        let text = screen::screen(&now.0, since);
        let mut out = std::io::stdout().lock();
        // Whoever no longer looks has seen enough.
        let clear = if is_terminal { CLEAR } else { "" };
        if write!(out, "{clear}{text}").and_then(|()| out.flush()).is_err()
            || Some(drawn) == arguments.screens
        {
            return Ok(());
        }
        before = Some(now);
        std::thread::sleep(Duration::from_secs(arguments.every));
    }
    Ok(())
}

fn figures(api: &Api<'_>) -> Result<Figures, ApiFault> {
    let text = api.call(Method::GET, PATH, None)?;
    Figures::read(&text).ok_or_else(|| api.unreadable(PATH))
}
