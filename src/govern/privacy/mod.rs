//! What people may ask of the record: to hold it, to see it, to be forgotten by it.
//!
//! In: holds, requests of data subjects. Out: what every [`DataProvider`] knows of an entity, or that it has been
//! forgotten. A hold forbids the erasure of its entity; of a hold and an erasure that meet exactly one wins: each
//! takes its place at one desk, under one lock, and on all nodes, before it does anything ([`Privacy`]). An entity is
//! one by whatever name it is called, as far as the node knows that is asked: a user by its name in any spelling and
//! by its id, whoever signed in elsewhere by the name there, and all in either form that Unicode has for an accent. A hold
//! on a key holds whoever is called as the key was, also once the key is revoked or renamed. An erasure leaves a note on the
//! disk before its first deletion, so that one that was cut short is finished soon, or at the next start; and a mark before
//! it destroys the keys, so that the other nodes hear of it.
//!
//! What it does not promise: that a hold keeps entries past their retention which are recorded under a name that the
//! entity got after the hold was taken; that a node which was away for longer than [`MARKS_KEPT`] hears of an erasure, and
//! drops what only it keeps of the entity; copies of the record that left the gateway (exports, SIEM, backups) keep what
//! they have.

mod author;
mod desk;
mod erasure;
mod hold;
mod keeper;
mod places;
mod provider;
mod release;
mod spelling;
mod subject;
#[cfg(test)]
mod tests;

pub use self::author::authors;
pub use self::desk::Arrival;
pub use self::desk::HoldError;
pub use self::desk::Privacy;
pub use self::desk::PrivacyError;
pub use self::erasure::EraseError;
pub use self::erasure::Erased;
pub use self::erasure::own_name;
pub use self::hold::FieldFault;
pub use self::hold::HOLDS;
pub use self::hold::Hold;
pub use self::hold::HoldId;
pub use self::hold::NewHold;
pub use self::hold::entity_fits;
pub use self::keeper::Keeper;
pub use self::keeper::MARKS_KEPT;
pub use self::provider::Aliases;
pub use self::provider::DataProvider;
pub use self::provider::Fact;
pub use self::provider::Facts;
pub use self::provider::NamedCallers;
pub use self::provider::ProviderError;
pub use self::provider::analytics::AnalyticsProvider;
pub use self::provider::audit::AuditProvider;
pub use self::provider::holds::HoldsProvider;
pub use self::provider::ioc::IocProvider;
pub use self::provider::rbac::RbacProvider;
pub use self::provider::revisions::RevisionsProvider;
pub use self::provider::sessions::SessionsProvider;
pub use self::provider::tools::ToolsProvider;
pub use self::provider::tools::pin_keys;
pub use self::provider::trust::TrustProvider;
