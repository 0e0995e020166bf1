//! What reports are made from: the frameworks in force, the last verification of the chain, the latest facts.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use tokio::sync::Mutex;

use super::facts::ChainFact;
use super::facts::Facts;
use super::framework::Framework;
use crate::clock::Clock;
use crate::govern::audit::AuditLog;

/// How old facts may be: under load they are gathered once in this time.
const FACTS_AGE_MAX: Duration = Duration::from_secs(1);
/// How often the whole chain of the audit log is verified.
const CHAIN_EVERY: Duration = Duration::from_secs(15 * 60);

/// Frameworks by id.
pub type Frameworks = BTreeMap<String, Framework>;

/// The parts of every report.
pub struct Desk {
    frameworks: ArcSwap<Frameworks>,
    chain: ArcSwapOption<ChainFact>,
    /// Held while facts are gathered, so that callers at the same time share them.
    facts: Mutex<Option<(Duration, Arc<Facts>)>>,
    log: AuditLog,
    clock: Arc<dyn Clock>,
}

impl Desk {
    /// Returns a desk with these frameworks, over this log.
    pub fn new(frameworks: Frameworks, log: AuditLog, clock: Arc<dyn Clock>) -> Self {
        let (chain, facts) = (ArcSwapOption::empty(), Mutex::default());
        Self { frameworks: ArcSwap::from_pointee(frameworks), chain, facts, log, clock }
    }

    /// Returns the frameworks in force.
    pub fn frameworks(&self) -> Arc<Frameworks> {
        self.frameworks.load_full()
    }

    /// Puts other frameworks in force.
    pub fn set_frameworks(&self, frameworks: Frameworks) {
        self.frameworks.store(Arc::new(frameworks));
    }

    /// Returns the last verification of the chain.
    pub fn chain(&self) -> Option<ChainFact> {
        self.chain.load().as_deref().cloned()
    }

    /// Returns facts that are at most a second old; `gather` is asked for fresh ones.
    ///
    /// # Errors
    /// They cannot be gathered.
    pub async fn facts<E>(&self, gather: impl Future<Output = Result<Facts, E>>) -> Result<Arc<Facts>, E> {
        let mut latest = self.facts.lock().await;
        let now = self.clock.monotonic();
        if let Some((_, facts)) = latest.as_ref().filter(|(at, _)| now < *at + FACTS_AGE_MAX) {
            return Ok(Arc::clone(facts));
        }
        let facts = Arc::new(gather.await?);
        *latest = Some((now, Arc::clone(&facts)));
        Ok(facts)
    }

    /// Verifies the whole chain of the audit log. Blocks for as long as it takes to read it.
    pub fn verify_chain(&self) {
        let at = self.clock.now();
        let fact = match self.log.verify() {
            Ok(check) => {
                let until = check.last_id().and_then(|id| Timestamp::from_millisecond(id.unix_ms()).ok());
                ChainFact { at, entries: check.entries(), until, fault: None }
            }
            Err(error) => {
                tracing::error!(%error, "the chain of the audit log does not hold together");
                ChainFact { at, entries: 0, until: None, fault: Some(error.to_string()) }
            }
        };
        self.chain.store(Some(Arc::new(fact)));
    }

    /// Verifies the chain every quarter of an hour, until `shutdown` resolves.
    pub async fn run(self: Arc<Self>, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let mut tick = tokio::time::interval(CHAIN_EVERY);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                _ = tick.tick() => {}
            }
            let desk = Arc::clone(&self);
            let verifying = tokio::task::spawn_blocking(move || desk.verify_chain());
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                done = verifying => if done.is_err() {
                    tracing::error!("verifying the audit log panicked");
                }
            }
        }
    }
}
