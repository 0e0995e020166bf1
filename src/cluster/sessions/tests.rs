//! Nodes in one process, and a real Redis.

use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::*;
use crate::access::key::KeyText;
use crate::access::keyring::Keyring;
use crate::access::patience::Patience;
use crate::access::secret::NodeSecret;
use crate::access::session::Holder;
use crate::access::session::SessionConfig;
use crate::access::session::SessionSecret;
use crate::access::session::shared::Untold;
use crate::cluster::fixture::PATIENCE;
use crate::cluster::fixture::Redis;
use crate::cluster::fixture::server_at;
use crate::cluster::rounds::PAUSE;
use crate::store::Store;

const CONFIG: SessionConfig = SessionConfig {
    idle: Duration::from_secs(1800),
    lifetime: Duration::from_secs(43_200),
    sessions_max: 40,
};

/// Returns two nodes on one store, which hear nothing of each other from there, but what one of them began.
async fn begun(redis: &Redis, when_away: WhenAway) -> ([Arc<SessionStore>; 2], SessionSecret) {
    begun_at(&redis.server(when_away))
}

/// Returns the same, of nodes that share what each of them takes for a Redis of its own.
fn begun_at(server: &RedisServer) -> ([Arc<SessionStore>; 2], SessionSecret) {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let nodes = [(); 2].map(|()| {
        let keyring = Arc::new(Keyring::shared(&store, secret.clone()).unwrap());
        Arc::new(SessionStore::open(&store, secret.clone(), keyring, CONFIG).unwrap())
    });
    for node in &nodes {
        let server = RedisServer { reach: Arc::default(), ..server.clone() };
        tokio::spawn(SharedSessions::new(node, server).run(std::future::pending()));
    }
    let holder = Holder::Key { id: "k".to_owned(), text: KeyText::default() };
    let (_, cookie) = nodes[0].begin("s".to_owned(), holder, None, at(0), &Patience::default()).unwrap();
    nodes[1].follow().unwrap();
    (nodes, cookie)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

async fn asked(node: &SessionStore, cookie: &SessionSecret, second: i64) -> Result<bool, Untold> {
    node.resume_with_all(cookie.expose(), at(second), &Patience::default()).await.map(|found| found.is_some())
}

async fn lives(node: &SessionStore, cookie: &SessionSecret, second: i64) -> bool {
    asked(node, cookie, second).await.expect("Redis is there")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_at_one_node_counts_at_the_other_at_once() {
    let redis = Redis::start().await;
    let (nodes, cookie) = begun(&redis, WhenAway::Refuse).await;
    assert!(lives(&nodes[0], &cookie, 1).await && lives(&nodes[1], &cookie, 1).await);
    assert_eq!(nodes[1].goes_on("s", &Patience::default()).await, Ok(true));
    let (node, value) = (Arc::clone(&nodes[0]), cookie.clone());
    tokio::task::spawn_blocking(move || node.end(value.expose(), &Patience::default()))
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(!lives(&nodes[1], &cookie, 2).await, "the store has not told it yet");
    assert!(nodes[1].of_id("s", at(2)).is_some());
    assert_eq!(nodes[1].goes_on("s", &Patience::default()).await, Ok(false), "nor its tokens");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_idle_that_is_used_nowhere() {
    let redis = Redis::start().await;
    let (nodes, cookie) = begun(&redis, WhenAway::Refuse).await;
    for second in [1000, 2500, 4000] {
        assert!(lives(&nodes[0], &cookie, second).await, "{second}");
    }
    // The other node has not seen it since it began.
    assert!(nodes[1].resume(cookie.expose(), at(4100)).is_none());
    let forgotten = async |second| {
        let node = Arc::clone(&nodes[1]);
        tokio::task::spawn_blocking(move || node.forget_ended(at(second), &Patience::default()))
            .await
            .unwrap()
            .unwrap();
        nodes[1].kept().is_empty()
    };
    assert!(!forgotten(4050).await, "the first node has not written its uses for longer than it should");
    assert!(lives(&nodes[1], &cookie, 4100).await);
    assert!(!forgotten(4100 + 1800).await);
    assert!(!lives(&nodes[0], &cookie, 4100 + 1800).await);
    assert!(!lives(&nodes[1], &cookie, 4100 + 1801).await, "asking is no use");
    assert!(forgotten(4100 + 1800 + 121).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_could_not_be_told_is_told_as_soon_as_it_can_be() {
    let mut redis = Redis::start().await;
    let (nodes, cookie) = begun(&redis, WhenAway::Local).await;
    redis.kill();
    let (node, value) = (Arc::clone(&nodes[0]), cookie.clone());
    tokio::task::spawn_blocking(move || node.end(value.expose(), &Patience::default()))
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(asked(&nodes[1], &cookie, 1).await, Ok(true), "the store has not told it");
    redis.restart().await;
    // Nobody asks the first node anything any more.
    let begun = std::time::Instant::now();
    while asked(&nodes[1], &cookie, 1).await != Ok(false) {
        assert!(begun.elapsed() < PATIENCE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_a_session_counts_as_the_deployment_says() {
    for (when_away, expected) in [(WhenAway::Local, Ok(true)), (WhenAway::Refuse, Err(Untold))] {
        let redis = Redis::start().await;
        let (nodes, cookie) = begun(&redis, when_away).await;
        assert!(lives(&nodes[0], &cookie, 1).await);
        drop(redis);
        let begun = std::time::Instant::now();
        while asked(&nodes[0], &cookie, 2).await != expected {
            assert!(begun.elapsed() < PATIENCE);
        }
        assert_eq!(nodes[0].goes_on("s", &Patience::default()).await, expected, "nor its tokens");
        assert_eq!(asked(&nodes[0], &cookie, 50_000).await, Ok(false), "it is too old whatever others know");
        let (node, value) = (Arc::clone(&nodes[0]), cookie.clone());
        let ended = tokio::task::spawn_blocking(move || node.end(value.expose(), &Patience::default()))
            .await
            .unwrap();
        assert!(ended.unwrap().is_some(), "it ends all the same");
        assert_eq!(asked(&nodes[0], &cookie, 3).await, Ok(false));
    }
}

/// Asks once; returns how long that took.
async fn waited(node: &SessionStore, cookie: &SessionSecret) -> Duration {
    let begun = std::time::Instant::now();
    assert_eq!(asked(node, cookie, 1).await, Ok(true));
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_redis_is_waited_for_once() {
    const TIMEOUT: Duration = Duration::from_millis(400);
    // The system takes connections for it, and nobody ever says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = server_at(silent.local_addr().unwrap().port(), WhenAway::Local);
    let (nodes, cookie) = begun_at(&RedisServer { timeout: TIMEOUT, ..server });
    let first = waited(&nodes[0], &cookie).await;
    assert!(first < 2 * TIMEOUT, "{first:?}");
    let begun = std::time::Instant::now();
    while begun.elapsed() < 4 * PAUSE {
        let later = waited(&nodes[0], &cookie).await;
        assert!(later < TIMEOUT / 2, "{later:?} after {:?}", begun.elapsed());
    }
    // One connection for the first question, and one at a time that looks whether it is back.
    silent.set_nonblocking(true).unwrap();
    let connections = std::iter::from_fn(|| silent.accept().ok()).count();
    assert!((2..=5).contains(&connections), "{connections}");
}

/// Answers as a Redis does that knows a session, each time a while after it was asked.
async fn answer_late(listener: TcpListener, delay: Duration, is_asked: Arc<Notify>) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut asked = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut asked).await {
        is_asked.notify_one();
        tokio::time::sleep(delay).await;
        let is_script = asked[..count].windows(4).any(|word| word == b"LOAD");
        stream.write_all(if is_script { b"+name\r\n" } else { b":1000000000\r\n" }).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_during_a_round_waits_no_longer_than_others() {
    const TIMEOUT: Duration = Duration::from_secs(2);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = server_at(listener.local_addr().unwrap().port(), WhenAway::Local);
    let is_asked = Arc::new(Notify::new());
    tokio::spawn(answer_late(listener, TIMEOUT * 2 / 5, Arc::clone(&is_asked)));
    let (nodes, cookie) = begun_at(&RedisServer { timeout: TIMEOUT, ..server });
    let (node, value) = (Arc::clone(&nodes[0]), cookie.clone());
    let first = tokio::spawn(async move { waited(&node, &value).await });
    is_asked.notified().await;
    // The script takes two fifths of the time, the first question two more, and so would this one.
    let second = waited(&nodes[0], &cookie).await;
    assert!(first.await.unwrap() < TIMEOUT && second < TIMEOUT * 11 / 10, "{second:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_has_waited_for_something_else_waits_no_more() {
    let holder = || Holder::Key { id: "k".to_owned(), text: KeyText::default() };
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let keyring = Arc::new(Keyring::shared(&store, secret.clone()).unwrap());
    let node = Arc::new(SessionStore::open(&store, secret, keyring, CONFIG).unwrap());
    let _nobody_answers = node.share(Told::Refused, Duration::from_secs(86_400));
    let patience = Patience::spent();
    let (_, cookie) = node.begin("s".to_owned(), holder(), None, at(0), &patience).unwrap();
    assert_eq!(node.goes_on("s", &patience).await, Err(Untold));
    assert!(matches!(node.resume_with_all(cookie.expose(), at(1), &patience).await, Err(Untold)));
    let ended = tokio::task::spawn_blocking(move || {
        let ended = node.end(cookie.expose(), &patience).unwrap();
        node.forget_ended(at(50_000), &patience).unwrap();
        ended
    });
    assert!(ended.await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_takes_over_is_asked() {
    let (first, second) = (Redis::start().await, Redis::start().await);
    let failover = first.failover().await;
    let (nodes, cookie) = begun_at(&failover.server(WhenAway::Refuse));
    assert!(lives(&nodes[0], &cookie, 1).await && lives(&nodes[1], &cookie, 1).await);
    first.becomes_replica().await;
    failover.lead_to(&second);
    // Nobody can tell what the first does not write any more.
    for node in &nodes {
        assert_eq!(asked(node, &cookie, 2).await, Err(Untold));
        assert_eq!(asked(node, &cookie, 2).await, Ok(true));
    }
}
