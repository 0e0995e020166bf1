//! The audit stream: everything once, in order, across a broken connection.

use std::sync::Arc;

use axum::body::Body;
use http::Request;
use http::Response;
use http_body_util::BodyExt;
use portcullis::access::role::Role;
use portcullis::access::tier::Tier;
use portcullis::clock::Clock;
use portcullis::govern::audit::AuditEvent;
use portcullis::govern::audit::AuditFinding;
use portcullis::govern::audit::Query;
use portcullis::scan::threat::Category;
use portcullis::scan::threat::Severity;

use crate::browser::Browser;
use crate::world::STREAMS_MAX;
use crate::world::World;

async fn open(world: &World, last: Option<&str>) -> Response<Body> {
    let mut request = Request::get("/api/v1/audit/stream").header("host", "localhost");
    request = request.header("x-api-key", world.key("auditor"));
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    world.send(request.body(Body::empty()).unwrap()).await
}

/// Reads until `count` events came; returns the whole text.
async fn read(body: &mut Body, count: usize) -> String {
    let mut text = String::new();
    while text.matches("\nid: ").count() < count {
        let frame = body.frame().await.expect("the stream goes on").unwrap();
        text += std::str::from_utf8(&frame.into_data().unwrap()).unwrap();
    }
    text
}

fn ids(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_prefix("id: ").map(str::to_owned)).collect()
}

/// Opens a stream from now on; returns it, and the id of the place where it begins.
async fn begin(world: &World) -> (Body, String) {
    let mut body = open(world, None).await.into_body();
    let text = read(&mut body, 1).await;
    let place = text.strip_prefix("retry: 3000\nid: ").and_then(|rest| rest.strip_suffix("\n\n"));
    (body, place.unwrap_or_else(|| panic!("{text}")).to_owned())
}

/// Opens a stream behind an entry; returns it once it has begun.
async fn resume(world: &World, last: &str) -> Body {
    let mut body = open(world, Some(last)).await.into_body();
    assert_eq!(read(&mut body, 1).await, format!("retry: 3000\nid: {last}\n\n"));
    body
}

/// Lets something happen that is recorded.
async fn knock(world: &World, times: usize) {
    for _ in 0..times {
        let event = AuditEvent { event_type: "access_denied".to_owned(), ..AuditEvent::default() };
        world.office.recorder.record_safely(event).await.unwrap();
    }
}

#[tokio::test]
async fn a_stream_is_resumed_without_gap_or_repetition() {
    let world = World::start(Tier::Enterprise);
    let (mut first, _) = begin(&world).await;
    knock(&world, 5).await;
    let text = read(&mut first, 5).await;
    assert!(text.starts_with("event: audit\nid: "), "{text}");
    drop(first);
    // What happens while nobody listens is not lost.
    knock(&world, 7).await;
    let seen = ids(&text);
    let mut second = resume(&world, &seen[2]).await;
    let more = read(&mut second, 9).await;
    knock(&world, 1).await;
    let last = read(&mut second, 1).await;
    let streamed: Vec<String> = seen.into_iter().take(3).chain(ids(&more)).chain(ids(&last)).collect();
    let page = world.office.audit.query(Query::default()).await.unwrap();
    let recorded: Vec<String> = page.entries.iter().rev().map(|entry| entry.id.to_string()).collect();
    assert_eq!(streamed, recorded);
    assert_eq!(recorded.len(), 13);
}

/// Whoever loses the connection before the first entry comes back to where it was.
#[tokio::test]
async fn a_stream_that_breaks_before_its_first_entry_is_resumed_without_gap() {
    let world = World::start(Tier::Enterprise);
    for _ in 0..2 {
        // The first time the log is empty.
        let (stream, place) = begin(&world).await;
        drop(stream);
        knock(&world, 3).await;
        let text = read(&mut resume(&world, &place).await, 3).await;
        let page = world.office.audit.query(Query { limit: 3, ..Query::default() }).await.unwrap();
        let newest: Vec<String> = page.entries.iter().rev().map(|entry| entry.id.to_string()).collect();
        assert_eq!(ids(&text), newest);
    }
}

