//! For how long signatures are remembered, and were.
//!
//! Who widens the window lets requests be taken that are older than what is remembered. So what was signed before that
//! goes on being judged by the narrower one, for as long as it matters; and where nothing was remembered before, what
//! was signed by then is refused. A request that is signed anew is served at once.

use super::Moments;

/// The most narrower windows that are told apart; of more, the two oldest count as one.
const NARROWER_MAX: usize = 16;

/// A window, and up to when (in Unix seconds) what was signed is judged by it.
pub(super) type Narrower = (i64, u64);

/// For how long signatures are remembered, in seconds, and were where that still matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Windows {
    /// The last that was asked for; 0 where nothing is remembered, `None` where nobody asked yet.
    pub(super) last: Option<u64>,
    pub(super) narrower: Vec<Narrower>,
}

impl Windows {
    /// Returns what refuses all that was signed up to a moment: nobody knows what was remembered before it.
    pub(super) fn unknown_until(now: i64) -> Self {
        Self { last: None, narrower: vec![(now, 0)] }
    }

    /// Takes note of the window that counts now.
    pub(super) fn see(&mut self, window_s: u64, now: i64) {
        if let Some(last) = self.last.filter(|last| *last < window_s) {
            let ahead = i64::try_from(last).unwrap_or(i64::MAX);
            self.narrower.push((now.saturating_add(ahead), last));
        }
        self.last = Some(window_s);
        self.narrower.retain(|(until, _)| until.saturating_add_unsigned(window_s) >= now);
        while let [first, second, ..] = self.narrower[..]
            && self.narrower.len() > NARROWER_MAX
        {
            self.narrower[1] = (first.0.max(second.0), first.1.min(second.1));
            self.narrower.remove(0);
        }
    }

    /// Tells whether something was remembered for as long as it fits, had it come before.
    pub(super) fn cover(&self, at: Moments) -> bool {
        let age_s = u64::try_from(at.now.saturating_sub(at.signed)).unwrap_or(0);
        let covers =
            |(until, window_s): &Narrower| at.signed > *until || (*window_s > 0 && age_s <= *window_s);
        self.narrower.iter().all(covers)
    }
}
