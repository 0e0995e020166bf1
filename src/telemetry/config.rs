//! What is logged, and who may see the metrics.

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
