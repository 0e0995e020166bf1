//! Values that are parted over blocks of one answer, and characters that are parted over events.

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
/// What may leave of a value before it is known to be the begin of one.
const BEGIN_BYTES_MAX: usize = 8;

fn event(payload: &Value) -> String {
    format!("event: {}\ndata: {payload}\n\n", payload["type"].as_str().expect("a type"))
}

/// Writes an answer of several text blocks, each in one delta.
type Answer = fn(&[&str]) -> String;

fn messages(texts: &[&str]) -> String {
    let block = |(index, text): (usize, &&str)| {
        let start = json!({ "type": "content_block_start", "index": index, "content_block": { "type": "text", "text": "" } });
        let delta = json!({ "type": "content_block_delta", "index": index, "delta": { "type": "text_delta", "text": text } });
        [start, delta, json!({ "type": "content_block_stop", "index": index })]
    };
    let blocks = texts.iter().enumerate().flat_map(block).chain([json!({ "type": "message_stop" })]);
    blocks.map(|payload| event(&payload)).collect()
}

/// The same with a tool call between.
fn around_a_call(texts: &[&str]) -> String {
    let call = [
        json!({ "type": "content_block_start", "index": 7, "content_block": { "type": "tool_use", "id": "t", "name": "look", "input": {} } }),
        json!({ "type": "content_block_delta", "index": 7, "delta": { "type": "input_json_delta", "partial_json": "{\"a\":1}" } }),
        json!({ "type": "content_block_stop", "index": 7 }),
    ];
    let call: String = call.iter().map(event).collect();
    let answer = messages(texts);
    let second = answer.match_indices("event: content_block_start").nth(1).map_or(answer.len(), |(at, _)| at);
    let (before, behind) = answer.split_at(second);
    [before, &call, behind].concat()
}

fn parts(texts: &[&str]) -> String {
    responses(texts, |at| (0, at))
}

fn items(texts: &[&str]) -> String {
    responses(texts, |at| (at, 0))
}

/// Writes an answer whose texts are told in deltas, and each whole in events behind them.
fn responses(texts: &[&str], place: fn(usize) -> (usize, usize)) -> String {
    let text = |(at, text): (usize, &&str)| {
        let (output, content) = place(at);
        let of = |kind: &str, member: &str, value: Value| {
            let mut payload =
                json!({ "type": kind, "item_id": "i", "output_index": output, "content_index": content });
            payload[member] = value;
            payload
        };
        [
            of("response.output_text.delta", "delta", json!(text)),
            of("response.output_text.done", "text", json!(text)),
            of("response.content_part.done", "part", json!({ "type": "output_text", "text": text })),
        ]
    };
    let content: Vec<Value> =
        texts.iter().map(|text| json!({ "type": "output_text", "text": text })).collect();
    let response = json!({ "object": "response", "output": [{ "type": "message", "role": "assistant", "content": content }] });
    let end = json!({ "type": "response.completed", "response": response });
    texts.iter().enumerate().flat_map(text).chain([end]).map(|payload| event(&payload)).collect()
}

fn cohere(texts: &[&str]) -> String {
    let block = |(index, text): (usize, &&str)| {
        let content = |text: &str| json!({ "message": { "content": { "text": text } } });
        [
            json!({ "type": "content-start", "index": index, "delta": content("") }),
            json!({ "type": "content-delta", "index": index, "delta": content(text) }),
            json!({ "type": "content-end", "index": index }),
        ]
    };
    let end = json!({ "type": "message-end", "delta": { "finish_reason": "COMPLETE" } });
    texts.iter().enumerate().flat_map(block).chain([end]).map(|payload| event(&payload)).collect()
}

fn answers() -> [(&'static str, &'static str, Answer); 5] {
    [
        ("anthropic", "blocks", messages),
        ("anthropic", "blocks around a call", around_a_call),
        ("openai", "parts", parts),
        ("openai", "items", items),
        ("cohere", "blocks", cohere),
    ]
}

