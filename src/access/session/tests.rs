use super::*;
use crate::clock::ManualClock;
use crate::clock::sure::SureClock;
use crate::store::KeyRange;
use crate::store::Order;

const CONFIG: SessionConfig = SessionConfig {
    idle: Duration::from_secs(1800),
    lifetime: Duration::from_secs(43_200),
    sessions_max: 40,
};

fn open(store: &Store, secret: &NodeSecret) -> SessionStore {
    SessionStore::open(
        store,
        secret.clone(),
        Arc::new(Keyring::shared(store, secret.clone()).unwrap()),
        CONFIG,
    )
    .unwrap()
}

fn holder(id: &str) -> Holder {
    Holder::Key { id: id.to_owned(), text: KeyText::default() }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

#[test]
fn a_session_ends_by_itself_when_idle_and_when_old() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let sessions = open(&store, &secret);
    let (_, cookie) = sessions.begin("s".into(), holder("k"), None, at(0), &Patience::default()).unwrap();
    let lives = |second| sessions.resume(cookie.expose(), at(second)).is_some();
    assert!(lives(1799));
    assert!(lives(1799 + 1799), "use keeps it alive");
    assert!(!lives(1799 + 1799 + 1800), "idle for as long as the limit");
    let (_, busy) = sessions.begin("t".into(), holder("k"), None, at(0), &Patience::default()).unwrap();
    let mut second = 0;
    while second < 43_200 - 1000 {
        second += 1000;
        assert!(sessions.resume(busy.expose(), at(second)).is_some(), "{second}");
    }
    assert!(sessions.resume(busy.expose(), at(43_200)).is_none(), "however busy");
    assert!(sessions.list(at(43_200)).is_empty());
}

#[test]
fn sessions_outlive_the_process_and_their_secrets_are_nowhere() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let first = open(&store, &secret);
    let (record, cookie) =
        first.begin("s".into(), holder("k"), Some("hint".into()), at(0), &Patience::default()).unwrap();
    assert_eq!(record.id, "s");
    assert!(first.resume(cookie.expose(), at(1200)).is_some());
    first.note_uses().unwrap();
    // The use was stored, so the idle time goes on after a restart; the hint was in memory alone.
    let again = open(&store, &secret);
    assert!(again.resume(cookie.expose(), at(2400)).is_some());
    let (ended, hint) = again.end(cookie.expose(), &Patience::default()).unwrap().unwrap();
    assert_eq!((ended.id.as_str(), hint), ("s", None));
    assert!(again.resume(cookie.expose(), at(2400)).is_none());
    assert!(open(&store, &secret).resume(cookie.expose(), at(2400)).is_none());
    let (_, other) =
        again.begin("t".into(), holder("k"), Some("hint".into()), at(0), &Patience::default()).unwrap();
    assert!(open(&store, &NodeSecret::random()).resume(other.expose(), at(1)).is_none());
    assert!(format!("{other:?}").contains("***"));
    let kept = store
        .table::<String, Sealed<SessionRecord>>("sessions")
        .list(&KeyRange::all(), Order::Ascending, 9)
        .unwrap();
    assert!(!format!("{kept:?}").contains(other.expose()));
}

#[test]
fn a_use_is_written_down_aside_and_brings_no_session_back() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let (one, other) = (open(&store, &secret), open(&store, &secret));
    let (_, cookie) = one.begin("s".into(), holder("k"), None, at(0), &Patience::default()).unwrap();
    let stored = || open(&store, &secret).of_id("s", at(200)).map(|session| session.seen_at);
    assert!(one.resume(cookie.expose(), at(100)).is_some());
    assert_eq!(stored(), Some(at(0)), "whoever uses it does not wait for the store");
    one.note_uses().unwrap();
    assert_eq!(stored(), Some(at(100)));
    assert!(one.resume(cookie.expose(), at(200)).is_some());
    other.follow().unwrap();
    assert!(other.revoke("s", &Patience::default()).unwrap());
    one.note_uses().unwrap();
    assert!(stored().is_none() && one.of_id("s", at(200)).is_none());
}

#[test]
fn what_is_no_session_is_none() {
    let sessions = open(&Store::in_memory(), &NodeSecret::random());
    let (_, cookie) = sessions.begin("s".into(), holder("k"), None, at(0), &Patience::default()).unwrap();
    let mut forged = cookie.expose().to_owned().into_bytes();
    forged[7] = if forged[7] == b'A' { b'B' } else { b'A' };
    for value in ["", "x", &"A".repeat(43), &"A".repeat(10_000), std::str::from_utf8(&forged).unwrap()] {
        assert!(sessions.resume(value, at(1)).is_none(), "{value}");
        assert!(sessions.end(value, &Patience::default()).unwrap().is_none());
    }
    assert!(
        !sessions.revoke("other", &Patience::default()).unwrap()
            && sessions.revoke("s", &Patience::default()).unwrap()
    );
    assert!(sessions.resume(cookie.expose(), at(1)).is_none());
}

#[test]
fn there_are_never_more_than_may_be() {
    let sessions = open(&Store::in_memory(), &NodeSecret::random());
    let (_, first) = sessions.begin("0".into(), holder("k"), None, at(0), &Patience::default()).unwrap();
    for n in 1..=SESSIONS_PER_HOLDER_MAX {
        sessions.begin(n.to_string(), holder("k"), None, at(n as i64), &Patience::default()).unwrap();
    }
    assert_eq!(sessions.list(at(50)).len(), SESSIONS_PER_HOLDER_MAX, "the idlest made room");
    assert!(sessions.resume(first.expose(), at(50)).is_none());
    for n in 0..CONFIG.sessions_max - SESSIONS_PER_HOLDER_MAX {
        sessions
            .begin(format!("o{n}"), holder(&format!("other{n}")), None, at(50), &Patience::default())
            .unwrap();
    }
    let full = sessions.begin("x".into(), holder("last"), None, at(50), &Patience::default());
    assert!(matches!(full, Err(SessionError::TooMany)));
    // What has ended makes room.
    sessions.begin("x".into(), holder("last"), None, at(50 + 1800), &Patience::default()).unwrap();
    assert_eq!(sessions.list(at(50 + 1800)).len(), 1);
}

