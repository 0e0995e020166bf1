//! What checks see of who may come in: API keys and users.

use jiff::SignedDuration;

use super::Item;
use super::Seen;
use super::all;
use super::shown;
use super::unknown_of_items;
use crate::access::role::Role;
use crate::govern::compliance::facts::Facts;
use crate::govern::compliance::facts::KeyFact;

/// A key older than this should have been replaced.
const KEY_DAYS_MAX: i64 = 365;
/// Whoever did not come for so long should not be able to any more.
const UNUSED_DAYS_MAX: i64 = 90;
/// More admin keys than this are no longer few.
const ADMIN_KEYS_MAX: usize = 3;

/// Tells whether every key ends some day.
pub(super) fn keys_expire(facts: &Facts) -> Seen {
    all("API keys end some day", &facts.keys, |it| {
        let ends = it.expires_at.map_or("never ends".to_owned(), |at| format!("ends at {at}"));
        Item::new(&it.id, it.expires_at.is_some(), ends)
    })
}

/// Tells whether every key was made anew within a year.
pub(super) fn keys_rotated(facts: &Facts) -> Seen {
    all("API keys were made within a year", &facts.keys, |it| {
        let is_young = facts.at.duration_since(it.text_since) <= days(KEY_DAYS_MAX);
        Item::new(&it.id, is_young, format!("made, or rotated last, at {}", it.text_since))
    })
}

/// Tells whether every key that spends has a budget.
pub(super) fn keys_budgeted(facts: &Facts) -> Seen {
    let spending: Vec<&KeyFact> =
        facts.keys.iter().filter(|it| matches!(it.role, Role::Service | Role::Agent)).collect();
    all("API keys of services have a budget", &spending, |it| {
        let text = if it.has_budget { "has a budget" } else { "has no budget" };
        Item::new(&it.id, it.has_budget, text.to_owned())
    })
}

/// Tells whether admin keys are few, and lesser ones do the rest.
pub(super) fn least_privilege(facts: &Facts) -> Seen {
    if facts.keys.is_empty() {
        return unknown_of_items("there are no API keys");
    }
    let admins = facts.keys.iter().filter(|key| key.role == Role::Admin).count();
    let lesser = facts.keys.len() - admins;
    let text = format!("{admins} API keys are of admins, {lesser} of lesser roles");
    let items = facts
        .keys
        .iter()
        .map(|key| Item::new(&key.id, key.role != Role::Admin, format!("its role is {}", key.role.as_str())));
    shown(admins <= ADMIN_KEYS_MAX && lesser > 0, text, Some(admins as f64), items)
}

/// Tells whether whoever may come in does: what nobody uses any more is to be taken back.
pub(super) fn in_use(facts: &Facts) -> Seen {
    let keys = facts.keys.iter().map(|it| (format!("key {}", it.id), it.used_at));
    let users = facts.sign_in.users.iter().map(|it| (format!("user {}", it.id), it.used_at));
    let access: Vec<_> = keys.chain(users).collect();
    let what = format!("API keys and users were used, or made, within {UNUSED_DAYS_MAX} days");
    all(&what, &access, |(name, used_at)| {
        let is_used = facts.at.duration_since(*used_at) <= days(UNUSED_DAYS_MAX);
        Item::new(name, is_used, format!("used last, or made, at {used_at}"))
    })
}

fn days(count: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * count)
}
