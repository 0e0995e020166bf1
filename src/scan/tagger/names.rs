//! The tagger at work: which of what it finds is wanted, and as what it is reported.

use std::ops::Range;

use super::Tagger;
use super::chain::Tag;
use super::escape;
use super::reading::Late;
use super::reading::Span;
use crate::scan::threat::Confidence;
use crate::scan::threat::Decoded;
use crate::scan::threat::DetectorId;
use crate::scan::threat::Encoding;
use crate::scan::threat::Finding;
use crate::scan::threat::Layer;

/// The tagger, and the kinds of findings that are wanted of it.
#[derive(Clone, Copy, Debug)]
pub struct Names<'t> {
    /// The tagger.
    pub tagger: &'t Tagger,
    wanted: [Option<DetectorId>; Tag::ALL.len()],
}

impl<'t> Names<'t> {
    /// Returns a tagger of which nothing is wanted.
    pub fn new(tagger: &'t Tagger) -> Self {
        Self { tagger, wanted: [None; Tag::ALL.len()] }
    }

    /// Wants what has a tag, to be reported as a kind.
    pub fn want(&mut self, tag: Tag, kind: DetectorId) {
        self.wanted[tag.index()] = Some(kind);
    }

    /// Finds what is wanted in a whole text.
    pub fn find(&self, text: &[u8]) -> Vec<Finding> {
        self.findings(self.tagger.find(text), escape::begins_json(text), |range| text.get(range))
    }

    /// Finds what is wanted in a whole text, for as long as there is time.
    ///
    /// # Errors
    /// The time was over before its end.
    pub fn find_in_time(
        &self,
        text: &[u8],
        expired: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Finding>, Late> {
        let spans = self.tagger.find_in_time(text, expired)?;
        Ok(self.findings(spans, escape::begins_json(text), |range| text.get(range)))
    }

    /// Returns the findings that spans of a text are; `bytes` shows parts of it.
    pub fn findings<'a>(
        &self,
        spans: Vec<Span>,
        is_json: bool,
        bytes: impl Fn(Range<usize>) -> Option<&'a [u8]>,
    ) -> Vec<Finding> {
        let is_escaped =
            |range: &Range<usize>| is_json && bytes(range.clone()).is_some_and(|it| it.contains(&b'\\'));
        let finding = |span: Span| {
            let detector = self.wanted[span.tag.index()]?;
            let mut decoded_from = Decoded::default();
            if is_escaped(&span.range) {
                decoded_from.0.push(Encoding::Canonical);
            }
            Some(Finding {
                detector,
                span: span.range.clone(),
                value: span.range,
                confidence: confidence(span.chance),
                layer: Layer::L3Ml,
                decoded_from,
            })
        };
        spans.into_iter().filter_map(finding).collect()
    }
}

/// Returns how sure a finding of some likelihood is: medium from where it is reported on, high from nine of ten on.
fn confidence(chance: f32) -> Confidence {
    let percent = (chance * 100.0).clamp(0.0, 99.0) as u8;
    Confidence::from_percent(percent.max(Confidence::MEDIUM.percent()))
}
