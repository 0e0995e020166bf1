//! Streams that are blocked, broken or oddly written.

use portcullis::llm::dialect::Wire;
use portcullis::llm::refusal::CONTENT_BLOCKED;
use portcullis::llm::refusal::Refusal;
use portcullis::llm::stream::StreamFormat;
use portcullis::policy::decision::Action;
use serde_json::Value;

use super::Bench;
use super::Case;
use super::End;
use super::carrier::CARRIERS;
use super::carrier::Carrier;
use super::github_token;
use super::policy_of_all;
use super::valid;

fn named(name: &str) -> &'static Carrier {
    CARRIERS.iter().find(|carrier| carrier.name == name).expect("a carrier")
}

/// Returns the refusal of a blocked answer.
fn refusal() -> Refusal {
    Refusal {
        status: 403,
        code: CONTENT_BLOCKED,
        message: "blocked".to_owned(),
        request_id: "r1".to_owned(),
        call_id: None,
    }
}

#[test]
fn a_blocked_stream_ends_before_the_match_at_every_cut() {
    let bench = Bench::new(&policy_of_all("all", "block", ""));
    let token = github_token(&bench);
    let text = format!("It is {token} or so");
    let mut faults = Vec::new();
    for carrier in &CARRIERS {
        let case = Case::response("all", carrier.dialect);
        for cut in 0..=text.len() {
            let stream = carrier.stream(&[&text[..cut], &text[cut..]]);
            let result = bench.stream(case, carrier.format, &mut bench.vault(), [stream.as_bytes()]);
            let left = carrier.read(&result.out);
            let first = result.seen.iter().find(|seen| seen.1 == Action::Block).map(|seen| seen.0.as_str());
            if (result.end, left.as_str(), first) != (End::Blocked, "It is ", Some("github_token")) {
                faults.push(format!("{} at {cut}: {:?} {left:?} {first:?}", carrier.name, result.end));
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_blocked_stream_ends_in_the_callers_own_words() {
    let bench = Bench::new(&policy_of_all("all", "block", ""));
    let text = format!("It is {} or so", github_token(&bench));
    let refusal = refusal();
    // The place, its API, where the error stands in the last event, and what a graceful end says.
    let table = [
        ("chat content", Wire::OpenAiChat, "/error/code", "\"finish_reason\":\"content_filter\""),
        ("completions", Wire::OpenAiCompletions, "/error/code", "\"finish_reason\":\"content_filter\""),
        ("output_text", Wire::OpenAiResponses, "/error/code", "event: response.incomplete\n"),
        ("text", Wire::Anthropic, "/error/type", "\"stop_reason\":\"refusal\""),
        ("gemini part", Wire::Gemini, "/error/status", "\"finishReason\":\"SAFETY\""),
        ("gemini array", Wire::Gemini, "/error/status", "\"finishReason\":\"SAFETY\""),
        ("ollama chat", Wire::OllamaChat, "/error", "\"done\":true"),
        ("ollama generate", Wire::OllamaGenerate, "/error", "\"done\":true"),
    ];
    for (name, wire, pointer, graceful) in table {
        let carrier = named(name);
        let stream = carrier.stream(&[&text]);
        let case = Case::response("all", carrier.dialect);
        let result = bench.stream(case, carrier.format, &mut bench.vault(), [stream.as_bytes()]);
        let track = result.inspector.track();
        let error = [result.out.clone(), refusal.stream_error(wire, track)].concat();
        let last = last_payload(carrier.format, &String::from_utf8(error).expect("UTF-8"));
        assert!(last.pointer(pointer).is_some_and(|told| !told.is_null()), "{name}: {last}");
        let ended =
            String::from_utf8([result.out, refusal.stream_graceful(wire, track)].concat()).expect("UTF-8");
        last_payload(carrier.format, &ended);
        assert!(ended.contains(graceful) && !ended.contains("\"error\":{"), "{name}: {ended}");
    }
}

#[test]
fn a_response_that_ends_gracefully_tells_again_what_left_and_nothing_more() {
    let bench = Bench::new(&policy_of_all("all", "block", "stream_block = \"graceful\""));
    let text = format!("It is {} or so", github_token(&bench));
    let delta = |text: &str| {
        format!(
            r#"data: {{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"{text}"}}"#
        )
    };
    let begin = [
        r#"data: {"type":"response.created","response":{"id":"resp_1","output":[]}}"#,
        r#"data: {"type":"response.output_item.added","output_index":0,"item":{"id":"msg_1","type":"message","content":[]}}"#,
        r#"data: {"type":"response.content_part.added","output_index":0,"content_index":0,"part":{"type":"output_text","text":""}}"#,
    ];
    for cut in 0..=text.len() {
        let deltas = [delta(&text[..cut]), delta(&text[cut..])];
        let events = begin.iter().map(|event| (*event).to_owned()).chain(deltas);
        let stream: String = events.map(|event| event + "\n\n").collect();
        let case = Case::response("all", "openai");
        let result = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
        let end = refusal().stream_graceful(Wire::OpenAiResponses, result.inspector.track());
        let last = last_payload(StreamFormat::Sse, std::str::from_utf8(&end).expect("UTF-8"));
        assert_eq!(last["response"]["output"][0]["content"][0]["text"], "It is ", "{cut}");
    }
}

#[test]
fn an_event_that_is_cut_within_its_text_tells_no_end() {
    let bench = Bench::new(&policy_of_all("all", "block", ""));
    let text = format!("It is {} or so", github_token(&bench));
    let refusal = refusal();
    let (sse, lines) = (StreamFormat::Sse, StreamFormat::Ndjson);
    // The API, an event that holds all of a text and its end, how it leaves, and what ends it instead.
    let table = [
        (
            (Wire::OpenAiChat, sse),
            format!(
                r#"data: {{"choices":[{{"index":3,"delta":{{"content":"{text}"}},"finish_reason":"stop"}}]}}"#
            ),
            r#"data: {"choices":[{"index":3,"delta":{"content":"It is "},"finish_reason":null}]}"#,
            r#""index":3,"logprobs":null}"#,
        ),
        (
            (Wire::OpenAiCompletions, sse),
            format!(r#"data: {{"choices":[{{"index":0,"text":"{text}","finish_reason": "length"}}]}}"#),
            r#"data: {"choices":[{"index":0,"text":"It is ","finish_reason": null}]}"#,
            r#""finish_reason":"content_filter""#,
        ),
        (
            (Wire::Gemini, sse),
            format!(
                r#"data: {{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}]}},"finishReason":"STOP"}}]}}"#
            ),
            r#"data: {"candidates":[{"content":{"parts":[{"text":"It is "}]},"finishReason":null}]}"#,
            r#""finishReason":"SAFETY""#,
        ),
        (
            (Wire::OllamaChat, lines),
            format!(r#"{{"message":{{"content":"{text}"}},"done" : true,"done_reason":"stop"}}"#),
            r#"{"message":{"content":"It is "},"done" : false,"done_reason":null}"#,
            r#""done":true"#,
        ),
        (
            (Wire::Cohere, sse),
            format!(
                r#"data: {{"type":"content-delta","index":0,"delta":{{"message":{{"content":{{"text":"{text}"}}}},"finish_reason":"COMPLETE"}}}}"#
            ),
            r#"data: {"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"It is "}},"finish_reason":null}}"#,
            r#""finish_reason":"ERROR""#,
        ),
        (
            (Wire::Generic, sse),
            format!(r#"data: {{"token":{{"text":"{text}"}},"details":{{"finish_reason":"length"}}}}"#),
            r#"data: {"token":{"text":"It is "},"details":{"finish_reason":null}}"#,
            r#""code":"content_blocked""#,
        ),
    ];
    for ((wire, format), event, cut, end) in table {
        let dialect = match wire {
            Wire::Gemini => "gemini",
            Wire::OllamaChat => "ollama",
            Wire::Cohere => "cohere",
            Wire::Generic => "generic",
            _ => "openai",
        };
        let event = format!("{event}\n{}", if format == sse { "\n" } else { "" });
        let case = Case::response("all", dialect);
        let result = bench.stream(case, format, &mut bench.vault(), [event.as_bytes()]);
        let left = String::from_utf8(result.out).expect("UTF-8");
        assert_eq!((result.end, left.trim_end()), (End::Blocked, cut));
        let graceful = refusal.stream_graceful(wire, result.inspector.track());
        let graceful = String::from_utf8(graceful).expect("UTF-8");
        assert!(graceful.contains(end), "{graceful}");
    }
}

/// Returns the last payload of a stream that ended as it should.
fn last_payload(format: StreamFormat, stream: &str) -> Value {
    let parse =
        |text: &str| serde_json::from_str(text).unwrap_or_else(|_| panic!("not JSON: {text} in {stream}"));
    match format {
        StreamFormat::Sse => {
            assert!(stream.ends_with("\n\n"), "{stream}");
            let mut payloads = stream.lines().filter_map(|line| line.strip_prefix("data: "));
            parse(payloads.rfind(|payload| *payload != "[DONE]").expect("a payload"))
        }
        StreamFormat::Ndjson | StreamFormat::TypedLines | StreamFormat::AmazonEvents | StreamFormat::Text => {
            parse(stream.lines().next_back().expect("a line"))
        }
        StreamFormat::JsonArray => {
            let all: Value = parse(stream);
            all.as_array().and_then(|all| all.last()).expect("an element").clone()
        }
    }
}

#[test]
fn other_choices_blocks_and_calls_that_come_between_change_nothing() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let (head, tail) = token.split_at(12);
    let delta = |index: usize, delta: &str| {
        format!("data: {{\"choices\":[{{\"index\":{index},\"delta\":{delta}}}]}}\n\n")
    };
    let call = |index: usize, text: &str| {
        delta(0, &format!(r#"{{"tool_calls":[{{"index":{index},"function":{{"arguments":"{text}"}}}}]}}"#))
    };
    let content = |index: usize, text: &str| delta(index, &format!("{{\"content\":\"{text}\"}}"));
    let thought = |text: &str| delta(0, &format!("{{\"reasoning_content\":\"{text}\"}}"));
    let stream = [
        content(0, &format!("a {head}")),
        content(1, &format!("b {head}")),
        call(0, head),
        thought(head),
        call(1, "{\\\"x\\\":"),
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n".to_owned(),
        ": keep-alive\n\n".to_owned(),
        thought(tail),
        call(0, tail),
        content(1, &format!("{tail} b")),
        content(0, &format!("{tail} a")),
        call(1, "1}"),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    let expected = stream.replace(head, "[REDACTED:github_token]").replace(tail, "");
    let case = Case::response("all", "openai");
    for size in [1, 50, stream.len()] {
        let result =
            bench.stream(case, StreamFormat::Sse, &mut bench.vault(), stream.as_bytes().chunks(size));
        assert_eq!(String::from_utf8(result.out).expect("UTF-8"), expected);
        assert_eq!(result.seen.iter().filter(|seen| seen.0 == "github_token").count(), 4);
    }
}

#[test]
fn every_way_to_write_events_is_read_and_kept() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let (head, tail) = token.split_at(9);
    let payload =
        |text: &str| format!("{{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}");
    let (one, two) = (payload(head), payload(tail));
    let in_two_lines = |payload: &str| payload.replacen(":[", ":\ndata: [", 1);
    let plain = format!("data: {one}\n\ndata: {two}\n\ndata: [DONE]\n\n");
    let forms = [
        plain.clone(),
        plain.replace('\n', "\r\n"),
        plain.replace('\n', "\r"),
        format!("\u{feff}{plain}"),
        plain.replace("data: ", "data:"),
        plain.trim_end().to_owned(),
        format!("data: {one}\n\ndata: {two}\n\n"),
        format!("data: {one}\n\ndata: {two}"),
        format!(
            "id: 7\nretry: 10\ndata: {one}\n\n: ping\n\nevent: x\nid: 8\ndata: {two}\n\ndata: [DONE]\n\n"
        ),
        format!("data: {}\n\ndata: {}\n\ndata: [DONE]\n\n", in_two_lines(&one), in_two_lines(&two)),
    ];
    let case = Case::response("all", "openai");
    for form in forms {
        let expected = form.replace(head, "[REDACTED:github_token]").replace(tail, "");
        for size in [1, 3, form.len()] {
            let result =
                bench.stream(case, StreamFormat::Sse, &mut bench.vault(), form.as_bytes().chunks(size));
            assert_eq!(result.end, End::Finished, "{form:?}");
            assert_eq!(String::from_utf8(result.out).expect("UTF-8"), expected);
        }
    }
}

#[test]
fn what_stands_beside_payloads_is_read_too() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    for (before, after) in [(": ", "\n\n"), ("id: ", "\ndata: {}\n\n"), ("event: ", "\ndata: {}\n\n")] {
        let stream = format!("{before}{token}{after}data: [DONE]\n\n");
        let case = Case::response("all", "openai");
        let result = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
        let left = String::from_utf8(result.out).expect("UTF-8");
        assert_eq!(left, stream.replace(&token, "[REDACTED:github_token]"));
    }
}

#[test]
fn what_cannot_be_read_ends_a_stream_or_passes_as_the_policy_says() {
    let open = policy_of_all("open", "redact", "fail_mode = \"open\"");
    let bench = Bench::new(&format!("{}{open}", policy_of_all("closed", "redact", "fail_mode = \"closed\"")));
    let before = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"fine.\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    for broken in [
        "data: {\"a\":1,\"a\":2}\n\n",
        "data: {\"a\":\"\\ud800\"}\n\n",
        "data: nonsense\n\n",
        "data: {\"a\":",
    ] {
        let stream = format!("{before}{broken}");
        let run = |policy| {
            let case = Case::response(policy, "openai");
            bench.stream(case, StreamFormat::Sse, &mut bench.vault(), stream.as_bytes().chunks(5))
        };
        let closed = run("closed");
        assert_eq!((closed.end, closed.action), (End::Unreadable, Action::Block), "{broken}");
        assert_eq!(closed.out, before.as_bytes(), "{broken}");
        let open = run("open");
        assert_eq!((open.end, open.action), (End::Passed, Action::Monitor), "{broken}");
        assert_eq!(open.out, stream.as_bytes(), "{broken}");
    }
}

#[test]
fn a_stream_that_holds_back_too_much_meets_the_fail_mode() {
    let policies = [("open", "open"), ("closed", "closed")]
        .map(|(name, fail)| policy_of_all(name, "redact", &format!("fail_mode = \"{fail}\"")));
    let bench = Bench::new(&format!("[limits]\nstream_hold_bytes_max = 4096\n{}", policies.concat()));
    let carrier = named("chat content");
    let key = valid(&bench, "private_key", 1);
    let text = format!("{}{}", &key[..key.len() - 40], "AAAA".repeat(4000));
    let pieces: Vec<&str> =
        text.as_bytes().chunks(500).map(|it| std::str::from_utf8(it).expect("ASCII")).collect();
    let stream = carrier.stream(&pieces);
    let run = |policy| {
        let case = Case::response(policy, "openai");
        bench.stream(case, carrier.format, &mut bench.vault(), stream.as_bytes().chunks(100))
    };
    let closed = run("closed");
    assert_eq!(closed.end, End::Unreadable);
    assert_eq!(carrier.read(&closed.out), "");
    let open = run("open");
    assert_eq!((open.end, open.out), (End::Passed, stream.into_bytes()));
}

#[test]
fn a_blocking_match_beside_the_lanes_never_leaves_with_its_event() {
    let bench = Bench::new(&policy_of_all("all", "block", ""));
    let token = github_token(&bench);
    let other = valid(&bench, "github_token", 8);
    let chat = |content: &str, more: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{content}\"}}}}],\"x\":\"{more}\"}}\n\n"
        )
    };
    let block =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","input":{"k":"THE"}}}"#;
    let streams = [
        ("openai", chat("so", &token)),
        ("openai", chat(&format!("so {other} it"), &token)),
        ("openai", format!(": {token}\n\ndata: {{}}\n\n")),
        ("anthropic", format!("event: content_block_start\ndata: {}\n\n", block.replace("THE", &token))),
    ];
    for (dialect, stream) in streams {
        let result = bench.stream(
            Case::response("all", dialect),
            StreamFormat::Sse,
            &mut bench.vault(),
            [stream.as_bytes()],
        );
        let left = String::from_utf8(result.out).expect("UTF-8");
        assert_eq!(result.end, End::Blocked, "{stream}");
        assert!(!left.contains(&token) && !left.contains(&other), "{left}");
    }
}