#[tokio::test]
async fn a_stream_ends_when_its_credential_counts_for_less() {
    for by_session in [false, true] {
        let world = World::start(Tier::Enterprise);
        let mut browser = Browser::open(&world);
        let shown = match by_session {
            true => {
                browser.sign_in("auditor").await;
                browser.jar.iter().map(|(name, value)| ("cookie", format!("{name}={value}"))).next().unwrap()
            }
            false => ("x-api-key", world.key("auditor").to_owned()),
        };
        let request =
            Request::get("/api/v1/audit/stream").header("host", "localhost").header(shown.0, shown.1);
        let mut stream = world.send(request.body(Body::empty()).unwrap()).await.into_body();
        assert!(stream.frame().await.is_some());
        let id = world.office.keys.list().into_iter().find(|key| key.name == "auditor").unwrap().id;
        let request = Request::get("/api/v1/audit/stream").header("host", "localhost");
        let request = request.header("x-api-key", world.key("auditor"));
        let mut busy = world.send(request.body(Body::empty()).unwrap()).await.into_body();
        assert!(busy.frame().await.is_some());
        world.office.keys.change(&id, |key| key.role = Role::Analyst, world.clock.now()).unwrap();
        // The heart beats at once where nothing else happens.
        tokio::time::pause();
        assert!(stream.frame().await.is_none(), "session: {by_session}");
        tokio::time::resume();
        // Nor is a word said of what happens before it beats.
        knock(&world, 1).await;
        assert!(busy.frame().await.is_none(), "session: {by_session}");
    }
}

fn finding(detector: &str) -> AuditFinding {
    AuditFinding {
        detector: detector.to_owned(),
        category: Category::Pii,
        severity: Severity::High,
        confidence: 90,
        action: "redact".to_owned(),
        redacted: "12…89".to_owned(),
    }
}

/// A stream shows what a question with the same filters finds, and says whose entries these are.
#[tokio::test]
async fn a_stream_takes_the_filters_of_a_question() {
    let world = World::start(Tier::Enterprise);
    let get = |query: &str, last: &str| {
        let request = Request::get(format!("/api/v1/audit/stream?{query}")).header("host", "localhost");
        let request = request.header("x-api-key", world.key("auditor")).header("last-event-id", last);
        world.send(request.body(Body::empty()).unwrap())
    };
    let mut ids = Vec::new();
    for number in 0..24 {
        let event = AuditEvent {
            event_type: if number % 2 == 0 { "exchange" } else { "login" }.to_owned(),
            category: [None, Some(Category::Pii), Some(Category::Secrets)][number % 3],
            severity: [Some(Severity::High), Some(Severity::Low)][number / 2 % 2],
            entity: Some(format!("user-{}", number % 4)),
            actor: Some(format!("user-{}", number % 5)),
            request_id: Some(format!("r-{number}")),
            action: ["allow", "block"][number / 3 % 2].to_owned(),
            route: [Some("chat".to_owned()), None][number % 2].clone(),
            policy: [None, Some("strict".to_owned())][number / 4 % 2].clone(),
            findings: [vec![], vec![finding("iban")], vec![finding("ssn"), finding("iban")]][number % 3]
                .clone(),
            ..AuditEvent::default()
        };
        ids.push(world.office.recorder.record_safely(event).await.unwrap().to_string());
    }
    let node = world.office.facts.node_id.clone();
    let cases = [
        ("", Query::default()),
        ("category=pii", Query { category: Some(Category::Pii), ..Query::default() }),
        ("severity=low", Query { severity: Some(Severity::Low), ..Query::default() }),
        ("event_type=login", Query { event_type: Some("login".to_owned()), ..Query::default() }),
        ("entity=user-3", Query { entity: Some("user-3".to_owned()), ..Query::default() }),
        ("action=block", Query { action: Some("block".to_owned()), ..Query::default() }),
        ("route=chat", Query { route: Some("chat".to_owned()), ..Query::default() }),
        ("policy=strict", Query { policy: Some("strict".to_owned()), ..Query::default() }),
        ("detector=ssn", Query { detector: Some("ssn".to_owned()), ..Query::default() }),
        (
            "detector=iban&policy=strict&action=block",
            Query {
                detector: Some("iban".to_owned()),
                policy: Some("strict".to_owned()),
                action: Some("block".to_owned()),
                ..Query::default()
            },
        ),
        ("request_id=r-7", Query { request_id: Some("r-7".to_owned()), ..Query::default() }),
        (
            "category=secrets&event_type=exchange",
            Query {
                category: Some(Category::Secrets),
                event_type: Some("exchange".to_owned()),
                ..Query::default()
            },
        ),
    ];
    for (asked, query) in cases {
        let found = world.office.audit.query(Query { limit: 1000, ..query }).await.unwrap().entries;
        let mut expected: Vec<String> = found.iter().rev().map(|entry| entry.id.to_string()).collect();
        // The stream goes on behind the first entry.
        expected.retain(|id| *id != ids[0]);
        assert!(!expected.is_empty(), "{asked}");
        let stream = get(asked, &ids[0]).await;
        assert_eq!(stream.headers()["x-portcullis-node"], node.as_str());
        let mut stream = stream.into_body();
        read(&mut stream, 1).await;
        let text = read(&mut stream, expected.len()).await;
        assert_eq!(self::ids(&text), expected, "{asked}");
        assert!(text.lines().filter(|line| line.starts_with("data: ")).all(|line| line.contains(&node)));
    }
    assert_eq!(get(&format!("node={node}"), &ids[0]).await.status(), 200);
    for wrong in ["node=other", "from=2026-01-01", "limit=5", "cursor=0", "format=csv", "colour=red"] {
        assert_eq!(get(wrong, &ids[0]).await.status(), 400, "{wrong}");
    }
}

