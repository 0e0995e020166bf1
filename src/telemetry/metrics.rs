//! Every metric and every label of the gateway, in one place.
//!
//! Prometheus conventions: the prefix `portcullis_`, base units, `_total` on counters. Label values
//! come from closed sets or from the configuration, never from what a caller sends.

mod registering;

use std::time::Duration;

use prometheus::Encoder;
use prometheus::Gauge;
use prometheus::Histogram;
use prometheus::HistogramVec;
use prometheus::IntCounter;
use prometheus::IntCounterVec;
use prometheus::IntGauge;
use prometheus::Registry;
use prometheus::TextEncoder;
use prometheus::core::Collector;

use self::registering::counter;
use self::registering::counters;
use self::registering::counters_gauge;
use self::registering::float_gauge;
use self::registering::gauge;
use self::registering::histogram;
use self::registering::histograms;

/// From 50 microseconds to a minute.
const SECONDS: [f64; 16] =
    [5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0];
/// From a microsecond to a second.
const SCAN_SECONDS: [f64; 12] = [1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 5e-4, 1e-3, 0.01, 0.1, 1.0];

/// What a call of an agent counts as that the guardrails let pass.
pub const AGENT_GRANTED: &str = "granted";

/// What the gateway counts and measures.
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    l1_seconds: Histogram,
    upstream_seconds: HistogramVec,
    first_byte_seconds: HistogramVec,
    detections: IntCounterVec,
    tokens: IntCounterVec,
    unreadable: IntCounterVec,
    rejections: IntCounterVec,
    provider_failures: IntCounterVec,
    spans_lost: IntCounterVec,
    rate_limited: IntCounter,
    refusals_unrecorded: IntCounter,
    agent_calls: IntCounterVec,
    panics: IntCounter,
    opaque_bytes: IntCounter,
    in_flight: IntGauge,
    buffered_bytes: IntGauge,
    audit_append_seconds: Histogram,
    audit_queue: IntGauge,
    audit_lost: IntCounter,
    audit_shipped: IntCounterVec,
    audit_waiting: IntGauge,
    audit_waiting_seconds: Gauge,
    audit_chain_faults: IntGauge,
    siem_events: IntCounterVec,
    shared_limits: IntCounterVec,
    reload_ok: IntGauge,
    reload_at: Gauge,
    revision: IntGauge,
    certificate_ends: prometheus::IntGaugeVec,
}

/// One finished exchange, for the request metrics.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'a> {
    /// `proxy` or `admin`.
    pub listener: &'static str,
    /// The route's name from the configuration; `none` where no route was found.
    pub route: &'a str,
    /// The status.
    pub code: u16,
    /// From the first byte to the last.
    pub took: Duration,
}

