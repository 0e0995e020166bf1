use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use super::*;
use crate::access::keyring::Keyring;
use crate::access::secret::NodeSecret;
use crate::access::signing::KeyRing;
use crate::access::signing::SigningConfig;
use crate::clock::ManualClock;
use crate::govern::audit::AuditConfig;
use crate::govern::audit::AuditEvent;
use crate::govern::audit::ClusterCheckpoint;
use crate::govern::audit::ClusterNotary;
use crate::govern::audit::Opened;
use crate::govern::audit::Page;
use crate::govern::audit::Query;
use crate::govern::audit::open_with;
use crate::govern::audit::sample;
use crate::govern::audit::segment;
use crate::govern::audit::verify::Fault;
use crate::govern::audit::verify::Trust;
use crate::scan::threat::Category;
use crate::store::StoreError;
use crate::store::conformance::settings;
use crate::store::fixture::Postgres;
use crate::store::open_postgres;

const SECRET: &str = "a-secret-of-thirty-two-characters-or-more";
const DAY: Duration = Duration::from_secs(86_400);

/// A node of a test: its journal, and its way to the database.
struct Node {
    store: Store,
    opened: Opened,
    clock: Arc<ManualClock>,
}

impl Node {
    fn open(server: &Postgres, name: &str, config: AuditConfig, clock: &Arc<ManualClock>) -> Self {
        let store = open_postgres(&server.url(), &settings()).unwrap();
        let secret = NodeSecret::shared(SECRET).unwrap();
        let keyring = Arc::new(Keyring::shared(&store, secret).unwrap());
        let metrics = Arc::new(Metrics::new("0", "0"));
        let (clock, time) = (Arc::clone(clock), Arc::clone(clock) as Arc<dyn Clock>);
        let mut opened = open_with(config, keyring, Store::in_memory(), time, Arc::clone(&metrics)).unwrap();
        opened.log = opened.log.shared(name.to_owned(), &store, metrics, Box::new(|| false));
        Self { store, opened, clock }
    }

    /// Writes events, one a second.
    fn write(&mut self, numbers: std::ops::Range<usize>) {
        self.write_all(numbers.map(sample::event));
    }

    fn write_all(&mut self, events: impl Iterator<Item = AuditEvent>) {
        for event in events {
            self.clock.advance(Duration::from_secs(1));
            let body = stored::body(&event, &self.opened.keyring);
            let now = self.clock.now().as_millisecond();
            self.opened.writer.hand.journal.append([body.as_slice()].into_iter(), now).unwrap();
        }
    }

    fn shipping(&self) -> &Arc<Shipping> {
        self.opened.log.shipping().unwrap()
    }

    fn query(&self, query: Query) -> Page {
        self.shipping().query(&query).unwrap()
    }

    fn total(&self, query: Query) -> u64 {
        let page = self.query(Query { limit: 1000, ..query });
        assert!(page.is_complete);
        assert_eq!(page.total, page.entries.len() as u64);
        page.total
    }

    /// Returns what the verification says of each node's chain.
    fn verified(&self) -> BTreeMap<String, Result<u64, Fault>> {
        self.verified_while(&|| true).unwrap()
    }

    /// Returns the same, where `goes_on` lets it come to an end.
    fn verified_while(&self, goes_on: &dyn Fn() -> bool) -> Option<BTreeMap<String, Result<u64, Fault>>> {
        let archive = self.store.archive().unwrap();
        let chains = verify_shipped(&archive, &[], &Trust::default(), goes_on).unwrap()?;
        Some(chains.into_iter().map(|chain| (chain.node, chain.found.map(|found| found.entries))).collect())
    }
}

fn config(folder: &tempfile::TempDir) -> AuditConfig {
    AuditConfig { reserve_bytes: 1 << 16, low_water_bytes: 0, ..AuditConfig::at(folder.path().to_owned()) }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new("2026-11-22T12:00:00Z".parse().unwrap()))
}

fn folders() -> [tempfile::TempDir; 2] {
    [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()]
}

fn entity(name: &str) -> Query {
    Query { entity: Some(name.to_owned()), ..Query::default() }
}

