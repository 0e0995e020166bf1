//! What was written once stays readable, and is written the same again.

use super::super::event::AuditForeseen;
use super::super::sample;
use super::*;

/// Written by the first release; must stay readable, byte for byte, for ever.
const FIXTURE_V1: &str = concat!(
    r#"{"v":1,"id":"0000000000000000000000000B","event_type":"exchange","category":"pii","#,
    r#""severity":"high","action":"block","actor":"key-1","entity":"user-1","route":"chat","#,
    r#""request_id":"r-11","message":"event 11","findings":[{"detector":"github_token","#,
    r#""category":"pii","severity":"high","confidence":90,"action":"block","redacted":"gh…yz"}],"#,
    r#""techniques":["AML.T0057"],"policy":"default","revision":3,"latency_us":1500}"#,
);

/// Returns the same entry as version 2 has it.
fn fixture_v2(keyring: &Keyring) -> String {
    let sealed = FIXTURE_V1.replace(r#""v":1"#, r#""v":2"#);
    sealed.replace("key-1", &keyring.seal("key-1")).replace("user-1", &keyring.seal("user-1"))
}

fn payload(previous: Hash, hash: Hash, canonical: &[u8]) -> Vec<u8> {
    [previous.0.as_slice(), hash.0.as_slice(), canonical].concat()
}

#[test]
fn both_versions_stay_as_they_were() {
    let (event, keyring) = (sample::event(11), sample::keyring());
    let expected = Entry {
        node: None,
        id: Ulid(11),
        recorded_unix_ms: None,
        event,
        hash: Hash([1; 32]),
        previous_hash: Hash::default(),
    };
    let newer = fixture_v2(&keyring);
    for fixture in [FIXTURE_V1, &newer] {
        let payload = payload(Hash::default(), Hash([1; 32]), fixture.as_bytes());
        assert_eq!(entry(&payload, &keyring).unwrap(), expected);
        let outline = outline(&payload).unwrap();
        assert_eq!(outline.entity(&keyring).as_deref(), Some(keyring.seal("user-1").as_ref()));
        assert_eq!(outline.actor(&keyring).as_deref(), Some(keyring.seal("key-1").as_ref()));
    }
    let (mut written, previous) = (Vec::new(), Hash([7; 32]));
    let hash = push_payload(previous, Ulid(11), &body(&expected.event, &keyring), &mut written);
    assert_eq!(hash, Hash::of(previous, newer.as_bytes()));
    assert_eq!(written, payload(previous, hash, newer.as_bytes()));
    assert!(!newer.contains("user-1") && !newer.contains("key-1"));
}

/// What version 2 has besides, where a shadow policy would have decided otherwise.
const SHADOW_V2: &str = concat!(
    r#","shadow":{"policy":"strict","action":"block","findings":[{"detector":"iban","action":"block"},"#,
    r#"{"detector":"github_token","action":"redact"}]}}"#,
);

#[test]
fn what_a_shadow_would_have_done_is_added_at_the_end() {
    let keyring = sample::keyring();
    let foreseen =
        |detector: &str, action: &str| AuditForeseen { detector: detector.into(), action: action.into() };
    let shadow = AuditShadow {
        policy: "strict".into(),
        action: "block".into(),
        findings: vec![foreseen("iban", "block"), foreseen("github_token", "redact")],
    };
    let event = AuditEvent { shadow: Some(shadow), ..sample::event(11) };
    let without = fixture_v2(&keyring);
    let fixture = without.strip_suffix('}').unwrap().to_owned() + SHADOW_V2;
    let stored = payload(Hash::default(), Hash([1; 32]), fixture.as_bytes());
    assert_eq!(entry(&stored, &keyring).unwrap().event, event);
    assert_eq!(outline(&stored).unwrap().policy(), "default");
    let mut written = Vec::new();
    push_canonical(Ulid(11), &body(&event, &keyring), &mut written);
    assert_eq!(String::from_utf8(written).unwrap(), fixture);
}

#[test]
fn whoever_is_erased_is_gone_from_the_newer_version() {
    let keyring = sample::keyring();
    let newer = payload(Hash::default(), Hash::default(), fixture_v2(&keyring).as_bytes());
    assert!(keyring.destroy("user-1").unwrap());
    let event = entry(&newer, &keyring).unwrap().event;
    assert_eq!((event.actor.as_deref(), event.entity.as_deref()), (Some("key-1"), Some("[erased]")));
}

#[test]
fn absent_fields_stay_absent() {
    let event = AuditEvent { event_type: "started".into(), ..AuditEvent::default() };
    let (keyring, mut bytes) = (sample::keyring(), Vec::new());
    push_canonical(Ulid(1), &body(&event, &keyring), &mut bytes);
    assert!(!String::from_utf8(bytes.clone()).unwrap().contains("null"));
    let read = entry(&payload(Hash::default(), Hash::default(), &bytes), &keyring);
    assert_eq!(read.unwrap().event, event);
}

#[test]
fn garbage_is_not_an_entry() {
    let newer = FIXTURE_V1.replace("\"v\":1", "\"v\":3");
    let cases: [&[u8]; 3] = [b"", &[0; 64], newer.as_bytes()];
    let keyring = sample::keyring();
    for case in cases {
        let payload = payload(Hash::default(), Hash::default(), case);
        assert_eq!(entry(&payload, &keyring), Err(UnreadableEntry));
    }
    assert_eq!(entry(b"short", &keyring), Err(UnreadableEntry));
}
