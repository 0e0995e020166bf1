use super::*;

fn keys(store: &Store, secret: &NodeSecret) -> KeyStore {
    KeyStore::open(store, secret.clone(), Arc::new(Keyring::shared(store, secret.clone()).unwrap())).unwrap()
}

fn new(role: Role, expires_at: Option<Timestamp>) -> NewKey {
    NewKey { name: "test".to_owned(), role, tier: Tier::Community, expires_at, scope: Scope::default() }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn a_key_counts_until_it_expires_or_is_revoked() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let (now, later) = (at(1_000), at(2_000));
    let opened = keys(&store, &secret);
    let (_, admin) = opened.create("a".into(), new(Role::Admin, None), now).unwrap();
    let (_, short) = opened.create("b".into(), new(Role::Service, Some(later)), now).unwrap();
    assert_eq!(opened.authenticate(&short, now).map(|found| found.role), Some(Role::Service));
    assert_eq!(opened.authenticate(&short, later), None);
    // The records outlive the process; the keys themselves are nowhere.
    let again = keys(&store, &secret);
    assert_eq!(again.authenticate(&admin, later).map(|found| found.id), Some("a".to_owned()));
    assert!(again.revoke("b", now).unwrap() && !again.revoke("b", now).unwrap());
    assert_eq!(again.authenticate(&short, now), None);
    assert!(matches!(again.revoke("a", now), Err(KeyError::LastAdmin)));
    assert_eq!(keys(&store, &NodeSecret::random()).authenticate(&admin, now), None);
}

/// An admin key that ends soon is no other: nobody could manage keys from then on.
#[test]
fn the_last_admin_key_that_lasts_stays() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let (opened, day) = (keys(&store, &secret), 86_400);
    opened.create("lasts".into(), new(Role::Admin, None), at(0)).unwrap();
    opened.create("ends".into(), new(Role::Admin, Some(at(7 * day))), at(0)).unwrap();
    assert!(matches!(opened.revoke("lasts", at(0)), Err(KeyError::LastAdmin)));
    let both = ["lasts".to_owned(), "ends".to_owned()];
    assert!(matches!(opened.revoke_all(&both, at(0)), Err(KeyError::LastAdmin)));
    for change in [(|new| new.role = Role::Operator) as fn(&mut NewKey), |new| new.expires_at = Some(at(60))]
    {
        assert!(matches!(opened.change("lasts", change, at(0)), Err(KeyError::LastAdmin)));
    }
    opened.create("other".into(), new(Role::Admin, Some(at(7 * day + 1))), at(0)).unwrap();
    assert!(opened.revoke("lasts", at(0)).unwrap());
    // Where none lasts, one that counts is enough; and what ends soon may always go.
    assert!(opened.revoke("other", at(1)).unwrap());
    assert!(matches!(opened.revoke("ends", at(1)), Err(KeyError::LastAdmin)));
    opened.create("again".into(), new(Role::Admin, None), at(1)).unwrap();
    assert!(opened.revoke("ends", at(1)).unwrap());
}

#[test]
fn a_rotated_key_has_two_texts_for_the_overlap() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let opened = keys(&store, &secret);
    let (_, first) = opened.create("a".into(), new(Role::Service, None), at(0)).unwrap();
    let (record, second) = opened.rotate("a", Duration::from_secs(60), at(10)).unwrap();
    assert_eq!((record.rotated_at, record.previous_until(at(10))), (Some(at(10)), Some(at(70))));
    for opened in [&opened, &keys(&store, &secret)] {
        for (key, second, counts) in [(&first, 69, true), (&first, 70, false), (&second, 70, true)] {
            assert_eq!(opened.authenticate(key, at(second)).is_some(), counts, "{second}");
        }
    }
    // Another rotation leaves one text before, not two; without an overlap it leaves none.
    let (_, third) = opened.rotate("a", Duration::from_secs(60), at(20)).unwrap();
    assert!(opened.authenticate(&first, at(20)).is_none() && opened.authenticate(&second, at(20)).is_some());
    let (_, fourth) = opened.rotate("a", Duration::ZERO, at(21)).unwrap();
    assert!([&first, &second, &third].iter().all(|key| opened.authenticate(key, at(21)).is_none()));
    assert!(opened.authenticate(&fourth, at(21)).is_some());
    assert_eq!(opened.known.read().by_hash.len(), 1);
    let long = opened.rotate("a", OVERLAP_MAX + Duration::from_secs(1), at(22));
    assert!(matches!(long, Err(KeyError::Overlap)));
    assert!(matches!(opened.rotate("b", Duration::ZERO, at(22)), Err(KeyError::Unknown)));
}

#[test]
fn an_expired_key_is_not_rotated_before_it_has_another_end() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let opened = keys(&store, &secret);
    let (before, key) = opened.create("a".into(), new(Role::Service, Some(at(10))), at(0)).unwrap();
    for second in [10, 11] {
        assert!(matches!(opened.rotate("a", Duration::from_secs(60), at(second)), Err(KeyError::Ended)));
    }
    assert_eq!(opened.get("a"), Some(before));
    opened.change("a", |new| new.expires_at = Some(at(100)), at(11)).unwrap();
    assert!(opened.authenticate(&key, at(11)).is_some());
    let (_, rotated) = opened.rotate("a", Duration::ZERO, at(11)).unwrap();
    assert!(opened.authenticate(&rotated, at(11)).is_some() && opened.authenticate(&key, at(11)).is_none());
}

