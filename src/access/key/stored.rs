//! What of a key is sealed in the store.

use super::KeyRecord;
use crate::access::keyring::sealed::Named;
use crate::access::keyring::sealed::Part;

impl Named for KeyRecord {
    fn entity(&self) -> Option<String> {
        Some(self.id.clone())
    }

    fn parts(&mut self) -> Vec<Part<'_>> {
        vec![Part::Name(&mut self.name)]
    }
}