/// Returns the event that tells the last text of an answer in pieces.
fn event_of(dialect: &str, answer: &str) -> String {
    let kind = match dialect {
        "anthropic" => "content_block_delta",
        "openai" => "response.output_text.delta",
        _ => "content-delta",
    };
    let events = answer.split_inclusive("\n\n").filter(|event| event.contains(kind));
    events.last().expect("a piece").to_owned()
}

/// Judges a stream of server-sent events, in one chunk and in small ones, which must come to the same.
fn streamed(bench: &Bench, dialect: &str, stream: &str) -> Streamed {
    let case = Case::response("all", dialect);
    let run =
        |size| bench.stream(case, StreamFormat::Sse, &mut bench.vault(), stream.as_bytes().chunks(size));
    let (small, whole) = (run(13), run(stream.len()));
    assert_eq!(String::from_utf8_lossy(&small.out), String::from_utf8_lossy(&whole.out));
    assert_eq!((small.end, small.action), (whole.end, whole.action));
    whole
}

#[test]
fn a_secret_that_is_parted_over_blocks_does_not_leave_wherever_it_is_cut() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let key = github_token(&bench);
    let (before, behind) = ("So it goes: ", ", as it was told.");
    let text = format!("{before}{key}{behind}");
    for (dialect, name, answer) in answers() {
        for cut in 1..key.len() {
            let (head, tail) = text.split_at(before.len() + cut);
            let result = streamed(&bench, dialect, &answer(&[head, tail]));
            let out = String::from_utf8_lossy(&result.out);
            assert_eq!((result.end, result.action), (End::Finished, Action::Redact), "{name}, {cut}");
            if cut < BEGIN_BYTES_MAX {
                // So little of it is no value yet, and left: the mask stands for the rest of it.
                let parts = [&text[..before.len() + cut], &format!("{MASK}{behind}")];
                let is_left = out.contains(&event_of(dialect, &answer(&parts)));
                assert!(!out.contains(&key[cut..]) && is_left, "{name}, {cut}: {out}");
                continue;
            }
            let masked = answer(&[&format!("{before}{MASK}"), behind]);
            if key.len() - cut >= 4 && cut >= 4 {
                assert_eq!(out, masked, "{name}, {cut}");
            }
            assert_eq!(
                result.seen.iter().filter(|seen| seen.0 == "github_token").count(),
                1,
                "{name}, {cut}"
            );
        }
        let third = before.len() + key.len() / 3;
        let result = streamed(
            &bench,
            dialect,
            &answer(&[&text[..third], &text[third..third + 9], &text[third + 9..]]),
        );
        assert_eq!(
            String::from_utf8_lossy(&result.out),
            answer(&[&format!("{before}{MASK}"), "", behind]),
            "{name}"
        );
    }
}

#[test]
fn a_block_goes_on_behind_one_that_is_over_and_no_text_behind_its_own_end() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let key = github_token(&bench);
    let (head, tail) = key.split_at(20);
    let delta = |index: usize, text: &str| {
        event(
            &json!({ "type": "content_block_delta", "index": index, "delta": { "type": "text_delta", "text": text } }),
        )
    };
    let stop = |index: usize| event(&json!({ "type": "content_block_stop", "index": index }));
    // Two blocks at once are two texts.
    let at_once = [delta(0, head), delta(1, "so it is "), delta(0, tail), stop(0), stop(1)].concat();
    let result = streamed(&bench, "anthropic", &at_once);
    assert_eq!((result.end, result.action), (End::Finished, Action::Redact));
    let again = [delta(0, "so. "), stop(0), delta(1, "it is. "), delta(0, "so. ")].concat();
    assert_eq!(streamed(&bench, "anthropic", &again).end, End::Unreadable);
}

