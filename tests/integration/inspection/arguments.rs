//! What a model gives to tools: JSON within a string, and JSON of its own.

use portcullis::llm::stream::StreamFormat;
use portcullis::policy::decision::Action;
use portcullis::redact::token::Vault;
use serde_json::Value;
use serde_json::json;

use super::Bench;
use super::Case;
use super::End;
use super::policy_of_all;
use super::tokens;
use super::valid;

/// Masks everything.
fn bench() -> Bench {
    Bench::new(&policy_of_all("mask", "redact", ""))
}

/// Returns what of a stream of OpenAI's is arguments.
fn arguments_of(out: &[u8]) -> String {
    let out = std::str::from_utf8(out).expect("UTF-8");
    let events = out.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    let pieces = events.map(|data| {
        let event: Value = serde_json::from_str(data).expect("JSON");
        let piece = &event["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"];
        piece.as_str().unwrap_or_default().to_owned()
    });
    pieces.collect()
}

fn event(delta: &Value, reason: Option<&str>) -> String {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
    format!("data: {}\n\n", json!({ "object": "chat.completion.chunk", "choices": [choice] }))
}

fn call(arguments: &str) -> Value {
    json!({ "tool_calls": [{ "index": 0, "function": { "name": "pay", "arguments": arguments } }] })
}