impl Metrics {
    /// Returns metrics at zero.
    pub fn new(version: &str, commit: &str) -> Self {
        let registry = Registry::new();
        let build = counters_gauge(&registry, "build_info", "The build; always 1.", &["version", "commit"]);
        build.with_label_values(&[version, commit]).set(1);
        let scan_seconds =
            histograms(&registry, "scan_duration_seconds", "Time to scan a body.", &["layer"], &SCAN_SECONDS);
        let l1_seconds = scan_seconds.with_label_values(&["l1_regex"]);
        Self {
            requests: counters(
                &registry,
                "requests_total",
                "Requests answered.",
                &["listener", "route", "code"],
            ),
            request_seconds: histograms(
                &registry,
                "request_duration_seconds",
                "From the first byte of a request to the last of its answer.",
                &["listener", "route"],
                &SECONDS,
            ),
            l1_seconds,
            upstream_seconds: histograms(
                &registry,
                "upstream_duration_seconds",
                "From sending a request to the head of the provider's answer.",
                &["route"],
                &SECONDS,
            ),
            first_byte_seconds: histograms(
                &registry,
                "time_to_first_byte_seconds",
                "From the first byte of a request to the first of its answer.",
                &["route"],
                &SECONDS,
            ),
            detections: counters(
                &registry,
                "detections_total",
                "Findings, by what was done about them.",
                &["category", "severity", "action"],
            ),
            tokens: counters(&registry, "tokens_total", "Tokens told by providers.", &["type"]),
            unreadable: counters(
                &registry,
                "unreadable_bodies_total",
                "Bodies that could not be inspected.",
                &["reason"],
            ),
            rejections: counters(
                &registry,
                "rejections_total",
                "Exchanges refused, by the code the caller got.",
                &["code"],
            ),
            provider_failures: counters(
                &registry,
                "provider_failures_total",
                "Requests answered with a server error that was the provider's: its own, or it was not to be had.",
                &["reason"],
            ),
            spans_lost: counters(
                &registry,
                "otlp_spans_lost_total",
                "Spans that did not reach the collector: the queue was full, it refused them, or it was slow.",
                &["reason"],
            ),
            rate_limited: counter(
                &registry,
                "rate_limited_total",
                "Requests refused because a quota was used up.",
            ),
            refusals_unrecorded: counter(
                &registry,
                "refusals_unrecorded_total",
                "Refused calls and failed logins that came too often to be recorded in the audit log.",
            ),
            agent_calls: counters(
                &registry,
                "a2a_calls_total",
                "Calls of agents, by the code they were denied with; `granted` where they were not.",
                &["code"],
            ),
            panics: counter(&registry, "panics_total", "Panics that were caught."),
            opaque_bytes: counter(&registry, "opaque_bytes_total", "Bytes passed on that hold no text."),
            in_flight: gauge(&registry, "inflight_requests", "Exchanges under way."),
            buffered_bytes: gauge(&registry, "buffered_body_bytes", "Bytes of bodies held in memory."),
            audit_append_seconds: histogram(
                &registry,
                "audit_append_duration_seconds",
                "Time to record an exchange, as the exchange waits for it.",
                &SCAN_SECONDS,
            ),
            audit_queue: gauge(&registry, "audit_queue_length", "Audit entries that wait to be written."),
            audit_lost: counter(&registry, "audit_refused_total", "Audit events that the log did not take."),
            siem_events: counters(
                &registry,
                "siem_events_total",
                "Audit entries forwarded, refused for good or dropped before, and attempts that failed.",
                &["platform", "result"],
            ),
            audit_shipped: counters(
                &registry,
                "audit_shipped_total",
                "Audit entries shipped to the database nodes share, tries that failed, journals that did not go on where \
                 they were shipped up to, and segments dropped before they were shipped.",
                &["result"],
            ),
            audit_waiting: gauge(
                &registry,
                "audit_ship_waiting_entries",
                "Audit entries of this node that are not shipped yet.",
            ),
            audit_waiting_seconds: float_gauge(
                &registry,
                "audit_ship_waiting_seconds",
                "How long the oldest of them has been waiting.",
            ),
            audit_chain_faults: gauge(
                &registry,
                "audit_shipped_chain_faults",
                "Nodes whose shipped chain did not verify, as the node saw it that verified last.",
            ),
            shared_limits: counters(
                &registry,
                "shared_limits_total",
                "Callers whose use was told to the other nodes (`told`), and rounds that failed because Redis was away.",
                &["result"],
            ),
            reload_ok: gauge(
                &registry,
                "config_last_reload_successful",
                "Whether the last reload was accepted.",
            ),
            reload_at: float_gauge(
                &registry,
                "config_last_reload_success_timestamp_seconds",
                "When a reload was last accepted.",
            ),
            revision: gauge(&registry, "config_revision", "The revision in force."),
            certificate_ends: counters_gauge(
                &registry,
                "cert_expiry_timestamp_seconds",
                "Until when the certificate of a listener counts.",
                &["listener"],
            ),
            registry,
        }
    }

    /// Counts a finished request.
    pub fn finished(&self, finished: Finished<'_>) {
        let mut digits = [0; 3];
        let code = code_text(finished.code, &mut digits);
        self.requests.with_label_values(&[finished.listener, finished.route, code]).inc();
        let seconds = self.request_seconds.with_label_values(&[finished.listener, finished.route]);
        seconds.observe(finished.took.as_secs_f64());
    }

    /// Measures the provider's part of an exchange.
    pub fn upstream(&self, route: &str, upstream: Option<Duration>, first_byte: Option<Duration>) {
        if let Some(took) = upstream {
            self.upstream_seconds.with_label_values(&[route]).observe(took.as_secs_f64());
        }
        if let Some(took) = first_byte {
            self.first_byte_seconds.with_label_values(&[route]).observe(took.as_secs_f64());
        }
    }

    /// Measures the scanning of one exchange.
    pub fn scanned(&self, took: Duration) {
        self.l1_seconds.observe(took.as_secs_f64());
    }

    /// Counts a finding.
    pub fn detected(&self, category: &'static str, severity: &'static str, action: &'static str) {
        self.detections.with_label_values(&[category, severity, action]).inc();
    }

