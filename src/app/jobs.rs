//! What only one node of a deployment does at a time: it drops shipped audit entries past their age, signs where all
//! chains are, indexes what older releases shipped, and finishes the erasures of nodes that are gone. What was shipped is
//! verified in [`super::verifying`].

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::access::signing::KeyRing;
use crate::clock::Clock;
use crate::cluster::BEAT_EVERY;
use crate::cluster::LEASES;
use crate::cluster::Leases;
use crate::cluster::Members;
use crate::govern::audit::AuditLog;
use crate::govern::audit::ClusterNotary;
use crate::govern::privacy::HOLDS;
use crate::govern::privacy::Keeper;
use crate::store::Store;
use crate::store::StoreError;

const CHECKPOINT: &str = "audit_checkpoint";
const RETENTION: &str = "audit_retention";
pub(super) const VERIFICATION: &str = "audit_verification";
const ERASURES: &str = "erasures";
const FACETS: &str = "audit_facets";
/// How many pieces of what older releases shipped are indexed in a round.
const FACETS_AT_ONCE: usize = 20;
/// How often it is looked for entries past their age.
const RETENTION_EVERY: Duration = Duration::from_secs(60);

/// What nodes do for each other, where they share a database.
#[derive(Clone)]
pub(super) struct Common {
    pub(super) leases: Arc<Leases>,
    pub(super) notary: Arc<ClusterNotary>,
}

/// The jobs, and what they need.
pub(super) struct Jobs {
    pub(super) common: Common,
    pub(super) log: AuditLog,
    pub(super) keeper: Keeper,
    pub(super) members: Arc<Members>,
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    /// When each job was last done here.
    pub(super) done: Mutex<BTreeMap<&'static str, Duration>>,
}

impl Common {
    /// Returns what nodes that share a store do for each other; `None`: nobody shares it.
    pub(super) fn open(
        store: &Store,
        members: Option<&Arc<Members>>,
        signing: &Arc<KeyRing>,
        clock: &Arc<dyn Clock>,
        node: &str,
    ) -> Option<Self> {
        let jobs = [CHECKPOINT, RETENTION, VERIFICATION, ERASURES, FACETS];
        let leases = Leases::new(store, Arc::clone(members?), Arc::clone(clock), &jobs);
        let notary = ClusterNotary::new(store, Arc::clone(signing), Arc::clone(clock), node.to_owned())?;
        Some(Self { leases: Arc::new(leases), notary: Arc::new(notary) })
    }
}

impl Jobs {
    /// Does what is due, where it is this node's to do, until `shutdown` resolves.
    pub(super) async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let mut tick = tokio::time::interval(BEAT_EVERY);
        let jobs = Arc::new(self);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                _ = tick.tick() => {}
            }
            let round = Arc::clone(&jobs);
            match tokio::task::spawn_blocking(move || round.round()).await {
                // Another node was faster, or a hold was taken meanwhile: the next round looks again.
                Ok(Ok(()) | Err(StoreError::Conflict)) => {}
                Ok(Err(error)) => tracing::debug!(%error, "what one node does for all could not be done"),
                Err(_) => tracing::error!("what one node does for all panicked"),
            }
        }
    }

    fn round(&self) -> Result<(), StoreError> {
        let leases = &self.common.leases;
        if let Some(version) = leases.held_at(CHECKPOINT)?
            && let Some(signed) = self.common.notary.keep(&[(LEASES, version)])?
        {
            tracing::debug!(nodes = signed.nodes.len(), "the chains of all nodes were signed");
        }
        if let Some(version) = leases.held_at(RETENTION)?
            && self.is_due(RETENTION, RETENTION_EVERY)
        {
            self.drop_old(version)?;
        }
        if leases.held_at(ERASURES)?.is_some() {
            self.take_over_erasures()?;
        }
        if leases.held_at(FACETS)?.is_some() {
            self.sort_in();
        }
        Ok(())
    }

    /// Indexes what older releases shipped, and still do.
    fn sort_in(&self) {
        for _ in 0..FACETS_AT_ONCE {
            match self.log.sort_in_shipped() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(%error, "audit entries of an older release are not indexed in full for now");
                    return;
                }
            }
        }
    }

    /// Finishes the erasures of nodes that are not there any more.
    fn take_over_erasures(&self) -> Result<(), StoreError> {
        let there: Vec<String> =
            self.members.nodes().into_iter().filter(|node| node.is_there).map(|node| node.id).collect();
        let is_gone = |node: &str| !there.iter().any(|id| id == node);
        match self.keeper.privacy.adopt(is_gone)? {
            0 => {}
            count => {
                tracing::warn!(count, "erasures of nodes that are gone are finished here");
                self.keeper.look();
            }
        }
        Ok(())
    }

    fn is_due(&self, job: &'static str, every: Duration) -> bool {
        let now = self.clock.monotonic();
        let mut done = self.done.lock();
        let is_due = done.get(job).is_none_or(|at| now >= *at + every);
        if is_due {
            done.insert(job, now);
        }
        is_due
    }

    fn drop_old(&self, leases: u64) -> Result<(), StoreError> {
        // First the version: the holds that are known then are at least as new.
        let holds = self.store.versions()?.get(HOLDS).copied().unwrap_or_default();
        self.keeper.privacy.follow()?;
        let expected = BTreeMap::from([(HOLDS.to_owned(), holds), (LEASES.to_owned(), leases)]);
        match self.log.drop_shipped(&expected) {
            Ok(0) => {}
            Ok(dropped) => tracing::info!(dropped, "shipped audit entries past their retention were dropped"),
            Err(error) => {
                tracing::warn!(%error, "shipped audit entries past their retention are kept for now")
            }
        }
        Ok(())
    }
}
