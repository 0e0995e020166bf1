//! Names, addresses and places: found where a policy names them, and only there, whole and streamed alike.

use std::sync::atomic::AtomicUsize;

use portcullis::llm::stream::StreamFormat;
use portcullis::policy::decision::Action;
use serde_json::json;

use super::Bench;
use super::Case;
use super::End;
use super::Seen;
use super::carrier::CARRIERS;

const POLICY: &str = r#"
[policies.names.categories.secrets]
mode = "block"
[policies.names.categories.pii]
mode = "redact"
threshold = "medium"
[policies.names.detectors.person_name]
mode = "redact"
[policies.names.detectors.postal_address]
mode = "redact"
[policies.names.detectors.location]
mode = "monitor"
[policies.tokens.detectors.person_name]
mode = "redact"
mask = "token"
[policies.blocks.categories.pii]
mode = "redact"
[policies.blocks.detectors.person_name]
mode = "block"
"#;

const TEXT: &str = "Hello, my name is Maria Lopez and I live at 12 Baker Street, London. Call Maria Lopez.";
const SECRETS: [&str; 5] = ["Maria", "Lopez", "12", "Baker", "Street"];

fn chat(text: &str) -> String {
    json!({ "model": "m", "messages": [{ "role": "user", "content": text }] }).to_string()
}

fn sent(bench: &Bench, policy: &str, body: &str) -> String {
    let result = bench.whole(Case::request(policy, "openai"), &mut bench.vault(), body.as_bytes());
    let cleared = result.cleared.expect("it may leave").into_bytes();
    String::from_utf8(cleared.to_vec()).expect("UTF-8")
}

fn assert_redacted(text: &str) {
    assert!(SECRETS.iter().all(|secret| !text.contains(secret)), "{text}");
    assert_eq!(text.matches("[REDACTED:person_name]").count(), 2, "{text}");
    assert_eq!(text.matches("[REDACTED:postal_address]").count(), 1, "{text}");
    assert!(text.contains("Hello, my name is [") && text.contains("] and I live at ["), "{text}");
}

#[test]
fn names_leave_a_request_where_a_policy_names_them() {
    let bench = Bench::new(POLICY);
    assert_redacted(&sent(&bench, "names", &chat(TEXT)));
    for policy in ["default", "strict", "monitor"] {
        assert_eq!(sent(&bench, policy, &chat(TEXT)), chat(TEXT), "{policy}");
        let body = chat(TEXT);
        let seen = bench.whole(Case::request(policy, "openai"), &mut bench.vault(), body.as_bytes());
        assert!(seen.observations.is_empty(), "{policy} looks for names");
    }
    let hidden = sent(&bench, "tokens", &chat(TEXT));
    assert_eq!(hidden.matches("PII_PERSON_NAME_").count(), 2, "{hidden}");
    let body = chat(TEXT);
    let result = bench.whole(Case::request("blocks", "openai"), &mut bench.vault(), body.as_bytes());
    assert_eq!(result.action, Action::Block);
}

#[test]
fn names_are_found_wherever_text_is_and_not_in_what_steers_a_call() {
    let bench = Bench::new(POLICY);
    let body = json!({ "model": "claude-maria-lopez", "user": "maria", "messages": [
        { "role": "system", "content": "You help Maria Lopez." },
        { "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "type": "function",
          "function": { "name": "mail", "arguments": "{\"to\":\"Maria Lopez\",\"city\":\"London\"}" } }] },
        { "role": "tool", "tool_call_id": "c", "content": "Sent to Maria Lopez." } ],
        "tools": [{ "type": "function", "function": { "name": "mail", "description": "Mail Maria Lopez." } }] })
    .to_string();
    let left = sent(&bench, "names", &body);
    assert_eq!(left.matches("[REDACTED:person_name]").count(), 3, "{left}");
    assert!(left.contains("claude-maria-lopez") && left.contains("Mail Maria Lopez."), "{left}");
}

/// Returns the text that left and the findings, for pieces of a text.
fn streamed(bench: &Bench, policy: &str, pieces: &[&str], carrier: usize) -> (String, Vec<Seen>, End) {
    let carrier = &CARRIERS[carrier];
    let stream = carrier.stream(pieces);
    let case = Case::response(policy, carrier.dialect);
    let result = bench.stream(case, carrier.format, &mut bench.vault(), [stream.as_bytes()]);
    (carrier.read(&result.out), result.seen, result.end)
}

