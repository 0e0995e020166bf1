//! Events between peers are whole messages, and are read as whole bodies are.

use portcullis::llm::stream::StreamFormat;
use portcullis::policy::decision::Action;
use portcullis::policy::stream::StreamInspector;
use serde_json::Value;
use serde_json::json;

use super::Bench;
use super::Case;
use super::End;
use super::Streamed;
use super::github_token;
use super::policy_of_all;
use super::valid;

const MASK: &str = "[REDACTED:github_token]";

/// A message of an agent in each shape in which one comes, and where its text is.
fn messages(text: &str, at: usize) -> [(Value, &'static str); 6] {
    let of = |result: Value| json!({ "jsonrpc": "2.0", "id": 1, "result": result });
    let old = |id: &str| json!({ "kind": "message", "role": "agent", "messageId": id, "parts": [{ "kind": "text", "text": text }] });
    let new = json!({ "role": "ROLE_AGENT", "messageId": "m", "parts": [{ "text": text }] });
    let id = format!("m{at}");
    let status = |message: Value| json!({ "state": "working", "message": message });
    [
        (
            of(
                json!({ "kind": "status-update", "taskId": "t", "contextId": "c", "final": false, "status": status(old(&id)) }),
            ),
            "/result/status/message/parts/0/text",
        ),
        (
            of(
                json!({ "kind": "status-update", "taskId": "t", "contextId": "c", "status": status(old("m")) }),
            ),
            "/result/status/message/parts/0/text",
        ),
        (
            of(json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": status(new.clone()) } })),
            "/result/statusUpdate/status/message/parts/0/text",
        ),
        (of(old(&id)), "/result/parts/0/text"),
        (of(json!({ "message": new.clone() })), "/result/message/parts/0/text"),
        (
            of(json!({ "task": { "id": "t", "status": status(new) } })),
            "/result/task/status/message/parts/0/text",
        ),
    ]
}

/// Judges a stream of one shape of messages with these texts; returns what came of it, and what was said.
fn told(bench: &Bench, shape: usize, texts: &[&str]) -> (Streamed, String) {
    let events = texts.iter().enumerate().map(|(at, text)| messages(text, at)[shape].0.clone());
    let stream: String = events.map(|message| format!("event: message\ndata: {message}\n\n")).collect();
    let place = messages("", 0)[shape].1;
    let case = Case::response("all", "a2a");
    let streamed = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
    let left = String::from_utf8(streamed.out.clone()).expect("UTF-8");
    let payloads = left.lines().filter_map(|line| line.strip_prefix("data: "));
    let said = |payload: &str| {
        let payload: Value = serde_json::from_str(payload).expect("JSON");
        payload.pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let said = payloads.map(said).collect();
    (streamed, said)
}

/// A secret that was cut over the messages of a status came out: each was read alone.
#[test]
fn a_secret_that_is_spread_over_messages_does_not_leave_wherever_it_is_cut() {
    let bench = Bench::new("[policies.all.categories.secrets]\nmode = \"block\"\n");
    let before = "the key is ";
    let text = format!("{before}{} and more", github_token(&bench));
    for shape in 0..messages("", 0).len() {
        for cut in 1..text.len() {
            let (first, second) = text.split_at(cut);
            let (streamed, said) = told(&bench, shape, &[first, second]);
            assert_eq!(streamed.end, End::Blocked, "{shape} {cut}");
            assert!(before.starts_with(&said), "{shape} {cut}: {said}");
        }
    }
}

#[test]
fn messages_are_masked_together_and_alone_and_a_finding_is_told_once() {
    let bench = Bench::new("[policies.all.categories.secrets]\nmode = \"redact\"\n");
    let token = github_token(&bench);
    let (head, tail) = token.split_at(15);
    let cases: [&[&str]; 3] = [
        &["the key is ", head, tail, " and more"],
        &["the key is ", &token, " and more"],
        // Put together, no word begins with the key.
        &["the key is", &token, " and more"],
    ];
    for shape in 0..messages("", 0).len() {
        for texts in cases {
            let (streamed, said) = told(&bench, shape, texts);
            assert_eq!((streamed.end, streamed.action), (End::Finished, Action::Redact), "{shape} {texts:?}");
            // A piece of the token may be masked by itself too, never left.
            assert!(said.starts_with("the key is") && said.ends_with(" and more"), "{shape}: {said}");
            assert!(said.contains(MASK) && !said.contains(tail), "{shape}: {said}");
            let seen = streamed.seen.iter().filter(|seen| seen.0 == "github_token").count();
            assert_eq!(seen, 1, "{shape} {texts:?}");
        }
        let plain = ["Looking it up", "Found it", "Writing the answer"];
        let (streamed, said) = told(&bench, shape, &plain);
        assert_eq!((streamed.end, said), (End::Finished, plain.concat()), "{shape}");
    }
}

#[test]
fn a_message_does_not_hold_back_the_artifact_that_follows() {
    let bench = Bench::new("");
    let artifact = json!({ "jsonrpc": "2.0", "id": 1, "result": { "kind": "artifact-update", "taskId": "t",
        "artifact": { "artifactId": "a", "parts": [{ "kind": "text", "text": "So it is, " }] } } });
    for (message, _) in messages("Writing the answer", 0) {
        let stream = format!("data: {message}\n\ndata: {artifact}\n\n");
        bench.with_inspector(Case::response("default", "a2a"), |inspector| {
            let (mut judge, mut out) = (StreamInspector::new(StreamFormat::Sse, 1 << 20), Vec::new());
            judge.push(inspector, &mut bench.vault(), stream.as_bytes(), &mut out);
            assert!(!out.is_empty(), "it waits for its next piece: {message}");
        });
    }
}

/// A status message of an agent.
fn status(text: &str) -> Value {
    messages(text, 0)[0].0.clone()
}

/// An artifact of an agent, whose text is in one or two parts.
fn artifact(id: &str, texts: &[&str]) -> Value {
    let parts: Vec<Value> = texts.iter().map(|text| json!({ "kind": "text", "text": text })).collect();
    json!({ "jsonrpc": "2.0", "id": 1, "result": { "kind": "artifact-update", "taskId": "t", "append": true,
        "lastChunk": true, "artifact": { "artifactId": id, "parts": parts } } })
}

/// The same as version 1.0 has it.
fn artifact_anew(id: &str, text: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "result": { "artifactUpdate": { "taskId": "t",
        "artifact": { "artifactId": id, "parts": [{ "text": text }] } } } })
}

/// What says nothing of its own between two pieces.
const BETWEEN: &str = "Working on it. ";

/// The ways to part a text over artifacts and messages.
fn parted(first: &str, second: &str) -> [Vec<Value>; 9] {
    [
        vec![artifact("a", &[first]), artifact("b", &[second])],
        vec![artifact("a", &[first, second])],
        vec![artifact_anew("a", first), artifact_anew("b", second)],
        vec![artifact("a", &[first]), status(BETWEEN), artifact("a", &[second])],
        vec![artifact("a", &[first]), status(BETWEEN), artifact("b", &[second])],
        vec![artifact("a", &[first]), artifact("b", &[BETWEEN]), artifact("a", &[second])],
        vec![status(first), artifact("a", &[second])],
        vec![artifact("a", &[first]), status(second)],
        vec![status(first), artifact("a", &[BETWEEN]), status(second)],
    ]
}

/// Judges a stream of these events; returns what came of it, and all that was said but for what stands between.
fn told_of(bench: &Bench, events: &[Value]) -> (Streamed, String) {
    let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let case = Case::response("all", "a2a");
    let streamed = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
    let left = String::from_utf8(streamed.out.clone()).expect("UTF-8");
    let places = ["/result/status/message", "/result/artifact", "/result/artifactUpdate/artifact"];
    let mut said = String::new();
    for payload in left.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let payload: Value = serde_json::from_str(payload).expect("JSON");
        let of = places.iter().find_map(|place| payload.pointer(place)).expect("an event of ours");
        for part in of["parts"].as_array().expect("parts") {
            said += part["text"].as_str().expect("text");
        }
    }
    (streamed, said.replace(BETWEEN, ""))
}

