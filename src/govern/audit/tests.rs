use std::io::BufRead as _;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::*;
use crate::access::keyring::Keyring;
use crate::clock::Clock;
use crate::clock::ManualClock;
use crate::clock::SystemClock;
use crate::id::Ulid;
use crate::store::Store;
use crate::telemetry::metrics::Metrics;

fn config(directory: &std::path::Path) -> AuditConfig {
    AuditConfig { reserve_bytes: 1 << 16, low_water_bytes: 0, ..AuditConfig::at(directory.to_owned()) }
}

fn opened(config: AuditConfig, clock: Arc<dyn Clock>) -> (Opened, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::new("0", "0"));
    (open(config, Store::in_memory(), clock, metrics.clone()).unwrap(), metrics)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn what_is_acknowledged_can_be_asked_for_and_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (Opened { recorder, writer, log, .. }, _) = opened(config(folder.path()), Arc::new(SystemClock));
    runtime().block_on(async {
        let (stop, stopped) = oneshot::channel::<()>();
        let work = async {
            let mut live = log.tail(None).await.unwrap();
            let mut ids = Vec::new();
            for number in 0..20 {
                ids.push(recorder.record_safely(sample::event(number)).await.unwrap());
                let page = log.query(Query { limit: 1, ..Query::default() }).await.unwrap();
                assert_eq!((page.entries[0].id, page.total), (ids[number], number as u64 + 1));
            }
            let mut seen = Vec::new();
            while seen.len() < 20 {
                seen.extend(live.next_batch().await.unwrap().into_iter().map(|entry| entry.id));
            }
            assert_eq!(seen, ids);
            for place in 0..19 {
                let resumed = log.tail(Some(ids[place])).await.unwrap().next_batch().await.unwrap();
                let found: Vec<_> = resumed.into_iter().map(|entry| entry.id).collect();
                assert_eq!(found, ids[place + 1..]);
            }
            let (entries, last) = (log.verify().unwrap().entries(), log.status().await.unwrap().last_hash);
            assert_eq!((entries, log.verify().unwrap().last_hash()), (20, last));
            drop(stop);
        };
        let (written, ()) = tokio::join!(writer.run(async { drop(stopped.await) }), work);
        written.unwrap();
        assert_eq!(recorder.health(), Health::Degraded(Trouble::Stopped));
        let refused = recorder.record_soon(sample::event(0));
        assert_eq!(refused, Err(RecordError::Unavailable(Trouble::Stopped)));
    });
}

#[test]
fn a_full_queue_and_a_slow_log_are_told_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let config =
        AuditConfig { queue_events_max: 2, wait_max: Duration::from_millis(10), ..config(folder.path()) };
    let (Opened { recorder, writer, log, .. }, metrics) = opened(config, Arc::new(SystemClock));
    runtime().block_on(async {
        recorder.record_soon(sample::event(0)).unwrap();
        // What was taken may be written later, and what found no place is not.
        assert_eq!(recorder.record_safely(sample::event(1)).await, Err(RecordError::TimedOut));
        assert_eq!(recorder.record_soon(sample::event(2)), Err(RecordError::QueueFull));
        assert_eq!(recorder.record_safely(sample::event(3)).await, Err(RecordError::QueueFull));
        let mut large = sample::event(4);
        large.message = "x".repeat(super::recorder::EVENT_BYTES_MAX);
        assert_eq!(recorder.record_soon(large), Err(RecordError::TooLarge));
        assert_eq!(metrics.audit_refusals(), 4);
        writer.run(async {}).await.unwrap();
        assert_eq!(log.query(Query::default()).await.unwrap().total, 2);
        // Both were written at once, and count as two.
        assert_eq!(metrics.audit_completeness(), Some(2.0 / 6.0));
    });
}

