use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::scan::detector::ContextWords;
use crate::scan::detector::Pattern;
use crate::scan::edges::Behind;
use crate::scan::edges::ByteClass;
use crate::scan::edges::Edges;
use crate::scan::fixture::detector;
use crate::scan::fixture::scanner;
use crate::scan::proof::valid_value;
use crate::scan::threat::Confidence;
use crate::scan::unwrapped::Unwrapped;

/// One whose matches begin a sentence, or stand behind a letter.
fn order() -> Detector {
    let parsed = |pattern: &str| Pattern::parse(pattern).unwrap();
    let not_before = ByteClass::of(&parsed(r#"[ "]"#)).unwrap();
    let behind = Behind::of(parsed("[.] {1,2}(?:- )?"));
    Detector { edges: Edges { not_before, behind, ..Edges::default() }, ..detector("order", "order") }
}

/// Detectors of each kind: known start, searched start, group, context, anchor in the middle, something before it.
fn kinds() -> Vec<Detector> {
    let mut owned = detector("owned", r"\b[0-9]{4,6}\b");
    owned.context = Some(ContextWords::new(&["badge".to_owned()], true));
    let mut mail = detector("mail", r"\b[a-z]{1,12}@[a-z]{1,12}\.[a-z]{2,4}\b");
    mail.anchor = Some(Pattern::parse("@[a-z]").unwrap());
    vec![
        detector("token", r"\btk_[A-Za-z0-9]{8,20}\b"),
        detector("secret", r#"\bpass(?:word)? ?[:=] ?([a-z0-9!]{6,16})"#),
        owned,
        mail,
        order(),
    ]
}

fn spans(found: &[Finding]) -> Vec<(u16, Range<usize>, String)> {
    found.iter().map(|it| (it.detector.0, it.value.clone(), it.decoded_from.to_string())).collect()
}

#[test]
fn many_beginnings_of_a_wide_pattern_can_be_judged() {
    let mut pem = detector("pem", r"-----BEGIN [A-Z ]{0,40}KEY-----[\s\S]{1,100000}?-----END KEY-----");
    pem.anchor = Some(Pattern::parse("-----BEGIN [A-Z ]{0,40}KEY-----").unwrap());
    let (scanner, all) = scanner(vec![pem]);
    let text = "-----BEGIN RSA PRIVATE KEY-----\n".repeat(2048);
    assert_eq!(scanner.scan(text.as_bytes(), &all).unwrap(), []);
}

#[test]
fn every_reading_is_searched() {
    let (scanner, all) = scanner(kinds());
    for (text, expected) in [
        ("see tk_ABCDEFGH12.", vec![(0, 4..17, "")]),
        ("password: hunter22!", vec![(1, 10..19, "")]),
        ("badge 12345 and 54321", vec![(2, 6..11, ""), (2, 16..21, "")]),
        ("12345", vec![]),
        ("ann@example.org", vec![(3, 0..15, "")]),
        ("tk%5FABCDEFGH12", vec![(0, 0..15, "canonical")]),
        ("x dGtfQUJDREVGR0gxMg== y", vec![(0, 2..22, "base64")]),
        ("tk_ABCDEFGH12 &amp;", vec![(0, 0..13, "")]),
    ] {
        let found = scanner.scan(text.as_bytes(), &all).unwrap();
        let expected: Vec<_> =
            expected.into_iter().map(|(id, value, how)| (id, value, how.to_owned())).collect();
        let shown: Vec<_> = spans(&found);
        assert!(
            shown.len() == expected.len()
                && shown.iter().zip(&expected).all(|(shown, expected)| shown.0 == expected.0
                    && shown.2 == expected.2
                    && (shown.1 == expected.1 || expected.2 == "base64")),
            "{text}: {shown:?}"
        );
    }
}

#[test]
fn only_wanted_detectors_speak() {
    let (scanner, _) = scanner(kinds());
    let mail: DetectorSet = scanner.find("mail").into_iter().collect();
    let found = scanner.scan(b"tk_ABCDEFGH12 ann@example.org", &mail).unwrap();
    assert_eq!(spans(&found), [(3, 14..29, String::new())]);
    assert!(scanner.scan(b"tk_ABCDEFGH12", &DetectorSet::default()).unwrap().is_empty());
}

#[test]
fn context_raises_and_reaches_as_far_as_it_should() {
    let mut near = detector("near", "[0-9]{4}");
    near.context = Some(ContextWords::new(&["code".to_owned()], false));
    let (scanner, all) = scanner(vec![near]);
    let confidence = |gap: usize| {
        let text = format!("code{}1234", " ".repeat(gap));
        scanner.scan(text.as_bytes(), &all).unwrap()[0].confidence
    };
    assert_eq!(confidence(CONTEXT_BYTES - 4), Confidence::HIGH);
    assert_eq!(confidence(CONTEXT_BYTES - 3), Confidence::MEDIUM);
}

#[test]
fn what_stands_before_an_order_is_judged_as_in_the_whole_wherever_a_stream_is_cut() {
    let (scanner, all) = scanner(vec![order()]);
    for unseen in [0, 1, 200, 254, 255, 256, 257, 300, 340, 342, 400, 900] {
        for (before, behind) in
            [("Done.", " "), ("Done", "."), ("Done. ", ""), ("Well ", ""), ("Well", " "), ("\"", "")]
        {
            let text = format!("{before}{}{behind}order of it", "\u{200b}".repeat(unseen));
            let whole = scanner.scan(text.as_bytes(), &all).unwrap();
            let start = text.find("order").unwrap();
            for cut in (0..=start).filter(|cut| text.is_char_boundary(*cut)) {
                let window = &text.as_bytes()[cut.saturating_sub(LOOKBACK_BYTES)..];
                let mut found = Vec::new();
                let base = text.len() - window.len();
                scanner.scan_region(window, cut - base..window.len(), &all, &mut found).unwrap();
                assert_eq!(found.len(), whole.len(), "{before:?} {unseen} {behind:?} cut at {cut}");
            }
            if before.starts_with("Done") && unseen < 250 {
                assert_eq!(whole.len(), 1, "{before:?} {unseen} {behind:?}");
            }
        }
    }
}

#[test]
fn refused_detectors_are_all_named() {
    let list = vec![
        detector("fine", "abc"),
        detector("wide", r"(?:[\x00-\xff]{1,200}x){600}y"),
        detector("worse", r"(?:[\x00-\xff]{1,200}z){600}y"),
    ];
    let names: Vec<_> =
        Scanner::compile(list).unwrap_err().into_iter().filter_map(|it| it.detector).collect();
    assert!(names.contains(&"wide".to_owned()) && names.contains(&"worse".to_owned()), "{names:?}");
    assert!(!names.contains(&"fine".to_owned()));
}

/// Pieces that match, nearly match and only look like it.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "tk_ABCDEFGH12",
        "tk_ABC",
        "tk_tk_tk_",
        "pass=abcdef",
        "password: ",
        "badge ",
        "123456",
        "1234567",
        "12345",
        "a@b.cd",
        "ann@example.org",
        "@",
        ".",
        " ",
        "\n",
        "order",
        "- ",
        "é",
        "%5F",
        "%",
        "&amp;",
        "\\n",
        "dGtfQUJDREVGR0gxMg==",
        "746b5f4142434445464748",
        "zz",
        "_",
        "\u{200b}",
        "ＡＢ",
    ])
}

