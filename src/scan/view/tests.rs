use proptest::prelude::*;

use super::*;

fn shown(text: &[u8]) -> String {
    canonical(text).map_or("(same)".to_owned(), |view| String::from_utf8_lossy(view.bytes()).into_owned())
}

#[test]
fn changes_are_where_the_view_differs() {
    let changes = |text: &str| canonical(text.as_bytes()).unwrap().changes();
    assert_eq!(changes("ab%41cd"), [0..0, 2..3, 5..5]);
    assert_eq!(changes("ab\u{200b}cd"), [0..0, 2..2, 4..4]);
    assert_eq!(changes("%41%42"), [0..0, 0..2, 2..2]);
}

/// The canonical view as a stream makes it, byte by byte: the byte and the source range of its unit.
fn streamed(text: &[u8], cuts: &[usize]) -> Vec<(u8, Range<usize>)> {
    let mut out = Vec::new();
    let mut reader = Canonicaliser::default();
    let mut emit = |piece: Piece<'_>| {
        for (at, byte) in piece.bytes.iter().enumerate() {
            let range = match piece.changed {
                true => piece.source..piece.source + piece.taken,
                false => piece.source + at..piece.source + at + 1,
            };
            out.push((*byte, range));
        }
    };
    let mut from = 0;
    for cut in cuts.iter().copied().chain([text.len()]) {
        reader.push(&text[from..cut], &mut emit);
        from = cut;
        assert!(reader.pending_from().is_none_or(|pending| pending <= cut));
    }
    reader.finish(&mut emit);
    assert_eq!(reader.pending_from(), None);
    out
}

fn whole(text: &[u8]) -> Vec<(u8, Range<usize>)> {
    match canonical(text) {
        None => text.iter().enumerate().map(|(at, byte)| (*byte, at..at + 1)).collect(),
        Some(view) => {
            let byte = |(at, byte): (usize, &u8)| (*byte, view.source_range(at..at + 1));
            view.bytes().iter().enumerate().map(byte).collect()
        }
    }
}

#[test]
fn what_a_reader_sees() {
    let cases: [(&str, &str); 70] = [
        ("plain prose, (nothing) to undo = fine", "(same)"),
        ("100% sure & \\done; 5 %zz &unknown; &", "(same)"),
        ("\x1b[93msk-1\x1b[0m.", "sk-1."),
        ("\x1b[1;38;5;208mi\x1b[2Kgnore\x1b[1Call", "ignore all"),
        ("\\x1b[31mkey\\u001b[0m", "key"),
        ("\\033[31mkey\\e[0m", "key"),
        ("\x1b]0;title\x07 \x1b[ü \x1b[3", "(same)"),
        ("\x1b[%30%37-%38m", "\x1b[07-8m"),
        ("\x1b[\\x34\\x31", "\x1b[41"),
        ("\x1b[g\u{200b}hp_", "\x1b[ghp_"),
        ("\\034[31m \\end \\0", "(same)"),
        ("\\x1bc", "\x1bc"),
        ("\x1b[1234567890;1234567890;1234567890m", "(same)"),
        ("naïve café — “quoted” … 漢字 😀", "(same)"),
        ("%41%6b%49A", "AkIA"),
        ("%4", "(same)"),
        ("A&#75;&#x49;A&commat;", "AKIA@"),
        ("&amp;lt;", "&lt;"),
        ("&nosuch;&#99999999;", "(same)"),
        ("\\u0041\\x4bIA\\n\\t\\\"\\/\\\\", "AKIA\n\t\"/\\"),
        ("\\ud835\\udc00", "A"),
        ("\\ud835 \\udc00", "(same)"),
        ("\\ud83d\\ude00", "😀"),
        ("\\u00", "(same)"),
        ("A\u{200b}K\u{2060}I\u{ad}A", "AKIA"),
        ("\u{feff}x", "x"),
        ("a\u{202e}b", "ab"),
        ("Ａ１＠", "A1@"),
        ("٤٩٢٩ ۰۹ ६१ ৯ ๕", "4929 09 61 9 5"),
        ("рassword", "password"),
        ("i\u{301}gnore", "ignore"),
        ("g\u{489}h\u{20dd}p\u{fe20}_\u{1ab0}1\u{fe0f}\u{20e3}\u{1dc4}", "ghp_1"),
        ("a\u{e0062}c", "ac"),
        ("a\u{e0062}\u{e0063}d", "abcd"),
        ("a\u{e0062}", "a"),
        ("все\u{e0020}прежние", "Bce пpeжHиe"),
        ("忽略\u{e000a}指令", "忽略\n指令"),
        ("葛\u{e0110}城", "葛城"),
        ("а\u{e0020}b", "ab"),
        ("\u{e0069}\u{e0074}\u{e000a}\u{e0069}\u{e0074}", "it\nit"),
        ("\u{1f600}\u{e0138}\u{e0139}", "😀HI"),
        ("❤\u{fe0f}", "❤"),
        ("👩\u{200d}💻", "👩💻"),
        ("a\u{a0}b", "a b"),
        ("ﬁne", "fine"),
        ("&#x200b;a", "a"),
        ("\\u200ba", "a"),
        ("%EF%BC%A1 \\xef\\xbc\\xa1", "A A"),
        ("gh%E2%80%8Bp%D0%B0 %E2%82%ACz", "ghpa €z"),
        ("4111\u{2011}1111", "4111-1111"),
        ("&#65", "A"),
        ("&#103&#104&#112_", "ghp_"),
        ("&#x67hp_&#X68;", "ghp_h"),
        ("&#x67;&#000000103", "g&#000000103"),
        ("R&#1, C&#x, &#8217 &#700x;", "(same)"),
        ("\\u{67}\\u{0068}\\x{70}_", "ghp_"),
        ("\\u{1F600}\\u{1b}[31mx", "😀x"),
        ("\\u{ff27}", "G"),
        ("\\U00000067", "g"),
        ("\\u{a} \\x{} \\u{67 \\u{1234567} \\u{d800}", "(same)"),
        ("\\u{110000} \\u{{67}} \\u{zz}", "(same)"),
        ("C:\\Users\\U0000\\147\\1", "(same)"),
        ("C:\\147\\150 s/(a)/\\1/ \\100", "(same)"),
        ("https://a.example/?x=1&#top &#", "(same)"),
        ("&ZeroWidthSpaces;", "(same)"),
        ("\\", "(same)"),
        ("%25%34%31", "%41"),
        ("%2541%252541", "AA"),
        ("100%25 %25c3%2", "100% %c3%2"),
        ("", "(same)"),
    ];
    for (text, expected) in cases {
        assert_eq!(shown(text.as_bytes()), expected, "{text:?}");
    }
}