#[test]
fn masked_arguments_are_still_json_streamed_or_not() {
    let bench = bench();
    let card = valid(&bench, "payment_card_bare", 1);
    let arguments = format!(
        r#"{{"note":"for\nann.lee@example.org\u0021","card number":{card},"cards":[{card},7],"n":1.50}}"#
    );
    let check = |masked: &str, how: &str| {
        let parsed: Value = serde_json::from_str(masked).unwrap_or_else(|_| panic!("{how}: {masked}"));
        let note = parsed["note"].as_str().unwrap();
        assert!(
            note.starts_with("for\n") && note.ends_with('!') && !note.contains("ann.lee"),
            "{how}: {note}"
        );
        assert!(parsed["card number"].is_string() && parsed["cards"][0].is_string(), "{how}: {masked}");
        assert_eq!((&parsed["cards"][1], &parsed["n"]), (&json!(7), &json!(1.5)));
        assert!(!masked.contains(&card) && masked.ends_with(r#","n":1.50}"#), "{how}: {masked}");
    };
    let case = Case::response("mask", "openai");
    let message = json!({ "role": "assistant", "tool_calls": [{ "id": "c", "type": "function",
        "function": { "name": "pay", "arguments": arguments } }] });
    let body = json!({ "object": "chat.completion", "choices": [{ "index": 0, "message": message }] });
    let whole = bench.whole(case, &mut bench.vault(), body.to_string().as_bytes());
    let out: Value = serde_json::from_slice(&whole.cleared.unwrap().into_bytes()).unwrap();
    check(out["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"].as_str().unwrap(), "whole");
    for step in [1, 2, 3, 5, 16, 1000] {
        let letters: Vec<char> = arguments.chars().collect();
        let pieces = letters.chunks(step).map(|piece| event(&call(&String::from_iter(piece)), None));
        let stream = pieces.collect::<String>() + &event(&json!({}), Some("tool_calls")) + "data: [DONE]\n\n";
        let streamed = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
        assert_eq!((streamed.end, streamed.action), (End::Finished, Action::Redact));
        check(&arguments_of(&streamed.out), &format!("in pieces of {step}"));
    }
}

#[test]
fn a_text_that_is_json_as_a_whole_stays_so_wherever_it_stands() {
    let bench = bench();
    let card = valid(&bench, "payment_card_bare", 1);
    let text = format!(r#"{{"card number":{card},"ok":true}}"#);
    let done = json!({ "type": "response.function_call_arguments.done", "item_id": "i", "output_index": 0, "arguments": text });
    let answer = json!({ "choices": [{ "index": 0, "message": { "role": "assistant", "content": text } }] });
    let given =
        json!({ "model": "m", "messages": [{ "role": "tool", "tool_call_id": "c", "content": text }] });
    let approval = json!({ "object": "response", "output": [{ "type": "mcp_approval_request", "id": "a", "arguments": text }] });
    let check = |out: &[u8], path: &str| {
        let out: Value = serde_json::from_slice(out).expect("JSON");
        let masked = out.pointer(path).and_then(Value::as_str).expect("a text");
        let parsed: Value = serde_json::from_str(masked).unwrap_or_else(|_| panic!("{path}: {masked}"));
        assert!(parsed["card number"].is_string() && parsed["ok"] == true, "{path}: {masked}");
        assert!(!masked.contains(&card), "{path}: {masked}");
    };
    for (case, body, path) in [
        (Case::response("mask", "openai"), answer, "/choices/0/message/content"),
        (Case::response("mask", "openai"), approval, "/output/0/arguments"),
        (Case::request("mask", "openai"), given, "/messages/0/content"),
    ] {
        let whole = bench.whole(case, &mut bench.vault(), body.to_string().as_bytes());
        check(&whole.cleared.unwrap().into_bytes(), path);
    }
    let stream = format!("event: response.function_call_arguments.done\ndata: {done}\n\n");
    let case = Case::response("mask", "openai");
    let streamed = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
    let out = String::from_utf8(streamed.out).expect("UTF-8");
    check(out.lines().find_map(|line| line.strip_prefix("data: ")).expect("data").as_bytes(), "/arguments");
}

/// Places of a stream's text that may be anything: the dialect, a piece's event, and the way to it.
type Anything = (&'static str, fn(&str) -> Value, &'static str);

#[test]
fn an_answer_in_json_is_still_json_when_it_is_streamed() {
    let places: [Anything; 4] = [
        (
            "openai",
            |it| json!({ "choices": [{ "index": 0, "delta": { "content": it } }] }),
            "/choices/0/delta/content",
        ),
        (
            "anthropic",
            |it| json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": it } }),
            "/delta/text",
        ),
        (
            "gemini",
            |it| json!({ "candidates": [{ "index": 0, "content": { "role": "model", "parts": [{ "text": it }] } }] }),
            "/candidates/0/content/parts/0/text",
        ),
        ("generic", |it| json!({ "arguments": it }), "/arguments"),
    ];
    let (masking, hiding) = (bench(), Bench::new(tokens::POLICY));
    let card = valid(&masking, "payment_card_bare", 1);
    let email = valid(&masking, "email_address", 1);
    let key = valid(&hiding, "private_key", 1);
    let mut vault = hiding.vault();
    let placeholder = tokens::hide(&hiding, &mut vault, &key);
    let through = |(bench, policy): (&Bench, &str), vault: &mut Vault, place: Anything, pieces: [&str; 2]| {
        let (dialect, payload, pointer) = place;
        let stream: String = pieces.iter().map(|it| format!("data: {}\n\n", payload(it))).collect();
        let case = Case::response(policy, dialect);
        let streamed = bench.stream(case, StreamFormat::Sse, vault, [stream.as_bytes()]);
        assert_eq!(streamed.end, End::Finished);
        let out = String::from_utf8(streamed.out).expect("UTF-8");
        let events = out.lines().filter_map(|line| line.strip_prefix("data: "));
        let texts = events.map(|event| {
            let event: Value = serde_json::from_str(event).expect("JSON");
            event.pointer(pointer).and_then(Value::as_str).expect("text").to_owned()
        });
        texts.collect::<String>()
    };
    let said =
        |place: Anything, pieces: [&str; 2]| through((&masking, "mask"), &mut masking.vault(), place, pieces);
    for place in places {
        for (begin, blank) in [("{", ""), ("\n {\n  ", " "), ("[{", ""), ("[ \"x\", {", "\n")] {
            let end = if begin.contains('[') { "}]" } else { "}" };
            let text = format!(r#"{begin}"card number":{blank}{card},"cards":{blank}[{card}, 7]{end}"#);
            for cut in 1..text.len() {
                let (first, second) = text.split_at(cut);
                let masked = said(place, [first, second]);
                let parsed = serde_json::from_str::<Value>(&masked);
                assert!(parsed.is_ok() && !masked.contains(&card), "{} {cut}: {masked}", place.0);
            }
        }
        let text = format!(r#"{{"to": "{placeholder}"}}"#);
        for cut in 1..text.len() {
            let (first, second) = text.split_at(cut);
            let restored = through((&hiding, "hide"), &mut vault, place, [first, second]);
            let parsed = serde_json::from_str::<Value>(&restored).ok();
            assert_eq!(parsed, Some(json!({ "to": key })), "{} {cut}: {restored}", place.0);
        }
        for text in FREEFORM {
            let text = text.replace('%', &email);
            let masked = said(place, [&text[..1], &text[1..]]);
            assert!(!masked.contains(&email) && !masked.contains('"'), "{}: {masked}", place.0);
        }
    }
}

#[test]
fn values_of_tools_are_read_under_their_names_and_numbers_are_read() {
    let bench = bench();
    let card = valid(&bench, "payment_card_bare", 1);
    let number: u64 = card.parse().unwrap();
    let input =
        json!({ "card": number, "to": { "credit cards": [card, number] }, "at": 1_732_190_400_123_u64 });
    let anthropic = json!({ "model": "m", "max_tokens": 9, "messages": [{ "role": "assistant",
        "content": [{ "type": "tool_use", "id": "t", "name": "pay", "input": input }] }] });
    let gemini = json!({ "candidates": [{ "index": 0, "content": { "role": "model",
        "parts": [{ "functionCall": { "name": "pay", "args": input } }] } }] });
    let ollama = json!({ "model": "m", "created_at": "now", "done": false, "message": { "role": "assistant",
        "content": "", "tool_calls": [{ "function": { "name": "pay", "arguments": input } }] } });
    let mcp = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "pay", "arguments": input } });
    for (case, body, path) in [
        (Case::request("mask", "anthropic"), anthropic, "/messages/0/content/0/input"),
        (Case::response("mask", "gemini"), gemini, "/candidates/0/content/parts/0/functionCall/args"),
        (Case::response("mask", "ollama"), ollama, "/message/tool_calls/0/function/arguments"),
        (Case::request("mask", "mcp"), mcp, "/params/arguments"),
    ] {
        let check = |out: &[u8], how: &str| {
            let out: Value = serde_json::from_slice(out).unwrap();
            let masked = out.pointer(path).unwrap();
            assert!(!masked.to_string().contains(&card), "{} {how}: {masked}", case.dialect);
            assert!(masked["card"].is_string() && masked["to"]["credit cards"][1].is_string(), "{masked}");
            assert_eq!(masked["at"], 1_732_190_400_123_u64);
        };
        let text = body.to_string();
        let whole = bench.whole(case, &mut bench.vault(), text.as_bytes());
        check(&whole.cleared.unwrap().into_bytes(), "whole");
        let (format, stream) = match case.dialect {
            "ollama" => (StreamFormat::Ndjson, text + "\n"),
            "gemini" => (StreamFormat::Sse, format!("data: {text}\n\n")),
            _ => continue,
        };
        let streamed = bench.stream(case, format, &mut bench.vault(), [stream.as_bytes()]);
        assert_eq!(streamed.end, End::Finished);
        let event = streamed.out.strip_prefix(b"data: ").unwrap_or(&streamed.out);
        check(event.trim_ascii(), "streamed");
    }
}

#[test]
fn values_that_tools_give_back_are_read_as_those_that_they_are_given() {
    let bench = bench();
    let card = valid(&bench, "payment_card_bare", 1);
    let number: u64 = card.parse().unwrap();
    let given =
        json!({ "card": card, "cards": [number], "at": 1_732_190_400_123_u64, "rows": [739_201_845] });
    let result = json!({ "name": "pay", "response": given });
    let of_gemini = |part: Value| json!({ "contents": [{ "role": "user", "parts": [part] }] });
    let camel = of_gemini(json!({ "functionResponse": result }));
    let snake = of_gemini(json!({ "function_response": result }));
    let mcp = json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [], "structuredContent": given } });
    let gemini = Case::request("mask", "gemini");
    for (case, body, path) in [
        (gemini, camel, "/contents/0/parts/0/functionResponse/response"),
        (gemini, snake, "/contents/0/parts/0/function_response/response"),
        (Case::response("mask", "mcp"), mcp, "/result/structuredContent"),
    ] {
        let whole = bench.whole(case, &mut bench.vault(), body.to_string().as_bytes());
        let out: Value = serde_json::from_slice(&whole.cleared.unwrap().into_bytes()).unwrap();
        let masked = out.pointer(path).unwrap();
        assert!(!masked.to_string().contains(&card), "{path}: {masked}");
        assert!(masked["card"].is_string() && masked["cards"][0].is_string(), "{path}: {masked}");
        assert_eq!((&masked["at"], &masked["rows"]), (&given["at"], &given["rows"]), "{path}");
    }
}

