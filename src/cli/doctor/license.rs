//! The licence: does it count, and for how long?

use jiff::Timestamp;

use super::Check;
use super::Outcome;
use crate::access::license::Licensing;
use crate::config::Config;

/// A licence that ends sooner is a warning.
const SOON_DAYS: i64 = 30;
const DAY_S: i64 = 86_400;

/// Looks at the licence, and at the keys that may sign one.
pub(super) fn check(config: &Config, now: Timestamp) -> Check {
    let standing = Licensing::open(config.license.clone()).standing(now);
    let tier = standing.tier.as_str();
    let (outcome, detail) = match (standing.fault, standing.expires_at) {
        (Some(fault), _) => (Outcome::Fault, format!("{fault}: the tier is {tier}")),
        (None, None) => (Outcome::Good, format!("there is none: the tier is {tier}")),
        (None, Some(end)) => match (end.as_second() - now.as_second()).div_euclid(DAY_S) {
            days @ ..SOON_DAYS => (Outcome::Warning, format!("ends in {days} days: the tier is {tier}")),
            _ => (Outcome::Good, format!("counts until {end}: the tier is {tier}")),
        },
    };
    Check::new("license", "license", outcome, detail)
}
