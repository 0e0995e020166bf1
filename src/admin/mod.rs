//! The management API.

pub mod adapter;
pub mod config;

use std::collections::BTreeSet;
use std::sync::Arc;

/// Interim.
pub struct Facts { pub version: &'static str, pub commit: &'static str, pub build_date: &'static str, pub tier: crate::access::tier::Tier, pub node_id: String, pub started_at: jiff::Timestamp, pub public_metrics: bool, pub retention_days: u32, pub streams_max: usize, pub hosts: BTreeSet<String> }
/// Interim.
pub struct Office {
    pub reloader: Arc<crate::policy::reload::Reloader>,
    pub rules: crate::policy::handle::RulesetHandle,
    pub keys: Arc<crate::access::key::KeyStore>,
    pub buckets: Arc<crate::access::limit::Buckets>,
    pub recorder: crate::govern::audit::Recorder,
    pub log: crate::govern::audit::AuditLog,
    pub store: crate::store::Store,
    pub telemetry: Arc<crate::telemetry::Telemetry>,
    pub clock: Arc<dyn crate::clock::Clock>,
    pub ids: Arc<crate::id::UlidSource>,
    pub masker: Arc<crate::redact::mask::Masker>,
    pub tenant: crate::redact::mask::TenantKey,
    pub facts: Facts,
}
/// Interim.
pub fn router(office: Arc<Office>) -> axum::Router {
    axum::Router::new().route("/health", axum::routing::get(|| async { "{}" })).route("/metrics", axum::routing::get(move || async move { office.telemetry.metrics.render() }))
}
