//! How the process ends: asked to (SIGTERM, SIGQUIT), at once (SIGINT), or in favour of another (SIGUSR2).
//!
//! ```text
//! SIGTERM ─▶ /ready 503, `shutdown_notice_ms` ─▶ listeners stop ─▶ exchanges end, `shutdown_grace_ms` ─▶ the rest is cut
//! SIGUSR2 ─▶ the next process checks all it can ─▶ listeners stop ─▶ …                                      ─▶ tasks end
//! ```
//!
//! A second request to end ends the waiting. The next process opens the state when this one has let go of it; connections
//! that come meanwhile wait in the queues of the sockets, which both processes hold. If it cannot start, this one goes on.
//! Asked to end while it hands over, this process ends the next one, and then as if it had been asked at first. Another
//! SIGUSR2 changes nothing then.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use parking_lot::Mutex;
use pingora::server::ShutdownSignal;
use pingora::server::ShutdownSignalWatch;
use tokio::signal::unix::Signal;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::sync::watch;

use super::address::Named;
use super::manager::Manager;
use super::successor::Invocation;
use super::successor::Successor;
use super::successor::wait_until_prepared;
use crate::telemetry::lifecycle::Lifecycle;
use crate::telemetry::lifecycle::Stage;

/// How long connections that are accepted at this moment have to become known.
const SETTLE: Duration = Duration::from_millis(250);
/// How long what is cut may take to be recorded.
const CUT_WAIT: Duration = Duration::from_secs(2);
/// How long background work may take to end.
const TASKS_WAIT: Duration = Duration::from_secs(10);

/// How long each step may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndLimits {
    pub(super) notice: Duration,
    pub(super) grace: Duration,
}

/// The process that takes over once this one has let go of the state; empty where none does.
pub(super) type Next = Arc<Mutex<Option<Successor>>>;

/// What is needed to end well.
pub(super) struct Ending {
    pub(super) lifecycle: Arc<Lifecycle>,
    pub(super) limits: EndLimits,
    pub(super) manager: Arc<Manager>,
    pub(super) sockets: Arc<Mutex<Vec<Named>>>,
    pub(super) invocation: Option<Invocation>,
    pub(super) next: Next,
    /// Told once signals are heard: nobody is told that the process is ready before.
    pub(super) hears: watch::Sender<bool>,
}

/// What a signal asks for.
#[derive(Clone, Copy)]
pub(super) enum Asked {
    ToEnd,
    AtOnce,
    ForAnother,
}

/// What a signal to end asks for.
#[derive(Clone, Copy)]
enum End {
    InOrder,
    AtOnce,
}

/// What came of handing over.
enum Handing {
    /// The next process has checked all it can.
    Prepared(Successor),
    /// There is none, and this one goes on.
    Failed,
    /// This process was asked to end meanwhile.
    Over(End),
}

/// What the process is asked for.
pub(super) struct Signals {
    terminate: Signal,
    quit: Signal,
    interrupt: Signal,
    another: Signal,
}

#[async_trait]
impl ShutdownSignalWatch for Ending {
    async fn recv(&self) -> ShutdownSignal {
        let listening = Signals::listen();
        self.hears.send_replace(true);
        let mut signals = match listening {
            Ok(signals) => signals,
            Err(error) => {
                tracing::error!(%error, "signals cannot be listened for: only a kill ends the process");
                return std::future::pending().await;
            }
        };
        self.serve_until_over(&mut signals).await;
        // Whatever Pingora would wait for is over.
        ShutdownSignal::FastShutdown
    }
}

impl Ending {
    async fn serve_until_over(&self, signals: &mut Signals) {
        loop {
            match signals.next().await {
                Asked::ForAnother => match self.hand_over(signals).await {
                    Handing::Prepared(successor) => return self.end_for(successor, signals).await,
                    Handing::Failed => {}
                    Handing::Over(end) => return self.end(end, signals).await,
                },
                Asked::ToEnd => return self.end(End::InOrder, signals).await,
                Asked::AtOnce => return self.end(End::AtOnce, signals).await,
            }
        }
    }

    /// Ends all that is under way, in order or at once.
    async fn end(&self, end: End, signals: &mut Signals) {
        let EndLimits { notice, grace } = self.limits.of(end);
        self.tell_the_end(notice + grace);
        self.lifecycle.leave();
        tokio::select! {
            () = tokio::time::sleep(notice) => {}
            _ = signals.next_end() => {}
        }
        self.sockets.lock().clear();
        // Whoever is asked again has waited long enough.
        let _ = self.drain(grace, signals).await;
        self.stop().await;
    }

    /// Ends all that is under way, and leaves the rest to the next process.
    async fn end_for(&self, successor: Successor, signals: &mut Signals) {
        if let Err(end) = self.drain(self.limits.grace, signals).await {
            successor.end();
            let EndLimits { grace, .. } = self.limits.of(end);
            self.tell_the_end(grace);
            self.sockets.lock().clear();
            let _ = self.drain(grace, signals).await;
            return self.stop().await;
        }
        self.stop().await;
        match signals.pending() {
            Some(_) => successor.end(),
            None => *self.next.lock() = Some(successor),
        }
    }

