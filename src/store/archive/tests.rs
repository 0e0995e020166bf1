use super::*;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::fixture::Postgres;
use crate::store::open_postgres;

const HOUR: u128 = HOUR_MS as u128;

fn row(sequence: u64, at_ms: u128, text: &str) -> ArchiveRow {
    ArchiveRow {
        sequence,
        id: Ulid((at_ms << 80) | u128::from(sequence)),
        recorded_ms: None,
        category: sequence.is_multiple_of(2).then(|| "pii".to_owned()),
        severity: sequence.is_multiple_of(2).then(|| "high".to_owned()),
        event_type: "exchange".to_owned(),
        entity: Some(format!("token-{}", sequence % 3)),
        actor: Some(text.to_owned()),
        request_id: Some(format!("r-{text}-{sequence}")),
        facets: Some(ArchiveFacets {
            action: if sequence.is_multiple_of(2) { "block" } else { "allow" }.to_owned(),
            route: sequence.is_multiple_of(3).then(|| "chat".to_owned()),
            policy: sequence.is_multiple_of(5).then(|| "strict".to_owned()),
            detectors: ["iban", "ssn"].into_iter().take(sequence as usize % 3).map(str::to_owned).collect(),
            other_categories: sequence.is_multiple_of(2).then(|| {
                let others = ["injection", "secrets"].into_iter().take(sequence as usize % 3);
                others.map(str::to_owned).collect()
            }),
        }),
        payload: format!("{text} {sequence}").into_bytes(),
    }
}

fn rows(numbers: Range<u64>, text: &str) -> Vec<ArchiveRow> {
    numbers.map(|number| row(number, u128::from(number) * HOUR / 2, text)).collect()
}

fn open(server: &Postgres) -> Store {
    open_postgres(&server.url(), &crate::store::conformance::settings()).unwrap()
}

fn check_total(archive: &Archive, filter: ArchiveFilter) -> usize {
    let page = |order| ArchivePage { order, beyond: None, limit: 1000 };
    let (found, total) = archive.search(&filter, &page(Order::Descending), Counted::All).unwrap();
    assert_eq!(found.len() as u64, total, "{filter:?}");
    let names = |order| {
        let found = archive.search(&filter, &page(order), Counted::No).unwrap().0;
        found.into_iter().map(|found| (found.node, found.sequence)).collect::<Vec<_>>()
    };
    // Page by page it is the same.
    let (mut paged, mut wanted) = (Vec::new(), ArchivePage { limit: 7, ..page(Order::Descending) });
    while let (found, _) = archive.search(&filter, &wanted, Counted::No).unwrap()
        && let Some(last) = found.last()
    {
        wanted.beyond =
            Some((row(last.sequence, u128::from(last.sequence) * HOUR / 2, "").id, last.node.clone()));
        paged.extend(found);
    }
    assert_eq!(paged, found);
    let mut up = names(Order::Ascending);
    up.reverse();
    assert_eq!(up, names(Order::Descending));
    found.len()
}

