//! Traces and metrics, as a collector gets them over OTLP.

use std::time::Instant;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;

use crate::framing::POLICY;
use crate::framing::secret;
use crate::gateway::Gateway;
use crate::siem::receiver::Receiver;
use crate::siem::receiver::Reply;
use crate::siem::receiver::Request;
use crate::upstream::Upstream;
use crate::wire::PATIENCE;
use crate::wire::exchange;
use crate::wire::post;

pub const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
pub const CALLER: &str = "00f067aa0ba902b7";
const ANSWER: &str = "{\"object\":\"chat.completion\",\"model\":\"small-1-2026\",\
                      \"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4,\"total_tokens\":7}}";
const ASKED: &str = "{\"model\":\"small-1\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}";

/// Returns a gateway that tells a collector, with more keys of `[otlp]`.
pub fn gateway(upstream: &Upstream, collector: std::net::SocketAddr, more: &str) -> Gateway {
    let otlp = format!(
        "[telemetry]\nmodels = [\"small-1\"]\n[otlp]\nendpoint = \"http://{collector}\"\ninterval_ms = 100\n{more}"
    );
    Gateway::in_front_of(upstream.address, &format!("{POLICY}{otlp}"))
}

pub fn collector() -> Receiver {
    Receiver::start(|_, _| Reply::Answer(200, "content-type: application/x-protobuf\r\n", String::new()))
}

fn spans(requests: &[Request]) -> Vec<Span> {
    let traces = requests.iter().filter(|request| request.path == "/v1/traces");
    let decoded = traces.map(|request| ExportTraceServiceRequest::decode(&*request.body).expect("OTLP"));
    let resources = decoded.flat_map(|request| request.resource_spans);
    resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
}

fn of_kind(spans: &[Span], kind: SpanKind) -> &Span {
    spans.iter().find(|span| span.kind() == kind).expect("a span of that kind")
}

