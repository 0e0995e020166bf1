//! Logs: one line an event, as JSON or as text. Content, secrets and tokens are never logged.

use std::str::FromStr;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Directives that hold whatever level is asked for: below `info` Pingora logs raw header bytes.
const CAPS: [&str; 2] = ["pingora_core=info", "pingora_proxy=info"];

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// Text for people.
    Text,
}

/// Why logging could not begin.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The level is none of error, warn, info, debug, trace, off, nor a list of `module=level`.
    #[error("not a log level: {0}")]
    Level(String),
    /// Another subscriber was installed before.
    #[error("logging was set up twice")]
    Twice,
}

impl FromStr for LogFormat {
    type Err = crate::scan::threat::UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            _ => Err(crate::scan::threat::UnknownName { expected: "json, text" }),
        }
    }
}

/// Sends the process's logs to standard error from now on.
///
/// # Errors
/// When `level` cannot be read, or logging was set up before.
pub fn init(format: LogFormat, level: &str) -> Result<(), LoggingError> {
    let subscriber = subscriber(format, level, std::io::stderr)?;
    tracing::dispatcher::set_global_default(subscriber).map_err(|_| LoggingError::Twice)
}

/// Returns a subscriber that writes to `writer`.
///
/// # Errors
/// When `level` cannot be read.
pub fn subscriber<W>(format: LogFormat, level: &str, writer: W) -> Result<tracing::Dispatch, LoggingError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let mut filter = EnvFilter::try_new(level).map_err(|_| LoggingError::Level(level.to_owned()))?;
    if level != "off" && level != "error" && level != "warn" {
        for cap in CAPS {
            filter = filter.add_directive(cap.parse().expect("a literal of this file"));
        }
    }
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    Ok(match format {
        LogFormat::Json => tracing::Dispatch::new(lines.json().flatten_event(true).finish()),
        LogFormat::Text => tracing::Dispatch::new(lines.with_ansi(false).finish()),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn lines(format: LogFormat, level: &str) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = subscriber(format, level, move || writer.clone()).unwrap();
        tracing::dispatcher::with_default(&subscriber, || {
            tracing::info!(route = "chat", "an event");
            tracing::debug!(target: "pingora_core", "raw bytes");
        });
        String::from_utf8(sink.0.lock().clone()).unwrap()
    }

    #[test]
    fn json_lines_are_json_and_dangerous_ones_are_missing() {
        let text = lines(LogFormat::Json, "debug");
        let line: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
        assert_eq!((&line["route"], &line["level"]), (&"chat".into(), &"INFO".into()));
        assert!(lines(LogFormat::Text, "info").contains("an event"));
        assert_eq!(lines(LogFormat::Text, "warn"), "");
        assert!(matches!(subscriber(LogFormat::Json, "=x=", std::io::sink), Err(LoggingError::Level(_))));
    }
}
