use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Vec<(Encoding, String, &str)> {
    let show =
        |run: Run| (run.encoding, String::from_utf8(run.view.bytes().to_vec()).unwrap(), &text[run.source]);
    runs(text.as_bytes(), 0, Lines::Joined).into_iter().map(show).collect()
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn encoded_text_is_read() {
    let secret = "the key is: 0123456789 für alle?";
    let std = STANDARD.encode(secret);
    let url = URL_SAFE_NO_PAD.encode(secret);
    let hex = hex(secret);
    for (encoded, encoding) in [(&std, Encoding::Base64), (&url, Encoding::Base64), (&hex, Encoding::Hex)] {
        for text in [encoded.clone(), format!("x={encoded} and"), format!("\"{encoded}\",")] {
            assert_eq!(read(&text), [(encoding, secret.to_owned(), encoded.as_str())], "{text}");
        }
    }
}

#[test]
fn lines_of_wrapped_base64_are_read_as_one_run() {
    let secret = "the key is split over the ends of lines, as mail does it, für alle: ".repeat(4);
    let encoded = STANDARD.encode(&secret);
    for (width, end, is_one) in
        [(76, "\r\n", true), (64, "\n", true), (60, "\n", true), (56, "\n", false), (76, "\n\n", false)]
    {
        let lines: Vec<&str> =
            encoded.as_bytes().chunks(width).map(|it| std::str::from_utf8(it).unwrap()).collect();
        let wrapped = lines.join(end);
        let text = format!("see\n{wrapped}\" and more");
        let found = runs(text.as_bytes(), 0, Lines::Joined);
        let whole = found.iter().find(|run| run.view.bytes() == secret.as_bytes());
        assert_eq!(whole.is_some(), is_one, "{width} {end:?}");
        if let Some(whole) = whole {
            assert_eq!(&text[whole.source.clone()], wrapped);
            let at = secret.rfind("key").unwrap();
            let source = whole.view.source_range(at..at + 3);
            let plain = text[source].replace(['\r', '\n'], "");
            assert!(encoded.contains(&plain) && plain.len() <= 8, "{plain}");
        }
    }
}

#[test]
fn half_a_character_at_the_end_of_a_line_hides_nothing_behind_it() {
    let half = STANDARD.encode([[b'a'; 47].as_slice(), &[0xc3]].concat());
    let secret = "k-12345678901 is the key, and it is split over the end of a line: k-98765432109";
    let encoded = STANDARD.encode(secret);
    let text = format!("{half}\n{encoded}");
    let is_whole = |run: &Run| run.view.bytes() == secret.as_bytes();
    for lines in [Lines::Apart, Lines::Joined] {
        assert!(runs(text.as_bytes(), 0, lines).iter().any(is_whole), "{lines:?}");
    }
    let (one, other) = encoded.split_at(64);
    let text = format!("{half}\n{one}\n{other}");
    assert!(runs(text.as_bytes(), 0, Lines::Joined).iter().any(is_whole));
}

#[test]
fn a_word_behind_a_long_line_spoils_no_value_in_it() {
    let encoded = STANDARD.encode("the quick brown fox jumps over it; and the key is k-12345678901");
    let text = format!("{}\nBest regards", encoded.trim_end_matches('='));
    let ends_with_key = |run: &Run| run.view.bytes().ends_with(b"k-12345678901");
    assert!(runs(text.as_bytes(), 0, Lines::Joined).iter().any(ends_with_key));
}

#[test]
fn garbage_behind_a_run_does_not_hide_it() {
    let encoded = STANDARD.encode("the quick brown fox jumps");
    let text = format!("{}AAAAAAAAA", encoded.trim_end_matches('='));
    assert!(read(&text)[0].1.starts_with("the quick brown fox jump"));
    let odd = format!("{}6", hex("the quick brown fox"));
    assert_eq!(read(&odd)[0].1, "the quick brown fox");
}

#[test]
fn what_is_no_text_is_left_alone() {
    let image = STANDARD.encode([0x89, b'P', b'N', b'G', 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82]);
    for text in
        ["internationalization", "aGVsbG8=", "deadbeefdeadbeefdeadbeef", &image, "----------------------", ""]
    {
        assert_eq!(read(text), [], "{text}");
    }
}

#[test]
fn a_run_under_way_at_the_start_is_passed_over() {
    let encoded = STANDARD.encode("the quick brown fox jumps");
    let text = format!("{encoded} {encoded}");
    let found: Vec<usize> =
        runs(text.as_bytes(), 4, Lines::Joined).into_iter().map(|run| run.source.start).collect();
    assert_eq!(found, [encoded.len() + 1]);
}

#[test]
fn offsets_lead_back_to_the_characters() {
    let text = format!("  {}", STANDARD.encode("0123456789abcdefg"));
    let run = runs(text.as_bytes(), 0, Lines::Joined).remove(0);
    assert_eq!(run.view.source_range(0..3), 2..6);
    assert_eq!(run.view.source_range(4..5), 6..10);
    assert_eq!(run.view.source_range(16..17).end, text.trim_end_matches('=').len());
    assert_eq!(runs(hex("0123456789").as_bytes(), 0, Lines::Apart)[0].view.source_range(1..3), 2..6);
}

proptest! {
    #[test]
    fn the_tracker_holds_every_run_from_its_start(words in proptest::collection::vec(
        prop_oneof!["[a-zA-Z0-9 +/=_-]{0,20}", "[ -~]{8,20}".prop_map(|text| STANDARD.encode(text)), "[ -~]{8,20}".prop_map(|text| hex(&text))], 0..6,
    )) {
        let text = words.join("-");
        let mut tracker = RunTracker::default();
        let mut held = Vec::new();
        for (at, byte) in text.bytes().enumerate() {
            tracker.step(byte, at);
            held.push(tracker.held_from().unwrap_or(at + 1));
        }
        for run in runs(text.as_bytes(), 0, Lines::Apart) {
            prop_assert!(held[run.source.start..run.source.end - 2].iter().all(|from| *from <= run.source.start));
            prop_assert!(std::str::from_utf8(run.view.bytes()).is_ok());
        }
    }
}

#[test]
fn what_begins_behind_padding_is_read_once() {
    let text = format!("{}={}", "aa+00aA/aA--AA0+IA", STANDARD.encode("so it is said"));
    assert_eq!(runs(text.as_bytes(), 0, Lines::Apart).len(), 1);
}

/// Reads every byte of a text, whatever stretch it stands in.
fn read_all(text: &[u8], from: usize) -> Vec<Run> {
    let mut found = Vec::new();
    for kind in [Encoding::Base64, Encoding::Hex] {
        read_stretch(text, &(from..text.len()), kind, |ended| found.extend(decode(text, ended, kind)));
    }
    found
}

proptest! {
    #[test]
    fn only_what_cannot_hold_a_run_is_passed_over(
        words in proptest::collection::vec(
            prop_oneof![
                "[a-zA-Z0-9+/=_-]{0,20}",
                "[ -~]{8,20}".prop_map(|text| STANDARD.encode(text)),
                "[ -~]{8,20}".prop_map(|text| hex(&text)),
            ],
            0..6,
        ),
        glue in "[ -=.é\n\u{0}]",
        from in 0usize..40,
    ) {
        let text = words.join(&glue);
        let from = from.min(text.len());
        let key = |run: &Run| (run.source.start, run.source.end, run.encoding);
        let mut quick = runs(text.as_bytes(), from, Lines::Apart);
        let mut slow = read_all(text.as_bytes(), from);
        quick.sort_by_key(key);
        slow.sort_by_key(key);
        prop_assert_eq!(quick, slow);
    }
}
