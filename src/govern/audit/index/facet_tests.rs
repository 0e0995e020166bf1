use super::*;
use crate::govern::audit::event::AuditFinding;

const HALF_HOUR_MS: i64 = HOUR_MS / 2;

/// Returns an event whose facets its number tells; each is of another period.
fn event(number: usize) -> AuditEvent {
    let mut event = sample::event(number);
    event.action = action(number).to_owned();
    event.route = route(number).map(str::to_owned);
    event.policy = policy(number).map(str::to_owned);
    let found = detectors(number).map(|detector| AuditFinding {
        detector: detector.to_owned(),
        ..sample::event(number).findings.remove(0)
    });
    event.findings = found.collect();
    event
}

fn action(number: usize) -> &'static str {
    ["allow", "redact", "block"][number % 3]
}

fn route(number: usize) -> Option<&'static str> {
    [Some("chat"), Some("/api/v1/keys"), None][number / 2 % 3]
}

fn policy(number: usize) -> Option<&'static str> {
    [Some("default"), Some("strict")].get(number / 3 % 3).copied().flatten()
}

/// Returns the detectors, one of them twice where there are several.
fn detectors(number: usize) -> impl Iterator<Item = &'static str> {
    ["ssn", "iban", "ssn"].into_iter().take(number / 5 % 4)
}

fn write(journal: &mut Journal, numbers: std::ops::Range<usize>, gap_ms: i64) {
    for number in numbers {
        let body = stored::body(&event(number), &journal.log().keyring);
        journal.append([body.as_slice()].into_iter(), number as i64 * gap_ms).unwrap();
    }
}

/// Asks by every combination of facets, with `query` beside them.
fn check_all(index: &Index, query: &Query, holds: impl Fn(usize) -> bool, count: usize) {
    for combination in 0..16u32 {
        let asks = |bit: u32, name: &str| (combination >> bit & 1 == 1).then(|| name.to_owned());
        let (action_of, route_of) = (asks(0, "redact"), asks(1, "chat"));
        let (policy_of, detector) = (asks(2, "strict"), asks(3, "iban"));
        let asked = Query {
            action: action_of.clone(),
            route: route_of.clone(),
            policy: policy_of.clone(),
            detector: detector.clone(),
            ..query.clone()
        };
        let expected = |n: usize| {
            holds(n)
                && action_of.as_deref().is_none_or(|wanted| action(n) == wanted)
                && route_of.as_deref().is_none_or(|wanted| route(n) == Some(wanted))
                && policy_of.as_deref().is_none_or(|wanted| policy(n) == Some(wanted))
                && detector.as_deref().is_none_or(|wanted| detectors(n).any(|is| is == wanted))
        };
        check(index, asked, expected, count);
    }
}

/// Asks by facets and by all else there is.
fn check_with_others(index: &Index, count: usize, gap_ms: i64) {
    let all = Query { limit: 50, ..Query::default() };
    check_all(index, &all, |_| true, count);
    check_all(index, &Query { category: Some(Category::Pii), ..all.clone() }, |n| n % 5 == 1, count);
    let both = Query { severity: Some(Severity::Low), event_type: Some("exchange".into()), ..all.clone() };
    check_all(index, &both, |n| n / 5 % 4 == 0 && n % 7 != 6, count);
    check_all(index, &Query { entity: Some("user-4".into()), ..all.clone() }, |n| n % 10 == 4, count);
    check_all(index, &Query { subject: Some("key-1".into()), ..all.clone() }, |_| true, count);
    check_all(index, &Query { request_id: Some("r-77".into()), ..all.clone() }, |n| n == 77, count);
    let moment = |n: i64| Some(Timestamp::from_millisecond(n * gap_ms).unwrap());
    for (from, to) in [(0, 299), (3, 200), (100, 101), (47, 96)] {
        let span = Query { from: moment(from), to: moment(to), ..all.clone() };
        check_all(index, &span, |n| (from..=to).contains(&(n as i64)), count);
    }
}

#[test]
fn every_combination_with_facets_agrees_with_a_plain_search() {
    // Half an hour apart: several days of small blocks; and a second apart: a few large ones.
    for gap_ms in [HALF_HOUR_MS, 1000] {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(folder.path(), sample::keyring(), 20_000, 0).unwrap();
        write(&mut journal, 0..700, gap_ms);
        let index = Index::open(Store::in_memory(), journal.log()).unwrap();
        check_with_others(&index, 700, gap_ms);
        let none = Query { detector: Some("nothing".into()), ..Query::default() };
        check(&index, none, |_| false, 700);
    }
}

#[test]
fn facets_of_any_length_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(folder.path(), sample::keyring(), 1 << 20, 0).unwrap();
    let names: Vec<String> = [251, 252, 253, 255, 256, 257, 300].map(|length| "é".repeat(length / 2)).into();
    for name in names.iter().cycle().take(700) {
        let event = AuditEvent { route: Some(name.clone()), policy: Some(name.clone()), ..event(1) };
        let body = stored::body(&event, &journal.log().keyring);
        journal.append([body.as_slice()].into_iter(), 0).unwrap();
    }
    let index = Index::open(Store::in_memory(), journal.log()).unwrap();
    for name in &names {
        let same = 100 * names.iter().filter(|other| *other == name).count() as u64;
        for query in [
            Query { route: Some(name.clone()), ..Query::default() },
            Query { policy: Some(name.clone()), action: Some("redact".into()), ..Query::default() },
        ] {
            let page = index.query(&query).unwrap();
            assert_eq!((page.total, page.entries[0].event.route.as_ref()), (same, Some(name)));
        }
    }
}

