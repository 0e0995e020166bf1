//! The management API: one table of routes, one edge that every call passes, one file per resource.
//!
//! In: HTTP requests, on the management listener or on the gateway's own paths of the data plane
//! ([`adapter`]). Out: JSON. [`routes`] is the contract as data; from it come the router, the order of
//! checks ([`edge`]), the API document ([`openapi`]). Handlers (`resource`) get a [`call::Call`] whose
//! credential, permission and quota were checked, and ask the [`Office`] for everything else. Wire types
//! live beside their handlers; no domain type is ever serialised.

pub mod adapter;
pub mod call;
pub mod config;
pub mod dashboard;
pub mod edge;
pub mod error;
mod guard;
pub mod head;
pub mod journal;
pub mod openapi;
pub mod resource;
pub mod routes;
pub mod sign_in;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use jiff::Timestamp;
use tokio::sync::Semaphore;

use self::sign_in::SignIn;
use crate::access::a2a::Guardrails;
use crate::access::authenticator::Authenticator;
use crate::access::budget::Budgets;
use crate::access::concurrency::Concurrency;
use crate::access::key::KeyStore;
use crate::access::license::Licensing;
use crate::access::limit::Buckets;
use crate::access::place::Network;
use crate::access::refusals::Refusals;
use crate::access::signing::KeyRing;
use crate::clock::Clock;
use crate::cluster::Leases;
use crate::cluster::Members;
use crate::cluster::Reach;
use crate::govern::abtest::AbTests;
use crate::govern::analytics::Meter;
use crate::govern::audit::AuditLog;
use crate::govern::audit::ClusterNotary;
use crate::govern::audit::Notary;
use crate::govern::audit::Recorder;
use crate::govern::compliance::desk::Desk;
use crate::govern::privacy::Privacy;
use crate::govern::siem::Standings;
use crate::govern::trust::Trust;
use crate::id::UlidSource;
use crate::policy::reload::Reloader;
use crate::redact::mask::Masker;
use crate::redact::mask::TenantKey;
use crate::store::Store;
use crate::telemetry::Telemetry;
use crate::tls::CertificateStore;

/// The parts of the process that handlers may ask.
pub struct Office {
    /// The running rules, their history, and the way to change them.
    pub reloader: Arc<Reloader>,
    /// The licence; what it entitles to, no credential exceeds.
    pub licensing: Arc<Licensing>,
    /// API keys.
    pub keys: Arc<KeyStore>,
    /// What people sign in with.
    pub sign_in: SignIn,
    /// Knows every kind of credential: keys, tokens, users.
    pub authenticator: Authenticator,
    /// What the deployment signs with.
    pub signing: Arc<KeyRing>,
    /// A/B tests of the third layer.
    pub abtests: Arc<AbTests>,
    /// What is thought of agents.
    pub trust: Arc<Trust>,
    /// Quotas, shared with the data plane.
    pub buckets: Arc<Buckets>,
    /// What calls of agents are judged by, shared with the data plane.
    pub guardrails: Arc<Guardrails>,
    /// Requests under way, shared with the data plane.
    pub concurrency: Arc<Concurrency>,
    /// The reading side of the audit log.
    pub audit: AuditLog,
    /// What was used.
    pub meter: Arc<Meter>,
    /// What reports of compliance are made from.
    pub compliance: Arc<Desk>,
    /// What keys may use.
    pub budgets: Arc<Budgets>,
    /// The writing side of the audit log.
    pub recorder: Recorder,
    /// How often refusals are recorded.
    pub refusals: Refusals,
    /// How often failed logins are: no other noise drowns them.
    pub failed_logins: Refusals,
    /// How often strangers may ask to be let in, whatever the tier.
    pub knocks: Buckets,
    /// Signs where the audit log is.
    pub notary: Notary,
    /// Keeps signed words on where the audit logs of all nodes are; `None`: this node shares nothing.
    pub cluster_notary: Option<Arc<ClusterNotary>>,
    /// Who does what only one node may do; `None`: this one does.
    pub leases: Option<Arc<Leases>>,
    /// Holds, exports and erasures.
    pub privacy: Arc<Privacy>,
    /// State that outlives the process.
    pub store: Store,
    /// What of that is this node's own; the same where nothing is shared.
    pub local: Store,
    /// The nodes that share it; `None`: it lies on this one.
    pub members: Option<Arc<Members>>,
    /// Whether the Redis that they share can be used; `None`: there is none.
    pub redis: Option<Arc<Reach>>,
    /// Metrics, today's figures, health.
    pub telemetry: Arc<Telemetry>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Makes request ids and key ids.
    pub ids: Arc<UlidSource>,
    /// Masks values in screened content.
    pub masker: Arc<Masker>,
    /// What placeholders in screened content are made with.
    pub tenant: TenantKey,
    /// What does not change while the process runs.
    pub facts: Facts,
    /// How each sink of the audit log stands.
    pub sinks: Standings,
    /// The certificates that are served, by the name of their listener.
    pub certificates: Vec<(&'static str, Arc<CertificateStore>)>,
    /// One permit for each audit stream that may be open.
    pub streams: Arc<Semaphore>,
}

/// What does not change while the process runs.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The build.
    pub build: Build,
    /// The node's name in answers.
    pub node_id: String,
    /// When the process began.
    pub started_at: Timestamp,
    /// The monotonic clock when the process began.
    pub started: Duration,
    /// Whether `/metrics` and `/stats` need no credential.
    pub public_metrics: bool,
    /// Whether changes go on while the audit log cannot be written.
    pub without_record: bool,
    /// The most audit streams that one credential has open.
    pub streams_per_caller: u32,
    /// The addresses the management plane listens on.
    pub addresses: Vec<IpAddr>,
    /// Names it answers to beside `localhost` and its addresses, in lower case.
    pub hosts: Vec<String>,
    /// Whose word counts on who a client is.
    pub trusted_proxies: Vec<Network>,
    /// Whether the management plane is served over TLS.
    pub is_secure: bool,
}

/// Which program runs.
#[derive(Clone, Debug)]
pub struct Build {
    /// The release.
    pub version: String,
    /// The commit it was built from.
    pub commit: String,
    /// When it was built, in ISO 8601.
    pub build_date: String,
}

/// Which listener a router serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plane {
    /// The management listener: only for its own host names.
    Management,
    /// The gateway's own paths on the data plane, which answers to any name.
    Data,
}

/// Returns the management API for the management listener.
pub fn router(office: Arc<Office>) -> Router {
    edge::router(office, Plane::Management)
}

/// Returns the management API for the gateway's own paths on the data plane.
pub fn router_on_proxy(office: Arc<Office>) -> Router {
    edge::router(office, Plane::Data)
}
