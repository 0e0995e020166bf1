//! Amazon's frames: the text of Converse and of envelopes is judged over frames, what is not changed keeps its bytes, and
//! what ends a stream is an exception.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis::llm::dialect::Wire;
use portcullis::llm::refusal::Refusal;
use portcullis::llm::stream::StreamFormat;
use portcullis::llm::stream::StreamParser;
use portcullis::llm::stream::StreamPiece;
use portcullis::policy::decision::Action;
use serde_json::Value;
use serde_json::json;

use super::Bench;
use super::Case;
use super::End;
use super::Streamed;
use super::github_token;
use super::policy_of_all;

/// Writes a frame with an event in it.
pub fn frame(event: &str, payload: &str) -> Vec<u8> {
    let mut headers = Vec::new();
    for (name, value) in
        [(":event-type", event), (":content-type", "application/json"), (":message-type", "event")]
    {
        headers.push(name.len() as u8);
        headers.extend(name.as_bytes());
        headers.push(7);
        headers.extend((value.len() as u16).to_be_bytes());
        headers.extend(value.as_bytes());
    }
    let mut frame = ((headers.len() + payload.len() + 16) as u32).to_be_bytes().to_vec();
    frame.extend((headers.len() as u32).to_be_bytes());
    frame.extend(crc32fast::hash(&frame).to_be_bytes());
    frame.extend(headers);
    frame.extend(payload.as_bytes());
    frame.extend(crc32fast::hash(&frame).to_be_bytes());
    frame
}

/// Writes a frame with an envelope in it.
pub fn envelope(inner: &Value) -> Vec<u8> {
    frame("chunk", &format!(r#"{{"bytes":"{}","p":"abcdefgh"}}"#, STANDARD.encode(inner.to_string())))
}

/// One way to say a text: the frames around it, and those of its pieces.
struct Way {
    name: &'static str,
    before: Vec<Vec<u8>>,
    piece: fn(&str) -> Vec<u8>,
    after: Vec<Vec<u8>>,
    pointer: &'static str,
}

fn ways() -> Vec<Way> {
    let converse = |name, piece, pointer| Way {
        name,
        before: vec![frame("messageStart", r#"{"p":"abcd","role":"assistant"}"#)],
        piece,
        after: vec![
            frame("contentBlockStop", r#"{"contentBlockIndex":0,"p":"ab"}"#),
            frame("messageStop", r#"{"p":"abc","stopReason":"end_turn"}"#),
            frame(
                "metadata",
                r#"{"metrics":{"latencyMs":5},"usage":{"inputTokens":3,"outputTokens":7,"totalTokens":10}}"#,
            ),
        ],
        pointer,
    };
    vec![
        converse(
            "converse",
            |text| {
                frame(
                    "contentBlockDelta",
                    &json!({ "contentBlockIndex": 0, "delta": { "text": text }, "p": "abcde" }).to_string(),
                )
            },
            "/delta/text",
        ),
        converse(
            "converse tool",
            |text| {
                frame(
                    "contentBlockDelta",
                    &json!({ "contentBlockIndex": 0, "delta": { "toolUse": { "input": text } } }).to_string(),
                )
            },
            "/delta/toolUse/input",
        ),
        Way {
            name: "anthropic",
            before: vec![
                envelope(
                    &json!({ "type": "message_start", "message": { "id": "m", "model": "claude", "usage": { "input_tokens": 3, "output_tokens": 1 } } }),
                ),
                envelope(
                    &json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
                ),
            ],
            piece: |text| {
                envelope(
                    &json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } }),
                )
            },
            after: vec![
                envelope(&json!({ "type": "content_block_stop", "index": 0 })),
                envelope(
                    &json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 7 } }),
                ),
                envelope(&json!({ "type": "message_stop" })),
            ],
            pointer: "/delta/text",
        },
        Way {
            name: "llama",
            before: Vec::new(),
            piece: |text| {
                envelope(&json!({ "generation": text, "prompt_token_count": 3, "generation_token_count": 7 }))
            },
            after: vec![envelope(&json!({ "generation": "", "stop_reason": "stop" }))],
            pointer: "/generation",
        },
        Way {
            name: "nova",
            before: vec![envelope(&json!({ "messageStart": { "role": "assistant" } }))],
            piece: |text| {
                envelope(
                    &json!({ "contentBlockDelta": { "delta": { "text": text }, "contentBlockIndex": 0 } }),
                )
            },
            after: vec![
                envelope(&json!({ "contentBlockStop": { "contentBlockIndex": 0 } })),
                envelope(&json!({ "metadata": { "usage": { "inputTokens": 3, "outputTokens": 7 } } })),
            ],
            pointer: "/contentBlockDelta/delta/text",
        },
    ]
}