/// A secret that was parted over artifacts came out, and one with an artifact between lost its begin.
#[test]
fn a_secret_that_is_parted_over_artifacts_and_messages_does_not_leave_wherever_it_is_cut() {
    // So much may leave where another text goes on between two messages: less is the begin of any word.
    const BEGIN_BYTES: usize = 7;
    let bench = Bench::new("[policies.all.categories.secrets]\nmode = \"block\"\n");
    let (before, after) = ("the key is ", " and more");
    // One that its end settles, and one that is over where its last sign is. Few bytes that a part ends with may leave.
    let id = valid(&bench, "aws_access_key_id", 1);
    for secret in [github_token(&bench), id] {
        let text = format!("{before}{secret}{after}");
        for cut in 1..text.len() {
            let (first, second) = text.split_at(cut);
            for (way, events) in parted(first, second).iter().enumerate() {
                let (streamed, said) = told_of(&bench, events);
                assert!(matches!(streamed.end, End::Blocked | End::Unreadable), "{way} {cut}: {said}");
                // What follows the secret in a part of its own is a text of its own, and leaves where that is judged.
                let is_apart = way == 1 && cut >= text.len() - after.len();
                let said = said.strip_suffix(second).filter(|_| is_apart).unwrap_or(&said);
                assert!(text[..before.len() + BEGIN_BYTES].starts_with(said), "{way} {cut}: {said}");
            }
        }
    }
}

