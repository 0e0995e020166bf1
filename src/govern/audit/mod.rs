//! The audit log: what happened, written once, in order, and safe on disk before anyone is told.
//!
//! In: [`AuditEvent`]s through a [`Recorder`]. Out: [`Entry`]s by [`Query`], by [`Tail`], or all of them to be
//! verified. One [`Writer`] gives each event its id and its hashes and appends groups to a journal of segments;
//! everything else reads the journal. The log never drops an event in silence: what cannot be recorded is an
//! error for the caller, whose fail mode decides.
//!
//! Actor and entity are stored as tokens of the [`crate::access::keyring`]: the entries stay as they are for ever, and
//! still forget whom they are about once a key is destroyed.

mod categories;
mod chain;
mod checkpoint;
mod cluster_checkpoint;
pub mod config;
mod dropping;
mod event;
mod export;
#[cfg(test)]
mod fault;
mod index;
mod journal;
mod log;
mod open;
mod query;
mod recorder;
mod retention;
#[cfg(test)]
mod sample;
mod sealing;
mod seen;
mod segment;
mod shipping;
mod space;
mod stored;
mod tail;
#[cfg(test)]
mod tests;
mod timing;
pub mod verify;
mod writer;

pub use self::chain::ChainCheck;
pub use self::chain::ChainFault;
pub use self::chain::Hash;
pub use self::checkpoint::CHECKPOINTS_FILE;
pub use self::checkpoint::Checkpoint;
pub use self::checkpoint::Notary;
pub use self::cluster_checkpoint::Anchor;
pub use self::cluster_checkpoint::ClusterCheckpoint;
pub use self::cluster_checkpoint::ClusterNotary;
pub use self::cluster_checkpoint::checkpoint_lines;
pub use self::cluster_checkpoint::kept_checkpoints;
pub use self::event::AuditEvent;
pub use self::event::AuditFinding;
pub use self::event::AuditForeseen;
pub use self::event::AuditShadow;
pub use self::event::Entry;
pub use self::export::Export;
pub use self::export::ExportHead;
pub use self::export::Exported;
pub use self::index::QueryError;
pub use self::journal::JournalError;
pub use self::journal::Repair;
pub use self::journal::look;
pub use self::log::ReadError;
pub use self::open::About;
pub use self::open::AuditConfig;
pub use self::open::AuditLog;
pub use self::open::LogStatus;
pub use self::open::OpenError;
pub use self::open::Opened;
pub use self::open::VerifyError;
pub use self::open::open;
pub use self::open::open_with;
pub use self::query::PAGE_ENTRIES_DEFAULT;
pub use self::query::PAGE_ENTRIES_MAX;
pub use self::query::Page;
pub use self::query::Query;
pub use self::recorder::Durability;
pub use self::recorder::Health;
pub use self::recorder::RecordError;
pub use self::recorder::Recorder;
pub use self::recorder::Trouble;
pub use self::seen::Seen;
pub use self::shipping::ShipStatus;
pub use self::shipping::ShippedChain;
pub use self::shipping::Shipping;
pub use self::shipping::verify_shipped;
pub use self::tail::Following;
pub use self::tail::Gap;
pub use self::tail::Tail;
pub use self::timing::ClockWarning;
pub use self::writer::Writer;
pub use self::writer::WriterError;
