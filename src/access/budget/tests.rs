use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use super::*;
use crate::store::Batch;
use crate::store::faulty::Faulty;

const KEY: &str = "key";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn budgets(budget: Budget) -> Budgets {
    let budgets = Budgets::open(&Store::in_memory()).unwrap();
    budgets.set(KEY, budget, Spent::default()).unwrap();
    budgets
}

fn tokens(per_day: u64) -> Budget {
    Budget { tokens_per_day: Some(per_day), ..Budget::default() }
}

fn used(tokens: u64) -> Amount {
    Amount { tokens, cost: 0 }
}

/// Reserves by what one node knows.
fn reserve(
    budgets: &Budgets,
    id: &str,
    (tokens, cost): (u64, Option<u64>),
    now: Timestamp,
) -> Result<Option<Reservation>, BudgetFault> {
    let Some(mut held) = budgets.hold(id) else { return Ok(None) };
    let wanted = held.wanted(tokens, cost, now)?;
    held.change(wanted, now)?;
    Ok(Some(held))
}

/// Uses some tokens, all of them reserved.
fn spend(budgets: &Budgets, count: u64, now: Timestamp) -> Result<(), BudgetFault> {
    let reserved = reserve(budgets, KEY, (count, Some(0)), now)?;
    reserved.unwrap().settle(used(count), now);
    Ok(())
}

#[test]
fn a_budget_is_used_up_and_begins_anew() {
    let budget = Budget { tokens_per_month: Some(150), ..tokens(100) };
    let budgets = budgets(budget);
    // A month that ends on the 29th: 2028 is a leap year.
    let (evening, morning) = (at("2028-02-29T23:00:00Z"), at("2028-03-01T00:00:00Z"));
    let day_before = at("2028-02-28T12:00:00Z");
    assert_eq!(spend(&budgets, 100, day_before), Ok(()));
    let fault = spend(&budgets, 1, day_before).unwrap_err();
    let resets_at = at("2028-02-29T00:00:00Z");
    let wait = Duration::from_secs(12 * 3600);
    assert_eq!(fault, BudgetFault::Exhausted { of: Allowance::TokensPerDay, resets_at, wait });
    assert_eq!(spend(&budgets, 50, evening), Ok(()));
    let fault = spend(&budgets, 1, evening).unwrap_err();
    let wait = Duration::from_secs(3600);
    assert_eq!(fault, BudgetFault::Exhausted { of: Allowance::TokensPerMonth, resets_at: morning, wait });
    assert_eq!(budgets.check(KEY, morning), Ok(()));
    assert_eq!(spend(&budgets, 100, morning), Ok(()));
    // Setting the clock back brings nothing.
    assert!(spend(&budgets, 1, evening).is_err());
}

#[test]
fn a_clock_that_was_wrong_gives_a_key_no_more_than_a_day_and_takes_none_away() {
    let (before, wrong) = (at("2026-11-21T12:00:00Z"), at("2027-01-20T12:00:00Z"));
    let after = before + Duration::from_secs(60);
    let store = Store::in_memory();
    let mut budgets = Budgets::open(&store).unwrap();
    budgets.set(KEY, Budget { tokens_per_month: Some(150), ..tokens(100) }, Spent::default()).unwrap();
    spend(&budgets, 10, before).unwrap();
    spend(&budgets, 20, wrong).unwrap();
    for spent in [50, 80] {
        assert_eq!(spend(&budgets, 30, after), Ok(()));
        assert_eq!(today(&budgets, after), spent);
        budgets.flush().unwrap();
        budgets = Budgets::open(&store).unwrap();
    }
    assert_eq!(spend(&budgets, 20, after), Ok(()));
    assert!(spend(&budgets, 1, after).is_err(), "what was used after the clock came back counts");
    let (tomorrow, next_month) = (at("2026-11-22T00:00:00Z"), at("2026-12-01T00:00:00Z"));
    assert_eq!(spend(&budgets, 50, tomorrow), Ok(()), "the day begins anew when it does");
    assert!(spend(&budgets, 1, tomorrow).is_err(), "not so the month");
    assert_eq!(spend(&budgets, 1, next_month), Ok(()));
}

#[test]
fn what_a_node_uses_whose_day_has_not_begun_yet_counts_in_the_one_that_has() {
    let (early, late) = (at("2026-11-22T00:00:01Z"), at("2026-11-21T23:59:59Z"));
    let store = Store::in_memory();
    let [ahead, behind] = [(); 2].map(|()| Budgets::open(&store).unwrap());
    ahead.set(KEY, tokens(100), Spent::default()).unwrap();
    spend(&ahead, 10, early).unwrap();
    ahead.flush().unwrap();
    behind.follow().unwrap();
    spend(&behind, 20, late).unwrap();
    behind.flush().unwrap();
    ahead.follow().unwrap();
    assert_eq!([today(&ahead, early), today(&behind, late)], [30; 2]);
}

#[test]
fn money_is_a_budget_too_and_needs_a_price() {
    let budgets = budgets(Budget { cost_per_day: Some(1000), ..Budget::default() });
    let now = at("2026-11-21T12:00:00Z");
    assert_eq!(reserve(&budgets, KEY, (5, None), now).err(), Some(BudgetFault::Unpriced));
    let reserved = reserve(&budgets, KEY, (5, Some(999)), now).unwrap().unwrap();
    reserved.settle(Amount { tokens: 5, cost: 1000 }, now);
    let fault = reserve(&budgets, KEY, (5, Some(1)), now).err().unwrap();
    assert!(matches!(fault, BudgetFault::Exhausted { of: Allowance::CostPerDay, .. }), "{fault}");
    // Nobody else pays for it.
    assert!(reserve(&budgets, "another", (5, None), now).unwrap().is_none());
    assert_eq!(budgets.check("another", now), Ok(()));
}

