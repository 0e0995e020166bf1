//! What is known of the deployment at one moment; whoever can see it puts it together.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::access::role::Role;
use crate::access::tier::Tier;
use crate::policy::decision::Mode;
use crate::scan::threat::Category;

/// How far back figures are taken from.
pub const PERIOD_DAYS: i64 = 30;
/// What was not forwarded after so long is late.
pub const LATE_MINUTES: i64 = 15;

/// Everything that checks go by.
#[derive(Clone, Debug)]
pub struct Facts {
    /// When it was seen.
    pub at: Timestamp,
    /// Since when events and use are counted: [`PERIOD_DAYS`] before.
    pub since: Timestamp,
    /// The policies that decide on some route.
    pub policies: Vec<PolicyFact>,
    /// The routes.
    pub routes: Vec<RouteFact>,
    /// The listeners.
    pub listeners: Vec<ListenerFact>,
    /// The API keys.
    pub keys: Vec<KeyFact>,
    /// The audit log.
    pub audit: AuditFact,
    /// Audit entries of the period, by event type.
    pub events: BTreeMap<&'static str, u64>,
    /// Audit entries of the period with findings, by category.
    pub findings: BTreeMap<&'static str, u64>,
    /// The tier in force.
    pub tier: Tier,
    /// Why the licence does not count.
    pub license_fault: Option<String>,
    /// Whether callers of the tier in force have a limit of requests.
    pub is_rate_limited: bool,
    /// The share of requests answered without an error of the gateway, since it began.
    pub availability: Option<f64>,
    /// Whether state outlives the process.
    pub is_persistent: bool,
    /// The configuration's revision.
    pub revision: u64,
    /// Detectors and rules that proved themselves by their examples.
    pub proven: usize,
    /// Exchanges counted in the period, and the tokens of them.
    pub usage: (u64, u64),
    /// The platforms that the audit log is forwarded to.
    pub sinks: Vec<SinkFact>,
    /// How calls of agents are judged.
    pub agents: AgentsFact,
    /// How people sign in.
    pub sign_in: SignInFact,
}

/// A policy that decides.
#[derive(Clone, Debug)]
pub struct PolicyFact {
    /// Its id.
    pub id: String,
    /// What it does in requests and in responses.
    pub modes: BTreeMap<Category, (Mode, Mode)>,
    /// Whether what cannot be inspected is refused.
    pub fails_closed: bool,
    /// Whether changed definitions of tools are looked for.
    pub pins_tools: bool,
}

/// A route.
#[derive(Clone, Debug)]
pub struct RouteFact {
    /// Its name.
    pub name: String,
    /// Whether callers present a key of the gateway.
    pub takes_keys: bool,
    /// Whether upgraded connections pass uninspected.
    pub passes_upgrades: bool,
    /// Whether each upstream is reached over TLS, or on this machine.
    pub is_private: bool,
}

/// A listener.
#[derive(Clone, Debug)]
pub struct ListenerFact {
    /// `proxy` or `admin`.
    pub name: &'static str,
    /// Whether it speaks TLS.
    pub has_tls: bool,
    /// Whether it only listens on this machine.
    pub is_local: bool,
    /// When its certificate ends.
    pub certificate_ends: Option<Timestamp>,
}

/// An API key.
#[derive(Clone, Debug)]
pub struct KeyFact {
    /// What it may do.
    pub role: Role,
    /// Since when its text is what it is: when it was rotated last, or made.
    pub text_since: Timestamp,
    /// When it stops counting.
    pub expires_at: Option<Timestamp>,
    /// Whether it has a budget.
    pub has_budget: bool,
}

/// The audit log.
#[derive(Clone, Debug)]
pub struct AuditFact {
    /// Whether it can be written.
    pub is_writable: bool,
    /// Whether traffic is refused while it cannot.
    pub fails_closed: bool,
    /// How long entries are kept, in days; `None`: for ever.
    pub retention_days: Option<u64>,
    /// How large the journal may be, in bytes, before its oldest entries go; `None`: as large as it gets.
    pub retention_bytes: Option<u64>,
    /// How old its oldest entry is, in days; `None`: there is none.
    pub oldest_days: Option<u64>,
    /// How many entries there are.
    pub entries: u64,
    /// The share of events it took, since the process began.
    pub completeness: Option<f64>,
    /// The last time all of it was verified.
    pub chain: Option<ChainFact>,
}

/// A verification of the whole chain.
#[derive(Clone, Debug)]
pub struct ChainFact {
    /// When.
    pub at: Timestamp,
    /// How many entries hold together.
    pub entries: u64,
    /// Why not all do.
    pub fault: Option<String>,
}

/// A platform that the audit log is forwarded to.
#[derive(Clone, Debug)]
pub struct SinkFact {
    /// Its name.
    pub name: String,
    /// Whether it took what it was sent last; `None`: nothing was sent since the process began.
    pub is_connected: Option<bool>,
    /// How many entries wait for longer than [`LATE_MINUTES`].
    pub late: u64,
    /// How many entries it refused for good.
    pub dead: u64,
}

/// How calls of agents are judged.
#[derive(Clone, Debug)]
pub struct AgentsFact {
    /// How many routes are for agents.
    pub routes: usize,
    /// How many agents the capability map in force has; `None`: there is none.
    pub known: Option<usize>,
    /// How near a request's time has to be, in seconds; 0: it does not count.
    pub replay_window_s: u64,
    /// Whether no node takes what another has taken.
    pub is_replay_shared: bool,
    /// Whether the time is part of what is signed.
    pub signed_timestamp: bool,
    /// Whether revoked certificates are looked up.
    pub has_revocations: bool,
    /// Whether agents that nobody trusts are kept out.
    pub enforces_trust: bool,
}

/// How people sign in.
#[derive(Clone, Debug)]
pub struct SignInFact {
    /// The identity provider's host.
    pub provider: Option<String>,
    /// The role of whoever has none of the mapped groups.
    pub default_role: Option<Role>,
    /// How many users with passwords of the gateway may log in.
    pub local_users: usize,
    /// After how long without a request a session ends.
    pub idle: Duration,
    /// After how long it ends in all.
    pub lifetime: Duration,
}
