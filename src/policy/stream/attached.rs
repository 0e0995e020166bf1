//! Documents that an event brings, such as a resource that a tool gives back.

use super::Stop;
use super::StreamInspector;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::attached::Attached;
use crate::policy::inspect::text::Sheet;
use crate::redact::token::Vault;

impl StreamInspector {
    /// Reads the files that an event brings, as in a body.
    pub(super) fn scan_documents(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        attached: Vec<Attached>,
    ) -> Result<(), Stop> {
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
