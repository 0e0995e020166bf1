//! What a pack says of the bytes beside a match.

use toml::Spanned;

use super::PackProblem;
use super::reader::DetectorFile;
use super::reader::Reader;
use crate::scan::detector::Pattern;
use crate::scan::edges::Behind;
use crate::scan::edges::ByteClass;
use crate::scan::edges::Edges;

impl Reader<'_> {
    /// Reads what may not stand beside a match.
    pub(super) fn edges(&mut self, name: &str, written: &DetectorFile, pattern: Option<&Pattern>) -> Edges {
        let mut class = |field: &'static str, written: &Option<Spanned<String>>| {
            let Some(written) = written else { return ByteClass::default() };
            let parsed = self.parsed(written.get_ref()).ok();
            parsed.as_ref().and_then(ByteClass::of).unwrap_or_else(|| {
                self.fault(Some(written.span()), Some(name.to_owned()), PackProblem::Edge { field });
                ByteClass::default()
            })
        };
        let not_before = class("not_before", &written.not_before);
        let not_after = class("not_after", &written.not_after);
        let written_before = written.not_before.is_some();
        let behind = written.behind.as_ref().and_then(|written| {
            let parsed = self.pattern(name, written, PackProblem::Behind)?;
            let behind = Behind::of(parsed).filter(|_| written_before);
            if behind.is_none() {
                self.fault(Some(written.span()), Some(name.to_owned()), PackProblem::BehindUnseen);
            }
            behind
        });
        let edges = Edges { not_before, behind, not_after };
        if !edges.not_after.is_empty() && pattern.is_some_and(|pattern| !pattern.looks_behind_itself()) {
            let span = written.not_after.as_ref().map(Spanned::span);
            self.fault(span, Some(name.to_owned()), PackProblem::EdgeUnseen);
        }
        edges
    }
}
