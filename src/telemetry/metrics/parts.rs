//! The metrics themselves, by what they are of: one row each.

use prometheus::Gauge;
use prometheus::Histogram;
use prometheus::IntCounter;
use prometheus::IntCounterVec;
use prometheus::IntGauge;
use prometheus::IntGaugeVec;
use prometheus::Registry;

use super::SCAN_SECONDS;
use super::SECONDS;
use super::exemplar::Latency;
use super::registering::counter;
use super::registering::counters;
use super::registering::counters_gauge;
use super::registering::float_gauge;
use super::registering::gauge;
use super::registering::histogram;
use super::registering::histograms;
use super::registering::latencies;

/// Exchanges, and what holds them up.
pub(super) struct Traffic {
    pub(super) requests: IntCounterVec,
    pub(super) request_seconds: Latency,
    pub(super) upstream_seconds: Latency,
    pub(super) first_byte_seconds: Latency,
    pub(super) provider_failures: IntCounterVec,
    pub(super) spans_lost: IntCounterVec,
    pub(super) in_flight: IntGauge,
    pub(super) panics: IntCounter,
}

/// What is read, found and not let pass.
pub(super) struct Judging {
    pub(super) l1_seconds: Histogram,
    pub(super) detections: IntCounterVec,
    pub(super) foreseen: IntCounterVec,
    pub(super) tokens: IntCounterVec,
    pub(super) unreadable: IntCounterVec,
    pub(super) opaque_bytes: IntCounter,
    pub(super) documents: IntCounterVec,
    pub(super) rejections: IntCounterVec,
    pub(super) rate_limited: IntCounter,
    pub(super) refusals_unrecorded: IntCounter,
    pub(super) agent_calls: IntCounterVec,
}

/// The audit log, and where it goes.
pub(super) struct Recording {
    pub(super) audit_append_seconds: Histogram,
    pub(super) audit_entries: IntCounter,
    pub(super) audit_queue: IntGauge,
    pub(super) audit_lost: IntCounter,
    pub(super) audit_shipped: IntCounterVec,
    pub(super) audit_waiting: IntGauge,
    pub(super) audit_waiting_seconds: Gauge,
    pub(super) audit_chain_faults: IntGauge,
    pub(super) audit_damaged: IntGauge,
    pub(super) names: IntGaugeVec,
    pub(super) names_unlisted: IntCounterVec,
    pub(super) names_aged_out: IntCounter,
    pub(super) siem_events: IntCounterVec,
    pub(super) siem_sinks: IntGaugeVec,
    pub(super) siem_spool: IntGauge,
}

/// What is in force, and what is shared with other nodes.
pub(super) struct Standing {
    pub(super) shared_limits: IntCounterVec,
    pub(super) reload_ok: IntGauge,
    pub(super) reload_at: Gauge,
    pub(super) revision: IntGauge,
    pub(super) certificate_ends: IntGaugeVec,
}

impl Traffic {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            requests: counters(
                registry,
                "requests_total",
                "Requests answered.",
                &["listener", "provider", "route", "code"],
            ),
            request_seconds: latencies(
                registry,
                "request_duration_seconds",
                "From the first byte of a request to the last of its answer.",
                &["listener", "route"],
                &SECONDS,
            ),
            upstream_seconds: latencies(
                registry,
                "upstream_duration_seconds",
                "From sending a request to the head of the provider's answer.",
                &["route"],
                &SECONDS,
            ),
            first_byte_seconds: latencies(
                registry,
                "time_to_first_byte_seconds",
                "From the first byte of a request to the first of its answer.",
                &["route"],
                &SECONDS,
            ),
            provider_failures: counters(
                registry,
                "provider_failures_total",
                "Requests answered with a server error that was the provider's: its own, or it was not to be had.",
                &["reason"],
            ),
            spans_lost: counters(
                registry,
                "otlp_spans_lost_total",
                "Spans that did not reach the collector: the queue was full, it refused them, or it was slow.",
                &["reason"],
            ),
            in_flight: gauge(registry, "inflight_requests", "Exchanges under way."),
            panics: counter(registry, "panics_total", "Panics that were caught."),
        }
    }
}

