//! Texts that come otherwise than in the pieces and with the ends that a dialect knows.

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

fn events(payloads: &[Value]) -> String {
    payloads.iter().map(|payload| format!("data: {payload}\n\n")).collect()
}

/// Cuts a text into pieces of seven bytes.
fn pieces(text: &str) -> Vec<&str> {
    text.as_bytes().chunks(7).map(|piece| std::str::from_utf8(piece).expect("ASCII")).collect()
}

/// Judges a stream of server-sent events, in one chunk and in small ones, which must come to the same.
fn streamed(bench: &Bench, dialect: &str, stream: &str) -> Streamed {
    let case = Case::response("all", dialect);
    let run =
        |size| bench.stream(case, StreamFormat::Sse, &mut bench.vault(), stream.as_bytes().chunks(size));
    let (small, whole) = (run(11), run(stream.len()));
    assert_eq!(String::from_utf8_lossy(&small.out), String::from_utf8_lossy(&whole.out));
    assert_eq!((small.end, small.action), (whole.end, whole.action));
    whole
}

/// Returns the strings at a place of all payloads that left.
fn said(out: &[u8], pointer: &str) -> Vec<String> {
    let text = std::str::from_utf8(out).expect("UTF-8");
    let payloads = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|it| *it != "[DONE]");
    let payload = |it: &str| serde_json::from_str::<Value>(it).expect("JSON");
    payloads.filter_map(|it| payload(it).pointer(pointer)?.as_str().map(str::to_owned)).collect()
}

#[test]
fn an_end_that_stands_in_every_event_ends_nothing() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let text = format!("The key is {} indeed.", github_token(&bench));
    let masked = text.replace(&github_token(&bench), MASK);
    let chat = |reason: &str| {
        let delta = |piece: &&str| json!({ "choices": [{ "index": 0, "delta": { "content": piece }, "finish_reason": reason }] });
        let opening = json!({ "choices": [{ "index": 0, "delta": { "role": "assistant", "content": "" },
            "finish_reason": reason }] });
        [vec![opening], pieces(&text).iter().map(delta).collect()].concat()
    };
    let gemini = |piece: &&str| json!({ "candidates": [{ "index": 0, "content": { "parts": [{ "text": piece }] }, "finishReason": "STOP" }] });
    let gemini: Vec<Value> = pieces(&text).iter().map(gemini).collect();
    for (dialect, payloads, pointer) in [
        ("openai", chat(""), "/choices/0/delta/content"),
        ("openai", chat("stop"), "/choices/0/delta/content"),
        ("gemini", gemini, "/candidates/0/content/parts/0/text"),
    ] {
        let result = streamed(&bench, dialect, &events(&payloads));
        assert_eq!((result.end, result.action), (End::Finished, Action::Redact), "{dialect}");
        assert_eq!(said(&result.out, pointer).concat(), masked, "{dialect}");
    }
    let many: Vec<Value> = chat("").into_iter().cycle().take(400).collect();
    assert_eq!(streamed(&bench, "openai", &events(&many)).end, End::Finished);
}

#[test]
fn a_text_that_goes_on_behind_its_end_is_judged_with_what_was_said_before() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let content = |piece: &str| json!({ "choices": [{ "index": 0, "delta": { "content": piece } }] });
    let end = || json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    let harmless =
        events(&[content("It is 4"), end(), content("2 apples, "), content("so"), end(), content("")]);
    let result = streamed(&bench, "openai", &harmless);
    assert_eq!((result.end, String::from_utf8_lossy(&result.out).as_ref()), (End::Finished, &*harmless));
    let (head, tail) = token.split_at(15);
    let twice = [content(&format!("{token} {head}")), end(), content(tail), content(" so")];
    let result = streamed(&bench, "openai", &events(&twice));
    assert_eq!((result.end, result.action), (End::Unreadable, Action::Block));
    assert_eq!(said(&result.out, "/choices/0/delta/content").concat(), format!("{MASK} {head}"));
    assert_eq!(result.seen.iter().filter(|seen| seen.0 == "github_token").count(), 1);
    let block = |payload: &str, index: usize| {
        format!(
            "event: {payload}\ndata: {}\n\n",
            match payload {
                "content_block_stop" => json!({ "type": payload, "index": index }),
                _ =>
                    json!({ "type": payload, "index": index, "delta": { "type": "text_delta", "text": head } }),
            }
        )
    };
    let stream = ["content_block_delta", "content_block_stop", "content_block_delta"].map(|it| block(it, 0));
    assert_eq!(streamed(&bench, "anthropic", &stream.concat()).end, End::Unreadable);
}

#[test]
fn what_is_masked_in_an_answer_is_no_value_of_the_request() {
    let more = "[policies.all.detectors.email_address]\nmask = \"token\"\n";
    let bench = Bench::new(&(policy_of_all("all", "redact", "") + more));
    let email = valid(&bench, "email_address", 3);
    let content = |piece: &str| json!({ "choices": [{ "index": 0, "delta": { "content": piece } }] });
    let before = "Hello, this is a longer introduction. Write to ";
    let after = " please. Then go on with more text here.";
    let text = format!("{before}{email}{after}");
    let stream = events(&pieces(&text).into_iter().map(content).collect::<Vec<_>>()) + "data: [DONE]\n\n";
    let result = streamed(&bench, "openai", &stream);
    let left = said(&result.out, "/choices/0/delta/content").concat();
    assert_eq!((result.end, result.action), (End::Finished, Action::Redact));
    assert!(left.starts_with(&format!("{before}PII_")) && left.ends_with(after), "{left}");
    assert!(result.out.ends_with(b"data: [DONE]\n\n"));
}

