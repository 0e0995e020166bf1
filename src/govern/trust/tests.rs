//! Agents that keep to their contract, and agents that do not.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use jiff::SignedDuration;

use super::*;
use crate::access::keyring::Keyring;
use crate::access::secret::NodeSecret;
use crate::access::signing::KeyRing;
use crate::access::signing::SigningConfig;
use crate::clock::ManualClock;
use crate::clock::sure::SureClock;
use crate::store::Batch;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Store;

fn start() -> Timestamp {
    "2026-05-04T09:00:00Z".parse().unwrap()
}

fn after(minutes: i64) -> Timestamp {
    start() + SignedDuration::from_mins(minutes)
}

fn act(minutes: i64) -> Act {
    Act {
        at: after(minutes),
        capability: Some("search".to_owned()),
        tools: Vec::new(),
        denied: None,
        cause: None,
        sizes: Some(Sizes { request_bytes: 1000, response_bytes: 4000 }),
        findings: Vec::new(),
    }
}

fn sizes(request_bytes: u64, response_bytes: u64) -> Option<Sizes> {
    Some(Sizes { request_bytes, response_bytes })
}

fn denied(minutes: i64, code: &'static str) -> Act {
    Act { denied: Some(code), sizes: None, capability: Some("payments".to_owned()), ..act(minutes) }
}

fn found(minutes: i64, category: Category, severity: Severity, action: Action) -> Act {
    Act { findings: vec![Found { category, severity, action }], ..act(minutes) }
}

fn keyring(store: &Store) -> Arc<Keyring> {
    let secret = NodeSecret::shared("one that every opening of a store has").unwrap();
    Arc::new(Keyring::shared(store, secret).unwrap())
}

fn open(store: &Store) -> Trust {
    open_signed(store).0
}

fn open_signed(store: &Store) -> (Trust, Arc<KeyRing>) {
    let (rings, secret) = (Store::in_memory(), NodeSecret::random());
    let ring = Arc::new(KeyRing::open(&rings, secret, SigningConfig::default(), start()).unwrap());
    let (signing, node) = (Arc::clone(&ring), "node".to_owned());
    (Trust::open((store, keyring(store)), signing, node, TrustConfig::default()).unwrap(), ring)
}

/// Lets an agent do its ordinary work: five calls an hour, eight hours a day.
fn work(trust: &Trust, days: i64) {
    for day in 0..days {
        for call in 0..40 {
            trust.observe("a", &act(day * 24 * 60 + call * 12));
        }
    }
}

fn at_end_of(days: i64) -> i64 {
    (days - 1) * 24 * 60 + 8 * 60
}

#[test]
fn a_new_agent_is_neutral_and_never_trusted() {
    let trust = open(&Store::in_memory());
    assert!(matches!(trust.score("a", start()), Err(TrustError::UnknownAgent)));
    let turn = trust.observe("a", &act(0)).unwrap();
    assert_eq!((turn.from, turn.to), (None, Verdict::Suspicious));
    let score = trust.score("a", start()).unwrap();
    assert!((60.0..63.0).contains(&score.score), "{}", score.score);
    // A burst buys nothing.
    (0..1000).for_each(|_| drop(trust.observe("a", &act(1))));
    assert_eq!(trust.score("a", after(1)).unwrap().verdict, Verdict::Suspicious);
}

#[test]
fn who_works_as_granted_becomes_trusted() {
    let trust = open(&Store::in_memory());
    work(&trust, 2);
    let score = trust.score("a", after(at_end_of(2))).unwrap();
    assert_eq!(score.verdict, Verdict::Trusted, "{score:?}");
    assert!(score.score > 95.0 && score.score <= 100.0, "{}", score.score);
}