fn all_of_it_works(store: &Store) {
    let archive = store.archive().unwrap();
    let (one, two) = (archive.head("one").unwrap(), archive.head("two").unwrap());
    assert_eq!((one.sequence, one.floor), (0, 0));
    let first = archive.append(&one, rows(1..21, "one"), [1; 32]).unwrap();
    let again = archive.append(&one, rows(1..21, "one"), [1; 32]);
    assert!(matches!(again, Err(StoreError::Conflict)), "nothing is written twice");
    archive.append(&first, rows(21..41, "one"), [2; 32]).unwrap();
    archive.append(&two, rows(1..31, "two"), [3; 32]).unwrap();
    let heads = archive.heads().unwrap();
    let newest: Vec<_> = heads.iter().map(|head| (head.node.as_str(), head.sequence, head.hash)).collect();
    assert_eq!(newest, [("one", 40, [2; 32]), ("two", 30, [3; 32])]);

    let (all, some) = (ArchiveFilter::default, |text: &str| Some(text.to_owned()));
    for (filter, expected) in [
        (all(), 70),
        (ArchiveFilter { node: some("two"), ..all() }, 30),
        (ArchiveFilter { has_category: true, ..all() }, 35),
        (ArchiveFilter { category: some("pii"), ..all() }, 35),
        (ArchiveFilter { category: some("injection"), ..all() }, 24),
        (ArchiveFilter { category: some("secrets"), ..all() }, 12),
        (ArchiveFilter { category: some("secrets"), node: some("two"), ..all() }, 5),
        (ArchiveFilter { category: some("secrets"), severity: some("high"), ..all() }, 12),
        (ArchiveFilter { category: some("secrets"), detector: some("ssn"), ..all() }, 12),
        (ArchiveFilter { category: some("inject"), ..all() }, 0),
        (ArchiveFilter { severity: some("low"), ..all() }, 0),
        (ArchiveFilter { entity: some("token-1"), ..all() }, 24),
        (ArchiveFilter { subject: some("two"), ..all() }, 30),
        (ArchiveFilter { request_id: some("r-one-7"), ..all() }, 1),
        (ArchiveFilter { action: some("block"), ..all() }, 35),
        (ArchiveFilter { route: some("chat"), ..all() }, 23),
        (ArchiveFilter { policy: some("strict"), node: some("two"), ..all() }, 6),
        (ArchiveFilter { detector: some("iban"), ..all() }, 47),
        (ArchiveFilter { detector: some("ssn"), ..all() }, 23),
        (ArchiveFilter { detector: some("ssn"), action: some("block"), ..all() }, 12),
        (ArchiveFilter { detector: some("ssn"), route: some("chat"), ..all() }, 0),
    ] {
        assert_eq!(check_total(&archive, filter), expected);
    }
    // However the asked time lies to the tallied hours, and whatever is known from elsewhere.
    let (of_one, of_two) = (rows(1..41, ""), rows(1..31, ""));
    let newest = of_one.get(11).map(|row| row.id).unwrap();
    for (from, to) in [(0, 70), (5, 6), (5, 7), (4, 30), (7, 29), (35, 99)] {
        let ids = Ulid(((from * HOUR / 4) << 80) | 9)..Ulid((to * HOUR / 4) << 80);
        let within = |rows: &[ArchiveRow]| rows.iter().filter(|row| ids.contains(&row.id)).count();
        let filter = ArchiveFilter { ids: ids.clone(), ..all() };
        assert_eq!(check_total(&archive, filter.clone()), within(&of_one) + within(&of_two));
        let category = some("secrets");
        let has = |rows: &[ArchiveRow]| {
            let within = rows.iter().filter(|row| ids.contains(&row.id));
            within.filter(|row| row.sequence.is_multiple_of(2) && row.sequence % 3 == 2).count()
        };
        let of_category = ArchiveFilter { category, ..filter.clone() };
        assert_eq!(check_total(&archive, of_category.clone()), has(&of_one) + has(&of_two));
        let but = ArchiveFilter { but: Some(("one".to_owned(), newest)), ..of_category };
        assert_eq!(check_total(&archive, but), of_one.get(..12).map_or(0, has) + has(&of_two));
        let filter = ArchiveFilter { but: Some(("one".to_owned(), newest)), ..filter };
        let old = of_one.get(..12).map_or(0, within);
        assert_eq!(check_total(&archive, filter), old + within(&of_two));
    }

    let oldest = archive.rows("one", 0, 10).unwrap();
    assert_eq!(oldest, rows(1..11, "one"));
    let head = heads.first().unwrap();
    let dropping = |version| {
        let expected = BTreeMap::from([("t".to_owned(), version)]);
        archive.drop_first(head, oldest.clone(), [9; 32], expected)
    };
    assert!(matches!(dropping(7), Err(StoreError::Conflict)), "the table was never written");
    dropping(0).unwrap();
    assert!(matches!(dropping(0), Err(StoreError::Conflict)), "they are gone");
    let head = archive.head("one").unwrap();
    assert_eq!((head.floor, head.floor_hash, head.sequence), (10, [9; 32], 40));
    assert_eq!(check_total(&archive, all()), 60);
    assert_eq!(check_total(&archive, ArchiveFilter { node: some("one"), ..all() }), 30);
    assert_eq!(check_total(&archive, ArchiveFilter { category: some("secrets"), ..all() }), 10);
}

#[test]
fn rows_of_all_nodes_are_found_counted_and_dropped() {
    let server = Postgres::start();
    all_of_it_works(&open(&server));
}

#[test]
fn a_table_that_is_partitioned_by_day_does_as_well() {
    let server = Postgres::start();
    server.sql(PARTITIONED);
    server.sql("CREATE TABLE first_day PARTITION OF portcullis_audit FOR VALUES FROM (0) TO (1)");
    all_of_it_works(&open(&server));
    assert_eq!(server.sql("SELECT count(*) FROM first_day"), "60");
}
