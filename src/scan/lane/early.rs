//! Values that are told although a match that began before them is under way.
//!
//! A sentence that may yet tell a key has begun long before the key: what stands in it and is a value by itself would wait
//! for the sentence to end. It need not where all that is under way has its value behind it, and none of it is a match of
//! the same detector, of which the two would be one.

use std::ops::Range;

use smallvec::SmallVec;

use super::Lane;
use super::LaneError;
use super::cluster;
use crate::scan::hold::Track;
use crate::scan::hold::Watch;
use crate::scan::scanner::Scanner;
use crate::scan::threat::DetectorId;
use crate::scan::threat::Finding;

/// What was told before its text was judged.
#[derive(Clone, Debug, Default)]
pub(super) struct Early(SmallVec<[(DetectorId, Range<usize>); 1]>);

impl Early {
    /// Tells whether a finding was told.
    pub(super) fn has(&self, finding: &Finding) -> bool {
        self.0.iter().any(|(detector, value)| *detector == finding.detector && *value == finding.value)
    }

    /// Forgets what lies in text that is judged.
    pub(super) fn forget(&mut self, judged_to: usize) {
        self.0.retain(|(_, value)| value.end > judged_to);
    }
}

impl Lane {
    /// Tells the findings whose values nothing can change that is under way.
    pub(super) fn judge_early(
        &mut self,
        scanner: &Scanner,
        watch: &Watch,
        findings: &mut Vec<Finding>,
    ) -> Result<(), LaneError> {
        let Some(mark) = self.noted.marks[Track::Enforced.index()] else { return Ok(()) };
        let judged_to = self.tracks[Track::Enforced.index()].judged_to;
        let until = cluster::outside(self.values_under_way_from(), &self.noted.runs);
        if mark.value >= until {
            return Ok(());
        }
        // How much of the text such a lead takes is not known where characters are left out.
        let end = if self.canonical.is_none() { self.text.end() } else { 0 };
        let found = self.text.scan(scanner, judged_to..until, watch.detectors(Track::Enforced))?;
        let lead = |id| scanner.detector(id).map_or(usize::MAX, |it| it.pattern.lead_max());
        let is_final = |it: &&Finding| {
            let has_no_other = match lead(it.detector) {
                0 => true,
                lead => it.span.end.saturating_add(lead) < end,
            };
            it.span.end <= until && has_no_other && it.decoded_from.0.is_empty()
        };
        let (told, open): (Vec<&Finding>, Vec<&Finding>) = found.iter().partition(is_final);
        let mut waits_from = open.iter().map(|it| it.value.start).min().unwrap_or(until).min(until);
        while let Some(cut) = told.iter().find(|it| it.value.start < waits_from && waits_from < it.value.end)
        {
            waits_from = cut.value.start;
        }
        for finding in told.into_iter().filter(|it| it.value.end <= waits_from) {
            if !self.early.has(finding) {
                self.early.0.push((finding.detector, finding.value.clone()));
                findings.push(finding.clone());
            }
        }
        let mark = &mut self.noted.marks[Track::Enforced.index()];
        *mark = mark.map(|mark| mark.with_value(waits_from));
        Ok(())
    }
}
