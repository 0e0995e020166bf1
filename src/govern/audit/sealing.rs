//! Events that name somebody whose key has to be made in the database first: they wait here, so that nothing else does.
//!
//! In: events as they were recorded. Out: the same, sealed, in the order in which they came, to be written. The names of
//! all that wait get their keys by one transaction. An event waits for its own no longer than [`SEALED_WITHIN`], and for
//! the one before it as long again; names that have none by then are written as unlisted, and as long as a transaction
//! is late nobody waits for another. Nothing is written in the clear, and nothing is lost.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Sleep;

use super::event::AuditEvent;
use super::recorder::Queued;
use super::recorder::RecordError;
use super::stored;
use crate::access::keyring::Keyring;
use crate::access::keyring::Standing;
use crate::id::Ulid;

/// How long new names may take to get their keys before they are written as unlisted.
const SEALED_WITHIN: Duration = Duration::from_millis(250);
/// The names of so many events get their keys together.
const EVENTS_MAX: usize = 1024;

/// An event that waits for the keys of its names, and whom to tell once it is written.
pub(super) struct Unsealed {
    pub(super) event: AuditEvent,
    pub(super) done: Option<oneshot::Sender<Result<Ulid, RecordError>>>,
}

/// The events that wait.
pub(super) struct Sealing {
    newcomers: mpsc::Receiver<Unsealed>,
    keyring: Arc<Keyring>,
    /// Those whose keys are being made.
    waiting: Vec<Unsealed>,
    making: Option<Making>,
}

/// Keys that are being made.
struct Making {
    work: JoinHandle<()>,
    late: Pin<Box<Sleep>>,
    is_late: bool,
}

impl Sealing {
    pub(super) fn new(newcomers: mpsc::Receiver<Unsealed>, keyring: Arc<Keyring>) -> Self {
        Self { newcomers, keyring, waiting: Vec::new(), making: None }
    }

    /// Takes no more events; those that were taken still come.
    pub(super) fn close(&mut self) {
        self.newcomers.close();
    }

    /// Returns how many events wait.
    pub(super) fn len(&self) -> usize {
        self.newcomers.len() + self.waiting.len()
    }

    /// Returns the next events that are sealed; `None` once no more come. Nothing is lost where that is not waited for to
    /// the end.
    pub(super) async fn next(&mut self) -> Option<Vec<Queued>> {
        loop {
            let Some(making) = &mut self.making else {
                if self.newcomers.recv_many(&mut self.waiting, EVENTS_MAX).await == 0 {
                    return None;
                }
                self.making = Some(Making::begin(&self.keyring, &self.waiting));
                continue;
            };
            let more = self.newcomers.recv_many(&mut self.waiting, EVENTS_MAX);
            tokio::select! {
                biased;
                _ = &mut making.work => self.making = None,
                () = &mut making.late, if !making.is_late => making.is_late = true,
                taken = more, if making.is_late => if taken == 0 {
                    return None;
                },
            }
            if !self.waiting.is_empty() {
                return Some(self.sealed());
            }
        }
    }

    /// Returns what waits, with the tokens that its names have by now.
    fn sealed(&mut self) -> Vec<Queued> {
        let token = |(name, standing): (&str, Standing)| {
            self.keyring.at_hand(name, standing).unwrap_or_else(|| self.keyring.unlisted(standing))
        };
        let sealed = |Unsealed { event, done }| Queued { body: stored::body_with(&event, token), done };
        std::mem::take(&mut self.waiting).into_iter().map(sealed).collect()
    }
}

impl Making {
    fn begin(keyring: &Arc<Keyring>, waiting: &[Unsealed]) -> Self {
        let named = waiting.iter().flat_map(|one| stored::names(&one.event));
        let names: Vec<(String, Standing)> =
            named.map(|(name, standing)| (name.to_owned(), standing)).collect();
        let keyring = Arc::clone(keyring);
        let work = tokio::task::spawn_blocking(move || {
            // What failed is told there; whoever has no key then is unlisted.
            let _ = keyring.make_keys(names.iter().map(|(name, standing)| (name.as_str(), *standing)));
        });
        Self { work, late: Box::pin(tokio::time::sleep(SEALED_WITHIN)), is_late: false }
    }
}
