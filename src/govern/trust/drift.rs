//! How far an agent's mix of capabilities moved: the Jensen–Shannon divergence of what it uses now from what it used
//! (Lin, 1991), in bits, so that 0 is the same and 1 is all different.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

use super::Act;
use super::Reason;
use super::decay::factor;
use super::shortened;

/// What it used: fades by a half in this time.
pub const LONG_S: f64 = 30.0 * 86_400.0;
/// What it uses now: fades by a half in this time.
pub const SHORT_S: f64 = 86_400.0;
/// The most capabilities that are told apart.
const CAPABILITIES_MAX: usize = 32;
/// Under this weight of calls there is nothing to move away from.
const CALLS_MIN: f64 = 20.0;
/// Shares smaller than this are forgotten.
const WEIGHT_MIN: f64 = 0.01;
const REST: &str = "(others)";
/// Capabilities named in an explanation.
const NAMED_MAX: usize = 3;

/// The calls of an agent by capability.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mix {
    at: i64,
    long: BTreeMap<String, f64>,
    short: BTreeMap<String, f64>,
}

impl Mix {
    /// Takes one call into account; what was denied says what the agent wants, and counts. What was before it fades up to
    /// a moment.
    pub fn observe(&mut self, act: &Act, fades_to: Timestamp) {
        let Some(capability) = &act.capability else { return };
        let now = fades_to.as_second().max(self.at);
        for (mix, half_life) in [(&mut self.long, LONG_S), (&mut self.short, SHORT_S)] {
            let left = factor(now - self.at, half_life);
            mix.values_mut().for_each(|weight| *weight *= left);
            mix.retain(|_, weight| *weight >= WEIGHT_MIN);
            let is_known = mix.len() < CAPABILITIES_MAX || mix.contains_key(shortened(capability));
            let name = if is_known { shortened(capability) } else { REST };
            *mix.entry(name.to_owned()).or_default() += 1.0;
        }
        self.at = now;
    }

    /// Returns the factor of the mix of now against that of always, and what moved it.
    pub fn factor(&self, now: Timestamp) -> (f64, Vec<Reason>) {
        self.against(self, now)
    }

    /// Returns the factor of the mix of now against what another mix always was.
    pub fn against(&self, other: &Self, now: Timestamp) -> (f64, Vec<Reason>) {
        let weight: f64 = other.long.values().sum();
        let weight = weight * factor(now.as_second() - other.at, LONG_S);
        if weight < CALLS_MIN || self.short.is_empty() {
            let text = "too few calls to have a mix of capabilities".to_owned();
            return (1.0, vec![Reason { at: None, text }]);
        }
        let (before, after) = (shares(&other.long), shares(&self.short));
        let divergence = divergence(&before, &after);
        let text = format!("the mix of capabilities moved by {divergence:.2} of 1 (Jensen–Shannon)");
        let mut reasons = vec![Reason { at: None, text }];
        reasons.extend(moved(&before, &after));
        (1.0 - divergence, reasons)
    }
}

type Shares<'a> = BTreeMap<&'a str, f64>;

fn shares(mix: &BTreeMap<String, f64>) -> Shares<'_> {
    let sum: f64 = mix.values().sum();
    mix.iter().map(|(name, weight)| (name.as_str(), weight / sum)).collect()
}

/// Returns the Jensen–Shannon divergence of two distributions, in bits.
fn divergence(one: &Shares<'_>, other: &Shares<'_>) -> f64 {
    let half = |mine: &Shares<'_>, theirs: &Shares<'_>| -> f64 {
        let term = |(name, share): (&&str, &f64)| {
            let middle = (share + theirs.get(name).copied().unwrap_or_default()) / 2.0;
            share * (share / middle).log2()
        };
        mine.iter().map(term).sum::<f64>() / 2.0
    };
    (half(one, other) + half(other, one)).clamp(0.0, 1.0)
}

/// Says which shares changed most.
fn moved(before: &Shares<'_>, after: &Shares<'_>) -> Vec<Reason> {
    let names: std::collections::BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let share = |shares: &Shares<'_>, name: &str| shares.get(name).copied().unwrap_or_default();
    let mut changes: Vec<(&str, f64, f64)> =
        names.into_iter().map(|name| (name, share(before, name), share(after, name))).collect();
    changes.sort_by(|one, other| (other.1 - other.2).abs().total_cmp(&(one.1 - one.2).abs()));
    let told = changes.into_iter().filter(|(_, was, is)| (was - is).abs() >= 0.05).take(NAMED_MAX);
    let reason = |(name, was, is): (&str, f64, f64)| Reason {
        at: None,
        text: format!("{name}: {:.0} % of calls, {:.0} % before", is * 100.0, was * 100.0),
    };
    told.map(reason).collect()
}
