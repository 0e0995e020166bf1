//! Texts that are no JSON: events of applications whose data is a piece of the answer, and answers without any frame.

use portcullis::llm::stream::StreamFormat;
use portcullis::policy::decision::Action;

use super::Bench;
use super::Case;
use super::End;
use super::github_token;
use super::policy_of_all;
use super::tokens;
use super::valid;

const MASK: &str = "[REDACTED:github_token]";

/// Ways to write a piece of text as an event, and how the field begins that has it.
const EVENTS: [(&str, &str); 3] =
    [("data: ", "\n\n"), ("event: output\nid: 17\ndata: ", "\n\n"), ("data:", "\r\n\r\n")];

fn written((before, behind): (&str, &str), pieces: &[&str]) -> String {
    let event = |piece: &&str| format!("{before}{}{behind}", piece.replace('\n', "\ndata: "));
    pieces.iter().map(event).collect()
}

/// Returns what a client of server-sent events reads: the lines of each event, and nothing between events.
fn read(out: &[u8]) -> String {
    let out = std::str::from_utf8(out).expect("UTF-8").replace("\r\n", "\n");
    let data = |event: &str| -> Vec<String> {
        let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
        lines.map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned()).collect()
    };
    out.split("\n\n").map(|event| data(event).join("\n")).filter(|said| said != "[DONE]").collect()
}

/// Such streams were refused with their first event.
#[test]
fn a_value_in_plain_events_never_leaves_wherever_it_is_cut() {
    let bench = Bench::new(&(policy_of_all("all", "redact", "") + &policy_of_all("none", "block", "")));
    let token = github_token(&bench);
    let text = format!("It is {token} so");
    let case = |policy| Case::response(policy, "generic");
    for form in EVENTS {
        let run = |policy, pieces: &[&str], size| {
            let stream = written(form, pieces) + "data: [DONE]\n\n";
            let chunks = stream.as_bytes().chunks(size);
            (bench.stream(case(policy), StreamFormat::Sse, &mut bench.vault(), chunks), stream.clone())
        };
        for cut in 1..text.len() {
            // A blank behind a field's colon that has none of its own is no part of what is said.
            if form.0.ends_with(':') && text[cut..].starts_with(' ') {
                continue;
            }
            let (first, second) = text.split_at(cut);
            let (result, _) = run("all", &[first, second], 4096);
            assert_eq!((result.end, result.action), (End::Finished, Action::Redact), "{form:?} {cut}");
            assert_eq!(read(&result.out), text.replace(&token, MASK), "{form:?} {cut}");
            let (result, _) = run("none", &[first, second], 4096);
            assert_eq!((result.end, result.action), (End::Blocked, Action::Block), "{form:?} {cut}");
            let out = String::from_utf8(result.out).expect("UTF-8");
            assert!(!out.contains(&token[6..12]) && !out.contains(&token[30..]), "{form:?} {cut}: {out}");
        }
        let (clean, stream) = run("all", &["It is\nso, ", "{\"", "and ", "[1]", " \"it\"", " was."], 5);
        assert_eq!((clean.end, clean.action), (End::Finished, Action::Allow), "{form:?}");
        assert_eq!(String::from_utf8_lossy(&clean.out), stream);
    }
}

#[test]
fn a_number_in_plain_events_is_masked_though_each_of_them_is_json() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let stream = written(EVENTS[0], &["4111", " 1111", " ", "1111", " 1111", " it is"]);
    let case = Case::response("all", "generic");
    let result = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
    assert_eq!((result.end, read(&result.out).as_str()), (End::Finished, "**** **** **** 1111 it is"));
}

