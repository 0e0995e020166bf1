//! Gathers what reports of compliance go by, from every part of the process.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use jiff::SignedDuration;
use jiff::Timestamp;
use serde_json::Value;
use x509_parser::parse_x509_certificate;

use super::parties;
use crate::access::key::KeyRecord;
use crate::admin::Office;
use crate::admin::error::ApiError;
use crate::govern::analytics::Period;
use crate::govern::analytics::figures::Count;
use crate::govern::audit::Health;
use crate::govern::audit::Query;
use crate::govern::compliance::check::counted_types;
use crate::govern::compliance::facts::AuditFact;
use crate::govern::compliance::facts::CategoryFact;
use crate::govern::compliance::facts::DETECTORS_NAMED_MAX;
use crate::govern::compliance::facts::Facts;
use crate::govern::compliance::facts::KeyFact;
use crate::govern::compliance::facts::ListenerFact;
use crate::govern::compliance::facts::PERIOD_DAYS;
use crate::govern::compliance::facts::PolicyFact;
use crate::govern::compliance::facts::RouteFact;
use crate::govern::compliance::facts::TechniqueFact;
use crate::policy::decision::Action;
use crate::policy::decision::DetectorRules;
use crate::policy::decision::Direction;
use crate::policy::decision::FailMode;
use crate::policy::route::Route;
use crate::policy::route::RouteAuth;
use crate::policy::ruleset::Policy;
use crate::policy::ruleset::Ruleset;
use crate::scan::threat::Category;
use crate::store::StoreError;
use crate::tls;

/// The rule that notices changed tools.
const TOOL_CHANGED: &str = "tool_definition_changed";
const IN_MEMORY: &str = "in-memory";

/// Gathers the facts of this moment.
///
/// # Errors
/// The audit log or the store failed.
pub(super) async fn gather(office: &Office) -> Result<Facts, ApiError> {
    let at = office.clock.now();
    let since = at - SignedDuration::from_hours(24 * PERIOD_DAYS);
    let (events, findings) = (events(office, since, at).await?, findings(office, since, at).await?);
    let log = office.audit.status().await.map_err(|_| ApiError::Unavailable)?;
    let rules = office.reloader.handle().load();
    let document = office.reloader.current().document.to_json();
    let standing = office.licensing.standing(at);
    let audit = AuditFact {
        is_writable: match office.recorder.health() {
            Health::Sound => true,
            Health::Degraded(trouble) => trouble.writable(),
        },
        fails_closed: !office.facts.without_record,
        retention_days: log.retention_age.map(|age| age.as_secs() / 86_400),
        retention_bytes: log.retention_bytes,
        oldest_days: log.oldest.map(|oldest| (at.duration_since(oldest).as_secs() / 86_400).max(0) as u64),
        entries: log.entry_count,
        completeness: office.telemetry.metrics.audit_completeness(),
        chain: office.compliance.chain(),
    };
    Ok(Facts {
        at,
        since,
        node: office.facts.node_id.clone(),
        routes: rules.routes.iter().map(route).collect(),
        listeners: listeners(office, document).await?,
        keys: keys(office, at).await?,
        audit,
        events,
        findings,
        tier: standing.tier,
        license_fault: standing.fault.map(|fault| fault.to_string()),
        is_rate_limited: office.buckets.quota(standing.tier).is_some(),
        availability: office.telemetry.metrics.availability(),
        is_persistent: office.store.backend_name() != IN_MEMORY,
        revision: rules.revision,
        proven: proven(&rules),
        usage: usage(office, since, at).await?,
        sinks: parties::sinks(office, at).await?,
        agents: parties::agents(office, &rules),
        sign_in: parties::sign_in(office),
        policies: policies(office, rules).await?,
    })
}

/// Returns how many entries a query finds.
async fn total(office: &Office, query: Query) -> Result<u64, ApiError> {
    let page = office.audit.query(Query { limit: 1, ..query }).await;
    page.map(|page| page.total).map_err(|_| ApiError::Unavailable)
}

async fn events(
    office: &Office,
    from: Timestamp,
    to: Timestamp,
) -> Result<BTreeMap<&'static str, u64>, ApiError> {
    let mut counts = BTreeMap::new();
    for name in counted_types() {
        let event_type = Some(name.to_owned());
        let query = Query { event_type, from: Some(from), to: Some(to), ..Query::default() };
        counts.insert(name, total(office, query).await?);
    }
    Ok(counts)
}

async fn findings(
    office: &Office,
    from: Timestamp,
    to: Timestamp,
) -> Result<BTreeMap<&'static str, u64>, ApiError> {
    let mut counts = BTreeMap::new();
    for category in Category::ALL {
        let query = Query { category: Some(category), from: Some(from), to: Some(to), ..Query::default() };
        counts.insert(category.as_str(), total(office, query).await?);
    }
    Ok(counts)
}

/// Returns the policies that decide on some route, with what each does about every detector.
async fn policies(office: &Office, rules: Arc<Ruleset>) -> Result<Vec<PolicyFact>, ApiError> {
    let read = tokio::task::spawn_blocking(move || {
        let decides = |policy: &&Arc<Policy>| rules.routes.iter().any(|route| route.policy == policy.id);
        rules.policies.values().filter(decides).map(|policy| policy_fact(&rules, policy)).collect()
    });
    read.await.map_err(|_| office.panicked())
}

