//! Lock-out: who guesses passwords waits, twice as long each time, and learns nothing by it.
//!
//! Every try is counted against its user's name, whether or not there is such a user, and against its
//! address (a /64 of IPv6). The first few cost nothing; each one after that locks for twice as long as
//! the one before, up to [`LOCK_MAX`]. A try is counted when it begins, so that many at once gain
//! nothing, and given back when the password was right. While somebody is locked out nothing is tried
//! and nothing is counted, so that waiting always helps.
//!
//! Locking a name, or an address that many share (a company's, a proxy's in front), would let a stranger keep
//! others out. So an address from which a user has logged in is known, and counts by itself for that user: what
//! strangers do, under that name elsewhere or under other names there, does not lock it.
//!
//! Memory is bounded: past [`ENTRIES_MAX`] names what is over is forgotten, and where nothing is, new
//! names share one count. All is forgotten with the process.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::hash::RandomState;
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;

use super::place::network;

/// Failures of one user that cost nothing.
pub const USER_FREE: u32 = 5;
/// Failures from one address that cost nothing; many people may share one.
pub const ADDRESS_FREE: u32 = 20;
/// The first lock.
pub const LOCK_MIN: Duration = Duration::from_secs(1);
/// The longest lock.
pub const LOCK_MAX: Duration = Duration::from_secs(900);
/// How long after its last failure a count is forgotten.
pub const FORGET_AFTER: Duration = Duration::from_secs(3600);
/// The most counts that are kept.
pub const ENTRIES_MAX: usize = 100_000;
/// The most addresses that are known as somebody's own.
pub const KNOWN_MAX: usize = 100_000;

const OVERFLOW: u64 = 0;

/// One count.
#[derive(Clone, Copy, Default)]
struct Failures {
    count: u32,
    /// When the last one was, on the monotonic clock.
    last: Duration,
    locked_until: Duration,
}

#[derive(Default)]
struct Counts {
    failures: HashMap<u64, Failures>,
    known: HashMap<u64, Duration>,
}

/// Counts failures and locks.
#[derive(Default)]
pub struct Throttle {
    counts: Mutex<Counts>,
    hasher: RandomState,
}

/// A try that was let through; it counts as a failure unless it [succeeds](Throttle::succeeded).
#[derive(Debug)]
pub struct Attempt {
    user: u64,
    /// `None` where the user is known at the address, whose count is not theirs.
    address: Option<u64>,
    pair: u64,
}

/// Nobody tries so soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many failed logins, try again in {} s", retry_after.as_secs())]
pub struct LockedOut {
    /// How long to wait; never less than a second.
    pub retry_after: Duration,
}

impl Attempt {
    /// Returns what the try counts against, with how many failures of each cost nothing.
    fn keys(&self) -> impl Iterator<Item = (u64, u32)> + use<> {
        let address = self.address.map(|address| (address, ADDRESS_FREE));
        [(self.user, USER_FREE)].into_iter().chain(address)
    }
}

impl Throttle {
    /// Lets a try begin, and counts it.
    ///
    /// # Errors
    /// The user or the address has to wait.
    pub fn attempt(&self, user: &str, address: Option<IpAddr>, now: Duration) -> Result<Attempt, LockedOut> {
        let address = address.map(network);
        let pair = self.hasher.hash_one((2, user, address));
        let mut counts = self.counts.lock();
        let is_known = counts.known.contains_key(&pair);
        let user = if is_known { pair } else { self.hasher.hash_one((0, user)) };
        let address = (!is_known).then(|| self.hasher.hash_one((1, address)));
        let attempt = Attempt { user, address, pair };
        let locked = attempt.keys().map(|(key, _)| counts.locked_until(key, now));
        let until = locked.max().unwrap_or_default();
        if until > now {
            let wait = Duration::from_secs((until - now).as_millis().div_ceil(1000) as u64);
            return Err(LockedOut { retry_after: wait });
        }
        attempt.keys().for_each(|(key, free)| counts.count(key, free, now));
        Ok(attempt)
    }

