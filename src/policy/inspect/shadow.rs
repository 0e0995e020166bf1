//! What a shadow policy would have done, beside the policy that decides.

use std::collections::BTreeMap;

use crate::policy::decision::Action;
use crate::scan::threat::DetectorId;

/// What the shadow policy would have done so far; nothing, where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreseen {
    /// The strictest action it would have taken.
    pub action: Option<Action>,
    /// The detectors and rules about whose findings it would have decided otherwise, each with the strictest action it
    /// would have taken there.
    pub differing: BTreeMap<DetectorId, Action>,
}

impl Foreseen {
    /// Returns what a shadow foresees of a text in which nothing was found.
    pub fn nothing() -> Self {
        Self { action: Some(Action::Allow), differing: BTreeMap::new() }
    }

    /// Notes what it would have done about a finding, where something was `decided`.
    pub fn note(&mut self, detector: DetectorId, foreseen: Action, decided: Action) {
        self.act(foreseen);
        if foreseen != decided {
            let known = self.differing.entry(detector).or_insert(foreseen);
            *known = foreseen.max(*known);
        }
    }

    /// Notes what it would have done about the whole.
    pub fn act(&mut self, foreseen: Action) {
        self.action = self.action.max(Some(foreseen));
    }

    /// Adds what it would have done about another part.
    pub fn merge(&mut self, other: Self) {
        self.action = self.action.max(other.action);
        for (detector, foreseen) in other.differing {
            let known = self.differing.entry(detector).or_insert(foreseen);
            *known = foreseen.max(*known);
        }
    }

    /// Returns the action, where it would have decided otherwise than was `decided`, of the whole or of some finding.
    pub fn otherwise(&self, decided: Action) -> Option<Action> {
        self.action.filter(|foreseen| *foreseen != decided || !self.differing.is_empty())
    }
}