#[test]
fn a_secret_that_is_parted_is_masked_and_told_once() {
    let bench = Bench::new("[policies.all.categories.secrets]\nmode = \"redact\"\n");
    let token = github_token(&bench);
    let (head, tail) = token.split_at(15);
    let (first, second) = (format!("the key is {head}"), format!("{tail} and more"));
    for (way, events) in parted(&first, &second).iter().enumerate() {
        let (streamed, said) = told_of(&bench, events);
        assert_eq!((streamed.end, streamed.action), (End::Finished, Action::Redact), "{way}");
        assert!(said.starts_with("the key is ") && said.ends_with(" and more"), "{way}: {said}");
        assert!(said.contains(MASK) && !said.contains(tail), "{way}: {said}");
        assert_eq!(streamed.seen.iter().filter(|seen| seen.0 == "github_token").count(), 1, "{way}");
    }
    for (way, events) in parted("Here it is", " and more").iter().enumerate() {
        let (streamed, said) = told_of(&bench, events);
        assert_eq!((streamed.end, said.as_str()), (End::Finished, "Here it is and more"), "{way}");
    }
}

#[test]
fn what_may_begin_a_secret_holds_back_so_much_and_no_more() {
    let bench = Bench::new("[policies.all.categories.secrets]\nmode = \"block\"\n");
    let token = github_token(&bench);
    let event = |event: Value| format!("data: {event}\n\n");
    let begun = event(status(&format!("the key is {}", &token[..12])));
    let prose = event(artifact("a", &[&"So it goes on. ".repeat(64)]));
    bench.with_inspector(Case::response("all", "a2a"), |inspector| {
        let (mut judge, mut vault) = (StreamInspector::new(StreamFormat::Sse, 1 << 20), bench.vault());
        let mut out = Vec::new();
        judge.push(inspector, &mut vault, begun.as_bytes(), &mut out);
        for at in 0..96 {
            judge.push(inspector, &mut vault, prose.as_bytes(), &mut out);
            assert!(at > 32 || out.is_empty(), "{at}");
        }
        assert!(!out.is_empty() && judge.held_bytes() < 4096, "{}", judge.held_bytes());
    });
}

#[test]
fn a_secret_that_only_its_name_tells_is_found_in_an_event_too() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let value = "tR7!mq2Zx";
    let message =
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "structuredContent": { "password": value } } });
    for dialect in ["mcp", "a2a"] {
        let case = Case::response("all", dialect);
        let whole = bench.whole(case, &mut bench.vault(), message.to_string().as_bytes());
        let seen = bench.seen(whole.observations);
        assert!(!seen.is_empty(), "{dialect}");
        let stream = format!("event: message\ndata: {message}\n\n");
        let streamed = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
        assert_eq!(streamed.seen, seen, "{dialect}");
        let left = String::from_utf8(streamed.out).expect("UTF-8");
        assert!(!left.contains(value) && streamed.end == End::Finished, "{dialect}: {left}");
    }
}

#[test]
fn an_event_that_takes_too_long_is_not_read_to_its_end() {
    let mut bench = Bench::new(&policy_of_all("all", "redact", "fail_mode = \"closed\""));
    let event = |payload: &str| format!("data: {payload}\n\n");
    let events = [
        (
            "mcp",
            event(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"all is well"}]}}"#),
        ),
        ("openai", event(r#"{"choices":[{"index":0,"delta":{"content":"all is well"}}]}"#)),
    ];
    for (is_late, end) in [(false, End::Finished), (true, End::Unreadable)] {
        bench.is_late = is_late;
        for (dialect, event) in &events {
            let case = Case::response("all", dialect);
            let streamed = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [event.as_bytes()]);
            assert_eq!(streamed.end, end, "{dialect}");
        }
    }
}

