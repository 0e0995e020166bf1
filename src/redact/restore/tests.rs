//! The published failures of other anonymisers (detection.md, section 7, A1 to A10), each as a test.

use proptest::prelude::*;

use super::*;
use crate::llm::json::JsonLimits;
use crate::llm::json::raw_range;
use crate::llm::json::walk;
use crate::redact::mask::MaskKind;
use crate::redact::mask::Masker;
use crate::redact::mask::TenantKey;
use crate::redact::splice::Edit;
use crate::redact::splice::splice;

fn key(tenant: &str) -> TenantKey {
    TenantKey::derive(&[3; 32], tenant)
}

fn vault() -> Vault {
    Vault::new(key("tenant"))
}

/// Hides every occurrence of the values, as the gateway does: by ranges of the original text.
fn hide(vault: &mut Vault, text: &str, values: &[&str]) -> String {
    let found =
        |value: &&str| text.match_indices(*value).map(|(at, value)| at..at + value.len()).collect::<Vec<_>>();
    let mut ranges: Vec<_> = values.iter().filter(|value| !value.is_empty()).flat_map(found).collect();
    ranges.sort_by_key(|range| range.start);
    let mut to = 0;
    ranges.retain(|range| {
        let apart = range.start >= to;
        to = if apart { range.end } else { to };
        apart
    });
    vault.reserve(text.as_bytes());
    let edits: Vec<Edit> = ranges
        .into_iter()
        .map(|range| {
            let replacement = vault.issue("email", &text[range.clone()]).unwrap().into_bytes();
            Edit { range, replacement }
        })
        .collect();
    String::from_utf8(splice(text.as_bytes(), &edits).unwrap().into_owned()).unwrap()
}

#[test]
fn a1_offsets_are_those_of_the_source() {
    let mut vault = vault();
    let text = "Mike. Who is Mike Smith? Mike.";
    let hidden = hide(&mut vault, text, &["Mike", "Smith"]);
    assert!(!hidden.contains("Mike") && hidden.ends_with('.') && hidden.contains(". Who is "));
    assert_eq!(restore(&vault, &hidden, Inside::Text), text);
}

#[test]
fn a2_nothing_crosses_exchanges_or_tenants() {
    let vaults: Vec<(Vault, String)> = (0..10_000)
        .map(|number| {
            let mut vault = Vault::new(key(&format!("tenant {}", number % 7)));
            let token = vault.issue("email", &format!("{number}@example.com")).unwrap();
            (vault, token)
        })
        .collect();
    for (number, (vault, token)) in vaults.iter().enumerate() {
        let (_, foreign) = &vaults[(number + 1) % vaults.len()];
        assert_eq!(restore(vault, token, Inside::Text), format!("{number}@example.com"));
        assert_eq!(restore(vault, foreign, Inside::Text), *foreign);
    }
    let token = |tenant: &str| Vault::new(key(tenant)).issue("email", "a@b.c").unwrap();
    assert_ne!(token("one"), token("two"));
}

#[test]
fn a3_a_value_has_one_placeholder_even_with_letters_glued_on() {
    let mut vault = vault();
    let token = vault.issue("email", "a@b.c").unwrap();
    assert_eq!(vault.issue("email", "a@b.c").unwrap(), token);
    assert_ne!(vault.issue("phone", "a@b.c").unwrap(), token);
    assert_eq!(restore(&vault, &format!("<{token}s> {token}_x"), Inside::Text), "<a@b.cs> a@b.c_x");
}

