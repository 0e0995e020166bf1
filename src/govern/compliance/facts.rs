//! What is known of the deployment at one moment; whoever can see it puts it together.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::access::role::Role;
use crate::access::tier::Tier;
use crate::policy::decision::Action;
use crate::scan::threat::Category;

/// How far back figures are taken from.
pub const PERIOD_DAYS: i64 = 30;
/// What was not forwarded after so long is late.
pub const LATE_MINUTES: i64 = 15;
/// The most detectors or rules that are named where many are treated alike.
pub const DETECTORS_NAMED_MAX: usize = 5;

/// Everything that checks go by.
#[derive(Clone, Debug)]
pub struct Facts {
    /// When it was seen.
    pub at: Timestamp,
    /// Since when events and use are counted: [`PERIOD_DAYS`] before.
    pub since: Timestamp,
    /// The name of the node that looked.
    pub node: String,
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
    /// How many detectors and rules proved themselves by their examples, by their pack and its version.
    pub proven: BTreeMap<String, usize>,
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
    /// What it does about each category.
    pub categories: BTreeMap<Category, CategoryFact>,
    /// What it does about the detectors and rules that are evidence of each technique, by the technique's id.
    pub techniques: BTreeMap<String, TechniqueFact>,
    /// Whether what cannot be inspected is refused.
    pub fails_closed: bool,
    /// Whether changed definitions of tools are looked for.
    pub pins_tools: bool,
}

/// What a policy does about the detectors of a category, other than those that are for whoever names them.
#[derive(Clone, Debug, Default)]
pub struct CategoryFact {
    /// In requests.
    pub request: Coverage,
    /// In responses.
    pub response: Coverage,
    /// In one of them, whichever is stricter.
    pub either: Coverage,
}

/// What a policy does about whatever is evidence of a technique, in requests or responses, whichever is stricter.
#[derive(Clone, Debug, Default)]
pub struct TechniqueFact {
    /// Detectors, kinds of models and rules.
    pub coverage: Coverage,
    /// Some of the rules, by name.
    pub rules: Vec<String>,
}

/// What is done about the surest finding of each detector: how many are treated so, and some of them by name.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    by_action: BTreeMap<Action, (usize, Vec<String>)>,
}

impl Coverage {
    /// Counts a detector about whose surest finding this is done.
    pub fn note(&mut self, action: Action, detector: &str) {
        let (count, named) = self.by_action.entry(action).or_default();
        *count += 1;
        if named.len() < DETECTORS_NAMED_MAX {
            named.push(detector.to_owned());
        }
    }

    /// Returns how many detectors there are.
    pub fn total(&self) -> usize {
        self.by_action.values().map(|(count, _)| count).sum()
    }

    /// Returns how many detectors are treated more mildly.
    pub fn short_of(&self, least: Action) -> usize {
        self.by_action.range(..least).map(|(_, (count, _))| count).sum()
    }

    /// Returns some of the detectors that are treated more mildly, those that are treated best first.
    pub fn named_short_of(&self, least: Action) -> Vec<&str> {
        let milder = self.by_action.range(..least).rev().flat_map(|(_, (_, named))| named);
        milder.take(DETECTORS_NAMED_MAX).map(String::as_str).collect()
    }
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
    /// Its id.
    pub id: String,
    /// What it may do.
    pub role: Role,
    /// When it was used last; before the first time, when it was made.
    pub used_at: Timestamp,
    /// Since when its text is what it is: when it was rotated last, or made.
    pub text_since: Timestamp,
    /// When it stops counting.
    pub expires_at: Option<Timestamp>,
    /// Whether it has a budget.
    pub has_budget: bool,
}

/// A user with a password of the gateway who may log in.
#[derive(Clone, Debug)]
pub struct UserFact {
    /// The user's id.
    pub id: String,
    /// When the user logged in last; before the first time, when the user was made.
    pub used_at: Timestamp,
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
    /// When the last of them was recorded.
    pub until: Option<Timestamp>,
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
    /// How many entries retention dropped before it was sent them.
    pub missed: u64,
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
    /// The users with passwords of the gateway who may log in.
    pub users: Vec<UserFact>,
    /// After how long without a request a session ends.
    pub idle: Duration,
    /// After how long it ends in all.
    pub lifetime: Duration,
}
