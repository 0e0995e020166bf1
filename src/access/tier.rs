//! Tiers and the general request limits they bring (interface, section 8).

use std::str::FromStr;

use serde::Deserialize;
use serde::Serialize;

/// How much a deployment or a credential is entitled to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Without a licence.
    #[default]
    Community,
    /// For one person.
    Developer,
    /// For a team.
    Professional,
    /// Without limits.
    Enterprise,
}

/// A token bucket's numbers; `None` is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Refill.
    pub requests_per_minute: u32,
    /// Capacity.
    pub burst: u32,
}

/// What there is, and the least tier that enables it (interface, sections 4 and 8).
const FEATURES: &[(&str, Tier)] = &[
    ("inspection", Tier::Community),
    ("redaction", Tier::Community),
    ("policies", Tier::Community),
    ("audit", Tier::Community),
    ("api_keys", Tier::Community),
    ("gateway_keys", Tier::Community),
    ("a2a_guardrails", Tier::Community),
    ("ab_tests", Tier::Community),
    ("trust", Tier::Professional),
    ("attestations", Tier::Professional),
    ("unlimited_requests", Tier::Enterprise),
];

/// The text names no tier.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected one of community, developer, professional, enterprise")]
pub struct UnknownTier;

impl Tier {
    /// What stands for as much as the deployment, whatever that comes to: no credential is entitled to more.
    pub const OF_THE_DEPLOYMENT: Self = Self::Enterprise;
    /// Every tier, smallest first.
    pub const ALL: [Self; 4] = [Self::Community, Self::Developer, Self::Professional, Self::Enterprise];

    /// Returns the name used in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Community => "community",
            Self::Developer => "developer",
            Self::Professional => "professional",
            Self::Enterprise => "enterprise",
        }
    }

    /// Returns the name as it is written in a sentence.
    pub fn title(self) -> &'static str {
        match self {
            Self::Community => "Community",
            Self::Developer => "Developer",
            Self::Professional => "Professional",
            Self::Enterprise => "Enterprise",
        }
    }

    /// Returns the names of what the tier enables.
    pub fn features(self) -> impl Iterator<Item = &'static str> {
        FEATURES.iter().filter(move |(_, least)| *least <= self).map(|(name, _)| *name)
    }

    /// Returns the quota of one agent of the tier; `None` is unlimited.
    pub fn agent_quota(self) -> Option<Quota> {
        let quota = |requests_per_minute, burst| Some(Quota { requests_per_minute, burst });
        match self {
            Self::Community => quota(30, 5),
            Self::Developer => quota(60, 10),
            Self::Professional => quota(120, 20),
            Self::Enterprise => None,
        }
    }

    /// Returns the tier's general quota; `None` is unlimited.
    pub fn quota(self) -> Option<Quota> {
        let quota = |requests_per_minute, burst| Some(Quota { requests_per_minute, burst });
        match self {
            Self::Community => quota(60, 100),
            Self::Developer => quota(120, 200),
            Self::Professional => quota(600, 1000),
            Self::Enterprise => None,
        }
    }
}

impl FromStr for Tier {
    type Err = UnknownTier;

    fn from_str(text: &str) -> Result<Self, UnknownTier> {
        Self::ALL.into_iter().find(|tier| tier.as_str() == text).ok_or(UnknownTier)
    }
}