#[test]
fn facets_of_forgotten_segments_leave_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(folder.path(), sample::keyring(), 20_000, 0).unwrap();
    write(&mut journal, 0..300, HALF_HOUR_MS);
    let store = Store::in_memory();
    let index = Index::open(store.clone(), journal.log()).unwrap();
    index.catch_up().unwrap();
    journal.rotate(300 * HALF_HOUR_MS).unwrap();
    let closed: Vec<u64> = journal.log().closed.read().keys().copied().collect();
    let [middle, last] = [closed[closed.len() / 2], closed[closed.len() - 1]];
    index.forget(middle).unwrap();
    let left = index.query(&Query { limit: 1000, ..Query::default() }).unwrap();
    let oldest = numbers(&left).into_iter().min().unwrap();
    assert!(oldest > 10);
    check_all(&index, &Query::default(), |n| n >= oldest, 300);
    index.forget(last).unwrap();
    for table in [GROUPS, COLUMNS, POSTINGS] {
        assert!(keys(&store, table).is_empty(), "{table}");
    }
}

#[test]
fn every_set_of_detectors_is_found_and_none_is_a_kind_of_its_own() {
    const COUNT: usize = 600;
    let has = |number: usize, detector: usize| (number + 1) >> detector & 1 == 1;
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(folder.path(), sample::keyring(), 1 << 20, 0).unwrap();
    for number in 0..COUNT {
        let findings = (0..10).filter(|detector| has(number, *detector)).map(|detector| AuditFinding {
            detector: format!("detector_{detector}"),
            ..sample::event(1).findings.remove(0)
        });
        let event = AuditEvent { findings: findings.collect(), ..sample::event(number) };
        let body = stored::body(&event, &journal.log().keyring);
        journal.append([body.as_slice()].into_iter(), number as i64 * 1000).unwrap();
    }
    let store = Store::in_memory();
    let index = opened(&store, &journal, 256);
    for detector in 0..10 {
        let query = Query { detector: Some(format!("detector_{detector}")), ..Query::default() };
        check(&index, query.clone(), |n| has(n, detector), COUNT);
        let both = Query { category: Some(Category::Pii), entity: Some("user-6".into()), ..query };
        check(&index, both, |n| has(n, detector) && n % 5 == 1 && n % 10 == 6, COUNT);
    }
    journal.rotate(0).unwrap();
    index.catch_up().unwrap();
    let kinds = keys(&store, KINDS).len();
    assert!(kinds <= 5 * 4 * 2, "{kinds} kinds: categories, severities and types alone make them");
}

#[test]
fn an_entry_is_found_by_the_category_of_any_finding() {
    const COUNT: usize = 600;
    // As many sets as there are, one of them empty.
    let has = |number: usize, category: Category| {
        let at = Category::ALL.into_iter().position(|it| it == category).unwrap_or_default();
        number >> at & 1 == 1
    };
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(folder.path(), sample::keyring(), 1 << 20, 0).unwrap();
    for number in 0..COUNT {
        let found: Vec<_> = Category::ALL.into_iter().filter(|category| has(number, *category)).collect();
        let findings = found
            .iter()
            .map(|category| AuditFinding { category: *category, ..sample::event(1).findings.remove(0) });
        // Whichever is the gravest.
        let category = found.get(number % found.len().max(1)).copied();
        let event = AuditEvent { findings: findings.collect(), category, ..sample::event(number) };
        let body = stored::body(&event, &journal.log().keyring);
        journal.append([body.as_slice()].into_iter(), number as i64 * 1000).unwrap();
    }
    let store = Store::in_memory();
    let index = opened(&store, &journal, 256);
    for category in Category::ALL {
        let query = Query { category: Some(category), ..Query::default() };
        check(&index, query.clone(), |n| has(n, category), COUNT);
        check(
            &index,
            Query { severity: Some(Severity::Low), ..query.clone() },
            |n| has(n, category) && n / 5 % 4 == 0,
            COUNT,
        );
        check(
            &index,
            Query { entity: Some("user-6".into()), ..query },
            |n| has(n, category) && n % 10 == 6,
            COUNT,
        );
    }
    check(&index, Query { is_alert: true, ..Query::default() }, |n| n % 32 != 0, COUNT);
    // An answer that only begins to leave lists findings, and is none that counts.
    let begun = AuditEvent { category: None, ..sample::event(1) };
    let body = stored::body(&begun, &journal.log().keyring);
    journal.append([body.as_slice()].into_iter(), COUNT as i64 * 1000).unwrap();
    let pii =
        Query { category: Some(Category::Pii), event_type: Some("exchange".into()), ..Query::default() };
    assert_eq!(index.query(&pii).unwrap().entries.iter().filter(|it| it.event.category.is_none()).count(), 0);
}

#[test]
fn a_group_is_whole_once_it_has_many_postings() {
    let keyring = sample::keyring();
    let finding = sample::event(1).findings.remove(0);
    let findings = (0..1000).map(|n| AuditFinding { detector: format!("d{n}"), ..finding.clone() }).collect();
    let body = stored::body(&AuditEvent { findings, ..sample::event(1) }, &keyring);
    let mut payload = Vec::new();
    stored::push_payload(super::super::super::chain::Hash::default(), Ulid(1), &body, &mut payload);
    let entry = stored::outline(&payload).unwrap();
    let at = Position { segment: 1, offset: segment::HEADER_BYTES };
    let mut growing = Growing::begin(entry.id, at, 0);
    while growing.takes(at, GROUP_ENTRIES) {
        growing.push(&entry, 0, &keyring, (at.offset, at.offset));
    }
    assert!(growing.head.entries < 300, "{} entries", growing.head.entries);
}