/// Rows of numbers such as measurements, amounts and ids, of so many bytes.
fn table(bytes: usize) -> String {
    let mut state: u64 = 7;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let mut rows = String::with_capacity(bytes + 64);
    while rows.len() < bytes {
        let (id, amount, cents, count) = (below(100_000), below(10_000), below(100), below(1000));
        rows.push_str(&format!("{id},{amount}.{cents:02},{count},{}\n", below(1_000_000_000)));
    }
    rows
}

#[test]
fn a_long_table_of_numbers_is_read_and_a_card_number_in_it_is_found() {
    let scanner = Scanner::compile(crate::scan::pack::builtin().unwrap()).unwrap();
    let card = scanner.find("payment_card").unwrap();
    let number = valid_value(scanner.detector(card).unwrap(), 3).unwrap();
    let rows = table(1 << 20);
    let starts: Vec<usize> = rows.match_indices('\n').map(|(at, _)| at + 1).step_by(9000).collect();
    let (mut text, mut places, mut from) = (Vec::new(), Vec::new(), 0);
    for start in starts {
        text.extend_from_slice(&rows.as_bytes()[from..start]);
        places.push(text.len()..text.len() + number.len());
        text.extend_from_slice(&[&number[..], b",17\n"].concat());
        from = start;
    }
    text.extend_from_slice(&rows.as_bytes()[from..]);
    let found = scanner.scan(&text, &scanner.all()).unwrap();
    let found: Vec<Range<usize>> =
        found.into_iter().filter(|it| it.detector == card).map(|it| it.value).collect();
    assert!(places.len() > 2);
    assert_eq!(found, places);
}

