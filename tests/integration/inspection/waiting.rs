//! How much of a benign stream waits: at most the word under way, and nothing where every detector is anchored.

use std::ops::Range;

use portcullis::llm::stream::StreamFormat;
use portcullis::policy::decision::Direction;
use portcullis::policy::stream::StreamInspector;
use portcullis::scan::hold::Watch;
use portcullis::scan::lane::Lane;
use portcullis::scan::scanner::Scanner;
use serde_json::Value;
use serde_json::json;

use super::Bench;
use super::Case;
use super::End;
use super::github_token;
use super::policy_of_all;

const CODE: &str = include_str!("../../../src/scan/lane.rs");

/// Returns where a model's tokens end: words with the space before them, long ones in pieces, three digits, signs.
fn tokens(text: &str) -> Vec<usize> {
    const PIECE_BYTES: usize = 7;
    let kind = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | 0x80.. => 0,
        b'0'..=b'9' => 1,
        b' ' => 2,
        b'\n' => 3,
        _ => 4,
    };
    let bytes = text.as_bytes();
    let mut ends = Vec::new();
    let mut from = 0;
    for at in 1..=bytes.len() {
        let (before, next) = (kind(bytes[at - 1]), bytes.get(at).map(|byte| kind(*byte)));
        let most = if before == 1 { 3 } else { PIECE_BYTES };
        let ends_here = match next {
            None => true,
            Some(next) if next == before => at - from > most,
            Some(_) => !(before == 2 && at - from == 1),
        };
        if ends_here && text.is_char_boundary(at) {
            ends.push(at);
            from = at;
        }
    }
    ends
}

/// Returns ends of pieces of one to twelve bytes, of no pattern.
fn anywhere(text: &str) -> Vec<usize> {
    let mut state = 7_u32;
    let mut at = 0;
    let mut ends = Vec::new();
    while at < text.len() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        at = (at + 1 + (state >> 24) as usize % 12).min(text.len());
        while !text.is_char_boundary(at) {
            at += 1;
        }
        ends.push(at);
    }
    ends
}

/// Returns, for each end of a piece, what waits there.
fn waiting(scanner: &Scanner, watch: &Watch, text: &str, ends: &[usize]) -> Vec<Range<usize>> {
    let (mut lane, mut from) = (Lane::new(), 0);
    let step = |end: &usize| {
        let advance = lane.feed(scanner, watch, &text.as_bytes()[from..*end]).expect("it can be judged");
        from = *end;
        advance.judged_to..*end
    };
    ends.iter().map(step).collect()
}

/// The share of cuts at which something waits, in percent, and the longest wait in bytes.
fn share(waits: &[Range<usize>]) -> (f64, usize) {
    let held = waits.iter().filter(|wait| !wait.is_empty()).count();
    let longest = waits.iter().map(ExactSizeIterator::len).max().unwrap_or_default();
    (100.0 * held as f64 / waits.len() as f64, longest)
}

#[test]
fn hardly_a_token_of_prose_or_code_waits_and_never_more_than_the_word_under_way() {
    let bench = Bench::new("");
    let watch = bench.rules.policy("default").expect("a policy").watch(Direction::Response);
    for (name, text) in [("prose", &*prose()), ("code", CODE)] {
        // Cut within words, about a third wait: keys begin as words do, `thog-` as `the`.
        for (ends, most) in [(tokens(text), 18.0), (anywhere(text), 38.0)] {
            let waits = waiting(&bench.rules.scanner, watch, text, &ends);
            let (share, longest) = share(&waits);
            let at = waits.iter().max_by_key(|wait| wait.len()).map(|wait| &text[wait.clone()]);
            assert!(
                share < most && longest <= 24,
                "{name}: {share} % of cuts wait, up to {longest} bytes: {at:?}"
            );
            let waiting = waits.iter().map(|wait| &text[wait.clone()]);
            let beyond =
                |wait: &&str| wait.trim_end().contains(char::is_whitespace) && !wait.contains(is_digit);
            let beyond: Vec<&str> = waiting.filter(beyond).collect();
            let few = if name == "code" { waits.len() / 100 } else { 0 };
            assert!(beyond.len() <= few, "{name}: {beyond:?} are more than a word or a number");
        }
    }
}

