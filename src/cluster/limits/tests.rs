//! A node in this process, and a real Redis, or what is taken for one.

use std::net::TcpListener;

use super::*;
use crate::access::limit::Kind;
use crate::access::limit::LimitState;
use crate::access::secret::NodeSecret;
use crate::access::tier::Quota;
use crate::access::tier::Tier;
use crate::clock::SystemClock;
use crate::cluster::fixture::PATIENCE;
use crate::cluster::fixture::Redis;
use crate::cluster::fixture::server_at;
use crate::store::Store;

/// Returns buckets of a thousand a minute that are shared at a server.
fn shared_at(server: &RedisServer) -> Arc<Buckets> {
    let quotas = [Some(Quota { requests_per_minute: 1000, burst: 1000 }); 4];
    let now = SystemClock.now();
    let buckets = Buckets::open(Kind::Callers, quotas, NodeSecret::random(), &Store::in_memory(), now);
    let buckets = Arc::new(buckets);
    let kinds = vec![Arc::clone(&buckets)];
    tokio::spawn(SharedLimits { kinds, server: server.clone() }.run(std::future::pending()));
    buckets
}

fn take(buckets: &Buckets) -> LimitState {
    buckets.take("ada", Tier::Community, SystemClock.now())
}

async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        tokio::task::yield_now().await;
    }
}

async fn keys(redis: &Redis) -> Answer {
    let mut open = redis.open().await.unwrap();
    open.ask(&[b"DBSIZE".to_vec()]).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_others_miss_is_not_asked() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = server_at(silent.local_addr().unwrap().port(), WhenAway::Refuse);
    // Whoever noticed it looks for it, and has not found it.
    assert!(server.reach.lost());
    let buckets = shared_at(&server);
    eventually("what is counted is refused at once", async || !take(&buckets).allowed).await;
    silent.set_nonblocking(true).unwrap();
    assert!(silent.accept().is_err(), "nobody connects to it");
}

#[tokio::test(flavor = "multi_thread")]
async fn others_do_not_ask_a_server_that_is_missed_here() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = server_at(silent.local_addr().unwrap().port(), WhenAway::Local);
    let server = RedisServer { timeout: Duration::from_millis(50), ..server };
    let buckets = shared_at(&server);
    eventually("it is known to all", async || server.reach.is_away()).await;
    assert!(take(&buckets).allowed, "each node counts for itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_taken_is_told_whoever_takes_over() {
    let (first, second) = (Redis::start().await, Redis::start().await);
    let failover = first.failover().await;
    let buckets = shared_at(&failover.server(WhenAway::Refuse));
    eventually("the first hears of it", async || {
        take(&buckets);
        keys(&first).await == Answer::Number(1)
    })
    .await;
    first.becomes_replica().await;
    failover.lead_to(&second);
    eventually("the second hears of it", async || {
        take(&buckets);
        keys(&second).await == Answer::Number(1)
    })
    .await;
    eventually("nothing is refused any more", async || take(&buckets).allowed).await;
}