#[test]
fn matches_of_a_text_that_is_read_in_parts_are_those_of_the_whole() {
    // Each takes so many numbers at a time, one after another; together they have more candidates than fit.
    let kinds = ('b'..='z').flat_map(|letter| (0..8).map(move |more| (letter, more)));
    let kinds: Vec<(char, usize)> = kinds.collect();
    let takes = |(letter, more): &(char, usize)| {
        detector(&format!("takes_{letter}{more}"), &format!(r"\b[0-9a-{letter}](?: [0-9]){{{more}}}"))
    };
    let (scanner, all) = scanner(kinds.iter().map(takes).collect());
    let numbers = 2000;
    let text = "1 ".repeat(numbers);
    let found = scanner.scan(text.as_bytes(), &all).unwrap();
    for (at, (letter, more)) in kinds.iter().enumerate() {
        let spans = found.iter().filter(|it| usize::from(it.detector.0) == at).map(|it| it.span.clone());
        let width = 2 * (more + 1);
        let expected = (0..numbers / (more + 1)).map(|nth| nth * width..(nth + 1) * width - 1);
        assert!(spans.eq(expected), "{letter}{more}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn regions_add_up_to_the_whole(pieces in prop::collection::vec(piece(), 0..24), cuts in prop::collection::vec(0usize..24, 0..4)) {
        thread_local! {
            static KINDS: (Scanner, DetectorSet) = scanner(kinds());
            // Without context, so that what is matched but not accepted shows.
            static SHAPES: (Scanner, DetectorSet) =
                scanner(kinds().into_iter().map(|kind| Detector { context: None, ..kind }).collect());
        }
        let gapped: Vec<String> = pieces.iter().map(|piece| (*piece).to_owned()).collect();
        let text = gapped.concat();
        KINDS.with(|(scanner, all)| {
            let whole = scanner.scan(text.as_bytes(), all).unwrap();
            let plain = scanner.search_plain(text.as_bytes(), all).unwrap();
            prop_assert_eq!(&scanner.scan_beyond(&Unwrapped::of(text.as_bytes()), all, plain).unwrap(), &whole, "{:?}", &text);
            let matched = SHAPES.with(|(shapes, all)| shapes.scan(text.as_bytes(), all).unwrap());
            let sources = |text: &[u8]| decode::runs(text, 0, Lines::Joined).into_iter().map(|run| run.source).collect::<Vec<_>>();
            let mut runs = sources(text.as_bytes());
            // A look-alike of a digit joins what stands around it.
            if let Some(view) = view::canonical(text.as_bytes()) {
                runs.extend(sources(view.bytes()).into_iter().map(|run| view.source_range(run)));
            }
            let mut at: Vec<usize> = cuts.iter().map(|cut| gapped.iter().take(*cut).map(String::len).sum()).collect();
            at.retain(|cut: &usize| {
                let inside = |range: &Range<usize>| range.start < *cut && *cut < range.end;
                !whole.iter().chain(&matched).any(|it| inside(&it.span)) && !runs.iter().any(inside)
            });
            at.extend([0, text.len()]);
            at.sort_unstable();
            let mut parts = Vec::new();
            for edge in at.windows(2) {
                scanner.scan_region(text.as_bytes(), edge[0]..edge[1], all, &mut parts).unwrap();
            }
            prop_assert_eq!(&parts, &whole, "{:?} at {:?}", &text, &at);
            Ok(())
        })?;
    }
}

#[test]
fn hostile_texts_cost_little_more_than_prose() {
    let (scanner, all) = scanner(kinds());
    let cost = |text: &str| {
        let began = Instant::now();
        let found = scanner.scan(text.as_bytes(), &all);
        (began.elapsed(), found.map(|found| found.len()))
    };
    for unit in ["tk_", "tk_ABCDEFG", "a@", "@a", "aaaaaaaaaaaaaaaaaaaa", "1", "pass=", "badge 1234567 "] {
        let (short, found) = cost(&unit.repeat((1 << 16) / unit.len()));
        assert!(found.is_ok(), "{unit}");
        let (long, found) = cost(&unit.repeat((1 << 19) / unit.len()));
        assert!(found.is_ok(), "{unit}");
        let allowed = short.max(std::time::Duration::from_millis(2)) * 8 * 8;
        assert!(long < allowed, "{unit}: {short:?} for 64 KiB, {long:?} for 512 KiB");
    }
}
