//! What checks see of the record: what is in it, that it is whole, and for how long it is kept.

use super::Seen;
use super::Shown;
use super::audit_call;
use super::told;
use super::unknown;
use crate::govern::compliance::facts::Facts;

/// Entries of one kind of event.
pub(super) struct Kind {
    /// What they are of, in the plural.
    what: &'static str,
    /// The types they have.
    types: &'static [&'static str],
}

pub(super) const DENIALS: Kind = Kind { what: "refused calls", types: &["access_denied"] };
pub(super) const KEY_CHANGES: Kind = Kind {
    what: "changes of API keys",
    types: &["key_created", "key_changed", "key_rotated", "key_revoked", "key_budget_changed"],
};
pub(super) const CHANGES: Kind = Kind {
    what: "changes of the configuration",
    types: &[
        "config_changed",
        "config_rolled_back",
        "policy_created",
        "policy_changed",
        "policy_removed",
        "profile_applied",
    ],
};
pub(super) const LOGINS: Kind =
    Kind { what: "logins, failed ones among them", types: &["login", "login_failed"] };
pub(super) const EXCHANGES: Kind =
    Kind { what: "exchanges", types: &["exchange", "a2a_granted", "a2a_denied"] };
pub(super) const ERASURES: Kind = Kind { what: "erasures", types: &["entity_erased"] };
pub(super) const EXPORTS: Kind = Kind { what: "exports", types: &["entity_exported"] };
pub(super) const HOLDS: Kind =
    Kind { what: "legal holds taken and released", types: &["hold_created", "hold_released"] };

/// Returns the types of audit entries that checks count.
pub fn counted_types() -> impl Iterator<Item = &'static str> {
    let kinds = [DENIALS, KEY_CHANGES, CHANGES, LOGINS, EXCHANGES, ERASURES, EXPORTS, HOLDS];
    kinds.into_iter().flat_map(|kind| kind.types).copied()
}

/// Is met where such entries are there; where there are none, there may have been nothing to record. The calls are of
/// the types that have entries: the figure is the sum of their totals.
pub(super) fn recorded(facts: &Facts, kind: &Kind) -> Seen {
    let of = |name: &str| facts.events.get(name).copied().unwrap_or_default();
    let call = |name: &&'static str| audit_call("event_type", name, facts);
    let count: u64 = kind.types.iter().map(|name| of(name)).sum();
    if count == 0 {
        let text = format!("no {} in the last 30 days", kind.what);
        let calls = kind.types.iter().map(call).collect();
        return Seen { shown: Shown::Calls(calls), ..unknown(&text, "") };
    }
    let calls = kind.types.iter().filter(|name| of(name) > 0).map(call).collect();
    let text = format!("{count} {} in the last 30 days are in the record", kind.what);
    Seen { shown: Shown::Calls(calls), ..told(true, text, Some(count as f64), "") }
}

/// Tells whether the log can be written.
pub(super) fn writable(facts: &Facts) -> Seen {
    let what = if facts.audit.is_writable { "can" } else { "cannot" };
    let text = format!("the audit log {what} be written");
    told(facts.audit.is_writable, text, Some(facts.audit.entries as f64), "/api/v1/persistence")
}

/// Tells whether the log took every event.
pub(super) fn complete(facts: &Facts) -> Seen {
    match facts.audit.completeness {
        Some(share) => {
            let text = format!("the audit log took {:.3} % of its events since the start", share * 100.0);
            told(share >= 1.0, text, Some(share), "/api/v1/sla")
        }
        None => unknown("no event was recorded since the start", "/api/v1/sla"),
    }
}

/// Tells whether the chain of this node held together when all of it was verified last.
pub(super) fn chain(facts: &Facts) -> Seen {
    let call = |to| format!("/api/v1/audit?limit=1&node={}&to={to}", facts.node);
    let Some(chain) = &facts.audit.chain else {
        return unknown("the chain is being verified", &call(facts.at));
    };
    let link = call(chain.until.unwrap_or(chain.at));
    match &chain.fault {
        None if chain.entries == 0 => unknown("the chain had no entries when it was verified last", &link),
        None => {
            let text =
                format!("{} entries of node {} held together at {}", chain.entries, facts.node, chain.at);
            told(true, text, Some(chain.entries as f64), &link)
        }
        Some(fault) => told(false, format!("node {} at {}: {fault}", facts.node, chain.at), None, &link),
    }
}

/// Tells whether entries are kept for so many days.
pub(super) fn kept(facts: &Facts, least: u64) -> Seen {
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
