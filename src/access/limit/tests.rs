use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use super::*;
use crate::clock::ManualClock;

fn quotas() -> Quotas {
    Tier::ALL.map(Tier::quota)
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(1_700_000_000_000 + ms).unwrap()
}

#[test]
fn a_burst_then_one_a_second() {
    let buckets = Buckets::new(quotas());
    let first = buckets.take("a", Tier::Community, at(0));
    assert_eq!((first.limit, first.remaining, first.reset_unix), (60, 99, 1_700_000_001));
    let passed = (0..200).filter(|_| buckets.take("a", Tier::Community, at(0)).allowed).count();
    assert_eq!(passed, 99);
    let refused = buckets.take("a", Tier::Community, at(0));
    assert_eq!((refused.allowed, refused.remaining, refused.retry_after_s), (false, 0, 1));
    assert!(!buckets.take("a", Tier::Community, at(999)).allowed);
    assert!(buckets.take("a", Tier::Community, at(1000)).allowed);
    assert!(buckets.take("b", Tier::Community, at(0)).allowed);
    assert_eq!(buckets.take("a", Tier::Enterprise, at(0)), LimitState::unlimited(at(0)));
    // The clock set back an hour neither refills nor locks out for longer than a full bucket.
    assert!(buckets.peek("a", Tier::Community, at(-3_600_000)).retry_after_s <= 1);
}

/// Eight callers on eight threads, an hour of a clock that is moved while they ask: each gets its burst
/// and then one request for each second that went by, to the request, whatever the others do.
#[test]
fn everybody_gets_an_equal_and_exact_share() {
    const MINUTES: u64 = 60;
    let clock = ManualClock::new(at(0));
    let buckets = Buckets::new(quotas());
    let passed: Vec<AtomicUsize> = (0..8).map(|_| AtomicUsize::new(0)).collect();
    for minute in 0..=MINUTES {
        std::thread::scope(|scope| {
            for (caller, passed) in passed.iter().enumerate() {
                let (buckets, clock) = (&buckets, &clock);
                // The greedier ask ten times as often; asking does not help.
                let asks = if caller < 4 { 300 } else { 3000 };
                scope.spawn(move || {
                    let name = format!("caller-{caller}");
                    let take = || buckets.take(&name, Tier::Community, clock.now()).allowed;
                    passed.fetch_add((0..asks).filter(|_| take()).count(), Ordering::Relaxed);
                });
            }
        });
        if minute < MINUTES {
            clock.advance(std::time::Duration::from_secs(60));
        }
    }
    let passed: Vec<usize> = passed.iter().map(|passed| passed.load(Ordering::Relaxed)).collect();
    assert_eq!(passed, vec![100 + 60 * MINUTES as usize; 8]);
}

