//! A plane as a Pingora service: it serves sockets that listen already, and stops with our stages, not Pingora's.
//!
//! Pingora would sleep through the whole time it grants, however soon the last exchange is over; so its own end is
//! the last step of ours, and listeners hear of the beginning from [`Lifecycle::draining`].

use std::net::SocketAddr;
use std::net::TcpListener;
use std::os::fd::IntoRawFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use pingora::apps::ServerApp;
use pingora::server::ListenFds;
use pingora::server::ShutdownWatch;
use pingora::services::Service as Pingora;
use pingora::services::listening::Service;
use tokio::sync::watch;

use crate::telemetry::lifecycle::Lifecycle;
use crate::telemetry::lifecycle::Stage;

/// How often the workers of a plane show that they come round.
const BEAT: Duration = Duration::from_millis(250);

/// Shows that the workers of a plane are alive; the sender of beats is gone while they are not.
#[derive(Clone)]
pub(super) struct Pulse {
    beats: Arc<AtomicU64>,
    started: Arc<watch::Sender<bool>>,
}

/// One plane.
pub(super) struct Plane<A> {
    service: Service<A>,
    sockets: Vec<(SocketAddr, TcpListener)>,
    lifecycle: Arc<Lifecycle>,
    pulse: Pulse,
}

impl Pulse {
    /// Returns how often the workers came round so far.
    pub(super) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Waits until the plane is served.
    pub(super) async fn started(&self) {
        // It cannot be closed: we hold a sender.
        let _ = self.started.subscribe().wait_for(|started| *started).await;
    }
}

impl<A> Plane<A> {
    /// Serves `sockets`, which `service` was told the addresses of.
    pub(super) fn new(
        service: Service<A>,
        sockets: Vec<(SocketAddr, TcpListener)>,
        lifecycle: &Arc<Lifecycle>,
    ) -> Self {
        let pulse = Pulse { beats: Arc::default(), started: Arc::new(watch::Sender::new(false)) };
        Self { service, sockets, lifecycle: Arc::clone(lifecycle), pulse }
    }

    /// Returns what shows whether it is alive.
    pub(super) fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }
}

#[async_trait]
impl<A: ServerApp + Send + Sync + 'static> Pingora for Plane<A> {
    async fn start_service(&mut self, fds: Option<ListenFds>, _: ShutdownWatch, listeners_per_fd: usize) {
        if let Some(fds) = &fds {
            let mut fds = fds.lock();
            for (address, socket) in self.sockets.drain(..) {
                fds.add(address.to_string(), socket.into_raw_fd());
            }
        }
        self.pulse.started.send_replace(true);
        let served = self.service.start_service(fds, self.lifecycle.draining(), listeners_per_fd);
        tokio::join!(served, beat(&self.pulse, &self.lifecycle));
    }

    fn name(&self) -> &str {
        self.service.name()
    }

    fn threads(&self) -> Option<usize> {
        self.service.threads
    }

    fn listen_addresses(&self) -> Option<Vec<String>> {
        self.service.listen_addresses()
    }
}

async fn beat(pulse: &Pulse, lifecycle: &Lifecycle) {
    let mut stopping = lifecycle.reached(Stage::Stopping);
    loop {
        tokio::select! {
            () = &mut stopping => return,
            () = tokio::time::sleep(BEAT) => pulse.beats.fetch_add(1, Ordering::Relaxed),
        };
    }
}
