//! Metrics as OpenMetrics 1.0 has them, which unlike Prometheus' own text format has exemplars.
//!
//! Source: OpenMetrics 1.0.0, <https://prometheus.io/docs/specs/om/open_metrics_spec/>. Names of samples and bounds of
//! buckets are written as in the other format, so that a series is the same one whichever a scraper asks for.

use std::fmt::Write;

use prometheus::proto::Metric;
use prometheus::proto::MetricFamily;
use prometheus::proto::MetricType;

use super::exemplar::Exemplar;

/// What the name of a counter's samples ends in, and that of its family does not.
const COUNTED: &str = "_total";

/// Writes families of metrics; `exemplars` gives those of a metric's buckets.
pub(super) fn write(
    families: &[MetricFamily],
    exemplars: impl Fn(&MetricFamily, &Metric) -> Vec<Option<Exemplar>>,
) -> String {
    let mut out = String::new();
    for family in families {
        let is_counter = family.get_field_type() == MetricType::COUNTER;
        let name = family.name().strip_suffix(COUNTED).filter(|_| is_counter).unwrap_or(family.name());
        line(&mut out, format_args!("# HELP {name} {}", escaped(family.help())));
        line(&mut out, format_args!("# TYPE {name} {}", kind(family.get_field_type())));
        for metric in family.get_metric() {
            match family.get_field_type() {
                MetricType::HISTOGRAM => {
                    histogram(&mut out, family.name(), metric, &exemplars(family, metric));
                }
                MetricType::COUNTER => {
                    sample(&mut out, family.name(), metric, metric.get_counter().get_value())
                }
                MetricType::GAUGE => sample(&mut out, family.name(), metric, metric.get_gauge().get_value()),
                // There is none of these.
                MetricType::SUMMARY | MetricType::UNTYPED => {}
            }
        }
    }
    out.push_str("# EOF\n");
    out
}

fn kind(of: MetricType) -> &'static str {
    match of {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        MetricType::SUMMARY => "summary",
        MetricType::UNTYPED => "unknown",
    }
}

fn sample(out: &mut String, name: &str, metric: &Metric, value: f64) {
    line(out, format_args!("{name}{} {}", labels(metric, None), number(value)));
}

fn histogram(out: &mut String, name: &str, metric: &Metric, exemplars: &[Option<Exemplar>]) {
    let histogram = metric.get_histogram();
    let finite = histogram.get_bucket().iter().filter(|bucket| bucket.upper_bound().is_finite());
    let finite = finite.map(|bucket| (bucket.upper_bound(), bucket.cumulative_count()));
    let all = std::iter::once((f64::INFINITY, histogram.get_sample_count()));
    for (at, (bound, count)) in finite.chain(all).enumerate() {
        let told = exemplars.get(at).copied().flatten().map(exemplar).unwrap_or_default();
        let labels = labels(metric, Some(bound));
        line(out, format_args!("{name}_bucket{labels} {count}{told}"));
    }
    let labels = labels(metric, None);
    line(out, format_args!("{name}_sum{labels} {}", number(histogram.get_sample_sum())));
    line(out, format_args!("{name}_count{labels} {}", histogram.get_sample_count()));
}

fn exemplar(Exemplar { example, seconds }: Exemplar) -> String {
    let (whole, part) = (example.unix_ms.div_euclid(1000), example.unix_ms.rem_euclid(1000));
    format!(" # {{trace_id=\"{:032x}\"}} {} {whole}.{part:03}", example.trace_id, number(seconds))
}

/// Returns the labels of a metric in their braces, with the bound of a bucket, if it is of one.
fn labels(metric: &Metric, bound: Option<f64>) -> String {
    let own = metric.get_label().iter().map(|it| format!("{}=\"{}\"", it.name(), escaped(it.value())));
    let all: Vec<String> = own.chain(bound.map(|bound| format!("le=\"{}\"", number(bound)))).collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn number(value: f64) -> String {
    match value {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => value.to_string(),
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a text does not fail.
    let _ = out.write_fmt(text);
    out.push('\n');
}
