//! The lines of the data streams of Vercel's AI SDK: a value behind the sign of its type.

use portcullis::llm::stream::StreamFormat;
use portcullis::policy::decision::Action;
use serde_json::Value;
use serde_json::json;

use super::Bench;
use super::Case;
use super::End;
use super::github_token;
use super::policy_of_all;

const MASK: &str = "[REDACTED:github_token]";

/// The sign of a line, what it says, and where.
type Line = (char, fn(&str) -> Value, &'static str);

const LINES: [Line; 8] = [
    ('0', |it| json!(it), ""),
    ('g', |it| json!(it), ""),
    ('c', |it| json!({ "toolCallId": "c", "argsTextDelta": it }), "/argsTextDelta"),
    ('2', |it| json!([{ "narration": it }]), "/0/narration"),
    ('8', |it| json!([it]), "/0"),
    ('9', |it| json!({ "toolCallId": "c", "toolName": "t", "args": { "a": it } }), "/args/a"),
    ('a', |it| json!({ "toolCallId": "c", "result": { "told": [it] } }), "/result/told/0"),
    ('3', |it| json!(it), ""),
];

fn line((sign, value, _): Line, text: &str) -> String {
    format!("{sign}:{}\n", value(text))
}

/// Returns what the lines of a sign say, one after another.
fn said(out: &[u8], (sign, _, pointer): Line) -> String {
    let out = std::str::from_utf8(out).expect("UTF-8");
    let of_sign = out.lines().filter_map(|line| line.strip_prefix(sign)?.strip_prefix(':'));
    let texts = of_sign.filter_map(|value| {
        let value: Value = serde_json::from_str(value).expect("JSON");
        value.pointer(pointer)?.as_str().map(str::to_owned)
    });
    texts.collect()
}

/// Such lines were read as plain text, line by line: a value that was cut over two of them left.
#[test]
fn a_value_in_typed_lines_never_leaves_wherever_it_is_cut() {
    let more = policy_of_all("all", "redact", "") + &policy_of_all("none", "block", "");
    let bench = Bench::new(&more);
    let token = github_token(&bench);
    let text = format!("It is {token} so");
    for of in LINES {
        let run = |policy, pieces: &[&str], size| {
            let lines: String = pieces.iter().map(|piece| line(of, piece)).collect();
            let stream = format!(
                "f:{{\"messageId\":\"msg-1\"}}\n{lines}e:{{\"finishReason\":\"stop\"}}\n\
                d:{{\"finishReason\":\"stop\",\"usage\":{{\"promptTokens\":3,\"completionTokens\":5}}}}\n"
            );
            let case = Case::response(policy, "generic");
            let chunks = stream.as_bytes().chunks(size);
            (bench.stream(case, StreamFormat::TypedLines, &mut bench.vault(), chunks), stream.clone())
        };
        for cut in 0..=text.len() {
            let (first, second) = text.split_at(cut);
            let at = format!("{} {cut}", of.0);
            let (result, _) = run("all", &[first, second], 4096);
            assert_eq!((result.end, result.action), (End::Finished, Action::Redact), "{at}");
            assert_eq!(said(&result.out, of), text.replace(&token, MASK), "{at}");
            assert!(result.out.ends_with(b"\"completionTokens\":5}}\n"), "{at}");
            assert_eq!(result.inspector.usage().total(), Some(8), "{at}");
            let (result, _) = run("none", &[first, second], 4096);
            assert_eq!((result.end, result.action), (End::Blocked, Action::Block), "{at}");
            let out = String::from_utf8(result.out).expect("UTF-8");
            assert!(!out.contains(&token[6..12]) && !out.contains(&token[30..]), "{at}: {out}");
        }
        let bytewise: Vec<&str> = (0..text.len()).map(|at| &text[at..=at]).collect();
        let (whole, _) = run("all", &bytewise, 4096);
        assert_eq!(said(&whole.out, of), text.replace(&token, MASK), "{}", of.0);
        for size in [1, 7] {
            assert_eq!(run("all", &bytewise, size).0.out, whole.out, "{} in chunks of {size}", of.0);
        }
        let (clean, stream) = run("all", &["It is ", "so, and it was."], 5);
        assert_eq!((clean.end, clean.action), (End::Finished, Action::Allow), "{}", of.0);
        assert_eq!(String::from_utf8_lossy(&clean.out), stream);
    }
}

#[test]
fn what_is_no_typed_line_among_them_is_read_as_text() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let stream = format!("0:\"so\"\n\n{token}\n0:\"{token}\n[\"{token}\"]\n0:\"on\"\n");
    let case = Case::response("all", "generic");
    let result = bench.stream(case, StreamFormat::TypedLines, &mut bench.vault(), [stream.as_bytes()]);
    assert_eq!((result.end, result.action), (End::Finished, Action::Redact));
    assert_eq!(String::from_utf8_lossy(&result.out), stream.replace(&token, MASK));
}
