//! Nodes of a real Redis cluster, and some that are taken for one.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::*;
use crate::access::a2a::replay::Seen;
use crate::access::a2a::shared::Asking;
use crate::access::a2a::shared::Told;
use crate::access::patience::Patience;
use crate::cluster::fixture::Redis;
use crate::cluster::fixture::server_at;
use crate::cluster::limits::WhenAway;
use crate::cluster::replays::SharedReplays;

const FIRST: Told = Told::Seen(Seen::First);
const BEFORE: Told = Told::Seen(Seen::Before);

#[test]
fn a_refusal_is_known_within_a_script_too() {
    let old = "ERR Error running script (call to f_9c): @user_script:9: @user_script: 9: \
               -READONLY You can't write against a read only replica.";
    let new = "READONLY You can't write against a read only replica. script: 9c, on @user_script:9.";
    for (reason, expected) in [(old, true), (new, true), ("ERR -NOTREADONLY", false), ("ERR READONLY", false)]
    {
        assert_eq!(is_refused(&Answer::Refused(reason.to_owned()), &ELSEWHERE), expected, "{reason}");
    }
}

/// Lets what agents signed be remembered at a server.
fn remembering(server: RedisServer) -> Asking {
    let (asking, questions) = Asking::channel(Told::Refused, server.patience());
    tokio::spawn(SharedReplays { questions, server }.run(std::future::pending()));
    asking
}

async fn signed(asking: &Asking, mac: u8) -> Told {
    asking.remember("planner", (&[mac; 32], Duration::from_secs(60)), &Patience::default()).await
}

/// A cluster of two nodes, the first of which has everything.
struct Cluster {
    nodes: [Redis; 2],
    ids: [String; 2],
    slot: String,
}

impl Cluster {
    async fn start() -> Self {
        let nodes = [Redis::start_in_cluster().await, Redis::start_in_cluster().await];
        nodes[0].says(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
        let ids = [nodes[0].says(&["CLUSTER", "MYID"]).await, nodes[1].says(&["CLUSTER", "MYID"]).await];
        let [port, bus] = nodes[0].ports().map(|port| port.to_string());
        nodes[1].says(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await;
        for node in &nodes {
            node.eventually_says(&["CLUSTER", "INFO"], "cluster_slots_ok:16384").await;
            node.eventually_says(&["CLUSTER", "INFO"], "cluster_state:ok").await;
        }
        let slot = nodes[0].says(&["CLUSTER", "KEYSLOT", SHARED]).await;
        Self { nodes, ids, slot }
    }

    async fn sets_slot(&self, node: usize, state: &str, id: usize) {
        self.nodes[node].says(&["CLUSTER", "SETSLOT", &self.slot, state, &self.ids[id]]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_the_keys_of_a_cluster_is_asked_also_while_it_changes() {
    let cluster = Cluster::start().await;
    let [owner, next] = &cluster.nodes;
    // By way of the node that has nothing.
    let server = next.server(WhenAway::Refuse);
    let (one, other) = (remembering(server.clone()), remembering(owner.server(WhenAway::Refuse)));
    assert_eq!((signed(&one, 1).await, signed(&one, 1).await), (FIRST, BEFORE));
    assert_eq!(signed(&other, 1).await, BEFORE);
    assert_eq!(server.place(), owner.server(WhenAway::Refuse).url, "it is asked at once from now on");
    // On the way to the other node: what is there already counts as what has not left yet.
    cluster.sets_slot(1, "IMPORTING", 0).await;
    cluster.sets_slot(0, "MIGRATING", 1).await;
    assert_eq!((signed(&one, 2).await, signed(&other, 2).await), (FIRST, BEFORE));
    assert_eq!((signed(&one, 1).await, signed(&other, 1).await), (BEFORE, BEFORE));
    assert_eq!((next.says(&["DBSIZE"]).await, owner.says(&["DBSIZE"]).await), ("1".into(), "1".into()));
    owner.hands_over_to(next, &cluster.slot).await;
    cluster.sets_slot(1, "NODE", 1).await;
    cluster.sets_slot(0, "NODE", 1).await;
    for asking in [&one, &other] {
        assert_eq!((signed(asking, 1).await, signed(asking, 2).await), (BEFORE, BEFORE));
    }
    assert_eq!((signed(&other, 3).await, signed(&one, 3).await), (FIRST, BEFORE));
    assert_eq!(owner.says(&["DBSIZE"]).await, "0");
}

/// Answers each connection in its own way, whatever it asks; tells how many there were.
fn answering(listener: TcpListener, answers: Vec<String>) -> Arc<AtomicUsize> {
    let begun = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&begun);
    tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let mut asked = [0; 1024];
                while stream.read(&mut asked).await.is_ok_and(|count| count > 0) {
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    begun
}

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[tokio::test]
async fn nodes_that_send_us_round_and_round_are_left() {
    let (listener, port) = listener().await;
    let begun = answering(listener, vec![format!("-MOVED 1 :{port}\r\n"); 100]);
    let asking = remembering(server_at(port, WhenAway::Refuse));
    assert_eq!(signed(&asking, 1).await, Told::Refused);
    assert_eq!(begun.load(Ordering::SeqCst), 1 + HOPS_MAX);
}

#[tokio::test]
async fn a_node_that_was_told_and_turns_us_away_is_not_the_only_one() {
    let ((configured, url), (told, port)) = (listener().await, listener().await);
    let moved = format!("-MOVED 1 127.0.0.1:{port}\r\n");
    let first = answering(configured, vec![moved, "+OK\r\n".to_owned()]);
    let second = answering(told, vec!["-CLUSTERDOWN The cluster is down\r\n".to_owned()]);
    let asking = remembering(server_at(url, WhenAway::Refuse));
    assert_eq!(signed(&asking, 1).await, Told::Refused);
    assert_eq!(signed(&asking, 1).await, FIRST, "the one of the configuration knows better");
    assert_eq!((first.load(Ordering::SeqCst), second.load(Ordering::SeqCst)), (2, 1));
}

/// Nobody answers where we were sent, until whoever sent us knows of another one.
#[tokio::test]
async fn after_a_failover_the_new_node_is_found() {
    let ((configured, url), (gone, old), (new, port)) =
        (listener().await, listener().await, listener().await);
    drop(gone);
    let moved = |port: u16| format!("-MOVED 1 127.0.0.1:{port}\r\n");
    answering(configured, vec![moved(old), moved(old), moved(port)]);
    answering(new, vec!["+OK\r\n".to_owned(); 2]);
    let server = server_at(url, WhenAway::Refuse);
    let asking = remembering(server.clone());
    assert_eq!(signed(&asking, 1).await, Told::Refused);
    while server.reach.is_away() {
        tokio::task::yield_now().await;
    }
    assert_eq!(signed(&asking, 1).await, FIRST);
    assert_eq!(server.place(), server_at(port, WhenAway::Refuse).url);
}
