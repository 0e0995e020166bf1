//! Every metric, its name, its help and its labels; children with closed labels are resolved once.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use prometheus::Encoder;
use prometheus::Gauge;
use prometheus::Histogram;
use prometheus::HistogramOpts;
use prometheus::HistogramVec;
use prometheus::IntCounter;
use prometheus::IntCounterVec;
use prometheus::IntGauge;
use prometheus::Opts;
use prometheus::Registry;
use prometheus::TextEncoder;
use prometheus::core::Collector;

use crate::scan::threat::Category;
use crate::scan::threat::Severity;

use super::label::AuditResult;
use super::label::Listener;
use super::label::MetricAction;
use super::label::MetricLayer;
use super::label::TokenType;
use super::label::Unreadable;

/// Buckets of request and upstream times, in seconds.
const REQUEST_SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];
/// Buckets of work done in the gateway itself, in seconds.
const WORK_SECONDS: &[f64] = &[
    0.000_005, 0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025,
    0.05, 0.1, 0.5, 2.0,
];
/// The status codes that are counted by themselves; all others count as `other`.
const CODES: [u16; 21] =
    [200, 201, 202, 204, 206, 301, 302, 304, 400, 401, 403, 404, 405, 408, 409, 413, 415, 429, 500, 502, 503];
/// How many names of routes are told apart; later ones are counted as `other`.
const ROUTES_MAX: usize = 512;

/// Every metric of the gateway, in a registry of its own.
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    upstream_seconds: HistogramVec,
    first_byte_seconds: HistogramVec,
    routes: RwLock<BTreeMap<(&'static str, String), Arc<RouteMetrics>>>,
    scan_seconds: Vec<Histogram>,
    detections: Vec<IntCounter>,
    tokens: Vec<IntCounter>,
    unreadable: Vec<IntCounter>,
    audit_events: Vec<IntCounter>,
    rate_limited: Vec<IntCounter>,
    /// How long a group of audit entries took to be safe on disk, in seconds.
    pub audit_append_duration_seconds: Histogram,
    /// How many audit events wait to be written.
    pub audit_queue_length: IntGauge,
    /// How many panics were caught.
    pub panics_total: IntCounter,
    /// How many requests are under way.
    pub inflight_requests: IntGauge,
    /// How many bytes of bodies are held until they are judged.
    pub buffered_body_bytes: IntGauge,
    /// How many bytes of streams are held back because a match may be under way.
    pub stream_held_bytes: IntGauge,
    /// 1 when the last load of the configuration worked, else 0.
    pub config_last_reload_successful: IntGauge,
    /// When a configuration was last loaded, in Unix seconds.
    pub config_last_reload_success_timestamp_seconds: Gauge,
}

/// The metrics of one route, resolved once.
pub struct RouteMetrics {
    by_code: [IntCounter; CODES.len()],
    other_code: IntCounter,
    /// How long requests took, in seconds.
    pub request_duration_seconds: Histogram,
    /// How long the provider took, in seconds.
    pub upstream_duration_seconds: Histogram,
    /// How long it took until the first byte of an answer left, in seconds.
    pub time_to_first_byte_seconds: Histogram,
}