#[test]
fn every_node_answers_for_all_of_them() {
    let (server, folders, clock) = (Postgres::start(), folders(), clock());
    let [mut one, mut two] =
        [0, 1].map(|at| Node::open(&server, ["one", "two"][at], config(&folders[at]), &clock));
    let begun = clock.now();
    for round in 0..3 {
        one.write(round * 10..round * 10 + 10);
        two.write(round * 10..round * 10 + 10);
    }
    one.shipping().ship_all().unwrap();
    assert_eq!(
        (one.total(Query::default()), two.total(Query::default())),
        (30, 60),
        "its own are there at once"
    );
    two.shipping().ship_all().unwrap();
    // Whatever part of its own a node has still to ship.
    one.write(30..34);
    for (node, count) in [(&one, 64), (&two, 60)] {
        assert_eq!(node.total(Query::default()), count);
        let (mut seen, mut query) = (Vec::new(), Query { limit: 7, ..Query::default() });
        loop {
            let page = node.query(query.clone());
            assert_eq!(page.total, count);
            seen.extend(page.entries.into_iter().map(|entry| (entry.id, entry.node.unwrap())));
            let Some(cursor) = page.cursor else { break };
            query.cursor = Some(cursor);
        }
        assert_eq!(seen.iter().collect::<BTreeSet<_>>().len() as u64, count);
        assert!(seen.is_sorted_by(|newer, older| newer.0 > older.0));
        assert_eq!(seen.iter().filter(|(_, node)| **node == *"two").count(), 30);
    }
    one.shipping().ship_all().unwrap();
    for node in [&one, &two] {
        assert_eq!(node.total(entity("user-3")), 7);
        assert_eq!(node.total(Query { subject: Some("key-1".to_owned()), ..Query::default() }), 64);
        assert_eq!(node.total(Query { node: Some("one".to_owned()), ..Query::default() }), 34);
        assert_eq!(node.total(Query { node: Some("three".to_owned()), ..Query::default() }), 0);
        let within =
            Query { from: Some(begun), to: Some(begun + Duration::from_secs(25)), ..Query::default() };
        assert_eq!(node.total(within), 25);
        let about = node.opened.log.about("user-3").unwrap().unwrap();
        assert_eq!((about.events, about.with_findings), (7, 7));
        assert!(node.opened.log.about("nobody").unwrap().is_none());
    }
    // Whoever is erased at one node is gone from what the other shipped.
    assert!(two.opened.keyring.destroy("user-3").unwrap());
    one.opened.keyring.follow().unwrap();
    assert_eq!(one.total(entity("user-3")), 0);
    let shown = one.query(Query { limit: 1000, ..Query::default() }).entries;
    let is_erased = |entry: &crate::govern::audit::Entry| entry.event.entity.as_deref() == Some("[erased]");
    assert_eq!(shown.iter().filter(|entry| is_erased(entry)).count(), 7);
    let plain = "SELECT count(*) FROM portcullis_audit WHERE encode(payload, 'escape') LIKE '%user-%'";
    assert_eq!(server.sql(plain), "0", "no name lies there");
    // It verifies all the same, until somebody changes it.
    assert!(matches!(one.verified().get("one"), Some(Ok(34))));
    server.sql("UPDATE portcullis_audit SET entity = 'x' WHERE node = 'two' AND seq = 5");
    assert!(matches!(one.verified().get("two"), Some(Err(Fault::Shipped { sequence: 5, .. }))));
    server.sql("DELETE FROM portcullis_audit WHERE node = 'one' AND seq = 34");
    assert!(matches!(one.verified().get("one"), Some(Err(Fault::Shipped { sequence: 34, what: "missing" }))));
}

