//! Metrics as they are named and registered, all with the one prefix.

use prometheus::Gauge;
use prometheus::Histogram;
use prometheus::HistogramOpts;
use prometheus::HistogramVec;
use prometheus::IntCounter;
use prometheus::IntCounterVec;
use prometheus::IntGauge;
use prometheus::IntGaugeVec;
use prometheus::Opts;
use prometheus::PullingGauge;
use prometheus::Registry;
use prometheus::core::Collector;

use super::exemplar::Latency;

const PREFIX: &str = "portcullis";

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace(PREFIX)
}

fn register<C: Collector + Clone + 'static>(registry: &Registry, metric: prometheus::Result<C>) -> C {
    let metric = metric.expect("the names and labels above are valid");
    registry.register(Box::new(metric.clone())).expect("each name above is there once");
    metric
}

pub(super) fn counter(registry: &Registry, name: &str, help: &str) -> IntCounter {
    register(registry, IntCounter::with_opts(opts(name, help)))
}

pub(super) fn counters(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    register(registry, IntCounterVec::new(opts(name, help), labels))
}

pub(super) fn counters_gauge(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
    register(registry, IntGaugeVec::new(opts(name, help), labels))
}

pub(super) fn gauge(registry: &Registry, name: &str, help: &str) -> IntGauge {
    register(registry, IntGauge::with_opts(opts(name, help)))
}

pub(super) fn float_gauge(registry: &Registry, name: &str, help: &str) -> Gauge {
    register(registry, Gauge::with_opts(opts(name, help)))
}

/// Registers a gauge that asks for its value whenever metrics are read.
pub(super) fn pulled(
    registry: &Registry,
    name: &str,
    help: &str,
    value: impl Fn() -> f64 + Send + Sync + 'static,
) {
    register(registry, PullingGauge::new(format!("{PREFIX}_{name}"), help, Box::new(value)));
}

pub(super) fn histogram(registry: &Registry, name: &str, help: &str, buckets: &[f64]) -> Histogram {
    let opts = HistogramOpts::from(opts(name, help)).buckets(buckets.to_vec());
    register(registry, Histogram::with_opts(opts))
}

pub(super) fn histograms(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
    buckets: &[f64],
) -> HistogramVec {
    let opts = HistogramOpts::from(opts(name, help)).buckets(buckets.to_vec());
    register(registry, HistogramVec::new(opts, labels))
}

/// The labels are in the order of their names.
pub(super) fn latencies(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
    buckets: &'static [f64],
) -> Latency {
    Latency::new(histograms(registry, name, help, labels, buckets), buckets)
}
