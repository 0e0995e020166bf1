//! Nodes in one process, and a real Redis.

use jiff::Timestamp;
use tokio::task::JoinHandle;

use super::*;
use crate::access::budget::Budget;
use crate::access::budget::BudgetFault;
use crate::access::budget::Reservation;
use crate::access::budget::Spent;
use crate::access::patience::Patience;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::cluster::fixture::PATIENCE;
use crate::cluster::fixture::Redis;
use crate::store::Store;

const KEY: &str = "key";

impl Redis {
    /// Returns two nodes, on one store.
    fn nodes(&self, when_away: WhenAway, tokens_per_day: u64) -> [Arc<Budgets>; 2] {
        self.nodes_ahead(when_away, tokens_per_day, Duration::ZERO).0
    }

    /// Returns the same, where the clock of the second is ahead; and what shares their budgets.
    fn nodes_ahead(
        &self,
        when_away: WhenAway,
        tokens_per_day: u64,
        ahead: Duration,
    ) -> ([Arc<Budgets>; 2], Vec<JoinHandle<()>>) {
        nodes_at(&self.server(when_away), tokens_per_day, ahead)
    }

    /// Runs a script that answers with a number.
    async fn runs(&self, script: &str) -> i64 {
        let words = ["EVAL", script, "0"].map(|word| word.as_bytes().to_vec());
        match self.open().await.unwrap().ask(&words).await.unwrap() {
            Answer::Number(number) => number,
            other => panic!("{other:?}"),
        }
    }
}

/// Returns two nodes, on one store, that share a server; the clock of the second is ahead.
fn nodes_at(
    server: &RedisServer,
    tokens_per_day: u64,
    ahead: Duration,
) -> ([Arc<Budgets>; 2], Vec<JoinHandle<()>>) {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let mut tasks = Vec::new();
    let nodes = [("one", Duration::ZERO), ("two", ahead)].map(|(name, ahead)| {
        let budgets = Arc::new(Budgets::open(&store).unwrap());
        let server = RedisServer { clock: Arc::new(Ahead(ahead)), ..server.clone() };
        let server = RedisServer { reach: Arc::default(), ..server };
        let shared = SharedBudgets::new(&budgets, secret.clone(), name.to_owned(), server);
        tasks.push(tokio::spawn(shared.run(std::future::pending())));
        budgets
    });
    limit(&nodes, tokens_per_day);
    (nodes, tasks)
}

/// A clock that is ahead of the system's.
struct Ahead(Duration);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        now() + self.0
    }

    fn monotonic(&self) -> Duration {
        SystemClock.monotonic()
    }
}

fn now() -> Timestamp {
    SystemClock.now()
}

fn limit(nodes: &[Arc<Budgets>; 2], tokens_per_day: u64) {
    let budget = Budget { tokens_per_day: Some(tokens_per_day), ..Budget::default() };
    nodes[0].set(KEY, budget, Spent::default()).unwrap();
    nodes[1].follow().unwrap();
}

async fn reserve(node: &Budgets, tokens: u64) -> Result<Reservation, BudgetFault> {
    reserve_at(node, tokens, now()).await
}

async fn reserve_at(node: &Budgets, tokens: u64, now: Timestamp) -> Result<Reservation, BudgetFault> {
    let (held, told) =
        node.change(node.hold(KEY).unwrap(), (tokens, Some(0)), now, &Patience::default()).await;
    told.map(|()| held)
}

/// Reserves as soon as what is given back elsewhere was told, and what was written is said no more.
async fn granted(node: &Budgets, tokens: u64) -> Reservation {
    granted_at(node, tokens, Duration::ZERO).await
}

/// Does the same at a node whose clock is ahead.
async fn granted_at(node: &Budgets, tokens: u64, ahead: Duration) -> Reservation {
    let begun = std::time::Instant::now();
    loop {
        match reserve_at(node, tokens, now() + ahead).await {
            Ok(held) => return held,
            Err(BudgetFault::Unpriced) => panic!("tokens have no price"),
            Err(fault) => assert!(begun.elapsed() < PATIENCE, "{fault}"),
        }
    }
}

fn settle(held: Reservation, tokens: u64) {
    held.settle(Amount { tokens, cost: 0 }, now());
}

/// Uses thirty tokens at a time until nothing is left; returns how many.
async fn use_up(node: Arc<Budgets>) -> u64 {
    let mut used = 0;
    loop {
        match reserve(&node, 30).await {
            Ok(held) => {
                settle(held, 30);
                used += 30;
            }
            Err(BudgetFault::Reserved) => tokio::task::yield_now().await,
            Err(BudgetFault::Exhausted { of, .. }) => {
                assert_eq!(of, Allowance::TokensPerDay);
                return used;
            }
            Err(other) => panic!("{other}"),
        }
    }
}

