use super::*;
use crate::clock::ManualClock;
use crate::clock::sure::SureClock;
use crate::govern::analytics::figures::Count;
use crate::govern::analytics::figures::Tokens;
use crate::govern::analytics::price;
use crate::store::open_sled;

/// What outlives a process.
struct Disk {
    store: Store,
    keyring: Arc<Keyring>,
    folder: tempfile::TempDir,
}

impl Disk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let keyring = Arc::new(Keyring::open(&folder.path().join("keys")).unwrap());
        Self { store: open_sled(&folder.path().join("store")).unwrap(), keyring, folder }
    }

    /// Closes and opens everything.
    fn again(self) -> Self {
        let Self { store, keyring, folder } = self;
        drop((store, keyring));
        let keyring = Arc::new(Keyring::open(&folder.path().join("keys")).unwrap());
        Self { store: open_sled(&folder.path().join("store")).unwrap(), keyring, folder }
    }
}

fn meter(disk: &Disk, clock: &Arc<ManualClock>) -> Meter {
    Meter::new(&disk.store, disk.keyring.clone(), clock.clone(), price::read(None).unwrap())
}

fn clock(at: &str) -> Arc<ManualClock> {
    Arc::new(ManualClock::new(at.parse().unwrap()))
}

fn used(caller: &str, total: u64) -> Use {
    let tokens = Tokens { prompt: total, total, ..Tokens::default() };
    let model = Some("gpt-4o".to_owned());
    Use { caller: Some(caller.to_owned()), model, route: Some("r".to_owned()), tokens, ..Use::default() }
}

fn all(meter: &Meter) -> Period {
    Period { from: Hour(0), to: Hour(Hour::of(meter.now()).0 + 1) }
}

fn whole(meter: &Meter) -> Figures {
    let mut sum = Figures::default();
    meter.by_day(all(meter)).unwrap().values().for_each(|roll| sum.add(&roll.total));
    sum
}

#[test]
fn figures_are_there_at_once_and_after_a_restart() {
    let (disk, clock) = (Disk::new(), clock("2026-01-31T23:59:00Z"));
    let first = meter(&disk, &clock);
    let cost = first.note(&used("a", 1_000_000));
    assert_eq!(cost.pico as f64, 2.5 * price::PICO_PER_UNIT);
    assert_eq!(whole(&first)[Count::Total], 1_000_000);
    first.flush().unwrap();
    first.note(&used("a", 5));
    assert_eq!(whole(&first)[Count::Total], 1_000_005);
    // Another process on the same store knows what was written, and adds to it.
    drop(first);
    let second = meter(&disk, &clock);
    second.note(&used("b", 7));
    second.flush().unwrap();
    second.flush().unwrap();
    assert_eq!(whole(&second)[Count::Total], 1_000_007);
    let hours = second.hours(all(&second)).unwrap();
    assert_eq!(hours.len(), 1);
    assert_eq!(hours.values().next().unwrap().callers.named.len(), 2);
}

#[test]
fn months_days_and_hours_end_where_they_should() {
    let (disk, clock) = (Disk::new(), clock("2028-02-28T23:59:59Z"));
    let meter = meter(&disk, &clock);
    for _ in 0..3 {
        meter.note(&used("a", 1));
        clock.advance(Duration::from_secs(1));
        meter.note(&used("a", 10));
        meter.flush().unwrap();
        clock.advance(Duration::from_secs(86_400 - 1));
    }
    let days = meter.by_day(all(&meter)).unwrap();
    let of = |date: &str| {
        let at: Timestamp = format!("{date}T00:00:00Z").parse().unwrap();
        days.get(&Hour::of(at).day()).map(|roll| roll.total[Count::Total])
    };
    // 2028 is a leap year.
    let found = ["2028-02-28", "2028-02-29", "2028-03-01", "2028-03-02"].map(of);
    assert_eq!(found, [Some(1), Some(11), Some(11), Some(10)]);
    assert_eq!(meter.hours(all(&meter)).unwrap().len(), 6);
}

#[test]
fn a_clock_that_is_set_back_counts_where_it_says() {
    let disk = Disk::new();
    let late = meter(&disk, &clock("2026-05-02T10:00:00Z"));
    late.note(&used("a", 1));
    late.flush().unwrap();
    let early = meter(&disk, &clock("2026-05-01T10:00:00Z"));
    early.note(&used("a", 10));
    early.flush().unwrap();
    let again = meter(&disk, &clock("2026-05-02T10:30:00Z"));
    again.note(&used("a", 100));
    again.flush().unwrap();
    assert_eq!(again.hours(all(&again)).unwrap().values().map(|it| it.total[Count::Total]).sum::<u64>(), 111);
}

