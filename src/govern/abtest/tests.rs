//! Tests from their making to their end.

use std::sync::Arc;

use super::evidence::Count;
use super::*;
use crate::clock::Clock;
use crate::clock::ManualClock;
use crate::id::Ulid;
use crate::scan::classifier::shelf::Shelf;
use crate::store::Store;
use crate::store::conformance::settings;
use crate::store::fixture::Postgres;
use crate::store::open_postgres;

fn moment(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Name, weight and model of a variant.
type Written<'a> = (&'a str, f64, &'a str);

fn new(variants: &[Written<'_>]) -> NewTest {
    let written = |(name, weight, model): &Written<'_>| ((*name).to_owned(), *weight, (*model).to_owned());
    NewTest {
        name: "test".to_owned(),
        description: String::new(),
        variants: variants.iter().map(written).collect(),
        guard_rail: GuardRail { block_rate_max: 0.5, requests_min: 10 },
    }
}

fn made(book: &AbTests, id: &str) -> AbTest {
    let new = new(&[("a", 1.0, "default"), ("b", 1.0, "off")]);
    book.create(id.to_owned(), new, &Shelf::default(), moment(1)).unwrap()
}

fn report(variant: &str, request_id: Option<&str>, detected: bool, false_positive: bool) -> Report {
    let request_id = request_id.map(str::to_owned);
    Report { variant: variant.to_owned(), request_id, detected, false_positive, latency_ms: 2.0 }
}

fn counts(book: &AbTests, id: &str) -> Vec<Count> {
    book.read(id).unwrap().1.into_iter().map(|metrics| metrics.detections).collect()
}

/// Returns ids of requests that belong to a variant.
fn ids<'a>(book: &'a AbTests, id: &'a str, variant: &'a str) -> impl Iterator<Item = String> + 'a {
    (0..).map(|at| format!("request-{at}")).filter(move |it| book.assign(id, it).unwrap() == variant)
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let book = AbTests::open(&Store::in_memory(), &Store::in_memory()).unwrap();
    let (a, b) = (("a", 1.0, "default"), ("b", 1.0, "off"));
    let cases: &[(&[Written<'_>], &str)] = &[
        (&[], "variants: expected 2 to 16"),
        (&[a], "variants: expected 2 to 16"),
        (&[a, a], "variants: two have the same name"),
        (&[a, ("", 1.0, "off")], "variants: name: expected 1 to 128 bytes"),
        (&[a, (" ", 1.0, "off")], "variants: name: expected 1 to 128 bytes"),
        (&[("a", 0.0, "off"), ("b", 0.0, "off")], "weight:"),
        (&[a, ("b", -1.0, "off")], "weight:"),
        (&[a, ("b", 1e-12, "off")], "weight:"),
        (&[a, ("b", f64::NAN, "off")], "weight:"),
        (&[a, ("b", f64::from(u32::MAX), "off")], "weight:"),
        (&[a, ("b", 1.0, "nobody")], "model_ref: there is no such model"),
        (&[a, ("b", 1.0, "default?bias=99")], "model_ref: there is no such model"),
    ];
    for (variants, message) in cases {
        let error = book.create("x".to_owned(), new(variants), &Shelf::default(), moment(1)).unwrap_err();
        assert!(error.to_string().starts_with(message), "{error}");
    }
    for (rate, least) in [(1.1, 1), (f64::NAN, 1), (-0.1, 1), (0.5, 0), (0.5, GUARD_REQUESTS_MAX + 1)] {
        let mut new = new(&[a, b]);
        new.guard_rail = GuardRail { block_rate_max: rate, requests_min: least };
        let error = book.create("x".to_owned(), new, &Shelf::default(), moment(1)).unwrap_err();
        assert!(matches!(error, AbTestError::GuardRail), "{error}");
    }
    assert!(book.list().is_empty());
}

#[test]
fn tests_and_counts_outlive_the_process() {
    let store = Store::in_memory();
    let book = AbTests::open(&store, &store).unwrap();
    made(&book, "x");
    book.report("x", &report("a", None, true, false)).unwrap();
    book.start("x", moment(2)).unwrap();
    let again = AbTests::open(&store, &store).unwrap();
    assert_eq!(again.list(), book.list());
    assert_eq!(counts(&again, "x"), [Count { all: 1, hits: 1 }, Count::default()]);
    assert!(again.is_live("x"));
    assert_eq!(ids(&again, "x", "b").next(), ids(&book, "x", "b").next());
    assert!(matches!(again.delete("x"), Err(AbTestError::Started)));
    again.stop("x", moment(3)).unwrap();
    again.delete("x").unwrap();
    assert!(AbTests::open(&store, &store).unwrap().list().is_empty());
}

#[test]
fn weights_are_kept_as_they_were_written() {
    let store = Store::in_memory();
    let book = AbTests::open(&store, &store).unwrap();
    let new = new(&[("a", 0.3, "default"), ("b", 0.7, "off")]);
    book.create("x".to_owned(), new, &Shelf::default(), moment(1)).unwrap();
    let again = AbTests::open(&store, &store).unwrap().list();
    assert_eq!(again, book.list());
    let weights = again[0].variants.iter().map(|variant| (variant.weight, variant.written_weight));
    assert_eq!(weights.collect::<Vec<_>>(), [(3, 0.3), (7, 0.7)]);
    let of_a = ids(&book, "x", "a").take(300).last().unwrap();
    let last: u32 = of_a.trim_start_matches("request-").parse().unwrap();
    assert!((800..1200).contains(&last), "3 of 10: {last}");
}

#[test]
fn nobody_counts_twice_or_for_another() {
    let book = AbTests::open(&Store::in_memory(), &Store::in_memory()).unwrap();
    made(&book, "x");
    let id = ids(&book, "x", "a").next().unwrap();
    assert!(matches!(book.report("x", &report("b", Some(&id), true, false)), Err(AbTestError::NotAssigned)));
    book.report("x", &report("a", Some(&id), true, false)).unwrap();
    assert!(matches!(book.report("x", &report("a", Some(&id), true, false)), Err(AbTestError::Repeated)));
    assert!(matches!(book.report("x", &report("c", None, true, false)), Err(AbTestError::UnknownVariant)));
    assert!(matches!(book.report("y", &report("a", None, true, false)), Err(AbTestError::Unknown)));
    book.report("x", &report("b", None, false, true)).unwrap();
    assert_eq!(book.read("x").unwrap().1[1].false_positives, 1, "whoever feeds back knows what was wrong");
    for latency_ms in [f64::NAN, f64::INFINITY, -0.1, LATENCY_MS_MAX + 1.0] {
        let odd = Report { latency_ms, ..report("a", None, true, false) };
        assert!(matches!(book.report("x", &odd), Err(AbTestError::Latency)), "{latency_ms}");
    }
    assert_eq!(counts(&book, "x"), [Count { all: 1, hits: 1 }, Count { all: 1, hits: 0 }]);
}

/// Returns the id of a request that a gateway names at such a second, and that belongs to the variant.
fn named_at(book: &AbTests, second: i64, variant: &str) -> String {
    let first = (second as u128 * 1000) << 80;
    let mut ids = (0..).map(|at| Ulid(first + at).to_string());
    ids.find(|it| book.assign("x", it).unwrap() == variant).unwrap()
}

#[test]
fn nobody_counts_twice_after_a_restart_or_at_another_node() {
    let (shared, one, other) = (Store::in_memory(), Store::in_memory(), Store::in_memory());
    let book = AbTests::open(&shared, &one).unwrap();
    made(&book, "x");
    let id = ids(&book, "x", "a").next().unwrap();
    let report = report("a", Some(&id), true, false);
    book.report("x", &report).unwrap();
    let said = book.read("x").unwrap();
    drop(book);
    for local in [&one, &other] {
        let again = AbTests::open(&shared, local).unwrap();
        assert!(matches!(again.report("x", &report), Err(AbTestError::Repeated)));
    }
    let again = AbTests::open(&shared, &one).unwrap();
    assert_eq!(again.read("x").unwrap(), said);
    // A test of that name that is made anew knows nothing of it.
    again.delete("x").unwrap();
    made(&again, "x");
    again.report("x", &report).unwrap();
}

#[test]
fn what_live_traffic_counted_and_was_forgotten_is_not_counted_again() {
    let (store, clock) = (Store::in_memory(), clock());
    let book = AbTests::open(&store, &store).unwrap();
    made(&book, "x");
    let (early, late) = (named_at(&book, 0, "b"), named_at(&book, 5, "b"));
    book.start("x", moment(2)).unwrap();
    let enrolled = book.enrol(&late, &Shelf::default(), &clock).unwrap();
    let outcome = Outcome { detected: true, false_positive: false, blocked: false, latency_us: 1 };
    book.observe(&enrolled, &late, outcome, moment(6));
    book.flush().unwrap();
    let said = |book: &AbTests| book.read("x").unwrap().1.remove(1);
    let before = said(&book);
    // Another process of the same node, and another node.
    for local in [&store, &Store::in_memory()] {
        let again = AbTests::open(&store, local).unwrap();
        let (counted, compared) = (said(&again).detections, said(&again).significance);
        again.report("x", &report("b", Some(&late), true, true)).unwrap();
        assert_eq!((said(&again).detections, said(&again).significance), (counted, compared));
        assert_eq!(said(&again).false_positives, 1);
        assert!(matches!(
            again.report("x", &report("b", Some(&late), true, true)),
            Err(AbTestError::Repeated)
        ));
        // From before the test: nobody can have counted it.
        again.report("x", &report("b", Some(&early), true, false)).unwrap();
        assert_eq!(said(&again).detections.all, counted.all + 1);
        again.reported_ids.forget("x").unwrap();
    }
    assert_eq!(before.detections, Count { all: 1, hits: 1 });
}

#[test]
fn the_difference_is_that_of_the_requests_which_the_p_value_goes_by() {
    let book = AbTests::open(&Store::in_memory(), &Store::in_memory()).unwrap();
    made(&book, "x");
    let pairs: Vec<_> = ids(&book, "x", "a").zip(ids(&book, "x", "b")).take(10).collect();
    for (a, b) in &pairs {
        book.report("x", &report("a", Some(a), false, false)).unwrap();
        book.report("x", &report("b", Some(b), true, false)).unwrap();
    }
    // Results without an id show nothing, whatever they are.
    (0..90).for_each(|_| book.report("x", &report("a", None, true, false)).unwrap());
    let said = book.read("x").unwrap().1.remove(1).significance.unwrap();
    assert_eq!((said.difference, said.compared), (Some(1.0), 20), "{said:?}");
}

#[test]
fn a_false_positive_of_live_traffic_counts_on_top_of_it() {
    let (book, clock) = (AbTests::open(&Store::in_memory(), &Store::in_memory()).unwrap(), clock());
    made(&book, "x");
    book.start("x", moment(2)).unwrap();
    let id = ids(&book, "x", "a").next().unwrap();
    let enrolled = book.enrol(&id, &Shelf::default(), &clock).unwrap();
    let outcome = Outcome { detected: true, false_positive: false, blocked: false, latency_us: 3_000 };
    // The same request id again is the same request.
    (0..3).for_each(|_| drop(book.observe(&enrolled, &id, outcome, moment(3))));
    book.report("x", &report("a", Some(&id), true, true)).unwrap();
    assert!(matches!(book.report("x", &report("a", Some(&id), true, true)), Err(AbTestError::Repeated)));
    let metrics = book.read("x").unwrap().1.remove(0);
    assert_eq!((metrics.detections, metrics.live), (Count { all: 1, hits: 1 }, 1));
    assert_eq!((metrics.false_positives, metrics.latency_ms_average), (1, 3.0));
    assert_eq!(book.reported(), (1, 1));
}

#[test]
fn feedback_counts_for_the_variant_that_judged() {
    let (book, clock) = (AbTests::open(&Store::in_memory(), &Store::in_memory()).unwrap(), clock());
    made(&book, "x");
    book.start("x", moment(2)).unwrap();
    // The request has a name of its caller's choice, which would belong to the other variant.
    let (drawn, named) = (ids(&book, "x", "a").next().unwrap(), ids(&book, "x", "b").next().unwrap());
    let enrolled = book.enrol(&drawn, &Shelf::default(), &clock).unwrap();
    let outcome = Outcome { detected: true, false_positive: false, blocked: false, latency_us: 1 };
    book.observe(&enrolled, &named, outcome, moment(3));
    let wrong = book.report("x", &report("b", Some(&named), true, true));
    assert!(matches!(wrong, Err(AbTestError::NotAssigned)), "{wrong:?}");
    book.report("x", &report("a", Some(&named), true, true)).unwrap();
    assert_eq!(counts(&book, "x"), [Count { all: 1, hits: 1 }, Count::default()]);
    assert_eq!(book.reported(), (1, 1));
}

#[test]
fn what_the_store_refuses_is_written_once_it_is_back() {
    let mut server = Postgres::start();
    let (tests, counted) = (Store::in_memory(), open_postgres(&server.url(), &settings()).unwrap());
    let book = AbTests::open(&tests, &counted).unwrap();
    made(&book, "x");
    server.kill();
    let refused = book.report("x", &report("a", None, true, false));
    assert!(matches!(refused, Err(AbTestError::Store(_))), "{refused:?}");
    assert!(book.flush().is_err());
    server.restart();
    let begun = std::time::Instant::now();
    while let Err(error) = book.flush() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{error}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let again = AbTests::open(&tests, &counted).unwrap();
    assert_eq!(counts(&again, "x"), [Count { all: 1, hits: 1 }, Count::default()]);
    // Nothing reads the counts as empty, and writes over them, while they cannot be read.
    server.kill();
    assert!(AbTests::open(&tests, &counted).is_err());
}

#[test]
fn a_variant_that_blocks_too_much_gets_no_more_traffic() {
    let store = Store::in_memory();
    let (book, clock) = (AbTests::open(&store, &store).unwrap(), clock());
    made(&book, "x");
    book.start("x", moment(2)).unwrap();
    let blocked = Outcome { detected: true, false_positive: false, blocked: true, latency_us: 1 };
    let known: Vec<String> = ids(&book, "x", "a").take(11).collect();
    let trips = known.iter().take(10).filter_map(|id| {
        // What is fed back does not thin the blocks.
        book.report("x", &report("a", None, false, false)).unwrap();
        let enrolled = book.enrol(id, &Shelf::default(), &clock)?;
        book.observe(&enrolled, id, blocked, moment(3))
    });
    let trips: Vec<_> = trips.collect();
    assert_eq!(trips, [("x".to_owned(), "a".to_owned(), Trip { at: moment(3), block_rate: 1.0 })]);
    assert!(book.enrol(&known[10], &Shelf::default(), &clock).is_none());
    let other = ids(&book, "x", "b").next().unwrap();
    assert!(book.enrol(&other, &Shelf::default(), &clock).is_some());
    book.flush().unwrap();
    let again = AbTests::open(&store, &store).unwrap();
    assert!(again.enrol(&known[10], &Shelf::default(), &clock).is_none());
    // Who starts it anew lets it try anew.
    again.stop("x", moment(4)).unwrap();
    again.start("x", moment(5)).unwrap();
    assert!(again.enrol(&known[10], &Shelf::default(), &clock).is_some());
}

#[test]
fn the_test_that_was_started_first_routes_traffic() {
    let (book, clock) = (AbTests::open(&Store::in_memory(), &Store::in_memory()).unwrap(), clock());
    for id in ["x", "y"] {
        made(&book, id);
    }
    assert!(book.enrol("r", &Shelf::default(), &clock).is_none());
    book.start("y", moment(2)).unwrap();
    book.start("x", moment(3)).unwrap();
    assert!(book.is_live("y") && !book.is_live("x"));
    book.start("y", moment(4)).unwrap();
    assert!(book.is_live("y"), "starting what runs changes nothing");
    book.archive("y", moment(5)).unwrap();
    assert!(book.is_live("x"));
    let known: Vec<_> = book.list().into_iter().map(|test| (test.status, test.is_archived)).collect();
    assert_eq!(known, [(Status::Started, false), (Status::Stopped, true)]);
}

#[test]
fn a_difference_shows_and_equal_variants_stay_equal() {
    let book = AbTests::open(&Store::in_memory(), &Store::in_memory()).unwrap();
    for id in ["x", "y"] {
        made(&book, id);
    }
    for (id, rates) in [("x", (10, 4)), ("y", (5, 5))] {
        let pairs: Vec<_> = ids(&book, id, "a").zip(ids(&book, id, "b")).take(300).collect();
        for (at, (a, b)) in pairs.iter().enumerate() {
            book.report(id, &report("a", Some(a), at % rates.0 == 0, false)).unwrap();
            book.report(id, &report("b", Some(b), at % rates.1 == 0, false)).unwrap();
        }
    }
    let said = |id: &str| book.read(id).unwrap().1.remove(1).significance.unwrap();
    assert!(said("x").is_significant && said("x").difference > Some(0.1), "{:?}", said("x"));
    assert!(!said("y").is_significant && said("y").p_value > Some(0.5), "{:?}", said("y"));
    assert_eq!(book.read("x").unwrap().1.remove(0).significance, None);
}

#[test]
fn what_comes_to_one_variant_alone_shows_no_difference() {
    let (book, clock) = (AbTests::open(&Store::in_memory(), &Store::in_memory()).unwrap(), clock());
    made(&book, "x");
    book.start("x", moment(2)).unwrap();
    let outcome = |detected, blocked| Outcome { detected, false_positive: false, blocked, latency_us: 1 };
    let observed = |id: &str, outcome| {
        let enrolled = book.enrol(id, &Shelf::default(), &clock).unwrap();
        book.observe(&enrolled, id, outcome, moment(3))
    };
    let (first, other): (Vec<_>, Vec<_>) = ids(&book, "x", "a").zip(ids(&book, "x", "b")).take(400).unzip();
    // Both detect nothing, until the second blocks too much, and traffic turns bad.
    let tripped = first.iter().zip(&other).take(100).filter_map(|(a, b)| {
        observed(a, outcome(false, false));
        observed(b, outcome(false, true))
    });
    assert_eq!(tripped.take(1).count(), 1);
    first.iter().skip(100).for_each(|id| drop(observed(id, outcome(true, false))));
    let said = || book.read("x").unwrap().1.remove(1).significance.unwrap();
    assert!(!said().is_significant, "{:?}", said());
    // Nor does what is fed back as somebody likes.
    made(&book, "y");
    for at in 0..300 {
        book.report("y", &report("a", None, at >= 50, false)).unwrap();
        if at < 50 {
            book.report("y", &report("b", None, false, false)).unwrap();
        }
    }
    let said = book.read("y").unwrap().1.remove(1).significance.unwrap();
    assert_eq!((said.difference, said.p_value, said.compared), (None, None, 0), "nothing is compared");
    assert!(!said.is_significant);
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::new(moment(1)))
}