#[test]
fn where_every_detector_is_anchored_only_words_that_read_as_base64_wait() {
    let bench = Bench::new("");
    let scanner = &bench.rules.scanner;
    let named = ["github_token", "slack_bot_token", "huggingface_token", "django_secret_key", "newrelic_key"];
    let anchored = named.iter().map(|name| scanner.find(name).expect("a detector")).collect();
    let watch = Watch::compile(scanner.detectors(), &anchored, &anchored);
    for (name, text) in [("prose", &*prose()), ("code", CODE)] {
        let waits = waiting(scanner, &watch, text, &tokens(text));
        let (share, longest) = share(&waits);
        assert!(share < 4.0 && longest <= 8, "{name}: {share} % of cuts wait, up to {longest} bytes");
    }
}

fn is_digit(character: char) -> bool {
    character.is_ascii_digit()
}

/// Returns pages of the manual that are running text.
fn prose() -> String {
    let pages = [
        include_str!("../../../src/manual/compatibility.rs"),
        include_str!("../../../src/manual/packs.rs"),
        include_str!("../../../src/manual/streaming.rs"),
    ];
    let lines = pages.iter().flat_map(|page| page.lines()).map(|line| line.trim_start_matches("//!"));
    lines.collect::<String>().replace('`', "")
}

#[test]
fn an_answer_does_not_wait_for_the_end_of_the_thoughts_before_it() {
    let bench = Bench::new("");
    let openai = |delta: Value| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] });
    let ollama = |message: Value| json!({ "model": "m", "message": message, "done": false });
    // A number and a word are under way where the thoughts break off.
    for thought in ["So the answer is 42", "It is in the drawe"] {
        for (dialect, format, events) in [
            (
                "openai",
                StreamFormat::Sse,
                [openai(json!({ "reasoning_content": thought })), openai(json!({ "content": "It is so, " }))],
            ),
            (
                "openai",
                StreamFormat::Sse,
                [openai(json!({ "reasoning": thought })), openai(json!({ "content": "It is so, " }))],
            ),
            (
                "ollama",
                StreamFormat::Ndjson,
                [
                    ollama(json!({ "role": "assistant", "content": "", "thinking": thought })),
                    ollama(json!({ "role": "assistant", "content": "It is so, " })),
                ],
            ),
        ] {
            let written = |event: &Value| match format {
                StreamFormat::Sse => format!("data: {event}\n\n"),
                _ => format!("{event}\n"),
            };
            let stream: String = events.iter().map(written).collect();
            for policy in ["default", "strict"] {
                bench.with_inspector(Case::response(policy, dialect), |inspector| {
                    let (mut judge, mut out) = (StreamInspector::new(format, 1 << 20), Vec::new());
                    judge.push(inspector, &mut bench.vault(), stream.as_bytes(), &mut out);
                    assert!(!out.is_empty(), "{policy}, {dialect}: {stream}");
                });
            }
        }
    }
}

#[test]
fn thoughts_that_end_in_what_may_be_a_key_are_waited_for() {
    let bench = Bench::new(&policy_of_all("all", "block", ""));
    let key = github_token(&bench);
    let event = |delta: Value| {
        format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] }))
    };
    let thought = |text: &str| event(json!({ "reasoning_content": text }));
    let begun =
        [thought(&format!("It is {}", &key[..16])), event(json!({ "content": "It is so, " }))].concat();
    bench.with_inspector(Case::response("all", "openai"), |inspector| {
        let (mut judge, mut out) = (StreamInspector::new(StreamFormat::Sse, 1 << 20), Vec::new());
        judge.push(inspector, &mut bench.vault(), begun.as_bytes(), &mut out);
        let left: Vec<u8> = out.into_iter().flat_map(|cleared| cleared.into_bytes().to_vec()).collect();
        assert!(!String::from_utf8_lossy(&left).contains(&key[..8]), "the key has begun to leave");
    });
    let whole = [begun.as_str(), &thought(&key[16..]), "data: [DONE]\n\n"].concat();
    let streamed = bench.stream(
        Case::response("all", "openai"),
        StreamFormat::Sse,
        &mut bench.vault(),
        [whole.as_bytes()],
    );
    assert_eq!(streamed.end, End::Blocked);
    assert!(!String::from_utf8_lossy(&streamed.out).contains(&key[..8]));
}

