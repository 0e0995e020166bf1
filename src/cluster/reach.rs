//! Where Redis is, and whether it is away, as all who ask it know.
//!
//! A cluster keeps everything that is shared at one node, for all keys have one hash tag. Whoever is asked and is not
//! that node says which one is; so there are two places to ask: the one of the configuration, and the one that was told
//! last. When one of them fails, the other is next.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::redis::Answer;
use super::redis::RedisUrl;

/// Whether a server is known to be away, and where it is, to all who ask it.
#[derive(Debug, Default)]
pub struct Reach {
    is_away: AtomicBool,
    told: Mutex<Told>,
    /// What it refuses to share, though it answers.
    refused: Mutex<BTreeSet<&'static str>>,
}

/// Where a cluster said that it is.
#[derive(Debug, Default)]
struct Told {
    place: Option<RedisUrl>,
    is_next: bool,
}

/// Whom a node of a cluster sends on those who ask it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// To whoever has the keys from now on.
    Moved(RedisUrl),
    /// To whoever is taking the keys over, with this one question.
    Ask(RedisUrl),
}

impl Reach {
    /// Tells whether nobody needs to ask.
    pub(super) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    /// Notes that it is away; tells whether that is news.
    pub(super) fn lost(&self) -> bool {
        !self.is_away.swap(true, Ordering::Relaxed)
    }

    /// Notes that it answers.
    pub(super) fn found(&self) {
        self.is_away.store(false, Ordering::Relaxed);
    }

    /// Notes whether it refuses what is asked of one thing that is shared; tells whether that is news.
    pub(super) fn refuses(&self, what: &'static str, is_refused: bool) -> bool {
        let mut refused = self.refused.lock();
        if is_refused { refused.insert(what) } else { refused.remove(what) }
    }

    /// Returns what is wrong with it, in words; `None`: nothing that is known.
    pub fn trouble(&self) -> Option<String> {
        if self.is_away() {
            return Some("Redis is away: nothing is shared".to_owned());
        }
        let refused: Vec<&str> = self.refused.lock().iter().copied().collect();
        (!refused.is_empty()).then(|| format!("Redis answers, and refuses to share {}", refused.join(", ")))
    }

    /// Returns the place to ask next, where the configuration has `url`.
    pub(super) fn place(&self, url: &RedisUrl) -> RedisUrl {
        let told = self.told.lock();
        told.place.as_ref().filter(|_| told.is_next).unwrap_or(url).clone()
    }

    /// Notes that a place was told.
    pub(super) fn moved(&self, to: &RedisUrl) {
        *self.told.lock() = Told { place: Some(to.clone()), is_next: true };
    }

    /// Notes that a place is of no use now; however many say so of the same one, the other is next.
    pub(super) fn fails(&self, at: &RedisUrl) {
        let mut told = self.told.lock();
        told.is_next = told.place.as_ref().is_some_and(|place| place != at);
    }
}

impl Redirect {
    /// Returns where an answer of the server at a place sends us, if it does: `MOVED 3999 127.0.0.1:6381`, `ASK` with the
    /// same. A host that is left out is that of who says so.
    pub(super) fn of(answer: &Answer, from: &RedisUrl) -> Option<Self> {
        let Answer::Refused(reason) = answer else { return None };
        let mut words = reason.split(' ');
        let redirect = match words.next()? {
            "MOVED" => Self::Moved,
            "ASK" => Self::Ask,
            _ => return None,
        };
        let (host, port) = words.nth(1)?.rsplit_once(':')?;
        Some(redirect(from.at(host, port.parse().ok()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(place: &str) -> RedisUrl {
        format!("rediss://me:secret@{place}").parse().unwrap()
    }

    #[test]
    fn redirects_are_read() {
        let from = url("one:7000");
        let read = |reason: &str| Redirect::of(&Answer::Refused(reason.to_owned()), &from);
        assert_eq!(read("MOVED 3999 10.0.0.2:6381"), Some(Redirect::Moved(url("10.0.0.2:6381"))));
        assert_eq!(read("ASK 3999 ::1:6381"), Some(Redirect::Ask(url("[::1]:6381"))));
        assert_eq!(read("MOVED 3999 :6381"), Some(Redirect::Moved(url("one:6381"))));
        for odd in
            ["MOVED", "MOVED 3999", "MOVED 3999 two", "MOVED 3999 two:x", "ERR MOVED 1 two:1", "ASKING"]
        {
            assert_eq!(read(odd), None, "{odd}");
        }
        assert_eq!(Redirect::of(&Answer::Text(b"MOVED 3999 two:1".to_vec()), &from), None);
    }

    #[test]
    fn what_is_wrong_is_told_as_long_as_it_is_so() {
        let reach = Reach::default();
        assert_eq!(reach.trouble(), None);
        assert!(reach.refuses("quotas", true) && reach.refuses("budgets", true));
        assert!(!reach.refuses("quotas", true), "no news");
        let trouble = "Redis answers, and refuses to share budgets, quotas";
        assert_eq!(reach.trouble().as_deref(), Some(trouble));
        reach.lost();
        assert_eq!(reach.trouble().as_deref(), Some("Redis is away: nothing is shared"));
        reach.found();
        assert!(reach.refuses("quotas", false) && reach.refuses("budgets", false));
        assert_eq!(reach.trouble(), None);
    }

    #[test]
    fn of_two_places_the_one_that_did_not_fail_is_next() {
        let (configured, one, two) = (url("configured"), url("one"), url("two"));
        let reach = Reach::default();
        reach.fails(&configured);
        assert_eq!(reach.place(&configured), configured, "there is no other");
        reach.moved(&one);
        assert_eq!(reach.place(&configured), one);
        (0..2).for_each(|_| reach.fails(&one));
        assert_eq!(reach.place(&configured), configured);
        reach.fails(&configured);
        assert_eq!(reach.place(&configured), one);
        reach.moved(&two);
        reach.fails(&one);
        assert_eq!(reach.place(&configured), two, "whoever was told last did not fail");
    }
}