#[test]
fn blocks_of_prose_pass_as_they_come() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let texts = ["It is so.", "And so it was in 1999.", "\u{1f469}\u{200d}\u{1f4bb} "];
    for (dialect, name, answer) in answers() {
        let stream = answer(&texts);
        let result = streamed(&bench, dialect, &stream);
        assert_eq!(
            (result.end, String::from_utf8_lossy(&result.out).as_ref()),
            (End::Finished, &*stream),
            "{name}"
        );
    }
    let blocks = messages(&texts);
    let over = blocks.rfind("event: message_stop").expect("an end");
    bench.with_inspector(Case::response("all", "anthropic"), |inspector| {
        let (mut judge, mut out) = (StreamInspector::new(StreamFormat::Sse, 1 << 20), Vec::new());
        judge.push(inspector, &mut bench.vault(), &blocks.as_bytes()[..over], &mut out);
        assert_eq!(judge.held_bytes(), 0, "what is over waits for nothing");
    });
}

#[test]
fn what_waits_in_a_block_lets_a_long_call_pass() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let key = github_token(&bench);
    let call = |piece: &str| {
        event(
            &json!({ "type": "content_block_delta", "index": 1, "delta": { "type": "input_json_delta", "partial_json": piece } }),
        )
    };
    let begin = messages(&[&key[..20]]).replace(&event(&json!({ "type": "message_stop" })), "");
    let stream = begin + &call("[\"so it is. ") + &call("so it is. ").repeat(60_000);
    let result = bench.stream(
        Case::response("all", "anthropic"),
        StreamFormat::Sse,
        &mut bench.vault(),
        stream.as_bytes().chunks(4096),
    );
    assert_eq!(result.end, End::Finished);
}

#[test]
fn a_character_that_is_parted_over_events_passes_and_hides_nothing() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let content = |piece: &str| {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{piece}\"}}}}]}}\n\n")
    };
    let end = "data: [DONE]\n\n";
    for pieces in [
        &["so \\ud83d", "\\ude00 it is"][..],
        &["so \\ud83d", "\\ude00\\ud83d", "", "\\ude00\\\\"],
        &["\\\\ud83d", "so"],
        &["\\ud83d", "\\ude00"],
    ] {
        let stream: String = pieces.iter().map(|piece| content(piece)).chain([end.to_owned()]).collect();
        let result = streamed(&bench, "openai", &stream);
        assert_eq!((result.end, String::from_utf8_lossy(&result.out).as_ref()), (End::Finished, &*stream));
    }
    for pieces in [
        &["so \\ud83d", "it is"][..],
        &["so \\ude00"],
        &["so \\ud83d"],
        &["so \\ud83d it is"],
        &["so \\ud83d", "\\ud83d", "\\ude00"],
    ] {
        let stream: String = pieces.iter().map(|piece| content(piece)).chain([end.to_owned()]).collect();
        let result = streamed(&bench, "openai", &stream);
        assert_eq!(result.end, End::Unreadable, "{pieces:?}");
        assert!(!String::from_utf8_lossy(&result.out).contains("\\ud83d"), "{pieces:?}");
    }
    // Letters that read as plain ones, each cut in its middle.
    let key = github_token(&bench);
    let (mut pieces, mut piece) = (Vec::new(), String::new());
    for letter in key.chars() {
        let mathematical = match letter {
            'a'..='z' => u32::from(letter) - u32::from('a') + 0x1d41a,
            'A'..='Z' => u32::from(letter) - u32::from('A') + 0x1d400,
            other => {
                piece.push(other);
                continue;
            }
        };
        let mut units = [0; 2];
        char::from_u32(mathematical).expect("a letter").encode_utf16(&mut units);
        pieces.push(format!("{piece}\\u{:04x}", units[0]));
        piece = format!("\\u{:04x}", units[1]);
    }
    pieces.push(format!("{piece} so"));
    let stream: String = pieces.iter().map(|piece| content(piece)).chain([end.to_owned()]).collect();
    let result = streamed(&bench, "openai", &stream);
    assert_eq!((result.end, result.action), (End::Finished, Action::Redact));
    let out = String::from_utf8_lossy(&result.out);
    assert!(out.contains(MASK) && !out.contains("\\ud835"), "{out}");
}