/// The ways in which a server of MCP says two texts of one answer, or two messages beside it.
fn said_by_server(first: &str, second: &str) -> [Vec<Value>; 6] {
    let result = |texts: &[&str]| {
        let blocks: Vec<Value> = texts.iter().map(|text| json!({ "type": "text", "text": text })).collect();
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": blocks } })
    };
    let told = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "method": method, "params": params });
    let log = |data: Value| told("notifications/message", json!({ "level": "info", "data": data }));
    let progress = |text: &str| {
        told("notifications/progress", json!({ "progressToken": 1, "progress": 1, "message": text }))
    };
    let read = |text: &str| json!({ "uri": "file:///x", "text": text });
    [
        vec![result(&[first, second])],
        vec![json!({ "jsonrpc": "2.0", "id": 1, "result": { "contents": [read(first), read(second)] } })],
        vec![log(json!(first)), log(json!(second)), result(&["done"])],
        vec![log(json!({ "note": first })), log(json!({ "note": second })), result(&["done"])],
        vec![progress(first), progress(second), result(&["done"])],
        vec![result(&[first]), result(&[second])],
    ]
}

/// What a server answers as JSON was read over the borders of its texts; the same as an event was not.
#[test]
fn a_secret_that_a_server_parts_does_not_leave_whole_and_no_message_waits() {
    let bench = Bench::new("[policies.all.categories.secrets]\nmode = \"block\"\n");
    let token = github_token(&bench);
    let start = "the key is ".len();
    let streams = |events: &[Value]| -> Vec<String> {
        events.iter().map(|event| format!("event: message\ndata: {event}\n\n")).collect()
    };
    let ends = [" and more", ""];
    for (cut, end) in (start + 1..start + token.len()).flat_map(|cut| ends.map(|end| (cut, end))) {
        let text = format!("the key is {token}{end}");
        let (first, second) = text.split_at(cut);
        for (way, events) in said_by_server(first, second).iter().enumerate() {
            let events = streams(events);
            let case = Case::response("all", "mcp");
            let chunks = events.iter().map(String::as_bytes);
            let streamed = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), chunks);
            assert_eq!(streamed.end, End::Blocked, "{way} {cut} {end:?}");
            // The message that ends the secret stays behind, all of it.
            let left = String::from_utf8(streamed.out).expect("UTF-8");
            let before = if way < 2 { "" } else { &events[0] };
            assert!(left.is_empty() || left == before, "{way} {cut} {end:?}: {left}");
        }
    }
    let ids = ["see 4Bf92f3577b34dA6a3ce929d0e0e4736", "9a0e4736Bf92f3577b34dA6a3ce929d0"];
    for events in said_by_server(ids[0], ids[1]) {
        bench.with_inspector(Case::response("default", "mcp"), |inspector| {
            let (mut judge, mut out) = (StreamInspector::new(StreamFormat::Sse, 1 << 20), Vec::new());
            for (count, event) in streams(&events).iter().enumerate() {
                judge.push(inspector, &mut bench.vault(), event.as_bytes(), &mut out);
                assert_eq!(out.len(), count + 1, "it waits: {event}");
            }
            assert_ne!(judge.action(), Action::Block);
        });
    }
}

/// What agents say without an envelope, over HTTP and JSON, is one text as well.
#[test]
fn a_secret_in_pieces_of_an_artifact_without_an_envelope_does_not_leave() {
    let bench = Bench::new("[policies.all.categories.secrets]\nmode = \"redact\"\n");
    let token = github_token(&bench);
    let text = format!("the key is {token} and more");
    let piece = |text: &str, is_last: bool| {
        json!({ "artifactUpdate": { "taskId": "t", "append": true, "lastChunk": is_last,
        "artifact": { "artifactId": "a", "parts": [{ "text": text }] } } })
    };
    for cut in 1..text.len() {
        let (first, second) = text.split_at(cut);
        let stream: String =
            [piece(first, false), piece(second, true)].iter().map(|it| format!("data: {it}\n\n")).collect();
        let case = Case::response("all", "a2a");
        let streamed = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
        let left = String::from_utf8(streamed.out).expect("UTF-8");
        let said = left.lines().filter_map(|line| line.strip_prefix("data: ")).map(|payload| {
            let payload: Value = serde_json::from_str(payload).expect("JSON");
            let part = payload.pointer("/artifactUpdate/artifact/parts/0/text");
            part.and_then(Value::as_str).expect("text").to_owned()
        });
        assert_eq!(said.collect::<String>(), text.replace(&token, MASK), "{cut}");
    }
}
