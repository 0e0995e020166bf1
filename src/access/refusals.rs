//! How often refusals are worth an entry of the audit log: nobody fills it, or pushes evidence out of it, by knocking.

use jiff::Timestamp;

use super::limit::Buckets;
use super::tier::Tier;

/// Under what name the refusals of all are counted.
const EVERYBODY: &str = "everybody";

/// Bounds the refusals that are recorded, whatever quota the refused have: one address or caller has the quota of the
/// smallest tier, all together that of a team. Each plane has its own: noise on one drowns nothing of the other.
pub struct Refusals(Buckets);

impl Default for Refusals {
    fn default() -> Self {
        Self(Buckets::new(Tier::ALL.map(Tier::quota)))
    }
}

impl Refusals {
    /// Tells whether another refusal of somebody is recorded; else it is only to be counted.
    pub fn admit(&self, whom: &str, now: Timestamp) -> bool {
        self.0.take(whom, Tier::Community, now).allowed
            && self.0.take(EVERYBODY, Tier::Professional, now).allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_one_nor_all_fill_the_log() {
        let (refusals, now) = (Refusals::default(), Timestamp::UNIX_EPOCH);
        let of_one = (0..1000).filter(|_| refusals.admit("one", now)).count();
        let of_all = (0..5000).filter(|n| refusals.admit(&n.to_string(), now)).count();
        assert_eq!((of_one, of_one + of_all), (100, 1000));
    }
}
