use std::time::Duration;

use super::*;
use crate::govern::analytics::figures::Tokens;
use crate::govern::analytics::figures::Use;
use crate::govern::analytics::figures::Verdict;
use crate::govern::analytics::price::Cost;

/// Some hour in 2026, at midnight, of a Sunday.
const START: u64 = 494_000 / DAY_H * DAY_H;

/// Traffic of a caller: busy by day, silent at night, a little different every day.
fn rhythm(hour: u64) -> u64 {
    let day = hour / DAY_H % 7;
    if (8..20).contains(&(hour % DAY_H)) { 200 + 7 * day } else { 0 }
}

fn exchange(caller: &str, failed: bool) -> (Use, Figures) {
    let used = Use {
        caller: Some(caller.to_owned()),
        model: Some("m".to_owned()),
        tokens: Tokens { prompt: 100, total: 100, ..Tokens::default() },
        verdict: if failed { Verdict::Failed } else { Verdict::Answered },
        took: Duration::from_millis(400),
        ..Use::default()
    };
    let figures = Figures::of(&used, Cost { pico: 1_000_000_000, unpriced_tokens: 0 });
    (used, figures)
}

fn add(hours: &mut BTreeMap<Hour, Roll>, hour: u64, caller: &str, count: u64, failed: bool) {
    let (used, figures) = exchange(caller, failed);
    (0..count).for_each(|_| hours.entry(Hour(START + hour)).or_default().note(&used, &figures));
}

fn ordinary(days: u64) -> BTreeMap<Hour, Roll> {
    let mut hours = BTreeMap::new();
    (0..days * DAY_H).for_each(|hour| add(&mut hours, hour, "usual", rhythm(hour), false));
    hours
}

fn judged(hours: &BTreeMap<Hour, Roll>, from: u64, to: u64) -> Vec<Anomaly> {
    find(hours, Period { from: Hour(START + from), to: Hour(START + to) }, Hour(START + to))
}

#[test]
fn a_rhythm_is_no_anomaly() {
    let hours = ordinary(20);
    assert_eq!(judged(&hours, 8 * DAY_H, 20 * DAY_H), []);
    // Nor is what cannot be compared yet, or three requests after none.
    let mut young = ordinary(0);
    add(&mut young, 0, "a", 5, false);
    add(&mut young, 1, "a", 5_000, false);
    assert_eq!(judged(&young, 0, 2), []);
    let mut quiet = ordinary(10);
    add(&mut quiet, 9 * DAY_H + 3, "usual", 3, false);
    assert_eq!(judged(&quiet, 9 * DAY_H, 10 * DAY_H), []);
}

#[test]
fn traffic_at_night_is_seen_although_by_day_it_is_usual() {
    let mut hours = ordinary(10);
    add(&mut hours, 9 * DAY_H + 3, "usual", 180, false);
    let found = judged(&hours, 9 * DAY_H, 10 * DAY_H);
    let spike =
        found.iter().find(|it| it.kind() == "request_spike" && it.subject == Subject::Everything).unwrap();
    assert_eq!(
        (spike.hour, spike.value, spike.median, spike.mad),
        (Hour(START + 9 * DAY_H + 3), 180.0, 0.0, 0.0)
    );
    assert_eq!((spike.score, spike.samples, spike.baseline), (18.0, 6, Baseline::SameHour));
    assert_eq!(spike.grade(), Grade::High);
    assert!(found.iter().any(|it| it.subject == Subject::Caller("usual".to_owned())), "{found:?}");
}

#[test]
fn a_newcomer_that_uses_much_is_named() {
    let mut hours = ordinary(10);
    add(&mut hours, 9 * DAY_H + 12, "newcomer", 2_000, false);
    let found = judged(&hours, 9 * DAY_H, 10 * DAY_H);
    let of = |kind: &str| {
        let newcomer = Subject::Caller("newcomer".to_owned());
        found.iter().any(|it| it.kind() == kind && it.subject == newcomer)
    };
    assert!(of("request_spike") && of("token_spike") && of("cost_spike"), "{found:?}");
    assert!(!found.iter().any(|it| it.subject == Subject::Caller("usual".to_owned())), "{found:?}");
    // A spike in the past hides no later one: it moves neither the median nor the MAD.
    add(&mut hours, 9 * DAY_H + 13, "newcomer", 2_000, false);
    let again = judged(&hours, 9 * DAY_H, 10 * DAY_H);
    assert!(again.iter().filter(|it| it.kind() == "request_spike").count() > 2, "{again:?}");
}

#[test]
fn failures_and_silence_are_seen() {
    let mut hours = ordinary(10);
    add(&mut hours, 9 * DAY_H + 10, "usual", 60, true);
    // Nothing at all, in an hour that is always busy.
    hours.remove(&Hour(START + 9 * DAY_H + 15));
    let found = judged(&hours, 9 * DAY_H, 10 * DAY_H);
    let failing =
        found.iter().find(|it| it.kind() == "error_spike" && it.subject == Subject::Everything).unwrap();
    assert!(failing.value > 0.2 && failing.median == 0.0, "{failing:?}");
    let silent = found.iter().find(|it| it.kind() == "request_drop").unwrap();
    assert_eq!((silent.hour, silent.value), (Hour(START + 9 * DAY_H + 15), 0.0));
    // The hour under way may still become a busy one.
    let now = Hour(START + 9 * DAY_H + 15);
    let early = find(&hours, Period { from: now, to: Hour(now.0 + 1) }, now);
    assert_eq!(early, []);
}

#[test]
fn a_weekend_is_no_anomaly() {
    let mut hours = BTreeMap::new();
    for hour in 0..28 * DAY_H {
        let count = if Hour(START + hour).is_of_weekend() { 30 } else { 300 };
        add(&mut hours, hour, "usual", if rhythm(hour) > 0 { count } else { 0 }, false);
    }
    assert_eq!(judged(&hours, 7 * DAY_H, 28 * DAY_H), []);
    // A week-end as busy as a working day is one.
    add(&mut hours, 27 * DAY_H + 12, "usual", 270, false);
    assert!(judged(&hours, 27 * DAY_H, 28 * DAY_H).iter().any(|it| it.kind() == "request_spike"));
}

#[test]
fn who_came_to_stay_is_new_for_a_day() {
    let mut hours = ordinary(10);
    (7 * DAY_H..10 * DAY_H).for_each(|hour| add(&mut hours, hour, "newcomer", 200, false));
    let of = |from: u64, to: u64| {
        let newcomer = Subject::Caller("newcomer".to_owned());
        judged(&hours, from, to).into_iter().filter(|it| it.subject == newcomer).count()
    };
    assert!(of(7 * DAY_H, 8 * DAY_H) > 0);
    assert_eq!(of(8 * DAY_H, 10 * DAY_H), 0);
}

#[test]
fn who_is_not_named_in_an_hour_was_not_silent() {
    let mut hours = ordinary(27);
    let caller = Subject::Caller("usual".to_owned());
    for (hour, roll) in &mut hours {
        if (hour.0 - START) / DAY_H % 3 != 2 {
            assert!(roll.callers.forget("usual"));
        }
    }
    let found = judged(&hours, 26 * DAY_H, 27 * DAY_H);
    assert!(!found.iter().any(|it| it.subject == caller), "{found:?}");
}