    /// Takes back what a try has cost that came to no answer: nothing was learnt of it.
    pub fn gave_up(&self, attempt: &Attempt) {
        let mut counts = self.counts.lock();
        for (key, _) in attempt.keys() {
            if let Some(failures) = counts.failures.get_mut(&key) {
                failures.count = failures.count.saturating_sub(1);
                failures.locked_until = Duration::ZERO;
            }
        }
    }

    /// Takes back what a try has cost, and forgets what its user's failures have.
    pub fn succeeded(&self, attempt: &Attempt, now: Duration) {
        let mut counts = self.counts.lock();
        counts.failures.remove(&attempt.user);
        // What others failed at from the same address stays: who has one password may guess at others.
        if let Some(failures) = attempt.address.and_then(|address| counts.failures.get_mut(&address)) {
            failures.count = failures.count.saturating_sub(1);
            failures.locked_until = Duration::ZERO;
        }
        if counts.known.len() >= KNOWN_MAX && !counts.known.contains_key(&attempt.pair) {
            let oldest = counts.known.iter().min_by_key(|(_, seen)| **seen).map(|(pair, _)| *pair);
            oldest.map(|pair| counts.known.remove(&pair));
        }
        counts.known.insert(attempt.pair, now);
    }
}

impl Counts {
    fn locked_until(&self, key: u64, now: Duration) -> Duration {
        let found = self.failures.get(&key);
        // A name that found no room may be behind the shared count.
        let is_full = found.is_none() && self.failures.len() >= ENTRIES_MAX;
        let found = if is_full { self.failures.get(&OVERFLOW) } else { found };
        found.map_or(now, |failures| failures.locked_until)
    }

    fn count(&mut self, key: u64, free: u32, now: Duration) {
        if self.failures.len() >= ENTRIES_MAX && !self.failures.contains_key(&key) {
            self.failures.retain(|_, failures| !failures.is_over(now));
        }
        let is_full = self.failures.len() >= ENTRIES_MAX && !self.failures.contains_key(&key);
        let failures = self.failures.entry(if is_full { OVERFLOW } else { key }).or_default();
        if failures.is_over(now) {
            *failures = Failures::default();
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        if let Some(beyond) = failures.count.checked_sub(free + 1) {
            let lock = LOCK_MIN.saturating_mul(1u32.checked_shl(beyond).unwrap_or(u32::MAX)).min(LOCK_MAX);
            failures.locked_until = now + lock;
        }
    }
}

impl Failures {
    fn is_over(&self, now: Duration) -> bool {
        now >= self.last + FORGET_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: [u8; 4] = [10, 0, 0, 1];
    const AWAY: [u8; 4] = [10, 0, 0, 2];

    fn at(second: u64) -> Duration {
        Duration::from_secs(1000 + second)
    }

    fn wait(throttle: &Throttle, user: &str, address: [u8; 4], second: u64) -> u64 {
        let tried = throttle.attempt(user, Some(address.into()), at(second));
        tried.err().map_or(0, |locked| locked.retry_after.as_secs())
    }

    #[test]
    fn each_failure_past_the_free_ones_waits_twice_as_long() {
        let throttle = Throttle::default();
        let free = (0..10).map(|_| wait(&throttle, "ada", HOME, 0)).take_while(|wait| *wait == 0).count();
        assert_eq!(free as u32, USER_FREE + 1);
        let mut now = 0;
        let mut waits = Vec::new();
        for _ in 0..14 {
            let wait_s = wait(&throttle, "ada", HOME, now);
            // Asking while locked costs nothing, and whoever waits may try.
            assert_eq!(wait(&throttle, "ada", AWAY, now), wait_s);
            waits.push(wait_s);
            now += wait_s;
            assert_eq!(wait(&throttle, "ada", HOME, now), 0);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900, 900]);
        // Others are not concerned, and in the end all is forgotten.
        assert_eq!(wait(&throttle, "bob", AWAY, now), 0);
        assert_eq!(wait(&throttle, "ada", HOME, now + FORGET_AFTER.as_secs()), 0);
    }