#[test]
fn buffered_events_outlast_a_failing_disk() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp::from_second(1000).unwrap()));
    let (Opened { recorder, mut writer, log, keyring, .. }, metrics) =
        opened(config(folder.path()), clock.clone());
    let full = Some(libc::ENOSPC);
    writer.hand.turn(vec![]);
    writer.hand.journal.faults.plan(vec![full, full, full, full]);
    let queued = |number| {
        let body = stored::body(&sample::event(number), &keyring);
        super::recorder::Queued { body, done: None }
    };
    writer.hand.turn(vec![queued(0), queued(1)]);
    assert_eq!(recorder.health(), Health::Degraded(Trouble::DiskFull));
    assert!(recorder.record_soon(sample::event(2)).is_err());
    assert_eq!(metrics.audit_completeness(), Some(0.0), "what was tried is not taken yet");
    for _ in 0..4 {
        clock.advance(Duration::from_secs(2));
        writer.hand.turn(vec![]);
    }
    assert_eq!(recorder.health(), Health::Sound);
    runtime().block_on(async {
        let page = log.query(Query::default()).await.unwrap();
        let messages: Vec<_> = page.entries.iter().map(|entry| entry.event.message.as_str()).collect();
        assert_eq!(messages, ["event 1", "event 0"]);
    });
    assert!(folder.path().join("reserve").exists());
}

#[test]
fn a_clock_that_jumped_and_was_set_right_is_told_and_entries_have_the_right_time_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let [now, far] = [1_000_000, 33_000_000].map(|second| Timestamp::from_second(second).unwrap());
    let clock = Arc::new(ManualClock::new(now));
    let record = |writer: &mut Writer, keyring: &Keyring, number| {
        let body = stored::body(&sample::event(number), keyring);
        writer.hand.turn(vec![super::recorder::Queued { body, done: None }]);
    };
    let seconds = 32_000_000;
    {
        let (Opened { recorder, mut writer, keyring, .. }, _) = opened(config(folder.path()), clock.clone());
        record(&mut writer, &keyring, 0);
        assert_eq!(recorder.clock_warnings(), []);
        clock.set(far);
        record(&mut writer, &keyring, 1);
        assert_eq!(recorder.clock_warnings(), [ClockWarning::Jumped { seconds }]);
        clock.set(now);
        record(&mut writer, &keyring, 2);
        assert_eq!(recorder.clock_warnings(), [ClockWarning::Behind { seconds: seconds as u64 }]);
    }
    let (Opened { recorder, mut writer, log, keyring, .. }, _) = opened(config(folder.path()), clock);
    record(&mut writer, &keyring, 3);
    assert_eq!(recorder.clock_warnings(), [ClockWarning::Behind { seconds: seconds as u64 }]);
    assert_eq!(log.verify().unwrap().entries(), 4);
    let page = runtime().block_on(log.query(Query::default())).unwrap();
    let told = page.entries.iter().rev().map(|entry| (entry.event.message.as_str(), entry.timestamp()));
    let expected = [("event 0", now), ("event 1", far), ("event 2", now), ("event 3", now)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    for (at, expected) in [(now, &["event 0", "event 2", "event 3"][..]), (far, &["event 1"])] {
        let query = Query { from: Some(at), to: Some(at), ..Query::default() };
        let page = runtime().block_on(log.query(query.clone())).unwrap();
        let told = page.entries.iter().rev().map(|entry| entry.event.message.as_str());
        assert_eq!(told.collect::<Vec<_>>(), expected, "entries are found by the moment they tell");
        assert_eq!(page.total, expected.len() as u64);
        let exported = runtime().block_on(async { log.export(query).await?.next_batch().await }).unwrap();
        let told = exported.iter().map(|exported| exported.entry.event.message.as_str());
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_disk_below_its_mark_is_reported_while_entries_are_still_written() {
    let folder = tempfile::tempdir().unwrap();
    let config = AuditConfig { low_water_bytes: 1000, reserve_bytes: 0, ..config(folder.path()) };
    let (Opened { recorder, mut writer, .. }, _) = opened(config, Arc::new(SystemClock));
    writer.hand.space.pretend(|_| Ok(999));
    writer.hand.turn(vec![]);
    assert_eq!(recorder.health(), Health::Degraded(Trouble::DiskLow { free_bytes: 999 }));
    assert!(recorder.record_soon(sample::event(0)).is_ok());
}

#[test]
fn old_and_surplus_segments_are_dropped_and_the_rest_verifies() {
    for (age, bytes) in [(Some(Duration::from_secs(50)), None), (None, Some(20_000))] {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(Timestamp::from_second(1000).unwrap()));
        let config = AuditConfig {
            segment_bytes_max: 4000,
            retention_age: age,
            retention_bytes: bytes,
            ..config(folder.path())
        };
        let (Opened { mut writer, log, keyring, .. }, _) = opened(config, clock.clone());
        for number in 0..100 {
            clock.advance(Duration::from_secs(1));
            let body = stored::body(&sample::event(number), &keyring);
            writer.hand.turn(vec![super::recorder::Queued { body, done: None }]);
        }
        let all = Query { limit: 100, ..Query::default() };
        let newest_first = runtime().block_on(log.query(all)).unwrap().entries;
        let ids: Vec<Ulid> = newest_first.iter().rev().map(|entry| entry.id).collect();
        let mut slow = runtime().block_on(log.follow(Some(Seen::up_to(ids[0])), None)).unwrap();
        let dropped = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&dropped);
        log.on_drop(move |entry| told.lock().push(entry.event.message.clone()));
        log.maintain().unwrap();
        let total = runtime().block_on(log.query(Query::default())).unwrap().total;
        let oldest = newest_first.get(total as usize - 1).map(|entry| entry.timestamp());
        assert_eq!(log.oldest().unwrap(), oldest, "whoever was seen before is named no more");
        assert!((20..70).contains(&total), "{total}");
        let gone: Vec<String> = (0..100 - total).map(|number| format!("event {number}")).collect();
        assert_eq!(*dropped.lock(), gone, "each that goes is told of, and none that stays");
        let kept = (100 - total) as usize;
        let come_back = |seen: usize| {
            let mut following = runtime().block_on(log.follow(Some(Seen::up_to(ids[seen])), None)).unwrap();
            let entries = runtime().block_on(following.next_batch()).unwrap();
            assert_eq!(entries[0].id, ids[kept.max(seen + 1)]);
            following.gap_before(&entries)
        };
        assert_eq!(come_back(3), Some(Gap { after: ids[3], before: ids[kept] }), "what is missing is told");
        assert_eq!((come_back(kept), come_back(98)), (None, None));
        let late = runtime().block_on(slow.next_batch()).unwrap();
        assert_eq!(slow.gap_before(&late).map(|gap| gap.before), Some(ids[kept]), "who was too slow is told");
        assert_eq!(slow.gap_before(&late), None, "once");
        assert_eq!(log.verify().unwrap().entries(), total);
    }
}

