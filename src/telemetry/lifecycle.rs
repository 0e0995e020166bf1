//! Where the process stands between its start and its end, and what of it is still under way.
//!
//! The stages only go forward. What must end in order reads them: listeners stop at [`Stage::Draining`],
//! connections that did not end by themselves are cut at [`Stage::Cutting`], background work comes to its end
//! at [`Stage::Stopping`], when nothing is left that could give it more to do.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use tokio::sync::Notify;
use tokio::sync::watch;

/// Resolves once a stage is reached.
pub type Reached = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// How far the process is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Connections are taken.
    Serving,
    /// No new ones are; those that are open end when their exchange has.
    Draining,
    /// Time is up for those that are left.
    Cutting,
    /// Nothing is served any more; background work ends.
    Stopping,
}

/// The stage of the process, and counts of what keeps it from the next.
#[derive(Debug)]
pub struct Lifecycle {
    stage: watch::Sender<Stage>,
    draining: watch::Sender<bool>,
    leaving: AtomicBool,
    connections: AtomicUsize,
    tasks: AtomicUsize,
    none_left: Notify,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            stage: watch::Sender::new(Stage::Serving),
            draining: watch::Sender::new(false),
            leaving: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            tasks: AtomicUsize::new(0),
            none_left: Notify::new(),
        }
    }
}

impl Lifecycle {
    /// Tells load balancers, by the ready endpoint, that traffic should go elsewhere.
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    /// Tells whether traffic should go elsewhere.
    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// Tells whether connections should be closed with the answer to their next request.
    pub fn is_ending(&self) -> bool {
        self.is_leaving() || *self.draining.borrow()
    }

    /// Returns the stage.
    pub fn stage(&self) -> Stage {
        *self.stage.borrow()
    }

    /// Goes on to a stage; one that is behind us changes nothing.
    pub fn advance(&self, stage: Stage) {
        self.stage.send_if_modified(|now| {
            let is_ahead = *now < stage;
            *now = stage.max(*now);
            is_ahead
        });
        self.draining.send_replace(stage > Stage::Serving);
    }

    /// Returns what resolves once a stage is reached.
    pub fn reached(&self, stage: Stage) -> Reached {
        let mut watched = self.stage.subscribe();
        Box::pin(async move {
            // A closed channel means that the process is gone.
            let _ = watched.wait_for(|now| *now >= stage).await;
        })
    }

    /// Returns a flag that turns true with [`Stage::Draining`], for listeners.
    pub fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// Counts a connection that was opened.
    pub fn opened(&self) {
        self.connections.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts a connection that was closed.
    pub fn closed(&self) {
        self.one_less(&self.connections);
    }

    /// Counts a piece of background work that began.
    pub fn began(&self) {
        self.tasks.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts a piece of background work that ended.
    pub fn ended(&self) {
        self.one_less(&self.tasks);
    }

    /// Returns how many connections are open.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }

    /// Waits until no connection is open.
    pub async fn all_closed(&self) {
        self.none_of(&self.connections).await;
    }

    /// Waits until no background work is under way.
    pub async fn all_ended(&self) {
        self.none_of(&self.tasks).await;
    }

    fn one_less(&self, count: &AtomicUsize) {
        if count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.none_left.notify_waiters();
        }
    }

    async fn none_of(&self, count: &AtomicUsize) {
        loop {
            // Made before the count is read: it hears of every change from here on.
            let changed = self.none_left.notified();
            if count.load(Ordering::Acquire) == 0 {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stages_only_go_forward_and_wait_for_what_is_open() {
        let life = Lifecycle::default();
        let (draining, cut) = (life.draining(), life.reached(Stage::Cutting));
        life.opened();
        life.advance(Stage::Stopping);
        life.advance(Stage::Draining);
        assert!(*draining.borrow());
        cut.await;
        let (closed, ()) = tokio::join!(life.all_closed(), async { life.closed() });
        assert_eq!((closed, life.connections()), ((), 0));
    }
}