#[test]
fn long_numbers_are_masked_however_they_are_written() {
    let bench = bench();
    let card = valid(&bench, "payment_card_bare", 1);
    for written in [format!("{card}.0"), format!("{card}e0"), format!("-{card}")] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"pay","arguments":{{"card":{written},"cards":[{written}]}}}}}}"#
        );
        let whole = bench.whole(Case::request("mask", "mcp"), &mut bench.vault(), body.as_bytes());
        let out: Value = serde_json::from_slice(&whole.cleared.unwrap().into_bytes()).unwrap();
        let arguments = &out["params"]["arguments"];
        assert!(arguments["card"].is_string() && arguments["cards"][0].is_string(), "{written}: {arguments}");
    }
}

/// What tools are given that only begins as JSON does; `%` is a value, or what stands for it.
const FREEFORM: [&str; 3] = ["[auth]\nuser=%\n", "[Ann](mailto:%) wrote", "[x] Ann <%>, Bob"];

/// Where whole answers have a text of any kind for a tool: the dialect, the body around it, and the way to it.
fn whole_places(text: &str) -> [(&'static str, Value, &'static str); 3] {
    let input = json!({ "content": text });
    let anthropic = json!({ "type": "message", "role": "assistant", "model": "m",
        "content": [{ "type": "tool_use", "id": "t", "name": "write", "input": input }] });
    let openai = json!({ "object": "response", "output": [{ "type": "custom_tool_call", "id": "i",
        "call_id": "c", "name": "write", "input": text }] });
    let gemini = json!({ "candidates": [{ "index": 0, "content": { "role": "model",
        "parts": [{ "functionCall": { "name": "write", "args": input } }] } }] });
    [
        ("anthropic", anthropic, "/content/0/input/content"),
        ("openai", openai, "/output/0/input"),
        ("gemini", gemini, "/candidates/0/content/parts/0/functionCall/args/content"),
    ]
}