#[test]
fn a_stream_is_redacted_alike_at_every_cut() {
    let bench = Bench::new(POLICY);
    let whole = streamed(&bench, "names", &[TEXT], 0);
    assert_redacted(&whole.0);
    assert_eq!(whole.2, End::Finished);
    for cut in 0..=TEXT.len() {
        assert_eq!(streamed(&bench, "names", &[&TEXT[..cut], &TEXT[cut..]], 0), whole, "at {cut}");
    }
    for step in 1..9 {
        let pieces: Vec<&str> =
            (0..TEXT.len()).step_by(step).map(|at| &TEXT[at..(at + step).min(TEXT.len())]).collect();
        assert_eq!(streamed(&bench, "names", &pieces, 0), whole, "by {step}");
    }
    for (at, carrier) in CARRIERS.iter().enumerate() {
        let (left, ..) = streamed(&bench, "names", &[&TEXT[..23], &TEXT[23..]], at);
        assert_eq!(left, whole.0, "{}", carrier.name);
        assert_eq!(streamed(&bench, "default", &[&TEXT[..23], &TEXT[23..]], at).0, TEXT, "{}", carrier.name);
    }
}

#[test]
fn where_a_stream_is_blocked_does_not_depend_on_how_it_was_cut() {
    let bench = Bench::new(POLICY);
    let key = super::valid(&bench, "github_token", 1);
    for (policy, text) in [
        ("names", format!("I am Maria Lopez {key} of 12 Baker Street, London, and so on.")),
        ("names", format!("Say hello to Maria {key} Lopez, he said to them.")),
        ("blocks", "The mail is from ann@example.net and Maria Lopez wrote it to them all.".to_owned()),
        ("blocks", "The bill of Maria Lopez 4111 1111 1111 1111 is paid, they say, and so on.".to_owned()),
        (
            "blocks",
            "The bill 4111 1111 1111 1111 of Maria Lopez ann@example.net is paid, and so on.".to_owned(),
        ),
    ] {
        let whole = streamed(&bench, policy, &[&text], 0);
        assert_eq!(whole.2, End::Blocked, "{text}");
        assert!(!whole.0.contains("Lopez") && !whole.0.contains(&key), "{}", whole.0);
        for cut in 0..=text.len() {
            assert_eq!(streamed(&bench, policy, &[&text[..cut], &text[cut..]], 0), whole, "{text} at {cut}");
        }
        for step in 1..7 {
            let pieces: Vec<&str> =
                (0..text.len()).step_by(step).map(|at| &text[at..(at + step).min(text.len())]).collect();
            assert_eq!(streamed(&bench, policy, &pieces, 0), whole, "{text} by {step}");
        }
    }
}

#[test]
fn names_are_found_in_arguments_that_escape_their_letters() {
    let bench = Bench::new(POLICY);
    let arguments = r#"{"to":"Jos\u00e9 Garc\u00eda","note":"Hi,\nmy name is Andr\u00e9 Dupont."}"#;
    let hidden = r#"{"to":"[REDACTED:person_name]","note":"Hi,\nmy name is [REDACTED:person_name]."}"#;
    let body = |arguments: &str| {
        json!({ "model": "m", "messages": [{ "role": "assistant", "content": null, "tool_calls": [
            { "id": "c", "type": "function", "function": { "name": "mail", "arguments": arguments } }] }] })
        .to_string()
    };
    assert_eq!(sent(&bench, "names", &body(arguments)), body(hidden));
    let event = |arguments: &str| {
        let call = json!({ "index": 0, "function": { "arguments": arguments } });
        format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] } }] }))
    };
    let streamed = |pieces: &[&str]| {
        let stream: String = pieces.iter().map(|piece| event(piece)).collect();
        let stream = stream + "data: [DONE]\n\n";
        let case = Case::response("names", "openai");
        let result = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
        let out = String::from_utf8(result.out).expect("UTF-8");
        let events = out.lines().filter_map(|line| line.strip_prefix("data: {"));
        let told = events.map(|event| {
            let event: serde_json::Value = serde_json::from_str(&format!("{{{event}")).expect("JSON");
            let told = event["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].clone();
            told.as_str().expect("a text").to_owned()
        });
        (told.collect::<String>(), result.seen)
    };
    let whole = streamed(&[arguments]);
    assert_eq!(whole.0, hidden);
    assert!(whole.1.iter().all(|(.., sample)| !sample.contains('\\')), "{:?}", whole.1);
    for cut in 0..=arguments.len() {
        assert_eq!(streamed(&[&arguments[..cut], &arguments[cut..]]), whole, "at {cut}");
    }
}

