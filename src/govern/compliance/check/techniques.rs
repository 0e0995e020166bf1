//! What checks see of techniques of attack: whether every policy looks for what shows them.
//!
//! Detectors, kinds of models and rules of layer 2 name the techniques they are evidence of; a control names those that
//! it is about. So a control stands on the very rules that decide, and a pack that is taken away leaves a gap.

use std::collections::BTreeSet;

use super::Item;
use super::Seen;
use super::policies::Extent;
use super::policies::extent;
use super::policies::verdict;
use super::shown;
use super::unknown_of_items;
use crate::govern::compliance::facts::Facts;
use crate::govern::compliance::facts::PolicyFact;
use crate::govern::compliance::facts::TechniqueFact;
use crate::policy::decision::Action;

/// Tells whether every policy looks for each technique that something is evidence of.
pub(super) fn every(facts: &Facts) -> Seen {
    let known: BTreeSet<&str> =
        facts.policies.iter().flat_map(|policy| policy.techniques.keys()).map(String::as_str).collect();
    if known.is_empty() {
        return unknown_of_items("no detector and no rule names a technique");
    }
    looked_for(facts, known.into_iter())
}

/// Tells whether every policy looks for these techniques.
pub(super) fn looked_for<'a>(facts: &'a Facts, ids: impl Iterator<Item = &'a str>) -> Seen {
    if facts.policies.is_empty() {
        return unknown_of_items("there are no policies");
    }
    let seen: Vec<(&str, Extent, String)> = ids
        .map(|id| {
            let (worst, text) = technique(&facts.policies, id);
            (id, worst, text)
        })
        .collect();
    let whole = seen.iter().filter(|(_, extent, _)| *extent == Extent::Whole).count();
    let text = format!("{whole} of {} techniques are looked for with all that shows them", seen.len());
    let items = seen.iter().map(|(id, extent, text)| Item::new(id, *extent == Extent::Whole, text.clone()));
    let mut told = shown(whole == seen.len(), text, Some(whole as f64), items);
    told.verdict = verdict(seen.iter().map(|(_, extent, _)| *extent));
    told
}

/// Returns how much of a technique the policy that looks for least of it does, and says so.
fn technique(policies: &[PolicyFact], id: &str) -> (Extent, String) {
    let none = TechniqueFact::default();
    let facts = policies.iter().map(|policy| (policy, policy.techniques.get(id).unwrap_or(&none)));
    // Of several that do as little, the first one tells.
    let least = facts
        .rev()
        .map(|(policy, fact)| (extent(&fact.coverage, Action::Monitor), policy, fact))
        .max_by_key(|(extent, _, fact)| (*extent, fact.coverage.short_of(Action::Monitor)));
    let Some((worst, policy, fact)) = least else {
        return (Extent::Nothing, "there are no policies".to_owned());
    };
    let (total, short) = (fact.coverage.total(), fact.coverage.short_of(Action::Monitor));
    let rules = match fact.rules.as_slice() {
        [] => String::new(),
        named => format!("; rules: {}", named.join(", ")),
    };
    let text = match (total, short) {
        (0, _) => "no detector and no rule is evidence of it".to_owned(),
        (_, 0) => format!("every policy looks for all {total} detectors and rules{rules}"),
        _ => {
            let off = fact.coverage.named_short_of(Action::Monitor);
            let more = if off.len() < short { ", …" } else { "" };
            format!("{} does not look for {short} of {total} ({}{more}){rules}", policy.id, off.join(", "))
        }
    };
    (worst, text)
}
