//! Every metric and every label of the gateway, in one place.
//!
//! Prometheus conventions: the prefix `portcullis_`, base units, `_total` on counters. Label values
//! come from closed sets or from the configuration, never from what a caller sends.

mod exemplar;
mod openmetrics;
mod parts;
mod registering;

use std::time::Duration;

use prometheus::Encoder;
use prometheus::IntCounterVec;
use prometheus::Registry;
use prometheus::TextEncoder;
use prometheus::core::Collector;
use prometheus::proto::LabelPair;
use prometheus::proto::Metric;
use prometheus::proto::MetricFamily;

pub use self::exemplar::Example;
use self::exemplar::Exemplar;
use self::parts::Judging;
use self::parts::Recording;
use self::parts::Standing;
use self::parts::Traffic;
use self::registering::counters_gauge;
use self::registering::pulled;

/// From 50 microseconds to a minute.
const SECONDS: [f64; 16] =
    [5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0];
/// From a microsecond to a second.
const SCAN_SECONDS: [f64; 12] = [1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 5e-4, 1e-3, 0.01, 0.1, 1.0];

/// What a call of an agent counts as that the guardrails let pass.
pub const AGENT_GRANTED: &str = "granted";

/// The routes of those who ask how the gateway is.
const PROBES: [&str; 3] = ["/health", "/ready", "/api/v1/health"];

/// What the gateway counts and measures.
pub struct Metrics {
    registry: Registry,
    traffic: Traffic,
    judging: Judging,
    recording: Recording,
    standing: Standing,
}

/// One finished exchange, for the request metrics.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'a> {
    /// `proxy` or `admin`.
    pub listener: &'static str,
    /// The provider, by the dialect that is spoken; `none` where the gateway answers itself.
    pub provider: &'a str,
    /// The route's name from the configuration; `none` where no route was found.
    pub route: &'a str,
    /// The status.
    pub code: u16,
    /// From the first byte to the last.
    pub took: Duration,
    /// Its trace, where that is sent.
    pub example: Option<Example>,
}

impl Metrics {
    /// Returns metrics at zero.
    pub fn new(version: &str, commit: &str) -> Self {
        let registry = Registry::new();
        let build = counters_gauge(&registry, "build_info", "The build; always 1.", &["version", "commit"]);
        build.with_label_values(&[version, commit]).set(1);
        Self {
            traffic: Traffic::new(&registry),
            judging: Judging::new(&registry),
            recording: Recording::new(&registry),
            standing: Standing::new(&registry),
            registry,
        }
    }

    /// Counts a finished request.
    pub fn finished(&self, finished: Finished<'_>) {
        let mut digits = [0; 3];
        let code = code_text(finished.code, &mut digits);
        self.traffic
            .requests
            .with_label_values(&[finished.listener, finished.provider, finished.route, code])
            .inc();
        let labels = [finished.listener, finished.route];
        self.traffic.request_seconds.observe(&labels, finished.took, finished.example);
    }

    /// Measures the provider's part of an exchange.
    pub fn upstream(&self, route: &str, took: Option<Duration>, example: Option<Example>) {
        if let Some(took) = took {
            self.traffic.upstream_seconds.observe(&[route], took, example);
        }
    }

    /// Measures how long a caller waited for the first byte of an answer.
    pub fn first_byte(&self, route: &str, took: Option<Duration>, example: Option<Example>) {
        if let Some(took) = took {
            self.traffic.first_byte_seconds.observe(&[route], took, example);
        }
    }

    /// Measures the scanning of one exchange.
    pub fn scanned(&self, took: Duration) {
        self.judging.l1_seconds.observe(took.as_secs_f64());
    }

    /// Counts a finding.
    pub fn detected(&self, category: &'static str, severity: &'static str, action: &'static str) {
        self.judging.detections.with_label_values(&[category, severity, action]).inc();
    }

    /// Counts an exchange that was `decided` about so, and that a shadow policy would have decided about otherwise.
    pub fn foreseen(&self, shadow: &str, foreseen: &'static str, decided: &'static str) {
        self.judging.foreseen.with_label_values(&[shadow, foreseen, decided]).inc();
    }

    /// Counts tokens.
    pub fn tokens(&self, prompt: Option<u64>, completion: Option<u64>) {
        if let Some(count) = prompt {
            self.judging.tokens.with_label_values(&["prompt"]).inc_by(count);
        }
        if let Some(count) = completion {
            self.judging.tokens.with_label_values(&["completion"]).inc_by(count);
        }
    }

    /// Counts a body that could not be inspected.
    pub fn unreadable(&self, reason: &'static str) {
        self.judging.unreadable.with_label_values(&[reason]).inc();
    }

    /// Counts a refused exchange.
    pub fn rejected(&self, code: &'static str) {
        self.judging.rejections.with_label_values(&[code]).inc();
    }