#[test]
fn facets_are_found_alike_alone_and_in_common_and_given_to_what_older_nodes_ship() {
    let (server, folders, clock) = (Postgres::start(), folders(), clock());
    let [mut one, mut two] =
        [0, 1].map(|at| Node::open(&server, ["one", "two"][at], config(&folders[at]), &clock));
    // Some have findings of another category, too.
    let mixed = |number: usize| {
        let mut event = sample::event(number);
        event.findings.extend(sample::event(number + 1).findings);
        event
    };
    for node in [&mut one, &mut two] {
        node.write(0..40);
        node.write_all((40..60).map(mixed));
        node.shipping().ship_all().unwrap();
    }
    // As nodes of older releases ship them: some without any facets, some without the other categories.
    server.sql(
        "DELETE FROM portcullis_audit_others; UPDATE portcullis_audit SET others = NULL;
         UPDATE portcullis_audit SET action = NULL, route = NULL, policy = NULL, detectors = NULL WHERE seq % 7 > 0",
    );
    let some = |text: &str| Some(text.to_owned());
    let queries: Vec<Query> = (1..32u32)
        .map(|combination| Query {
            action: (combination & 1 > 0).then(|| "block".to_owned()),
            route: (combination & 2 > 0).then(|| "chat".to_owned()),
            policy: (combination & 4 > 0).then(|| "default".to_owned()),
            detector: (combination & 8 > 0).then(|| "github_token".to_owned()),
            entity: (combination & 16 > 0).then(|| "user-3".to_owned()),
            limit: 1000,
            ..Query::default()
        })
        .chain([
            Query { detector: some("nothing"), ..Query::default() },
            Query { action: some("allow"), ..Query::default() },
        ])
        .chain(Category::ALL.map(|it| Query { category: Some(it), limit: 1000, ..Query::default() }))
        .collect();
    for query in queries.iter().filter(|query| query.has_facets()) {
        assert!(!one.query(query.clone()).is_complete, "it says that it does not know yet");
    }
    assert!(one.verified().values().all(Result::is_ok), "rows without facets are as they were");
    // What finds them is made behind everybody's back.
    let until = Instant::now() + Duration::from_secs(20);
    let archive = one.store.archive().unwrap();
    while one.shipping().sort_in().unwrap() || archive.unsorted(1).unwrap().len() == 1 {
        assert!(Instant::now() < until);
    }
    for query in queries {
        let alone = one.opened.log.index.query(&query).unwrap();
        assert!(alone.is_complete);
        for node in [&one, &two] {
            let page = node.query(query.clone());
            assert!(page.is_complete);
            assert_eq!((page.total, page.entries.len() as u64), (2 * alone.total, 2 * alone.total));
            let of_one = page.entries.iter().filter(|entry| entry.node.as_deref() == Some("one"));
            assert!(of_one.map(|entry| entry.id).eq(alone.entries.iter().map(|entry| entry.id)));
        }
    }
    assert!(one.verified().values().all(Result::is_ok));
    server.sql("UPDATE portcullis_audit SET route = 'x' WHERE node = 'two' AND seq = 5");
    assert!(matches!(one.verified().get("two"), Some(Err(Fault::Shipped { sequence: 5, .. }))));
}