/// Where streams have a piece of what a tool is given.
fn streamed_places(piece: &str) -> [(&'static str, Value, &'static str); 4] {
    let chat = |call: Value| json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] } }] });
    let custom = chat(json!({ "index": 0, "custom": { "input": piece } }));
    let function = chat(json!({ "index": 0, "function": { "arguments": piece } }));
    let input = json!({ "type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": piece });
    let partial = json!({ "type": "content_block_delta", "index": 0,
        "delta": { "type": "input_json_delta", "partial_json": piece } });
    [
        ("openai", custom, "/choices/0/delta/tool_calls/0/custom/input"),
        ("openai", function, "/choices/0/delta/tool_calls/0/function/arguments"),
        ("openai", input, "/delta"),
        ("anthropic", partial, "/delta/partial_json"),
    ]
}

/// Gives what comes of a text that tools are given, at every place, whole and in pieces.
fn outcomes(bench: &Bench, policy: &str, vault: &mut Vault, text: &str) -> Vec<String> {
    let mut outcomes = Vec::new();
    let told = |out: &[u8], pointer: &str| {
        let value: Value = serde_json::from_slice(out).expect("JSON");
        value.pointer(pointer).and_then(Value::as_str).expect("text").to_owned()
    };
    for (dialect, body, pointer) in whole_places(text) {
        let whole = bench.whole(Case::response(policy, dialect), vault, body.to_string().as_bytes());
        outcomes.push(told(&whole.cleared.expect("it may leave").into_bytes(), pointer));
    }
    let letters: Vec<char> = text.chars().collect();
    for (place, step) in (0..4).flat_map(|place| [1, 3, 7, 1000].map(|step| (place, step))) {
        let pieces = letters.chunks(step).map(String::from_iter);
        let stream: String =
            pieces.map(|piece| format!("data: {}\n\n", streamed_places(&piece)[place].1)).collect();
        let (dialect, _, pointer) = streamed_places("")[place];
        let case = Case::response(policy, dialect);
        let streamed = bench.stream(case, StreamFormat::Sse, vault, [stream.as_bytes()]);
        assert_eq!(streamed.end, End::Finished);
        let out = String::from_utf8(streamed.out).expect("UTF-8");
        let events = out.lines().filter_map(|line| line.strip_prefix("data: "));
        outcomes.push(events.map(|event| told(event.as_bytes(), pointer)).collect());
    }
    outcomes
}

