//! What is counted, and how it is added up in bounded memory.

use std::collections::BTreeMap;
use std::ops::Index;
use std::ops::IndexMut;
use std::time::Duration;

use super::price::Cost;
use crate::policy::decision::Action;
use crate::scan::threat::Category;

/// Callers, models or routes that an hour or a day names; past it only [`NAMES_KEPT`] of them stay.
pub const NAMES_MAX: usize = 200;
/// Those that used most, when there are too many; the others are added up. Whoever comes later may still grow to be
/// among the first.
pub const NAMES_KEPT: usize = 100;
/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// What a caller, model or route is called that nobody told.
pub const UNKNOWN: &str = "unknown";

/// One exchange, as it is counted.
#[derive(Clone, Debug, Default)]
pub struct Use {
    /// Who sent it: a key's id or a caller's keyed hash.
    pub caller: Option<String>,
    /// The model that answered, or was asked for.
    pub model: Option<String>,
    /// The route's name.
    pub route: Option<String>,
    /// What was used.
    pub tokens: Tokens,
    /// How it went.
    pub verdict: Verdict,
    /// Whether something was taken out of it, and the rest went on.
    pub redacted: bool,
    /// What was found in it.
    pub findings: Vec<Finding>,
    /// How long it took.
    pub took: Duration,
}

/// What a detector found in an exchange, however often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The detector's category.
    pub category: Category,
    /// The detector's name.
    pub detector: String,
    /// The strictest thing that was done about it.
    pub action: Action,
}

/// How an exchange went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It was answered.
    #[default]
    Answered,
    /// It failed: an answer of 400 or more, or none, or one that broke off.
    Failed,
    /// A policy refused it: no failure.
    Blocked,
}

/// Tokens of one exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// What the model read.
    pub prompt: u64,
    /// What it wrote.
    pub completion: u64,
    /// All of it.
    pub total: u64,
    /// Of what it read, what came from the provider's cache.
    pub cached: u64,
    /// Of what it read, what went into the cache.
    pub cache_write: u64,
    /// Of what went into the cache, what stays there for long.
    pub cache_write_long: u64,
    /// Of what it wrote, what was thinking.
    pub reasoning: u64,
    /// Of what it read, what was sound.
    pub audio_prompt: u64,
    /// Of what it wrote, what was sound.
    pub audio_completion: u64,
    /// Of all, what no provider told: estimated from the text.
    pub estimated: u64,
}

/// One thing that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Exchanges.
    Requests,
    /// Exchanges that failed.
    Errors,
    /// Exchanges that a policy refused.
    Blocked,
    /// Tokens read.
    Prompt,
    /// Tokens written.
    Completion,
    /// All tokens.
    Total,
    /// Tokens read from the provider's cache.
    Cached,
    /// Tokens put into it.
    CacheWrite,
    /// Tokens of thinking.
    Reasoning,
    /// Tokens of sound that were read.
    AudioPrompt,
    /// Tokens of sound that were written.
    AudioCompletion,
    /// Tokens that are estimates.
    Estimated,
    /// Time taken, in microseconds.
    LatencyUs,
    /// Cost, in millionths of a millionth of the currency, without what is in [`Count::CostCarry`].
    CostPico,
    /// The part of the cost that rests on estimates.
    CostEstimatedPico,
    /// Exchanges with tokens that have no price.
    UnpricedRequests,
    /// Tokens that have no price.
    UnpricedTokens,
    /// Exchanges out of which something was taken.
    Redacted,
    /// Cost in millions of the currency, where sums are that large.
    CostCarry,
    /// The part of that which rests on estimates.
    CostEstimatedCarry,
}

/// How many things are counted.
pub const COUNTS: usize = Count::CostEstimatedCarry as usize + 1;

/// What is carried over when it is large: a currency may have small units, and a sum must not stop at 64 bits.
const CARRIED: [(Count, Count); 2] =
    [(Count::CostPico, Count::CostCarry), (Count::CostEstimatedPico, Count::CostEstimatedCarry)];
/// How much of the lower count is one of the higher.
const CARRY_PICO: u64 = 1_000_000_000_000_000_000;

