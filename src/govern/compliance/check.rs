//! The closed set of checks: what can be seen of a control from inside the gateway.
//!
//! A check is a function of the [`Facts`]. It is met, or not, or cannot be answered: a deployment without API keys
//! has no key that never expires, and none that does. What was seen is said in a sentence, with the call that shows
//! it again; figures of the audit log are shown by a query over the very period they were counted in.

mod parties;

use std::fmt::Write;

use jiff::SignedDuration;

use super::facts::Facts;
use super::facts::KeyFact;
use super::facts::PolicyFact;
use crate::access::role::Role;
use crate::policy::decision::Mode;
use crate::scan::threat::Category;

/// A key older than this should have been replaced.
const KEY_DAYS_MAX: i64 = 365;
/// A certificate that ends sooner needs attention.
const CERTIFICATE_DAYS_MIN: i64 = 14;
/// What counts as available.
const AVAILABILITY_MIN: f64 = 0.999;
/// More admin keys than this are no longer few.
const ADMIN_KEYS_MAX: usize = 3;

/// One check.
#[derive(Debug)]
pub struct Check {
    /// Its name in files of frameworks.
    pub name: &'static str,
    /// What it asks, as a question.
    pub asks: &'static str,
    look: fn(&Facts) -> Seen,
}

/// The answer to a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is as it should be.
    Met,
    /// It is not.
    Unmet,
    /// It cannot be told.
    Unknown,
}

/// What a check saw.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// The check.
    pub check: &'static str,
    /// What it asks.
    pub asks: &'static str,
    /// The answer.
    pub verdict: Verdict,
    /// What was seen, in a sentence.
    pub seen: String,
    /// The figure it rests on, where there is one.
    pub figure: Option<f64>,
    /// The call that shows it again.
    pub link: String,
}

struct Seen {
    verdict: Verdict,
    text: String,
    figure: Option<f64>,
    link: String,
}

impl Verdict {
    /// Returns the name used in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Unmet => "unmet",
            Self::Unknown => "unknown",
        }
    }
}

impl Check {
    /// Every check.
    pub const ALL: &'static [Self] = CHECKS;

    /// Returns the check of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        CHECKS.iter().find(|check| check.name == name)
    }

    /// Looks at the facts.
    pub fn run(&self, facts: &Facts) -> Evidence {
        let Seen { verdict, text, figure, link } = (self.look)(facts);
        Evidence { check: self.name, asks: self.asks, verdict, seen: text, figure, link }
    }
}

const fn check(name: &'static str, asks: &'static str, look: fn(&Facts) -> Seen) -> Check {
    Check { name, asks, look }
}