#[test]
fn a_name_that_was_escaped_is_the_same_name_where_it_is_put_back() {
    let bench = Bench::new(POLICY);
    let mut vault = bench.vault();
    let told = |text: &str| format!("{{\"to\":\"{text}\"}}");
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": told(r"Jos\u00e9 Garc\u00eda") },
        { "role": "user", "content": told("José García") }] });
    let result = bench.whole(Case::request("tokens", "openai"), &mut vault, body.to_string().as_bytes());
    let sent: serde_json::Value =
        serde_json::from_slice(&result.cleared.expect("it may leave").into_bytes()).unwrap();
    let said = |at: usize| sent["messages"][at]["content"].as_str().expect("a text").to_owned();
    assert!(said(0) == said(1) && said(0).contains("PII_PERSON_NAME_"), "{sent}");
    let answer =
        json!({ "choices": [{ "index": 0, "message": { "role": "assistant", "content": said(0) } }] });
    let result = bench.whole(Case::response("default", "openai"), &mut vault, answer.to_string().as_bytes());
    let answer: serde_json::Value =
        serde_json::from_slice(&result.cleared.expect("it may leave").into_bytes()).unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], told("José García"));
}

#[test]
fn a_text_that_takes_too_long_meets_the_fail_mode() {
    let mut bench = Bench::new(POLICY);
    let body = chat(&format!("Ask ann@example.net. {}", "a b c d ".repeat(4 << 10)));
    for (looks, is_late) in [(4, true), (usize::MAX, false)] {
        bench.looks_left = Some(AtomicUsize::new(looks));
        let result = bench.whole(Case::request("names", "openai"), &mut bench.vault(), body.as_bytes());
        let told = result.unreadable.map(|unreadable| unreadable.reason());
        assert_eq!(told, is_late.then_some("late"));
        assert_eq!(result.action == Action::Block, is_late);
        assert!(
            result.observations.iter().any(|seen| seen.action == Action::Redact),
            "what was found is told"
        );
        bench.looks_left = Some(AtomicUsize::new(looks));
        let stream = CARRIERS[0].stream(&[&"a b c d ".repeat(4 << 10)]);
        let case = Case::response("names", CARRIERS[0].dialect);
        let streamed = bench.stream(case, CARRIERS[0].format, &mut bench.vault(), [stream.as_bytes()]);
        assert_eq!(streamed.end, if is_late { End::Unreadable } else { End::Finished });
    }
}

#[test]
fn a_word_that_only_steers_a_call_is_a_name_where_a_tool_tells_it() {
    let bench = Bench::new(POLICY);
    let start = json!({ "type": "message_start", "message": { "id": "Maria Lopez", "role": "assistant" } });
    let result = json!({ "type": "web_search_result", "title": "Maria Lopez", "url": "https://a.example/" });
    let block = json!({ "type": "web_search_tool_result", "tool_use_id": "t", "content": [result] });
    let block = json!({ "type": "content_block_start", "index": 0, "content_block": block });
    let event = |event: &serde_json::Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("a type"))
    };
    let stream = event(&start) + &event(&block) + &event(&json!({ "type": "message_stop" }));
    let case = Case::response("names", "anthropic");
    let result = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
    let out = String::from_utf8(result.out).expect("UTF-8");
    assert!(out.contains(r#""id":"Maria Lopez""#), "{out}");
    assert!(out.contains(r#""title":"[REDACTED:person_name]""#), "{out}");
}

#[test]
fn what_is_said_in_one_event_is_read_as_well() {
    let bench = Bench::new(POLICY);
    let event =
        json!({ "choices": [{ "index": 0, "delta": { "content": "" } }], "note": "It was Maria Lopez." });
    let stream = format!("data: {event}\n\ndata: [DONE]\n\n");
    let case = Case::response("names", "openai");
    let result = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
    let out = String::from_utf8(result.out).expect("UTF-8");
    assert!(out.contains("It was [REDACTED:person_name]."), "{out}");
}
