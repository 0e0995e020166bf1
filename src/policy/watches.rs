//! The automata that tell what of a stream must wait: one for all policies that look for the same, made when needed.
//!
//! An automaton takes longer to make than all else of a reload, and megabytes to keep. Those of the policies that
//! routes name are made before the ruleset is in force; any other at the first stream that asks for it.

use std::sync::Arc;
use std::sync::OnceLock;

use crate::policy::decision::Action;
use crate::policy::decision::Decisions;
use crate::policy::decision::Direction;
use crate::policy::ruleset::Parts;
use crate::policy::ruleset::Ruleset;
use crate::scan::hold::Watch;
use crate::scan::rule::Rule;
use crate::scan::rule::Rules;
use crate::scan::scanner::Scanner;
use crate::scan::threat::Category;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;

/// How many automata that no policy needs any more are kept for the next reload: a policy that goes back and
/// forth between two forms finds both.
const SPARE_WATCHES_MAX: usize = 8;

/// An automaton, or what it is made from.
pub(super) struct Awaited {
    scanner: Arc<Scanner>,
    enforced: DetectorSet,
    wanted: DetectorSet,
    made: OnceLock<Watch>,
}

/// The automata of one scanner; policies that look for the same share one.
pub(super) struct Watches<'a> {
    scanner: &'a Arc<Scanner>,
    layer2: &'a Rules,
    known: Vec<Arc<Awaited>>,
    used: Vec<Arc<Awaited>>,
}

impl Awaited {
    /// Returns the automaton; makes it at the first call.
    pub(super) fn watch(&self) -> &Watch {
        self.made.get_or_init(|| Watch::compile(self.scanner.detectors(), &self.enforced, &self.wanted))
    }
}

impl<'a> Watches<'a> {
    pub(super) fn of(parts: &'a Parts<'_>, running: Option<&Ruleset>) -> Self {
        let running = running.filter(|running| Arc::ptr_eq(&running.scanner, &parts.scanner));
        let policies = running.into_iter().flat_map(|running| running.policies.values());
        let in_force = policies.flat_map(|policy| policy.awaited.iter().cloned());
        let spare = running.into_iter().flat_map(|running| running.spare_watches.iter().cloned());
        Self {
            scanner: &parts.scanner,
            layer2: &parts.layer2,
            known: in_force.chain(spare).collect(),
            used: Vec::new(),
        }
    }

    /// Returns the detectors that text waits for: those that change it, and those that rules rest on which block.
    pub(super) fn awaited(&self, decisions: &Decisions, way: Direction) -> DetectorSet {
        let blocks = |(at, rule): &(usize, &Rule)| {
            let said =
                decisions.rules(self.layer2.id(*at)).map(|rules| rules.rule(way).action(rule.confidence));
            said == Some(Action::Block)
        };
        let blocking: Vec<&Rule> =
            self.layer2.rules().iter().enumerate().filter(blocks).map(|(_, rule)| rule).collect();
        let rests_on = |category: &Category| blocking.iter().any(|rule| rule.needs.may_rest_on(*category));
        let categories: Vec<Category> = Category::ALL.into_iter().filter(rests_on).collect();
        let rests = |id: &DetectorId| {
            let detector = self.scanner.detectors().get(usize::from(id.0));
            detector.is_some_and(|known| categories.contains(&known.category))
        };
        decisions.enforced(way).iter().chain(decisions.wanted(way).iter().filter(rests)).collect()
    }

    /// Returns the automaton for these detectors.
    pub(super) fn find(&mut self, enforced: &DetectorSet, wanted: &DetectorSet) -> Arc<Awaited> {
        // Text waits for patterns only; a rule has none.
        let has_pattern = |id: &DetectorId| usize::from(id.0) < self.scanner.detectors().len();
        let of_patterns = |set: &DetectorSet| set.iter().filter(has_pattern).collect::<DetectorSet>();
        let (enforced, wanted) = (of_patterns(enforced), of_patterns(wanted));
        let same = |it: &&Arc<Awaited>| it.enforced == enforced && it.wanted == wanted;
        if let Some(awaited) = self.used.iter().find(same) {
            return Arc::clone(awaited);
        }
        let known = self.known.iter().find(same).cloned();
        let scanner = Arc::clone(self.scanner);
        let fresh = || Arc::new(Awaited { scanner, enforced, wanted, made: OnceLock::new() });
        let awaited = known.unwrap_or_else(fresh);
        self.used.push(Arc::clone(&awaited));
        awaited
    }

    /// Returns what is worth keeping though no policy uses it now.
    pub(super) fn spare(self) -> Vec<Arc<Awaited>> {
        let mut spare: Vec<Arc<Awaited>> = Vec::new();
        for awaited in self.known {
            let is_kept = self.used.iter().chain(&spare).any(|kept| Arc::ptr_eq(kept, &awaited));
            let is_made = awaited.made.get().is_some();
            if is_made && !is_kept && spare.len() < SPARE_WATCHES_MAX {
                spare.push(awaited);
            }
        }
        spare
    }
}