#[test]
fn one_that_is_alone_passes_and_others_wait_for_it() {
    let budgets = budgets(tokens(100));
    let now = at("2026-11-21T12:00:00Z");
    let large = reserve(&budgets, KEY, (5_000, Some(0)), now).unwrap().unwrap();
    assert_eq!(reserve(&budgets, KEY, (1, Some(0)), now).err(), Some(BudgetFault::Reserved));
    large.settle(used(40), now);
    let first = reserve(&budgets, KEY, (30, Some(0)), now).unwrap().unwrap();
    let second = reserve(&budgets, KEY, (30, Some(0)), now).unwrap().unwrap();
    assert_eq!(reserve(&budgets, KEY, (1, Some(0)), now).err(), Some(BudgetFault::Reserved));
    // An exchange that ends without a word gives back what it reserved.
    drop(first);
    assert!(reserve(&budgets, KEY, (30, Some(0)), now).unwrap().is_some());
    second.settle(used(30), now);
}

#[test]
fn concurrency_does_not_overshoot() {
    let budgets = budgets(tokens(10_000));
    let now = at("2026-11-21T12:00:00Z");
    let passed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    if let Ok(Some(reserved)) = reserve(&budgets, KEY, (30, Some(0)), now) {
                        std::thread::yield_now();
                        reserved.settle(used(30), now);
                        passed.fetch_add(30, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let (_, spent) = budgets.of(KEY, now).unwrap();
    assert_eq!(spent.today.tokens, passed.into_inner());
    // The last one may have been alone with less than it needed.
    assert!((10_000..10_030).contains(&spent.today.tokens), "{spent:?}");
}

#[test]
fn what_was_used_survives_a_restart() {
    let store = Store::in_memory();
    let now = at("2026-11-21T12:00:00Z");
    let first = Budgets::open(&store).unwrap();
    let known = Spent::of(used(10), used(20), now);
    first.set(KEY, tokens(100), known).unwrap();
    spend(&first, 30, now).unwrap();
    first.flush().unwrap();
    drop(first);
    let second = Budgets::open(&store).unwrap();
    let (budget, spent) = second.of(KEY, now).unwrap();
    assert_eq!((budget, spent.today.tokens, spent.this_month.tokens), (tokens(100), 40, 50));
    // A raised limit counts at once, and what was used stays used.
    second.set(KEY, tokens(41), Spent::default()).unwrap();
    assert_eq!(spend(&second, 1, now), Ok(()));
    assert!(spend(&second, 1, now).is_err());
    assert!(second.remove(KEY).unwrap() && !second.remove(KEY).unwrap());
    assert!(Budgets::open(&store).unwrap().of(KEY, now).is_none());
}

#[test]
fn a_budget_given_again_begins_anew_at_every_node() {
    let (store, now) = (Store::in_memory(), at("2026-11-21T12:00:00Z"));
    let [one, other] = [(); 2].map(|()| Budgets::open(&store).unwrap());
    one.set(KEY, tokens(100), Spent::default()).unwrap();
    spend(&one, 80, now).unwrap();
    one.flush().unwrap();
    other.follow().unwrap();
    assert_eq!(today(&other, now), 80);
    // The other node sees nothing of it but what stands there in the end.
    assert!(one.remove(KEY).unwrap());
    one.set(KEY, tokens(100), Spent::of(used(10), used(10), now)).unwrap();
    one.flush().unwrap();
    other.follow().unwrap();
    assert_eq!([today(&one, now), today(&other, now)], [10, 10]);
    // A changed limit is no other budget.
    one.set(KEY, tokens(200), Spent::default()).unwrap();
    other.follow().unwrap();
    assert_eq!([today(&one, now), today(&other, now)], [10, 10]);
}

fn today(budgets: &Budgets, now: Timestamp) -> u64 {
    budgets.of(KEY, now).unwrap().1.today.tokens
}

/// Returns a store that several nodes share, and whose answer to a write is lost on the way where that is asked for.
fn losing(store: &Store, loses: &Arc<AtomicBool>) -> Store {
    let loses = Arc::clone(loses);
    let write = move |store: &Store, batch: &Batch| {
        store.commit(batch)?;
        match loses.swap(false, Ordering::Relaxed) {
            true => Err(StoreError::Away { backend: "losing" }),
            false => Ok(()),
        }
    };
    Store::new(Faulty { store: store.clone(), read: || Ok(()), write, is_shared: true })
}

#[test]
fn what_was_written_without_an_answer_counts_once() {
    let (store, now) = (Store::in_memory(), at("2026-11-21T12:00:00Z"));
    let loses = Arc::new(AtomicBool::new(false));
    let losing = losing(&store, &loses);
    let [one, other] = [&losing, &store].map(|store| Budgets::open(store).unwrap());
    one.set(KEY, tokens(1000), Spent::default()).unwrap();
    other.follow().unwrap();
    for others_too in [false, true] {
        let before = today(&other, now);
        spend(&one, 30, now).unwrap();
        loses.store(true, Ordering::Relaxed);
        assert!(one.flush().is_err());
        other.follow().unwrap();
        assert_eq!(today(&other, now), before + 30, "it was written");
        if others_too {
            // Nothing is left of that but what the other node wrote over it.
            spend(&other, 20, now).unwrap();
            other.flush().unwrap();
        }
        spend(&one, 10, now).unwrap();
        one.flush().unwrap();
        other.follow().unwrap();
        let expected = before + 40 + if others_too { 20 } else { 0 };
        assert_eq!([today(&one, now), today(&other, now)], [expected; 2]);
    }
}
