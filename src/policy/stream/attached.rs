//! Documents that an event brings, such as a resource that a tool gives back.

use super::Held;
use super::Stop;
use super::StreamInspector;
use crate::llm::json::Document;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::attached::Attached;
use crate::policy::inspect::attached::Brought;
use crate::policy::inspect::text::Sheet;
use crate::redact::token::Vault;

impl StreamInspector {
    /// Reads the documents among the strings of an event, as in a body.
    pub(super) fn scan_documents(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &Held,
        (document, event): (&Document, Option<&str>),
    ) -> Result<(), Stop> {
        let text = (&held.payload[..], document);
        let brought = document.strings.iter().filter_map(|it| Brought::of(inspector, event, text, it));
        let attached: Vec<Attached> = brought.filter_map(|it| it.attached).collect();
        if attached.is_empty() {
            return Ok(());
        }
        let mut sheet = Sheet::new(inspector, vault);
        std::mem::swap(sheet.gathered(), &mut self.gathered);
        let read = sheet.read_more(attached, self.documents.len());
        let observations = sheet.take_observations();
        if !observations.is_empty() {
            sheet.weigh();
        }
        std::mem::swap(sheet.gathered(), &mut self.gathered);
        self.documents.extend(sheet.take_documents());
        self.opaque_bytes += sheet.take_opaque_bytes();
        let weighed = sheet.take_observations();
        self.shadow.merge(sheet.take_shadow());
        self.observe(observations.into_iter().chain(weighed))?;
        read.map_err(Stop::from)
    }

    /// Takes what became of each document, in one word.
    pub fn take_documents(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.documents)
    }
}
