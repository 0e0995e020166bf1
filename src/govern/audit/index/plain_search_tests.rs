use proptest::prelude::*;

use super::*;
use crate::govern::audit::event::AuditFinding;

const NAMES: [&str; 3] = ["ada", "bob", "eve"];

/// Says what an event is, or what is asked for: of each a number, and nothing where it is past what there is.
type Choice = [usize; 10];

fn choice(none: usize) -> impl Strategy<Value = Choice> {
    let one = move |count: usize| 0..count + none;
    (one(2), one(2), one(2), one(2), one(2), one(2), one(3), one(3), one(3), one(9))
        .prop_map(|(a, b, c, d, e, f, g, h, i, j)| [a, b, c, d, e, f, g, h, i, j])
}

fn of(names: &[&str], number: usize) -> Option<String> {
    names.get(number).map(|name| (*name).to_owned())
}

fn event(
    [category, severity, kind, action, route, policy, detectors, entity, actor, request]: Choice,
) -> AuditEvent {
    let finding = |detector: &str| AuditFinding {
        detector: detector.to_owned(),
        ..sample::event(1).findings.remove(0)
    };
    AuditEvent {
        category: Category::ALL[..2].get(category).copied(),
        severity: Severity::ALL[..2].get(severity).copied(),
        event_type: of(&["exchange", "key_created"], kind).unwrap_or_default(),
        action: of(&["allow", "block"], action).unwrap_or_default(),
        route: of(&["chat", "mcp"], route),
        policy: of(&["default", "strict"], policy),
        findings: ["ssn", "iban", "ssn"].into_iter().take(detectors).map(finding).collect(),
        entity: of(&NAMES, entity),
        actor: of(&NAMES, actor),
        request_id: Some(format!("r-{request}")),
        ..sample::event(1)
    }
}

fn query(
    [category, severity, kind, action, route, policy, detector, entity, subject, request]: Choice,
) -> Query {
    Query {
        category: Category::ALL[..2].get(category).copied(),
        severity: Severity::ALL[..2].get(severity).copied(),
        event_type: of(&["exchange", "key_created"], kind),
        action: of(&["allow", "block"], action),
        route: of(&["chat", "mcp"], route),
        policy: of(&["default", "strict"], policy),
        detector: of(&["ssn", "iban", "nothing"], detector),
        entity: of(&NAMES, entity),
        subject: of(&NAMES, subject),
        request_id: (request < 9).then(|| format!("r-{request}")),
        ..Query::default()
    }
}

/// Returns how long after an event the next one is, by a clock that is set back now and then.
fn gap_ms() -> impl Strategy<Value = i64> {
    prop_oneof![12 => 0..400i64, 1 => -30_000..0i64]
}

/// Returns what holds to a query among all entries, newest first.
fn plainly(log: &Log, query: &Query) -> Vec<Entry> {
    let (mut reader, mut found) = (log.reader(log.start()), Vec::new());
    while let Some((_, payload)) = reader.next().unwrap() {
        let entry = stored::entry(payload, &log.keyring).unwrap();
        let is_later = query.from.is_none_or(|from| entry.timestamp() >= from);
        let is_earlier = query.to.is_none_or(|to| entry.timestamp() <= to);
        if query.admits(&entry) && is_later && is_earlier && query.after.is_none_or(|after| entry.id > after)
        {
            found.push(entry);
        }
    }
    found.reverse();
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_asked_is_answered_as_by_a_plain_search(
        events in prop::collection::vec((choice(1), gap_ms()), 1..120),
        queries in prop::collection::vec((choice(14), 0..160usize, 0..160usize), 12),
        (entries_max, segment_bytes, kinds_bytes) in (1..60usize, 2000..40_000u64, prop_oneof![Just(200), Just(1 << 20)]),
        (reopened_at, limit) in (0..120usize, 1..40usize),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(folder.path(), sample::keyring(), segment_bytes, 0).unwrap();
        let store = Store::in_memory();
        let open = |journal: &Journal| {
            let index = opened(&store, journal, entries_max);
            index.state.lock().kinds.fill_at(kinds_bytes);
            index
        };
        let (mut index, mut moments) = (open(&journal), vec![10_000_000]);
        for (number, (choice, gap_ms)) in events.into_iter().enumerate() {
            if number == reopened_at {
                index.catch_up().unwrap();
                index = open(&journal);
            }
            let body = stored::body(&event(choice), &journal.log().keyring);
            moments.push(moments[number] + gap_ms);
            journal.append([body.as_slice()].into_iter(), moments[number + 1]).unwrap();
        }
        for (choice, from, to) in queries {
            let at = |number: usize| Some(Timestamp::from_millisecond(*moments.get(number)?).unwrap());
            let mut query = Query { from: at(from), to: at(to), limit, ..query(choice) };
            let expected = plainly(&journal.log(), &query);
            let oldest = index.oldest(&query).unwrap();
            prop_assert_eq!(oldest.as_ref(), expected.last());
            let mut found = Vec::new();
            loop {
                let page = index.query(&query).unwrap();
                prop_assert_eq!(page.total, expected.len() as u64);
                prop_assert!(page.is_complete && page.entries.len() <= limit);
                found.extend(page.entries);
                let Some(cursor) = page.cursor else { break };
                query.cursor = Some(cursor);
            }
            prop_assert_eq!(&found, &expected);
            if let Some(entry) = expected.first() {
                let after = journal.log().frame_at(index.position_after(entry.id).unwrap()).unwrap();
                let next = plainly(&journal.log(), &Query { after: Some(entry.id), ..Query::default() });
                let next = next.last().map(|entry| entry.id);
                prop_assert_eq!(after.map(|payload| stored::outline(&payload).unwrap().id), next);
            }
        }
    }
}