#[test]
fn a4_tool_arguments_stay_json() {
    let mut vault = vault();
    let value = "O\"Brien\\\n";
    let token = vault.issue("name", value).unwrap();
    let arguments = format!("{{\"name\":\"{token}\"}}");
    let restored: serde_json::Value =
        serde_json::from_str(&restore(&vault, &arguments, Inside::Json)).unwrap();
    assert_eq!(restored["name"], value);
    // The arguments themselves stand in a string of the body.
    let body = serde_json::to_vec(&serde_json::json!({ "arguments": arguments })).unwrap();
    let doc = walk(&body, &JsonLimits::STRICT).unwrap();
    let string = &doc.strings[1];
    let text = String::from_utf8(doc.text(&body, string).into_owned()).unwrap();
    let mut replacement = Vec::new();
    escape_into(&restore(&vault, &text, Inside::Json), &mut replacement);
    let range = raw_range(&body, string, 0..text.len());
    let body: serde_json::Value =
        serde_json::from_slice(&splice(&body, &[Edit { range, replacement }]).unwrap()).unwrap();
    let arguments: serde_json::Value = serde_json::from_str(body["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments["name"], value);
}

#[test]
fn a5_what_was_put_back_is_not_touched_again() {
    let mut vault = vault();
    let inner = vault.issue("email", "a@b.c").unwrap();
    let outer = vault.issue("note", &inner).unwrap();
    assert_eq!(restore(&vault, &outer, Inside::Text), inner);
}

#[test]
fn a6_turns_of_a_conversation_agree() {
    let first = hide(&mut vault(), "write to a@b.c", &["a@b.c"]);
    let mut second = vault();
    let history = hide(&mut second, "write to a@b.c", &["a@b.c"]);
    let again = hide(&mut second, "and to a@b.c, x@y.z", &["a@b.c", "x@y.z"]);
    assert_eq!(history, first);
    assert_eq!(restore(&second, &again, Inside::Text), "and to a@b.c, x@y.z");
    assert_eq!(restore(&second, &first, Inside::Text), "write to a@b.c");
}

#[test]
fn a7_placeholders_are_literal_and_the_vault_is_bounded() {
    let mut vault = vault();
    let token = vault.issue("e-mail [a-z]{3}", "a@b.c").unwrap();
    assert!(
        token.starts_with("PII_EMAILAZ3_")
            && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    );
    let other_case = token.to_lowercase();
    assert_eq!(restore(&vault, &other_case, Inside::Text), other_case);
    let near = format!("{}0", &token[..token.len() - 1]);
    let expected = if near == token { "a@b.c".to_string() } else { near.clone() };
    assert_eq!(restore(&vault, &near, Inside::Text), expected);
    assert!(vault.issue("x", &"y".repeat(crate::redact::token::VAULT_BYTES_MAX)).is_none());
    let masker = Masker::new(key("tenant"));
    let large = vec![b'y'; crate::redact::token::VAULT_BYTES_MAX];
    assert_eq!(masker.mask(MaskKind::Token, "x", &large, Some(&mut vault)), "[REDACTED:x]");
    assert_eq!(format!("{vault:?}"), "Vault { entries: 1, .. }");
}

#[test]
fn a8_every_occurrence_is_hidden() {
    let mut vault = vault();
    let hidden = hide(&mut vault, "k1 k1 k1k1", &["k1"]);
    assert_eq!(hidden.matches("PII_").count(), 4);
}

#[test]
fn a10_what_a_person_typed_is_never_taken_for_a_placeholder() {
    let token = vault().issue("email", "a@b.c").unwrap();
    let mut vault = vault();
    let text = format!("my address a@b.c is not {token}");
    let hidden = hide(&mut vault, &text, &["a@b.c"]);
    assert_eq!(hidden.matches(&token).count(), 1);
    assert_eq!(restore(&vault, &hidden, Inside::Text), text);
}

proptest! {
    #[test]
    fn a9_what_was_hidden_comes_back(text in "(PII_|PI|a@b|[A-F0-9_]|\\PC| ){0,60}", from: usize, length in 1..9_usize) {
        let characters: Vec<char> = text.chars().collect();
        let from = from % (characters.len() + 1);
        let value: String = characters.iter().skip(from).take(length).collect();
        let mut vault = vault();
        let hidden = hide(&mut vault, &text, &[&value]);
        prop_assert_eq!(restore(&vault, &hidden, Inside::Text), text);
    }

    #[test]
    fn pieces_do_not_matter(noise in "(PII_|PII_EMAIL_|P|[a-f0-9]|é| ){0,12}", sizes in prop::collection::vec(1..9_usize, 1..30)) {
        let mut vault = vault();
        let tokens = [vault.issue("email", "a@b.c").unwrap(), vault.issue("email", "x@y.z").unwrap()];
        let text = format!("{noise}{}{noise}{}P{}", tokens[0], tokens[1], &tokens[0][..9]);
        let characters: Vec<char> = text.chars().collect();
        let (mut restorer, mut out, mut at) = (Restorer::new(Inside::Text), String::new(), 0);
        for size in sizes.iter().cycle() {
            if at >= characters.len() { break; }
            let piece: String = characters.iter().skip(at).take(*size).collect();
            out.push_str(&restorer.push(&vault, &piece));
            prop_assert!(restorer.held_bytes() < PLACEHOLDER_BYTES_MAX);
            at += size;
        }
        out.push_str(&restorer.finish());
        prop_assert_eq!(out, restore(&vault, &text, Inside::Text));
        prop_assert_eq!(restore(&vault, &text, Inside::Text).matches("a@b.c").count(), 1);
    }
}

#[test]
fn a_value_in_json_within_json_stays_one_value() {
    let mut vault = vault();
    let value = "say \"so\" \\ and\nso";
    let hidden = vault.issue("note", value).unwrap();
    let inner = serde_json::json!({ "note": format!("it is {hidden}") }).to_string();
    let text = serde_json::json!({ "body": inner, "plain": hidden }).to_string();
    let check = |restored: &str| {
        let outer: serde_json::Value = serde_json::from_str(restored).unwrap();
        let inner: serde_json::Value = serde_json::from_str(outer["body"].as_str().unwrap()).unwrap();
        assert_eq!(
            (outer["plain"].as_str(), inner["note"].as_str()),
            (Some(value), Some(&*format!("it is {value}")))
        );
    };
    check(&restore(&vault, &text, Inside::Json));
    for size in 1..text.len() {
        let (mut restorer, mut out) = (Restorer::new(Inside::Json), String::new());
        for piece in text.as_bytes().chunks(size) {
            out.push_str(&restorer.push(&vault, std::str::from_utf8(piece).unwrap()));
        }
        out.push_str(&restorer.finish());
        check(&out);
    }
    let mut edits: Vec<Edit> = Vec::new();
    for (range, written) in find(&vault, text.as_bytes(), Inside::Json).values {
        edits.push(Edit { range, replacement: written.into_bytes() });
    }
    check(std::str::from_utf8(&splice(text.as_bytes(), &edits).unwrap()).unwrap());
}
