//! Traces and metrics for an OpenTelemetry collector, over OTLP (HTTP, protobuf).
//!
//! Each exchange is one span of a server (`http.*`) and, where the provider was asked, one of a client (`gen_ai.*`).
//! A caller's `traceparent` is followed, and the provider is told ours. Exporting never delays an exchange: spans
//! wait in a bounded queue, and what finds it full is dropped and counted.

mod client;
pub mod config;
mod facts;
mod meter;
mod trace;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::Fuse;
use futures_util::future::FusedFuture as _;
use http::HeaderMap;
use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider;
use opentelemetry_otlp::ExporterBuildError;
use opentelemetry_otlp::MetricExporter;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_otlp::WithExportConfig;
use opentelemetry_otlp::WithHttpConfig;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::PeriodicReader;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SpanData;
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::sync::mpsc;
use tokio::time::timeout;

use self::client::CollectorClient;
use self::config::OtlpConfig;
pub use self::facts::Facts;
use self::meter::GenAi;
pub use self::trace::Sampling;
pub use self::trace::Trace;
use crate::document::secret::SecretPlace;
use crate::telemetry::lifecycle::Reached;
use crate::telemetry::metrics::Metrics;
use crate::tls::CertificateFault;
use crate::tls::client::TlsClient;

/// Spans that wait for the collector; what finds no room is dropped.
const QUEUE_MAX: usize = 8192;
/// Spans in one request.
const BATCH_MAX: usize = 512;
/// How long spans are gathered for one request.
const GATHER: Duration = Duration::from_millis(500);
/// How long a request to the collector may take, tried again meanwhile.
const EXPORT_MAX: Duration = Duration::from_secs(10);
/// How long the last spans may take once the process ends.
const LAST_MAX: Duration = Duration::from_secs(2);

/// Why nothing can be sent.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    /// The certificates that should be trusted cannot be used.
    #[error("otlp.ca_file: {0}")]
    Certificates(#[from] CertificateFault),
    /// The secret is not there, or is no text of a header.
    #[error("the secret of [otlp] cannot be read")]
    Secret,
    /// The exporter refuses its settings.
    #[error("[otlp] cannot be used: {0}")]
    Exporter(#[from] ExporterBuildError),
}

/// What exchanges are told to; made once.
pub struct Otlp {
    sampling: Sampling,
    spans: Option<mpsc::Sender<Vec<SpanData>>>,
    gen_ai: Option<GenAi>,
    metrics: Arc<Metrics>,
}

/// Sends what was told; runs until the process ends.
pub struct Exporting {
    client: CollectorClient,
    spans: Option<(mpsc::Receiver<Vec<SpanData>>, SpanExporter)>,
    meters: Option<SdkMeterProvider>,
    metrics: Arc<Metrics>,
}

/// What a deployment says about itself, and how its secrets are read.
pub struct Origin<'a> {
    /// The release.
    pub version: &'static str,
    /// The name of this node.
    pub node: String,
    /// The models that metrics name.
    pub models: Vec<String>,
    /// Reads a secret.
    pub read_secret: &'a dyn Fn(&SecretPlace) -> Option<String>,
}

/// Opens what exchanges are told to, and what sends it.
///
/// # Errors
/// See [`OtlpError`]; whether the collector is there shows later, and stops nothing.
pub fn open(
    config: &OtlpConfig,
    origin: Origin<'_>,
    metrics: &Arc<Metrics>,
) -> Result<(Otlp, Exporting), OtlpError> {
    let client = CollectorClient::new(&TlsClient::new(config.ca_file.as_deref())?, EXPORT_MAX);
    let headers = headers(config, origin.read_secret)?;
    let resource = resource(config, &origin);
    let url = |path: &str| format!("{}/{path}", config.endpoint.to_string().trim_end_matches('/'));
    let (told, spans) = match config.traces {
        true => {
            let mut exporter = SpanExporter::builder()
                .with_http()
                .with_http_client(client.clone())
                .with_headers(headers.clone())
                .with_endpoint(url("v1/traces"))
                .with_timeout(EXPORT_MAX)
                .build()?;
            exporter.set_resource(&resource);
            let (sender, receiver) = mpsc::channel(QUEUE_MAX);
            (Some(sender), Some((receiver, exporter)))
        }
        false => (None, None),
    };
    let meters = match config.metrics {
        true => {
            let exporter = MetricExporter::builder()
                .with_http()
                .with_http_client(client.clone())
                .with_headers(headers)
                .with_endpoint(url("v1/metrics"))
                .with_timeout(EXPORT_MAX)
                .build()?;
            let reader = PeriodicReader::builder(exporter).with_interval(config.interval).build();
            Some(SdkMeterProvider::builder().with_resource(resource).with_reader(reader).build())
        }
        false => None,
    };
    let gen_ai =
        meters.as_ref().map(|meters| GenAi::new(&meters.meter(env!("CARGO_PKG_NAME")), origin.models));
    let sampling = Sampling { trust_caller: config.trust_caller, percent: config.sample_percent };
    let otlp = Otlp { sampling, spans: told, gen_ai, metrics: Arc::clone(metrics) };
    Ok((otlp, Exporting { client, spans, meters, metrics: Arc::clone(metrics) }))
}