fn policy_fact(rules: &Ruleset, policy: &Policy) -> PolicyFact {
    let mut categories: BTreeMap<Category, CategoryFact> =
        Category::ALL.into_iter().map(|category| (category, CategoryFact::default())).collect();
    let mut techniques: BTreeMap<String, TechniqueFact> = BTreeMap::new();
    let mut pins_tools = false;
    for id in rules.all().iter() {
        let (Some(kind), Some(done)) = (rules.kind(id), policy.decisions().rules(id)) else { continue };
        pins_tools |= kind.name == TOOL_CHANGED && policy.wanted(Direction::Request).contains(id);
        // What is for whoever names it leaves no gap where nobody does.
        if rules.is_named_only(id) {
            continue;
        }
        let [request, response] = Direction::ALL.map(|way| of_surest(done, way));
        let fact = categories.entry(kind.category).or_default();
        fact.request.note(request, kind.name);
        fact.response.note(response, kind.name);
        fact.either.note(request.max(response), kind.name);
        let named: BTreeSet<&str> = kind.techniques.iter().flat_map(|it| with_whole(it)).collect();
        for technique in named {
            let fact = techniques.entry(technique.to_owned()).or_default();
            fact.coverage.note(request.max(response), kind.name);
            if rules.layer2.rule(id).is_some() && fact.rules.len() < DETECTORS_NAMED_MAX {
                fact.rules.push(kind.name.to_owned());
            }
        }
    }
    let fails_closed = policy.fail_mode == FailMode::Closed;
    PolicyFact { id: policy.id.as_str().to_owned(), categories, techniques, fails_closed, pins_tools }
}

/// Returns a technique, and before it the one it is a part of: ATLAS numbers the parts of `AML.T0051` `AML.T0051.001`.
fn with_whole(id: &str) -> impl Iterator<Item = &str> {
    let whole = id.strip_prefix("AML.").and_then(|number| number.split_once('.'));
    let whole = whole.and_then(|(number, _)| id.get(.."AML.".len() + number.len()));
    whole.into_iter().chain(std::iter::once(id))
}

/// Returns what is done about the surest finding of a detector: what is never as sure as asked for is only recorded.
fn of_surest(done: &DetectorRules, way: Direction) -> Action {
    done.rule(way).action(done.confidence_max)
}

/// Returns how many detectors, kinds of models and rules each pack has.
fn proven(rules: &Ruleset) -> BTreeMap<String, usize> {
    let mut packs = BTreeMap::new();
    for kind in rules.all().iter().filter_map(|id| rules.kind(id)) {
        *packs.entry(format!("{}@{}", kind.pack, kind.pack_version)).or_default() += 1;
    }
    packs
}

fn route(route: &Route) -> RouteFact {
    let is_here =
        |host: &str| host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    RouteFact {
        name: route.name.clone(),
        takes_keys: matches!(route.auth, RouteAuth::GatewayKey(_)),
        passes_upgrades: route.websocket_uninspected,
        is_private: route.upstreams.iter().all(|upstream| upstream.tls || is_here(&upstream.host)),
    }
}

/// Reads the listeners of the configuration, and their certificates.
async fn listeners(office: &Office, document: Value) -> Result<Vec<ListenerFact>, ApiError> {
    let read = tokio::task::spawn_blocking(move || {
        ["proxy", "admin"].map(|name| {
            let addresses = document.pointer(&format!("/{name}/listen"));
            let addresses: Vec<&str> = match addresses {
                Some(Value::String(one)) => vec![one],
                Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
                _ => Vec::new(),
            };
            let is_here = |address: &&str| {
                address.parse::<std::net::SocketAddr>().is_ok_and(|address| address.ip().is_loopback())
            };
            let cert = document.pointer(&format!("/{name}/tls/cert")).and_then(Value::as_str);
            ListenerFact {
                name,
                has_tls: cert.is_some_and(|cert| !cert.is_empty()),
                is_local: addresses.iter().all(is_here),
                certificate_ends: cert.and_then(|cert| ends(Path::new(cert))),
            }
        })
    });
    read.await.map(Vec::from).map_err(|_| office.panicked())
}

/// Returns when the first certificate of a file ends.
fn ends(path: &Path) -> Option<Timestamp> {
    let chain = tls::certificates(path).ok()?;
    let (_, certificate) = parse_x509_certificate(chain.first()?.as_ref()).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

async fn keys(office: &Office, at: Timestamp) -> Result<Vec<KeyFact>, ApiError> {
    let (keys, budgets) = (Arc::clone(&office.keys), Arc::clone(&office.budgets));
    let read = tokio::task::spawn_blocking(move || {
        let used = keys.last_uses()?;
        let fact = |key: KeyRecord| KeyFact {
            role: key.role,
            used_at: used.get(&key.id).copied().unwrap_or(key.created_at),
            text_since: key.rotated_at.unwrap_or(key.created_at),
            expires_at: key.expires_at,
            has_budget: budgets.of(&key.id, at).is_some(),
            id: key.id,
        };
        Ok(keys.list().into_iter().filter(|key| key.counts(at)).map(fact).collect())
    });
    let read: Result<Vec<KeyFact>, StoreError> = read.await.map_err(|_| office.panicked())?;
    read.map_err(|_| ApiError::Unavailable)
}

async fn usage(office: &Office, since: Timestamp, at: Timestamp) -> Result<(u64, u64), ApiError> {
    let meter = office.meter.clone();
    let days = tokio::task::spawn_blocking(move || meter.by_day(Period::touching(since, at))).await;
    let days = days.map_err(|_| office.panicked())?.map_err(|_| ApiError::Unavailable)?;
    let sum = |count: Count| days.values().map(|roll| roll.total[count]).sum();
    Ok((sum(Count::Requests), sum(Count::Total)))
}