impl Metrics {
    /// Returns all metrics at zero, with the build's version and commit as labels of `build_info`.
    pub fn new(version: &str, commit: &str) -> Self {
        let registry = Registry::new();
        let make = Maker(&registry);
        let build = make.int_gauge_with(
            "build_info",
            "Always 1; says what is running.",
            [("version", version), ("commit", commit)],
        );
        build.set(1);
        Self {
            requests: make.counters("requests_total", "Requests answered.", &["listener", "route", "code"]),
            request_seconds: make.histograms(
                "request_duration_seconds",
                "Time from request to end of answer.",
                &["listener", "route"],
                REQUEST_SECONDS,
            ),
            upstream_seconds: make.histograms(
                "upstream_duration_seconds",
                "Time the provider took.",
                &["listener", "route"],
                REQUEST_SECONDS,
            ),
            first_byte_seconds: make.histograms(
                "time_to_first_byte_seconds",
                "Time until the first byte of an answer left.",
                &["listener", "route"],
                REQUEST_SECONDS,
            ),
            routes: RwLock::default(),
            scan_seconds: {
                let all = make.histograms(
                    "scan_duration_seconds",
                    "Time one layer took for one text.",
                    &["layer"],
                    WORK_SECONDS,
                );
                MetricLayer::ALL.iter().map(|layer| all.with_label_values(&[layer.as_str()])).collect()
            },
            detections: detections(&make.counters(
                "detections_total",
                "Findings that stood up to their checks.",
                &["category", "severity", "action"],
            )),
            tokens: resolved(
                &make.counters("tokens_total", "Tokens the providers counted.", &["type"]),
                TokenType::ALL,
                TokenType::as_str,
            ),
            unreadable: resolved(
                &make.counters("unreadable_bodies_total", "Bodies that could not be read.", &["reason"]),
                Unreadable::ALL,
                Unreadable::as_str,
            ),
            audit_events: resolved(
                &make.counters("audit_events_total", "Audit events by what became of them.", &["result"]),
                AuditResult::ALL,
                AuditResult::as_str,
            ),
            rate_limited: resolved(
                &make.counters("rate_limited_total", "Requests refused for coming too often.", &["listener"]),
                Listener::ALL,
                Listener::as_str,
            ),
            audit_append_duration_seconds: make.histogram(
                "audit_append_duration_seconds",
                "Time until a group of audit entries was safe on disk.",
                WORK_SECONDS,
            ),
            audit_queue_length: make.int_gauge("audit_queue_length", "Audit events that wait to be written."),
            panics_total: make.counter("panics_total", "Panics that were caught."),
            inflight_requests: make.int_gauge("inflight_requests", "Requests under way."),
            buffered_body_bytes: make
                .int_gauge("buffered_body_bytes", "Bytes of bodies held until they are judged."),
            stream_held_bytes: make.int_gauge(
                "stream_held_bytes",
                "Bytes of streams held back because a match may be under way.",
            ),
            config_last_reload_successful: make.int_gauge(
                "config_last_reload_successful",
                "1 when the last load of the configuration worked.",
            ),
            config_last_reload_success_timestamp_seconds: make.gauge(
                "config_last_reload_success_timestamp_seconds",
                "When a configuration was last loaded.",
            ),
            registry,
        }
    }

    /// Returns the metrics of a route; keep them, they are made once. `route` is a name of the
    /// configuration or of the gateway's own table, never of a caller.
    pub fn route(&self, listener: Listener, route: &str) -> Arc<RouteMetrics> {
        let key = (listener.as_str(), route.to_owned());
        if let Some(known) = self.routes.read().get(&key) {
            return known.clone();
        }
        let mut routes = self.routes.write();
        let key = if routes.len() >= ROUTES_MAX { (listener.as_str(), "other".to_owned()) } else { key };
        routes.entry(key.clone()).or_insert_with(|| Arc::new(self.resolve(key.0, &key.1))).clone()
    }

    /// Returns the times one layer of the scanner took, in seconds.
    pub fn scan_duration_seconds(&self, layer: MetricLayer) -> &Histogram {
        &self.scan_seconds[layer as usize]
    }

    /// Returns the count of findings of a kind.
    pub fn detections(&self, category: Category, severity: Severity, action: MetricAction) -> &IntCounter {
        let place = (category as usize * Severity::ALL.len() + severity as usize) * MetricAction::ALL.len();
        &self.detections[place + action as usize]
    }

    /// Returns the count of tokens of a type.
    pub fn tokens(&self, kind: TokenType) -> &IntCounter {
        &self.tokens[kind as usize]
    }

    /// Returns the count of bodies that could not be read for a reason.
    pub fn unreadable_bodies(&self, reason: Unreadable) -> &IntCounter {
        &self.unreadable[reason as usize]
    }

    /// Returns the count of audit events with a result.
    pub fn audit_events(&self, result: AuditResult) -> &IntCounter {
        &self.audit_events[result as usize]
    }

    /// Returns the count of requests refused by the rate limit.
    pub fn rate_limited(&self, listener: Listener) -> &IntCounter {
        &self.rate_limited[listener as usize]
    }

    /// Notes the outcome of loading a configuration at a moment in Unix seconds.
    pub fn config_loaded(&self, worked: bool, unix_s: f64) {
        self.config_last_reload_successful.set(i64::from(worked));
        if worked {
            self.config_last_reload_success_timestamp_seconds.set(unix_s);
        }
    }

    /// Returns all metrics in Prometheus' text format (`text/plain; version=0.0.4`).
    pub fn render(&self) -> Vec<u8> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text).expect("memory takes all bytes");
        text
    }

    fn resolve(&self, listener: &str, route: &str) -> RouteMetrics {
        let code = |code: &str| self.requests.with_label_values(&[listener, route, code]);
        RouteMetrics {
            by_code: CODES.map(|known| code(&known.to_string())),
            other_code: code("other"),
            request_duration_seconds: self.request_seconds.with_label_values(&[listener, route]),
            upstream_duration_seconds: self.upstream_seconds.with_label_values(&[listener, route]),
            time_to_first_byte_seconds: self.first_byte_seconds.with_label_values(&[listener, route]),
        }
    }
}