impl Way {
    fn frames(&self, pieces: &[&str]) -> Vec<Vec<u8>> {
        let pieces = pieces.iter().map(|piece| (self.piece)(piece));
        self.before.iter().cloned().chain(pieces).chain(self.after.iter().cloned()).collect()
    }
}

fn pieces(stream: &[u8]) -> Vec<StreamPiece> {
    let mut parser = StreamParser::new(StreamFormat::AmazonEvents, 1 << 20);
    let pieces = parser.push(stream).expect("every checksum fits");
    assert!(parser.finish().expect("the last frame is whole").is_none());
    pieces
}

/// Returns the text that a client puts together.
fn said(stream: &[u8], pointer: &str) -> String {
    let payload = |piece: &StreamPiece| serde_json::from_slice::<Value>(&piece.payload()).expect("JSON");
    let text = |payload: Value| payload.pointer(pointer).and_then(|text| text.as_str().map(str::to_owned));
    pieces(stream).iter().filter_map(|piece| text(payload(piece))).collect()
}

fn judged(bench: &Bench, policy: &str, stream: &[u8], size: usize) -> Streamed {
    let case = Case::response(policy, "bedrock");
    bench.stream(case, StreamFormat::AmazonEvents, &mut bench.vault(), stream.chunks(size.max(1)))
}

#[test]
fn texts_are_judged_over_frames_however_those_are_cut() {
    let bench = Bench::new(&(policy_of_all("masks", "redact", "") + &policy_of_all("stops", "block", "")));
    let token = github_token(&bench);
    let text = format!("Take {token} with you.");
    for way in ways() {
        let whole = judged(&bench, "masks", &way.frames(&[&text]).concat(), usize::MAX);
        let masked = said(&whole.out, way.pointer);
        assert!(masked.starts_with("Take ") && masked.ends_with(" with you."), "{}: {masked}", way.name);
        assert!(!masked.contains(&token[..8]), "{}: {masked}", way.name);
        for at in 1..text.len() {
            let (head, tail) = text.split_at(at);
            let frames = way.frames(&[head, tail]);
            let sent = frames.concat();
            let got = judged(&bench, "masks", &sent, usize::MAX);
            assert_eq!((got.end, got.action), (End::Finished, Action::Redact), "{} {at}", way.name);
            assert_eq!(said(&got.out, way.pointer), masked, "{} {at}", way.name);
            let left = pieces(&got.out);
            assert_eq!(left.len(), frames.len());
            let changed = left.iter().zip(&frames).filter(|(left, sent)| left.original() != *sent);
            assert!((1..=2).contains(&changed.count()), "{} {at}: others were written anew", way.name);
            let blocked = judged(&bench, "stops", &sent, usize::MAX);
            let told = said(&blocked.out, way.pointer);
            assert_eq!(blocked.end, End::Blocked, "{} {at}", way.name);
            assert!("Take ".starts_with(&told), "{} {at}: {told}", way.name);
        }
        let cut = way.frames(&[&text[..11], &text[11..]]).concat();
        let expected = judged(&bench, "masks", &cut, usize::MAX);
        for size in 1..cut.len() {
            let got = judged(&bench, "masks", &cut, size);
            assert!(got.out == expected.out && got.seen == expected.seen, "{} in pieces of {size}", way.name);
        }
    }
}

#[test]
fn clean_frames_keep_their_bytes_and_tell_what_was_used() {
    let bench = Bench::new(&policy_of_all("masks", "redact", ""));
    for way in ways() {
        let sent = way.frames(&["Nothing ", "to see", " here."]).concat();
        let got = judged(&bench, "masks", &sent, 64);
        assert_eq!((got.end, got.action), (End::Finished, Action::Allow), "{}", way.name);
        assert!(got.out == sent, "{}: a clean frame changed", way.name);
        if way.name != "converse tool" {
            let usage = got.inspector.usage();
            assert_eq!((usage.prompt_tokens, usage.completion_tokens), (Some(3), Some(7)), "{}", way.name);
        }
    }
}