#[test]
fn denials_cost_trust_and_fade() {
    let trust = open(&Store::in_memory());
    work(&trust, 5);
    let end = at_end_of(5);
    let before = trust.score("a", after(end)).unwrap();
    let turns: Vec<Turn> =
        (0..400).filter_map(|at| trust.observe("a", &denied(end + at / 60, "A2A_CAP_DENIED"))).collect();
    let after_all = trust.score("a", after(end + 7)).unwrap();
    assert!(after_all.factors.contract_compliance < 0.2, "{after_all:?}");
    assert!(after_all.score < before.score - 30.0 && after_all.verdict != Verdict::Trusted);
    assert_eq!((turns[0].from, turns[0].to), (Some(Verdict::Trusted), Verdict::Suspicious));
    let text = &after_all.reasons.contract_compliance[1].text;
    assert_eq!(text, "denied with A2A_CAP_DENIED, asking for payments");
    assert!(after_all.reasons.contract_compliance.len() <= REASONS_MAX + 2);
    // Honest work for weeks mends it.
    for day in 0..60 {
        (0..40).for_each(|at| drop(trust.observe("a", &act(end + (day + 1) * 24 * 60 + at * 12))));
    }
    assert_eq!(trust.score("a", after(end + 61 * 24 * 60)).unwrap().verdict, Verdict::Trusted);
}

#[test]
fn a_new_agent_that_probes_is_blocked() {
    let trust = open(&Store::in_memory());
    (0..6).for_each(|at| drop(trust.observe("a", &denied(at, "A2A_CAP_DENIED"))));
    assert_eq!(trust.verdict("a", after(6)), Some(Verdict::Blocked));
    // What is the gateway's own fault is not the agent's.
    (0..9).for_each(|at| drop(trust.observe("b", &denied(at, "A2A_CAP_CHECK_FAILED"))));
    assert_eq!(trust.verdict("b", after(9)), Some(Verdict::Suspicious));
}

/// Who signed well, and is refused for what the gateway does not know, or because clocks differ, is no attacker.
#[test]
fn what_the_gateway_cannot_tell_is_not_held_against_an_agent() {
    let verdict_after = |cause: Option<Cause>| {
        let trust = open(&Store::in_memory());
        (0..6).for_each(|at| {
            trust.observe("a", &Act { cause, ..denied(at, "A2A_INTEGRITY_INVALID") });
        });
        (trust.verdict("a", after(6)).unwrap(), trust.score("a", after(6)).unwrap())
    };
    for cause in [Cause::Forgotten, Cause::Stale, Cause::Untimed] {
        let (verdict, score) = verdict_after(Some(cause));
        assert_eq!(verdict, Verdict::Suspicious, "{cause:?} {score:?}");
    }
    assert_eq!(verdict_after(Some(Cause::Forgotten)).1.factors.contract_compliance, NEUTRAL);
    for cause in [None, Some(Cause::Replayed)] {
        assert_eq!(verdict_after(cause).0, Verdict::Blocked, "{cause:?}");
    }
    let (_, score) = verdict_after(Some(Cause::Stale));
    let text = &score.reasons.contract_compliance[1].text;
    assert!(
        text.ends_with("asking for payments: the request's timestamp is too old, or too far ahead"),
        "{text}"
    );
}

#[test]
fn incidents_count_by_severity_and_fade() {
    use Action::Block;
    use Action::Monitor;
    use Action::Redact;
    use Category::Injection;
    use Category::Pii;
    let factor = |act: Act| {
        let trust = open(&Store::in_memory());
        work(&trust, 2);
        trust.observe("a", &act);
        trust.score("a", after(at_end_of(2))).unwrap().factors.historical_incidents
    };
    let at = at_end_of(2);
    let clean = factor(act(at));
    assert_eq!(factor(found(at, Pii, Severity::High, Redact)), clean, "ordinary work");
    assert_eq!(factor(found(at, Injection, Severity::High, Monitor)), clean, "only watched");
    let medium = factor(found(at, Injection, Severity::Medium, Block));
    let critical = factor(found(at, Injection, Severity::Critical, Block));
    assert!(critical < medium && medium < clean, "{critical} {medium} {clean}");
    let trust = open(&Store::in_memory());
    work(&trust, 2);
    (0..20).for_each(|_| drop(trust.observe("a", &found(at, Injection, Severity::Critical, Block))));
    let low = trust.score("a", after(at)).unwrap().factors.historical_incidents;
    let later = trust.score("a", after(at + 90 * 24 * 60)).unwrap().factors.historical_incidents;
    assert!(low < 0.01 && later > 0.8, "{low} {later}");
}

