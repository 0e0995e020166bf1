//! What of a session is sealed in the store: what an identity provider told of its holder.

use super::Holder;
use super::SessionRecord;
use crate::access::keyring::sealed::Named;
use crate::access::keyring::sealed::Part;

impl Named for SessionRecord {
    fn entity(&self) -> Option<String> {
        matches!(self.holder, Holder::Sso(_)).then(|| self.holder.id())
    }

    fn parts(&mut self) -> Vec<Part<'_>> {
        match &mut self.holder {
            Holder::Key { .. } | Holder::User { .. } => Vec::new(),
            Holder::Sso(identity) => {
                let texts = std::iter::once(&mut identity.subject).chain(&mut identity.session);
                texts.map(Part::Text).chain(std::iter::once(Part::Name(&mut identity.name))).collect()
            }
        }
    }
}