#[test]
fn a_form_token_belongs_to_one_session() {
    let sessions = open(&Store::in_memory(), &NodeSecret::random());
    let (_, one) = sessions.begin("a".into(), holder("k"), None, at(0), &Patience::default()).unwrap();
    let (_, two) = sessions.begin("b".into(), holder("k"), None, at(0), &Patience::default()).unwrap();
    assert!(sessions.is_form_token(&one, &sessions.form_token(&one)));
    assert!(!sessions.is_form_token(&two, &sessions.form_token(&one)));
    assert!(!sessions.is_form_token(&one, "") && !sessions.form_token(&one).contains(one.expose()));
}

#[test]
fn what_a_provider_told_is_read_until_its_subject_is_erased() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let sessions = open(&store, &secret);
    let identity = Identity {
        issuer: "https://id.example".to_owned(),
        subject: "u-47.11".to_owned(),
        name: "ada@people.example".to_owned(),
        role: Role::Auditor,
        session: Some("sid-47.11".to_owned()),
        until: None,
        mapped_by: String::new(),
    };
    let holder = Holder::Sso(identity);
    let (begun, cookie) =
        sessions.begin("s".into(), holder.clone(), None, at(0), &Patience::default()).unwrap();
    let written = store.get("sessions", b"s").unwrap().unwrap();
    let written = String::from_utf8(written).unwrap();
    assert!(written.contains("id.example"), "{written}");
    assert!(!written.contains("47.11") && !written.contains("ada@"), "{written}");
    assert_eq!(open(&store, &secret).resume(cookie.expose(), at(1)).unwrap().0.holder, holder);
    // As it was written before names were sealed.
    let old = serde_json::json!({ "v": 1, "record": begun });
    let mut batch = Batch::default();
    batch.put("sessions", b"s".to_vec(), old.to_string().into_bytes());
    store.commit(&batch).unwrap();
    assert_eq!(open(&store, &secret).resume(cookie.expose(), at(1)).unwrap().0.holder, holder);
    assert!(!String::from_utf8(store.get("sessions", b"s").unwrap().unwrap()).unwrap().contains("47.11"));
    assert!(Keyring::shared(&store, secret.clone()).unwrap().destroy("sso:u-47.11").unwrap());
    let after = open(&store, &secret);
    assert!(after.resume(cookie.expose(), at(1)).is_none() && after.list(at(1)).is_empty());
    after.forget_ended(at(1), &Patience::default()).unwrap();
    assert!(store.get("sessions", b"s").unwrap().is_none());
}

#[test]
fn a_use_that_is_not_written_yet_keeps_a_session_at_all_nodes() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let (one, other) = (open(&store, &secret), open(&store, &secret));
    let (_, cookie) = one.begin("s".into(), holder("k"), None, at(0), &Patience::default()).unwrap();
    other.follow().unwrap();
    assert!(one.resume(cookie.expose(), at(1750)).is_some());
    // For another minute only one node knows that.
    other.forget_ended(at(1805), &Patience::default()).unwrap();
    one.follow().unwrap();
    assert!(one.resume(cookie.expose(), at(1806)).is_some());
    one.note_uses().unwrap();
    other.follow().unwrap();
    other.forget_ended(at(1806 + 1800 + 120), &Patience::default()).unwrap();
    one.follow().unwrap();
    assert!(one.kept().is_empty());
}

#[test]
fn a_session_that_a_clock_began_which_was_ahead_counts_no_more_once_it_is_set_right() {
    let years = 300_000_000;
    for (begun, counts) in [(0, true), (60, true), (61, false), (years, false)] {
        let sessions = open(&Store::in_memory(), &NodeSecret::random());
        let (record, held) =
            sessions.begin("s".to_owned(), holder("key_1"), None, at(begun), &Patience::default()).unwrap();
        assert_eq!(sessions.resume(held.expose(), at(0)).is_some(), counts, "{begun}");
        assert_eq!(sessions.of_id(&record.id, at(0)).is_some(), counts, "{begun}");
        assert_eq!(sessions.list(at(0)).len(), usize::from(counts), "{begun}");
    }
}

#[test]
fn a_session_that_only_seemed_to_have_ended_goes_on_once_the_clock_is_set_right() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let clock = Arc::new(ManualClock::new(at(0)));
    let sessions = open(&store, &secret).aged_by(Arc::new(SureClock::since(clock.clone(), None)));
    let begin = |id: &str, now| sessions.begin(id.into(), holder(id), None, now, &Patience::default());
    let (_, cookie) = begin("s", at(0)).unwrap();
    clock.set(at(1_000_000));
    begin("t", clock.now()).unwrap();
    assert!(sessions.resume(cookie.expose(), clock.now()).is_none());
    clock.set(at(60));
    assert!(sessions.resume(cookie.expose(), clock.now()).is_some());
    // Where there is no room, what seems to have ended makes it.
    clock.set(at(2_000_000));
    (0..CONFIG.sessions_max - 2).for_each(|id| drop(begin(&format!("u{id}"), clock.now()).unwrap()));
    begin("v", clock.now()).unwrap();
    clock.set(at(60));
    assert!(sessions.resume(cookie.expose(), clock.now()).is_none());
}
