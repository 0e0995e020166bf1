//! Where log lines go: standard error, as text or as one JSON object a line.

use tracing_subscriber::EnvFilter;

use super::config::LogFormat;

/// Starts logging. `level` is a level or a filter such as `info,portcullis::proxy=debug`; one that
/// cannot be read counts as `info`. Called once; a second call changes nothing.
pub fn start(format: LogFormat, level: &str) {
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A logger that was set before stays: tests start many gateways in one process.
    let _ = match format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text => builder.with_target(false).try_init(),
    };
}
