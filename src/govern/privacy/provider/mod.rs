//! Who knows something about entities: one provider for each part of the gateway that keeps such records.
//!
//! A part joins by implementing [`DataProvider`] and being added to the list that `app` gives [`super::Privacy`].
//! Parts that keep names in the store should keep [tokens](crate::access::keyring) instead: the store's files keep old
//! pages, and only a destroyed key is forgotten everywhere at once.

pub mod analytics;
pub mod audit;
pub mod holds;
pub mod ioc;
pub mod rbac;
pub mod revisions;
pub mod sessions;
pub mod tools;
pub mod trust;

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use jiff::Timestamp;

/// What a provider knows of an entity, by field.
pub type Facts = BTreeMap<&'static str, Fact>;

/// One field of what is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// How many there are.
    Count(u64),
    /// A text.
    Text(String),
    /// Several texts.
    List(Vec<String>),
}

/// Why a provider could not answer or forget.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// What it keeps cannot be read or written at the moment.
    #[error("{0} cannot reach its records")]
    Unavailable(&'static str),
    /// It must not forget, for the reason given; nothing was changed.
    #[error("{0}")]
    Refused(String),
}

/// What else an entity is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aliases {
    /// Names of this entity and of no other: what is known under them is known of it, and goes with it.
    pub own: Vec<String>,
    /// Names that it may share with others: a hold on one of them holds it, too, but what is known under them stays
    /// when it is erased.
    pub shared: Vec<String>,
}

/// Which callers records name by tokens that age out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedCallers {
    /// Whoever was seen since then may be named; `None`: only those that follow.
    pub since: Option<Timestamp>,
    /// Named, whenever they were seen.
    pub also: BTreeSet<String>,
}

/// Keeps records about entities, which are given by all their own names, the one that was asked for first. All calls
/// may block on the disk.
pub trait DataProvider: Send + Sync {
    /// Returns the name under which its answers are listed, e.g. `audit`.
    fn name(&self) -> &'static str;

    /// Returns what else an entity is called, as far as this part knows.
    fn aliases(&self, _entity: &str) -> Aliases {
        Aliases::default()
    }

    /// Returns the one spelling of a name that this part takes in several; `None`: it knows no such name, or takes it as it
    /// is.
    fn spelling(&self, _entity: &str) -> Option<String> {
        None
    }

    /// Returns which callers its records name by tokens from [`Keyring::seal`](crate::access::keyring::Keyring::seal).
    ///
    /// # Errors
    /// When its records cannot be read: then nobody's name may age out.
    fn callers(&self) -> Result<NamedCallers, ProviderError> {
        Ok(NamedCallers::default())
    }

    /// Returns what is known of an entity; `None`: nothing.
    ///
    /// # Errors
    /// When its records cannot be read.
    fn export(&self, names: &[String]) -> Result<Option<Facts>, ProviderError>;

    /// Forgets an entity and returns how many records that affected; zero where nothing was known. Called again
    /// after a crash in its midst, it finishes. The keys of its names are destroyed right after the last provider, so
    /// that records which only hold tokens need no change.
    ///
    /// # Errors
    /// When a record could not be changed.
    fn erase(&self, names: &[String]) -> Result<u64, ProviderError>;
}
