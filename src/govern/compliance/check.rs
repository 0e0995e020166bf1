//! The closed set of checks: what can be seen of a control from inside the gateway.
//!
//! A check is a function of the [`Facts`]. It is met, or not, or cannot be answered: a deployment without API keys
//! has no key that never expires, and none that does. What was seen is said in a sentence, with the calls that show
//! it again, all of which an auditor may make: figures of the audit log are shown by queries over the very period they
//! were counted in; what an auditor may not read (policies, keys, the configuration) is shown item by item as the
//! evidence of the check.

mod access;
mod parties;
mod policies;
mod record;
mod techniques;

use super::facts::Facts;
use crate::scan::threat::Category;

use self::policies::Side;
pub use self::record::counted_types;

/// The check that can be narrowed to the techniques that a control names.
pub const TECHNIQUES: &str = "techniques_looked_for";

/// A certificate that ends sooner needs attention.
const CERTIFICATE_DAYS_MIN: i64 = 14;
/// What counts as available.
const AVAILABILITY_MIN: f64 = 0.999;
/// The most items of one check that are shown; those that are not as they should be come first.
const ITEMS_MAX: usize = 1000;
/// The most items that a sentence names.
const ITEMS_NAMED_MAX: usize = 5;

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
    /// A part of it is.
    Partial,
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
    /// The calls that show it again; a figure with several is the sum of theirs.
    pub links: Vec<String>,
    /// What it goes by where no other call shows that to an auditor, what is not as it should be first.
    pub items: Vec<Item>,
    /// How many items there are in all.
    pub items_total: usize,
}

/// One of the things that a check goes by.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// What it is: the id of a policy or a key, the name of a route.
    pub name: String,
    /// Whether it is as it should be.
    pub is_good: bool,
    /// What was seen of it.
    pub seen: String,
}

struct Seen {
    verdict: Verdict,
    text: String,
    figure: Option<f64>,
    shown: Shown,
}

/// How what was seen is shown again.
enum Shown {
    /// By these calls.
    Calls(Vec<String>),
    /// By the items themselves, of which there are so many.
    Items(Vec<Item>, usize),
}

impl Item {
    fn new(name: &str, is_good: bool, seen: String) -> Self {
        Self { name: name.to_owned(), is_good, seen }
    }
}

impl Verdict {
    /// Returns the name used in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Partial => "partial",
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
        self.evidence((self.look)(facts), "")
    }

    /// Looks whether these techniques are looked for, as [`TECHNIQUES`] does for all that are known.
    pub fn techniques(facts: &Facts, ids: &[String]) -> Evidence {
        let seen = techniques::looked_for(facts, ids.iter().map(String::as_str));
        LOOKED_FOR.evidence(seen, &format!("&techniques={}", ids.join(",")))
    }

    fn evidence(&self, seen: Seen, narrowed: &str) -> Evidence {
        let Seen { verdict, text, figure, shown } = seen;
        let (links, items, items_total) = match shown {
            Shown::Calls(links) => (links, Vec::new(), 0),
            Shown::Items(items, total) => {
                (vec![format!("/api/v1/compliance/evidence?check={}{narrowed}", self.name)], items, total)
            }
        };
        Evidence { check: self.name, asks: self.asks, verdict, seen: text, figure, links, items, items_total }
    }
}

const fn check(name: &'static str, asks: &'static str, look: fn(&Facts) -> Seen) -> Check {
    Check { name, asks, look }
}

const LOOKED_FOR: Check =
    check(TECHNIQUES, "Is every technique looked for, with all that shows it?", techniques::every);