#[test]
fn what_is_unlike_an_agent_is_odd_and_explained() {
    let cases: [(&str, Act); 4] = [
        ("bytes in a request", Act { sizes: sizes(5_000_000, 4000), ..act(0) }),
        ("bytes in an answer", Act { sizes: sizes(1000, 50_000_000), ..act(0) }),
        ("the tool delete_all", Act { tools: vec!["delete_all".to_owned()], ..act(0) }),
        ("a call at 2:00 UTC", Act { at: after(10 * 60), ..act(0) }),
    ];
    for (text, odd) in cases {
        let trust = open(&Store::in_memory());
        work(&trust, 14);
        let from = at_end_of(14);
        let usual = trust.score("a", after(from)).unwrap().factors.behavioral_anomaly;
        let at = odd.at + SignedDuration::from_mins(13 * 24 * 60 + 7 * 60);
        (0..5).for_each(|_| drop(trust.observe("a", &Act { at, ..odd.clone() })));
        let score = trust.score("a", at).unwrap();
        assert!(score.factors.behavioral_anomaly < usual - 0.1, "{text}: {score:?}");
        let told = score.reasons.behavioral_anomaly.iter().any(|reason| reason.text.contains(text));
        assert!(told, "{text}: {:?}", score.reasons.behavioral_anomaly);
    }
    let trust = open(&Store::in_memory());
    work(&trust, 14);
    let from = at_end_of(14) + 60;
    (0..500).for_each(|_| drop(trust.observe("a", &act(from))));
    let score = trust.score("a", after(from)).unwrap();
    let told =
        score.reasons.behavioral_anomaly.iter().any(|reason| reason.text.contains("calls within an hour"));
    assert!(told && score.factors.behavioral_anomaly < 0.5, "{score:?}");
}

#[test]
fn a_new_mix_of_capabilities_is_drift() {
    let trust = open(&Store::in_memory());
    work(&trust, 14);
    let from = at_end_of(14) + 24 * 60;
    let other = |minutes: i64| Act { capability: Some("payments".to_owned()), ..act(minutes) };
    (0..40).for_each(|at| drop(trust.observe("a", &other(from + at * 12))));
    let score = trust.score("a", after(from + 480)).unwrap();
    assert!(score.factors.capability_drift < 0.8, "{score:?}");
    let told = score.reasons.capability_drift.iter().any(|reason| reason.text.starts_with("payments: "));
    assert!(told, "{:?}", score.reasons.capability_drift);
    // Scores have weights: drift alone does not block.
    assert_ne!(score.verdict, Verdict::Blocked);
}

#[test]
fn what_is_known_outlives_the_process() {
    let store = Store::in_memory();
    let trust = open(&store);
    work(&trust, 3);
    trust.observe("a", &denied(at_end_of(3), "A2A_INTEGRITY_INVALID"));
    trust.flush(after(at_end_of(3))).unwrap();
    let now = after(at_end_of(3) + 5);
    let again = open(&store);
    let score = |trust: &Trust| {
        let score = trust.score("a", now).unwrap();
        (score.score, score.verdict, score.factors.rounded(), score.reasons, score.last_updated)
    };
    assert_eq!(score(&again), score(&trust));
    let sessions = |trust: &Trust| {
        let known = trust.sessions(Some("a"), None, now).unwrap().into_iter();
        let told = |it: Listed| (it.session.id, it.session.track.acts(), it.is_active, it.score.score);
        known.map(told).collect::<Vec<_>>()
    };
    assert_eq!(sessions(&again), sessions(&trust));
    assert_eq!(again.latest("a").unwrap(), trust.latest("a").unwrap());
    assert!(again.forget("a").unwrap() >= 3);
    assert!(matches!(open(&store).latest("a"), Err(TrustError::UnknownAgent)));
}

