//! What an event says beside its texts, and must not say where these are changed: their copies, and that they are over.

use std::ops::Range;

use super::Dialect;
use super::pattern::Ancestry;
use super::pattern::PathPattern;
use crate::llm::json::Document;
use crate::llm::json::JsonString;
use crate::llm::json::NodeId;

impl Dialect {
    /// Returns the objects and arrays of a body that repeat its texts in other forms, the outermost ones, each with
    /// what stands for none: they are emptied where a text is masked.
    pub fn copies(&self, body: &[u8], doc: &Document) -> Vec<(Range<usize>, &'static str)> {
        let named = |key: &&JsonString| {
            let name = doc.text(body, key);
            let fits = |copy: &PathPattern| {
                copy.ends_in(&name)
                    && (copy.steps.len() == 1 || copy.matches(body, doc, &Ancestry::of(doc, key.node)))
            };
            self.copies.iter().any(fits)
        };
        let mut found: Vec<(Range<usize>, &'static str)> = Vec::new();
        for key in doc.strings.iter().filter(|string| string.key).filter(named) {
            let Some(range) = doc.container_of(body, key) else { continue };
            if found.last().is_none_or(|(last, _)| last.end <= range.start) {
                found.push((range, if doc.is_array(key.node) { "[]" } else { "null" }));
            }
        }
        found
    }

    /// Returns what in an event says that its texts are over, each with what stands there where they are not: an event that
    /// is cut within a text ends none.
    pub fn over_marks(&self, body: &[u8], doc: &Document) -> Vec<(Range<usize>, &'static str)> {
        let places = self.over.iter().flat_map(|path| path.places(body, doc));
        let mark = |node| match (doc.string(node), doc.bool_of(node)) {
            (Some(reason), _) => Some((reason.raw.start - 1..reason.raw.end + 1, "null")),
            (None, Some(true)) => Some((true_of(body, doc, node)?, "false")),
            (None, _) => None,
        };
        places.filter_map(mark).collect()
    }
}

/// Returns where the `true` stands that a member is.
fn true_of(body: &[u8], doc: &Document, member: NodeId) -> Option<Range<usize>> {
    let key = doc.strings.iter().find(|key| key.key && key.node == member)?;
    let behind = body.get(key.raw.end..)?;
    let from = key.raw.end + memchr::memmem::find(behind, b"true")?;
    Some(from..from + "true".len())
}