    #[test]
    fn an_address_that_tries_many_names_waits() {
        let throttle = Throttle::default();
        let tried = (0..100).take_while(|n| wait(&throttle, &n.to_string(), HOME, 0) == 0).count();
        assert_eq!(tried as u32, ADDRESS_FREE + 1);
        assert_eq!(wait(&throttle, "ada", AWAY, 0), 0);
        let v6 = |text: &str| throttle.attempt("x", Some(text.parse().unwrap()), at(0));
        assert!(v6("2001:db8::1").is_ok());
    }

    #[test]
    fn strangers_lock_nobody_out_of_where_they_live() {
        let throttle = Throttle::default();
        let attempt = throttle.attempt("ada", Some(HOME.into()), at(0)).unwrap();
        throttle.succeeded(&attempt, at(0));
        (0..20).for_each(|_| drop(throttle.attempt("ada", Some(AWAY.into()), at(0))));
        assert!(wait(&throttle, "ada", AWAY, 0) > 0 && wait(&throttle, "ada", [10, 0, 0, 3], 0) > 0);
        let free = (0..20).take_while(|_| wait(&throttle, "ada", HOME, 0) == 0).count();
        assert_eq!(free as u32, USER_FREE + 1, "and guesses there are counted, too");
    }

    #[test]
    fn strangers_behind_the_same_proxy_lock_nobody_out_who_lives_there() {
        let throttle = Throttle::default();
        let attempt = throttle.attempt("ada", Some(HOME.into()), at(0)).unwrap();
        throttle.succeeded(&attempt, at(0));
        (0..50).for_each(|n| drop(throttle.attempt(&n.to_string(), Some(HOME.into()), at(0))));
        assert!(wait(&throttle, "stranger", HOME, 0) > 0, "the address is locked for everybody else");
        let attempt = throttle.attempt("ada", Some(HOME.into()), at(0)).unwrap();
        throttle.succeeded(&attempt, at(0));
        assert!(wait(&throttle, "stranger", HOME, 0) > 0, "and her password does not unlock it");
    }

    #[test]
    fn a_right_password_does_not_make_guessing_at_others_free() {
        let throttle = Throttle::default();
        let mut tried = 0;
        for n in 0..200 {
            let Ok(mine) = throttle.attempt("mallory", Some(HOME.into()), at(0)) else { break };
            throttle.succeeded(&mine, at(0));
            match throttle.attempt(&n.to_string(), Some(HOME.into()), at(0)) {
                Ok(_) => tried += 1,
                Err(_) => break,
            }
        }
        assert!(tried <= ADDRESS_FREE + 1, "{tried}");
    }

    #[test]
    fn who_got_no_answer_guessed_nothing() {
        let throttle = Throttle::default();
        for _ in 0..20 {
            let attempt = throttle.attempt("ada", Some(HOME.into()), at(0)).expect("nothing is counted");
            throttle.gave_up(&attempt);
        }
        let free = (0..20).take_while(|_| wait(&throttle, "ada", HOME, 0) == 0).count();
        assert_eq!(free as u32, USER_FREE + 1);
    }

    #[test]
    fn a_flood_of_names_does_not_fill_the_memory() {
        let throttle = Throttle::default();
        for n in 0..(2 * ENTRIES_MAX as u32) {
            let address = IpAddr::from(n.to_be_bytes());
            drop(throttle.attempt(&n.to_string(), Some(address), at(0)));
        }
        let kept = throttle.counts.lock().failures.len();
        assert!(kept <= ENTRIES_MAX + 1, "{kept}");
        assert!(wait(&throttle, "fresh", [1, 2, 3, 250], 0) > 0, "who finds no room shares a count");
        assert_eq!(wait(&throttle, "fresh", [1, 2, 3, 250], FORGET_AFTER.as_secs()), 0);
    }
}
