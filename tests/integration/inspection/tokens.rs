//! Values that are hidden from the provider and put back for the caller who sent them, and for nobody else.

use portcullis::policy::decision::Action;
use portcullis::redact::token::Vault;
use serde_json::Value;
use serde_json::json;

use super::Bench;
use super::Case;
use super::carrier::CARRIERS;
use super::valid;

pub const POLICY: &str = r#"
[policies.hide.categories.secrets]
request = "redact"
response = "monitor"
threshold = "low"
[policies.hide.categories.pii]
mode = "redact"
threshold = "low"
[policies.hide.detectors.private_key]
mask = "token"
[policies.hide.detectors.email_address]
mask = "token"
"#;

/// Hides a value in a request and returns the placeholder that the provider sees.
pub fn hide(bench: &Bench, vault: &mut Vault, value: &str) -> String {
    let body = json!({ "messages": [{ "role": "user", "content": format!("use <{value}> and <{value}>") }] })
        .to_string();
    let result = bench.whole(Case::request("hide", "openai"), vault, body.as_bytes());
    assert_eq!(result.action, Action::Redact);
    let sent: Value =
        serde_json::from_slice(&result.cleared.expect("it may leave").into_bytes()).expect("JSON");
    let content = sent.pointer("/messages/0/content").and_then(Value::as_str).expect("content").to_owned();
    assert!(!content.contains(value), "the provider sees the value");
    let placeholder = content.split(['<', '>']).nth(1).expect("a placeholder").to_owned();
    assert_eq!(content, format!("use <{placeholder}> and <{placeholder}>"));
    placeholder
}

#[test]
fn a_hidden_value_comes_back_at_every_cut_and_for_its_own_exchange_only() {
    let bench = Bench::new(POLICY);
    let key = valid(&bench, "private_key", 1);
    let email = valid(&bench, "email_address", 1);
    let mut vault = bench.vault();
    for value in [&email, &key] {
        let placeholder = hide(&bench, &mut vault, value);
        assert!(placeholder.starts_with("PII_"), "{placeholder}");
        let call = format!("{{\"to\": \"{placeholder}\"}} done.");
        for carrier in &CARRIERS {
            let is_call = ["chat tool call", "arguments", "tool input"].contains(&carrier.name);
            let quoted = serde_json::to_string(value).expect("text");
            let shown = if is_call { quoted.trim_matches('"') } else { value.as_str() };
            let text = if is_call { call.clone() } else { format!("See {call}") };
            let expected = text.replace(&placeholder, shown);
            let case = Case::response("hide", carrier.dialect);
            let cuts: Vec<usize> = (0..=text.len()).step_by(if value.len() > 100 { 7 } else { 1 }).collect();
            for cut in cuts {
                let stream = carrier.stream(&[&text[..cut], &text[cut..]]);
                let own = bench.stream(case, carrier.format, &mut vault, [stream.as_bytes()]);
                assert_eq!(carrier.read(&own.out), expected, "{} at {cut}", carrier.name);
            }
            let stream = carrier.stream(&[&text]);
            let other = bench.stream(case, carrier.format, &mut bench.vault(), [stream.as_bytes()]);
            assert_eq!(carrier.read(&other.out), text, "{}: another exchange", carrier.name);
        }
    }
}

#[test]
fn a_hidden_value_comes_back_in_whole_answers_and_inside_tool_calls() {
    let bench = Bench::new(POLICY);
    let key = valid(&bench, "private_key", 1);
    let mut vault = bench.vault();
    let placeholder = hide(&bench, &mut vault, &key);
    let arguments = json!({ "key": placeholder }).to_string();
    let answer =
        json!({ "object": "chat.completion", "choices": [{ "index": 0, "message": { "role": "assistant",
        "content": format!("It was {placeholder}."),
        "tool_calls": [{ "id": "c", "function": { "name": "f", "arguments": arguments } }] } }] })
        .to_string();
    let case = Case::response("hide", "openai");
    let result = bench.whole(case, &mut vault, answer.as_bytes());
    let left: Value =
        serde_json::from_slice(&result.cleared.expect("it may leave").into_bytes()).expect("JSON");
    let message = left.pointer("/choices/0/message").expect("a message");
    assert_eq!(message["content"], format!("It was {key}."));
    let arguments = message["tool_calls"][0]["function"]["arguments"].as_str().expect("arguments");
    assert_eq!(serde_json::from_str::<Value>(arguments).expect("JSON in a string"), json!({ "key": key }));
    let other = bench.whole(case, &mut bench.vault(), answer.as_bytes());
    assert_eq!(&other.cleared.expect("it may leave").into_bytes()[..], answer.as_bytes());
}

#[test]
fn what_only_looks_like_a_placeholder_is_left_alone() {
    let bench = Bench::new(POLICY);
    let email = valid(&bench, "email_address", 1);
    // A caller who knows the very placeholder of a value still gets another one for it.
    let known = hide(&bench, &mut bench.vault(), &email);
    let mut vault = bench.vault();
    let body =
        json!({ "messages": [{ "role": "user", "content": format!("{known} and {email}") }] }).to_string();
    let result = bench.whole(Case::request("hide", "openai"), &mut vault, body.as_bytes());
    let sent = String::from_utf8(result.cleared.expect("it may leave").into_bytes().to_vec()).expect("UTF-8");
    assert!(sent.contains(&format!("{known} and PII_")) && !sent.contains(&email), "{sent}");
    let answer = json!({ "choices": [{ "index": 0, "message": { "content": known } }] }).to_string();
    let left = bench.whole(Case::response("hide", "openai"), &mut vault, answer.as_bytes());
    assert_eq!(&left.cleared.expect("it may leave").into_bytes()[..], answer.as_bytes());
}

/// Texts between peers are remembered where they are clean, and one that holds a placeholder never is.
#[test]
fn a_hidden_value_comes_back_from_peers_each_time() {
    let bench = Bench::new(POLICY);
    let email = valid(&bench, "email_address", 1);
    for dialect in ["mcp", "a2a"] {
        for time in ["first", "again"] {
            let mut vault = bench.vault();
            let placeholder = hide(&bench, &mut vault, &email);
            let text =
                format!("The harbour master wrote to {placeholder} this morning, and nobody has answered.");
            let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [{ "type": "text", "text": text }] } });
            let case = Case::response("hide", dialect);
            let result = bench.whole(case, &mut vault, answer.to_string().as_bytes());
            let left = result.cleared.expect("it may leave").into_bytes();
            let left = String::from_utf8(left.to_vec()).expect("UTF-8");
            assert!(left.contains(&email) && !left.contains(&placeholder), "{dialect}, {time}: {left}");
        }
    }
}
