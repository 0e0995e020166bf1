//! `/metrics`, `/api/v1/metrics`: everything that is counted, for Prometheus.

use http::HeaderMap;
use http::header;

use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::text;

const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `GET /metrics`: in OpenMetrics, with exemplars, for those who would rather have it; else in Prometheus' own format.
pub async fn metrics(call: Call) -> Answer {
    let metrics = &call.office.telemetry.metrics;
    match prefers_open(&call.headers) {
        true => text(OPEN, metrics.render_open()),
        false => text(CLASSIC, metrics.render()),
    }
}

/// Tells whether OpenMetrics is asked for by its name, and nothing else rather.
fn prefers_open(headers: &HeaderMap) -> bool {
    let asked = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let (mut open, mut classic) = (0.0_f64, 0.0_f64);
    for range in asked.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let parameter = |name: &str| {
            let found = parameters.iter().find(|(known, _)| known.trim().eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim().trim_matches('"'))
        };
        let weight: f64 = parameter("q").map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
        match media.as_str() {
            "application/openmetrics-text" if parameter("version").is_none_or(|it| it == "1.0.0") => {
                open = weight.max(open);
            }
            "text/plain" => classic = weight.max(classic),
            _ => {}
        }
    }
    open > 0.0 && open >= classic
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_those_who_ask_for_it() {
        let cases = [
            (None, false),
            (Some("*/*"), false),
            (Some("text/plain"), false),
            (Some("application/openmetrics-text"), true),
            (Some("Application/OpenMetrics-Text; Version=\"1.0.0\"; charset=utf-8"), true),
            // Prometheus 2.42 and 3.
            (
                Some(
                    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                     text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                ),
                true,
            ),
            (
                Some(
                    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                     application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                     text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                ),
                true,
            ),
            (Some("text/plain;version=0.0.4,application/openmetrics-text;q=0.5"), false),
            (Some("application/openmetrics-text;version=2.0.0"), false),
            (Some("application/openmetrics-text;q=0"), false),
            (Some("application/openmetrics-text;q=much"), false),
        ];
        for (accept, expected) in cases {
            let mut headers = HeaderMap::new();
            accept.map(|accept| headers.insert(header::ACCEPT, accept.parse().unwrap()));
            assert_eq!(prefers_open(&headers), expected, "{accept:?}");
        }
    }
}