    /// Counts tokens.
    pub fn tokens(&self, prompt: Option<u64>, completion: Option<u64>) {
        if let Some(count) = prompt {
            self.tokens.with_label_values(&["prompt"]).inc_by(count);
        }
        if let Some(count) = completion {
            self.tokens.with_label_values(&["completion"]).inc_by(count);
        }
    }

    /// Counts a body that could not be inspected.
    pub fn unreadable(&self, reason: &'static str) {
        self.unreadable.with_label_values(&[reason]).inc();
    }

    /// Counts a refused exchange.
    pub fn rejected(&self, code: &'static str) {
        self.rejections.with_label_values(&[code]).inc();
    }

    /// Counts a request, answered with a server error, that the provider failed at.
    pub fn provider_failed(&self, reason: &'static str) {
        self.provider_failures.with_label_values(&[reason]).inc();
    }

    /// Counts spans that the collector did not get.
    pub fn spans_lost(&self, reason: &'static str, count: u64) {
        self.spans_lost.with_label_values(&[reason]).inc_by(count);
    }

    /// Counts a request over its quota.
    pub fn rate_limited(&self) {
        self.rate_limited.inc();
    }

    /// Counts a refusal that is in no log.
    pub fn refusal_unrecorded(&self) {
        self.refusals_unrecorded.inc();
    }

    /// Counts a call of an agent: [`AGENT_GRANTED`], or the code it was denied with.
    pub fn agent_called(&self, code: &'static str) {
        self.agent_calls.with_label_values(&[code]).inc();
    }

    /// Returns how many calls of agents came to a code.
    pub fn agent_calls(&self, code: &'static str) -> u64 {
        self.agent_calls.with_label_values(&[code]).get()
    }

    /// Counts a caught panic.
    pub fn panicked(&self) {
        self.panics.inc();
    }

    /// Counts bytes that were passed on unread.
    pub fn opaque(&self, bytes: usize) {
        self.opaque_bytes.inc_by(bytes as u64);
    }

    /// Notes that an exchange began.
    pub fn began(&self) {
        self.in_flight.inc();
    }

    /// Notes that an exchange ended.
    pub fn ended(&self) {
        self.in_flight.dec();
    }

    /// Sets the bytes held in memory.
    pub fn buffered(&self, bytes: usize) {
        self.buffered_bytes.set(bytes as i64);
    }

    /// Measures the recording of an exchange.
    pub fn recorded(&self, took: Duration) {
        self.audit_append_seconds.observe(took.as_secs_f64());
    }

    /// Sets the length of the audit queue.
    pub fn audit_queue(&self, waiting: usize) {
        self.audit_queue.set(waiting as i64);
    }

    /// Counts an event that the audit log did not take.
    pub fn audit_refused(&self) {
        self.audit_lost.inc();
    }

    /// Counts audit entries that a platform took (`forwarded`) or refused for good (`dead`), or that retention
    /// dropped before (`missed`), or attempts that `failed`.
    pub fn siem_events(&self, platform: &'static str, result: &'static str, events: u64) {
        self.siem_events.with_label_values(&[platform, result]).inc_by(events);
    }

    /// Counts entries of the audit log that were `shipped`, tries that `failed`, journals that were `broken`, and
    /// segments that were `lost`.
    pub fn audit_shipped(&self, result: &'static str, count: u64) {
        self.audit_shipped.with_label_values(&[result]).inc_by(count);
    }

    /// Notes how many entries of the audit log are still to be shipped, and for how long the oldest of them has been.
    pub fn audit_waiting(&self, entries: u64, seconds: f64) {
        self.audit_waiting.set(i64::try_from(entries).unwrap_or(i64::MAX));
        self.audit_waiting_seconds.set(seconds);
    }

    /// Notes how many nodes' shipped chains did not verify.
    pub fn audit_chain_faults(&self, nodes: usize) {
        self.audit_chain_faults.set(nodes as i64);
    }

    /// Counts callers whose use was `told` to other nodes, or rounds in which that could not be: `away`.
    pub fn shared_limits(&self, result: &'static str, count: u64) {
        self.shared_limits.with_label_values(&[result]).inc_by(count);
    }

    /// Returns how many events the audit log did not take.
    pub fn audit_refusals(&self) -> u64 {
        self.audit_lost.get()
    }

    /// Notes how a reload went, at a moment in Unix seconds.
    pub fn reloaded(&self, accepted: Option<u64>, unix_seconds: f64) {
        self.reload_ok.set(i64::from(accepted.is_some()));
        if let Some(revision) = accepted {
            self.reload_at.set(unix_seconds);
            self.revision.set(revision as i64);
        }
    }