/// A number at the end of an answer waited for more of it, although the answer had gone over to calling a tool.
#[test]
fn an_answer_that_calls_a_tool_does_not_wait_for_the_rest_of_its_last_word() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let openai = |delta: Value| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] });
    let gemini = |part: Value| json!({ "candidates": [{ "index": 0, "content": { "role": "model", "parts": [part] } }] });
    let ollama = |message: Value| json!({ "model": "m", "message": message, "done": false });
    let called = json!([{ "index": 0, "id": "call_1", "type": "function", "function": { "name": "f", "arguments": "" } }]);
    type Content<'a> = &'a dyn Fn(&str) -> Value;
    let cases: [(&str, Content<'_>, Value); 3] = [
        ("openai", &|it| openai(json!({ "content": it })), openai(json!({ "tool_calls": called }))),
        (
            "gemini",
            &|it| gemini(json!({ "text": it })),
            gemini(json!({ "functionCall": { "name": "f", "args": {} } })),
        ),
        (
            "ollama",
            &|it| ollama(json!({ "role": "assistant", "content": it })),
            ollama(
                json!({ "role": "assistant", "content": "", "tool_calls": [{ "function": { "name": "f", "arguments": {} } }] }),
            ),
        ),
    ];
    let written = |event: &Value| format!("data: {event}\n\n");
    let token = github_token(&bench);
    for (dialect, content, call) in cases {
        for text in ["So the answer is 42", "It is in the drawe"] {
            let stream = [content(text), call.clone()].map(|it| written(&it)).concat();
            bench.with_inspector(Case::response("all", dialect), |inspector| {
                let (mut judge, mut out) = (StreamInspector::new(StreamFormat::Sse, 1 << 20), Vec::new());
                judge.push(inspector, &mut bench.vault(), stream.as_bytes(), &mut out);
                assert!(!out.is_empty(), "{dialect}: {stream}");
            });
        }
        // Where it goes on all the same, and makes a value, that does not leave.
        for cut in 1..token.len() {
            let (head, tail) = token.split_at(cut);
            let stream = [content(&format!("It is {head}")), call.clone(), content(&format!("{tail} so"))];
            let stream = stream.map(|it| written(&it)).concat();
            let case = Case::response("all", dialect);
            let result = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
            let left = String::from_utf8(result.out).expect("UTF-8");
            assert_eq!(result.end, End::Finished, "{dialect} {cut}: {left}");
            // So little of it is no value yet: it left, and the mask stands for the rest of it.
            let kept = if cut < 8 { tail } else { head };
            assert!(!left.contains(kept), "{dialect} {cut}: {left}");
        }
    }
}

/// Whatever came before it, an answer waited for more of it until its end.
#[test]
fn an_answer_does_not_wait_for_the_rest_of_what_it_has_left() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let part = |part: Value| json!({ "candidates": [{ "index": 0, "content": { "role": "model", "parts": [part] } }] });
    let text = |it: &str| part(json!({ "text": it }));
    let code = |it: &str| part(json!({ "executableCode": { "language": "PYTHON", "code": it } }));
    let output = |it: &str| part(json!({ "codeExecutionResult": { "outcome": "OUTCOME_OK", "output": it } }));
    let delta = |it: &str| json!({ "type": "response.shell_call_command.delta", "output_index": 0, "command_index": 0, "delta": it });
    let done = |it: &str| json!({ "type": "response.shell_call_command.done", "output_index": 0, "command_index": 0, "command": it });
    let over = json!({ "type": "response.output_item.done", "output_index": 0, "item": { "id": "sh_1", "type": "shell_call", "status": "completed" } });
    let cases: [(&str, Vec<Value>); 8] = [
        (
            "gemini",
            vec![part(json!({ "text": "The numbers up to 50", "thought": true })), text("It is so, ")],
        ),
        ("gemini", vec![code("x = 50"), text("It is so, ")]),
        ("gemini", vec![output("6.28"), text("It is so, ")]),
        ("gemini", vec![text("It is 50"), code("print(50)\n")]),
        (
            "gemini",
            vec![text("It is 50"), part(json!({ "inlineData": { "mimeType": "image/png", "data": "" } }))],
        ),
        ("openai", vec![delta("head -n 50"), done("head -n 50")]),
        ("openai", vec![delta("pytest tests/test_a.py"), over.clone()]),
        (
            "openai",
            vec![
                json!({ "type": "response.new_thing.delta", "output_index": 0, "new": { "thing": "is 50" } }),
                over,
            ],
        ),
    ];
    for (dialect, events) in cases {
        let stream: String = events.iter().map(|it| format!("data: {it}\n\n")).collect();
        bench.with_inspector(Case::response("all", dialect), |inspector| {
            let (mut judge, mut out) = (StreamInspector::new(StreamFormat::Sse, 1 << 20), Vec::new());
            judge.push(inspector, &mut bench.vault(), stream.as_bytes(), &mut out);
            assert!(!out.is_empty(), "{dialect}: {stream}");
        });
    }
}
