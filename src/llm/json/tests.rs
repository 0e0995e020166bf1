//! The walker against a table of hostile bodies, and against serde_json.

use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;

fn problem(body: &[u8]) -> Option<JsonProblem> {
    walk(body, &JsonLimits::STRICT).err().map(|fault| fault.problem)
}

#[test]
fn what_decoders_read_differently_is_refused() {
    let cases: &[(&[u8], JsonProblem)] = &[
        (b"", JsonProblem::Empty),
        (b" \n", JsonProblem::Empty),
        (b"\xef\xbb\xbf{}", JsonProblem::ByteOrderMark),
        (b"{\0}\0", JsonProblem::NotUtf8Encoding),
        (b"\xff\xfe{\0", JsonProblem::NotUtf8Encoding),
        (b"\0\0\0{", JsonProblem::NotUtf8Encoding),
        (b"\"\xc0\xaf\"", JsonProblem::InvalidUtf8),
        (b"\"\xed\xa0\xbd\xed\xb8\x80\"", JsonProblem::InvalidUtf8),
        (br#"{"a":1,"a":2}"#, JsonProblem::DuplicateKey),
        (br#"{"messages":1,"m\u0065ssages":2}"#, JsonProblem::DuplicateKey),
        (br#"[{"x":{"messages":1,"MESSAGES":2}}]"#, JsonProblem::CaseVariantKey),
        ("{\"messages\":1,\"me\u{17f}\u{17f}ages\":2}".as_bytes(), JsonProblem::CaseVariantKey),
        ("{\"key\":1,\"\u{212a}ey\":2}".as_bytes(), JsonProblem::CaseVariantKey),
        (br#"{"key":1,"\u212aey":2}"#, JsonProblem::CaseVariantKey),
        (br#""\ud800""#, JsonProblem::LoneSurrogate),
        (br#""\ud800\u0041""#, JsonProblem::LoneSurrogate),
        (br#""\udc00""#, JsonProblem::LoneSurrogate),
        (br#""\ud83dx""#, JsonProblem::LoneSurrogate),
        (br#""\u12g4""#, JsonProblem::MalformedEscape),
        (br#""\x41""#, JsonProblem::MalformedEscape),
        (b"\"a\nb\"", JsonProblem::ControlCharacter),
        (b"\"0123456789012345678901234567890123456789\x01\"", JsonProblem::ControlCharacter),
        (br#"{"a\u0000b":1}"#, JsonProblem::NulInKey),
        (b"NaN", JsonProblem::ExpectedValue),
        (b"-Infinity", JsonProblem::MalformedNumber),
        (b"1E400", JsonProblem::NumberOutOfRange),
        (b"-1e999999999999", JsonProblem::NumberOutOfRange),
        (b"01", JsonProblem::MalformedNumber),
        (b"1.", JsonProblem::MalformedNumber),
        (b"1e", JsonProblem::MalformedNumber),
        (b"+1", JsonProblem::ExpectedValue),
        (b".5", JsonProblem::ExpectedValue),
        (b"{} {}", JsonProblem::TrailingText),
        (b"[1] // note", JsonProblem::TrailingText),
        (b"[1,]", JsonProblem::ExpectedValue),
        (b"{\"a\":1,}", JsonProblem::ExpectedKey),
        (b"{a:1}", JsonProblem::ExpectedKey),
        (b"{\"a\" 1}", JsonProblem::ExpectedColon),
        (b"[1 2]", JsonProblem::ExpectedCommaOrEnd),
        (b"[,1]", JsonProblem::ExpectedValue),
        (b"[1}", JsonProblem::ExpectedCommaOrEnd),
        (b"[", JsonProblem::UnexpectedEnd),
        (b"{\"a\"", JsonProblem::UnexpectedEnd),
        (b"\"a", JsonProblem::UnexpectedEnd),
        (b"tru", JsonProblem::ExpectedValue),
    ];
    for (body, expected) in cases {
        assert_eq!(problem(body), Some(*expected), "{:?}", String::from_utf8_lossy(body));
    }
}

#[test]
fn halves_of_a_character_stand_at_the_ends_of_an_event_s_values_alone() {
    let halves = |body: &[u8]| {
        let document = walk_event(body, &JsonLimits::STRICT).map_err(|fault| fault.problem)?;
        let string = document.strings.iter().find(|string| !string.key).unwrap();
        Ok((document.text(body, string).into_owned(), Halves::of(body, string)))
    };
    let (begin, end) = (Some(0xde00), Some(0xd83d));
    let none = Halves::default();
    let [first, second, third, fourth] = Halves::joined(0xd83d, 0xde00).unwrap();
    assert_eq!([first, second, third, fourth], "\u{1f600}".as_bytes());
    for (body, text, expected) in [
        (&br#"["a\ud83d"]"#[..], [&b"a"[..], &[first, second]].concat(), Halves { end, ..none }),
        (br#"["a\\ud83d"]"#, br"a\ud83d".to_vec(), none),
        (br#"["\ud83d\ude00"]"#, [first, second, third, fourth].to_vec(), none),
        (br#"["a\\\ud83d"]"#, [&br"a\"[..], &[first, second]].concat(), Halves { end, ..none }),
    ] {
        assert_eq!(halves(body), Ok((text, expected)), "{}", String::from_utf8_lossy(body));
    }
    assert_eq!(halves(br#"["\ude00 a"]"#).unwrap().1, Halves { begin, ..none });
    assert_eq!(halves(br#"["\ude00\ud83d"]"#).unwrap().1, Halves { begin, end });
    for body in [&br#"["a\ude00"]"#[..], br#"["\ud83d a"]"#, br#"{"\ud83d":"a"}"#, br#"["\ud83d\u0041"]"#] {
        assert_eq!(halves(body), Err(JsonProblem::LoneSurrogate), "{}", String::from_utf8_lossy(body));
    }
}

#[test]
fn limits_hold_exactly() {
    let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
    assert_eq!(problem(&nested(64)), None);
    assert_eq!(problem(&nested(65)), Some(JsonProblem::TooDeep));
    assert_eq!(problem(&vec![b'['; 1_000_000]), Some(JsonProblem::TooDeep));
    let limits = JsonLimits { strings_max: 2, nodes_max: 3, ..JsonLimits::STRICT };
    let walked = |body: &[u8]| walk(body, &limits).err().map(|fault| fault.problem);
    assert_eq!(walked(br#"["a","b"]"#), None);
    assert_eq!(walked(br#"["a","b","c"]"#), Some(JsonProblem::TooManyStrings));
    assert_eq!(walked(b"[1,2,3,4,5,[],[]]"), None);
    assert_eq!(walked(b"[[],[],[]]"), Some(JsonProblem::TooManyValues));
}

#[test]
fn the_fault_names_the_place() {
    let fault = walk(br#"{"a": [1, 2, "x"y]}"#, &JsonLimits::STRICT).unwrap_err();
    assert_eq!(fault, JsonFault { problem: JsonProblem::ExpectedCommaOrEnd, offset: 16 });
    assert_eq!(fault.to_string(), "expected a comma or the end of the object or array at byte 16");
}

#[test]
fn values_are_found_by_path() {
    let body = br#"{"stream": true, "n\u0031": -12.5e1, "a": [1, null, {"b": "x\ny"}, "z"], "none": null, "big": 7}"#;
    let doc = walk(body, &JsonLimits::STRICT).unwrap();
    assert_eq!(doc.bool_at(body, &["stream"]), Some(true));
    assert_eq!(doc.number_at(body, &["n1"]), Some(-125.0));
    assert_eq!(doc.u64_at(body, &["big"]), Some(7));
    assert_eq!(doc.str_at(body, &["a", "2", "b"]).as_deref(), Some("x\ny"));
    assert_eq!(doc.str_at(body, &["a", "3"]).as_deref(), Some("z"));
    assert_eq!(doc.str_at(body, &["a", "1"]), None);
    let none = doc.find(body, &["none"]).unwrap();
    assert!(!doc.is_set(none) && doc.parent(none) == Some(NodeId::ROOT));
    let paths: Vec<String> =
        doc.strings.iter().filter(|s| !s.key).map(|s| doc.path(body, s.node).to_string()).collect();
    assert_eq!(paths, ["a[2].b", "a[3]"]);
    let keys: Vec<String> =
        doc.strings.iter().filter(|s| s.key).map(|s| doc.path(body, s.node).to_string()).collect();
    assert_eq!(keys, ["stream", "n1", "a", "a[2].b", "none", "big"]);
}

#[test]
fn decoded_offsets_map_to_whole_units() {
    let body = br#"["a\ud83d\ude00b\u00e9c\n"]"#;
    let doc = walk(body, &JsonLimits::STRICT).unwrap();
    let string = &doc.strings[0];
    assert_eq!(&*doc.text(body, string), "a😀béc\n".as_bytes());
    let cases = [
        (0..1, "a"),
        (1..5, r"\ud83d\ude00"),
        (2..3, r"\ud83d\ude00"),
        (4..6, r"\ud83d\ude00b"),
        (7..8, r"\u00e9"),
        (8..10, r"c\n"),
        (0..10, r"a\ud83d\ude00b\u00e9c\n"),
    ];
    for (decoded, raw) in cases {
        let range = raw_range(body, string, decoded.clone());
        assert_eq!(std::str::from_utf8(&body[range]).unwrap(), raw, "{decoded:?}");
    }
    let plain = "[\"aéb\"]".as_bytes();
    let doc = walk(plain, &JsonLimits::STRICT).unwrap();
    assert_eq!(&plain[raw_range(plain, &doc.strings[0], 2..3)], "é".as_bytes());
    assert_eq!(raw_range(plain, &doc.strings[0], 0..99).end, doc.strings[0].raw.end);
}

/// Every string of a value, keys included, in serde_json's view.
fn strings_of(value: &Json, out: &mut Vec<String>) {
    match value {
        Json::String(text) => out.push(text.clone()),
        Json::Array(items) => items.iter().for_each(|item| strings_of(item, out)),
        Json::Object(members) => members.iter().for_each(|(key, member)| {
            out.push(key.clone());
            strings_of(member, out);
        }),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Json::from),
        any::<String>().prop_map(Json::from),
        "[\\\\\"\u{0}-\u{1f}é😀a/]{0,40}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
            prop::collection::btree_map("[a-z\"\\\\é]{0,5}", inner, 0..6)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

/// Writes every character of a string in one of the ways JSON allows.
fn written(text: &str, style: u8) -> String {
    let mut out = String::new();
    for (at, character) in text.chars().enumerate() {
        let plain = !matches!(character, '"' | '\\' | '\0'..='\u{1f}');
        if plain && !(at as u8).wrapping_add(style).is_multiple_of(3) {
            out.push(character);
            continue;
        }
        character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04X}")));
    }
    out
}

proptest! {
    #[test]
    fn sees_the_strings_that_serde_sees(value in json(), pretty: bool) {
        let body = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) }.unwrap();
        let doc = walk(&body, &JsonLimits::STRICT).unwrap();
        let mut expected = Vec::new();
        strings_of(&value, &mut expected);
        let mut seen: Vec<String> =
            doc.strings.iter().map(|s| String::from_utf8(doc.text(&body, s).into_owned()).unwrap()).collect();
        expected.sort();
        seen.sort();
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn what_is_accepted_is_json(value in json(), at in any::<prop::sample::Index>(), byte: u8, cut: bool) {
        let mut body = serde_json::to_vec(&value).unwrap();
        let at = at.index(body.len());
        if cut { body.remove(at); } else { body[at] = byte; }
        if walk(&body, &JsonLimits::STRICT).is_ok() {
            prop_assert!(serde_json::from_slice::<Json>(&body).is_ok());
        }
    }

    #[test]
    fn text_and_ranges_agree_however_it_is_written(text: String, style: u8, from: usize, length: usize) {
        let body = format!("[\"{}\"]", written(&text, style)).into_bytes();
        let doc = walk(&body, &JsonLimits::STRICT).unwrap();
        let string = &doc.strings[0];
        prop_assert_eq!(&*doc.text(&body, string), text.as_bytes());
        if text.is_empty() { return Ok(()); }
        let boundary = |mut at: usize, up: bool| {
            while !text.is_char_boundary(at) { if up { at += 1 } else { at -= 1 } }
            at
        };
        let start = from % text.len();
        let end = start + 1 + length % (text.len() - start);
        let raw = raw_range(&body, string, start..end);
        let piece = JsonString { raw: raw.clone(), ..string.clone() };
        let expected = &text.as_bytes()[boundary(start, false)..boundary(end, true)];
        prop_assert_eq!(&*doc.text(&body, &piece), expected);
        // A replacement leaves a body that reads as the text with just that piece exchanged.
        let mut inside = Vec::new();
        escape_into("[\"x\"\n]", &mut inside);
        let spliced = [&body[..raw.start], &inside, &body[raw.end..]].concat();
        let read: Vec<String> = serde_json::from_slice(&spliced).unwrap();
        let wanted = format!("{}[\"x\"\n]{}", &text[..boundary(start, false)], &text[boundary(end, true)..]);
        prop_assert_eq!(&read[0], &wanted);
    }

    #[test]
    fn no_bytes_panic(body: Vec<u8>, text in "[\\[\\]{}\",:\\\\u0-9a-fdDtrueEnl \\-+.]{0,60}") {
        let _ = walk(&body, &JsonLimits::STRICT);
        if walk(text.as_bytes(), &JsonLimits::STRICT).is_ok() {
            prop_assert!(serde_json::from_str::<Json>(&text).is_ok());
        }
    }
}

#[test]
fn long_numbers_are_found_by_their_digits_before_the_point() {
    let body =
        br#"{"a":4111111111,"b":[-4111111111,4111111111.0,1],"c":4111111111e0,"d":0.4111111111,"e":"x"}"#;
    let doc = walk(body, &JsonLimits::STRICT).unwrap();
    let shown = |range: Range<usize>| std::str::from_utf8(&body[range]).unwrap();
    let found: Vec<(&str, &str)> =
        doc.long_numbers(body).map(|number| (shown(number.raw), shown(number.digits))).collect();
    let digits = "4111111111";
    let raw = ["4111111111", "-4111111111", "4111111111.0", "4111111111e0"];
    assert_eq!(found, raw.map(|raw| (raw, digits)));
}
