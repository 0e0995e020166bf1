//! `portcullis top`: what a running gateway does, as a screen that is drawn anew.
//!
//! Everything on it comes from `/metrics` of the management plane, read twice: rates are of the time between.

mod figures;
mod screen;

use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use http::Method;
use rustix::termios::tcgetwinsize;

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

/// Draws screens until it is interrupted, or has drawn as many as were wanted. A gateway that was there and is away is
/// looked for again: it may be restarted.
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
    let mut before: Option<(Figures, Duration)> = None;
    for drawn in 1.. {
        let (now, text) = match figures(&api) {
            Ok(figures) => {
                let at = SystemClock.monotonic();
                let since = before.as_ref().map(|(figures, earlier)| (figures, at.saturating_sub(*earlier)));
                let text = screen::screen(&figures, since);
                (Some((figures, at)), text)
            }
            Err(fault) if drawn > 1 && fault.may_pass() => (None, format!("{fault}\n")),
            Err(fault) => return Err(fault),
        };
        // Whoever no longer looks has seen enough.
        if show(&text).is_err() || Some(drawn) == arguments.screens {
            return Ok(());
        }
        before = now;
        std::thread::sleep(Duration::from_secs(arguments.every));
    }
    Ok(())
}

/// Draws a screen: on a terminal in the place of the one before, and no higher than it is.
fn show(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if !out.is_terminal() {
        out.write_all(text.as_bytes())?;
        return out.flush();
    }
    let rows = tcgetwinsize(&out).map_or(0, |size| size.ws_row);
    write!(out, "{CLEAR}{}", cut(text, rows))?;
    out.flush()
}

/// Returns the lines that a terminal of some rows has room for, the last row left to the cursor; all where it does not
/// say how many it has.
fn cut(text: &str, rows: u16) -> String {
    let lines_max = match rows {
        0 => usize::MAX,
        rows => usize::from(rows.saturating_sub(1)),
    };
    text.split_inclusive('\n').take(lines_max).collect()
}

fn figures(api: &Api<'_>) -> Result<Figures, ApiFault> {
    let text = api.call(Method::GET, PATH, None)?;
    Figures::read(&text).ok_or_else(|| api.unreadable(PATH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_no_higher_than_its_terminal() {
        let text = "a\nb\nc\n";
        for (rows, expected) in [(0, text), (1, ""), (3, "a\nb\n"), (4, text), (50, text)] {
            assert_eq!(cut(text, rows), expected, "{rows}");
        }
    }
}
