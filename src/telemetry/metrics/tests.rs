//! What is counted is shown under its name.

use super::*;

#[test]
fn what_is_counted_is_shown() {
    let metrics = Metrics::new("1.2.3", "abc");
    let took = Duration::from_millis(2);
    metrics.finished(Finished {
        listener: "proxy",
        provider: "openai",
        route: "openai",
        code: 403,
        took,
        example: None,
    });
    metrics.finished(Finished {
        listener: "proxy",
        provider: "openai",
        route: "openai",
        code: 502,
        took,
        example: None,
    });
    metrics.detected("secrets", "critical", "block");
    let text = metrics.render();
    for line in [
        "portcullis_requests_total{code=\"403\",listener=\"proxy\",provider=\"openai\",route=\"openai\"} 1",
        "portcullis_detections_total{action=\"block\",category=\"secrets\",severity=\"critical\"} 1",
        "portcullis_build_info{commit=\"abc\",version=\"1.2.3\"} 1",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert_eq!(metrics.availability(), Some(0.5));
    metrics.provider_failed("answered");
    assert_eq!(metrics.availability(), Some(1.0));
    // Two requests in the bucket from 1 to 2.5 ms.
    let within = metrics.latency_quantile("proxy", 0.99).unwrap();
    assert!((within - 2.485e-3).abs() < 1e-9, "{within}");
    assert_eq!(metrics.latency_quantile("admin", 0.99), None);
    // Neither a probe of a gateway that is not ready nor an identity provider that fails is an error of the gateway.
    for (route, code) in [("/ready", 503), ("/health", 503), ("/api/v1/health", 503), ("/auth/callback", 502)]
    {
        metrics.finished(Finished { listener: "admin", provider: "none", route, code, took, example: None });
    }
    assert_eq!(metrics.availability(), Some(1.0));
    metrics.finished(Finished {
        listener: "admin",
        provider: "none",
        route: "/api/v1/audit",
        code: 503,
        took,
        example: None,
    });
    assert_eq!(metrics.availability(), Some(0.75));
    assert_eq!(metrics.audit_completeness(), None);
}

#[test]
fn openmetrics_has_the_last_traced_exchange_of_each_bucket() {
    let metrics = Metrics::new("1.2.3", "abc");
    let told = |micros: u64, trace_id: Option<u128>| {
        let example = trace_id.map(|trace_id| Example { trace_id, unix_ms: 1_700_000_000_007 });
        let took = Duration::from_micros(micros);
        metrics.finished(Finished {
            listener: "proxy",
            provider: "openai",
            route: "a\"b",
            code: 200,
            took,
            example,
        });
    };
    told(300, Some(1));
    told(400, Some(2));
    told(450, None);
    told(90_000_000, Some(3));
    // A bound is of its bucket.
    told(1000, Some(4));
    let (open, classic) = (metrics.render_open(), metrics.render());
    let bucket = |le: &str, rest: &str| {
        let line = format!(
            "portcullis_request_duration_seconds_bucket{{listener=\"proxy\",route=\"a\\\"b\",le=\"{le}\"}} {rest}\n"
        );
        assert!(open.contains(&line), "{line}\n{open}");
    };
    bucket("0.00025", "0");
    bucket("0.0005", &format!("3 # {{trace_id=\"{:032x}\"}} 0.0004 1700000000.007", 2));
    bucket("0.001", &format!("4 # {{trace_id=\"{:032x}\"}} 0.001 1700000000.007", 4));
    bucket("60", "4");
    bucket("+Inf", &format!("5 # {{trace_id=\"{:032x}\"}} 90 1700000000.007", 3));
    assert!(open.contains("# TYPE portcullis_requests counter\n") && open.ends_with("\n# EOF\n"), "{open}");
    assert!(!classic.contains("trace_id") && !classic.contains("EOF"), "{classic}");
    // The samples are those of the other format, name by name and label by label.
    let plain = |text: &str| -> Vec<String> {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples.map(|line| line.split(" # ").next().unwrap_or(line).to_owned()).collect()
    };
    assert_eq!(plain(&open), plain(&classic));
    let counters = classic.lines().filter_map(|line| line.strip_suffix(" counter")?.split(' ').nth(2));
    counters.for_each(|name| assert!(name.ends_with("_total"), "{name}"));
}

#[test]
fn exemplars_have_an_end() {
    let metrics = Metrics::new("1.2.3", "abc");
    for number in 0..1100_u64 {
        let (route, example) = (number.to_string(), Some(Example { trace_id: 5, unix_ms: 0 }));
        metrics.upstream(&route, Some(Duration::from_millis(1)), example);
    }
    assert_eq!(metrics.render_open().matches("trace_id").count(), 1000);
}