/// A time server that is wrong for a moment must not cost the whole log.
#[test]
fn a_clock_that_jumped_drops_nothing_until_it_has_said_so_for_a_day() {
    let folder = tempfile::tempdir().unwrap();
    let day = Duration::from_secs(86_400);
    let begun = Timestamp::from_second(1_000_000).unwrap();
    let clock = Arc::new(ManualClock::new(begun));
    let config =
        AuditConfig { segment_bytes_max: 4000, retention_age: Some(day * 90), ..config(folder.path()) };
    let total = |log: &AuditLog| {
        log.maintain().unwrap();
        runtime().block_on(log.query(Query::default())).unwrap().total
    };
    {
        let (Opened { mut writer, log, keyring, .. }, _) = opened(config.clone(), clock.clone());
        for number in 0..30 {
            clock.advance(Duration::from_secs(1));
            let body = stored::body(&sample::event(number), &keyring);
            writer.hand.turn(vec![super::recorder::Queued { body, done: None }]);
        }
        let far = clock.now() + day * 1000;
        clock.set(far);
        assert_eq!(total(&log), 30);
        clock.set(begun + Duration::from_secs(30));
        assert_eq!(total(&log), 30);
        clock.set(far);
    }
    // Nor does a process that begins while the clock is wrong, or after years, take its word for it at once.
    let (Opened { log, .. }, _) = opened(config, clock.clone());
    assert_eq!(total(&log), 30);
    for _ in 0..25 {
        clock.advance(Duration::from_secs(3600));
        log.maintain().unwrap();
    }
    assert!(total(&log) < 30, "what is old all the same goes");
}

/// Its clock jumps by hours every day, and never keeps to anything for a whole one.
#[test]
fn a_machine_that_is_paused_every_night_drops_what_is_old() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp::from_second(1_000_000).unwrap()));
    let day = Duration::from_secs(86_400);
    let config =
        AuditConfig { segment_bytes_max: 4000, retention_age: Some(day * 10), ..config(folder.path()) };
    let (Opened { mut writer, log, keyring, .. }, _) = opened(config, clock.clone());
    let mut oldest = Vec::new();
    for _ in 0..20 {
        for number in 0..16 {
            clock.advance(Duration::from_secs(3600));
            let body = stored::body(&sample::event(number), &keyring);
            writer.hand.turn(vec![super::recorder::Queued { body, done: None }]);
            log.maintain().unwrap();
        }
        oldest.push(clock.now().duration_since(log.oldest().unwrap().unwrap()).as_hours() / 24);
        clock.set(clock.now() + Duration::from_secs(8 * 3600));
    }
    assert_eq!(oldest.iter().take(10).copied().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    assert!(oldest.iter().skip(10).all(|days| (10..=12).contains(days)), "{oldest:?}");
}

