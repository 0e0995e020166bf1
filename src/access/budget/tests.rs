use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use super::*;

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

/// Uses some tokens, all of them reserved.
fn spend(budgets: &Budgets, count: u64, now: Timestamp) -> Result<(), BudgetFault> {
    let reserved = budgets.reserve(KEY, count, Some(0), now)?;
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
fn money_is_a_budget_too_and_needs_a_price() {
    let budgets = budgets(Budget { cost_per_day: Some(1000), ..Budget::default() });
    let now = at("2026-11-21T12:00:00Z");
    assert_eq!(budgets.reserve(KEY, 5, None, now).err(), Some(BudgetFault::Unpriced));
    let reserved = budgets.reserve(KEY, 5, Some(999), now).unwrap().unwrap();
    reserved.settle(Amount { tokens: 5, cost: 1000 }, now);
    let fault = budgets.reserve(KEY, 5, Some(1), now).err().unwrap();
    assert!(matches!(fault, BudgetFault::Exhausted { of: Allowance::CostPerDay, .. }), "{fault}");
    // Nobody else pays for it.
    assert!(budgets.reserve("another", 5, None, now).unwrap().is_none());
    assert_eq!(budgets.check("another", now), Ok(()));
}

#[test]
fn one_that_is_alone_passes_and_others_wait_for_it() {
    let budgets = budgets(tokens(100));
    let now = at("2026-11-21T12:00:00Z");
    let large = budgets.reserve(KEY, 5_000, Some(0), now).unwrap().unwrap();
    assert_eq!(budgets.reserve(KEY, 1, Some(0), now).err(), Some(BudgetFault::Reserved));
    large.settle(used(40), now);
    let first = budgets.reserve(KEY, 30, Some(0), now).unwrap().unwrap();
    let second = budgets.reserve(KEY, 30, Some(0), now).unwrap().unwrap();
    assert_eq!(budgets.reserve(KEY, 1, Some(0), now).err(), Some(BudgetFault::Reserved));
    // An exchange that ends without a word gives back what it reserved.
    drop(first);
    assert!(budgets.reserve(KEY, 30, Some(0), now).unwrap().is_some());
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
                    if let Ok(Some(reserved)) = budgets.reserve(KEY, 30, Some(0), now) {
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
