//! What the service manager is told: systemd's notification protocol (`Type=notify`), where there is one.
//!
//! Listening sockets that we bound are left with systemd (`FileDescriptorStoreMax=`), which passes them to the next
//! process: connections wait in their queues while the service restarts.

use std::io;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::net::SendAncillaryBuffer;
use rustix::net::SendAncillaryMessage;
use rustix::net::SendFlags;
use rustix::time::ClockId;
use rustix::time::clock_gettime;

use super::address::KEPT;
use super::address::Named;
use super::plane::Pulse;
use crate::config::env::named;

/// Longer than any two beats of a healthy plane are apart.
const BEAT_WAIT: Duration = Duration::from_millis(300);
/// How often it is asked for a beat where nobody watches.
const UNWATCHED: Duration = Duration::from_secs(60);

/// The way to the service manager; says nothing where there is none.
pub(super) struct Manager {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl Manager {
    /// Returns the way that the environment names.
    pub(super) fn of_environment() -> Self {
        let socket = named("NOTIFY_SOCKET").and_then(|place| match connect(&place) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(%error, "the service manager cannot be reached");
                None
            }
        });
        let is_ours = named("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let watchdog = named("WATCHDOG_USEC").filter(|_| is_ours && socket.is_some());
        let watchdog = watchdog.and_then(|text| text.parse().ok()).map(Duration::from_micros);
        Self { socket, watchdog }
    }

    /// Says that the planes answer, and leaves the sockets that are ours to keep.
    pub(super) fn ready(&self, kept: &[Named]) {
        for named in kept.iter().filter(|named| named.name.starts_with(KEPT)) {
            self.send(&format!("FDSTORE=1\nFDNAME={}", named.name), &[named.socket.as_fd()]);
        }
        let main = std::process::id();
        self.say(&format!("READY=1\nMAINPID={main}\nSTATUS=serving"));
    }

    /// Gives up sockets that nobody listens on any more.
    pub(super) fn forget(&self, names: &[String]) {
        for name in names.iter().filter(|name| name.starts_with(KEPT)) {
            self.say(&format!("FDSTOREREMOVE=1\nFDNAME={name}"));
        }
    }

    /// Says that the configuration is read again.
    pub(super) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let now_us = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}\nSTATUS=reloading"));
    }

    /// Says that it was.
    pub(super) fn reloaded(&self) {
        self.say("READY=1\nSTATUS=serving");
    }

    /// Says that the process ends, within `limit`.
    pub(super) fn stopping(&self, limit: Duration) {
        self.say(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={}\nSTATUS=draining", limit.as_micros()));
    }

    /// Says that another process takes over. This one stays the service until that serves: it alone is heard, and its end
    /// would be the service's.
    pub(super) fn handing_over(&self, process: u32) {
        self.say(&format!("STATUS=handing over to process {process}"));
    }

    /// Says that another process is the service.
    pub(super) fn handed_over(&self, process: u32) {
        self.say(&format!("MAINPID={process}"));
    }

    /// Returns how often the watchdog wants to be shown that the process is there.
    pub(super) fn beat_every(&self) -> Duration {
        self.watchdog.map_or(UNWATCHED, |within| (within / 3).max(BEAT_WAIT))
    }

    /// Shows the watchdog that the process is there, whatever its planes do.
    pub(super) fn beat(&self) {
        if self.watchdog.is_some() {
            self.say("WATCHDOG=1");
        }
    }

    /// Shows the watchdog that both planes come round, for as long as they do.
    pub(super) async fn watch(&self, planes: &[Pulse], mut shutdown: impl Future<Output = ()> + Unpin) {
        if self.watchdog.is_none() {
            return shutdown.await;
        }
        let mut seen: Vec<u64> = vec![0; planes.len()];
        loop {
            let beats: Vec<u64> = planes.iter().map(Pulse::beats).collect();
            if beats.iter().zip(&seen).all(|(now, before)| now > before) {
                self.beat();
            }
            seen = beats;
            tokio::select! {
                () = &mut shutdown => return,
                () = tokio::time::sleep(self.beat_every()) => {}
            }
        }
    }

    fn say(&self, words: &str) {
        self.send(words, &[]);
    }

    fn send(&self, words: &str, descriptors: &[BorrowedFd<'_>]) {
        let Some(socket) = &self.socket else { return };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            rights.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let sent = rustix::net::sendmsg(
            socket,
            &[IoSlice::new(words.as_bytes())],
            &mut rights,
            SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        );
        if let Err(error) = sent {
            tracing::warn!(%error, "the service manager was not told");
        }
    }
}

fn connect(place: &str) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    match place.strip_prefix('@') {
        Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        None => socket.connect(place)?,
    }
    Ok(socket)
}