static CHECKS: &[Check] = &[
    check("secrets_stopped", "Does every policy mask or refuse secrets in requests?", |facts| {
        enforced(facts, Category::Secrets, Side::Request)
    }),
    check("pii_stopped", "Does every policy mask or refuse personal data in requests?", |facts| {
        enforced(facts, Category::Pii, Side::Request)
    }),
    check("pii_stopped_in_answers", "Does every policy mask or refuse personal data in answers?", |facts| {
        enforced(facts, Category::Pii, Side::Response)
    }),
    check("secrets_stopped_in_answers", "Does every policy mask or refuse secrets in answers?", |facts| {
        enforced(facts, Category::Secrets, Side::Response)
    }),
    check("injection_stopped", "Does every policy refuse injections in requests?", |facts| {
        enforced(facts, Category::Injection, Side::Request)
    }),
    check("exfiltration_stopped", "Does every policy stop leaks in answers?", |facts| {
        enforced(facts, Category::Exfiltration, Side::Response)
    }),
    check("policies_fail_closed", "Is what cannot be inspected refused?", |facts| {
        all("policies refuse what cannot be inspected", "/api/v1/policies", &facts.policies, |it| {
            it.fails_closed
        })
    }),
    check("tools_pinned", "Are changed definitions of tools noticed?", |facts| {
        all("policies look for changed tools", "/api/v1/policies", &facts.policies, |it| it.pins_tools)
    }),
    check("traffic_inspected", "Does nothing pass a route uninspected?", |facts| {
        all("routes let nothing pass uninspected", "/api/v1/config", &facts.routes, |it| !it.passes_upgrades)
    }),
    check("gateway_keys_required", "Does every route ask for a key of the gateway?", |facts| {
        all("routes ask for a key of the gateway", "/api/v1/config", &facts.routes, |it| it.takes_keys)
    }),
    check("providers_over_tls", "Are all providers reached over TLS?", |facts| {
        all(
            "routes reach their provider over TLS, or on this machine",
            "/api/v1/config",
            &facts.routes,
            |it| it.is_private,
        )
    }),
    check("listeners_over_tls", "Do all listeners speak TLS, or only to this machine?", |facts| {
        all("listeners speak TLS, or only to this machine", "/api/v1/config", &facts.listeners, |it| {
            it.has_tls || it.is_local
        })
    }),
    check("certificates_valid", "Is every certificate good for two more weeks?", certificates),
    check("keys_expire", "Does every API key end some day?", |facts| {
        all("API keys end some day", "/api/v1/keys", &facts.keys, |it| it.expires_at.is_some())
    }),
    check("keys_rotated", "Was every API key made within a year?", |facts| {
        all("API keys were made within a year", "/api/v1/keys", &facts.keys, |it| {
            facts.at.duration_since(it.text_since) <= days(KEY_DAYS_MAX)
        })
    }),
    check("keys_budgeted", "Has every API key that uses providers a budget?", |facts| {
        let spending: Vec<&KeyFact> =
            facts.keys.iter().filter(|it| matches!(it.role, Role::Service | Role::Agent)).collect();
        all("API keys of services have a budget", "/api/v1/keys", &spending, |it| it.has_budget)
    }),
    check("least_privilege", "Are admin keys few, and other work done with lesser ones?", least_privilege),
    check("denials_recorded", "Are refused calls of the management API in the record?", |facts| {
        recorded(facts, "access_denied", "refused calls")
    }),
    check("key_changes_recorded", "Are new and revoked keys in the record?", |facts| {
        recorded(facts, "key_created", "new API keys")
    }),
    check("changes_recorded", "Are changes of the configuration in the record?", |facts| {
        recorded(facts, "config_changed", "changes of the configuration")
    }),
    check("logins_recorded", "Are logins in the record?", |facts| recorded(facts, "login", "logins")),
    check("exchanges_recorded", "Are exchanges with providers in the record?", |facts| {
        recorded(facts, "exchange", "exchanges")
    }),
    check("erasures_recorded", "Are erasures of personal data in the record?", |facts| {
        recorded(facts, "entity_erased", "erasures")
    }),
    check("exports_recorded", "Are exports of personal data in the record?", |facts| {
        recorded(facts, "entity_exported", "exports")
    }),
    check("holds_recorded", "Are legal holds in the record?", |facts| {
        recorded(facts, "hold_created", "legal holds")
    }),
    check("injections_found", "Are attempted injections found and recorded?", |facts| {
        found(facts, Category::Injection)
    }),
    check("leaks_found", "Are leaks found and recorded?", |facts| found(facts, Category::Exfiltration)),
    check("pii_found", "Is personal data in traffic found and recorded?", |facts| {
        found(facts, Category::Pii)
    }),
    check("secrets_found", "Are secrets in traffic found and recorded?", |facts| {
        found(facts, Category::Secrets)
    }),
    check("audit_writable", "Can the audit log be written?", |facts| {
        let text = if facts.audit.is_writable {
            "the audit log can be written"
        } else {
            "the audit log cannot be written"
        };
        told(
            facts.audit.is_writable,
            text.to_owned(),
            Some(facts.audit.entries as f64),
            "/api/v1/persistence",
        )
    }),
    check("audit_fails_closed", "Does traffic stop while it cannot be recorded?", |facts| {
        let text = match facts.audit.fails_closed {
            true => "traffic is refused while the audit log cannot be written",
            false => "traffic goes on while the audit log cannot be written",
        };
        told(facts.audit.fails_closed, text.to_owned(), None, "/api/v1/config")
    }),
    check("audit_complete", "Did the audit log take every event?", |facts| match facts.audit.completeness {
        Some(share) => {
            let text = format!("the audit log took {:.3} % of its events since the start", share * 100.0);
            told(share >= 1.0, text, Some(share), "/api/v1/sla")
        }
        None => unknown("no event was recorded since the start", "/api/v1/sla"),
    }),
    check("audit_chain_intact", "Does the chain of the audit log hold together?", chain),
    check("audit_kept_90_days", "Is the audit log kept for 90 days?", |facts| kept(facts, 90)),
    check("audit_kept_6_months", "Is the audit log kept for six months?", |facts| kept(facts, 183)),
    check("audit_kept_1_year", "Is the audit log kept for a year?", |facts| kept(facts, 365)),
    check("audit_kept_6_years", "Is the audit log kept for six years?", |facts| kept(facts, 2_191)),
    check("licence_valid", "Does the licence count?", |facts| match &facts.license_fault {
        None => told(true, format!("the tier is {}", facts.tier.as_str()), None, "/api/v1/license/status"),
        Some(fault) => {
            told(false, format!("the licence does not count: {fault}"), None, "/api/v1/license/status")
        }
    }),
    check("requests_limited", "Has every caller a limit of requests?", |facts| {
        let text = if facts.is_rate_limited {
            "callers have a limit of requests a minute"
        } else {
            "callers have no limit"
        };
        told(facts.is_rate_limited, text.to_owned(), None, "/api/v1/tier")
    }),
    check("available", "Were 99.9 % of requests answered without an error of the gateway?", |facts| {
        match facts.availability {
            Some(share) => {
                let text =
                    format!("{:.3} % of requests since the start met no error of the gateway", share * 100.0);
                told(share >= AVAILABILITY_MIN, text, Some(share), "/api/v1/sla")
            }
            None => unknown("no request was answered since the start", "/api/v1/sla"),
        }
    }),
    check("state_persistent", "Does the record outlive the process?", |facts| {
        let text = if facts.is_persistent { "state is kept on disk" } else { "state is kept in memory only" };
        told(facts.is_persistent, text.to_owned(), None, "/api/v1/persistence")
    }),
    check(
        "configuration_versioned",
        "Is every change of the configuration kept, and can it be undone?",
        |facts| {
            let text = format!("revision {} is in force, and earlier ones are kept", facts.revision);
            told(facts.revision > 0, text, Some(facts.revision as f64), "/api/v1/config/revisions")
        },
    ),
    check("detection_proven", "Did every detector prove itself by its own examples?", |facts| {
        let text = format!("{} detectors and rules proved themselves", facts.proven);
        told(facts.proven > 0, text, Some(facts.proven as f64), "/api/v1/policies")
    }),
    check("usage_metered", "Is it known who used which model, and how much?", |facts| {
        let link = format!("/api/v1/analytics/usage?from={}&to={}", facts.since, facts.at);
        match facts.usage {
            (0, _) => unknown("no exchange was counted in the last 30 days", &link),
            (requests, tokens) => {
                let text =
                    format!("{requests} exchanges with {tokens} tokens were counted in the last 30 days");
                told(true, text, Some(requests as f64), &link)
            }
        }
    }),
    check("record_forwarded", "Is the audit log forwarded to another system?", parties::forwarded),
    check("record_delivered", "Did every platform take what it was sent last?", parties::delivered),
    check("record_delivered_in_time", "Does nothing wait for long to be forwarded?", parties::timely),
    check("record_delivered_whole", "Did every platform take every entry?", parties::taken_whole),
    check(
        "agents_known",
        "Are agents known by certificates, and granted what they may do?",
        parties::agents_known,
    ),
    check("agents_not_replayed", "Does what an agent signed count only once?", parties::agents_not_replayed),
    check("agents_revocable", "Can the certificate of an agent be taken back?", parties::agents_revocable),
    check("agents_trust_enforced", "Are agents that misbehave kept out?", parties::agents_trusted),
    check("sign_in_central", "Do people sign in at an identity provider only?", parties::signed_in_centrally),
    check("roles_mapped", "Do only groups that are mapped give a role?", parties::roles_mapped),
    check("sessions_end", "Do sessions end after an hour without a request, and within a day?", |facts| {
        parties::sessions_end(facts, 60)
    }),
    check("sessions_end_in_15_minutes", "Do sessions end after 15 minutes without a request?", |facts| {
        parties::sessions_end(facts, 15)
    }),
];

