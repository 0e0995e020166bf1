//! How the process ends: asked to (SIGTERM, SIGQUIT), at once (SIGINT), or in favour of another (SIGUSR2).
//!
//! ```text
//! SIGTERM ─▶ /ready 503, `shutdown_notice_ms` ─▶ listeners stop ─▶ exchanges end, `shutdown_grace_ms` ─▶ the rest is cut
//! SIGUSR2 ─▶ the next process checks all it can ─▶ listeners stop ─▶ …                                      ─▶ tasks end
//! ```
//!
//! A second request to end ends the waiting. The next process opens the state when this one is gone; connections that
//! come meanwhile wait in the queues of the sockets, which both processes hold. If it cannot start, this one goes on.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use pingora::server::ShutdownSignal;
use pingora::server::ShutdownSignalWatch;
use tokio::signal::unix::Signal;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::sync::watch;

use super::address::Named;
use super::inherit;
use super::manager::Manager;
use crate::telemetry::lifecycle::Lifecycle;
use crate::telemetry::lifecycle::Stage;

/// How long connections that were accepted a moment ago have to become known: their handshakes are under way.
const SETTLE: Duration = Duration::from_millis(250);
/// How long what is cut may take to be recorded.
const CUT_WAIT: Duration = Duration::from_secs(2);
/// How long background work may take to end.
const TASKS_WAIT: Duration = Duration::from_secs(10);
/// How long the next process may take to check what it can.
const PREPARE_MAX: Duration = Duration::from_secs(120);
/// The argument that tells the next process where its sockets are.
const TAKE_OVER: &str = "--take-over";

/// How this process was started, so that another can be.
#[derive(Clone, Debug)]
pub struct Invocation {
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// How long each step may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndLimits {
    pub(super) notice: Duration,
    pub(super) grace: Duration,
}

/// The line to the process that takes over: it hears of our end by its closing.
pub(super) type Line = Arc<Mutex<Option<UnixStream>>>;

/// What is needed to end well.
pub(super) struct Ending {
    pub(super) lifecycle: Arc<Lifecycle>,
    pub(super) limits: EndLimits,
    pub(super) manager: Arc<Manager>,
    pub(super) sockets: Arc<Mutex<Vec<Named>>>,
    pub(super) invocation: Option<Invocation>,
    pub(super) line: Line,
    /// Told once signals are heard: nobody is told that the process is ready before.
    pub(super) hears: watch::Sender<bool>,
}

enum Asked {
    ToEnd,
    AtOnce,
    ForAnother,
}

struct Signals {
    terminate: Signal,
    quit: Signal,
    interrupt: Signal,
    another: Signal,
}

impl Invocation {
    /// Returns how this process was started. Called before the program's file is replaced.
    pub fn of_process() -> Option<Self> {
        let program = std::env::current_exe().ok()?;
        let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        if !arguments.iter().any(|argument| argument == TAKE_OVER) {
            arguments.push(TAKE_OVER.into());
        }
        Some(Self { program, arguments })
    }
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
        loop {
            match signals.next().await {
                Asked::ForAnother => {
                    if self.hand_over().await {
                        self.drain(self.limits.grace, &mut signals).await;
                        break;
                    }
                }
                Asked::ToEnd => {
                    self.tell_the_end(self.limits.notice + self.limits.grace);
                    self.lifecycle.leave();
                    tokio::select! {
                        () = tokio::time::sleep(self.limits.notice) => {}
                        _ = signals.next() => {}
                    }
                    self.sockets.lock().clear();
                    self.drain(self.limits.grace, &mut signals).await;
                    break;
                }
                Asked::AtOnce => {
                    self.tell_the_end(Duration::ZERO);
                    self.lifecycle.leave();
                    self.sockets.lock().clear();
                    self.drain(Duration::ZERO, &mut signals).await;
                    break;
                }
            }
        }
        // Whatever Pingora would wait for is over.
        ShutdownSignal::FastShutdown
    }
}

impl Ending {
    fn tell_the_end(&self, wanted: Duration) {
        tracing::info!(connections = self.lifecycle.connections(), "asked to end");
        self.manager.stopping(wanted + CUT_WAIT + TASKS_WAIT);
    }

    async fn drain(&self, grace: Duration, signals: &mut Signals) {
        let lifecycle = &self.lifecycle;
        tracing::info!(connections = lifecycle.connections(), "drains");
        lifecycle.advance(Stage::Draining);
        tokio::select! {
            () = async { tokio::time::sleep(SETTLE.min(grace)).await; lifecycle.all_closed().await } => {}
            () = tokio::time::sleep(grace) => {}
            _ = signals.next() => {}
        }
        if lifecycle.connections() > 0 {
            tracing::warn!(connections = lifecycle.connections(), "time is up: what is left is cut");
        }
        lifecycle.advance(Stage::Cutting);
        if tokio::time::timeout(CUT_WAIT, lifecycle.all_closed()).await.is_err() {
            tracing::error!(connections = lifecycle.connections(), "connections did not end");
        }
        lifecycle.advance(Stage::Stopping);
        if tokio::time::timeout(TASKS_WAIT, lifecycle.all_ended()).await.is_err() {
            tracing::error!("background work did not end in time");
        }
        tracing::info!("ends");
    }

    /// Starts another process in our place; false where it cannot take over.
    async fn hand_over(&self) -> bool {
        let Some(invocation) = self.invocation.clone() else { return false };
        tracing::info!(program = %invocation.program.display(), "asked to hand over");
        let sockets = Arc::clone(&self.sockets);
        let started = tokio::task::spawn_blocking(move || start(&invocation, &sockets.lock())).await;
        match started {
            Ok(Ok((line, process))) => {
                tracing::info!(process, "hands over");
                self.manager.handing_over(process);
                *self.line.lock() = Some(line);
                true
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "the next process cannot take over, this one goes on");
                false
            }
            Err(_) => {
                tracing::error!("handing over panicked, this process goes on");
                false
            }
        }
    }
}

/// Starts the next process and waits until it has checked what it can.
fn start(invocation: &Invocation, sockets: &[Named]) -> io::Result<(UnixStream, u32)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(PREPARE_MAX))?;
    let mut process = Command::new(&invocation.program)
        .args(&invocation.arguments)
        .env_remove("WATCHDOG_PID")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()?;
    let prepared = inherit::send(&ours, sockets).and_then(|()| inherit::wait_until_prepared(&ours));
    if let Err(error) = prepared {
        // It has told why, in the log; one that hangs must not take over later.
        let _ = process.kill();
        let _ = process.wait();
        return Err(error);
    }
    Ok((ours, process.id()))
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
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            interrupt: signal(SignalKind::interrupt())?,
            another: signal(SignalKind::user_defined2())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::ToEnd,
            _ = self.quit.recv() => Asked::ToEnd,
            _ = self.interrupt.recv() => Asked::AtOnce,
            _ = self.another.recv() => Asked::ForAnother,
        }
    }
}
