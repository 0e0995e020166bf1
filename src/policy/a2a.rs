//! How calls between agents are judged, as an operator wrote it: `[a2a]`.

use std::path::PathBuf;
use std::str::FromStr;

use crate::document::section::Section;
use crate::error::UnknownSetting;
use crate::policy::limits::TierLimit;

/// The longest replay window, in seconds.
const REPLAY_WINDOW_S_MAX: u64 = 86_400;

/// What trust in an agent does to its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrustMode {
    /// Nothing: it is only told.
    #[default]
    Observe,
    /// Agents whose verdict is `BLOCKED` are kept out.
    Enforce,
}

impl TrustMode {
    /// Returns its name in files and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Enforce => "enforce",
        }
    }
}

impl FromStr for TrustMode {
    type Err = UnknownSetting;

    fn from_str(text: &str) -> Result<Self, UnknownSetting> {
        match text {
            "observe" => Ok(Self::Observe),
            "enforce" => Ok(Self::Enforce),
            _ => Err(UnknownSetting { expected: "observe, enforce" }),
        }
    }
}

/// `[a2a]` of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct A2aSettings {
    /// The certificates that may sign those of agents.
    pub client_ca: Option<PathBuf>,
    /// What those have revoked, in lists of version 2; `None`: nothing is looked up.
    pub client_crl: Option<PathBuf>,
    /// The capability map.
    pub capabilities: Option<PathBuf>,
    /// How far a request's time may be from ours, and how long its signature is remembered; 0: neither.
    pub replay_window_s: u64,
    /// Whether a signature must cover the time of the request.
    pub signed_timestamp: bool,
    /// What trust in an agent does to its calls.
    pub trust: TrustMode,
    /// Requests per minute and burst of each tier; a tier that is not named has the contract's.
    pub tiers: Vec<TierLimit>,
}

impl A2aSettings {
    /// Reads `[a2a]`; `needed_by` is the path of the key of a route that rests on it.
    pub fn read(section: &mut Section<'_>, needed_by: Option<&str>) -> Self {
        let replay_window_s = section.number_maybe("replay_window_s", 0..=REPLAY_WINDOW_S_MAX).unwrap_or(0);
        let tiers = section.named("tiers").into_iter();
        let settings = Self {
            tiers: tiers.map(|(name, mut inner)| TierLimit::read(name, &mut inner)).collect(),
            client_ca: section.path_maybe("client_ca"),
            client_crl: section.path_maybe("client_crl"),
            capabilities: section.path_maybe("capabilities"),
            replay_window_s,
            signed_timestamp: section.flag_or("signed_timestamp", replay_window_s > 0),
            trust: section.choice_maybe("trust").unwrap_or_default(),
        };
        if settings.signed_timestamp && settings.replay_window_s == 0 {
            section.invalid("signed_timestamp", "counts only with a replay_window_s above 0", None);
        }
        if settings.client_crl.is_some() && settings.client_ca.is_none() {
            section.invalid("client_crl", "counts only with a client_ca", None);
        }
        for (key, path) in [("client_ca", &settings.client_ca), ("capabilities", &settings.capabilities)] {
            if let (None, Some(asking)) = (path, needed_by) {
                section.missing_for(key, asking);
            }
        }
        section.finish();
        settings
    }
}