#[test]
fn an_array_and_lines_are_read_as_such_whatever_they_are_called() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let key = github_token(&bench);
    let (head, tail) = key.split_at(20);
    let gemini = |text: &str| json!({ "candidates": [{ "index": 0, "content": { "role": "model", "parts": [{ "text": text }] } }] });
    let ollama = |text: &str| json!({ "model": "m", "message": { "role": "assistant", "content": text }, "done": false });
    let array = |one: &str, two: &str| format!("[{},\n{}]", gemini(one), gemini(two));
    let lines = |one: &str, two: &str| format!("{}\n{}\n", ollama(one), ollama(two));
    let masked = format!("It is {MASK}");
    for (dialect, sent, left) in [
        ("gemini", array(&format!("It is {head}"), &format!("{tail} so.")), array(&masked, " so.")),
        ("ollama", lines(&format!("It is {head}"), &format!("{tail} so.")), lines(&masked, " so.")),
    ] {
        let result = bench.stream(
            Case::response("all", dialect),
            StreamFormat::Sse,
            &mut bench.vault(),
            sent.as_bytes().chunks(17),
        );
        assert_eq!(
            (result.end, String::from_utf8_lossy(&result.out).as_ref()),
            (End::Finished, &*left),
            "{dialect}"
        );
    }
    let whole = bench.declared(
        Case::response("all", "gemini"),
        &mut bench.vault(),
        array(&format!("It is {head}"), &format!("{tail} so.")).as_bytes(),
        "text/plain",
    );
    let left = whole.cleared.expect("it passes").into_bytes();
    assert_eq!(String::from_utf8_lossy(&left), array(&masked, " so."));
}

#[test]
fn a_transcript_told_word_by_word_tells_no_more_than_its_text() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let (key, card) = (github_token(&bench), valid(&bench, "payment_card_bare", 3));
    let digits: Vec<char> = card.chars().filter(char::is_ascii_digit).collect();
    let groups: Vec<String> = digits.chunks(4).map(|group| group.iter().collect()).collect();
    let (head, tail) = key.split_at(20);
    let said: Vec<&str> = ["My", "card", "is"]
        .into_iter()
        .chain(groups.iter().map(String::as_str))
        .chain(["and", &key])
        .collect();
    let words: Vec<Value> =
        said.iter().map(|word| json!({ "word": word, "start": 0.25, "end": 0.5 })).collect();
    let segments = [
        format!(" My card is {}", groups[..2].join(" ")),
        format!(" {} and {head}", groups[2..].join(" ")),
        format!("{tail} so"),
    ];
    let segments: Vec<Value> =
        segments.iter().map(|text| json!({ "text": text, "tokens": [50364, 1222, 2998] })).collect();
    let body = json!({ "task": "transcribe", "text": said.join(" "), "words": words, "segments": segments });
    for dialect in ["openai", "generic"] {
        let case = Case::response("all", dialect);
        let judged = bench.whole(case, &mut bench.vault(), body.to_string().as_bytes());
        let left: Value =
            serde_json::from_slice(&judged.cleared.expect("it passes").into_bytes()).expect("JSON");
        let words: Vec<&str> = left["words"]
            .as_array()
            .expect("words")
            .iter()
            .filter_map(|word| word["word"].as_str())
            .collect();
        assert_eq!(words.len(), said.len(), "{dialect}");
        assert_eq!(words.last(), Some(&MASK), "{dialect}: {words:?}");
        assert!(groups[..groups.len() - 1].iter().all(|group| !words.contains(&group.as_str())), "{words:?}");
        let told = left["segments"].to_string();
        let secrets = [groups[1].as_str(), head, tail, "50364"];
        assert!(!secrets.iter().any(|it| told.contains(it)), "{dialect}: {told}");
        assert_eq!(words[..3], ["My", "card", "is"], "{dialect}");
    }
}
