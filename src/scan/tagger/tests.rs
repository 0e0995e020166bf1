//! What the shipped tagger finds, and that how a text comes changes nothing.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use super::chain::Tag;
use super::reading::Reading;
use super::reading::SPAN_BYTES_MAX;
use super::reading::Span;
use super::reading::UNASKED_BYTES_MAX;
use super::*;
use crate::scan::pack;

const TEXTS: [&str; 9] = [
    "Hello, my name is Maria Lopez and I live at 12 Baker Street, London.",
    "Bitte schicken Sie das Paket an Frau Sabine Müller, Hauptstraße 12, 80331 München.",
    "Меня зовут Иван Петров. Я живу в городе Москва.",
    "我叫李健，住在北京。收货地址：北京市朝阳区建国路88号。",
    "{\"name\": \"Priya Sharma\", \"city\": \"Mumbai\", \"id\": 42}",
    "fn main() { let report = Report::new(); println!(\"{report}\"); }",
    "From: Jean-Pierre O'Neil <j@example.org>\n\nThanks,\nJean-Pierre\n\n\n> Åsa Öberg\n> Storgatan 5\n",
    r#"{"to": "Jos\u00e9 Garc\u00eda", "note": "Hi,\n\u674e\u5065\ud83d\ude00 of \"ACME\"\u12"}"#,
    "The invoice is due on Monday.                                                                            John Smith   ",
];

fn shipped() -> Tagger {
    let files = pack::builtin_models();
    let (_, file) = files.iter().find(|(path, _)| path.ends_with("doorplate/model.bin")).expect("it ships");
    format::read(file).expect("it can be read")
}

fn told(tagger: &Tagger, text: &str) -> Vec<(Tag, String)> {
    tagger.find(text.as_bytes()).into_iter().map(|span| (span.tag, text[span.range].to_owned())).collect()
}

#[test]
fn names_addresses_and_places_are_found_in_sentences() {
    let tagger = shipped();
    let found = |at: usize| told(&tagger, TEXTS[at]);
    assert_eq!(found(0)[0], (Tag::Person, "Maria Lopez".to_owned()));
    assert!(found(0)[1].0 == Tag::Address && found(0)[1].1.starts_with("12 Baker Street"), "{:?}", found(0));
    assert!(found(1).contains(&(Tag::Person, "Sabine Müller".to_owned())), "{:?}", found(1));
    assert!(found(2).contains(&(Tag::Person, "Иван Петров".to_owned())), "{:?}", found(2));
    assert!(found(3).contains(&(Tag::Person, "李健".to_owned())), "{:?}", found(3));
    assert_eq!(found(4)[0], (Tag::Person, "Priya Sharma".to_owned()));
    assert_eq!(found(5), []);
}

#[test]
fn what_is_found_does_not_depend_on_how_a_text_comes() {
    let tagger = shipped();
    for text in TEXTS {
        let whole = tagger.find(text.as_bytes());
        for step in [1, 2, 3, 5, 17] {
            let (mut reading, mut all, mut free) = (Reading::default(), Vec::new(), 0);
            for piece in text.as_bytes().chunks(step) {
                let mut spans: Vec<Span> = Vec::new();
                reading.push(&tagger, piece, &mut spans);
                assert!(spans.iter().all(|span| span.range.start >= free), "{text}: too late");
                assert!(reading.free_to() >= free, "{text}: what is free stays so");
                free = reading.free_to();
                all.extend(spans);
            }
            reading.finish(&tagger, &mut all);
            assert_eq!(all, whole, "{text} by {step}");
            assert_eq!(reading.free_to(), text.len());
        }
    }
}

#[test]
fn names_are_found_in_the_strings_of_json_whatever_is_escaped() {
    let tagger = shipped();
    for (text, name) in [
        (r#"{"customer": "Jos\u00e9 Garc\u00eda", "id": 4}"#, r"Jos\u00e9 Garc\u00eda"),
        (r#"{"note":"Hi,\nmy name is Andr\u00e9 Dupont.\nBye"}"#, r"Andr\u00e9 Dupont"),
        (
            r#"{"n": "\u041c\u0435\u043d\u044f \u0437\u043e\u0432\u0443\u0442 \u0418\u0432\u0430\u043d \u041f\u0435\u0442\u0440\u043e\u0432."}"#,
            r"\u0418\u0432\u0430\u043d \u041f\u0435\u0442\u0440\u043e\u0432",
        ),
    ] {
        let told = told(&tagger, text);
        assert!(told.contains(&(Tag::Person, name.to_owned())), "{text}: {told:?}");
    }
}

#[test]
fn whether_there_is_time_is_asked_again_and_again() {
    let (tagger, text) = (shipped(), "a b c d ".repeat(4 << 10).into_bytes());
    let asked = AtomicUsize::new(0);
    let ends_after = |most: usize| {
        asked.store(0, Ordering::Relaxed);
        tagger.find_in_time(&text, &|| asked.fetch_add(1, Ordering::Relaxed) >= most)
    };
    assert_eq!(ends_after(usize::MAX), Ok(tagger.find(&text)));
    assert_eq!(asked.load(Ordering::Relaxed), text.len().div_ceil(UNASKED_BYTES_MAX));
    assert_eq!(ends_after(3), Err(Late));
    assert_eq!(asked.load(Ordering::Relaxed), 4, "nothing is read any more");
}

#[test]
fn little_waits() {
    let tagger = shipped();
    let prose =
        "the invoice for the report of last week was late and nobody read the table in it. ".repeat(20);
    let hostile =
        ["John ".repeat(2000), "a".repeat(9000), format!("John{}", " ".repeat(9000)), "李".repeat(3000)];
    let escaped = format!("[\"{}", r"\u674e\u5065".repeat(900));
    let all = hostile.iter().map(|text| (text, SPAN_BYTES_MAX + 400));
    for (text, most) in all.chain([(&prose, 60), (&escaped, SPAN_BYTES_MAX + 400)]) {
        let (mut reading, mut spans) = (Reading::default(), Vec::new());
        for (at, byte) in text.bytes().enumerate() {
            reading.push(&tagger, &[byte], &mut spans);
            let waits = at + 1 - reading.free_to();
            assert!(waits <= most, "{waits} bytes wait in {:?}…", &text[..12]);
        }
    }
}