    /// Counts a request, answered with a server error, that the provider failed at.
    pub fn provider_failed(&self, reason: &'static str) {
        self.traffic.provider_failures.with_label_values(&[reason]).inc();
    }

    /// Counts spans that the collector did not get.
    pub fn spans_lost(&self, reason: &'static str, count: u64) {
        self.traffic.spans_lost.with_label_values(&[reason]).inc_by(count);
    }

    /// Counts a request over its quota.
    pub fn rate_limited(&self) {
        self.judging.rate_limited.inc();
    }

    /// Counts a refusal that is in no log.
    pub fn refusal_unrecorded(&self) {
        self.judging.refusals_unrecorded.inc();
    }

    /// Counts a call of an agent: [`AGENT_GRANTED`], or the code it was denied with.
    pub fn agent_called(&self, code: &'static str) {
        self.judging.agent_calls.with_label_values(&[code]).inc();
    }

    /// Returns how many calls of agents came to a code.
    pub fn agent_calls(&self, code: &'static str) -> u64 {
        self.judging.agent_calls.with_label_values(&[code]).get()
    }

    /// Counts a caught panic.
    pub fn panicked(&self) {
        self.traffic.panics.inc();
    }

    /// Counts bytes that were passed on unread.
    pub fn opaque(&self, bytes: usize) {
        self.judging.opaque_bytes.inc_by(bytes as u64);
    }