    /// Shows until when the certificate of a listener counts, in Unix seconds.
    pub fn certificate_ends(&self, listener: &'static str, unix_seconds: i64) {
        self.certificate_ends.with_label_values(&[listener]).set(unix_seconds);
    }

    /// Returns the share of requests answered without a server error of the gateway since the start; `None` before the
    /// first. What a provider failed at is no error of the gateway.
    pub fn availability(&self) -> Option<f64> {
        let all = sum(&self.requests, |_| true);
        let is_error =
            |label: &prometheus::proto::LabelPair| label.name() == "code" && label.value().starts_with('5');
        let errors = sum(&self.requests, |labels| labels.iter().any(is_error));
        let ours = errors.saturating_sub(sum(&self.provider_failures, |_| true));
        (all > 0).then(|| 1.0 - ours as f64 / all as f64)
    }

    /// Returns the time within which a share of a listener's requests was answered, in seconds: the upper
    /// bound of the bucket it falls into. `None` before the first request, and past the last bucket.
    pub fn latency_quantile(&self, listener: &str, share: f64) -> Option<f64> {
        let mut counts = vec![0u64; SECONDS.len()];
        let mut all = 0;
        for family in self.request_seconds.collect() {
            let of_listener = |metric: &&prometheus::proto::Metric| {
                metric.get_label().iter().any(|l| l.name() == "listener" && l.value() == listener)
            };
            for metric in family.get_metric().iter().filter(of_listener) {
                let histogram = metric.get_histogram();
                all += histogram.get_sample_count();
                for (sum, bucket) in counts.iter_mut().zip(histogram.get_bucket()) {
                    *sum += bucket.cumulative_count();
                }
            }
        }
        let wanted = (all as f64 * share).ceil() as u64;
        let at = counts.iter().position(|count| all > 0 && *count >= wanted)?;
        SECONDS.get(at).copied()
    }

    /// Returns the share of audit events that the log took; `None` before the first.
    pub fn audit_completeness(&self) -> Option<f64> {
        let (taken, lost) = (self.audit_append_seconds.get_sample_count(), self.audit_lost.get());
        (taken + lost > 0).then(|| taken as f64 / (taken + lost) as f64)
    }

    /// Returns every metric in the Prometheus text format.
    pub fn render(&self) -> String {
        let mut text = Vec::new();
        let written = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        // Writing to memory fails only for a metric without a name, and these have one.
        if written.is_err() {
            text.clear();
        }
        String::from_utf8(text).unwrap_or_default()
    }
}

/// Returns the sum of the counters whose labels are wanted.
fn sum(counters: &IntCounterVec, is_wanted: impl Fn(&[prometheus::proto::LabelPair]) -> bool) -> u64 {
    let families = counters.collect();
    let found = families.iter().flat_map(|family| family.get_metric());
    let wanted = found.filter(|metric| is_wanted(metric.get_label()));
    wanted.map(|metric| metric.get_counter().get_value() as u64).sum()
}

fn code_text(code: u16, digits: &mut [u8; 3]) -> &str {
    *digits = [b'0' + (code / 100 % 10) as u8, b'0' + (code / 10 % 10) as u8, b'0' + (code % 10) as u8];
    std::str::from_utf8(digits).unwrap_or("000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_shown() {
        let metrics = Metrics::new("1.2.3", "abc");
        let took = Duration::from_millis(2);
        metrics.finished(Finished { listener: "proxy", route: "openai", code: 403, took });
        metrics.finished(Finished { listener: "proxy", route: "openai", code: 502, took });
        metrics.detected("secrets", "critical", "block");
        let text = metrics.render();
        for line in [
            "portcullis_requests_total{code=\"403\",listener=\"proxy\",route=\"openai\"} 1",
            "portcullis_detections_total{action=\"block\",category=\"secrets\",severity=\"critical\"} 1",
            "portcullis_build_info{commit=\"abc\",version=\"1.2.3\"} 1",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert_eq!(metrics.availability(), Some(0.5));
        metrics.provider_failed("answered");
        assert_eq!(metrics.availability(), Some(1.0));
        assert_eq!(metrics.latency_quantile("proxy", 0.99), Some(2.5e-3));
        assert_eq!(metrics.latency_quantile("admin", 0.99), None);
        assert_eq!(metrics.audit_completeness(), None);
    }
}