static CHECKS: &[Check] = &[
    check("secrets_stopped", "Does every policy mask or refuse secrets in requests?", |facts| {
        policies::enforced(facts, Category::Secrets, Side::Request)
    }),
    check("pii_stopped", "Does every policy mask or refuse personal data in requests?", |facts| {
        policies::enforced(facts, Category::Pii, Side::Request)
    }),
    check("pii_stopped_in_answers", "Does every policy mask or refuse personal data in answers?", |facts| {
        policies::enforced(facts, Category::Pii, Side::Response)
    }),
    check("secrets_stopped_in_answers", "Does every policy mask or refuse secrets in answers?", |facts| {
        policies::enforced(facts, Category::Secrets, Side::Response)
    }),
    check("injection_stopped", "Does every policy refuse injections in requests?", |facts| {
        policies::enforced(facts, Category::Injection, Side::Request)
    }),
    check("exfiltration_stopped", "Does every policy stop leaks in answers?", |facts| {
        policies::enforced(facts, Category::Exfiltration, Side::Response)
    }),
    check("policies_fail_closed", "Is what cannot be inspected refused?", policies::fail_closed),
    check("tools_pinned", "Are changed definitions of tools noticed?", policies::tools_pinned),
    check("traffic_inspected", "Does nothing pass a route uninspected?", traffic_inspected),
    check("gateway_keys_required", "Does every route ask for a key of the gateway?", gateway_keys_required),
    check("providers_over_tls", "Are all providers reached over TLS?", providers_over_tls),
    check("listeners_over_tls", "Do all listeners speak TLS, or only to this machine?", listeners_over_tls),
    check("certificates_valid", "Is every certificate good for two more weeks?", certificates),
    check("keys_expire", "Does every API key end some day?", access::keys_expire),
    check("keys_rotated", "Was every API key made within a year?", access::keys_rotated),
    check("keys_budgeted", "Has every API key that uses providers a budget?", access::keys_budgeted),
    check(
        "least_privilege",
        "Are admin keys few, and other work done with lesser ones?",
        access::least_privilege,
    ),
    check(
        "access_in_use",
        "Was every API key and every user that may come in used within 90 days?",
        access::in_use,
    ),
    check("denials_recorded", "Are refused calls of the management API in the record?", |facts| {
        record::recorded(facts, &record::DENIALS)
    }),
    check("key_changes_recorded", "Are new, changed and revoked keys in the record?", |facts| {
        record::recorded(facts, &record::KEY_CHANGES)
    }),
    check("changes_recorded", "Are changes of the configuration in the record?", |facts| {
        record::recorded(facts, &record::CHANGES)
    }),
    check("logins_recorded", "Are logins in the record?", |facts| record::recorded(facts, &record::LOGINS)),
    check("exchanges_recorded", "Are exchanges with providers and between agents in the record?", |facts| {
        record::recorded(facts, &record::EXCHANGES)
    }),
    check("erasures_recorded", "Are erasures of personal data in the record?", |facts| {
        record::recorded(facts, &record::ERASURES)
    }),
    check("exports_recorded", "Are exports of personal data in the record?", |facts| {
        record::recorded(facts, &record::EXPORTS)
    }),
    check("holds_recorded", "Are legal holds in the record?", |facts| {
        record::recorded(facts, &record::HOLDS)
    }),
    check("injections_found", "Are attempted injections found and recorded?", |facts| {
        policies::found(facts, Category::Injection)
    }),
    check("leaks_found", "Are leaks found and recorded?", |facts| {
        policies::found(facts, Category::Exfiltration)
    }),
    check("pii_found", "Is personal data in traffic found and recorded?", |facts| {
        policies::found(facts, Category::Pii)
    }),
    check("secrets_found", "Are secrets in traffic found and recorded?", |facts| {
        policies::found(facts, Category::Secrets)
    }),
    check("audit_writable", "Can the audit log be written?", record::writable),
    check("audit_fails_closed", "Does traffic stop while it cannot be recorded?", |facts| {
        let text = match facts.audit.fails_closed {
            true => "traffic is refused while the audit log cannot be written",
            false => "traffic goes on while the audit log cannot be written",
        };
        one("audit", facts.audit.fails_closed, text)
    }),
    check("audit_complete", "Did the audit log take every event?", record::complete),
    check("audit_chain_intact", "Does the chain of the audit log hold together?", record::chain),
    check("audit_kept_90_days", "Is the audit log kept for 90 days?", |facts| record::kept(facts, 90)),
    check("audit_kept_6_months", "Is the audit log kept for six months?", |facts| record::kept(facts, 183)),
    check("audit_kept_1_year", "Is the audit log kept for a year?", |facts| record::kept(facts, 365)),
    check("audit_kept_6_years", "Is the audit log kept for six years?", |facts| record::kept(facts, 2_191)),
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
            told(facts.revision > 0, text, Some(facts.revision as f64), "/api/v1/status")
        },
    ),
    check("detection_proven", "Did every detector prove itself by its own examples?", proven),
    LOOKED_FOR,
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

