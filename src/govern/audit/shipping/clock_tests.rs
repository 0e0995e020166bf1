//! Entries of nodes whose clocks were wrong.

use super::*;
use crate::govern::audit::Entry;

/// Ids only rise, whatever the clock does: what is shipped goes by them, and what is asked for by when it was recorded.
#[test]
fn entries_of_a_clock_that_was_wrong_are_shipped_once_in_order_and_found_by_when_they_were_recorded() {
    let (server, folders, clock) = (Postgres::start(), folders(), clock());
    let settings = |at: usize| AuditConfig { retention_age: Some(30 * DAY), ..config(&folders[at]) };
    let [mut one, mut two] = [0, 1].map(|at| Node::open(&server, ["one", "two"][at], settings(at), &clock));
    let begun = clock.now();
    one.write(0..5);
    clock.set(begun + 4000 * DAY);
    one.write(5..10);
    one.shipping().ship_all().unwrap();
    clock.set(begun + Duration::from_secs(3600));
    one.write(10..15);
    one.shipping().ship_all().unwrap();
    clock.set(begun - 40 * DAY);
    one.write(15..20);
    one.shipping().ship_all().unwrap();
    one.shipping().ship_all().unwrap();
    clock.set(begun + Duration::from_secs(7200));
    one.write(20..25);
    two.write(0..5);
    two.shipping().ship_all().unwrap();
    // All but the last five of one have been shipped.
    let all = Query { limit: 1000, node: Some("one".to_owned()), ..Query::default() };
    let check = |shipped: usize| {
        let messages = two.query(all.clone()).entries.into_iter().rev().map(|entry| entry.event.message);
        let expected: Vec<String> = (0..shipped).map(|number| format!("event {number}")).collect();
        assert_eq!(messages.collect::<Vec<_>>(), expected);
        let hour = |hours: u64| begun + Duration::from_secs(hours * 3600);
        let last = shipped.saturating_sub(20) as u64;
        for (from, to, of_one, of_two) in [
            (begun, hour(1), 5, 0),
            (hour(1), hour(2), 5, 0),
            (begun - 41 * DAY, begun - 39 * DAY, 5, 0),
            (hour(2), hour(3), last, 5),
            (begun, hour(3), 10 + last, 5),
            (begun + 3999 * DAY, begun + 4001 * DAY, 5, 0),
        ] {
            let query = Query { from: Some(from), to: Some(to), ..Query::default() };
            assert_eq!(two.total(query.clone()), of_one + of_two, "{from} to {to}");
            let is_exchange = |entry: &&Entry| entry.event.event_type == "exchange";
            let exchanges = two.query(query.clone()).entries.iter().filter(is_exchange).count() as u64;
            let counted = Query { event_type: Some("exchange".to_owned()), ..query };
            assert_eq!(two.total(counted), exchanges, "{from} to {to}");
        }
    };
    check(20);
    one.shipping().ship_all().unwrap();
    check(25);
    assert!(matches!(two.verified().get("one"), Some(Ok(25))));
    assert_eq!(two.opened.log.oldest().unwrap(), Some(begun - 40 * DAY + Duration::from_secs(1)));

    // Old is what was recorded long ago, whatever the ids say.
    for _ in 0..29 * 24 {
        clock.advance(Duration::from_secs(3600));
        two.opened.log.drop_shipped(&BTreeMap::new()).unwrap();
    }
    assert_eq!(two.total(all.clone()), 25, "the first of them are not");
    clock.advance(2 * DAY);
    assert_eq!(two.opened.log.drop_shipped(&BTreeMap::new()).unwrap(), 30);
}
