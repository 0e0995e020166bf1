//! `/health`, `/api/v1/health`, `/ready`: is the gateway well, and may traffic come?
//!
//! `a2a` is up while no route asks for agent guardrails: nothing is missing then.

use std::collections::BTreeMap;

use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::license::Standing;
use crate::admin::Office;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::with_status;
use crate::admin::resource::infra;
use crate::govern::audit::Health;
use crate::telemetry::health::Dependency;

/// What `/health` names; `/api/v1/health` names every dependency.
const BRIEF: [Dependency; 4] =
    [Dependency::Proxy, Dependency::Persistence, Dependency::License, Dependency::Certificates];

/// How the gateway is.
#[derive(Serialize, ToSchema)]
pub struct HealthReport {
    /// `healthy` or `degraded`.
    pub status: &'static str,
    /// The running release.
    pub version: String,
    /// `up` or `down` by name.
    pub dependencies: BTreeMap<&'static str, &'static str>,
    /// Why `persistence`, `license` or `certificates` is down, where it is: nothing that tells strangers of what is kept, or where.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<&'static str, String>,
    /// What is no reason to be degraded, and wants to be looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Whether traffic may come.
#[derive(Serialize, ToSchema)]
pub struct Readiness {
    /// Whether traffic may come.
    pub ready: bool,
    /// `ready` or `not_ready`.
    pub status: &'static str,
}

/// `GET /health`.
pub async fn brief(call: Call) -> Answer {
    report(&call.office, &BRIEF)
}

/// `GET /api/v1/health`.
pub async fn full(call: Call) -> Answer {
    report(&call.office, &Dependency::ALL)
}

/// `GET /ready`: 503 from the moment that the process is asked to end, while it still takes traffic.
pub async fn ready(call: Call) -> Answer {
    let ready = !call.office.telemetry.lifecycle.is_leaving() && takes_traffic(&call.office);
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    with_status(status, &Readiness { ready, status: if ready { "ready" } else { "not_ready" } })
}

/// Tells whether traffic that comes is answered. Where state cannot be written, or the database of the nodes is away, changes
/// are refused and traffic goes on: were no node ready then, a balancer would take all of them out at once.
fn takes_traffic(office: &Office) -> bool {
    let needed = [Dependency::Proxy, Dependency::Scanner, Dependency::Persistence];
    let has_lost_track = office.members.as_ref().is_some_and(|members| members.has_lost_track());
    needed.into_iter().all(|dependency| office.telemetry.health.is_up(dependency))
        && office.records()
        && !has_lost_track
}

fn report(office: &Office, named: &[Dependency]) -> Answer {
    let healthy = is_healthy(office);
    let status = if healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let report = HealthReport {
        status: status_name(office),
        version: office.facts.build.version.clone(),
        dependencies: dependencies(office, named),
        reasons: reasons(office),
        warnings: warnings(office),
    };
    with_status(status, &report)
}

/// Returns what wants to be looked at: a clock that jumped, a licence's file that is not whole, a certificate that ends
/// soon, a Redis that is no help.
fn warnings(office: &Office) -> Vec<String> {
    let of_clock = office.recorder.clock_warnings();
    let torn =
        standing(office).unread.map(|_| "a file of the licence is not whole: the one before it counts");
    let of_redis = office.redis.as_ref().and_then(|reach| reach.trouble());
    let of_licence = torn.map(str::to_owned);
    let of_clock = of_clock.iter().map(ToString::to_string);
    of_clock.chain(of_licence).chain(infra::warnings(office)).chain(of_redis).collect()
}

/// Returns `up` or `down` for each dependency that is named.
pub fn dependencies(office: &Office, named: &[Dependency]) -> BTreeMap<&'static str, &'static str> {
    let state = |dependency| if is_well(office, dependency) { "up" } else { "down" };
    named.iter().map(|dependency| (dependency.as_str(), state(*dependency))).collect()
}

/// Returns `healthy` or `degraded`.
pub fn status_name(office: &Office) -> &'static str {
    if is_healthy(office) { "healthy" } else { "degraded" }
}

fn is_healthy(office: &Office) -> bool {
    Dependency::ALL.into_iter().all(|dependency| is_well(office, dependency))
}

/// Tells whether a dependency is up, and nothing of it is lost: traffic may come where the log of old traffic is damaged.
fn is_well(office: &Office, dependency: Dependency) -> bool {
    is_up(office, dependency) && !(dependency == Dependency::Persistence && office.audit.is_damaged())
}

/// Returns why the store, the audit log, the licence or the certificates are down. What else there is to say names files: it
/// is in the log alone.
fn reasons(office: &Office) -> BTreeMap<&'static str, String> {
    let told = [
        (Dependency::Persistence, why_not_kept(office)),
        (Dependency::License, standing(office).fault.map(|fault| fault.to_string())),
        (Dependency::Certificates, why_not_certified(office).map(str::to_owned)),
    ];
    told.into_iter().filter_map(|(dependency, why)| Some((dependency.as_str(), why?))).collect()
}

fn why_not_certified(office: &Office) -> Option<&'static str> {
    match office.telemetry.health.is_up(Dependency::Certificates) {
        false => Some("a certificate could not be read: the one before it is served"),
        true if infra::all_count(office) => None,
        true => Some("a certificate that is served has expired, or does not count yet"),
    }
}

fn why_not_kept(office: &Office) -> Option<String> {
    Some(match office.recorder.health() {
        _ if is_well(office, Dependency::Persistence) => return None,
        Health::Degraded(trouble) => trouble.to_string(),
        Health::Sound if !office.is_written() => "the store cannot be written to".to_owned(),
        Health::Sound if office.members.as_ref().is_some_and(|members| members.has_twin()) => {
            "another process runs as this node, on a copy of its state".to_owned()
        }
        Health::Sound if office.audit.is_damaged() => "the audit log is damaged".to_owned(),
        Health::Sound => match office.telemetry.health.reason(Dependency::Persistence) {
            Some(noted) => noted,
            None => "the nodes of the deployment are out of touch".to_owned(),
        },
    })
}

fn standing(office: &Office) -> Standing {
    office.licensing.standing(office.clock.now())
}

/// Tells whether a dependency is up; the audit log, the licence and the certificates are asked themselves.
fn is_up(office: &Office, dependency: Dependency) -> bool {
    let noted = office.telemetry.health.is_up(dependency);
    noted
        && match dependency {
            Dependency::Persistence => {
                let in_touch = office
                    .members
                    .as_ref()
                    .is_none_or(|members| members.is_in_touch() && !members.has_twin());
                in_touch && office.is_written() && office.recorder.health() == Health::Sound
            }
            Dependency::License => standing(office).fault.is_none(),
            Dependency::Certificates => infra::all_count(office),
            _ => true,
        }
}
