//! Verifies from time to time what all nodes shipped, on the node whose turn it is. That may take long: it has a task
//! of its own, which the end of the process breaks off between two pages.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;

use super::jobs::VERIFICATION;
use crate::clock::Clock;
use crate::cluster::BEAT_EVERY;
use crate::cluster::Leases;
use crate::govern::audit::kept_checkpoints;
use crate::govern::audit::verify::Trust;
use crate::govern::audit::verify_shipped;
use crate::store::Store;
use crate::store::StoreError;
use crate::telemetry::metrics::Metrics;

/// How long after one verification the next begins.
const EVERY: Duration = Duration::from_secs(15 * 60);

/// What verifies, and what it needs.
pub(super) struct Verifying {
    pub(super) leases: Arc<Leases>,
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
    /// When the last one here was over.
    pub(super) over_at: Mutex<Option<Duration>>,
}

impl Verifying {
    /// Verifies what is due, where it is this node's to do, until `shutdown` resolves.
    pub(super) async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let (verifying, is_over) = (Arc::new(self), Arc::new(AtomicBool::new(false)));
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                () = tokio::time::sleep(BEAT_EVERY) => {}
            }
            let (round, stop) = (Arc::clone(&verifying), Arc::clone(&is_over));
            let mut work = tokio::task::spawn_blocking(move || round.round(&stop));
            let done = tokio::select! {
                biased;
                () = &mut shutdown => {
                    is_over.store(true, Ordering::Release);
                    work.await
                }
                done = &mut work => done,
            };
            match done {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "what all nodes shipped could not be verified"),
                Err(_) => tracing::error!("the verification of what all nodes shipped panicked"),
            }
            if is_over.load(Ordering::Acquire) {
                return;
            }
        }
    }

    fn round(&self, is_over: &AtomicBool) -> Result<(), StoreError> {
        let is_due = self.over_at.lock().is_none_or(|at| self.clock.monotonic() >= at + EVERY);
        if !is_due || self.leases.held_at(VERIFICATION)?.is_none() {
            return Ok(());
        }
        let verified = self.verify(is_over);
        *self.over_at.lock() = Some(self.clock.monotonic());
        verified
    }

    fn verify(&self, is_over: &AtomicBool) -> Result<(), StoreError> {
        let Some(archive) = self.store.archive() else { return Ok(()) };
        let kept = kept_checkpoints(&self.store)?;
        let goes_on = || !is_over.load(Ordering::Acquire);
        let Some(chains) = verify_shipped(&archive, &kept, &Trust::default(), &goes_on)? else {
            return Ok(());
        };
        let mut faults = 0;
        for chain in &chains {
            if let Err(fault) = &chain.found {
                faults += 1;
                tracing::error!(node = chain.node, %fault, "the shipped chain of a node does not hold together");
            }
        }
        self.metrics.audit_chain_faults(faults);
        Ok(())
    }
}