fn attribute(attributes: &[KeyValue], name: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == name);
    match found.and_then(|found| found.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn an_exchange_is_two_spans_of_its_callers_trace_and_the_provider_is_told_its_place() {
    let (upstream, collector) = (Upstream::answering("application/json", ANSWER), collector());
    let gateway = gateway(&upstream, collector.address, "");
    let parent = format!("traceparent: 00-{TRACE}-{CALLER}-01\r\n");
    assert_eq!(exchange(gateway.proxy, &post("/v1/chat/completions", &parent, ASKED)).status, 200);

    let spans = spans(&collector.wait_for(|requests| spans(requests).len() >= 2));
    let (server, client) = (of_kind(&spans, SpanKind::Server), of_kind(&spans, SpanKind::Client));
    assert_eq!((hex(&server.trace_id), hex(&server.parent_span_id)), (TRACE.to_owned(), CALLER.to_owned()));
    assert_eq!((hex(&client.trace_id), &client.parent_span_id), (TRACE.to_owned(), &server.span_id));
    let asked = String::from_utf8_lossy(&upstream.take()[0].bytes).to_lowercase();
    let told = format!("traceparent: 00-{TRACE}-{}-01\r\n", hex(&client.span_id));
    assert!(asked.contains(&told) && asked.matches("traceparent").count() == 1, "{asked}");

    assert_eq!((server.name.as_str(), client.name.as_str()), ("POST all", "chat small-1"));
    assert_eq!(attribute(&server.attributes, "http.response.status_code"), "200");
    assert_eq!(attribute(&server.attributes, "portcullis.action"), "allow");
    for (name, expected) in [
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.request.model", "small-1"),
        ("gen_ai.response.model", "small-1-2026"),
        ("gen_ai.usage.input_tokens", "3"),
        ("gen_ai.usage.output_tokens", "4"),
    ] {
        assert_eq!(attribute(&client.attributes, name), expected, "{name}");
    }
    let within = server.start_time_unix_nano..=server.end_time_unix_nano;
    assert!(within.contains(&client.start_time_unix_nano) && within.contains(&client.end_time_unix_nano));
}

#[test]
fn what_is_blocked_is_an_error_without_its_content_and_asks_no_provider() {
    let (upstream, collector) = (Upstream::answering("application/json", ANSWER), collector());
    let gateway = gateway(&upstream, collector.address, "");
    let asked = ASKED.replace("hello", &secret());
    assert_eq!(exchange(gateway.proxy, &post("/v1/chat/completions", "", &asked)).status, 403);
    let requests = collector.wait_for(|requests| !spans(requests).is_empty());
    let spans = spans(&requests);
    assert_eq!(spans.len(), 1);
    assert_eq!(attribute(&spans[0].attributes, "portcullis.action"), "block");
    assert_eq!(attribute(&spans[0].attributes, "portcullis.findings.request"), "1");
    assert_eq!(attribute(&spans[0].attributes, "error.type"), "content_blocked");
    let secret = secret();
    let holds = |request: &Request| request.body.windows(secret.len()).any(|part| part == secret.as_bytes());
    assert!(!requests.iter().any(holds));
}

#[test]
fn a_secret_in_the_place_of_a_model_is_told_to_no_collector() {
    let (upstream, collector) = (Upstream::answering("application/json", ANSWER), collector());
    let otlp = format!("[otlp]\nendpoint = \"http://{}\"\n", collector.address);
    let gateway =
        Gateway::in_front_of(upstream.address, &format!("{}{otlp}", POLICY.replace("block", "monitor")));
    let asked = ASKED.replace("small-1", &secret());
    assert_eq!(exchange(gateway.proxy, &post("/v1/chat/completions", "", &asked)).status, 200);
    let requests = collector.wait_for(|requests| spans(requests).len() >= 2);
    let spans = spans(&requests);
    assert_eq!(of_kind(&spans, SpanKind::Client).name, "chat");
    assert_eq!(attribute(&of_kind(&spans, SpanKind::Server).attributes, "portcullis.findings.request"), "1");
    let secret = secret();
    let holds = |request: &Request| request.body.windows(secret.len()).any(|part| part == secret.as_bytes());
    assert!(!requests.iter().any(holds));
}

#[test]
fn a_secret_in_the_place_of_a_model_in_a_path_is_told_to_no_collector() {
    let upstream = Upstream::answering("application/json", r#"{"candidates":[]}"#);
    let collector = collector();
    let gateway = gateway(&upstream, collector.address, "");
    let (secret, asked) = (secret(), r#"{"contents":[{"parts":[{"text":"four words of text"}]}]}"#);
    let path = format!("/v1beta/models/{secret}:generateContent");
    assert_eq!(exchange(gateway.proxy, &post(&path, "", asked)).status, 200);
    let requests = collector.wait_for(|requests| spans(requests).len() >= 2);
    let holds = |request: &Request| request.body.windows(secret.len()).any(|part| part == secret.as_bytes());
    assert!(!requests.iter().any(holds));
}

#[test]
fn a_trace_that_is_not_sampled_is_told_to_the_provider_and_not_to_the_collector() {
    let (upstream, collector) = (Upstream::answering("application/json", ANSWER), collector());
    let gateway = gateway(&upstream, collector.address, "sample_percent = 0\n");
    assert_eq!(exchange(gateway.proxy, &post("/v1/chat/completions", "", ASKED)).status, 200);
    let asked = String::from_utf8_lossy(&upstream.take()[0].bytes).to_lowercase();
    let told = asked.lines().find(|line| line.starts_with("traceparent: 00-")).expect("a place in a trace");
    assert!(told.ends_with("-00"), "{told}");
    // The metrics of the same exchange come, and a trace of the next one that is sampled.
    let sampled = format!("traceparent: 00-{TRACE}-{CALLER}-01\r\n");
    assert_eq!(exchange(gateway.proxy, &post("/v1/chat/completions", &sampled, ASKED)).status, 200);
    let requests = collector.wait_for(|requests| spans(requests).len() >= 2);
    assert!(spans(&requests).iter().all(|span| hex(&span.trace_id) == TRACE));
}

#[test]
fn metrics_of_models_come_in_the_names_of_the_conventions_with_the_secret_of_the_collector() {
    let (upstream, collector) = (Upstream::answering("application/json", ANSWER), collector());
    let more = "traces = false\nsecret_env = \"PATH\"\nsecret_header = \"x-collector-key\"\n";
    let gateway = gateway(&upstream, collector.address, more);
    let other = ASKED.replace("small-1", "unheard-of");
    for body in [ASKED, other.as_str()] {
        let parent = format!("traceparent: 00-{TRACE}-{CALLER}-01\r\n");
        assert_eq!(exchange(gateway.proxy, &post("/v1/chat/completions", &parent, body)).status, 200);
    }
    // Without traces, what a caller tells of them passes as it is.
    let asked = String::from_utf8_lossy(&upstream.take()[0].bytes).to_lowercase();
    assert!(asked.contains(&format!("traceparent: 00-{TRACE}-{CALLER}-01\r\n")), "{asked}");
    let holds =
        |request: &Request, text: &str| request.body.windows(text.len()).any(|part| part == text.as_bytes());
    let requests = collector.wait_for(|requests| requests.iter().any(|request| holds(request, "other")));
    assert!(requests.iter().all(|request| request.path == "/v1/metrics"));
    let last = requests.last().expect("a report");
    assert_eq!(last.header("x-collector-key"), std::env::var("PATH").expect("a path"));
    let told = ExportMetricsServiceRequest::decode(&*last.body).expect("OTLP");
    let scopes = told.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
    let mut names: Vec<&str> =
        scopes.flat_map(|scope| &scope.metrics).map(|metric| metric.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["gen_ai.client.operation.duration", "gen_ai.client.token.usage"]);
    assert!(holds(last, "small-1") && !holds(last, "unheard-of"));
}

#[test]
fn a_collector_that_is_away_fails_no_exchange_and_what_it_missed_is_counted() {
    let nobody = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = nobody.local_addr().expect("an address");
    drop(nobody);
    let upstream = Upstream::answering("application/json", ANSWER);
    let gateway = gateway(&upstream, address, "metrics = false\n");
    assert_eq!(exchange(gateway.proxy, &post("/v1/chat/completions", "", ASKED)).status, 200);
    let key = gateway.admin_key();
    let ask = format!("GET /metrics HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\n\r\n", gateway.admin);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let metrics = exchange(gateway.admin, ask.as_bytes()).text();
        if metrics.contains("portcullis_otlp_spans_lost_total{") {
            break;
        }
        assert!(Instant::now() < deadline, "{metrics}");
    }
}

#[test]
fn a_method_that_nobody_knows_is_told_by_one_name() {
    let (upstream, collector) = (Upstream::answering("application/json", ANSWER), collector());
    let gateway = gateway(&upstream, collector.address, "metrics = false\n");
    let method = "X".repeat(20_000);
    let request = format!("{method} /v1/chat/completions HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(exchange(gateway.proxy, request.as_bytes()).status, 405);
    let spans = spans(&collector.wait_for(|requests| !spans(requests).is_empty()));
    assert_eq!(attribute(&spans[0].attributes, "http.request.method"), "_OTHER");
    assert!(
        spans[0].name.starts_with("HTTP") && spans[0].encoded_len() < 1_000,
        "{}",
        spans[0].encoded_len()
    );
}

#[test]
fn a_place_in_a_trace_that_its_caller_signed_stays_as_it_is() {
    let (upstream, collector) = (Upstream::answering("application/json", ANSWER), collector());
    let gateway = gateway(&upstream, collector.address, "metrics = false\n");
    let parent = format!("traceparent: 00-{TRACE}-{CALLER}-01\r\n");
    let header = |list: &str| {
        format!("authorization: AWS4-HMAC-SHA256 Credential=x/y, SignedHeaders={list}, Signature=0\r\n")
    };
    let path = "/model/anthropic.claude/invoke";
    let presigned = |list: &str| format!("{path}?X-Amz-SignedHeaders={list}&X-Amz-Signature=0");
    let cases = [
        (path.to_owned(), header("host;traceparent"), true),
        (path.to_owned(), header("host;tracestate;x-amz-date"), true),
        (path.to_owned(), header("host;x-amz-date"), false),
        (presigned("host%3Btraceparent"), String::new(), true),
        (presigned("host"), String::new(), false),
    ];
    for (path, authorization, is_signed) in cases {
        let headers = format!("{parent}tracestate: a=1\r\n{authorization}");
        assert_eq!(exchange(gateway.proxy, &post(&path, &headers, ASKED)).status, 200, "{headers}");
        let asked = String::from_utf8_lossy(&upstream.take()[0].bytes).to_lowercase();
        assert_eq!(asked.contains(&parent), is_signed, "{asked}");
        assert!(asked.contains(TRACE) && asked.contains("tracestate: a=1\r\n"), "{asked}");
    }
}

/// A collector that takes a request and never answers must not hold up the end of the process.
#[test]
fn a_collector_that_hangs_does_not_hold_up_the_end() {
    let upstream = Upstream::answering("application/json", ANSWER);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut gateway = gateway(&upstream, silent.local_addr().expect("it is bound"), "");
    assert_eq!(exchange(gateway.proxy, &post("/v1/chat/completions", "", ASKED)).status, 200);
    // Of spans, and of metrics.
    let asked = [silent.accept().expect("a request"), silent.accept().expect("another")];
    gateway.signal("TERM");
    assert_eq!(gateway.wait_for_end(), Some(0));
    assert!(!gateway.log().contains("background work did not end in time"), "{}", gateway.log());
    drop(asked);
}
