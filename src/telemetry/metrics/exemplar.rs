//! Exemplars: for each bucket of a histogram of latencies, the last traced exchange that fell into it.
//!
//! The crate that keeps the histograms knows none; they stand beside, and only OpenMetrics shows them. They are bounded
//! as the histograms are: one for each bucket of each label set, and past [`SERIES_MAX`] label sets none is added.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::HistogramVec;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;

/// Label sets are as many as routes; names that reloads left behind are not worth more than this.
const SERIES_MAX: usize = 1000;

/// An exchange whose trace is sent: what shows what others were like that took as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Example {
    /// The id of its trace.
    pub trace_id: u128,
    /// When it ended, in milliseconds of Unix time.
    pub unix_ms: i64,
}

/// An example in its bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Exemplar {
    pub(super) example: Example,
    /// How long it took.
    pub(super) seconds: f64,
}

/// A histogram of latencies that keeps exemplars.
pub(super) struct Latency {
    seconds: HistogramVec,
    bounds: &'static [f64],
    /// By the values of the labels: one for each bucket, the last without a bound.
    exemplars: Mutex<HashMap<Vec<String>, Vec<Option<Exemplar>>>>,
}

impl Latency {
    /// Returns a histogram without exemplars yet, whose labels are in the order of their names.
    pub(super) fn new(seconds: HistogramVec, bounds: &'static [f64]) -> Self {
        Self { seconds, bounds, exemplars: Mutex::default() }
    }

    /// Counts what an exchange took, which is an example where it is traced.
    pub(super) fn observe(&self, labels: &[&str], took: Duration, example: Option<Example>) {
        let seconds = took.as_secs_f64();
        self.seconds.with_label_values(labels).observe(seconds);
        let Some(example) = example else { return };
        let labels: Vec<String> = labels.iter().map(|value| (*value).to_owned()).collect();
        let at = self.bounds.partition_point(|bound| *bound < seconds);
        let mut exemplars = self.exemplars.lock();
        if exemplars.len() >= SERIES_MAX && !exemplars.contains_key(&labels) {
            return;
        }
        let buckets = exemplars.entry(labels).or_insert_with(|| vec![None; self.bounds.len() + 1]);
        if let Some(place) = buckets.get_mut(at) {
            *place = Some(Exemplar { example, seconds });
        }
    }

    /// Returns the exemplars of a label set, one for each bucket; empty where it has none.
    pub(super) fn exemplars(&self, labels: &[String]) -> Vec<Option<Exemplar>> {
        self.exemplars.lock().get(labels).cloned().unwrap_or_default()
    }

    /// Tells whether it is the histogram of that name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.seconds.desc().iter().any(|desc| desc.fq_name == name)
    }

    /// Returns what was counted.
    pub(super) fn collect(&self) -> Vec<MetricFamily> {
        self.seconds.collect()
    }
}
