//! The tagger at a text that arrives: what may be a name waits until it is known to be one or none.
//!
//! The lane and the tagger read the same text side by side; nothing leaves before both have judged it. What either finds
//! behind where both have come is early: it is told once the other has come as far, in the order of the text. So what
//! is told, and where what blocks stops the text, does not depend on how it was cut.

use std::ops::Range;

use crate::policy::inspect::Inspector;
use crate::policy::inspect::Unreadable;
use crate::policy::inspect::names;
use crate::policy::stream::slot::Slot;
use crate::scan::lane::LaneAdvance;
use crate::scan::tagger::names::Names;
use crate::scan::tagger::reading::Late;
use crate::scan::tagger::reading::Reading;
use crate::scan::tagger::reading::Span;
use crate::scan::threat::Finding;

/// What the tagger knows of a text.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    reading: Reading,
    /// The text from where something may still be told.
    kept: Vec<u8>,
    base: usize,
    /// Up to where both have judged the text.
    judged_to: usize,
    /// What stands behind that.
    early: Vec<Finding>,
}

impl Named {
    /// Takes the next piece of the text, for as long as there is time; returns what was found.
    fn push(
        &mut self,
        names: &Names<'_>,
        text: &[u8],
        expired: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Finding>, Late> {
        let gone = self.judged_to.saturating_sub(self.base).min(self.kept.len());
        self.kept.drain(..gone);
        self.base += gone;
        self.kept.extend_from_slice(text);
        let mut spans = Vec::new();
        self.reading.push_in_time(names.tagger, text, &mut spans, expired)?;
        Ok(self.findings(names, spans))
    }

    fn findings(&self, names: &Names<'_>, spans: Vec<Span>) -> Vec<Finding> {
        names.findings(spans, self.reading.undoes_escapes(), |range| self.value(&range))
    }

    /// Adds what was found to what is early, and returns what is not any more: in the order of the text.
    fn told(&mut self, found: Vec<Finding>, judged_to: usize, until: usize) -> LaneAdvance {
        self.judged_to = judged_to;
        self.early.extend(found);
        let is_told = |finding: &Finding| finding.value.start < until;
        let (mut findings, early): (Vec<_>, _) =
            std::mem::take(&mut self.early).into_iter().partition(is_told);
        self.early = early;
        findings.sort_by_key(|finding| (finding.value.start, finding.value.end, finding.detector));
        LaneAdvance { judged_to, findings }
    }

    /// Returns the bytes of what is told.
    pub(super) fn value(&self, range: &Range<usize>) -> Option<&[u8]> {
        self.kept.get(range.start.checked_sub(self.base)?..range.end.checked_sub(self.base)?)
    }
}

/// Returns the tagger as the policy wants it.
pub(super) fn wanted<'a>(inspector: &Inspector<'a>) -> Option<Names<'a>> {
    names::wanted(inspector.ruleset, inspector.policy.looked_for(inspector.judged()))
}

impl Slot {
    /// Adds what the tagger finds in the next piece of a text to what its lane found.
    pub(super) fn name(
        &mut self,
        inspector: &Inspector<'_>,
        text: &[u8],
        advance: LaneAdvance,
    ) -> Result<LaneAdvance, Unreadable> {
        let (Some(named), Some(names)) = (&mut self.names, wanted(inspector)) else { return Ok(advance) };
        let found = named.push(&names, text, inspector.expired)?;
        let judged_to = advance.judged_to.min(named.reading.free_to());
        Ok(named.told([advance.findings, found].concat(), judged_to, judged_to))
    }

    /// Does the same at the end of the text.
    pub(super) fn name_end(&mut self, inspector: &Inspector<'_>, advance: LaneAdvance) -> LaneAdvance {
        let (Some(named), Some(names)) = (&mut self.names, wanted(inspector)) else { return advance };
        let mut spans = Vec::new();
        named.reading.finish(names.tagger, &mut spans);
        let found = named.findings(&names, spans);
        named.told([advance.findings, found].concat(), advance.judged_to, usize::MAX)
    }

    /// Parts findings into those that are judged together: with the tagger those that begin at one place.
    pub(super) fn together<'f>(&self, findings: &'f [Finding]) -> Vec<&'f [Finding]> {
        match self.names {
            Some(_) => findings.chunk_by(|one, next| one.value.start == next.value.start).collect(),
            None => vec![findings],
        }
    }
}