#[test]
fn plain_events_beside_others_hold_nothing_back_and_hide_nothing() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = github_token(&bench);
    let case = Case::response("all", "generic");
    let run = |stream: &str| bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
    let beats = "event: heartbeat\ndata: ping\n\ndata: {\"status\":\"on\"}\n\n";
    let mut stream = portcullis::policy::stream::StreamInspector::new(StreamFormat::Sse, 1 << 20);
    let mut out = Vec::new();
    bench.with_inspector(case, |inspector| {
        stream.push(inspector, &mut bench.vault(), beats.as_bytes(), &mut out)
    });
    let left: usize = out.into_iter().map(|it| it.into_bytes().len()).sum();
    assert_eq!(left, beats.len(), "something waits for more of a heartbeat");
    let beside = format!("data: so\n\ndata: {{\"text\":\"{token}\"}}\n\ndata: {token}\n\ndata: </s>\n\n");
    let result = run(&beside);
    assert_eq!(
        (result.end, String::from_utf8(result.out)),
        (End::Finished, Ok(beside.replace(&token, MASK)))
    );
    // Blocked, what stands behind another event stays behind, too.
    let more = policy_of_all("none", "block", "");
    let blocking = Bench::new(&more);
    for before in ["data: so\n\ndata: {\"text\":\"so\"}\n\n", "data: so\n\nevent: beat\ndata: ping\n\n"] {
        let stream = format!("{before}data: {token}\n\n");
        let case = Case::response("none", "generic");
        let result = blocking.stream(case, StreamFormat::Sse, &mut blocking.vault(), [stream.as_bytes()]);
        let out = String::from_utf8(result.out).expect("UTF-8");
        assert_eq!(result.end, End::Blocked, "{before}");
        assert!(!out.contains(&token[..8]) && !out.contains(&token[12..]), "{out}");
    }
    // None waits for more of one of another name.
    let beats = "event: beat\ndata: ping\n\n".to_owned() + &written(EVENTS[0], &["so ", "it ", "is"]);
    let mut stream = portcullis::policy::stream::StreamInspector::new(StreamFormat::Sse, 1 << 20);
    let mut out = Vec::new();
    bench.with_inspector(case, |inspector| {
        stream.push(inspector, &mut bench.vault(), beats.as_bytes(), &mut out)
    });
    let left: usize = out.into_iter().map(|it| it.into_bytes().len()).sum();
    assert!(left > "event: beat\ndata: ping\n\n".len(), "{left} of {} left", beats.len());
    // Strings of JSON are put together as such, whatever stands before them.
    let strings = format!("data: so\n\ndata: \"{}\"\n\ndata: \"{}\"\n\n", &token[..12], &token[12..]);
    let out = String::from_utf8(run(&strings).out).expect("UTF-8");
    assert!(!out.contains(&token[12..]), "{out}");
    for faulty in ["data: {\"text\":\"so\",}\n\n", "data: {'text':'so'}\n\n", "data: [so]\n\n"] {
        assert_eq!(run(faulty).end, End::Unreadable, "{faulty}");
    }
    let other = bench.stream(
        Case::response("all", "openai"),
        StreamFormat::Sse,
        &mut bench.vault(),
        [b"data: so it is\n\n".as_slice()],
    );
    assert_eq!(other.end, End::Unreadable, "no provider of this dialect says it");
}

#[test]
fn a_value_of_several_lines_is_put_back_line_by_line() {
    let bench = Bench::new(tokens::POLICY);
    let key = valid(&bench, "private_key", 1);
    let mut vault = bench.vault();
    let placeholder = tokens::hide(&bench, &mut vault, &key);
    let text = format!("See {placeholder} so.");
    for cut in (1..text.len()).step_by(3) {
        let case = Case::response("hide", "generic");
        let stream = written(EVENTS[0], &[&text[..cut], &text[cut..]]);
        let result = bench.stream(case, StreamFormat::Sse, &mut vault, [stream.as_bytes()]);
        assert_eq!(read(&result.out), text.replace(&placeholder, &key), "{cut}");
        let result = bench.stream(case, StreamFormat::Text, &mut vault, [text.as_bytes()]);
        assert_eq!(String::from_utf8(result.out), Ok(text.replace(&placeholder, &key)));
    }
}

#[test]
fn a_text_without_any_frame_is_the_same_at_every_cut() {
    let bench = Bench::new(&(policy_of_all("all", "redact", "") + &policy_of_all("none", "block", "")));
    let token = github_token(&bench);
    let text = format!("Así es {token} tal \u{1f600} cual");
    let run = |policy, size: usize| {
        let chunks = text.as_bytes().chunks(size);
        bench.stream(Case::response(policy, "generic"), StreamFormat::Text, &mut bench.vault(), chunks)
    };
    for size in 1..=text.len() {
        let result = run("all", size);
        assert_eq!((result.end, result.action), (End::Finished, Action::Redact), "{size}");
        assert_eq!(String::from_utf8(result.out), Ok(text.replace(&token, MASK)), "{size}");
        let result = run("none", size);
        assert_eq!((result.end, result.action), (End::Blocked, Action::Block), "{size}");
        assert_eq!(String::from_utf8(result.out), Ok("Así es ".to_owned()), "{size}");
    }
    let case = Case::response("all", "generic");
    let other = bench.stream(case, StreamFormat::Text, &mut bench.vault(), [b"so \xff it is".as_slice()]);
    assert_eq!(other.end, End::Unreadable);
}