#[test]
fn a_text_that_is_said_whole_each_time_is_masked_at_every_length() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let text = format!("Well then, the key is {token} and that is all.");
    let masked = text.replace(&token, MASK);
    let grown: Vec<&str> = (1..text.len()).step_by(5).chain([text.len()]).map(|end| &text[..end]).collect();
    let mut before = 0;
    let both = |grown: &&str| {
        let delta = &grown[before..];
        before = grown.len();
        json!({ "choices": [{ "index": 0, "delta": { "role": "assistant", "content": delta },
            "message": { "role": "assistant", "content": grown } }] })
    };
    let both: Vec<Value> = grown.iter().map(both).collect();
    let alone = |grown: &&str| json!({ "choices": [{ "index": 0, "message": { "content": grown } }] });
    let output =
        |grown: &&str| json!({ "output": { "text": grown, "finish_reason": "null" }, "request_id": "r" });
    for (dialect, payloads, pointer) in [
        ("openai", both, "/choices/0/message/content"),
        ("openai", grown.iter().map(alone).collect(), "/choices/0/message/content"),
        ("generic", grown.iter().map(output).collect(), "/output/text"),
    ] {
        let result = streamed(&bench, dialect, &events(&payloads));
        let left = said(&result.out, pointer);
        assert_eq!((result.end, left.len()), (End::Finished, payloads.len()), "{dialect}");
        assert_eq!(left.last(), Some(&masked), "{dialect}");
        assert!(left.iter().all(|it| masked.starts_with(it)), "{dialect}: {left:?}");
        assert!(!String::from_utf8_lossy(&result.out).contains(&token[..6]), "{dialect}");
    }
    let clean = events(&[
        json!({ "output": { "text": "It is a long introduction, " } }),
        json!({ "output": { "text": "It is a long introduction, 42" } }),
        json!({ "output": { "text": "else" } }),
    ]);
    assert_eq!(String::from_utf8_lossy(&streamed(&bench, "generic", &clean).out), clean);
}

#[test]
fn pieces_in_fields_that_nobody_named_are_put_together() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let text = format!("The key is {} indeed.", github_token(&bench));
    let masked = text.replace(&github_token(&bench), MASK);
    let chat =
        |piece: &&str| json!({ "choices": [{ "index": 0, "delta": { "brand_new": { "words": [piece] } } }] });
    let thread = |piece: &&str| {
        json!({ "object": "thread.message.delta", "delta": { "content": [
            { "index": 0, "type": "text", "text": { "value": piece, "annotations": [] } }] } })
    };
    for (payloads, pointer) in [
        (pieces(&text).iter().map(chat).collect::<Vec<_>>(), "/choices/0/delta/brand_new/words/0"),
        (pieces(&text).iter().map(thread).collect(), "/delta/content/0/text/value"),
    ] {
        let result = streamed(&bench, "openai", &events(&payloads));
        assert_eq!((result.end, said(&result.out, pointer).concat()), (End::Finished, masked.clone()));
    }
    let mixed =
        |index: Value, piece: &str| json!({ "choices": [{ "index": index, "delta": { "content": piece } }] });
    let (head, tail) = text.split_at(30);
    let stream = [mixed(json!(0), &head[..20]), mixed(json!("0"), &head[20..]), mixed(json!(0.0), tail)];
    let left = said(&streamed(&bench, "openai", &events(&stream)).out, "/choices/0/delta/content").concat();
    assert_eq!(left, masked);
    let disguised = events(&[json!({ "Choices": [{ "index": 0, "delta": { "content": "so" } }] })]);
    assert_eq!(streamed(&bench, "openai", &disguised).end, End::Unreadable);
}

#[test]
fn a_field_that_is_said_once_holds_nothing_back() {
    let bench = Bench::new("");
    let context = json!({ "citations": [{ "content": "number 42", "chunk_id": "7", "title": "On 1999" }] });
    let first = json!({ "choices": [{ "index": 0, "delta": { "role": "assistant", "context": context } }] });
    let content = |piece: &str| json!({ "choices": [{ "index": 0, "delta": { "content": piece } }] });
    let stream = events(&[first, content("So it is, "), content("and then. ")]);
    bench.with_inspector(Case::response("default", "openai"), |inspector| {
        let (mut judge, mut out) = (StreamInspector::new(StreamFormat::Sse, 1 << 20), Vec::new());
        judge.push(inspector, &mut bench.vault(), stream.as_bytes(), &mut out);
        assert_eq!(out.len(), 3, "what waits has nothing to wait for");
    });
}

#[test]
fn what_comes_at_once_waits_no_longer_than_what_comes_in_pieces() {
    let bench = Bench::new(&format!(
        "[limits]\nstream_hold_bytes_max = 4096\n{}",
        policy_of_all("all", "redact", "")
    ));
    let content = |piece: &str| json!({ "choices": [{ "index": 0, "delta": { "content": piece } }] });
    let stream = events(&vec![content("so it is. "); 500]);
    assert_eq!(streamed(&bench, "openai", &stream).end, End::Finished);
}

#[test]
fn texts_that_are_over_make_room_for_others() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let event = |index: usize, end: &str, word: &str| {
        let mut payload = json!({ "type": format!("response.output_text.{end}"), "item_id": "a", "output_index": index,
            "content_index": 0, "logprobs": [{ "token": word, "logprob": 0 }] });
        payload[if end == "done" { "text" } else { "delta" }] = json!(word);
        format!("event: response.output_text.{end}\ndata: {payload}\n\n")
    };
    let items = |index| [event(index, "delta", "So."), event(index, "done", "So.")].concat();
    let stream: String = (0..300).map(items).collect();
    let result = streamed(&bench, "openai", &stream);
    assert_eq!((result.end, String::from_utf8_lossy(&result.out).as_ref()), (End::Finished, &*stream));
}
