//! What checks see of the policies that decide: what they stop, and what they look for.
//!
//! A category counts as stopped where the surest finding of each of its detectors is: a part that is only recorded, a
//! detector that is off, and one that can never be as sure as its policy asks, each leave a gap, and are named.

use super::ITEMS_NAMED_MAX;
use super::Item;
use super::Seen;
use super::Verdict;
use super::all;
use super::audit_call;
use super::shown;
use super::told;
use super::unknown_of_items;
use crate::govern::compliance::facts::Coverage;
use crate::govern::compliance::facts::Facts;
use crate::govern::compliance::facts::PolicyFact;
use crate::policy::decision::Action;
use crate::scan::threat::Category;

/// Where something is stopped.
#[derive(Clone, Copy)]
pub(super) enum Side {
    /// In requests.
    Request,
    /// In answers.
    Response,
}

/// How much of a category a policy treats as it should.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Extent {
    /// Every detector.
    Whole,
    /// Some.
    Part,
    /// None.
    Nothing,
}

/// Tells whether every policy stops what it finds of a category: masks it, or, of injections, refuses it.
pub(super) fn enforced(facts: &Facts, category: Category, side: Side) -> Seen {
    let least = if category == Category::Injection { Action::Block } else { Action::Redact };
    let none = Coverage::default();
    let coverage = |policy: &'_ PolicyFact| {
        let fact = policy.categories.get(&category);
        let side = fact.map(|fact| match side {
            Side::Request => &fact.request,
            Side::Response => &fact.response,
        });
        side.unwrap_or(&none).clone()
    };
    let covered: Vec<(&str, Coverage)> =
        facts.policies.iter().map(|policy| (policy.id.as_str(), coverage(policy))).collect();
    if covered.is_empty() {
        return unknown_of_items("there are no policies");
    }
    let whole = covered.iter().filter(|(_, it)| extent(it, least) == Extent::Whole).count();
    let lax: Vec<String> = covered
        .iter()
        .filter(|(_, it)| extent(it, least) != Extent::Whole)
        .take(ITEMS_NAMED_MAX)
        .map(|(id, it)| format!("; {id}: {}", gap(it, least, category)))
        .collect();
    let name = category.as_str();
    let text = format!("{whole} of {} policies stop all of {name} there{}", covered.len(), lax.concat());
    let items = covered
        .iter()
        .map(|(id, it)| Item::new(id, extent(it, least) == Extent::Whole, gap(it, least, category)));
    let mut seen = shown(whole == covered.len(), text, Some(whole as f64), items);
    seen.verdict = verdict(covered.iter().map(|(_, it)| extent(it, least)));
    seen
}

/// Tells whether a category is looked for, and was found.
pub(super) fn found(facts: &Facts, category: Category) -> Seen {
    let name = category.as_str();
    let call = audit_call("category", name, facts);
    let count = facts.findings.get(name).copied().unwrap_or_default();
    let none = Coverage::default();
    let looked_for: Vec<&Coverage> = facts
        .policies
        .iter()
        .map(|policy| policy.categories.get(&category).map_or(&none, |fact| &fact.either))
        .collect();
    let verdict = match verdict(looked_for.iter().map(|it| extent(it, Action::Monitor))) {
        Verdict::Unknown | Verdict::Unmet => Verdict::Unmet,
        _ if count == 0 => Verdict::Unknown,
        seen => seen,
    };
    let off: usize = looked_for.iter().map(|it| it.short_of(Action::Monitor)).max().unwrap_or_default();
    let without = match off {
        0 => String::new(),
        off => format!("; up to {off} of its detectors are off"),
    };
    let text = match verdict {
        Verdict::Unmet => format!("not every policy looks for {name}"),
        Verdict::Unknown => {
            format!("{name} is looked for, and was not found in the last 30 days{without}")
        }
        Verdict::Met | Verdict::Partial => {
            format!("{name} was found in {count} exchanges and scans of the last 30 days{without}")
        }
    };
    let figure = (verdict != Verdict::Unknown).then_some(count as f64);
    Seen { verdict, ..told(true, text, figure, &call) }
}

/// Tells whether what cannot be inspected is refused.
pub(super) fn fail_closed(facts: &Facts) -> Seen {
    all("policies refuse what cannot be inspected", &facts.policies, |it| {
        let what = if it.fails_closed { "is refused" } else { "is let through" };
        Item::new(&it.id, it.fails_closed, format!("what cannot be inspected {what}"))
    })
}

/// Tells whether changed definitions of tools are noticed.
pub(super) fn tools_pinned(facts: &Facts) -> Seen {
    all("policies look for changed tools", &facts.policies, |it| {
        let what = if it.pins_tools { "are looked for" } else { "are not looked for" };
        Item::new(&it.id, it.pins_tools, format!("changed tools {what}"))
    })
}

/// Returns how many of the detectors are treated at least so.
pub(super) fn extent(coverage: &Coverage, least: Action) -> Extent {
    match (coverage.total(), coverage.short_of(least)) {
        (1.., 0) => Extent::Whole,
        (total, short) if short < total => Extent::Part,
        _ => Extent::Nothing,
    }
}

/// Is met where all policies do all of it, and in part where each does some; cannot be told without one.
pub(super) fn verdict(extents: impl Iterator<Item = Extent>) -> Verdict {
    let extents: Vec<Extent> = extents.collect();
    match extents.as_slice() {
        [] => Verdict::Unknown,
        all if all.contains(&Extent::Nothing) => Verdict::Unmet,
        all if all.contains(&Extent::Part) => Verdict::Partial,
        _ => Verdict::Met,
    }
}

/// Says how many detectors are treated more mildly, and names some.
fn gap(coverage: &Coverage, least: Action, category: Category) -> String {
    let (total, short, name) = (coverage.total(), coverage.short_of(least), category.as_str());
    match (total, short) {
        (0, _) => format!("there are no detectors of {name}"),
        (_, 0) => format!("all {total} detectors of {name}"),
        _ => {
            let named = coverage.named_short_of(least);
            let more = if named.len() < short { ", …" } else { "" };
            format!("{short} of {total} detectors of {name} are not stopped ({}{more})", named.join(", "))
        }
    }
}