impl RouteMetrics {
    /// Returns the count of requests answered with a status code.
    pub fn requests(&self, code: u16) -> &IntCounter {
        let place = CODES.binary_search(&code).ok();
        place.and_then(|place| self.by_code.get(place)).unwrap_or(&self.other_code)
    }
}

/// Makes metrics and registers them.
struct Maker<'a>(&'a Registry);

impl Maker<'_> {
    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.keep(IntCounterVec::new(options(name, help), labels))
    }

    fn histograms(&self, name: &str, help: &str, labels: &[&str], buckets: &[f64]) -> HistogramVec {
        let options = HistogramOpts::from(options(name, help)).buckets(buckets.to_vec());
        self.keep(HistogramVec::new(options, labels))
    }

    fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Histogram {
        let options = HistogramOpts::from(options(name, help)).buckets(buckets.to_vec());
        self.keep(Histogram::with_opts(options))
    }

    fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.keep(IntCounter::with_opts(options(name, help)))
    }

    fn gauge(&self, name: &str, help: &str) -> Gauge {
        self.keep(Gauge::with_opts(options(name, help)))
    }

    fn int_gauge(&self, name: &str, help: &str) -> IntGauge {
        self.keep(IntGauge::with_opts(options(name, help)))
    }

    fn int_gauge_with<const N: usize>(&self, name: &str, help: &str, fixed: [(&str, &str); N]) -> IntGauge {
        let options =
            fixed.into_iter().fold(options(name, help), |all, (label, text)| all.const_label(label, text));
        self.keep(IntGauge::with_opts(options))
    }

    fn keep<M: Collector + Clone + 'static>(&self, made: prometheus::Result<M>) -> M {
        let metric = made.expect("names and labels are literals of this file");
        self.0.register(Box::new(metric.clone())).expect("every name is used once");
        metric
    }
}

fn options(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace("portcullis")
}

fn resolved<T: Copy>(
    all: &IntCounterVec,
    members: &[T],
    text: impl Fn(T) -> &'static str,
) -> Vec<IntCounter> {
    members.iter().map(|member| all.with_label_values(&[text(*member)])).collect()
}

fn detections(all: &IntCounterVec) -> Vec<IntCounter> {
    let mut found = Vec::new();
    for category in Category::ALL {
        for severity in Severity::ALL {
            let labels = |action: &MetricAction| [category.as_str(), severity.as_str(), action.as_str()];
            found.extend(MetricAction::ALL.iter().map(|action| all.with_label_values(&labels(action))));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(metrics: &Metrics) -> String {
        String::from_utf8(metrics.render()).unwrap()
    }

    #[test]
    fn each_child_counts_under_its_own_labels() {
        let metrics = Metrics::new("1.2.3", "abc");
        let route = metrics.route(Listener::Proxy, "chat");
        route.requests(403).inc();
        route.requests(418).inc_by(2);
        assert!(Arc::ptr_eq(&route, &metrics.route(Listener::Proxy, "chat")));
        metrics.detections(Category::Exfiltration, Severity::High, MetricAction::Redact).inc_by(3);
        metrics.scan_duration_seconds(MetricLayer::L3Ml).observe(0.1);
        metrics.tokens(TokenType::Completion).inc_by(4);
        metrics.unreadable_bodies(Unreadable::Timeout).inc_by(5);
        metrics.config_loaded(true, 7.0);
        metrics.config_loaded(false, 8.0);
        let text = text(&metrics);
        for line in [
            r#"portcullis_requests_total{code="403",listener="proxy",route="chat"} 1"#,
            r#"portcullis_requests_total{code="other",listener="proxy",route="chat"} 2"#,
            r#"portcullis_detections_total{action="redact",category="exfiltration",severity="high"} 3"#,
            r#"portcullis_scan_duration_seconds_count{layer="l3_ml"} 1"#,
            r#"portcullis_tokens_total{type="completion"} 4"#,
            r#"portcullis_unreadable_bodies_total{reason="timeout"} 5"#,
            r#"portcullis_build_info{commit="abc",version="1.2.3"} 1"#,
            "portcullis_config_last_reload_successful 0",
            "portcullis_config_last_reload_success_timestamp_seconds 7",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }

    #[test]
    fn codes_are_sorted_and_routes_are_bounded() {
        assert!(CODES.is_sorted());
        let metrics = Metrics::new("1", "c");
        (0..ROUTES_MAX + 9).for_each(|number| {
            metrics.route(Listener::Admin, &number.to_string()).requests(200).inc();
        });
        assert!(metrics.routes.read().len() <= ROUTES_MAX + 1);
        assert!(text(&metrics).contains(r#"{code="200",listener="admin",route="other"} 9"#));
    }
}