#[tokio::test]
async fn streams_are_counted_and_ids_are_checked() {
    let world = World::start(Tier::Enterprise);
    assert_eq!(open(&world, Some("not-an-id")).await.status(), 400);
    let mut held = Vec::new();
    for _ in 0..STREAMS_MAX {
        let stream = open(&world, None).await;
        assert_eq!(stream.status(), 200);
        assert_eq!(stream.headers()["content-type"], "text/event-stream");
        held.push(stream);
    }
    assert_eq!(open(&world, None).await.status(), 503);
    held.pop();
    assert_eq!(open(&world, None).await.status(), 200);
}

#[tokio::test]
async fn one_reader_does_not_take_the_streams_of_all() {
    let world = World::start_with(Tier::Enterprise, |facts| facts.streams_per_caller = 2);
    world.office.streams.add_permits(2);
    let mut held = vec![open(&world, None).await, open(&world, None).await];
    let refused = open(&world, None).await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"1".parse().unwrap()));
    let request = Request::get("/api/v1/audit/stream").header("host", "localhost");
    let other = request.header("x-api-key", world.key("admin")).body(Body::empty()).unwrap();
    assert_eq!(world.send(other).await.status(), 200);
    drop(held.pop());
    assert_eq!(open(&world, None).await.status(), 200);
}

/// Many readers that leave and come back whenever they like: each sees every entry once, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_readers_that_come_and_go_miss_nothing_and_see_nothing_twice() {
    const READERS: usize = 100;
    const ENTRIES: usize = 400;
    let world = Arc::new(World::start_with_streams(Tier::Enterprise, READERS));
    knock(&world, 1).await;
    let first = loop {
        let page = world.office.audit.query(Query::default()).await.unwrap();
        if let Some(entry) = page.entries.first() {
            break entry.id.to_string();
        }
        tokio::task::yield_now().await;
    };
    let mut readers = tokio::task::JoinSet::new();
    for number in 0..READERS {
        let (world, mut last) = (world.clone(), first.clone());
        readers.spawn(async move {
            let (mut seen, mut random) = (Vec::new(), number as u64 + 1);
            while seen.len() < ENTRIES {
                // A small generator of our own: the same disorder in every run.
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let stay = 1 + (random >> 33) as usize % 60;
                let mut body = resume(&world, &last).await;
                // More may come with the last one than was waited for: a reader that left has not read it.
                let text = read(&mut body, stay.min(ENTRIES - seen.len())).await;
                seen.extend(ids(&text).into_iter().take(stay.min(ENTRIES - seen.len())));
                last.clone_from(seen.last().unwrap());
            }
            seen
        });
    }
    let writer = {
        let world = world.clone();
        async move { knock(&world, ENTRIES).await }
    };
    let (_, seen) = tokio::join!(writer, readers.join_all());
    let mut expected = Vec::new();
    let mut query = Query { limit: 1000, ..Query::default() };
    loop {
        let page = world.office.audit.query(query.clone()).await.unwrap();
        expected.extend(page.entries.iter().map(|entry| entry.id.to_string()));
        match page.cursor {
            Some(cursor) => query.cursor = Some(cursor),
            None => break,
        }
    }
    expected.reverse();
    assert_eq!(expected.len(), ENTRIES + 1);
    for (number, seen) in seen.into_iter().enumerate() {
        assert_eq!(seen, expected[1..], "reader {number}");
    }
}
