//! Which tool the arguments of a stream are for, where an event names it before they come.

use std::borrow::Cow;

use serde::Deserialize;
use smallvec::SmallVec;
use toml::Spanned;

use super::Dialect;
use super::lane;
use super::lane::LanePart;
use super::pattern::PathPattern;
use crate::llm::json::Document;

/// Where an event names a tool, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CalledFile {
    pub(super) event: Option<String>,
    pub(super) path: Spanned<String>,
    #[serde(default)]
    pub(super) key: Vec<String>,
}

/// Where an event names a tool.
#[derive(Debug)]
pub(super) struct CalledRule {
    pub(super) event: Option<String>,
    pub(super) path: PathPattern,
    pub(super) keys: Vec<Vec<String>>,
}

/// A tool that an event names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called<'b> {
    /// What the keys of the texts are made of that are for it.
    pub parts: SmallVec<[LanePart; 3]>,
    /// Its name.
    pub name: Cow<'b, str>,
}

impl Dialect {
    /// Returns the tools that an event names, each with the texts that are for it.
    pub fn called<'b>(&self, event: Option<&str>, body: &'b [u8], doc: &Document) -> Vec<Called<'b>> {
        let kind = lane::event_kind(body, doc);
        let fits = |rule: &&CalledRule| lane::fits_event(rule.event.as_deref(), event, kind.as_deref());
        let places = |rule: &CalledRule| lane::keyed(&rule.keys, &rule.path, body, doc);
        let named = self.called.iter().filter(fits).flat_map(places);
        named.filter_map(|(node, parts)| Some(Called { parts, name: doc.str_of(body, node)? })).collect()
    }
}
