//! Texts that are said whole in each event, as far as they are known, and those of which nobody knows how they come.

use portcullis::llm::stream::StreamFormat;
use portcullis::policy::decision::Action;
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

fn run(bench: &Bench, dialect: &str, payloads: &[Value]) -> Streamed {
    let stream: String = payloads.iter().map(|payload| format!("data: {payload}\n\n")).collect();
    let case = Case::response("all", dialect);
    bench.stream(case, StreamFormat::Sse, &mut bench.vault(), stream.as_bytes().chunks(50))
}

/// An event of Perplexity: what is new, and all that was said.
fn told(new: &str, all: &str) -> Value {
    json!({ "choices": [{ "index": 0, "delta": { "content": new }, "message": { "role": "assistant", "content": all } }] })
}

/// An answer that began with the value told it whole beside the deltas that were masked.
#[test]
fn a_value_that_an_answer_begins_with_is_masked_where_the_answer_is_told_anew_each_time() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    for (detector, mask) in [("github_token", MASK), ("payment_card", "")] {
        let value = valid(&bench, detector, 1);
        let text = format!("{value} it is");
        for cut in 1..value.len() {
            let answers = [
                vec![told(&text[..cut], &text[..cut]), told(&text[cut..], &text)],
                (1..=text.len()).map(|at| told(&text[at - 1..at], &text[..at])).collect(),
            ];
            for answer in answers {
                let result = run(&bench, "openai", &answer);
                let out = String::from_utf8_lossy(&result.out);
                assert_eq!((result.end, result.action), (End::Finished, Action::Redact), "{detector} {cut}");
                assert!(!out.contains(&value) && out.contains(mask), "{detector} {cut}: {out}");
                assert!(!out.contains(&value[..8.min(cut)]) || cut < 8, "{detector} {cut}: {out}");
            }
        }
    }
}

/// The parts of a transcript are texts of their own, and are told whole at its end.
#[test]
fn a_value_that_a_text_begins_with_is_one_whatever_stands_right_before_it_in_other_events() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    for texts in [["So", &token, "-"], ["so", "it", &token]] {
        let parts = texts.map(|text| json!({ "type": "transcript.text.segment", "text": text }));
        let all = json!({ "type": "transcript.text.done", "text": texts.join(" ") });
        let answer: Vec<Value> = parts.into_iter().chain([all]).collect();
        let result = run(&bench, "generic", &answer);
        let out = String::from_utf8_lossy(&result.out);
        assert_eq!((result.end, result.action), (End::Finished, Action::Redact), "{texts:?}");
        assert!(!out.contains(&token) && out.contains(MASK), "{texts:?}: {out}");
    }
    // A speaker may be cut short within one.
    let (head, tail) = token.split_at(12);
    let mut answer = Vec::new();
    for text in [head, tail] {
        answer.push(json!({ "type": "transcript.text.segment", "text": text, "speaker": "A" }));
    }
    answer.push(json!({ "type": "transcript.text.done", "text": token }));
    let out = run(&bench, "openai", &answer).out;
    let out = String::from_utf8_lossy(&out);
    assert!(!out.contains(head) && !out.contains(tail) && out.contains(MASK), "{out}");
    let words = ["So", "So it", "goes.", "-", "--", "---", "and so it goes on and on"];
    let answer: Vec<Value> = words.iter().map(|text| json!({ "text": text })).collect();
    let result = run(&bench, "generic", &answer);
    let clean: String = answer.iter().map(|payload| format!("data: {payload}\n\n")).collect();
    assert_eq!((result.end, String::from_utf8_lossy(&result.out).as_ref()), (End::Finished, &*clean));
}

/// The begin of the next line went with the key that the last one ended with.
#[test]
fn what_one_body_ends_with_takes_nothing_from_the_next() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let line = |text: &str| {
        let message =
            json!({ "type": "message", "role": "assistant", "content": [{ "type": "text", "text": text }] });
        json!({ "custom_id": "a", "result": { "type": "succeeded", "message": message } })
    };
    let lines = |text: &str| format!("{}\n", line(text)).repeat(300);
    let stream = lines(&format!("so it is {token}"));
    for dialect in ["anthropic", "generic", "openai"] {
        let case = Case::response("all", dialect);
        let chunks = stream.as_bytes().chunks(100);
        let result = bench.stream(case, StreamFormat::Ndjson, &mut bench.vault(), chunks);
        assert_eq!((result.end, result.action), (End::Finished, Action::Redact), "{dialect}");
        assert_eq!(String::from_utf8_lossy(&result.out), lines(&format!("so it is {MASK}")), "{dialect}");
    }
    // What comes in pieces goes on, whatever it says of itself.
    let (head, tail) = token.split_at(10);
    let piece =
        |text: &str| json!({ "custom_id": "a", "choices": [{ "index": 0, "delta": { "content": text } }] });
    let result = run(&bench, "openai", &[piece(head), piece(tail)]);
    assert!(!String::from_utf8_lossy(&result.out).contains(tail), "{}", String::from_utf8_lossy(&result.out));
    let choices = |text: &str| {
        let choice = |at: usize| json!({ "index": at, "message": { "role": "assistant", "content": text } });
        json!({ "object": "chat.completion", "choices": [choice(0), choice(1), choice(2)] }).to_string()
    };
    let candidates = |text: &str| {
        let candidate = json!({ "content": { "role": "model", "parts": [{ "text": text }] } });
        json!({ "candidates": [candidate, candidate] }).to_string()
    };
    type Answer<'a> = &'a dyn Fn(&str) -> String;
    let answers: [(&str, Answer<'_>); 2] = [("openai", &choices), ("gemini", &candidates)];
    for (dialect, answer) in answers {
        let body = answer(&format!("so it is {token}"));
        let case = Case::response("all", dialect);
        let judged = bench.whole(case, &mut bench.vault(), body.as_bytes());
        let out = judged.cleared.expect("a body").into_bytes();
        assert_eq!(String::from_utf8_lossy(&out), answer(&format!("so it is {MASK}")), "{dialect}");
    }
}
