//! Says when both planes answer: to the log, to the service manager, and to a file for whoever started the process.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::address::Named;
use super::inherit::Predecessor;
use super::manager::Manager;
use super::memory;
use super::plane::Pulse;

/// Waits until the planes answer.
pub(super) struct Announcer {
    pub(super) pulses: [Pulse; 2],
    pub(super) proxy: Vec<SocketAddr>,
    pub(super) admin: Vec<SocketAddr>,
    pub(super) file: Option<PathBuf>,
    pub(super) manager: Arc<Manager>,
    pub(super) sockets: Arc<Mutex<Vec<Named>>>,
    /// Who is told that this process serves, and is to be gone before anybody else is.
    pub(super) predecessor: Option<Predecessor>,
    /// The names of sockets that were passed to this process, and are of no use any more.
    pub(super) unused: Vec<String>,
    /// Whether signals are heard yet.
    pub(super) hears: watch::Receiver<bool>,
}

impl Announcer {
    /// Waits, tells, and keeps the service manager's watchdog quiet until the process ends.
    pub(super) async fn run(mut self, shutdown: impl Future<Output = ()> + Unpin) {
        for pulse in &self.pulses {
            pulse.started().await;
        }
        // A signal that nobody listens for yet would end the process. Whoever would tell lives as long as it.
        let _ = self.hears.wait_for(|hears| *hears).await;
        if let Some(predecessor) = self.predecessor.take() {
            // What it panicked of, it has logged.
            let _ = tokio::task::spawn_blocking(move || predecessor.say_farewell()).await;
        }
        self.tell();
        self.manager.watch(&self.pulses, shutdown).await;
    }

    fn tell(&self) {
        let first = |addresses: &[SocketAddr]| {
            addresses.first().copied().unwrap_or(([127, 0, 0, 1], 0).into()).to_string()
        };
        let (proxy, admin) = (first(&self.proxy), first(&self.admin));
        memory::give_back();
        tracing::info!(proxy, admin, "ready");
        self.manager.forget(&self.unused);
        self.manager.ready(&self.sockets.lock());
        let Some(file) = &self.file else { return };
        let json = serde_json::json!({ "proxy": proxy, "admin": admin, "pid": std::process::id() });
        let draft = file.with_extension("tmp");
        let written = std::fs::write(&draft, json.to_string()).and_then(|()| std::fs::rename(&draft, file));
        if let Err(error) = written {
            tracing::error!(%error, "the ready file cannot be written");
        }
    }
}
