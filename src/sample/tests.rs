use std::net::SocketAddr;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use super::*;
use crate::sample::answer::pieces;

async fn ask(path: &str, body: Value) -> (StatusCode, String) {
    let request = Request::post(path).body(Body::from(body.to_string())).expect("a valid request");
    let response = router().oneshot(request).await.expect("the router never fails");
    let status = response.status();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (status, String::from_utf8(bytes.to_vec()).expect("UTF-8"))
}

/// Returns every string found at `pointer` in the events of a stream, in order.
fn deltas(stream: &str, pointer: &str) -> Vec<String> {
    let events = stream.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
    let values = events.filter_map(|event| serde_json::from_str::<Value>(event).ok());
    values.filter_map(|value| value.pointer(pointer)?.as_str().map(str::to_owned)).collect()
}

const SAID: &str = "say: one {card} two ÄÖÜ";
const HEARD: &str = "one 4111 1111 1111 1111 two ÄÖÜ";

/// One row a dialect: path, request, where the words of a whole answer are, where those of a stream.
fn dialects() -> Vec<(&'static str, &'static str, Value, &'static str, &'static str)> {
    let messages = json!([{"role": "system", "content": "be brief"}, {"role": "user", "content": SAID}]);
    let parts = json!([{"role": "user", "content": [{"type": "text", "text": SAID}]}]);
    let contents = json!([{"parts": [{"text": SAID}]}]);
    vec![
        (
            "/v1/chat/completions",
            "",
            json!({"model": "m", "messages": messages}),
            "/choices/0/message/content",
            "/choices/0/delta/content",
        ),
        ("/v1/completions", "", json!({"model": "m", "prompt": SAID}), "/choices/0/text", "/choices/0/text"),
        ("/v1/responses", "", json!({"model": "m", "input": SAID}), "/output/0/content/0/text", "/delta"),
        ("/v1/messages", "", json!({"model": "m", "messages": parts}), "/content/0/text", "/delta/text"),
        (
            "/v1beta/models/m:generateContent",
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            json!({"contents": contents}),
            "/candidates/0/content/parts/0/text",
            "/candidates/0/content/parts/0/text",
        ),
        (
            "/api/chat",
            "",
            json!({"model": "m", "messages": messages}),
            "/message/content",
            "/message/content",
        ),
        ("/api/generate", "", json!({"model": "m", "prompt": SAID}), "/response", "/response"),
    ]
}

#[tokio::test]
async fn every_dialect_says_what_it_is_told_whole_and_streamed() {
    for (path, stream_path, mut request, whole, streamed) in dialects() {
        request["stream"] = json!(false);
        let (status, body) = ask(path, request.clone()).await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        let value: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(value.pointer(whole).and_then(Value::as_str), Some(HEARD), "{path}");
        request["stream"] = json!(true);
        let (_, stream) = ask(if stream_path.is_empty() { path } else { stream_path }, request).await;
        let said = deltas(&stream, streamed);
        assert_eq!(said.concat(), HEARD, "{path}");
        assert!(said.iter().all(|delta| delta.chars().count() <= 4), "{path}: {said:?}");
    }
}

#[tokio::test]
async fn a_named_tool_is_called_with_arguments_of_its_schema() {
    let schema =
        json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}});
    let function = json!([{"type": "function", "function": {"name": "get_weather", "parameters": schema}}]);
    let messages = json!([{"role": "user", "content": "use get_weather, say: Oslo"}]);
    let request = json!({"model": "m", "messages": messages, "tools": function});
    let (_, body) = ask("/v1/chat/completions", request.clone()).await;
    let value: Value = serde_json::from_str(&body).expect("JSON");
    let call = &value["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(
        (&call["name"], &call["arguments"]),
        (&json!("get_weather"), &json!(r#"{"city":"Oslo","days":7}"#))
    );
    let mut streamed = request;
    streamed["stream"] = json!(true);
    let (_, stream) = ask("/v1/chat/completions", streamed).await;
    let pointer = "/choices/0/delta/tool_calls/0/function/arguments";
    assert_eq!(deltas(&stream, pointer).concat(), r#"{"city":"Oslo","days":7}"#);
}

#[tokio::test]
async fn a_gemini_stream_without_alt_is_one_json_array() {
    let request = json!({"contents": [{"parts": [{"text": "say: hello"}]}]});
    let (_, body) = ask("/v1beta/models/m:streamGenerateContent", request).await;
    let chunks: Vec<Value> = serde_json::from_str(&body).expect("a JSON array");
    assert_eq!(chunks.len(), 4);
    assert_eq!(chunks[3]["usageMetadata"]["totalTokenCount"], json!(5));
}

#[tokio::test]
async fn faults_have_the_shape_of_their_dialect() {
    let cases = [
        ("/v1/chat/completions", json!({}), 400, "/error/message"),
        ("/v1/messages", json!({"messages": [{"role": "user", "content": "fail: 529"}]}), 529, "/error/type"),
        ("/api/generate", json!({"prompt": "fail: 503"}), 503, "/error"),
        ("/v1beta/models/m:generateContent", json!({"contents": 1}), 400, "/error/status"),
        ("/v1/nothing", json!({}), 404, "/error/code"),
    ];
    for (path, request, status, pointer) in cases {
        let (got, body) = ask(path, request).await;
        assert_eq!(got.as_u16(), status, "{path}");
        let value: Value = serde_json::from_str(&body).expect("JSON");
        assert!(value.pointer(pointer).is_some_and(Value::is_string), "{path}: {body}");
    }
}

#[tokio::test]
async fn it_serves_on_a_socket_until_told_to_stop() {
    use tokio::io::AsyncReadExt;
    use tokio::io::AsyncWriteExt;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address: SocketAddr = listener.local_addr().expect("an address");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(serve(listener, async {
        let _ = stopped.await;
    }));
    let mut client = TcpStream::connect(address).await.expect("a connection");
    client
        .write_all(b"GET /v1/models HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        .await
        .expect("written");
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.expect("read");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\"sample-slow\""), "{answer}");
    stop.send(()).expect("the server waits for it");
    server.await.expect("the server ends");
}

proptest::proptest! {
    #[test]
    fn pieces_are_short_and_make_up_the_text(text in ".{0,80}") {
        let cut: Vec<String> = pieces(text.clone()).collect();
        proptest::prop_assert_eq!(cut.concat(), text);
        proptest::prop_assert!(cut.iter().all(|piece| (1..=4).contains(&piece.chars().count())));
    }
}