#[test]
fn counts_are_exact_under_concurrency() {
    let buckets = Buckets::new(quotas());
    let passed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mine = (0..100).filter(|_| buckets.take("a", Tier::Developer, at(0)).allowed).count();
                passed.fetch_add(mine, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(passed.load(Ordering::Relaxed), 200);
}

#[test]
fn unlimited_is_without_limit() {
    let buckets = Buckets::new(quotas());
    assert!((0..100_000).all(|_| buckets.take("a", Tier::Enterprise, at(0)) == LimitState::unlimited(at(0))));
    assert!(buckets.shards.iter().all(|shard| shard.lock().full_at.is_empty()));
}

#[test]
fn a_million_callers_neither_fill_the_memory_nor_refill_anybody() {
    let buckets = Buckets::new(quotas());
    let drained = (0..100).filter(|_| buckets.take("early", Tier::Community, at(0)).allowed).count();
    assert_eq!(drained, 100);
    for caller in 0..1_000_000u32 {
        // A hundred newcomers a millisecond, ten seconds long.
        buckets.take(&caller.to_string(), Tier::Community, at(i64::from(caller / 100)));
    }
    let kept: usize = buckets.shards.iter().map(|shard| shard.lock().full_at.len()).sum();
    assert!(kept < 600_000, "{kept}");
    // Whoever had used up their bucket has what ten seconds bring, not a fresh one.
    let passed = (0..50).filter(|_| buckets.take("early", Tier::Community, at(10_000)).allowed).count();
    assert_eq!(passed, 10);
}

#[test]
fn without_room_newcomers_share_and_others_keep_theirs() {
    let mut shard = Shard::default();
    for caller in 1..=SHARD_BUCKETS_MAX as u64 {
        let key = shard.room(caller, 0);
        shard.full_at.insert(key, 1000);
    }
    assert_eq!((shard.room(u64::MAX, 999), shard.place(u64::MAX), shard.room(1, 999)), (SHARED, SHARED, 1));
    assert_eq!(shard.full_at.len(), SHARD_BUCKETS_MAX);
    // Once a second it looks for buckets that are full by now.
    assert_eq!(shard.room(u64::MAX, 1000), SHARED);
    assert_eq!(shard.room(u64::MAX, 999 + FULL_SWEEP_NS), u64::MAX);
    assert!(shard.full_at.is_empty());
}

#[test]
fn a_restart_is_no_refill() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let open = |ms| Buckets::open(Kind::Callers, quotas(), secret.clone(), &store, at(ms));
    let buckets = open(0);
    for _ in 0..100 {
        buckets.take("a", Tier::Community, at(0));
    }
    buckets.take("b", Tier::Community, at(0));
    buckets.save(&store, at(500)).unwrap();
    let agents = Buckets::open(Kind::Agents, quotas(), secret.clone(), &store, at(500));
    assert_eq!(agents.peek("a", Tier::Community, at(500)).remaining, 100, "an agent is another caller");
    agents.save(&store, at(500)).unwrap();
    let again = open(2000);
    let passed = (0..50).filter(|_| again.take("a", Tier::Community, at(3500)).allowed).count();
    assert_eq!(passed, 3, "what three and a half seconds bring");
    assert_eq!(again.peek("b", Tier::Community, at(2000)).remaining, 100);
    // What was full by then is not kept, and a bucket of long ago is full.
    again.save(&store, at(200_000)).unwrap();
    assert!(again.levels(&store).list(&KeyRange::all(), Order::Ascending, SHARDS).unwrap().is_empty());
    assert_eq!(open(200_000).peek("a", Tier::Community, at(200_000)).remaining, 100);
}

/// Three nodes that a caller asks all the time let each token pass at the same moment, before any of them has heard of the
/// others: what was too much is missing afterwards, however often the caller asks meanwhile.
#[test]
fn what_other_nodes_let_pass_is_missing_whoever_asks_meanwhile() {
    const SECONDS: i64 = 600;
    let nodes = [(); 3].map(|()| Buckets::keyed(Kind::Callers, quotas(), NodeSecret::random()));
    nodes.iter().for_each(Buckets::share);
    let burst = quotas()[Tier::Community as usize].unwrap().burst as usize;
    let (mut full_at, mut passed) = (0, 0);
    for now in (0..SECONDS * 1000).step_by(50).map(at) {
        let take = |node: &Buckets| node.take("ada", Tier::Community, now);
        passed += nodes.iter().filter(|node| take(node).allowed).count();
        for node in &nodes {
            for taken in node.taken(1) {
                // As the script does that all nodes tell.
                let now = now.as_nanosecond();
                full_at = (full_at.max(now) + taken.cost_ns).min(now + 2 * taken.capacity_ns);
                node.learn(&taken, full_at);
            }
        }
        let left = nodes[0].peek("ada", Tier::Community, now);
        assert!(left.remaining <= burst as u64, "{left:?}");
    }
    let due = SECONDS as usize + burst;
    assert!((due..=due + burst + nodes.len()).contains(&passed), "{passed} instead of {due}");
}