/// Sums of everything that is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures([u64; COUNTS]);

/// Figures by name, of those that used most; the others together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranked {
    /// Those that are named.
    pub named: BTreeMap<String, Figures>,
    /// All the others.
    pub other: Figures,
    /// How many times a name was added to the others; one that came back counts again.
    pub folded: u64,
}

/// All figures of an hour, or of a day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roll {
    /// Everything together.
    pub total: Figures,
    /// By caller.
    pub callers: Ranked,
    /// By model.
    pub models: Ranked,
    /// By route.
    pub routes: Ranked,
    /// By what was found, as [`Finding::name`]; figures are of exchanges, without their tokens.
    pub findings: Ranked,
}

impl Index<Count> for Figures {
    type Output = u64;

    fn index(&self, count: Count) -> &u64 {
        &self.0[count as usize]
    }
}

impl IndexMut<Count> for Figures {
    fn index_mut(&mut self, count: Count) -> &mut u64 {
        &mut self.0[count as usize]
    }
}

impl Figures {
    /// Returns the figures of one exchange.
    pub fn of(used: &Use, cost: Cost) -> Self {
        let mut figures = Self::default();
        let tokens = &used.tokens;
        let estimated_cost = if tokens.estimated > 0 { cost.pico } else { 0 };
        let counted = [
            (Count::Requests, 1),
            (Count::Errors, u64::from(used.verdict == Verdict::Failed)),
            (Count::Blocked, u64::from(used.verdict == Verdict::Blocked)),
            (Count::Prompt, tokens.prompt),
            (Count::Completion, tokens.completion),
            (Count::Total, tokens.total),
            (Count::Cached, tokens.cached),
            (Count::CacheWrite, tokens.cache_write),
            (Count::Reasoning, tokens.reasoning),
            (Count::AudioPrompt, tokens.audio_prompt),
            (Count::AudioCompletion, tokens.audio_completion),
            (Count::Estimated, tokens.estimated),
            (Count::LatencyUs, u64::try_from(used.took.as_micros()).unwrap_or(u64::MAX)),
            (Count::CostPico, cost.pico),
            (Count::CostEstimatedPico, estimated_cost),
            (Count::UnpricedRequests, u64::from(cost.unpriced_tokens > 0)),
            (Count::UnpricedTokens, cost.unpriced_tokens),
            (Count::Redacted, u64::from(used.redacted)),
        ];
        for (count, value) in counted {
            figures[count] = value;
        }
        figures
    }

    /// Adds others to these; a sum that is too large stays at the largest number.
    pub fn add(&mut self, others: &Self) {
        let sums = CARRIED.map(|(low, _)| u128::from(self[low]) + u128::from(others[low]));
        for (mine, other) in self.0.iter_mut().zip(others.0) {
            *mine = mine.saturating_add(other);
        }
        for ((low, high), sum) in CARRIED.into_iter().zip(sums) {
            self[low] = (sum % u128::from(CARRY_PICO)) as u64;
            self[high] = self[high].saturating_add((sum / u128::from(CARRY_PICO)) as u64);
        }
    }

    /// Returns the cost, in millionths of a millionth of the currency.
    pub fn cost_pico(&self) -> u128 {
        self.carried(CARRIED[0])
    }

    /// Returns the part of the cost that rests on estimates.
    pub fn cost_estimated_pico(&self) -> u128 {
        self.carried(CARRIED[1])
    }

    fn carried(&self, (low, high): (Count, Count)) -> u128 {
        u128::from(self[high]) * u128::from(CARRY_PICO) + u128::from(self[low])
    }

    /// Returns the figures in their order, as they are stored.
    pub fn to_list(self) -> Vec<u64> {
        let used = self.0.iter().rposition(|value| *value > 0).map_or(0, |last| last + 1);
        self.0.into_iter().take(used).collect()
    }

    /// Returns the figures of a list; what is missing is zero, and what is not known is left out.
    pub fn of_list(list: &[u64]) -> Self {
        let mut figures = Self::default();
        for (mine, stored) in figures.0.iter_mut().zip(list) {
            *mine = *stored;
        }
        figures
    }

