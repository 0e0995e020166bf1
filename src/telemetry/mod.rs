//! Metrics, health, logs and today's statistics.
//!
//! Every metric and label is declared in [`metrics`]; labels are closed sets, so nothing a caller
//! sends can grow the number of series. Content never comes here.

pub mod config;
pub mod health;
pub mod lifecycle;
pub mod logging;
pub mod metrics;
pub mod today;

use std::sync::Arc;

use self::health::Health;
use self::lifecycle::Lifecycle;
use self::metrics::Metrics;
use self::today::Today;

/// What the process says about itself.
pub struct Telemetry {
    /// Counters, gauges and histograms.
    pub metrics: Arc<Metrics>,
    /// Figures of the current day.
    pub today: Today,
    /// What the gateway depends on, up or down.
    pub health: Health,
    /// How far it is on its way out.
    pub lifecycle: Arc<Lifecycle>,
}

impl Telemetry {
    /// Returns telemetry at zero, for a build of this version.
    pub fn new(version: &str, commit: &str) -> Self {
        Self {
            metrics: Arc::new(Metrics::new(version, commit)),
            today: Today::default(),
            health: Health::default(),
            lifecycle: Arc::default(),
        }
    }
}