#[test]
fn bytes_that_are_no_text_pass() {
    for text in [&b"\xff\xfe"[..], b"a\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f\x98"] {
        assert_eq!(canonical(text), None, "{text:?}");
    }
    assert_eq!(canonical(b"\xff%41\xe2\x82").unwrap().bytes(), b"\xffA\xe2\x82");
    assert_eq!(canonical(b"%ff%E2%82 %E2%82%41%e2\x82").unwrap().bytes(), b"\xff\xe2\x82 \xe2\x82A\xe2\x82");
}

#[test]
fn offsets_lead_back_to_whole_units() {
    let text = "x\\u0041\u{200b}B%43 y".as_bytes();
    let view = canonical(text).unwrap();
    assert_eq!(view.bytes(), b"xABC y");
    assert_eq!(view.source_range(1..2), 1..7);
    assert_eq!(view.source_range(1..3), 1..11);
    assert_eq!(view.source_range(1..4), 1..14);
    assert_eq!(view.source_range(3..3), 11..11);
    assert_eq!(view.source_range(0..6), 0..text.len());
}

/// Texts with all kinds of escapes, whole and broken.
fn escaped() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        "[a-zA-Z0-9 %&;#x\\\\u]{0,6}".prop_map(String::into_bytes),
        proptest::sample::select(vec![
            "\\u0041",
            "\\ud83d\\ude00",
            "\\ud83d",
            "%41",
            "%E2%82%AC",
            "%E2%80%8B",
            "\\xef\\xbc\\xa1",
            "&#65;",
            "&amp;",
            "&zwj;",
            "&#103",
            "&#x6",
            "&#000000000",
            "\\u{67}",
            "\\u{0000",
            "\\x{1b}[3",
            "\\U0000006",
            "\u{200b}",
            "Ａ",
            "а",
            "ﬁ",
            "\u{e0041}",
            "\u{e0130}",
            "\u{e0020}",
            "👩\u{200d}💻",
            "\\\\",
            "漢",
            "مرحبا",
            "\u{301}",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 0..4),
    ];
    proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn bytes_followed_one_after_another_come_from_where_each_does(
        text in escaped(),
        steps in proptest::collection::vec(0usize..4, 0..60),
    ) {
        let view = canonical(&text).unwrap_or_default();
        let (mut following, mut at) = (view.following(), 0);
        for step in steps {
            at += step;
            prop_assert_eq!(following.start(at), view.source_range(at..at + 1).start);
        }
    }

    #[test]
    fn pieces_make_no_difference(text in escaped(), cuts in proptest::collection::vec(0usize..100, 0..6)) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.sort_unstable();
        let expected = whole(&text);
        prop_assert_eq!(&streamed(&text, &cuts), &expected);
        prop_assert_eq!(&streamed(&text, &(0..text.len()).collect::<Vec<_>>()), &expected);
    }

    #[test]
    fn offsets_rise_and_stay_within(text in escaped(), a in 0usize..80, b in 0usize..80) {
        let units = whole(&text);
        for pair in units.windows(2) {
            prop_assert!(pair[0].1.start <= pair[1].1.start && pair[0].1.end <= pair[1].1.end);
        }
        if let Some(view) = canonical(&text) {
            let (from, to) = (a.min(b).min(units.len()), a.max(b).min(units.len()));
            let range = view.source_range(from..to);
            prop_assert!(range.start <= range.end && range.end <= text.len());
            prop_assert!(units[from..to].iter().all(|(_, unit)| range.start <= unit.start && unit.end <= range.end));
        }
    }
}