fn told(is_met: bool, text: String, figure: Option<f64>, link: &str) -> Seen {
    let verdict = if is_met { Verdict::Met } else { Verdict::Unmet };
    Seen { verdict, text, figure, shown: Shown::Calls(vec![link.to_owned()]) }
}

fn unknown(text: &str, link: &str) -> Seen {
    Seen { verdict: Verdict::Unknown, ..told(false, text.to_owned(), None, link) }
}

fn shown(is_met: bool, text: String, figure: Option<f64>, items: impl Iterator<Item = Item>) -> Seen {
    let verdict = if is_met { Verdict::Met } else { Verdict::Unmet };
    let mut items: Vec<Item> = items.collect();
    let total = items.len();
    items.sort_by_key(|item| item.is_good);
    items.truncate(ITEMS_MAX);
    Seen { verdict, text, figure, shown: Shown::Items(items, total) }
}

fn unknown_of_items(text: &str) -> Seen {
    Seen { verdict: Verdict::Unknown, ..shown(false, text.to_owned(), None, std::iter::empty()) }
}

/// Is met where the one thing that is looked at is as it should be.
fn one(name: &str, is_good: bool, text: &str) -> Seen {
    let item = Item::new(name, is_good, text.to_owned());
    shown(is_good, text.to_owned(), None, std::iter::once(item))
}

/// Is met where all are as they should be; cannot be told where there is none.
fn all<T>(what: &str, things: &[T], look: impl Fn(&T) -> Item) -> Seen {
    if things.is_empty() {
        let noun = what.split_once(' ').map_or(what, |(noun, _)| noun);
        return unknown_of_items(&format!("there are no {noun}"));
    }
    let items: Vec<Item> = things.iter().map(look).collect();
    let good = items.iter().filter(|item| item.is_good).count();
    let text = format!("{good} of {} {what}", things.len());
    shown(good == things.len(), text, Some(good as f64), items.into_iter())
}

/// Returns the query of the audit log that shows what was counted of the period.
fn audit_call(filter: &str, value: &str, facts: &Facts) -> String {
    format!("/api/v1/audit?{filter}={value}&from={}&to={}", facts.since, facts.at)
}

fn traffic_inspected(facts: &Facts) -> Seen {
    all("routes let nothing pass uninspected", &facts.routes, |it| {
        let what = if it.passes_upgrades { "pass uninspected" } else { "are inspected, or refused" };
        Item::new(&it.name, !it.passes_upgrades, format!("connections that are upgraded {what}"))
    })
}

fn gateway_keys_required(facts: &Facts) -> Seen {
    all("routes ask for a key of the gateway", &facts.routes, |it| {
        let what = if it.takes_keys { "asks" } else { "does not ask" };
        Item::new(&it.name, it.takes_keys, format!("{what} for a key of the gateway"))
    })
}

fn providers_over_tls(facts: &Facts) -> Seen {
    all("routes reach their provider over TLS, or on this machine", &facts.routes, |it| {
        let how = if it.is_private { "over TLS, or on this machine" } else { "in plain text" };
        Item::new(&it.name, it.is_private, format!("reaches its provider {how}"))
    })
}

fn listeners_over_tls(facts: &Facts) -> Seen {
    all("listeners speak TLS, or only to this machine", &facts.listeners, |it| {
        let how = match (it.has_tls, it.is_local) {
            (true, _) => "speaks TLS",
            (false, true) => "speaks plain text to this machine only",
            (false, false) => "speaks plain text to others",
        };
        Item::new(it.name, it.has_tls || it.is_local, how.to_owned())
    })
}

fn certificates(facts: &Facts) -> Seen {
    let link = "/api/v1/certs";
    let ends: Vec<_> = facts.listeners.iter().filter_map(|it| it.certificate_ends).collect();
    let Some(first) = ends.iter().min() else { return unknown("there are no certificates", link) };
    let left = first.duration_since(facts.at).as_hours() / 24;
    let text = format!("the first certificate to end has {left} days left");
    told(left >= CERTIFICATE_DAYS_MIN, text, Some(left as f64), link)
}

/// A pack whose detectors do not prove themselves is not in force.
fn proven(facts: &Facts) -> Seen {
    let count: usize = facts.proven.values().sum();
    let text = format!("{count} detectors and rules proved themselves");
    let items = facts
        .proven
        .iter()
        .map(|(pack, count)| Item::new(pack, true, format!("{count} detectors and rules")));
    shown(count > 0, text, Some(count as f64), items)
}