#[test]
fn segments_that_were_closed_while_the_clock_was_wrong_are_as_old_as_what_is_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let right = Timestamp::from_second(1_000_000_000).unwrap();
    let clock = Arc::new(ManualClock::new(right));
    let day = Duration::from_secs(86_400);
    let config =
        AuditConfig { segment_bytes_max: 4000, retention_age: Some(day * 10), ..config(folder.path()) };
    let (Opened { mut writer, log, keyring, .. }, _) = opened(config, clock.clone());
    let mut write = |count| {
        for number in 0..count {
            clock.advance(Duration::from_secs(60));
            let body = stored::body(&sample::event(number), &keyring);
            writer.hand.turn(vec![super::recorder::Queued { body, done: None }]);
        }
    };
    let total = || {
        log.maintain().unwrap();
        runtime().block_on(log.query(Query::default())).unwrap().total
    };
    // Years behind, years ahead, and right again.
    write(10);
    for wrong in [right - day * 4000, right + day * 4000] {
        clock.set(wrong);
        write(20);
        clock.set(right + Duration::from_secs(3600));
        write(20);
    }
    let run = |hours| {
        for _ in 0..hours {
            clock.advance(Duration::from_secs(3600));
            log.maintain().unwrap();
        }
    };
    run(9 * 24);
    assert_eq!(total(), 90, "what a clock recorded that was behind is not old for that");
    run(2 * 24);
    assert!(total() < 10, "nor young what one recorded that was ahead: {}", total());
    log.verify().unwrap();
}

/// A name is known for as long as any entry has it.
#[test]
fn the_earliest_moment_is_told_where_the_clock_was_ahead_at_first() {
    let folder = tempfile::tempdir().unwrap();
    let [far, right] = [33_000_000, 1_000_000].map(|second| Timestamp::from_second(second).unwrap());
    let clock = Arc::new(ManualClock::new(far));
    let (Opened { mut writer, log, keyring, .. }, _) = opened(config(folder.path()), clock.clone());
    for (number, now) in [far, right].into_iter().enumerate() {
        clock.set(now);
        let body = stored::body(&sample::event(number), &keyring);
        writer.hand.turn(vec![super::recorder::Queued { body, done: None }]);
    }
    assert_eq!(log.oldest().unwrap(), Some(right));
}

#[test]
fn what_is_held_outlasts_its_retention() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp::from_second(1000).unwrap()));
    let config = AuditConfig {
        segment_bytes_max: 4000,
        retention_age: Some(Duration::from_secs(10)),
        retention_bytes: Some(8000),
        ..config(folder.path())
    };
    let (Opened { mut writer, log, keyring, .. }, _) = opened(config, clock.clone());
    for number in 0..100 {
        clock.advance(Duration::from_secs(1));
        let mut event = sample::event(number);
        event.entity = Some(if number == 30 { "held".to_owned() } else { format!("user-{number}") });
        event.actor = Some(if number == 50 { "held too".to_owned() } else { "key-1".to_owned() });
        let body = stored::body(&event, &keyring);
        writer.hand.turn(vec![super::recorder::Queued { body, done: None }]);
    }
    let oldest = || {
        log.maintain().unwrap();
        let runtime = runtime();
        let mut reader = runtime.block_on(log.export(Query::default())).unwrap();
        let entry = runtime.block_on(reader.next_batch()).unwrap().remove(0).entry;
        entry.event.message.strip_prefix("event ").unwrap().parse::<usize>().unwrap()
    };
    log.keep(vec!["held too".to_owned(), "held".to_owned()]);
    assert!((20..=30).contains(&oldest()), "{}", oldest());
    log.keep(vec!["held too".to_owned()]);
    assert!((40..=50).contains(&oldest()), "{}", oldest());
    assert!(log.about("held").unwrap().is_none() && log.about("held too").unwrap().is_some());
    log.keep(Vec::new());
    assert!(oldest() > 60);
    log.verify().unwrap();
}