#[test]
fn what_stands_outside_of_the_payload_is_read_too() {
    let bench = Bench::new(&policy_of_all("masks", "redact", ""));
    let token = github_token(&bench);
    let named = frame(&token, "{}");
    let got = judged(&bench, "masks", &named, 9);
    assert_eq!((got.end, got.action), (End::Finished, Action::Redact));
    assert!(!pieces(&got.out)[0].event.as_deref().expect("a name").contains(&token[..8]));
    // An envelope is not written anew around its event.
    let beside = format!(r#"{{"bytes":"{}","p":"{token}"}}"#, STANDARD.encode("{}"));
    let got = judged(&bench, "masks", &frame("chunk", &beside), 9);
    assert_eq!((got.end, got.out.len()), (End::Unreadable, 0));
}

#[test]
fn damage_meets_the_fail_mode() {
    let open = policy_of_all("open", "redact", "fail_mode = \"open\"");
    let bench = Bench::new(&(open + &policy_of_all("closed", "redact", "fail_mode = \"closed\"")));
    let first = frame("messageStart", r#"{"role":"assistant"}"#);
    let mut second = frame("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"a"}}"#);
    second[30] ^= 1;
    let sent = [first.clone(), second, b"rest".to_vec()].concat();
    for size in [1, 7, sent.len()] {
        let got = judged(&bench, "closed", &sent, size);
        assert!(got.end == End::Unreadable && got.out == first, "{size}");
        let got = judged(&bench, "open", &sent, size);
        assert!(got.end == End::Passed && got.out == sent, "{size}");
        let cut = judged(&bench, "closed", &sent[..first.len() + 20], size);
        assert!(cut.end == End::Unreadable && cut.out == first, "{size}");
    }
}

#[test]
fn a_stream_ends_in_an_exception_behind_whole_frames() {
    let bench = Bench::new(&policy_of_all("stops", "block", ""));
    let way = &ways()[0];
    let sent = way.frames(&["Take ", &github_token(&bench)]).concat();
    let got = judged(&bench, "stops", &sent, 5);
    let refusal = Refusal {
        status: 403,
        code: "content_blocked",
        message: "blocked".to_owned(),
        request_id: "r".to_owned(),
        call_id: None,
    };
    for wire in [Wire::Bedrock, Wire::Anthropic] {
        for end in [
            refusal.stream_error(wire, got.inspector.track()),
            refusal.stream_graceful(wire, got.inspector.track()),
        ] {
            let all = pieces(&[&got.out[..], &end].concat());
            let last = all.last().expect("an exception");
            assert_eq!(last.event.as_deref(), Some("validationException"));
            let told: Value = serde_json::from_slice(&last.payload()).expect("JSON");
            assert_eq!((&told["message"], &told["reason"]), (&json!("blocked"), &json!("content_blocked")));
        }
    }
}

#[test]
fn whole_bodies_of_converse_are_read_by_whose_words_they_are() {
    let bench = Bench::new(&policy_of_all("masks", "redact", ""));
    let token = github_token(&bench);
    let request = |at: &str| {
        let mut body = json!({
            "system": [{ "text": "Be brief." }],
            "messages": [
                { "role": "user", "content": [{ "text": "Hello" }] },
                { "role": "assistant", "content": [{ "toolUse": { "toolUseId": "t", "name": "f", "input": { "a": "b" } } }] },
                { "role": "user", "content": [{ "toolResult": { "toolUseId": "t", "content": [{ "text": "c" }] } }] },
            ],
            "toolConfig": { "tools": [{ "toolSpec": { "name": "f", "description": "d", "inputSchema": { "json": {} } } }] },
        });
        *body.pointer_mut(at).expect("a place") = json!(token);
        body.to_string()
    };
    for (at, channel) in [
        ("/system/0/text", "system"),
        ("/messages/0/content/0/text", "user"),
        ("/messages/1/content/0/toolUse/input/a", "tool_call"),
        ("/messages/2/content/0/toolResult/content/0/text", "tool_result"),
        ("/toolConfig/tools/0/toolSpec/description", "tool_definition"),
    ] {
        let body = request(at);
        let judged = bench.whole(Case::request("masks", "bedrock"), &mut bench.vault(), body.as_bytes());
        let found: Vec<&str> = judged.observations.iter().map(|seen| seen.channel.as_str()).collect();
        assert!(found.contains(&channel), "{at}: {found:?}");
        let left = judged.cleared.expect("it may leave").into_bytes();
        let left = String::from_utf8(left.to_vec()).expect("text");
        assert!(!left.contains(&token) && left.contains("toolConfig"), "{left}");
    }
    let answer = json!({
        "output": { "message": { "role": "assistant", "content": [
            { "reasoningContent": { "reasoningText": { "text": token, "signature": "s" } } },
            { "text": token },
            { "toolUse": { "toolUseId": "t", "name": "f", "input": { "a": token } } },
        ] } },
        "stopReason": "end_turn", "usage": { "inputTokens": 3, "cacheReadInputTokens": 2, "outputTokens": 7, "totalTokens": 12 },
    });
    let judged =
        bench.whole(Case::response("masks", "bedrock"), &mut bench.vault(), answer.to_string().as_bytes());
    let found: Vec<&str> = judged.observations.iter().map(|seen| seen.channel.as_str()).collect();
    for channel in ["reasoning", "assistant", "tool_call"] {
        assert!(found.contains(&channel), "{found:?}");
    }
    assert_eq!((judged.usage.prompt_tokens, judged.usage.completion_tokens), (Some(5), Some(7)));
}
