//! Erasures: what they leave on the disk while they run, and what they tell once they are done.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

use super::keeper::HeldNote;
use super::provider::ProviderError;
use super::spelling::folded;
use crate::access::keyring::ERASED;
use crate::access::keyring::Keyring;
use crate::access::keyring::UNLISTED;
use crate::govern::analytics::figures::UNKNOWN;
use crate::govern::audit::AuditEvent;
use crate::policy::reload::SYSTEM_AUTHOR;
use crate::store::Record;
use crate::store::StoreError;

/// The table of erasures that were begun and are not recorded yet, by the entity's token.
pub(super) const NOTES: &str = "erasures_under_way";

/// The table of entities that were erased, by what their names are found by.
pub(super) const MARKS: &str = "erased_lately";

/// The names under which records have what the gateway itself does, and what nobody is named for.
const OWN_NAMES: [&str; 4] = [SYSTEM_AUTHOR, UNKNOWN, ERASED, UNLISTED];

/// Returns the gateway's own name that a text is; `None`: it may be somebody's.
pub fn own_name(text: &str) -> Option<&'static str> {
    OWN_NAMES.into_iter().find(|own| folded(own) == folded(text))
}

/// An erasure that is over, and whose note is still in hand: nobody else finishes it meanwhile.
#[derive(Debug)]
pub struct Erased {
    pub(super) note: HeldNote,
    /// When it was over.
    pub erased_at: Timestamp,
    /// How many records of each provider it affected; those that knew nothing are left out. `None`: the process
    /// ended in its midst, and how many the first part affected is not known.
    pub affected: Option<BTreeMap<&'static str, u64>>,
}

/// Why an entity was not erased.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// A legal hold forbids it.
    #[error("the entity is under a legal hold")]
    Held,
    /// It issued a legal hold that is in force: who wanted it must be known as long as it is.
    #[error("it issued a legal hold that is in force")]
    Issuer,
    /// It is nobody: what the gateway itself does, or what nobody is named for, stands under this name.
    #[error("{0} is a name of the gateway's own, and nobody's: it cannot be erased")]
    Own(&'static str),
    /// It is being erased already.
    #[error("an erasure of this entity is under way")]
    UnderWay,
    /// A provider must not or cannot forget it.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The entity's key could not be destroyed: call again.
    #[error("the entity's key could not be destroyed")]
    Key(#[from] std::io::Error),
    /// It could not be noted that it is to be erased, so that nobody finishes it: call again.
    #[error(transparent)]
    NotBegun(Box<EraseError>),
}

/// That an erasure was begun.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) begun_at: Timestamp,
    /// The tokens of the entity's other names: who finishes it may no longer find them out.
    #[serde(default)]
    pub(super) also: Vec<String>,
    /// The node that erases; empty where there is only one.
    #[serde(default)]
    pub(super) node: String,
}

/// That an entity was erased, known by what its name is found by: for holds that were asked for on other nodes before
/// it was, and for nodes that keep records of it and were away.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) erased_at: Timestamp,
}

impl Record for Mark {
    const VERSION: u32 = 1;
}

impl Record for Note {
    const VERSION: u32 = 1;
}

impl Note {
    /// Returns the names of whom it is about whose keys still exist, the one that was asked for first; `token` is
    /// what the note is found by.
    pub(super) fn names(&self, token: &str, keyring: &Keyring) -> Vec<String> {
        let tokens = std::iter::once(token).chain(self.also.iter().map(String::as_str));
        tokens.filter_map(|token| keyring.name_of(token)).collect()
    }
}

impl EraseError {
    /// Returns what is recorded of an erasure that broke off: why, not about whom. Some of the entity's keys may be
    /// destroyed by now, or be destroyed by whoever finishes it before this is written: its name in the log would get a
    /// new key, of which nobody knows that it has to go, and be there for good.
    pub fn event(&self) -> AuditEvent {
        let what = match self {
            Self::NotBegun(_) => "an erasure was not begun, ask for it again",
            _ => "an erasure broke off, and is finished later",
        };
        AuditEvent {
            event_type: "erasure_failed".to_owned(),
            action: "block".to_owned(),
            message: format!("{what}: {self}"),
            ..AuditEvent::default()
        }
    }

    /// Returns the same of an erasure that did not get as far as its note.
    pub(super) fn before_note(self) -> Self {
        match self {
            Self::Held | Self::Issuer | Self::Own(_) | Self::UnderWay | Self::NotBegun(_) => self,
            Self::Provider(_) | Self::Store(_) | Self::Key(_) => Self::NotBegun(Box::new(self)),
        }
    }
}

impl Erased {
    /// Returns how many records were affected in all.
    pub fn records_affected(&self) -> u64 {
        self.affected.iter().flat_map(BTreeMap::values).sum()
    }

    /// Returns what is recorded of it: how much was forgotten, not about whom.
    pub fn event(&self) -> AuditEvent {
        let message = match &self.affected {
            Some(affected) => {
                let each = affected.iter().map(|(name, count)| format!("{name} {count}"));
                let each = each.collect::<Vec<_>>().join(", ");
                let each = if each.is_empty() { "nothing was known of it".to_owned() } else { each };
                format!("an entity was erased: {each}")
            }
            None => "an entity was erased, after a restart in the midst of it".to_owned(),
        };
        AuditEvent {
            event_type: "entity_erased".to_owned(),
            action: "allow".to_owned(),
            message,
            ..AuditEvent::default()
        }
    }
}
