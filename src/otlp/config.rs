//! Where traces and metrics are sent, and which.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use http::Uri;

use crate::document::secret::SecretPlace;

/// The configuration of what is told to an OpenTelemetry collector; a change needs a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpConfig {
    /// The collector, as `http(s)://HOST:PORT[/PATH]`; `/v1/traces` and `/v1/metrics` are below it.
    pub endpoint: Uri,
    /// Certificates that are trusted beside the system's, in PEM.
    pub ca_file: Option<PathBuf>,
    /// The header that carries the collector's secret, and where the secret lies.
    pub secret: Option<(HeaderName, SecretPlace)>,
    /// What the process is called.
    pub service_name: String,
    /// Whether traces are sent.
    pub traces: bool,
    /// Whether metrics are sent.
    pub metrics: bool,
    /// Of a hundred traces that begin here, how many are sent. One that a caller began goes as its caller says.
    pub sample_percent: u8,
    /// Whether the `traceparent` of a caller is followed; else each exchange begins a trace.
    pub trust_caller: bool,
    /// How often metrics are sent.
    pub interval: Duration,
}