async fn use_up_at_all(nodes: &[Arc<Budgets>; 2]) -> u64 {
    let tasks: Vec<_> = (0..16).map(|number| tokio::spawn(use_up(Arc::clone(&nodes[number % 2])))).collect();
    let mut used = 0;
    for task in tasks {
        used += task.await.unwrap();
    }
    used
}

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_together_grant_what_one_would() {
    let redis = Redis::start().await;
    let nodes = redis.nodes(WhenAway::Refuse, 10_000);
    // So young a Redis is not believed.
    assert_eq!(reserve(&nodes[0], 30).await.err(), Some(BudgetFault::Away));
    assert!(reserve(&nodes[0], 0).await.is_ok(), "what reserves nothing needs nobody's leave");
    drop(granted(&nodes[0], 1).await);
    let used = use_up_at_all(&nodes).await;
    assert!((10_000..10_030).contains(&used), "{used}");

    // What was said of it in Redis, and is in the store by now, counts once.
    nodes.iter().for_each(|node| node.flush().unwrap());
    nodes.iter().for_each(|node| node.follow().unwrap());
    let told = |node: &Budgets| node.of(KEY, now()).unwrap().1.today.tokens;
    assert_eq!([told(&nodes[0]), told(&nodes[1])], [used, used]);
    limit(&nodes, used + 90);
    let begun = std::time::Instant::now();
    while let Err(fault) = reserve(&nodes[0], 0).await {
        // Until the second node's next word.
        assert!(matches!(fault, BudgetFault::Exhausted { .. }) && begun.elapsed() < PATIENCE, "{fault}");
    }
    assert_eq!(use_up_at_all(&nodes).await, 90);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_under_way_at_one_node_is_reserved_at_the_other() {
    let redis = Redis::start().await;
    let nodes = redis.nodes(WhenAway::Local, 1_000);
    let large = reserve(&nodes[0], 5_000).await.unwrap();
    assert_eq!(reserve(&nodes[1], 1).await.err(), Some(BudgetFault::Reserved));
    assert!(reserve(&nodes[1], 0).await.is_ok(), "what reserves nothing is in nobody's way");
    // What it holds itself is not in its way.
    let (large, told) = nodes[0].change(large, (600, Some(0)), now(), &Patience::default()).await;
    assert_eq!(told, Ok(()));
    let small = reserve(&nodes[1], 400).await.unwrap();
    let (large, told) = nodes[0].change(large, (601, Some(0)), now(), &Patience::default()).await;
    assert_eq!((told, large.amount().tokens), (Err(BudgetFault::Reserved), 600));
    settle(small, 399);
    drop(large);
    drop(granted(&nodes[1], 601).await);
    settle(granted(&nodes[0], 601).await, 601);
    let begun = std::time::Instant::now();
    while reserve(&nodes[1], 1).await.is_ok() {
        assert!(begun.elapsed() < PATIENCE, "used at the other node alone");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_lost_all_is_told_again_and_not_believed_before() {
    let redis = Redis::start().await;
    let nodes = redis.nodes(WhenAway::Refuse, 1_000);
    let held = granted(&nodes[0], 900).await;
    assert_eq!(reserve(&nodes[1], 200).await.err(), Some(BudgetFault::Reserved));
    redis.forget_all().await;
    let begun = std::time::Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE);
        match reserve(&nodes[1], 200).await.err() {
            Some(BudgetFault::Away) => {}
            Some(BudgetFault::Reserved) => break,
            other => panic!("{other:?}"),
        }
    }
    settle(held, 1_000);
    let begun = std::time::Instant::now();
    while !matches!(reserve(&nodes[1], 200).await.err(), Some(BudgetFault::Exhausted { .. })) {
        assert!(begun.elapsed() < PATIENCE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_given_again_begins_with_what_is_known_of_it() {
    let redis = Redis::start().await;
    let nodes = redis.nodes(WhenAway::Refuse, 1_000);
    settle(granted(&nodes[0], 700).await, 700);
    nodes[0].flush().unwrap();
    nodes[1].follow().unwrap();
    // What Redis knows of it then; and some more is under way.
    settle(granted(&nodes[1], 100).await, 100);
    let under_way = granted(&nodes[1], 150).await;
    assert!(nodes[0].remove(KEY).unwrap());
    let used = Amount { tokens: 100, cost: 0 };
    let budget = Budget { tokens_per_day: Some(1_000), ..Budget::default() };
    nodes[0].set(KEY, budget, Spent::of(used, used, now())).unwrap();
    drop(reserve(&nodes[0], 899).await.expect("nothing that was said of the other one stands in the way"));
    nodes[1].follow().unwrap();
    let used = use_up_at_all(&nodes).await;
    assert!((900..930).contains(&used), "{used}");
    drop(under_way);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_clock_is_ahead_begins_no_day_for_all() {
    let redis = Redis::start().await;
    let ahead = Duration::from_secs(40 * 86_400);
    let (nodes, _tasks) = redis.nodes_ahead(WhenAway::Refuse, 1_000, ahead);
    let today = |node: &Budgets, ahead: Duration| node.of(KEY, now() + ahead).unwrap().1.today.tokens;
    settle(granted(&nodes[0], 600).await, 600);
    nodes[0].flush().unwrap();
    nodes[1].follow().unwrap();
    let held = granted_at(&nodes[1], 400, ahead).await;
    held.settle(Amount { tokens: 300, cost: 0 }, now() + ahead);
    assert_eq!(today(&nodes[1], ahead), 900);
    nodes[1].flush().unwrap();
    nodes[0].follow().unwrap();
    assert_eq!(today(&nodes[0], Duration::ZERO), 900, "the day goes on");
    settle(granted(&nodes[0], 100).await, 100);
    let begun = std::time::Instant::now();
    while !matches!(reserve_at(&nodes[1], 1, now() + ahead).await, Err(BudgetFault::Exhausted { .. })) {
        assert!(begun.elapsed() < PATIENCE, "it is used up at both");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_whose_clock_was_set_back_refuses_nothing_and_holds_nothing_for_long() {
    let redis = Redis::start().await;
    let (nodes, tasks) = redis.nodes_ahead(WhenAway::Refuse, 1_000, Duration::ZERO);
    let held = granted(&nodes[0], 900).await;
    assert_eq!(reserve(&nodes[1], 200).await.err(), Some(BudgetFault::Reserved));
    // The first node dies, and what stands there is of an hour that is still to come.
    tasks[0].abort();
    let written = "local later = redis.call('TIME')[1] * 1000 + 3600000 \
                   redis.call('SET', '{portcullis}:budgets', string.format('%.0f', later)) \
                   local name = redis.call('KEYS', '{portcullis}:budget:*')[1] \
                   local line = redis.call('HGET', name, 'one') \
                   line = string.gsub(line, '%d+$', string.format('%.0f', later)) \
                   return redis.call('HSET', name, 'one', line)";
    assert_eq!(redis.runs(written).await, 0, "it was there");
    assert_eq!(reserve(&nodes[1], 200).await.err(), Some(BudgetFault::Reserved), "it is believed");
    drop(granted(&nodes[1], 200).await);
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_of_a_budget_lapses() {
    let redis = Redis::start().await;
    let nodes = redis.nodes(WhenAway::Local, 1_000);
    settle(granted(&nodes[0], 100).await, 100);
    assert!(nodes[0].remove(KEY).unwrap());
    let left = "local left = 0 for _, name in ipairs(redis.call('KEYS', '{portcullis}:budget:*')) do \
                local ttl = redis.call('PTTL', name) if ttl < 0 then return ttl end \
                left = math.max(left, ttl) end return left";
    let left = redis.runs(left).await;
    assert!((1..=i64::try_from(KEPT.as_millis()).unwrap()).contains(&left), "{left}");
}

#[tokio::test]
async fn a_request_that_has_waited_for_something_else_waits_no_more() {
    for (alone, expected) in [(Told::Unknown, Ok(())), (Told::Refused, Err(BudgetFault::Away))] {
        let budgets = Budgets::open(&Store::in_memory()).unwrap();
        let budget = Budget { tokens_per_day: Some(100), ..Budget::default() };
        budgets.set(KEY, budget, Spent::default()).unwrap();
        let _nobody_answers = budgets.share(alone, Duration::from_secs(86_400));
        let held = budgets.hold(KEY).unwrap();
        let (_, told) = budgets.change(held, (30, Some(0)), now(), &Patience::spent()).await;
        assert_eq!(told, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_takes_over_is_asked() {
    let (first, second) = (Redis::start().await, Redis::start().await);
    let failover = first.failover().await;
    let (nodes, _tasks) = nodes_at(&failover.server(WhenAway::Refuse), 100, Duration::ZERO);
    settle(granted(&nodes[0], 30).await, 30);
    first.becomes_replica().await;
    failover.lead_to(&second);
    // What is left, once the new one is believed: and no more at either.
    settle(granted(&nodes[0], 40).await, 40);
    settle(granted(&nodes[1], 30).await, 30);
    for node in &nodes {
        assert!(reserve(node, 30).await.is_err());
    }
}
