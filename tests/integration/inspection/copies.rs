//! What repeats a text in other forms tells nothing that was masked in it: `logprobs`, as text and as numbers.

use portcullis::llm::stream::StreamFormat;
use serde_json::Value;
use serde_json::json;

use super::Bench;
use super::Case;
use super::github_token;
use super::policy_of_all;

/// Writes a token as a model's log of probabilities has it.
fn told(token: &str) -> Value {
    let one = json!({ "token": token, "logprob": -0.1, "bytes": token.as_bytes() });
    json!({ "token": token, "logprob": -0.1, "bytes": token.as_bytes(), "top_logprobs": [one] })
}

fn pieces(text: &str) -> Vec<&str> {
    text.as_bytes().chunks(5).map(|piece| std::str::from_utf8(piece).expect("ASCII")).collect()
}

#[test]
fn a_masked_whole_answer_has_no_logprobs_and_a_clean_one_keeps_them() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    for (text, is_masked) in [(format!("It is {token}."), true), ("It is nice.".to_owned(), false)] {
        let content: Vec<Value> = pieces(&text).into_iter().map(told).collect();
        let body = json!({ "object": "chat.completion", "choices": [
            { "index": 0, "message": { "role": "assistant", "content": text }, "logprobs": { "content": content } }
        ] });
        let body = body.to_string();
        let judged = bench.whole(Case::response("all", "openai"), &mut bench.vault(), body.as_bytes());
        let left = judged.cleared.expect("it may leave").into_bytes();
        let read: Value = serde_json::from_slice(&left).expect("JSON");
        assert_eq!(read["choices"][0]["logprobs"].is_null(), is_masked);
        assert_eq!(left == body.as_bytes(), !is_masked, "clean bytes are untouched");
    }
}

/// Servers of open models repeat what they wrote token by token, under names of their own.
#[test]
fn tokens_beside_a_masked_text_go_wherever_a_server_puts_them() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let text = format!("It is {token}.");
    let tokens: Vec<Value> =
        pieces(&text).into_iter().map(|it| json!({ "id": 7, "text": it, "token": it })).collect();
    let listed: Vec<Value> = pieces(&text).into_iter().map(|it| json!([-0.1, 7, it])).collect();
    let numbered: Vec<u8> = text.bytes().collect();
    let cases = [
        (
            "generic",
            json!({ "generated_text": text, "details": { "finish_reason": "length", "tokens": tokens } }),
        ),
        ("generic", json!([{ "generated_text": text, "details": { "tokens": tokens } }])),
        ("generic", json!({ "content": text, "completion_probabilities": tokens, "tokens": numbered })),
        (
            "generic",
            json!({ "text": text, "output_ids": numbered, "meta_info": { "output_token_logprobs": listed } }),
        ),
        (
            "openai",
            json!({ "object": "chat.completion", "choices": [{ "index": 0,
            "message": { "role": "assistant", "content": text }, "token_ids": numbered }], "prompt_logprobs": [{ "7": { "decoded_token": "a" } }] }),
        ),
        ("ollama", json!({ "model": "m", "response": text, "done": true, "context": numbered })),
    ];
    for (dialect, body) in cases {
        let body = body.to_string();
        let judged = bench.whole(Case::response("all", dialect), &mut bench.vault(), body.as_bytes());
        let left = judged.cleared.expect("it may leave").into_bytes();
        let left = String::from_utf8(left.to_vec()).expect("text");
        assert_ne!(left, body, "{dialect}");
        let piece = &token[token.len() / 2..token.len() / 2 + 5];
        let kept = pieces(&text)
            .into_iter()
            .filter(|it| it.len() == 5 && left.contains(&format!("\"{it}\"")))
            .count();
        assert!(kept == 0 && !left.contains(&token) && !left.contains("73,116,32"), "{piece}: {left}");
    }
}

#[test]
fn masked_deltas_have_no_logprobs_and_the_others_keep_them() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let text = format!("This is the key: {token} and so on, at some length.");
    for event in ["chat", "responses"] {
        let written = |piece: &str| {
            let body = match event {
                "chat" => json!({ "object": "chat.completion.chunk", "choices": [
                    { "index": 0, "delta": { "content": piece }, "logprobs": { "content": [told(piece)] } }
                ] }),
                _ => json!({ "type": "response.output_text.delta", "output_index": 0, "content_index": 0,
                             "delta": piece, "logprobs": [told(piece)] }),
            };
            format!("data: {body}\n\n")
        };
        let stream: String = pieces(&text).into_iter().map(written).collect();
        let case = Case::response("all", "openai");
        let result = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
        let out = String::from_utf8(result.out).expect("UTF-8");
        assert!(out.contains("[REDACTED:github_token]"), "{event}: {out}");
        let told_at_all = out.matches("top_logprobs").count();
        assert!(told_at_all > 4 && told_at_all < pieces(&text).len() - 6, "{event}: {told_at_all} in {out}");
        for piece in token.as_bytes().chunks(3).skip(1).filter(|piece| piece.len() == 3) {
            let numbers = serde_json::to_string(piece).expect("JSON");
            assert!(!out.contains(numbers.trim_matches(['[', ']'])), "{event}: bytes of the value in {out}");
        }
    }
}