fn headers(
    config: &OtlpConfig,
    read: &dyn Fn(&SecretPlace) -> Option<String>,
) -> Result<HashMap<String, String>, OtlpError> {
    let Some((name, place)) = &config.secret else { return Ok(HashMap::new()) };
    let secret = read(place).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let secret = secret.filter(|text| text.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
    Ok(HashMap::from([(name.to_string(), secret.ok_or(OtlpError::Secret)?)]))
}

fn resource(config: &OtlpConfig, origin: &Origin<'_>) -> Resource {
    Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.name", config.service_name.clone()),
            KeyValue::new("service.version", origin.version),
            KeyValue::new("service.instance.id", origin.node.clone()),
        ])
        .build()
}

impl Otlp {
    /// Returns the place of an exchange in a trace; `None` where traces are not sent: headers pass as they are.
    pub fn begin(&self, headers: &HeaderMap) -> Option<Trace> {
        self.spans.as_ref().map(|_| Trace::begin(headers, self.sampling))
    }

    /// Takes what is known of an exchange at its end.
    pub fn end(&self, trace: Option<&Trace>, facts: &Facts<'_>) {
        if let Some(gen_ai) = &self.gen_ai {
            gen_ai.count(facts);
        }
        let Some(spans) = &self.spans else { return };
        let Some(trace) = trace.filter(|trace| trace.is_sampled()) else { return };
        let told = facts.spans(trace);
        let count = told.len() as u64;
        if spans.try_send(told).is_err() {
            self.metrics.spans_lost("queue_full", count);
        }
    }
}

impl Exporting {
    /// Sends until `shutdown` resolves, and then what is left.
    pub async fn run(self, shutdown: Reached) {
        let mut shutdown = shutdown.fuse();
        self.client.settle();
        if let Some((mut queue, exporter)) = self.spans {
            let mut batch = Vec::new();
            let mut is_reachable = true;
            while gather(&mut queue, &mut batch, &mut shutdown).await {
                let sent = send(&exporter, &mut batch, &self.metrics, ending(&mut shutdown)).await;
                tell_change(&mut is_reachable, sent);
            }
            // Nothing is added any more: what waits is the last.
            while let Ok(spans) = queue.try_recv() {
                batch.extend(spans);
            }
            // A collector that has let the one before wait will not take this one in time either.
            let limit = if is_reachable { LAST_MAX } else { Duration::ZERO };
            let _ = send(&exporter, &mut batch, &self.metrics, tokio::time::sleep(limit)).await;
        }
        // The gateway may be gone, and its end of the queue with it, before the process says that it ends.
        if !shutdown.is_terminated() {
            shutdown.await;
        }
        if let Some(meters) = self.meters {
            // It blocks until the last figures are sent, whatever time it is given.
            let ending = tokio::task::spawn_blocking(move || meters.shutdown_with_timeout(LAST_MAX));
            let ended = timeout(LAST_MAX, ending).await;
            if !matches!(ended, Ok(Ok(Ok(())))) {
                tracing::warn!("the last metrics did not reach the collector");
            }
        }
    }
}

/// Waits for spans and gathers those that follow them; `false`: the process ends.
async fn gather(
    queue: &mut mpsc::Receiver<Vec<SpanData>>,
    batch: &mut Vec<SpanData>,
    shutdown: &mut Fuse<Reached>,
) -> bool {
    if shutdown.is_terminated() {
        return false;
    }
    tokio::select! {
        biased;
        () = &mut *shutdown => return false,
        first = queue.recv() => match first {
            Some(spans) => batch.extend(spans),
            None => return false,
        },
    }
    let more = async {
        while batch.len() < BATCH_MAX {
            let Some(spans) = queue.recv().await else { return };
            batch.extend(spans);
        }
    };
    tokio::select! {
        () = shutdown => false,
        _ = timeout(GATHER, more) => true,
    }
}

/// Resolves when a request has taken too long: sooner where the process ends meanwhile.
async fn ending(shutdown: &mut Fuse<Reached>) {
    let ended = async {
        shutdown.await;
        tokio::time::sleep(LAST_MAX).await;
    };
    // Whatever it was, time is up.
    let _ = timeout(EXPORT_MAX, ended).await;
}

async fn send(
    exporter: &SpanExporter,
    batch: &mut Vec<SpanData>,
    metrics: &Metrics,
    limit: impl Future<Output = ()>,
) -> Result<(), ErrorKind> {
    if batch.is_empty() {
        return Ok(());
    }
    let count = batch.len() as u64;
    let exported = tokio::select! {
        exported = exporter.export(std::mem::take(batch)) => exported,
        () = limit => {
            metrics.spans_lost("slow", count);
            return Err(ErrorKind::TimedOut);
        }
    };
    exported.map_err(|_| {
        metrics.spans_lost("refused", count);
        ErrorKind::ConnectionRefused
    })
}

/// Says once that the collector is away, and once that it is back.
fn tell_change(is_reachable: &mut bool, sent: Result<(), ErrorKind>) {
    match (*is_reachable, sent) {
        (true, Err(kind)) => tracing::warn!(%kind, "the collector takes no traces: they are dropped"),
        (false, Ok(())) => tracing::info!("the collector takes traces again"),
        _ => {}
    }
    *is_reachable = sent.is_ok();
}
