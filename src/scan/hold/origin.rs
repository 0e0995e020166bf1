//! Which source byte each step of a reading came from, for as far back as it may be asked.

use std::collections::VecDeque;

/// A place in a text: as the reading counts, and in source bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub step: u64,
    pub source: usize,
}

/// The sources of the last steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Origins {
    /// Where stretches begin in which each step is one source byte, in the order of the steps.
    stretches: VecDeque<Place>,
    /// The source that the next step has if it continues the last stretch.
    next: usize,
}

impl Origins {
    /// Takes the next step; what lies more than `kept` steps back may be forgotten.
    pub(super) fn push(&mut self, place: Place, kept: u64) {
        if self.stretches.is_empty() || place.source != self.next {
            let oldest = place.step.saturating_sub(kept);
            while self.stretches.get(1).is_some_and(|second| second.step <= oldest) {
                self.stretches.pop_front();
            }
            self.stretches.push_back(place);
        }
        self.next = place.source + 1;
    }

    /// Returns the source of a step.
    pub(super) fn source(&self, step: u64) -> usize {
        let after = self.stretches.partition_point(|stretch| stretch.step <= step);
        let stretch = after.checked_sub(1).and_then(|at| self.stretches.get(at));
        match stretch {
            Some(stretch) => stretch.source + (step - stretch.step) as usize,
            None => self.stretches.front().map_or(0, |first| first.source),
        }
    }

    /// Tells whether so many steps before `now` were a source byte each.
    pub(super) fn is_straight(&self, now: u64, steps: u64) -> bool {
        self.stretches.back().is_none_or(|last| last.step == 0 || last.step + steps <= now)
    }
}