    fn tell_the_end(&self, wanted: Duration) {
        tracing::info!(connections = self.lifecycle.connections(), "asked to end");
        self.manager.stopping(wanted + CUT_WAIT + TASKS_WAIT);
    }

    /// Takes no more connections, and waits until those that are open have closed, or time is up.
    ///
    /// # Errors
    /// The process is asked to end, and how.
    async fn drain(&self, grace: Duration, signals: &mut Signals) -> Result<(), End> {
        let lifecycle = &self.lifecycle;
        tracing::info!(connections = lifecycle.connections(), "drains");
        lifecycle.advance(Stage::Draining);
        tokio::select! {
            () = async { tokio::time::sleep(SETTLE.min(grace)).await; lifecycle.all_closed().await } => Ok(()),
            () = tokio::time::sleep(grace) => Ok(()),
            end = signals.next_end() => Err(end),
        }
    }

    /// Cuts what is left, and lets background work end.
    async fn stop(&self) {
        let lifecycle = &self.lifecycle;
        if lifecycle.connections() > 0 {
            tracing::warn!(connections = lifecycle.connections(), "time is up: what is left is cut");
        }
        lifecycle.advance(Stage::Cutting);
        if tokio::time::timeout(CUT_WAIT, lifecycle.all_closed()).await.is_err() {
            tracing::error!(connections = lifecycle.connections(), "connections did not end");
        }
        // Whoever beats ends with the work.
        self.manager.beat();
        lifecycle.advance(Stage::Stopping);
        if tokio::time::timeout(TASKS_WAIT, lifecycle.all_ended()).await.is_err() {
            tracing::error!("background work did not end in time");
        }
        tracing::info!("ends");
    }

    /// Starts another process in our place, and waits until it is ready to take over.
    async fn hand_over(&self, signals: &mut Signals) -> Handing {
        let Some(invocation) = &self.invocation else { return Handing::Failed };
        tracing::info!(program = %invocation.program().display(), "asked to hand over");
        let started = Successor::start(invocation, &self.sockets.lock());
        let waiting = started.and_then(|successor| Ok((successor.line()?, successor)));
        let (line, successor) = match waiting {
            Ok(waiting) => waiting,
            Err(error) => return not_handed_over(&error),
        };
        let mut prepared = tokio::task::spawn_blocking(move || wait_until_prepared(&line));
        let outcome = loop {
            tokio::select! {
                outcome = &mut prepared => break outcome.unwrap_or_else(|panic| Err(io::Error::other(panic))),
                asked = signals.next() => match asked.end() {
                    Some(end) => {
                        successor.end();
                        return Handing::Over(end);
                    }
                    None => tracing::warn!("asked to hand over, which is under way"),
                },
            }
        };
        match outcome {
            Ok(()) => {
                let process = successor.process();
                tracing::info!(process, "hands over");
                self.manager.handing_over(process);
                Handing::Prepared(successor)
            }
            Err(error) => {
                successor.end();
                not_handed_over(&error)
            }
        }
    }
}

fn not_handed_over(error: &io::Error) -> Handing {
    tracing::error!(%error, "the next process cannot take over, this one goes on");
    Handing::Failed
}

impl EndLimits {
    fn of(self, end: End) -> Self {
        match end {
            End::InOrder => self,
            End::AtOnce => Self { notice: Duration::ZERO, grace: Duration::ZERO },
        }
    }
}

impl Asked {
    fn end(self) -> Option<End> {
        match self {
            Self::ToEnd => Some(End::InOrder),
            Self::AtOnce => Some(End::AtOnce),
            Self::ForAnother => None,
        }
    }
}

/// Lets a process that begins, or takes over, outlive what a running one is asked by SIGHUP, SIGUSR1 and SIGUSR2: each of
/// them ends a process that nobody told otherwise. Nothing is done about them before there is somebody to do it.
///
/// # Errors
/// Signals cannot be listened for.
pub(super) fn outlive_requests() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _inside = runtime.enter();
    // What was listened for once does what it did by default no more.
    let requests = [SignalKind::hangup(), SignalKind::user_defined1(), SignalKind::user_defined2()];
    requests.into_iter().try_for_each(|kind| signal(kind).map(drop))
}

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    /// Signals cannot be listened for.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            interrupt: signal(SignalKind::interrupt())?,
            another: signal(SignalKind::user_defined2())?,
        })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::ToEnd,
            _ = self.quit.recv() => Asked::ToEnd,
            _ = self.interrupt.recv() => Asked::AtOnce,
            _ = self.another.recv() => Asked::ForAnother,
        }
    }

    /// Waits for the next one that asks the process to end.
    async fn next_end(&mut self) -> End {
        loop {
            match self.next().await.end() {
                Some(end) => return end,
                None => tracing::warn!("asked to hand over while the process ends: it goes on to end"),
            }
        }
    }

    /// Returns what has asked the process to end by now.
    fn pending(&mut self) -> Option<End> {
        self.next_end().now_or_never()
    }
}
