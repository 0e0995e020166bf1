//! Tiers, and how often each may call.

use std::fmt;
use std::str::FromStr;

use crate::scan::threat::UnknownName;

/// What a deployment, or a caller of it, has paid for; the smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Free of charge.
    Community,
    /// For one developer.
    Developer,
    /// For a company.
    Professional,
    /// Without limits.
    Enterprise,
}

/// How often a caller may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// As often as it likes.
    Unlimited,
    /// A bucket of `burst` tokens that gets `requests_per_minute` of them back each minute. Neither is 0.
    Limited {
        /// Requests a minute in the long run.
        requests_per_minute: u32,
        /// Requests at once after a pause.
        burst: u32,
    },
}

/// The rate of every tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierLimits {
    rates: [Rate; Tier::ALL.len()],
}

/// A limit of 0 would lock everybody out.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("requests per minute and burst must be at least 1")]
pub struct ZeroRate;

impl Tier {
    /// Every tier, the smallest first.
    pub const ALL: [Self; 4] = [Self::Community, Self::Developer, Self::Professional, Self::Enterprise];

    /// Returns the name used in answers and in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Community => "community",
            Self::Developer => "developer",
            Self::Professional => "professional",
            Self::Enterprise => "enterprise",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Tier {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let expected = "community, developer, professional, enterprise";
        Self::ALL.into_iter().find(|known| known.as_str() == text).ok_or(UnknownName { expected })
    }
}

impl Rate {
    /// Returns a rate with neither number 0.
    ///
    /// # Errors
    /// When one is.
    pub fn limited(requests_per_minute: u32, burst: u32) -> Result<Self, ZeroRate> {
        match (requests_per_minute, burst) {
            (0, _) | (_, 0) => Err(ZeroRate),
            _ => Ok(Self::Limited { requests_per_minute, burst }),
        }
    }
}

impl TierLimits {
    /// Returns the general limits of the interface, section 8.
    pub fn general() -> Self {
        let limited = |requests_per_minute, burst| Rate::Limited { requests_per_minute, burst };
        Self { rates: [limited(60, 100), limited(120, 200), limited(600, 1000), Rate::Unlimited] }
    }

    /// Returns the limits with one tier's rate replaced.
    pub fn with(mut self, tier: Tier, rate: Rate) -> Self {
        self.rates[tier as usize] = rate;
        self
    }

    /// Returns the rate of a tier.
    pub fn rate(&self, tier: Tier) -> Rate {
        self.rates[tier as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_limits_are_those_of_the_interface() {
        let general = TierLimits::general();
        let expected = [("community", 60, 100), ("developer", 120, 200), ("professional", 600, 1000)];
        for (name, requests_per_minute, burst) in expected {
            let rate = Rate::limited(requests_per_minute, burst).unwrap();
            assert_eq!(general.rate(name.parse().unwrap()), rate);
        }
        assert_eq!(general.rate(Tier::Enterprise), Rate::Unlimited);
        let changed = general.with(Tier::Enterprise, Rate::limited(1, 2).unwrap());
        assert_eq!(changed.rate(Tier::Enterprise), Rate::Limited { requests_per_minute: 1, burst: 2 });
        assert_eq!(Rate::limited(0, 5), Err(ZeroRate));
        assert!("Community".parse::<Tier>().is_err());
    }
}
