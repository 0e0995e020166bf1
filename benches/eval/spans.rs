//! What is found of what is there, and what is found beside it.

use std::ops::Range;

use portcullis::scan::threat::Category;
use portcullis::scan::threat::Confidence;
use portcullis::scan::threat::Finding;
use serde_json::Value;
use serde_json::json;

use crate::layers::Layers;
use crate::measure::Share;

/// What is found of one kind.
#[derive(Default)]
pub struct Counts {
    /// Of what is there.
    pub recall: Share,
    /// Of what is found.
    pub precision: Share,
}

impl Counts {
    /// Returns the weighted mean of precision and recall; recall counts `beta` times.
    pub fn f(&self, beta: f64) -> f64 {
        let (p, r) = (self.precision.percent() / 100.0, self.recall.percent() / 100.0);
        let square = beta * beta;
        if p + r == 0.0 { 0.0 } else { (1.0 + square) * p * r / (square * p + r) }
    }

    /// Returns the 95 % interval of that mean: those of precision and recall put together, as Zou and Donner do for sums
    /// ("Construction of confidence intervals about functions of parameters", Statistics in Medicine 27, 2008), for its
    /// inverse is a sum of theirs.
    pub fn f_interval(&self, beta: f64) -> (f64, f64) {
        let square = beta * beta;
        let part = |share: Share, weight: f64| {
            let (low, high) = share.interval();
            [high, share.percent(), low].map(|percent| weight / (1.0 + square) * 100.0 / percent)
        };
        let [r_low, r, r_high] = part(self.recall, square);
        let [p_low, p, p_high] = part(self.precision, 1.0);
        if !(r + p).is_finite() {
            return (0.0, 1.0 / (r_low + p_low));
        }
        let low = r + p - (r - r_low).hypot(p - p_low);
        let high = r + p + (r_high - r).hypot(p_high - p);
        (1.0 / high, 1.0 / low)
    }

    /// Returns that mean as a cell of a table; nothing where nothing is there, or nothing is found.
    pub fn f_cell(&self, beta: f64) -> String {
        if self.recall.all == 0 || self.precision.all == 0 {
            return "–".to_owned();
        }
        let (low, high) = self.f_interval(beta);
        format!("{:.3} ({low:.3}–{high:.3})", self.f(beta))
    }

    /// Returns cells of a table: how many there are, how many of them are found, how many findings there are, how many of
    /// these are right, and the mean of both, in which recall counts `beta` times.
    pub fn cells(&self, beta: f64) -> Vec<String> {
        let cell = |share: Share| if share.all == 0 { "–".to_owned() } else { share.cell() };
        let (recall, precision) = (self.recall, self.precision);
        let mean = self.f_cell(beta);
        vec![recall.all.to_string(), cell(recall), precision.all.to_string(), cell(precision), mean]
    }

    /// Returns it for machines.
    pub fn value(&self) -> Value {
        let mean = |beta| {
            let (low, high) = self.f_interval(beta);
            json!({ "value": self.f(beta), "low": low, "high": high })
        };
        json!({ "recall": self.recall.value(), "precision": self.precision.value(), "f1": mean(1.0), "f2": mean(2.0) })
    }
}

/// Returns what patterns find about something in a text of a request, of medium confidence or more.
pub fn found(layers: &Layers, text: &str, category: Category) -> Vec<Finding> {
    let mut findings = layers.spelt(text).findings;
    findings
        .retain(|it| it.confidence >= Confidence::MEDIUM && layers.category(it.detector) == Some(category));
    findings
}

/// Tells whether two spans share half of the shorter one.
pub fn overlaps(one: &Range<usize>, other: &Range<usize>) -> bool {
    let shared = one.end.min(other.end).saturating_sub(one.start.max(other.start));
    2 * shared >= one.len().min(other.len()).max(1)
}