#[derive(Clone, Copy)]
enum Side {
    Request,
    Response,
}

fn told(is_met: bool, text: String, figure: Option<f64>, link: &str) -> Seen {
    let verdict = if is_met { Verdict::Met } else { Verdict::Unmet };
    Seen { verdict, text, figure, link: link.to_owned() }
}

fn unknown(text: &str, link: &str) -> Seen {
    Seen { verdict: Verdict::Unknown, text: text.to_owned(), figure: None, link: link.to_owned() }
}

/// Is met where all are as they should be; cannot be told where there is none.
fn all<T>(what: &str, link: &str, things: &[T], is_good: impl Fn(&T) -> bool) -> Seen {
    if things.is_empty() {
        return unknown(
            &format!("there are no {}", what.split_once(' ').map_or(what, |(noun, _)| noun)),
            link,
        );
    }
    let good = things.iter().filter(|thing| is_good(thing)).count();
    told(good == things.len(), format!("{good} of {} {what}", things.len()), Some(good as f64), link)
}

fn enforced(facts: &Facts, category: Category, side: Side) -> Seen {
    let least = if category == Category::Injection { Mode::Block } else { Mode::Redact };
    let mode = |policy: &PolicyFact| {
        let (request, response) = policy.modes.get(&category).copied().unwrap_or((Mode::Off, Mode::Off));
        match side {
            Side::Request => request,
            Side::Response => response,
        }
    };
    let mut seen = all(
        &format!("policies stop {} there", category.as_str()),
        "/api/v1/policies",
        &facts.policies,
        |policy| mode(policy) >= least,
    );
    if seen.verdict == Verdict::Unmet {
        let lax = facts.policies.iter().filter(|policy| mode(policy) < least);
        let names: Vec<String> = lax.map(|it| format!("{} ({})", it.id, mode(it).as_str())).collect();
        // Writing to a text cannot fail.
        let _ = write!(seen.text, "; not {}", names.join(", "));
    }
    seen
}