impl Judging {
    pub(super) fn new(registry: &Registry) -> Self {
        let scan_seconds =
            histograms(registry, "scan_duration_seconds", "Time to scan a body.", &["layer"], &SCAN_SECONDS);
        Self {
            l1_seconds: scan_seconds.with_label_values(&["l1_regex"]),
            detections: counters(
                registry,
                "detections_total",
                "Findings, by what was done about them.",
                &["category", "severity", "action"],
            ),
            foreseen: counters(
                registry,
                "shadow_differences_total",
                "Exchanges that a shadow policy would have decided about otherwise: what it would have done, and what was \
                 done.",
                &["policy", "action", "decided"],
            ),
            tokens: counters(registry, "tokens_total", "Tokens told by providers.", &["type"]),
            unreadable: counters(
                registry,
                "unreadable_bodies_total",
                "Bodies that could not be inspected.",
                &["reason"],
            ),
            opaque_bytes: counter(registry, "opaque_bytes_total", "Bytes passed on that hold no text."),
            documents: counters(
                registry,
                "documents_total",
                "Documents in bodies: those that were read, and why not all of others was.",
                &["outcome"],
            ),
            rejections: counters(
                registry,
                "rejections_total",
                "Exchanges refused, by the code the caller got.",
                &["code"],
            ),
            rate_limited: counter(
                registry,
                "rate_limited_total",
                "Requests refused because a quota was used up.",
            ),
            refusals_unrecorded: counter(
                registry,
                "refusals_unrecorded_total",
                "Refused calls and failed logins that came too often to be recorded in the audit log.",
            ),
            agent_calls: counters(
                registry,
                "a2a_calls_total",
                "Calls of agents, by the code they were denied with; `granted` where they were not.",
                &["code"],
            ),
        }
    }
}

impl Recording {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            audit_append_seconds: histogram(
                registry,
                "audit_append_duration_seconds",
                "Time to write a group of audit entries, as whoever waits for them does.",
                &SCAN_SECONDS,
            ),
            audit_entries: counter(registry, "audit_entries_total", "Audit entries that were written."),
            audit_queue: gauge(registry, "audit_queue_length", "Audit entries that wait to be written."),
            audit_lost: counter(registry, "audit_refused_total", "Audit events that the log did not take."),
            audit_shipped: counters(
                registry,
                "audit_shipped_total",
                "Audit entries shipped to the database nodes share, tries that failed, journals that did not go on where \
                 they were shipped up to, segments dropped before they were shipped (lost), and entries that another \
                 process of the same node was faster than (passed_over).",
                &["result"],
            ),
            audit_waiting: gauge(
                registry,
                "audit_ship_waiting_entries",
                "Audit entries of this node that are not shipped yet.",
            ),
            audit_waiting_seconds: float_gauge(
                registry,
                "audit_ship_waiting_seconds",
                "How long the oldest of them has been waiting.",
            ),
            audit_chain_faults: gauge(
                registry,
                "audit_shipped_chain_faults",
                "Nodes whose shipped chain did not verify, as the node saw it that verified last.",
            ),
            audit_damaged: gauge(
                registry,
                "audit_damaged_bytes",
                "Bytes of this node's audit journal that were found damaged.",
            ),
            names: counters_gauge(
                registry,
                "names",
                "Names that have keys, and can be read back: stranger, caller, recorded or known.",
                &["standing"],
            ),
            names_unlisted: counters(
                registry,
                "names_unlisted_total",
                "Names recorded as [unlisted], because there was no place for them.",
                &["standing"],
            ),
            names_aged_out: counter(
                registry,
                "names_aged_out_total",
                "Names that nothing named any more, whose keys were destroyed.",
            ),
            siem_events: counters(
                registry,
                "siem_events_total",
                "Audit entries forwarded, refused for good or dropped before, and attempts that failed.",
                &["platform", "result"],
            ),
            siem_sinks: siem_sinks(registry),
            siem_spool: siem_spool(registry),
        }
    }
}

fn siem_sinks(registry: &Registry) -> IntGaugeVec {
    let help = "Sinks of the audit log by how they stand: idle, connected, retrying or failed.";
    counters_gauge(registry, "siem_sinks", help, &["platform", "status"])
}

fn siem_spool(registry: &Registry) -> IntGauge {
    let help = "Bytes of the audit log that sinks have still to hand over, those of each sink.";
    gauge(registry, "siem_spool_bytes", help)
}

impl Standing {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            shared_limits: counters(
                registry,
                "shared_limits_total",
                "Callers and budgets whose use was told to the other nodes (`told`), and what could not be told or asked because Redis was away.",
                &["result"],
            ),
            reload_ok: gauge(
                registry,
                "config_last_reload_successful",
                "Whether the last reload was accepted.",
            ),
            reload_at: float_gauge(
                registry,
                "config_last_reload_success_timestamp_seconds",
                "When a reload was last accepted.",
            ),
            revision: gauge(registry, "config_revision", "The revision in force."),
            certificate_ends: counters_gauge(
                registry,
                "cert_expiry_timestamp_seconds",
                "Until when the certificate of a listener counts.",
                &["listener"],
            ),
        }
    }
}