#[test]
fn what_is_too_old_goes() {
    let (disk, clock) = (Disk::new(), clock("2026-01-01T00:00:00Z"));
    let meter = meter(&disk, &clock);
    meter.note(&used("a", 1));
    meter.flush().unwrap();
    clock.advance(Duration::from_secs(HOURS_KEPT * 3600));
    meter.sweep(Hour::of(clock.now())).unwrap();
    assert_eq!(meter.hours(all(&meter)).unwrap().len(), 1);
    clock.advance(Duration::from_secs(3600));
    meter.sweep(Hour::of(clock.now())).unwrap();
    assert!(meter.hours(all(&meter)).unwrap().is_empty());
    // The day is still known.
    assert_eq!(whole(&meter)[Count::Total], 1);
    clock.advance(Duration::from_secs(DAYS_KEPT * 86_400));
    meter.sweep(Hour::of(clock.now())).unwrap();
    assert_eq!(whole(&meter)[Count::Total], 0);
}

#[test]
fn a_forgotten_caller_is_nowhere_and_the_sums_stay() {
    const NAME: &str = "caller_to_forget";
    let (disk, clock) = (Disk::new(), clock("2026-01-01T00:00:00Z"));
    let first = meter(&disk, &clock);
    first.note(&used(NAME, 5));
    first.flush().unwrap();
    first.note(&used(NAME, 6));
    first.note(&used("b", 1));
    assert_eq!(first.of_caller(NAME).unwrap().len(), 1);
    assert_eq!(first.forget_caller(NAME).unwrap(), 2);
    assert!(disk.keyring.destroy(NAME).unwrap());
    assert_eq!((first.of_caller(NAME).unwrap().len(), whole(&first)[Count::Total]), (0, 12));
    drop(first);
    let disk = disk.again();
    let again = meter(&disk, &clock);
    assert_eq!((again.of_caller(NAME).unwrap().len(), whole(&again)[Count::Total]), (0, 12));
    // Nor in what the store's files keep of old records.
    let mut folders = vec![disk.folder.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let bytes = std::fs::read(&path).unwrap();
                    let found = bytes.windows(NAME.len()).any(|window| window == NAME.as_bytes());
                    assert!(!found, "{}", path.display());
                }
            }
        }
    }
}

#[test]
fn nothing_is_counted_twice_or_lost_while_it_moves() {
    let (disk, clock) = (Disk::new(), clock("2026-01-01T00:59:00Z"));
    let meter = meter(&disk, &clock);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let meter = &meter;
            scope.spawn(move || {
                (0..500).for_each(|_| {
                    meter.note(&used(&format!("c{thread}"), 1));
                })
            });
        }
        scope.spawn(|| (0..200).for_each(|_| meter.flush().unwrap()));
        let mut last = 0;
        for _ in 0..200 {
            let seen = whole(&meter)[Count::Requests];
            assert!((last..=2000).contains(&seen), "{last} then {seen}");
            last = seen;
        }
    });
    let roll = &meter.by_day(all(&meter)).unwrap();
    let roll = roll.values().next().unwrap();
    assert_eq!(roll.total[Count::Requests], 2000);
    assert!(roll.callers.named.values().all(|figures| figures[Count::Requests] == 500));
}

/// Does what the meter does in a second.
fn pass_a_second(meter: &Arc<Meter>, sure: &Arc<SureClock>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(Arc::clone(meter).run(sure.clone(), async {}));
}

#[test]
fn a_clock_that_jumped_for_seconds_takes_no_figures_with_it() {
    let (disk, clock) = (Disk::new(), clock("2026-03-01T12:00:00Z"));
    let (meter, sure) = (Arc::new(meter(&disk, &clock)), Arc::new(SureClock::since(clock.clone(), None)));
    meter.note(&used("a", 5));
    pass_a_second(&meter, &sure);
    let right = clock.now();
    clock.set("2036-03-01T12:00:00Z".parse().unwrap());
    meter.note(&used("a", 7));
    pass_a_second(&meter, &sure);
    clock.set(right);
    assert_eq!(whole(&meter)[Count::Total], 5);
    assert_eq!(meter.hours(all(&meter)).unwrap().len(), 1);
    // What is old by a clock that keeps to it goes.
    clock.set("2036-03-01T12:00:00Z".parse().unwrap());
    for _ in 0..25 {
        clock.advance(Duration::from_secs(3600));
        pass_a_second(&meter, &sure);
    }
    assert_eq!(whole(&meter)[Count::Total], 7);
}