fn certificates(facts: &Facts) -> Seen {
    let link = "/api/v1/certs";
    let ends: Vec<_> = facts.listeners.iter().filter_map(|it| it.certificate_ends).collect();
    let Some(first) = ends.iter().min() else { return unknown("there are no certificates", link) };
    let left = first.duration_since(facts.at).as_hours() / 24;
    let text = format!("the first certificate to end has {left} days left");
    told(left >= CERTIFICATE_DAYS_MIN, text, Some(left as f64), link)
}

fn least_privilege(facts: &Facts) -> Seen {
    let link = "/api/v1/keys";
    if facts.keys.is_empty() {
        return unknown("there are no API keys", link);
    }
    let admins = facts.keys.iter().filter(|key| key.role == Role::Admin).count();
    let lesser = facts.keys.len() - admins;
    let text = format!("{admins} API keys are of admins, {lesser} of lesser roles");
    told(admins <= ADMIN_KEYS_MAX && lesser > 0, text, Some(admins as f64), link)
}

/// Is met where such entries are there; where there are none, there may have been nothing to record.
fn recorded(facts: &Facts, event_type: &str, what: &str) -> Seen {
    let link = format!("/api/v1/audit?event_type={event_type}&from={}&to={}", facts.since, facts.at);
    match facts.events.get(event_type).copied().unwrap_or_default() {
        0 => unknown(&format!("no {what} in the last 30 days"), &link),
        count => told(
            true,
            format!("{count} {what} in the last 30 days are in the record"),
            Some(count as f64),
            &link,
        ),
    }
}

fn found(facts: &Facts, category: Category) -> Seen {
    let name = category.as_str();
    let link = format!("/api/v1/audit?category={name}&from={}&to={}", facts.since, facts.at);
    let looked_for = facts.policies.iter().all(|it| {
        it.modes.get(&category).is_some_and(|(request, response)| *request.max(response) > Mode::Off)
    });
    let count = facts.findings.get(name).copied().unwrap_or_default();
    match (looked_for && !facts.policies.is_empty(), count) {
        (false, _) => told(false, format!("not every policy looks for {name}"), Some(count as f64), &link),
        (true, 0) => unknown(&format!("{name} is looked for, and was not found in the last 30 days"), &link),
        (true, _) => {
            let text = format!("{count} exchanges of the last 30 days whose gravest finding is {name}");
            told(true, text, Some(count as f64), &link)
        }
    }
}

fn chain(facts: &Facts) -> Seen {
    let link = format!("/api/v1/audit?limit=1&to={}", facts.at);
    match &facts.audit.chain {
        None => unknown("the chain is being verified", &link),
        Some(chain) => match &chain.fault {
            None => {
                let text = format!("{} entries held together at {}", chain.entries, chain.at);
                told(true, text, Some(chain.entries as f64), &link)
            }
            Some(fault) => {
                told(false, format!("at {}: {fault}", chain.at), Some(chain.entries as f64), &link)
            }
        },
    }
}

fn kept(facts: &Facts, least: u64) -> Seen {
    let (days, link) = (facts.audit.retention_days, "/api/v1/persistence");
    let text = days.map_or("audit entries are kept for ever".to_owned(), |it| {
        format!("audit entries are kept {it} days")
    });
    let is_meant = days.is_none_or(|days| days >= least);
    let oldest = facts.audit.oldest_days.unwrap_or_default();
    match facts.audit.retention_bytes.filter(|_| is_meant && oldest < least) {
        // What is dropped for its size goes however young it is; only an old entry shows that it did not.
        Some(bytes) => {
            let sooner = format!("those past {bytes} bytes go sooner, and the oldest is {oldest} days old");
            unknown(&format!("{text}; {sooner}"), link)
        }
        None => told(is_meant, text, days.map(|days| days as f64), link),
    }
}

fn days(count: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * count)
}
