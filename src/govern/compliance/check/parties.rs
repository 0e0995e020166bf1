//! What checks see of whom the gateway works with: platforms that take its record, agents, identity providers.

use std::time::Duration;

use super::Item;
use super::Seen;
use super::one;
use super::shown;
use super::told;
use super::unknown;
use super::unknown_of_items;
use crate::govern::compliance::facts::Facts;
use crate::govern::compliance::facts::LATE_MINUTES;
use crate::govern::compliance::facts::SinkFact;

const SINKS: &str = "/api/v1/siem/status";
const AGENTS: &str = "/api/v1/guardrails";
/// A session that lives longer asks too seldom who is there.
const LIFETIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Tells whether something takes the record as it grows.
pub(super) fn forwarded(facts: &Facts) -> Seen {
    let count = facts.sinks.len();
    let text = match count {
        0 => "the audit log is forwarded to nobody".to_owned(),
        _ => format!("the audit log is forwarded to {count} platforms"),
    };
    told(count > 0, text, Some(count as f64), SINKS)
}

/// Tells whether each platform took what it was sent last.
pub(super) fn delivered(facts: &Facts) -> Seen {
    let asked: Vec<&SinkFact> = facts.sinks.iter().filter(|sink| sink.is_connected.is_some()).collect();
    if asked.len() < facts.sinks.len() {
        return unknown("not every platform was sent something since the start", SINKS);
    }
    of_sinks(&asked, "platforms took what they were sent last", |sink| sink.is_connected == Some(true))
}

/// Tells whether nothing waits for long.
pub(super) fn timely(facts: &Facts) -> Seen {
    let sinks: Vec<&SinkFact> = facts.sinks.iter().collect();
    let what = format!("platforms have all that is older than {LATE_MINUTES} minutes");
    of_sinks(&sinks, &what, |sink| sink.late == 0)
}

/// Tells whether platforms got every entry: refused none for good, and missed none that retention dropped before.
pub(super) fn taken_whole(facts: &Facts) -> Seen {
    let sinks: Vec<&SinkFact> = facts.sinks.iter().collect();
    of_sinks(&sinks, "platforms refused and missed no entry", |sink| sink.dead == 0 && sink.missed == 0)
}

fn of_sinks(sinks: &[&SinkFact], what: &str, is_good: impl Fn(&SinkFact) -> bool) -> Seen {
    if sinks.is_empty() {
        return unknown("the audit log is forwarded to nobody", SINKS);
    }
    let lacking: Vec<&str> =
        sinks.iter().filter(|sink| !is_good(sink)).map(|sink| sink.name.as_str()).collect();
    let good = sinks.len() - lacking.len();
    let except = if lacking.is_empty() { String::new() } else { format!("; not {}", lacking.join(", ")) };
    told(lacking.is_empty(), format!("{good} of {} {what}{except}", sinks.len()), Some(good as f64), SINKS)
}

/// Tells whether agents are known by certificates, and may do what they were granted only.
pub(super) fn agents_known(facts: &Facts) -> Seen {
    of_agents(facts, |facts| match facts.agents.known {
        Some(known) => {
            let text = format!("{known} agents are known by certificate, and have what a map grants them");
            told(true, text, Some(known as f64), AGENTS)
        }
        None => told(false, "no capability map is in force: every agent waits".to_owned(), None, AGENTS),
    })
}

/// Tells whether what an agent signed counts once, and only near its time.
pub(super) fn agents_not_replayed(facts: &Facts) -> Seen {
    of_agents(facts, |facts| {
        let window_s = facts.agents.replay_window_s;
        let (is_met, text) = match (window_s, facts.agents.signed_timestamp) {
            (0, _) => (false, "what an agent signed can be sent again".to_owned()),
            (_, false) => (false, "the time of a request is not part of what its agent signs".to_owned()),
            (_, true) if !facts.agents.is_replay_shared => (
                false,
                "what an agent signed counts once at each node: they do not tell each other".to_owned(),
            ),
            (_, true) => (true, format!("what an agent signed counts once, within {window_s} s of its time")),
        };
        told(is_met, text, Some(window_s as f64), AGENTS)
    })
}

/// Tells whether a certificate of an agent can be taken back.
pub(super) fn agents_revocable(facts: &Facts) -> Seen {
    of_agents(facts, |facts| {
        let text = match facts.agents.has_revocations {
            true => "certificates of agents count only with a revocation list that is in date",
            false => "revocations of certificates of agents are not looked up",
        };
        one("a2a.client_crl", facts.agents.has_revocations, text)
    })
}

/// Tells whether agents that misbehave are kept out.
pub(super) fn agents_trusted(facts: &Facts) -> Seen {
    of_agents(facts, |facts| {
        let text = match facts.agents.enforces_trust {
            true => "agents whose trust is used up are kept out",
            false => "trust in agents is only observed",
        };
        told(facts.agents.enforces_trust, text.to_owned(), None, AGENTS)
    })
}

fn of_agents(facts: &Facts, look: impl FnOnce(&Facts) -> Seen) -> Seen {
    match facts.agents.routes {
        0 => unknown_of_items("no route is for agents"),
        _ => look(facts),
    }
}

/// Tells whether people sign in at one place, where their access ends with their account.
pub(super) fn signed_in_centrally(facts: &Facts) -> Seen {
    let users = facts.sign_in.users.len();
    let text = match (&facts.sign_in.provider, users) {
        (None, 0) => return unknown_of_items("nobody signs in but with API keys"),
        (None, _) => format!("{users} users have passwords of the gateway"),
        (Some(host), 0) => format!("people sign in at {host}"),
        (Some(host), _) => {
            format!("people sign in at {host}, but {users} users have passwords of the gateway")
        }
    };
    let item = |id: &str| Item::new(id, false, "has a password of the gateway".to_owned());
    let items = facts.sign_in.users.iter().map(|user| item(&user.id));
    shown(users == 0, text, Some(users as f64), items)
}

/// Tells whether nobody gets a role that their groups do not give them.
pub(super) fn roles_mapped(facts: &Facts) -> Seen {
    let (name, default_role) = ("sso.default_role", facts.sign_in.default_role);
    match (&facts.sign_in.provider, default_role) {
        (None, _) => unknown_of_items("there is no identity provider"),
        (Some(_), None) => one(name, true, "whoever is in no mapped group is turned away"),
        (Some(_), Some(role)) => one(name, false, &format!("whoever signs in is {} at least", role.as_str())),
    }
}

/// Tells whether sessions end within a day, and after so long without a request.
pub(super) fn sessions_end(facts: &Facts, idle_minutes: u64) -> Seen {
    let (idle, lifetime) = (facts.sign_in.idle, facts.sign_in.lifetime);
    let (idle_now, hours) = (idle.as_secs() / 60, lifetime.as_secs() / 3600);
    let (is_short, is_within) = (idle <= Duration::from_secs(60 * idle_minutes), lifetime <= LIFETIME_MAX);
    let text = format!("sessions end after {idle_now} minutes without a request, and {hours} hours in all");
    let items = [
        Item::new("session.idle_minutes", is_short, format!("{idle_now} minutes")),
        Item::new("session.lifetime_hours", is_within, format!("{hours} hours")),
    ];
    shown(is_short && is_within, text, Some(idle_now as f64), items.into_iter())
}