/// Appends until it is killed, and says on standard output what is safe.
#[test]
fn child_that_is_killed() {
    let Some(directory) =
        std::env::args().find_map(|word| word.strip_prefix("kill-test-dir=").map(str::to_owned))
    else {
        return;
    };
    use std::io::Write;
    let (Opened { recorder, writer, .. }, _) = opened(config(directory.as_ref()), Arc::new(SystemClock));
    runtime().block_on(async {
        let work = async {
            loop {
                let ids = futures_util::future::join_all(
                    (0..8).map(|at| recorder.record_safely(sample::event(at))),
                );
                for id in ids.await {
                    writeln!(std::io::stdout(), "safe {}", id.unwrap()).unwrap();
                }
            }
        };
        tokio::select! { _ = writer.run(std::future::pending()) => {}, () = work => {} }
    });
}

#[test]
fn nothing_acknowledged_is_lost_by_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = std::collections::BTreeSet::new();
    for round in 0..20 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "govern::audit::tests::child_that_is_killed", "--nocapture"])
            .arg("--skip")
            .arg(format!("kill-test-dir={}", folder.path().display()))
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = std::io::BufReader::new(child.stdout.take().unwrap());
        let (mut text, wanted) = (String::new(), 8 + round * 7 % 60);
        while text.matches("safe ").count() < wanted {
            assert!(said.read_line(&mut text).unwrap() > 0, "it ended by itself: {text}");
        }
        child.kill().unwrap();
        said.read_to_string(&mut text).unwrap();
        child.wait().unwrap();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let ids =
            whole.lines().filter_map(|line| line.split("safe ").nth(1)?.parse::<crate::id::Ulid>().ok());
        acknowledged.extend(ids);
    }
    let (Opened { log, .. }, _) = opened(config(folder.path()), Arc::new(SystemClock));
    assert!(acknowledged.len() > 100, "{} entries in 20 rounds", acknowledged.len());
    assert!(log.verify().unwrap().entries() >= acknowledged.len() as u64);
    let mut query = Query { limit: 1000, ..Query::default() };
    runtime().block_on(async {
        loop {
            let page = log.query(query.clone()).await.unwrap();
            page.entries.iter().for_each(|entry| {
                acknowledged.remove(&entry.id);
            });
            query.cursor = page.cursor;
            if query.cursor.is_none() {
                break;
            }
        }
    });
    assert!(acknowledged.is_empty(), "lost {} entries", acknowledged.len());
}

#[test]
fn a_damaged_segment_stops_neither_those_who_follow_the_log_nor_its_retention() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp::from_second(1000).unwrap()));
    let config = AuditConfig {
        segment_bytes_max: 4000,
        retention_age: Some(Duration::from_secs(50)),
        ..config(folder.path())
    };
    let (Opened { mut writer, log, keyring, .. }, metrics) = opened(config, clock.clone());
    let write = |writer: &mut Writer, numbers: std::ops::Range<usize>| {
        for number in numbers {
            clock.advance(Duration::from_secs(1));
            let body = stored::body(&sample::event(number), &keyring);
            writer.hand.turn(vec![super::recorder::Queued { body, done: None }]);
        }
    };
    write(&mut writer, 0..40);
    let path = segment::path(folder.path(), 2);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[300] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    log.maintain().unwrap();
    let figure = || {
        let text = metrics.render();
        text.lines().find_map(|line| line.strip_prefix("portcullis_audit_damaged_bytes ")?.parse().ok())
    };
    assert!(log.is_damaged() && figure().is_some_and(|bytes: u64| bytes > 100));
    let runtime = runtime();
    let page = runtime.block_on(log.query(Query::default())).unwrap();
    assert_eq!((page.total, page.is_complete), (39, false));
    let mut tail = runtime.block_on(log.tail(Some(crate::id::Ulid(0)))).unwrap();
    assert_eq!(runtime.block_on(tail.next_batch()).unwrap().len(), 39);
    assert!(log.verify().is_err());
    assert!(super::verify::verify(folder.path(), &super::verify::Trust::default()).is_err());
    write(&mut writer, 40..100);
    log.maintain().unwrap();
    assert!(!path.exists() && !log.is_damaged());
    assert_eq!(figure(), Some(0));
    let page = runtime.block_on(log.query(Query::default())).unwrap();
    assert!(page.is_complete && page.total < 70);
}