#[test]
fn what_only_begins_as_json_keeps_all_but_the_values() {
    let (masking, hiding) = (bench(), Bench::new(tokens::POLICY));
    let email = valid(&hiding, "email_address", 1);
    for text in FREEFORM {
        let (before, after) = text.split_once('%').unwrap();
        for out in outcomes(&masking, "mask", &mut masking.vault(), &text.replace('%', &email)) {
            let mask = out.strip_prefix(before).and_then(|out| out.strip_suffix(after));
            let mask = mask.unwrap_or_else(|| panic!("{text}: {out}"));
            assert!(mask.len() > 1 && mask != email && !mask.contains('"'), "{text}: {out}");
        }
        let mut vault = hiding.vault();
        let placeholder = tokens::hide(&hiding, &mut vault, &email);
        for out in outcomes(&hiding, "hide", &mut vault, &text.replace('%', &placeholder)) {
            assert_eq!(out, text.replace('%', &email));
        }
    }
}

#[test]
fn what_tools_are_usually_given_goes_untouched() {
    let bench = Bench::new("");
    let input = json!({ "id": 739_201_845_u64, "issue": 1_000_234_567_u64, "since": 1_732_190_400_123_u64,
        "rows": [123_456_789, 987_654_321_012_u64], "path": "src/main.rs", "line": 12, "q": "a \"b\"\\n",
        "run": "cargo test -- --nocapture", "score": 0.123456789012, "offset": -123_456_789_012_i64 });
    let body = json!({ "model": "m", "max_tokens": 9, "messages": [{ "role": "assistant",
        "content": [{ "type": "tool_use", "id": "t", "name": "read", "input": input }] },
        { "role": "assistant", "content": [{ "type": "text", "text": input.to_string() }] }] });
    let case = Case::request("default", "anthropic");
    let inspection = bench.whole(case, &mut bench.vault(), body.to_string().as_bytes());
    assert_eq!(inspection.action, Action::Allow, "{:?}", bench.seen(inspection.observations));
    assert_eq!(inspection.cleared.unwrap().into_bytes(), body.to_string());
}

/// Writes a text as a string of JSON with every sign as an escape.
fn escaped(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
}

