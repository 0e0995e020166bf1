//! Comments of streams, and fields that no client knows.

use portcullis::llm::stream::StreamFormat;
use portcullis::policy::decision::Action;
use portcullis::policy::stream::StreamInspector;

use super::Bench;
use super::Case;
use super::End;
use super::github_token;
use super::policy_of_all;

const MASK: &str = "[REDACTED:github_token]";
const EVENT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"so \"}}]}\n\n";

/// A comment was read alone, and a value that was cut over two of them came out whole.
#[test]
fn of_a_value_that_is_parted_over_comments_the_rest_does_not_follow() {
    let more = policy_of_all("all", "redact", "") + &policy_of_all("none", "block", "");
    let bench = Bench::new(&more);
    let token = github_token(&bench);
    let text = format!("It is {token}, so");
    let begin = "It is ".len();
    let ways: [fn(&str, &str) -> String; 5] = [
        |a, b| format!(": {a}\n: {b}\n\n{EVENT}"),
        |a, b| format!(": {a}\r\n\r\n:{b}\r\n\r\n{EVENT}"),
        |a, b| format!(": {a}\n\n{EVENT}{EVENT}: {b}\n{EVENT}"),
        |a, b| format!("{EVENT}: {a}\n: {a}\n: 1\n{EVENT}: {a}\n{EVENT}: 2\n: {b}\n{EVENT}"),
        |a, b| format!("id: 7\n: {a}\nretry: 10\ndata: {{}}\n: {b}\n\n{EVENT}"),
    ];
    for (way, stream) in ways.iter().enumerate() {
        for cut in begin + 1..begin + token.len() {
            let at = format!("{way} {cut}");
            let (first, second) = text.split_at(cut);
            let stream = stream(first, second);
            let run = |policy, size| {
                let (case, chunks) = (Case::response(policy, "openai"), stream.as_bytes().chunks(size));
                bench.stream(case, StreamFormat::Sse, &mut bench.vault(), chunks)
            };
            let result = run("all", 4096);
            assert_eq!((result.end, result.action), (End::Finished, Action::Redact), "{at}");
            let out = String::from_utf8_lossy(&result.out).into_owned();
            let rest = &token[cut - begin..];
            assert!(rest.len() < 4 || !out.contains(rest), "{at}: {out}");
            assert!(out.contains(MASK) && out.contains(", so") && out.ends_with(EVENT), "{at}: {out}");
            for size in [1, 7] {
                assert_eq!(String::from_utf8_lossy(&run("all", size).out), out, "{at} in chunks of {size}");
            }
            let result = run("none", 4096);
            assert_eq!((result.end, result.action), (End::Blocked, Action::Block), "{at}");
            assert!(rest.len() < 4 || !String::from_utf8_lossy(&result.out).contains(rest), "{at}");
        }
    }
}

/// What providers send so that nobody takes them for dead leaves at once, as it came.
#[test]
fn comments_ids_and_counters_hold_nothing_back_and_are_what_they_were() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let comments = |at: usize| {
        [
            ": OPENROUTER PROCESSING\n\n".to_owned(),
            format!(": ping - 2026-11-21 12:00:{}.123456+00:00\r\n\r\n", 10 + at),
            format!(": {at}\n\n"),
            format!("id: {at}\nretry: 3000\nfoo: {at}{at}\ndata: {{\"choices\":[]}}\n\n"),
            ":\n\n".to_owned(),
        ]
    };
    bench.with_inspector(Case::response("all", "openai"), |inspector| {
        let (mut judge, mut out, mut sent) =
            (StreamInspector::new(StreamFormat::Sse, 1 << 20), Vec::new(), Vec::new());
        for event in (0..40).flat_map(comments) {
            judge.push(inspector, &mut bench.vault(), event.as_bytes(), &mut out);
            sent.extend_from_slice(event.as_bytes());
            assert_eq!(judge.held_bytes(), 0, "{event}");
        }
        judge.finish(inspector, &mut bench.vault(), &mut out);
        let left: Vec<u8> = out.into_iter().flat_map(|it| it.into_bytes().to_vec()).collect();
        assert_eq!(
            (String::from_utf8_lossy(&left), judge.action()),
            (String::from_utf8_lossy(&sent), Action::Allow)
        );
    });
}
