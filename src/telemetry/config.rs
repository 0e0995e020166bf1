//! What is logged, and who may see the metrics.

use crate::error::UnknownSetting;

/// The configuration of logs and metrics; a change needs a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// The shape of a log line.
    pub log_format: LogFormat,
    /// The mildest level that is logged.
    pub log_level: LogLevel,
    /// Whether `/metrics` and `/stats` need no credential.
    pub public_metrics: bool,
    /// The models that metrics name; all others are counted as `other`.
    pub models: Vec<String>,
}

/// The shape of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines, one object a line.
    Json,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Only what somebody must act on.
    Error,
    /// And what an operator may care about.
    Warn,
    /// And what happens.
    Info,
    /// And how it happens.
    Debug,
    /// And everything else.
    Trace,
}

impl LogLevel {
    /// Returns the name used in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl std::str::FromStr for LogFormat {
    type Err = UnknownSetting;

    fn from_str(text: &str) -> Result<Self, UnknownSetting> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(UnknownSetting { expected: "text, json" }),
        }
    }
}

impl std::str::FromStr for LogLevel {
    type Err = UnknownSetting;

    fn from_str(text: &str) -> Result<Self, UnknownSetting> {
        match text {
            "error" => Ok(Self::Error),
            "warn" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            "trace" => Ok(Self::Trace),
            _ => Err(UnknownSetting { expected: "error, warn, info, debug, trace" }),
        }
    }
}
