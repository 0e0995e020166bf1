//! Bodies that two decoders could read differently: refused where the policy fails closed, recorded where it is open.

use base64::Engine;
use portcullis::policy::decision::Action;

use super::Bench;
use super::Case;
use super::policy_of_all;

fn base64(file: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(file)
}

#[test]
fn what_cannot_be_read_safely_meets_the_fail_mode() {
    let policies = [("open", "open"), ("closed", "closed")]
        .map(|(name, fail)| policy_of_all(name, "redact", &format!("fail_mode = \"{fail}\"")));
    let bench = Bench::new(&policies.concat());
    let user = r#""messages":[{"role":"user","content":"hi"}]"#;
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let wide: Vec<u8> = format!("{{{user}}}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let table: Vec<(&str, Vec<u8>)> = vec![
        ("a duplicate key", format!("{{{user},{user}}}").into()),
        ("a duplicate key in escapes", format!("{{{user},\"m\\u0065ssages\":[]}}").into()),
        ("a key in another case", r#"{"MESSAGES":[{"role":"user","content":"hi"}]}"#.into()),
        ("a key with a long s", "{\"me\u{17f}\u{17f}ages\":[]}".into()),
        ("a byte order mark", format!("\u{feff}{{{user}}}").into()),
        ("UTF-16", wide.clone()),
        ("UTF-16 with a mark", [&[0xff, 0xfe], &wide[..]].concat()),
        ("bad UTF-8", b"{\"a\":\"\xff\"}".to_vec()),
        ("overlong UTF-8", b"{\"a\":\"\xc0\xaf\"}".to_vec()),
        ("a CESU-8 pair", b"{\"a\":\"\xed\xa0\xbd\xed\xb8\x80\"}".to_vec()),
        ("a lone high surrogate", br#"{"a":"\ud800"}"#.to_vec()),
        ("a lone low surrogate", br#"{"a":"\udc00 x"}"#.to_vec()),
        ("surrogates the wrong way round", br#"{"a":"\ude00\ud83d"}"#.to_vec()),
        ("NaN", br#"{"a":NaN}"#.to_vec()),
        ("Infinity", br#"{"a":-Infinity}"#.to_vec()),
        ("a number beyond all", br#"{"a":1E400}"#.to_vec()),
        ("depth 200", deep.into()),
        ("text behind", format!("{{{user}}} x").into()),
        ("two documents", format!("{{{user}}}{{{user}}}").into()),
        ("a comment", format!("{{{user} /* x */}}").into()),
        ("a trailing comma", format!("{{{user},}}").into()),
        ("a raw control character", b"{\"a\":\"x\x01\"}".to_vec()),
        ("a raw line feed", b"{\"a\":\"x\ny\"}".to_vec()),
        ("NUL in a key", br#"{"a\u0000b":1}"#.to_vec()),
        ("an unended string", br#"{"a":"x"#.to_vec()),
        ("single quotes", br"{'a':1}".to_vec()),
        ("a leading zero", br#"{"a":012}"#.to_vec()),
        ("a file in UTF-16", format!(r#"{{"file":{{"file_data":"{}"}}}}"#, base64(&wide)).into()),
        ("one in an address", format!(r#"{{"url":"data:text/plain;base64,{}"}}"#, base64(&wide)).into()),
    ];
    for (name, body) in table {
        let closed = bench.whole(Case::request("closed", "openai"), &mut bench.vault(), &body);
        assert!(closed.unreadable.is_some(), "{name} was read");
        assert_eq!((closed.action, closed.cleared), (Action::Block, None), "{name}");
        let open = bench.whole(Case::request("open", "openai"), &mut bench.vault(), &body);
        assert!(open.unreadable.is_some() && open.action == Action::Monitor, "{name}");
        assert_eq!(&open.cleared.expect("it passes").into_bytes()[..], &body[..], "{name}");
    }
}

#[test]
fn a_charset_other_than_utf_8_is_refused() {
    let bench = Bench::new("");
    let case = Case::request("default", "openai");
    for media in [
        "application/json; charset=utf-16",
        "application/json; charset=iso-8859-1",
        "text/plain; charset=utf-7",
    ] {
        let result = bench.declared(case, &mut bench.vault(), b"{}", media);
        assert_eq!(result.action, Action::Block, "{media}");
    }
}

#[test]
fn bytes_that_are_no_text_pass_only_where_they_are_declared_to_be_none() {
    let bench = Bench::new("");
    let case = || Case::request("default", "generic");
    let binary = b"\x89PNG\xff\xfe\x00 AK";
    for (media, passes) in [
        ("image/png", true),
        ("application/octet-stream", true),
        ("application/x-unheard-of", false),
        ("text/plain", false),
        ("nonsense", false),
        ("text/event-stream", false),
    ] {
        let verdict = bench.declared(case(), &mut bench.vault(), binary, media);
        assert_eq!((verdict.cleared.is_some(), verdict.unreadable.is_none()), (passes, passes), "{media}");
    }
}
