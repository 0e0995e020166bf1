//! Where log lines go: standard error, as text or as one JSON object a line.

use tracing_subscriber::EnvFilter;

use super::config::LogFormat;

/// What is logged while an operator looks for something: this program's own doings, not its libraries'.
const CLOSER: &str = "info,portcullis=debug";

/// Switches between the level of the configuration and a closer look, while the process runs.
pub struct LogSwitch {
    usual: String,
    is_closer: bool,
    set: Box<dyn Fn(EnvFilter) -> bool + Send + Sync>,
}

impl LogSwitch {
    /// Turns the closer look on, or off again; returns the filter in force, `None` where it could not be changed.
    pub fn toggle(&mut self) -> Option<&str> {
        let wanted = if self.is_closer { self.usual.as_str() } else { CLOSER };
        if !(self.set)(filter(wanted)) {
            return None;
        }
        self.is_closer = !self.is_closer;
        Some(wanted)
    }
}

/// Starts logging. `level` is a level or a filter such as `info,portcullis::proxy=debug`; one that
/// cannot be read counts as `info`. Called once; a second call changes nothing.
pub fn start(format: LogFormat, level: &str) -> LogSwitch {
    // What cannot be written would be told on standard error as well, where that panics: a log that nobody reads any more
    // must not end whoever writes it.
    let builder = tracing_subscriber::fmt().with_writer(std::io::stderr).log_internal_errors(false);
    // A logger that was set before stays: tests start many gateways in one process.
    let set: Box<dyn Fn(EnvFilter) -> bool + Send + Sync> = match format {
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true);
            let builder = builder.with_env_filter(filter(level)).with_filter_reloading();
            let handle = builder.reload_handle();
            let _ = builder.try_init();
            Box::new(move |filter| handle.reload(filter).is_ok())
        }
        LogFormat::Text => {
            let builder = builder.with_target(false);
            let builder = builder.with_env_filter(filter(level)).with_filter_reloading();
            let handle = builder.reload_handle();
            let _ = builder.try_init();
            Box::new(move |filter| handle.reload(filter).is_ok())
        }
    };
    LogSwitch { usual: level.to_owned(), is_closer: false, set }
}

fn filter(level: &str) -> EnvFilter {
    EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"))
}