    /// Returns the mean time an exchange took, in milliseconds; 0 where there was none.
    pub fn latency_ms_mean(&self) -> f64 {
        match self[Count::Requests] {
            0 => 0.0,
            requests => self[Count::LatencyUs] as f64 / requests as f64 / 1000.0,
        }
    }

    /// Returns the share of exchanges that failed, 0 to 1.
    pub fn error_rate(&self) -> f64 {
        match self[Count::Requests] {
            0 => 0.0,
            requests => self[Count::Errors] as f64 / requests as f64,
        }
    }

    /// What decides who is named: tokens, then requests.
    fn weight(&self) -> (u64, u64) {
        (self[Count::Total], self[Count::Requests])
    }
}

impl Finding {
    /// Returns what it is counted under: its category and its detector, with a slash between them.
    pub fn name(&self) -> String {
        format!("{}/{}", self.category.as_str(), self.detector)
    }

    fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        figures[Count::Requests] = 1;
        figures[Count::Blocked] = u64::from(self.action == Action::Block);
        figures[Count::Redacted] = u64::from(self.action == Action::Redact);
        figures
    }
}

impl Ranked {
    /// Adds the figures of one name, and keeps within [`NAMES_MAX`].
    pub fn add(&mut self, name: &str, figures: &Figures) {
        let name = cut(name);
        if let Some(known) = self.named.get_mut(name) {
            return known.add(figures);
        }
        self.named.insert(name.to_owned(), *figures);
        if self.named.len() > NAMES_MAX {
            self.keep(NAMES_KEPT);
        }
    }

    /// Adds the sums of another.
    pub fn merge(&mut self, others: &Self) {
        self.other.add(&others.other);
        self.folded = self.folded.saturating_add(others.folded);
        for (name, figures) in &others.named {
            self.add(name, figures);
        }
    }

    /// Names only the `count` that used most, and adds up the others.
    fn keep(&mut self, count: usize) {
        if self.named.len() <= count {
            return;
        }
        let mut weights: Vec<(u64, u64)> = self.named.values().map(Figures::weight).collect();
        weights.sort_unstable_by(|one, two| two.cmp(one));
        let Some(least) = weights.get(count.saturating_sub(1)).copied() else { return };
        let above = weights.iter().filter(|weight| **weight > least).count();
        let mut at_least = count.saturating_sub(above);
        let named = std::mem::take(&mut self.named);
        for (name, figures) in named {
            let stays = figures.weight() > least || figures.weight() == least && at_least > 0;
            if figures.weight() == least && stays {
                at_least -= 1;
            }
            match stays {
                true => drop(self.named.insert(name, figures)),
                false => self.fold(&figures),
            }
        }
    }

    /// Adds a name to the others, for one that is to be forgotten; returns whether it was named.
    pub fn forget(&mut self, name: &str) -> bool {
        let Some(figures) = self.named.remove(cut(name)) else { return false };
        self.fold(&figures);
        true
    }

    /// Adds the figures of one that is not named.
    pub fn fold(&mut self, figures: &Figures) {
        self.other.add(figures);
        self.folded = self.folded.saturating_add(1);
    }

    /// Returns the named ones, those that used most first.
    pub fn by_weight(&self) -> Vec<(&str, &Figures)> {
        let mut all: Vec<(&str, &Figures)> =
            self.named.iter().map(|(name, it)| (name.as_str(), it)).collect();
        all.sort_by(|one, two| two.1.weight().cmp(&one.1.weight()).then(one.0.cmp(two.0)));
        all
    }
}

impl Roll {
    /// Counts one exchange.
    pub fn note(&mut self, used: &Use, figures: &Figures) {
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| UNKNOWN.to_owned());
        self.total.add(figures);
        self.callers.add(&name(&used.caller), figures);
        self.routes.add(&name(&used.route), figures);
        self.models.add(&name(&used.model), figures);
        for finding in &used.findings {
            self.findings.add(&finding.name(), &finding.figures());
        }
    }

    /// Adds another roll.
    pub fn merge(&mut self, other: &Self) {
        self.total.add(&other.total);
        self.callers.merge(&other.callers);
        self.models.merge(&other.models);
        self.routes.merge(&other.routes);
        self.findings.merge(&other.findings);
    }
}

