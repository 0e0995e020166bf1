//! The figures of a page of metrics (Prometheus' text format), and what changed between two.

use std::collections::BTreeMap;

/// What all of our metrics begin with.
const PREFIX: &str = "portcullis_";
/// The plane that is looked at: what asks for its figures is not among them.
const PLANE: (&str, &str) = ("listener", "proxy");

/// Name, labels and value of every sample of ours on a page, but those of the management plane.
#[derive(Debug, Default)]
pub(super) struct Figures {
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// A histogram: how many were at most so many seconds, by bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spread {
    buckets: Vec<(f64, f64)>,
}

impl Figures {
    /// Reads a page; `None` where none of our metrics is on it.
    pub(super) fn read(page: &str) -> Option<Self> {
        let samples: Vec<Sample> = page.lines().filter_map(sample).collect();
        let is_looked_at =
            |sample: &Sample| sample.labels.get(PLANE.0).is_none_or(|listener| listener == PLANE.1);
        (!samples.is_empty()).then(|| Self { samples: samples.into_iter().filter(is_looked_at).collect() })
    }

    /// Returns the sum of a metric, by the value of a label.
    pub(super) fn by(&self, name: &str, label: &str) -> BTreeMap<&str, f64> {
        let mut sums = BTreeMap::new();
        for sample in self.named(name) {
            let Some(value) = sample.labels.get(label) else { continue };
            *sums.entry(value.as_str()).or_default() += sample.value;
        }
        sums
    }

    /// Returns the sum of the samples of a metric that have a label at a value.
    pub(super) fn sum_where(&self, name: &str, label: &str, is: impl Fn(&str) -> bool) -> f64 {
        let fits = |sample: &&Sample| sample.labels.get(label).is_some_and(|value| is(value));
        total(self.named(name).filter(fits))
    }

    /// Returns the sum of a metric.
    pub(super) fn sum(&self, name: &str) -> f64 {
        total(self.named(name))
    }

    /// Returns the histogram of a metric over the samples that have a label at a value.
    pub(super) fn spread(&self, name: &str, label: &str, value: &str) -> Spread {
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        for sample in self.named(&format!("{name}_bucket")) {
            if sample.labels.get(label).is_none_or(|found| found != value) {
                continue;
            }
            let bound = sample.labels.get("le").and_then(|bound| bound.parse().ok());
            let Some(bound) = bound else { continue };
            match buckets.iter_mut().find(|(known, _)| *known == bound) {
                Some((_, count)) => *count += sample.value,
                None => buckets.push((bound, sample.value)),
            }
        }
        buckets.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        Spread { buckets }
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| sample.name == name)
    }
}

impl Spread {
    /// Returns what was added since `before`; a process that began anew counts from zero.
    pub(super) fn since(&self, before: &Self) -> Self {
        let earlier =
            |bound: f64| before.buckets.iter().find(|(known, _)| *known == bound).map_or(0.0, |it| it.1);
        let is_anew = self.buckets.iter().any(|(bound, count)| *count < earlier(*bound));
        if is_anew {
            return self.clone();
        }
        Self {
            buckets: self.buckets.iter().map(|(bound, count)| (*bound, count - earlier(*bound))).collect(),
        }
    }

    /// Returns how many there are.
    pub(super) fn count(&self) -> f64 {
        self.buckets.last().map_or(0.0, |(_, count)| *count)
    }

    /// Returns the seconds that a share of all stayed within, between the bounds as if evenly spread.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = self.count() * share;
        let (mut below, mut low) = (0.0, 0.0);
        for (bound, count) in &self.buckets {
            if *count >= wanted && *count > 0.0 {
                let within = (wanted - below) / (count - below).max(f64::MIN_POSITIVE);
                // Past the last bound nothing more is known.
                return Some(if bound.is_finite() { low + (bound - low) * within } else { low });
            }
            (below, low) = (*count, *bound);
        }
        None
    }
}

/// Returns the sum of samples; 0 of none, of which the sum of floats is -0.
fn total<'a>(samples: impl Iterator<Item = &'a Sample>) -> f64 {
    samples.fold(0.0, |sum, sample| sum + sample.value)
}

/// Reads a line like `name{label="value"} 1.5`.
fn sample(line: &str) -> Option<Sample> {
    let line = line.strip_prefix(PREFIX)?;
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, value) = rest.split_once("=\"")?;
            let end = closing(value)?;
            labels.insert(label.to_owned(), unescaped(value.get(..end)?));
            rest = value.get(end + 1..)?.trim_start_matches(',');
        }
        rest = rest.get(1..)?;
    }
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// Returns where the quotation mark is that ends a value.
fn closing(value: &str) -> Option<usize> {
    let mut is_escaped = false;
    value.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

fn unescaped(value: &str) -> String {
    value.replace("\\\"", "\"").replace("\\n", " ").replace("\\\\", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP portcullis_requests_total x\n\
        portcullis_requests_total{listener=\"proxy\",route=\"a \\\"b\\\", c\",code=\"200\"} 3\n\
        portcullis_requests_total{listener=\"proxy\",route=\"d\",code=\"403\"} 2\n\
        portcullis_requests_total{listener=\"admin\",route=\"d\",code=\"404\"} 7\n\
        other_total 9\n\
        portcullis_inflight_requests 1\n\
        portcullis_request_duration_seconds_bucket{listener=\"proxy\",route=\"d\",le=\"0.1\"} 50\n\
        portcullis_request_duration_seconds_bucket{listener=\"proxy\",route=\"d\",le=\"0.2\"} 90\n\
        portcullis_request_duration_seconds_bucket{listener=\"proxy\",route=\"d\",le=\"+Inf\"} 100\n";

    #[test]
    fn a_page_is_summed_by_label() {
        let figures = Figures::read(PAGE).expect("metrics");
        let by_route = figures.by("requests_total", "route");
        assert_eq!(by_route, BTreeMap::from([("a \"b\", c", 3.0), ("d", 2.0)]));
        assert_eq!(figures.sum("inflight_requests"), 1.0);
        assert_eq!(figures.sum_where("requests_total", "code", |code| code.starts_with('4')), 2.0);
        let none = figures.sum_where("requests_total", "code", |code| code.starts_with('5'));
        assert!(none == 0.0 && none.is_sign_positive(), "shown as 0, not as -0");
        assert!(Figures::read("<html>").is_none() && Figures::read("portcullis_x{a=\"").is_none());
    }

    #[test]
    fn quantiles_lie_between_the_bounds_and_only_what_is_new_counts() {
        let spread = Figures::read(PAGE).expect("metrics").spread("request_duration_seconds", "route", "d");
        assert_eq!(spread.count(), 100.0);
        assert_eq!(spread.quantile(0.25), Some(0.05));
        let near = |share, expected: f64| {
            spread.quantile(share).is_some_and(|found| (found - expected).abs() < 1e-9)
        };
        assert!(near(0.7, 0.15));
        // Of what lies past the last bound only that is known.
        assert_eq!(spread.quantile(0.99), Some(0.2));
        let none = spread.since(&spread);
        assert_eq!((none.count(), none.quantile(0.5)), (0.0, None));
        assert_eq!(Spread::default().since(&spread), Spread::default());
    }
}
