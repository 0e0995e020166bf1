//! Merge patches, places, faults and what is shown of secrets.

use serde_json::json;

use super::*;
use crate::document::fault::nearest;

#[test]
fn merge_patches_as_the_rfc_shows_them() {
    // RFC 7396, appendix A.
    let cases = [
        (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
        (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
        (json!({"a":"b"}), json!({"a":null}), json!({})),
        (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
        (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
        (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
        (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
        (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
        (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
        (json!({"a":"b"}), json!(["c"]), json!(["c"])),
        (json!({"a":"foo"}), json!(null), json!(null)),
        (json!({"a":"foo"}), json!("bar"), json!("bar")),
        (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
        (json!([1, 2]), json!({"a":"b","c":null}), json!({"a":"b"})),
        (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
    ];
    for (target, change, expected) in cases {
        assert_eq!(patch::apply(target.clone(), change.clone()), expected, "{target} {change}");
    }
}

#[test]
fn tables_differ_as_deep_as_they_go() {
    let table = |value: serde_json::Value| value.as_object().cloned().unwrap();
    for (before, after, expected) in [
        (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1, "c": 3}}), vec!["a.c"]),
        (json!({"a": {"b": 1}}), json!({}), vec!["a.b"]),
        (json!({}), json!({"a": {"b": {"c": [1]}}, "d": {}}), vec!["a.b.c", "d"]),
        (json!({"a": 1}), json!({"a": {"b": 1}}), vec!["a"]),
        (json!({"a": [1]}), json!({"a": [1]}), vec![]),
    ] {
        assert_eq!(patch::changed_paths(&table(before), &table(after)), expected);
    }
}

#[test]
fn every_key_knows_its_place() {
    let text = "a = 1\n[b]\nc = [\n  { d = 2 },\n]\n  é = 0\n";
    let document = toml::parse("\"é\" = 1\n", "x").map(|d| d.places().of("é").cloned());
    assert_eq!(document.unwrap().unwrap().column, Some(1));
    let faults = toml::parse(text, "f.toml").unwrap_err();
    assert_eq!(faults[0].line(), Some(6), "{faults:?}");
    let text = text.replace('é', "e");
    let document = toml::parse(&text, "f.toml").unwrap();
    let cases =
        [("a", 1, 1), ("b", 2, 2), ("b.c", 3, 1), ("b.c[0].d", 4, 5), ("b.e", 6, 3), ("b.e.x.y", 6, 3)];
    for (path, line, column) in cases {
        let place = document.places().of(path).unwrap();
        assert_eq!((place.line, place.column), (Some(line), Some(column)), "{path}");
    }
}

#[test]
fn a_layer_takes_its_places_along() {
    let mut document = toml::parse("[a]\nx = 1\ny = [{ z = 1 }]\n", "low").unwrap();
    document.overlay(toml::parse("\n\na.y = []\n", "high").unwrap());
    let source = |path: &str| document.places().of(path).unwrap().source.to_string();
    assert_eq!([source("a.x"), source("a.y"), source("a.y[0].z")], ["low", "high", "high"]);
    assert_eq!(document.to_json(), json!({"a":{"x":1,"y":[]}}));
}

#[test]
fn all_faults_come_at_once_with_line_and_suggestion() {
    let text = "flagg = true\nport = 70000\nname = 3\nsecret = \"s\"\nwho = \"x\"\nlist = [1]\n";
    let document = toml::parse(text, "f.toml").unwrap();
    let faults = section::read(&document, |root| {
        root.flag_or("flag", false);
        root.number("port", 1..=65_535);
        root.text("name");
        root.choice_maybe::<std::net::IpAddr>("who");
        root.texts("list");
        root.text("gone");
    });
    let lines: Vec<String> = faults.unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "gone: missing",
            "f.toml:1:1: flagg: unknown key; did you mean `flag`?",
            "f.toml:2:1: port: expected a number from 1 to 65535",
            "f.toml:3:1: name: expected a text",
            "f.toml:4:1: secret: a secret does not belong here; name where it lies with `secret_file` or \
             `secret_env`",
            "f.toml:5:1: who: invalid IP address syntax",
            "f.toml:6:1: list: expected a text or a list of texts",
        ]
    );
}

#[test]
fn of_what_has_a_stand_in_no_second_fault_is_told() {
    let document = toml::parse("path = 3\nkind = 3\nboth = \"x\"\n", "f.toml").unwrap();
    let faults = section::read(&document, |root| {
        for key in ["path", "gone"] {
            if root.path_maybe(key).is_none() {
                root.fault(key, Problem::Missing);
                root.fault(key, Problem::Missing);
            }
        }
        for key in ["kind", "none"] {
            root.text(key);
            root.invalid(key, "expected this or that", None);
        }
        root.text("both");
        root.invalid("both", "too short", None);
        root.invalid("both", "too plain", None);
    });
    let lines: Vec<String> = faults.unwrap_err().iter().map(ToString::to_string).collect();
    let expected = [
        "gone: missing",
        "none: missing",
        "f.toml:1:1: path: expected a text",
        "f.toml:2:1: kind: expected a text",
        "f.toml:3:1: both: too short",
        "f.toml:3:1: both: too plain",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn secrets_are_not_shown_and_digests_follow_values() {
    let value = json!({"a":{"api_key":"x","token":["y"],"token_env":"E","tokens_max":3}});
    let document = Document::from_json(value, None).unwrap();
    let expected = json!({"a":{"api_key":"***","token":["***"],"token_env":"E","tokens_max":3}});
    assert_eq!(document.masked(), expected);
    let same = Document::from_json(document.to_json(), None).unwrap();
    assert_eq!(document.etag(), same.etag());
    let other = Document::from_json(json!({"a":1}), None).unwrap();
    assert_ne!(document.etag(), other.etag());
}

#[test]
fn suggestions_are_near_or_absent() {
    let known = ["secrets", "pii", "injection"];
    assert_eq!(nearest("secret", known), Some("secrets".to_owned()));
    assert_eq!(nearest("injektion", known), Some("injection".to_owned()));
    assert_eq!(nearest("zebra", known), None);
}