#[test]
fn a_session_ends_with_a_pause() {
    let trust = open(&Store::in_memory());
    for minutes in [0, 10, 20, 60, 70] {
        trust.observe("a", &act(minutes));
    }
    let known = trust.sessions(None, None, after(71)).unwrap();
    let calls: Vec<_> = known.iter().map(|it| (it.session.track.acts(), it.is_active)).collect();
    assert_eq!(calls, [(2, true), (3, false)]);
    for listed in known {
        assert_eq!(listed.score, trust.session_score(&listed.session.id, after(71)).unwrap());
    }
    assert!(trust.sessions(Some("a"), Some(true), after(101)).unwrap().is_empty());
    assert_eq!(trust.sessions(Some("a"), Some(false), after(101)).unwrap().len(), 2);
    assert!(matches!(trust.sessions(Some("b"), None, start()), Err(TrustError::UnknownAgent)));
    // What happens in a session shows in its score more than in the life's.
    work(&trust, 5);
    let from = at_end_of(5) + 120;
    (0..20).for_each(|_| drop(trust.observe("a", &denied(from, "A2A_CAP_DENIED"))));
    let id = trust.sessions(Some("a"), None, after(from)).unwrap().remove(0).session.id;
    let session = trust.session_score(&id, after(from)).unwrap();
    let life = trust.score("a", after(from)).unwrap();
    assert!(session.score < life.score, "{} {}", session.score, life.score);
    assert!(matches!(trust.session_score("none", start()), Err(TrustError::UnknownSession)));
}

#[test]
fn agents_are_attested_when_due_and_when_their_verdict_turns() {
    let (trust, ring) = open_signed(&Store::in_memory());
    trust.observe("a", &act(0));
    trust.flush(after(0)).unwrap();
    trust.observe("a", &act(1));
    trust.flush(after(1)).unwrap();
    assert_eq!(trust.attestations("a", None, 100).unwrap().len(), 1, "nothing is due");
    (0..30).for_each(|_| drop(trust.observe("a", &denied(2, "A2A_CAP_DENIED"))));
    trust.flush(after(2)).unwrap();
    assert_eq!(trust.latest("a").unwrap().statements[0]["verdict"], "BLOCKED");
    trust.observe("a", &act(62));
    trust.flush(after(62)).unwrap();
    let issued = |since: Option<Timestamp>| -> Vec<Timestamp> {
        trust.attestations("a", since, 100).unwrap().into_iter().map(|one| one.issued_at).collect()
    };
    assert_eq!(issued(None), [after(0), after(2), after(62)]);
    assert_eq!(issued(Some(after(2))), [after(2), after(62)]);
    assert_eq!(issued(Some(after(63))), []);
    // A silent agent is not attested again and again.
    trust.flush(after(600)).unwrap();
    assert_eq!(issued(None).len(), 3);
    // Unless the key that attested it was withdrawn while that counted: nobody can verify what it signed.
    ring.rotate(after(601)).unwrap();
    trust.flush(after(601)).unwrap();
    assert_eq!(issued(None).len(), 3, "the old key verifies");
    ring.withdraw(after(602)).unwrap();
    (0..3).for_each(|_| trust.flush(after(602)).unwrap());
    assert_eq!((issued(None).len(), trust.latest("a").unwrap().key_id), (4, ring.active().id));
}