#[test]
fn what_a_checkpoint_names_is_not_deleted_unnoticed() {
    let (server, folders, clock) = (Postgres::start(), folders(), clock());
    let [mut one, mut two] =
        [0, 1].map(|at| Node::open(&server, ["one", "two"][at], config(&folders[at]), &clock));
    one.write(0..5);
    two.write(0..5);
    for node in [&one, &two] {
        node.shipping().ship_all().unwrap();
    }
    let (time, rings) = (Arc::clone(&clock) as Arc<dyn Clock>, Store::in_memory());
    let secret = NodeSecret::shared(SECRET).unwrap();
    let keys = Arc::new(KeyRing::open(&rings, secret, SigningConfig::default(), clock.now()).unwrap());
    let kept = ClusterNotary::new(&one.store, keys, time, "one".to_owned()).unwrap().keep(&[]).unwrap();
    let (kept, archive) = (vec![kept.unwrap()], one.store.archive().unwrap());
    let elsewhere = Trust { clusters: kept.clone(), ..Trust::default() };
    let found = |kept: &[ClusterCheckpoint], trust: &Trust| {
        let chains = verify_shipped(&archive, kept, trust, &|| true).unwrap().unwrap();
        let told = |chain: ShippedChain| {
            (chain.node, chain.found.map(|found| found.entries).map_err(|it| it.to_string()))
        };
        chains.into_iter().map(told).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(found(&kept, &elsewhere).get("two"), Some(&Ok(5)));

    // All of it dropped, as if by retention: that there were entries is known elsewhere, and which was the last.
    server.sql("DELETE FROM portcullis_audit WHERE node = 'two'");
    server.sql("UPDATE portcullis_audit_heads SET floor = seq WHERE node = 'two'");
    assert!(
        matches!(found(&[], &Trust::default()).get("two"), Some(Err(_))),
        "its hash is not the last one's"
    );
    server.sql("UPDATE portcullis_audit_heads SET floor_hash = hash WHERE node = 'two'");
    assert_eq!(found(&kept, &elsewhere).get("two"), Some(&Ok(0)), "as far as a checkpoint tells");
    server.sql(
        "UPDATE portcullis_audit_heads SET seq = 3, floor = 3, id = decode(repeat('00', 16), 'hex') WHERE node = 'two'",
    );
    for (kept, trust) in [(&kept[..], &Trust::default()), (&[], &elsewhere)] {
        assert!(matches!(found(kept, trust).get("two"), Some(Err(_))), "it does not reach as far");
    }
    // And with its head: it is missed where a checkpoint names it.
    server.sql("DELETE FROM portcullis_audit_heads WHERE node = 'two'");
    assert_eq!(found(&[], &Trust::default()).get("two"), None);
    for (kept, trust) in [(&kept[..], &Trust::default()), (&[], &elsewhere)] {
        let found = found(kept, trust);
        assert!(matches!(found.get("two"), Some(Err(_))) && found.get("one") == Some(&Ok(5)), "{found:?}");
    }
}

#[test]
fn shipping_goes_on_where_it_was() {
    let (mut server, folders, clock) = (Postgres::start(), folders(), clock());
    let [mut one, two] =
        [0, 1].map(|at| Node::open(&server, ["one", "two"][at], config(&folders[at]), &clock));
    one.write(0..700);
    one.shipping().ship_all().unwrap();
    assert_eq!(one.shipping().status(), ShipStatus { sequence: 700, ..ShipStatus::default() });
    server.kill();
    one.write(700..710);
    assert!(one.shipping().ship_all().is_err());
    clock.advance(Duration::from_secs(5));
    let status = one.shipping().status();
    assert_eq!((status.sequence, status.waiting), (700, 10));
    assert!(status.waiting_for >= Duration::from_secs(5));
    // Without the database it answers for itself, and says so.
    let page = one.query(Query::default());
    assert_eq!((page.is_complete, page.total), (false, 710));
    assert_eq!(one.query(Query { node: Some("one".to_owned()), ..Query::default() }).total, 710);
    assert!(one.shipping().query(&Query { node: Some("two".to_owned()), ..Query::default() }).is_err());
    server.restart();
    let begun = Instant::now();
    while let Err(error) = one.shipping().ship_all() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{error}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(one.shipping().status().waiting, 0);
    assert_eq!(two.query(Query::default()).total, 710);
    // A process that begins anew finds its place; nothing is there twice.
    drop(one);
    let mut one = Node::open(&server, "one", config(&folders[0]), &clock);
    one.write(710..713);
    assert_eq!(one.query(Query::default()).total, 713);
    one.shipping().ship_all().unwrap();
    assert_eq!(
        (one.total(Query { from: Some(clock.now()), ..Query::default() }), two.query(Query::default()).total),
        (1, 713)
    );
    assert!(matches!(two.verified().get("one"), Some(Ok(713))));
    // A journal that was set back does not go on where it was: it is shipped, and found.
    let another = tempfile::tempdir().unwrap();
    let mut other = Node::open(&server, "one", config(&another), &clock);
    other.write(0..2);
    other.shipping().ship_all().unwrap();
    assert!(matches!(two.verified().get("one"), Some(Err(Fault::Chain(_)))));
}

#[test]
fn what_is_under_a_hold_or_not_shipped_is_not_dropped() {
    let (server, folders, clock) = (Postgres::start(), folders(), clock());
    let limits = AuditConfig { retention_bytes: Some(20 << 10), ..config(&folders[0]) };
    let [mut one, mut two] = [limits, config(&folders[1])].map(|config| {
        let name = if config.directory == folders[0].path() { "one" } else { "two" };
        Node::open(&server, name, config, &clock)
    });
    one.write(0..20);
    two.write(0..20);
    one.opened.writer.hand.journal.rotate(clock.now().as_millisecond()).unwrap();
    clock.advance(400 * DAY);
    // Not shipped yet: the journal keeps it, old as it is.
    one.shipping().ship_all().unwrap();
    two.shipping().ship_all().unwrap();
    one.write(20..30);
    one.opened.writer.hand.journal.rotate(clock.now().as_millisecond()).unwrap();
    clock.advance(400 * DAY);
    one.opened.log.maintain().unwrap();
    let own = Query { node: Some("one".to_owned()), ..Query::default() };
    assert_eq!(one.query(own.clone()).total, 10, "what was shipped is dropped, and nothing else");
    one.shipping().ship_all().unwrap();
    one.opened.log.maintain().unwrap();
    assert_eq!(one.query(own.clone()).total, 0);
    assert_eq!(one.query(Query::default()).total, 50, "what was shipped is there");

    let holds = "legal_holds".to_owned();
    let drop_old =
        |node: &Node, version| node.opened.log.drop_shipped(&BTreeMap::from([(holds.clone(), version)]));
    one.opened.log.keep(vec!["user-7".to_owned()]);
    let conflict = drop_old(&one, 3);
    assert!(matches!(conflict, Err(QueryError::Store(StoreError::Conflict))), "a hold was taken meanwhile");
    assert_eq!(drop_old(&one, 0).unwrap(), 14, "up to the first entry about them, at each node");
    assert_eq!(two.query(Query::default()).total, 36);
    one.opened.log.keep(Vec::new());
    one.write(30..31);
    one.shipping().ship_all().unwrap();
    let between = two.verified();
    assert!(
        matches!(between.get("one"), Some(Ok(24))),
        "a chain goes on behind what was dropped: {between:?}"
    );
    assert_eq!(drop_old(&one, 0).unwrap(), 36);
    let left = two.verified();
    assert!(matches!(left.get("one"), Some(Ok(1))) && matches!(left.get("two"), Some(Ok(0))), "{left:?}");

    // A database that is away for too long: the oldest go, and that is told.
    let mut written = one.query(own.clone()).total;
    for _ in 0..20 {
        one.write(0..20);
        written += 20;
        one.opened.writer.hand.journal.rotate(clock.now().as_millisecond()).unwrap();
        one.opened.log.maintain().unwrap();
        assert!(one.shipping().log.size_bytes() <= UNSHIPPED_FACTOR * (20 << 10));
    }
    assert!(one.query(own).total < written);
}

#[test]
fn what_is_dropped_while_it_is_verified_is_no_fault_and_it_can_be_broken_off() {
    let (server, folder, clock) = (Postgres::start(), tempfile::tempdir().unwrap(), clock());
    let config = AuditConfig { retention_age: Some(DAY), ..config(&folder) };
    let mut one = Node::open(&server, "one", config, &clock);
    one.write(0..30);
    clock.advance(DAY);
    one.write(30..50);
    one.shipping().ship_all().unwrap();
    assert!(one.verified_while(&|| false).is_none());
    let asked = AtomicUsize::new(0);
    let drop_meanwhile = || {
        if asked.fetch_add(1, Ordering::Relaxed) == 0 {
            assert!(one.opened.log.drop_shipped(&BTreeMap::new()).unwrap() >= 29);
        }
        true
    };
    let found = one.verified_while(&drop_meanwhile).unwrap();
    assert!(matches!(found["one"], Ok(20..=21)), "{found:?}");
    assert!(asked.into_inner() > 1, "it was judged anew");
}

/// Writes a closed journal of one segment anew, as the first release would have: names as they are.
fn in_plain(payloads: &[Vec<u8>], folder: &Path) {
    let path = segment::path(folder, segment::list(folder).unwrap()[0]);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(segment::HEADER_BYTES as usize);
    let mut previous = Hash::default();
    for payload in payloads {
        let (_, _, canonical) = stored::split(payload).unwrap();
        let canonical = std::str::from_utf8(canonical).unwrap().replacen("\"v\":2", "\"v\":1", 1);
        let hash = Hash::of(previous, canonical.as_bytes());
        segment::push_frame(&mut bytes, |frame| {
            frame.extend([&previous.0[..], &hash.0, canonical.as_bytes()].concat())
        });
        previous = hash;
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn entries_that_are_never_shipped_are_found_at_their_node() {
    let (server, folders, clock) = (Postgres::start(), folders(), clock());
    let two = Node::open(&server, "two", config(&folders[1]), &clock);
    let mut one = Node::open(&server, "one", config(&folders[0]), &clock);
    one.write(0..5);
    let mut payloads = Vec::new();
    let mut reader = one.shipping().log.reader(one.shipping().log.start());
    while let Some((_, payload)) = reader.next().unwrap() {
        payloads.push(payload.to_vec());
    }
    drop(reader);
    drop(one);
    in_plain(&payloads, folders[0].path());
    let mut one = Node::open(&server, "one", config(&folders[0]), &clock);
    one.write(5..9);
    one.shipping().ship_all().unwrap();
    one.write(9..12);
    assert_eq!(one.total(Query::default()), 12);
    let of_one = Query { node: Some("one".to_owned()), ..Query::default() };
    for asked in [Query::default(), of_one] {
        let page = two.query(asked);
        assert_eq!((page.total, page.is_complete), (4, false), "what only the other has is missing");
    }
    let newest = one.query(Query { limit: 1000, ..Query::default() }).entries.remove(6);
    assert_eq!(two.total(Query { from: Some(newest.timestamp()), ..Query::default() }), 4, "and not of then");
    assert_eq!(two.total(Query { node: Some("two".to_owned()), ..Query::default() }), 0);
    assert_eq!(two.opened.log.about("user-8").unwrap().unwrap().unasked, ["one"]);
    assert_eq!(one.opened.log.about("user-8").unwrap().unwrap().unasked, Vec::<String>::new());
    let unknown = two.opened.log.about("nobody").unwrap().unwrap();
    assert_eq!((unknown.events, unknown.recorded, unknown.unasked), (0, None, vec!["one".to_owned()]));
    assert_eq!(one.opened.log.about("nobody").unwrap(), None, "it has been asked itself");
    let few = Query { limit: 7, ..Query::default() };
    let page = one.query(few.clone());
    assert_eq!((page.entries.len(), page.total), (7, 12));
    let rest = one.query(Query { cursor: page.cursor, ..few });
    assert_eq!((rest.entries.len(), rest.cursor), (5, None));
    let until = jiff::Timestamp::from_millisecond(rest.entries[1].id.unix_ms()).unwrap();
    assert_eq!(one.total(Query { to: Some(until), ..Query::default() }), 4, "of those that are not shipped");

    // Retention drops them: nothing is missing any more.
    one.shipping().ship_all().unwrap();
    one.opened.writer.hand.journal.rotate(clock.now().as_millisecond()).unwrap();
    clock.advance(400 * DAY);
    one.write(12..13);
    one.shipping().ship_all().unwrap();
    one.opened.log.maintain().unwrap();
    one.shipping().ship_all().unwrap();
    assert_eq!((one.total(Query::default()), two.total(Query::default())), (8, 8));
    assert_eq!(two.opened.log.about("user-8").unwrap().unwrap().unasked, Vec::<String>::new());

    // A node that never comes back has nothing any more once that would be too old.
    one.shipping().plain.tell("gone", Some(newest.id)).unwrap();
    let drop_old = |kept: &[&str]| {
        two.opened.log.keep(kept.iter().map(|name| (*name).to_owned()).collect());
        two.opened.log.drop_shipped(&BTreeMap::from([("legal_holds".to_owned(), 0)])).unwrap();
        two.query(Query::default()).is_complete
    };
    assert!(!two.query(Query::default()).is_complete);
    assert!(!drop_old(&["user-1"]), "somebody is held");
    assert!(drop_old(&[]));
}

#[path = "clock_tests.rs"]
mod clocks;
#[path = "others_tests.rs"]
mod others;
#[path = "twin_tests.rs"]
mod twins;
