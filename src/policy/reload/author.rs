//! Who makes a change, and how far it may reach.

use super::ChangeError;
use super::patch::moves_secrets;
use crate::document::Document;

/// Who makes a change, and how far it may reach.
#[derive(Clone, Debug)]
pub struct Author {
    /// The name that the revision carries.
    pub name: String,
    /// What the change may touch.
    pub reach: Reach,
}

/// What a change that comes over the network may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Rules: but where a provider's key goes, it goes.
    Rules,
    /// Also where a provider's key goes, and earlier revisions with other keys or agents.
    Secrets,
}

impl Author {
    /// Refuses a change from one document to another that is out of the author's reach.
    ///
    /// # Errors
    /// [`ChangeError::OutOfReach`].
    pub(super) fn ensure_reaches(&self, current: &Document, wanted: &Document) -> Result<(), ChangeError> {
        match self.reach {
            Reach::Rules if moves_secrets(current, wanted) => Err(ChangeError::OutOfReach),
            Reach::Rules | Reach::Secrets => Ok(()),
        }
    }
}