#[test]
fn names_and_memory_are_bounded() {
    let trust = open(&Store::in_memory());
    assert_eq!(trust.observe(&"x".repeat(NAME_BYTES_MAX + 1), &act(0)), None);
    (0..AGENTS_MAX + 10).for_each(|id| drop(trust.observe(&format!("agent-{id}"), &act(id as i64))));
    assert!(trust.score("agent-0", start()).is_err());
    assert!(trust.score("agent-10", start()).is_ok());
}

/// Who makes room leaves nothing behind, unless it is back by then; nor does what an earlier release left.
#[test]
fn who_makes_room_takes_its_attestations_along() {
    let store = Store::in_memory();
    let trust = open(&store);
    let attested = |store: &Store| {
        let mut keys = BTreeSet::new();
        let mut visit = |key: &[u8], _: &[u8]| {
            keys.insert(String::from_utf8_lossy(&key[..key.len() - 18]).into_owned());
            ControlFlow::Continue(())
        };
        store.scan("trust.attestations", &KeyRange::all(), Order::Ascending, &mut visit).unwrap();
        keys
    };
    (0..3).for_each(|id| drop(trust.observe(&format!("early-{id}"), &act(id))));
    trust.flush(after(3)).unwrap();
    let token = |name: &str| keyring(&store).known(name).unwrap().as_ref().to_owned();
    assert_eq!(attested(&store).len(), 3);
    (0..AGENTS_MAX).for_each(|id| drop(trust.observe(&format!("agent-{id}"), &act(10))));
    assert!(trust.score("early-0", after(11)).is_err(), "it made room");
    trust.observe("early-2", &act(11));
    trust.flush(after(11)).unwrap();
    let kept = attested(&store);
    assert!(kept.contains(&token("early-2")) && !kept.contains(&token("early-0")));
    assert_eq!(kept.len(), AGENTS_MAX);
    assert!(trust.latest("early-2").is_ok());
    // As if it had been forgotten without them.
    let mut batch = Batch::default();
    batch.delete("trust.agents", token("early-2").into_bytes());
    store.commit(&batch).unwrap();
    drop(trust);
    assert!(open(&store).score("early-2", after(12)).is_err());
    assert_eq!(attested(&store).len(), AGENTS_MAX - 1);
}

/// A call that is refused at its head has no body that anybody read: that is no oddity of the agent.
#[test]
fn what_nobody_read_is_not_odd() {
    let trust = open(&Store::in_memory());
    work(&trust, 5);
    let from = at_end_of(5);
    for call in 0..100 {
        let act = Act { denied: Some("A2A_RATE_LIMITED"), sizes: None, ..act(from + call / 20) };
        trust.observe("a", &act);
    }
    let score = trust.score("a", after(from + 5)).unwrap();
    assert_ne!(score.verdict, Verdict::Blocked, "{score:?}");
    let reasons = &score.reasons.behavioral_anomaly;
    assert!(reasons.iter().all(|reason| !reason.text.contains("bytes in")), "{reasons:?}");
}

/// Whoever is blocked calls no more, and would be the first to be forgotten, and then be new.
#[test]
fn an_agent_that_is_blocked_is_not_forgotten_before_others() {
    let trust = open(&Store::in_memory());
    (0..40).for_each(|call| drop(trust.observe("bad", &denied(call, "A2A_CAP_DENIED"))));
    let verdict = |trust: &Trust| trust.verdict("bad", after(100));
    assert_eq!(verdict(&trust), Some(Verdict::Blocked));
    for number in 0..=AGENTS_MAX as i64 {
        trust.observe(&format!("agent-{number}"), &act(50));
    }
    assert_eq!(verdict(&trust), Some(Verdict::Blocked));
}