/// Returns a name without what is too much of it.
fn cut(name: &str) -> &str {
    let end = name.floor_char_boundary(NAME_BYTES_MAX.min(name.len()));
    name.get(..end).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn used(caller: &str, total: u64) -> (Use, Figures) {
        let tokens = Tokens { prompt: total, total, ..Tokens::default() };
        let used = Use { caller: Some(caller.to_owned()), tokens, ..Use::default() };
        let figures = Figures::of(&used, Cost::default());
        (used, figures)
    }

    #[test]
    fn those_that_use_most_are_named_and_nothing_is_lost() {
        let mut roll = Roll::default();
        // Ten thousand that use a little, one after another, and ten that use much, in between.
        for round in 0..10_000u64 {
            let (one, figures) = used(&format!("small-{round}"), 1);
            roll.note(&one, &figures);
            assert!(roll.callers.named.len() <= NAMES_MAX);
            if round % 100 == 0 {
                let (one, figures) = used(&format!("big-{}", round % 1000), 1_000);
                roll.note(&one, &figures);
            }
        }
        roll.callers.keep(NAMES_KEPT);
        assert_eq!(roll.callers.named.len(), NAMES_KEPT);
        let big: u64 = (0..10).map(|n| roll.callers.named[&format!("big-{}", n * 100)][Count::Total]).sum();
        assert_eq!(big, 100_000);
        let named: u64 = roll.callers.named.values().map(|figures| figures[Count::Total]).sum();
        assert_eq!(named + roll.callers.other[Count::Total], roll.total[Count::Total]);
        assert_eq!(roll.callers.folded, 10_010 - NAMES_KEPT as u64);
    }

    #[test]
    fn findings_count_exchanges_and_what_was_done() {
        let found = |action| Finding { category: Category::Pii, detector: "iban".to_owned(), action };
        let mut roll = Roll::default();
        for action in [Action::Monitor, Action::Redact, Action::Redact, Action::Block] {
            let used =
                Use { redacted: action == Action::Redact, findings: vec![found(action)], ..Use::default() };
            roll.note(&used, &Figures::of(&used, Cost::default()));
        }
        let figures = roll.findings.named["pii/iban"];
        let counts = [Count::Requests, Count::Redacted, Count::Blocked].map(|count| figures[count]);
        assert_eq!((counts, roll.total[Count::Redacted]), ([4, 2, 1], 2));
    }

    #[test]
    fn a_name_that_goes_leaves_its_figures() {
        let mut roll = Roll::default();
        let (one, figures) = used("gone", 7);
        roll.note(&one, &figures);
        assert!(roll.callers.forget("gone") && !roll.callers.forget("gone"));
        assert_eq!(roll.callers.other[Count::Total], 7);
    }

    proptest! {
        #[test]
        fn stored_figures_are_read_back(list in proptest::collection::vec(any::<u64>(), 0..COUNTS)) {
            let figures = Figures::of_list(&list);
            prop_assert_eq!(Figures::of_list(&figures.to_list()), figures);
        }

        #[test]
        fn long_names_are_cut_between_characters(name in "\\PC{0,200}") {
            prop_assert!(cut(&name).len() <= NAME_BYTES_MAX && name.starts_with(cut(&name)));
        }
    }

    #[test]
    fn the_cost_of_a_small_currency_does_not_stop() {
        let dear = Cost { pico: 9_000_000_000_000_000_000, unpriced_tokens: 0 };
        let mut sum = Figures::default();
        (0..50).for_each(|_| sum.add(&Figures::of(&Use::default(), dear)));
        assert_eq!(sum.cost_pico(), 450_000_000_000_000_000_000);
        let mut twice = Figures::of_list(&sum.to_list());
        twice.add(&sum);
        assert_eq!(twice.cost_pico(), 2 * sum.cost_pico());
    }
}