    /// Counts documents by what became of each: `read`, or why not all of it was.
    pub fn documents(&self, outcomes: &[&'static str]) {
        outcomes.iter().for_each(|outcome| self.judging.documents.with_label_values(&[outcome]).inc());
    }

    /// Notes that an exchange began.
    pub fn began(&self) {
        self.traffic.in_flight.inc();
    }

    /// Notes that an exchange ended.
    pub fn ended(&self) {
        self.traffic.in_flight.dec();
    }

    /// Says from now on how many bytes of bodies are held in memory: as many as `held` tells whenever metrics are read.
    pub fn follow_buffered(&self, held: impl Fn() -> usize + Send + Sync + 'static) {
        let held = move || held() as f64;
        pulled(&self.registry, "buffered_body_bytes", "Bytes of bodies held in memory.", held);
    }

    /// Measures one write of the audit log, of however many entries, and whether it succeeded or not.
    pub fn recorded(&self, took: Duration) {
        self.recording.audit_append_seconds.observe(took.as_secs_f64());
    }

    /// Counts entries that the audit log took.
    pub fn audit_taken(&self, entries: u64) {
        self.recording.audit_entries.inc_by(entries);
    }

    /// Sets the length of the audit queue.
    pub fn audit_queue(&self, waiting: usize) {
        self.recording.audit_queue.set(waiting as i64);
    }

    /// Counts an event that the audit log did not take.
    pub fn audit_refused(&self) {
        self.recording.audit_lost.inc();
    }

    /// Counts audit entries that a platform took (`forwarded`) or refused for good (`dead`), or that retention
    /// dropped before (`missed`), or attempts that `failed`.
    pub fn siem_events(&self, platform: &'static str, result: &'static str, events: u64) {
        self.recording.siem_events.with_label_values(&[platform, result]).inc_by(events);
    }

    /// Notes that more sinks of a platform, or fewer, stand so: `idle`, `connected`, `retrying` or `failed`.
    pub fn siem_sinks(&self, platform: &'static str, status: &'static str, more: i64) {
        self.recording.siem_sinks.with_label_values(&[platform, status]).add(more);
    }

    /// Notes how many bytes of the audit log the sinks have still to hand over.
    pub fn siem_spool(&self, bytes: u64) {
        self.recording.siem_spool.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Counts entries of the audit log that were `shipped`, tries that `failed`, journals that were `broken`, and
    /// segments that were `lost`.
    pub fn audit_shipped(&self, result: &'static str, count: u64) {
        self.recording.audit_shipped.with_label_values(&[result]).inc_by(count);
    }

    /// Notes how many entries of the audit log are still to be shipped, and for how long the oldest of them has been.
    pub fn audit_waiting(&self, entries: u64, seconds: f64) {
        self.recording.audit_waiting.set(i64::try_from(entries).unwrap_or(i64::MAX));
        self.recording.audit_waiting_seconds.set(seconds);
    }

    /// Notes how many nodes' shipped chains did not verify.
    pub fn audit_chain_faults(&self, nodes: usize) {
        self.recording.audit_chain_faults.set(nodes as i64);
    }

    /// Notes how many bytes of this node's audit journal are damaged.
    pub fn audit_damaged(&self, bytes: u64) {
        self.recording.audit_damaged.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Notes how many names of a standing have keys, and counts those recorded since that had no place.
    pub fn names(&self, standing: &'static str, names: usize, unlisted: u64) {
        self.recording.names.with_label_values(&[standing]).set(names as i64);
        self.recording.names_unlisted.with_label_values(&[standing]).inc_by(unlisted);
    }

    /// Counts names that aged out.
    pub fn names_aged_out(&self, names: u64) {
        self.recording.names_aged_out.inc_by(names);
    }

    /// Counts callers and budgets whose use was `told` to other nodes, or rounds in which that could not be: `away`.
    pub fn shared_limits(&self, result: &'static str, count: u64) {
        self.standing.shared_limits.with_label_values(&[result]).inc_by(count);
    }

    /// Returns how many events the audit log did not take.
    pub fn audit_refusals(&self) -> u64 {
        self.recording.audit_lost.get()
    }

    /// Notes how a reload went, at a moment in Unix seconds.
    pub fn reloaded(&self, accepted: Option<u64>, unix_seconds: f64) {
        self.standing.reload_ok.set(i64::from(accepted.is_some()));
        if let Some(revision) = accepted {
            self.standing.reload_at.set(unix_seconds);
            self.standing.revision.set(revision as i64);
        }
    }

    /// Shows until when the certificate of a listener counts, in Unix seconds.
    pub fn certificate_ends(&self, listener: &'static str, unix_seconds: i64) {
        self.standing.certificate_ends.with_label_values(&[listener]).set(unix_seconds);
    }

    /// Returns the share of requests answered without a server error of the gateway since the start; `None` before the
    /// first. What a provider failed at is no error of the gateway, be it one of models or of identities; and who asks
    /// how the gateway is gets the answer that was asked for, whatever its status.
    pub fn availability(&self) -> Option<f64> {
        let is = |labels: &[LabelPair], name: &str, value: &dyn Fn(&str) -> bool| {
            labels.iter().any(|label| label.name() == name && value(label.value()))
        };
        let counts = |labels: &[LabelPair]| !is(labels, "route", &|route| PROBES.contains(&route));
        let is_error = |labels: &[LabelPair]| {
            let is_of_provider =
                is(labels, "listener", &|it| it == "admin") && is(labels, "code", &|code| code == "502");
            counts(labels) && is(labels, "code", &|code| code.starts_with('5')) && !is_of_provider
        };
        let (all, errors) = (sum(&self.traffic.requests, counts), sum(&self.traffic.requests, is_error));
        let ours = errors.saturating_sub(sum(&self.traffic.provider_failures, |_| true));
        (all > 0).then(|| 1.0 - ours as f64 / all as f64)
    }

    /// Returns the time within which a share of a listener's requests was answered, in seconds: within the bucket it falls
    /// into, requests count as spread evenly, as `histogram_quantile` of Prometheus has it. `None` before the first request,
    /// and past the last bucket.
    pub fn latency_quantile(&self, listener: &str, share: f64) -> Option<f64> {
        let mut counts = vec![0u64; SECONDS.len()];
        let mut all = 0;
        for family in self.traffic.request_seconds.collect() {
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
        let wanted = all as f64 * share;
        let (mut begin, mut below) = (0.0, 0.0);
        for (end, count) in SECONDS.into_iter().zip(counts.into_iter().map(|count| count as f64)) {
            if all > 0 && count >= wanted {
                return Some(begin + (end - begin) * (wanted - below) / (count - below));
            }
            (begin, below) = (end, count);
        }
        None
    }

    /// Returns the share of audit events that the log took; `None` before the first. One that it took after whoever
    /// waited for it had given up counts as both taken and lost.
    pub fn audit_completeness(&self) -> Option<f64> {
        let (taken, lost) = (self.recording.audit_entries.get(), self.recording.audit_lost.get());
        (taken + lost > 0).then(|| taken as f64 / (taken + lost) as f64)
    }

    /// Returns every metric as OpenMetrics has them, with exemplars.
    pub fn render_open(&self) -> String {
        openmetrics::write(&self.registry.gather(), |family, metric| self.exemplars(family, metric))
    }

    fn exemplars(&self, family: &MetricFamily, metric: &Metric) -> Vec<Option<Exemplar>> {
        let Traffic { request_seconds, upstream_seconds, first_byte_seconds, .. } = &self.traffic;
        let all = [request_seconds, upstream_seconds, first_byte_seconds];
        let Some(latency) = all.into_iter().find(|latency| latency.is_named(family.name())) else {
            return Vec::new();
        };
        let labels: Vec<String> = metric.get_label().iter().map(|label| label.value().to_owned()).collect();
        latency.exemplars(&labels)
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
fn sum(counters: &IntCounterVec, is_wanted: impl Fn(&[LabelPair]) -> bool) -> u64 {
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
mod tests;