#[test]
fn agents_lie_sealed_also_those_that_lay_in_the_plain() {
    let store = Store::in_memory();
    let trust = open(&store);
    work(&trust, 3);
    trust.flush(after(at_end_of(3))).unwrap();
    let kept = |table: &str| {
        let mut found = Vec::new();
        let mut visit = |key: &[u8], value: &[u8]| {
            found.push((key.to_vec(), String::from_utf8_lossy(value).into_owned()));
            ControlFlow::Continue(())
        };
        store.scan(table, &KeyRange::all(), Order::Ascending, &mut visit).unwrap();
        found
    };
    let (agents, attestations) = (kept("trust.agents"), kept("trust.attestations"));
    assert_eq!((agents.len(), attestations.is_empty()), (1, false));
    assert!(attestations.iter().all(|(_, text)| !text.contains("agent_id")), "{attestations:?}");
    let known = (trust.latest("a").unwrap(), trust.attestations("a", None, 9).unwrap());
    // As the first release kept them: by name.
    let mut plain = Batch::default();
    let keyed = |key: &[u8]| key[key.len() - 16..].to_vec();
    agents.iter().for_each(|(_, text)| plain.put("trust_agents", b"a".to_vec(), text.clone().into_bytes()));
    for ((key, _), one) in attestations.iter().zip(&known.1) {
        let text = serde_json::json!({ "v": 1, "record": one }).to_string();
        plain.put("trust_attestations", [&b"a\0\0"[..], &keyed(key)].concat(), text.into_bytes());
    }
    agents.into_iter().for_each(|(key, _)| plain.delete("trust.agents", key));
    attestations.into_iter().for_each(|(key, _)| plain.delete("trust.attestations", key));
    store.commit(&plain).unwrap();
    let again = open(&store);
    assert_eq!((again.latest("a").unwrap(), again.attestations("a", None, 9).unwrap()), known);
    assert!(kept("trust_agents").is_empty() && kept("trust_attestations").is_empty());
    // Whoever was erased elsewhere is swept out.
    assert!(keyring(&store).destroy("a").unwrap());
    assert!(matches!(open(&store).latest("a"), Err(TrustError::UnknownAgent)));
    assert!(kept("trust.agents").is_empty() && kept("trust.attestations").is_empty());
}

/// What an agent did while the clock was ahead made all before it fade, for good.
#[test]
fn what_an_agent_does_while_the_clock_is_wrong_lets_nothing_fade() {
    let clock = Arc::new(ManualClock::new(start()));
    let trust = open(&Store::in_memory()).aged_by(Arc::new(SureClock::since(clock.clone(), None)));
    let year = 365 * 24 * 60;
    let bad = found(0, Category::Injection, Severity::Critical, Action::Block);
    (0..10).for_each(|_| drop(trust.observe("a", &bad)));
    (0..20).for_each(|_| drop(trust.observe("a", &denied(0, "A2A_CAP_DENIED"))));
    let before = trust.score("a", after(1)).unwrap();
    assert_eq!(before.verdict, Verdict::Blocked);
    clock.set(after(year));
    assert_eq!(trust.verdict("a", after(year)), Some(Verdict::Blocked));
    trust.observe("a", &Act { findings: bad.findings.clone(), ..act(year) });
    clock.set(after(1));
    let score = trust.score("a", after(1)).unwrap();
    assert!(score.factors.historical_incidents <= before.factors.historical_incidents, "{score:?}");
    assert!(score.factors.contract_compliance <= before.factors.contract_compliance + 0.1, "{score:?}");
    // What it does then is in the hour that it is, and in a session of that.
    let calls = |from: i64| (0..40).for_each(|call| drop(trust.observe("b", &act(from + call * 12))));
    calls(year);
    (0..5).for_each(|day| calls(day * 24 * 60));
    let sessions = trust.sessions(Some("b"), Some(true), after(at_end_of(5))).unwrap();
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0].session.started_at.as_second() / 86_400, after(at_end_of(5)).as_second() / 86_400);
    let score = trust.score("b", after(at_end_of(5))).unwrap();
    assert_eq!(score.verdict, Verdict::Trusted, "{score:?}");
}
