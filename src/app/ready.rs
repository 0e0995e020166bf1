//! Says when both planes answer: to the log, and to a file for whoever started the process.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::TcpStream;

/// How often a plane is tried until it answers.
const RETRY: Duration = Duration::from_millis(20);

/// Waits until the planes answer.
pub struct Announcer {
    proxy: SocketAddr,
    admin: SocketAddr,
    file: Option<PathBuf>,
}

/// Returns what tells that the first address of each plane answers.
pub fn announce(proxy: &[SocketAddr], admin: &[SocketAddr], file: Option<PathBuf>) -> Announcer {
    let first = |addresses: &[SocketAddr]| addresses.first().copied().unwrap_or(([127, 0, 0, 1], 0).into());
    Announcer { proxy: first(proxy), admin: first(admin), file }
}

impl Announcer {
    /// Waits, tells, and ends with the process.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        tokio::select! {
            () = &mut shutdown => return,
            () = self.tell() => {}
        }
        shutdown.await;
    }

    async fn tell(&self) {
        for address in [self.proxy, self.admin] {
            while TcpStream::connect(reachable(address)).await.is_err() {
                tokio::time::sleep(RETRY).await;
            }
        }
        tracing::info!(proxy = %self.proxy, admin = %self.admin, "ready");
        let Some(file) = &self.file else { return };
        let json = serde_json::json!({ "proxy": self.proxy.to_string(), "admin": self.admin.to_string() });
        let draft = file.with_extension("tmp");
        let written = std::fs::write(&draft, json.to_string()).and_then(|()| std::fs::rename(&draft, file));
        if let Err(error) = written {
            tracing::error!(%error, "the ready file cannot be written");
        }
    }
}

/// An unspecified address is reached over loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    match (address.ip().is_unspecified(), address.is_ipv4()) {
        (false, _) => address,
        (true, true) => ([127, 0, 0, 1], address.port()).into(),
        (true, false) => ([0, 0, 0, 0, 0, 0, 0, 1], address.port()).into(),
    }
}
