//! `/api/v1/license/status`, `/api/v1/tier`, `/api/v1/sla`: what the deployment is entitled to, and how
//! well it serves.
//!
//! Every `current` is measured by this process since it began; where nothing was measured it is `n/a`.

use serde::Serialize;
use utoipa::ToSchema;

use crate::access::a2a::denial::Code;
use crate::access::license::Standing;
use crate::access::limit::UNLIMITED;
use crate::access::tier::Tier;
use crate::admin::Office;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::telemetry::metrics::AGENT_GRANTED;

/// When the community tier ends, which needs no licence.
const NEVER: &str = "9999-12-31T23:59:59Z";
const UNMEASURED: &str = "n/a";

/// How the licence stands.
#[derive(Serialize, ToSchema)]
pub struct LicenseStatus {
    /// The tier in force; `community` where the licence does not count.
    pub tier: &'static str,
    /// Whether the licence counts; true where none is needed.
    pub valid: bool,
    /// When it ends, in ISO 8601, whoever signed it; year 9999 where none is needed, null where what there is cannot be read.
    #[schema(required = true)]
    pub expires: Option<String>,
    /// Whose licence it is.
    pub subject: Option<String>,
    /// Why it does not count.
    pub reason: Option<String>,
}

/// The tier that the caller has: its own, and no more than the deployment's.
#[derive(Serialize, ToSchema)]
pub struct TierReport {
    /// The tier.
    pub tier: &'static str,
    /// What is enabled.
    pub features: Vec<String>,
    /// What callers of the tier may ask for.
    pub limits: TierLimits,
}

/// What callers of a tier may ask for.
#[derive(Serialize, ToSchema)]
pub struct TierLimits {
    /// Requests a minute; 2147483647 is unlimited.
    pub requests_per_minute: u64,
    /// Requests at once; 2147483647 is unlimited.
    pub burst: u64,
}

/// How well the deployment serves.
#[derive(Serialize, ToSchema)]
pub struct SlaReport {
    /// The tier in force.
    pub tier: &'static str,
    /// What the tier promises.
    pub sla: Sla,
    /// Objectives and where they are.
    pub slos: Vec<Slo>,
}

/// What a tier promises.
#[derive(Serialize, ToSchema)]
pub struct Sla {
    /// A share of the time, in percent.
    pub uptime_target: &'static str,
    /// What that means.
    pub description: &'static str,
}

/// One objective.
#[derive(Serialize, ToSchema)]
pub struct Slo {
    /// Its name.
    pub name: &'static str,
    /// What is aimed at.
    pub target: &'static str,
    /// What was measured since the process began, or `n/a`.
    pub current: String,
}

/// `GET /api/v1/license/status`.
pub async fn status(call: Call) -> Answer {
    ok(&told(call.office.licensing.standing(call.office.clock.now())))
}

fn told(standing: Standing) -> LicenseStatus {
    let never = || standing.fault.is_none().then(|| NEVER.to_owned());
    LicenseStatus {
        tier: standing.tier.as_str(),
        valid: standing.fault.is_none(),
        expires: standing.expires_at.map(|at| at.to_string()).or_else(never),
        subject: standing.subject,
        reason: standing.fault.map(|fault| fault.to_string()),
    }
}

/// `GET /api/v1/tier`.
pub async fn tier(call: Call) -> Answer {
    let standing = call.office.licensing.standing(call.office.clock.now());
    let tier = call.principal.as_ref().map_or(standing.tier, |known| known.tier.min(standing.tier));
    let mut features: Vec<String> = tier.features().map(str::to_owned).collect();
    // What the licence has beside its tier is for whoever has all of that.
    let extra = standing.features.into_iter().filter(|_| tier == standing.tier);
    features.extend(extra.filter(|extra| !features.contains(extra)).collect::<Vec<_>>());
    let quota = call.office.buckets.quota(tier);
    let limits = TierLimits {
        requests_per_minute: quota.map_or(UNLIMITED, |quota| u64::from(quota.requests_per_minute)),
        burst: quota.map_or(UNLIMITED, |quota| u64::from(quota.burst)),
    };
    ok(&TierReport { tier: tier.as_str(), features, limits })
}

/// `GET /api/v1/sla`.
pub async fn sla(call: Call) -> Answer {
    let tier = call.office.tier();
    ok(&SlaReport { tier: tier.as_str(), sla: promise(tier), slos: objectives(&call.office) })
}

fn promise(tier: Tier) -> Sla {
    let uptime_target = match tier {
        Tier::Community => {
            return Sla { uptime_target: "n/a", description: "Best effort; nothing is promised." };
        }
        Tier::Developer => "99.0%",
        Tier::Professional => "99.9%",
        Tier::Enterprise => "99.99%",
    };
    let description = "Share of requests answered without an error of the gateway, by month; what is measured is that since \
                       its start.";
    Sla { uptime_target, description }
}

fn objectives(office: &Office) -> Vec<Slo> {
    let metrics = &office.telemetry.metrics;
    let percent =
        |share: Option<f64>| share.map_or(UNMEASURED.to_owned(), |it| format!("{:.3}%", it * 100.0));
    let p99 = metrics.latency_quantile("admin", 0.99);
    let slo = |name, target, current| Slo { name, target, current };
    vec![
        slo(
            "api_latency_p99",
            "< 100ms",
            p99.map_or(UNMEASURED.to_owned(), |seconds| format!("{:.1}ms", seconds * 1e3)),
        ),
        slo("threat_detection_accuracy", ">= 99%", percent(proven_share(office))),
        slo("api_availability", ">= 99.9%", percent(metrics.availability())),
        slo("guardrail_enforcement_rate", "100%", percent(enforced_share(office))),
        slo("audit_log_completeness", "100%", percent(metrics.audit_completeness())),
    ]
}

/// Returns the share of agents' calls that the guardrails decided, and did not fail on; `None` before the first.
fn enforced_share(office: &Office) -> Option<f64> {
    let calls = |code: Code| office.telemetry.metrics.agent_calls(code.as_str());
    let failed: u64 = Code::ALL.into_iter().filter(|code| code.is_ours()).map(calls).sum();
    let denied: u64 = Code::ALL.into_iter().map(calls).sum();
    let all = denied + office.telemetry.metrics.agent_calls(AGENT_GRANTED);
    (all > 0).then(|| 1.0 - failed as f64 / all as f64)
}

/// Returns the share of the packs' examples, and of the results fed back to A/B tests, that came out right; of the
/// examples all do, because a scanner that fails one of its own is never published.
fn proven_share(office: &Office) -> Option<f64> {
    let rules = office.reloader.handle().load();
    let examples: usize = rules.scanner.detectors().iter().map(|it| it.finds.len() + it.ignores.len()).sum();
    let (reported, wrong) = office.abtests.reported();
    let all = examples as u64 + reported;
    (all > 0).then(|| all.saturating_sub(wrong) as f64 / all as f64)
}
