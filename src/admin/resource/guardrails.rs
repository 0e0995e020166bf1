//! `/api/v1/guardrails`: how calls between agents are judged, and what came of them.
//!
//! Who may do what is shown, and which tiers; never a secret, nor where one lies.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use crate::access::a2a::denial::Code;
use crate::access::a2a::map::CapabilityMap;
use crate::access::limit::UNLIMITED;
use crate::access::tier::Quota;
use crate::access::tier::Tier;
use crate::admin::Office;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::policy::route::Route;
use crate::telemetry::metrics::AGENT_GRANTED;

const ALGORITHM: &str = "HMAC-SHA256";

/// The guardrails between agents.
#[derive(Serialize, ToSchema)]
pub struct GuardrailReport {
    /// Whether a route is for agents.
    pub enabled: bool,
    /// How agents prove who they are.
    pub mtls: Mtls,
    /// How they prove what they say.
    pub integrity: Integrity,
    /// How far a request's time may be from ours, in seconds; 0: times are not checked.
    pub replay_window_s: u64,
    /// What trust in an agent does to its calls.
    pub trust: TrustGate,
    /// What one agent may ask for, by tier.
    pub rate_limits: BTreeMap<&'static str, AgentLimit>,
    /// The agents.
    pub agents: Vec<AgentEntry>,
    /// The capabilities, by name.
    pub capabilities: BTreeMap<String, CapabilityEntry>,
    /// What came of calls since the process began.
    pub counters: Counters,
}

/// How agents prove who they are.
#[derive(Serialize, ToSchema)]
pub struct Mtls {
    /// Whether a client certificate is needed; on routes for agents it always is.
    pub required: bool,
    /// Whether certificates are looked up in lists of revoked ones.
    pub revocation: bool,
}

/// What trust in an agent does to its calls.
#[derive(Serialize, ToSchema)]
pub struct TrustGate {
    /// `observe`: it is only told. `enforce`: agents whose verdict is `BLOCKED` are kept out.
    pub mode: &'static str,
}

/// How agents prove what they say.
#[derive(Serialize, ToSchema)]
pub struct Integrity {
    /// How bodies are signed.
    pub algorithm: &'static str,
    /// Whether the signature must cover the time of the request.
    pub signed_timestamp: bool,
}

/// What one agent of a tier may ask for.
#[derive(Serialize, ToSchema)]
pub struct AgentLimit {
    /// Requests a minute; 2147483647 is unlimited.
    pub requests_per_minute: u64,
    /// Requests at once; 2147483647 is unlimited.
    pub burst: u64,
}

/// One agent.
#[derive(Serialize, ToSchema)]
pub struct AgentEntry {
    /// Its id: the Common Name of its certificate.
    pub id: String,
    /// What it may ask for.
    pub capabilities: Vec<String>,
    /// Its tier: the map's as far as the deployment is entitled to it. A licence that it brings itself may give more.
    pub tier: &'static str,
}

/// One capability.
#[derive(Serialize, ToSchema)]
pub struct CapabilityEntry {
    /// The least tier that includes it.
    pub min_tier: &'static str,
}

/// What came of calls.
#[derive(Serialize, ToSchema)]
pub struct Counters {
    /// Calls that passed.
    pub granted: u64,
    /// Calls that did not, by code.
    pub denied: BTreeMap<&'static str, u64>,
}

/// `GET /api/v1/guardrails`.
pub async fn read(call: Call) -> Answer {
    let office = &call.office;
    let rules = office.reloader.handle().load();
    let agents = office.guardrails.directory.load();
    let empty = CapabilityMap::default();
    let map = agents.as_ref().map_or(&empty, |agents| &agents.map);
    ok(&GuardrailReport {
        enabled: rules.routes.iter().any(Route::is_for_agents),
        mtls: Mtls { required: true, revocation: office.guardrails.vouching.revokes() },
        integrity: Integrity { algorithm: ALGORITHM, signed_timestamp: rules.a2a.signed_timestamp },
        replay_window_s: rules.a2a.replay_window_s,
        trust: TrustGate { mode: rules.a2a.trust.as_str() },
        rate_limits: rate_limits(office),
        agents: entries(map, office.tier()),
        capabilities: map.capabilities.iter().map(|(name, it)| (name.clone(), entry(it.min_tier))).collect(),
        counters: counters(office),
    })
}

fn rate_limits(office: &Office) -> BTreeMap<&'static str, AgentLimit> {
    let limit = |quota: Option<Quota>| AgentLimit {
        requests_per_minute: quota.map_or(UNLIMITED, |quota| u64::from(quota.requests_per_minute)),
        burst: quota.map_or(UNLIMITED, |quota| u64::from(quota.burst)),
    };
    Tier::ALL.into_iter().map(|tier| (tier.as_str(), limit(office.guardrails.buckets.quota(tier)))).collect()
}

fn entries(map: &CapabilityMap, deployment: Tier) -> Vec<AgentEntry> {
    let entry = |(id, agent): (&String, &crate::access::a2a::map::Agent)| AgentEntry {
        id: id.clone(),
        capabilities: agent.capabilities.iter().cloned().collect(),
        tier: agent.tier.map_or(deployment, |own| own.min(deployment)).as_str(),
    };
    map.agents.iter().map(entry).collect()
}

fn entry(min_tier: Tier) -> CapabilityEntry {
    CapabilityEntry { min_tier: min_tier.as_str() }
}

fn counters(office: &Office) -> Counters {
    let count = |code| office.telemetry.metrics.agent_calls(code);
    let denied = Code::ALL.into_iter().map(|code| (code.as_str(), count(code.as_str()))).collect();
    Counters { granted: count(AGENT_GRANTED), denied }
}
