//! Metrics, logs and today's statistics.

mod label;
pub mod logging;
mod metrics;
mod stats;

pub use self::label::AuditResult;
pub use self::label::Listener;
pub use self::label::MetricAction;
pub use self::label::MetricLayer;
pub use self::label::TokenType;
pub use self::label::Unreadable;
pub use self::metrics::Metrics;
pub use self::metrics::RouteMetrics;
pub use self::stats::Stats;
pub use self::stats::Today;
