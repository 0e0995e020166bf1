//! Gemini's Live API: what a model says, and hears, on a socket.

use bytes::Bytes;
use portcullis::llm::stream::StreamFormat;
use portcullis::policy::decision::Action;
use portcullis::policy::decision::Cleared;
use portcullis::policy::stream::Flow;
use portcullis::policy::stream::StreamInspector;
use serde_json::Value;
use serde_json::json;

use super::Bench;
use super::Case;
use super::github_token;
use super::policy_of_all;

const MASK: &str = "[REDACTED:github_token]";

/// Writes a text as a part of a message, and where it is there.
type Place = (fn(&str) -> Value, &'static str);

const PLACES: [Place; 6] = [
    (
        |it| json!({ "serverContent": { "modelTurn": { "role": "model", "parts": [{ "text": it }] } } }),
        "/serverContent/modelTurn/parts/0/text",
    ),
    (
        |it| json!({ "serverContent": { "modelTurn": { "parts": [{ "text": it, "thought": true }] } } }),
        "/serverContent/modelTurn/parts/0/text",
    ),
    (
        |it| json!({ "serverContent": { "modelTurn": { "parts": [{ "executableCode": { "language": "PYTHON", "code": it } }] } } }),
        "/serverContent/modelTurn/parts/0/executableCode/code",
    ),
    (
        |it| json!({ "serverContent": { "modelTurn": { "parts": [{ "narration": it }] } } }),
        "/serverContent/modelTurn/parts/0/narration",
    ),
    (
        |it| json!({ "serverContent": { "outputTranscription": { "text": it } } }),
        "/serverContent/outputTranscription/text",
    ),
    (
        |it| json!({ "serverContent": { "inputTranscription": { "text": it } } }),
        "/serverContent/inputTranscription/text",
    ),
];

/// Judges messages of a socket; returns those that leave, and what became of them.
fn judged(bench: &Bench, messages: &[Value]) -> (Vec<Value>, Action) {
    bench.with_inspector(Case::response("all", "gemini"), |inspector| {
        let (mut judge, mut out) = (StreamInspector::new(StreamFormat::Ndjson, 1 << 20), Vec::new());
        for message in messages {
            let message = Bytes::from(message.to_string());
            let flow = judge.message(inspector, &mut bench.vault(), message, &mut out);
            assert!(matches!(flow, Flow::Continue), "{flow:?}");
        }
        assert_eq!(judge.held_bytes(), 0, "what is over waits for nothing");
        let left = out.into_iter().map(Cleared::into_bytes);
        let left = left.map(|message| serde_json::from_slice(&message).expect("JSON"));
        (left.collect(), judge.action())
    })
}

#[test]
fn a_value_that_is_said_on_a_socket_of_gemini_never_leaves_wherever_it_is_cut() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let text = format!("It is {token} so");
    let over = json!({ "serverContent": { "turnComplete": true }, "usageMetadata": { "promptTokenCount": 2, "responseTokenCount": 3, "totalTokenCount": 5 } });
    for (message, pointer) in PLACES {
        let said = |messages: &[Value]| -> String {
            messages.iter().filter_map(|it| it.pointer(pointer)?.as_str()).collect()
        };
        for cut in 0..=text.len() {
            let (head, tail) = text.split_at(cut);
            let (left, action) = judged(&bench, &[message(head), message(tail), over.clone()]);
            assert_eq!(said(&left), text.replace(&token, MASK), "{pointer} {cut}");
            assert_eq!((left.len(), action), (3, Action::Redact), "{pointer} {cut}");
        }
        // What is said in the next turn is a text of its own.
        let (left, _) = judged(&bench, &[message("so"), over.clone(), message(&token), over.clone()]);
        assert_eq!(said(&left), format!("so{MASK}"), "{pointer}");
        let clean = [message("It "), message("is so."), over.clone(), message("And so on"), over.clone()];
        let (left, action) = judged(&bench, &clean);
        assert_eq!((left.as_slice(), action), (&clean[..], Action::Allow), "{pointer}");
    }
}
