//! What was found, and how long exchanges took, as dashboards show it.

use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::Office;
use crate::clock::rfc3339;
use crate::govern::analytics::figures::Count;
use crate::govern::analytics::figures::Figures;
use crate::govern::analytics::figures::Ranked;

/// How many detectors a dashboard names.
const TOP: usize = 20;
/// The listener whose exchanges are meant.
const PROXY: &str = "proxy";
const MS_PER_S: f64 = 1000.0;

/// In how many exchanges something was found, and what was done about it.
#[derive(Serialize, ToSchema)]
pub struct FindingFigures {
    /// `secrets`, `pii`, `injection`, `exfiltration` or `custom`.
    pub category: String,
    /// The detector's name.
    #[serde(rename = "type")]
    pub detector: String,
    /// Exchanges in which it was found.
    pub exchanges: u64,
    /// Those that were refused because of it.
    pub blocked: u64,
    /// Those out of which it was taken.
    pub redacted: u64,
}

/// How long proxied requests took since the process began, in milliseconds; each figure is the upper bound of the
/// bucket of the histogram, and `null` where nothing was measured or it lies past the last bucket.
#[derive(Serialize, ToSchema)]
pub struct LatencyFigures {
    /// Half of them took at most this long.
    pub p50_ms: Option<f64>,
    /// 95 of 100.
    pub p95_ms: Option<f64>,
    /// 99 of 100.
    pub p99_ms: Option<f64>,
    /// When the process began.
    pub since: String,
}

impl FindingFigures {
    /// Returns those that were found in most exchanges.
    pub fn of(findings: &Ranked) -> Vec<Self> {
        findings
            .by_weight()
            .into_iter()
            .take(TOP)
            .filter_map(|(name, figures)| Self::named(name, figures))
            .collect()
    }

    fn named(name: &str, figures: &Figures) -> Option<Self> {
        let (category, detector) = name.split_once('/')?;
        Some(Self {
            category: category.to_owned(),
            detector: detector.to_owned(),
            exchanges: figures[Count::Requests],
            blocked: figures[Count::Blocked],
            redacted: figures[Count::Redacted],
        })
    }
}

impl LatencyFigures {
    /// Returns what the running process has measured.
    pub fn of(office: &Office) -> Self {
        let quantile = |share| office.telemetry.metrics.latency_quantile(PROXY, share).map(|s| s * MS_PER_S);
        Self {
            p50_ms: quantile(0.5),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
            since: rfc3339(office.facts.started_at),
        }
    }
}