#[test]
fn a_change_counts_at_once_and_keeps_the_text() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let opened = keys(&store, &secret);
    let (_, admin) = opened.create("a".into(), new(Role::Admin, None), at(0)).unwrap();
    let (_, key) = opened.create("b".into(), new(Role::Service, None), at(0)).unwrap();
    let models = vec!["m*".to_owned()];
    let change = |new: &mut NewKey| {
        (new.role, new.scope.models, new.expires_at) = (Role::Analyst, models.clone(), Some(at(100)));
    };
    opened.change("b", change, at(1)).unwrap();
    for opened in [&opened, &keys(&store, &secret)] {
        let found = opened.authenticate(&key, at(99)).unwrap();
        assert_eq!((found.role, &found.scope.models), (Role::Analyst, &models));
        assert!(opened.authenticate(&key, at(100)).is_none());
    }
    let demoted = opened.change("a", |new| new.role = Role::Operator, at(1));
    assert!(matches!(demoted, Err(KeyError::LastAdmin)));
    let ending = opened.change("a", |new| new.expires_at = Some(at(1000)), at(1));
    assert!(matches!(ending, Err(KeyError::LastAdmin)), "nobody could manage keys from then on");
    assert_eq!(opened.authenticate(&admin, at(1)).unwrap().role, Role::Admin);
    for (change, name) in [
        ((|new| new.name = " ".to_owned()) as fn(&mut NewKey), "name"),
        (|new| new.name = "a\u{202e}b".to_owned(), "turned name"),
        (|new| new.expires_at = Some(at(1)), "expired"),
        (|new| new.scope.routes = vec![String::new()], "routes"),
    ] {
        assert!(opened.change("b", change, at(1)).is_err(), "{name}");
    }
}

/// Longer than a key has to last to be the last one.
const EIGHT_DAYS: i64 = 8 * 86_400;

#[test]
fn whoever_has_the_state_directory_gets_in_again() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let (opened, folder) = (keys(&store, &secret), tempfile::tempdir().unwrap());
    let ensure = |id: &str, second| opened.ensure_admin(folder.path(), id.to_owned(), at(second)).unwrap();
    let path = ensure("a", 0).unwrap();
    assert_eq!(ensure("b", 0), None);
    let (_, first) = opened.create("e".into(), new(Role::Admin, Some(at(EIGHT_DAYS))), at(0)).unwrap();
    opened.revoke("a", at(0)).unwrap();
    assert_eq!(ensure("c", EIGHT_DAYS - 1), None);
    assert_eq!(ensure("d", EIGHT_DAYS).as_ref(), Some(&path));
    let second = std::fs::read_to_string(&path).unwrap();
    let end = at(EIGHT_DAYS);
    assert!(opened.authenticate(&first, end).is_none() && opened.authenticate(&second, end).is_some());
}

#[test]
fn a_first_key_whose_file_could_not_be_written_is_had_at_the_next_start() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let (opened, folder) = (keys(&store, &secret), tempfile::tempdir().unwrap());
    let taken = folder.path().join("admin.key");
    std::fs::create_dir(&taken).unwrap();
    assert!(opened.ensure_admin(folder.path(), "a".to_owned(), at(0)).is_err());
    std::fs::remove_dir(&taken).unwrap();
    let path = opened.ensure_admin(folder.path(), "b".to_owned(), at(1)).unwrap();
    let key = std::fs::read_to_string(path.expect("a file")).unwrap();
    assert_eq!(opened.authenticate(&key, at(1)).map(|found| found.id), Some("a".to_owned()));
    assert_eq!(opened.ensure_admin(folder.path(), "c".to_owned(), at(2)).unwrap(), None);
}

#[test]
fn last_uses_outlive_the_process() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let opened = keys(&store, &secret);
    let (_, key) = opened.create("a".into(), new(Role::Service, None), at(0)).unwrap();
    let (_, gone) = opened.create("b".into(), new(Role::Service, None), at(0)).unwrap();
    for key in [&key, &gone] {
        assert!(opened.authenticate(key, at(5)).is_some());
    }
    opened.revoke("b", at(6)).unwrap();
    opened.write_uses().unwrap();
    let again = keys(&store, &secret);
    assert_eq!((again.last_used("a"), again.last_used("b")), (Some(at(5)), None));
}

#[test]
fn a_key_is_in_use_on_whatever_node_it_is_used() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let here = keys(&store, &secret);
    let (_, key) = here.create("a".into(), new(Role::Service, None), at(0)).unwrap();
    let there = keys(&store, &secret);
    assert!(there.authenticate(&key, at(5)).is_some());
    assert!(here.last_uses().unwrap().is_empty());
    there.write_uses().unwrap();
    assert_eq!(here.last_uses().unwrap().get("a"), Some(&at(5)));
    // What is known here and not written down yet is newer.
    assert!(here.authenticate(&key, at(9)).is_some());
    assert_eq!(here.last_uses().unwrap().get("a"), Some(&at(9)));
}

#[test]
fn keys_of_the_first_release_are_read() {
    let store = Store::in_memory();
    let secret = NodeSecret::random();
    let key = text::generate();
    let hash = secret.hash(PURPOSE, key.as_bytes());
    let record = serde_json::json!({ "v": 1, "record": {
        "id": "a", "name": "old", "role": "service", "tier": "community",
        "created_at": "2026-01-01T00:00:00Z", "expires_at": null, "routes": ["openai"], "hash": hash,
    }});
    let mut batch = Batch::default();
    batch.put("keys", b"a".to_vec(), record.to_string().into_bytes());
    store.commit(&batch).unwrap();
    let found = keys(&store, &secret).authenticate(&key, at(1_800_000_000)).unwrap();
    assert!(found.scope.allows_route("openai") && !found.scope.allows_route("other"));
    assert!(found.scope.allows_model("any"));
}
