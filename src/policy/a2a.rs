//! How calls between agents are judged, as an operator wrote it: `[a2a]`.

use std::path::PathBuf;

use crate::document::Problem;
use crate::document::section::Section;
use crate::policy::limits::TierLimit;

/// The longest replay window, in seconds.
const REPLAY_WINDOW_S_MAX: u64 = 86_400;

/// `[a2a]` of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct A2aSettings {
    /// The certificates that may sign those of agents.
    pub client_ca: Option<PathBuf>,
    /// The capability map.
    pub capabilities: Option<PathBuf>,
    /// How far a request's time may be from ours, and how long its signature is remembered; 0: neither.
    pub replay_window_s: u64,
    /// Whether a signature must cover the time of the request.
    pub signed_timestamp: bool,
    /// Requests per minute and burst of each tier; a tier that is not named has the contract's.
    pub tiers: Vec<TierLimit>,
}

impl A2aSettings {
    /// Reads `[a2a]`; `is_needed` where a route rests on it.
    pub fn read(section: &mut Section<'_>, is_needed: bool) -> Self {
        let tiers = section.named("tiers").into_iter();
        let settings = Self {
            tiers: tiers.map(|(name, mut inner)| TierLimit::read(name, &mut inner)).collect(),
            client_ca: section.path_maybe("client_ca"),
            capabilities: section.path_maybe("capabilities"),
            replay_window_s: section.number_maybe("replay_window_s", 0..=REPLAY_WINDOW_S_MAX).unwrap_or(0),
            signed_timestamp: section.flag_or("signed_timestamp", false),
        };
        if settings.signed_timestamp && settings.replay_window_s == 0 {
            section.invalid("signed_timestamp", "counts only with a replay_window_s above 0", None);
        }
        if is_needed && settings.client_ca.is_none() {
            section.fault("client_ca", Problem::Missing);
        }
        if is_needed && settings.capabilities.is_none() {
            section.fault("capabilities", Problem::Missing);
        }
        section.finish();
        settings
    }
}