#[test]
fn json_in_json_in_arguments_is_read_and_masked_at_every_depth() {
    let bench = bench();
    let token = super::github_token(&bench);
    let case = Case::request("mask", "openai");
    for depth in 1..=3 {
        let innermost = format!(r#"{{"k":"use {} now","n":1}}"#, escaped(&token));
        let arguments = (1..depth).fold(innermost, |inner, _| json!({ "k": inner }).to_string());
        let message = json!({ "role": "assistant", "tool_calls": [{ "id": "c", "type": "function",
            "function": { "name": "pay", "arguments": arguments } }] });
        let body = json!({ "model": "m", "messages": [message] }).to_string();
        let outcome = bench.whole(case, &mut bench.vault(), body.as_bytes());
        assert_eq!(outcome.action, Action::Redact, "{depth} deep");
        let out: Value = serde_json::from_slice(&outcome.cleared.unwrap().into_bytes()).unwrap();
        let mut text =
            out["messages"][0]["tool_calls"][0]["function"]["arguments"].as_str().unwrap().to_owned();
        for level in 1..depth {
            let inner: Value =
                serde_json::from_str(&text).unwrap_or_else(|_| panic!("level {level}: {text}"));
            text = inner["k"].as_str().unwrap().to_owned();
        }
        let innermost: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{depth} deep: {text}"));
        let masked = innermost["k"].as_str().unwrap();
        assert!(
            masked.starts_with("use ") && masked.ends_with(" now") && !masked.contains(&token),
            "{masked}"
        );
        assert_eq!(innermost["n"], 1, "{depth} deep");
    }
}

/// Returns the begin of a private key that goes on as one and has no end, as tools give files back that they cut.
fn cut_key() -> String {
    let begin = ["-----BEGIN RSA PRIVATE", " KEY-----\n"].concat();
    begin + &"MIIEpQIBAAKCAQEA3Tz2mr7SZiAMfQyuvBjM9OiJ".repeat(4)
}

/// A pattern that may run on to the end of the text took the quote behind the value for a part of it, and was dropped.
#[test]
fn a_key_without_an_end_is_found_in_what_tools_are_given_and_give_back() {
    let bench = bench();
    let key = cut_key();
    let arguments = json!({ "content": key, "mode": "w" });
    let cases = [
        (
            Case::response("mask", "mcp"),
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [{ "type": "text", "text": key }] } }),
        ),
        (
            Case::request("mask", "mcp"),
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "w", "arguments": arguments } }),
        ),
        (
            Case::request("mask", "anthropic"),
            json!({ "model": "m", "max_tokens": 9, "messages": [{ "role": "assistant", "content": [{ "type": "tool_use", "id": "t", "name": "w", "input": arguments }] }] }),
        ),
        (
            Case::request("mask", "openai"),
            json!({ "model": "m", "messages": [{ "role": "tool", "tool_call_id": "c", "content": key }] }),
        ),
        (
            Case::request("mask", "openai"),
            json!({ "model": "m", "messages": [], "metadata": { "private_key": key } }),
        ),
        (
            Case::request("mask", "gemini"),
            json!({ "contents": [{ "parts": [{ "functionResponse": { "name": "r", "response": { "text": key } } }] }] }),
        ),
    ];
    for (case, body) in cases {
        let whole = bench.whole(case, &mut bench.vault(), body.to_string().as_bytes());
        assert_eq!(whole.action, Action::Redact, "{} {body}", case.dialect);
        let out: Value = serde_json::from_slice(&whole.cleared.unwrap().into_bytes()).expect("JSON");
        assert!(!out.to_string().contains("MIIEpQIBAAKC"), "{} {out}", case.dialect);
    }
}

#[test]
fn a_key_without_an_end_takes_no_name_of_the_next_member_with_it() {
    let bench = bench();
    let arguments =
        json!({ "content": cut_key(), "mode": "w", "path": { "of": "/tmp/x", "n": 1 } }).to_string();
    let check = |masked: &str, how: &str| {
        let parsed: Value = serde_json::from_str(masked).unwrap_or_else(|_| panic!("{how}: {masked}"));
        assert!(!masked.contains("MIIEpQIBAAKC") && parsed["content"].is_string(), "{how}: {masked}");
        let names = parsed.as_object().expect("an object").keys().map(String::as_str);
        assert_eq!(names.collect::<Vec<_>>(), ["content", "mode", "path"], "{how}: {masked}");
        assert!(parsed["path"]["of"].is_string(), "{how}: {masked}");
    };
    let case = Case::response("mask", "openai");
    let message = json!({ "role": "assistant", "tool_calls": [{ "id": "c", "type": "function",
        "function": { "name": "write", "arguments": arguments } }] });
    let body = json!({ "object": "chat.completion", "choices": [{ "index": 0, "message": message }] });
    let whole = bench.whole(case, &mut bench.vault(), body.to_string().as_bytes());
    let out: Value = serde_json::from_slice(&whole.cleared.unwrap().into_bytes()).unwrap();
    check(out["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"].as_str().unwrap(), "whole");
    for step in [1, 3, 16, 1000] {
        let letters: Vec<char> = arguments.chars().collect();
        let pieces = letters.chunks(step).map(|piece| event(&call(&String::from_iter(piece)), None));
        let stream = pieces.collect::<String>() + &event(&json!({}), Some("tool_calls")) + "data: [DONE]\n\n";
        let streamed = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
        assert_eq!((streamed.end, streamed.action), (End::Finished, Action::Redact));
        check(&arguments_of(&streamed.out), &format!("in pieces of {step}"));
    }
}
