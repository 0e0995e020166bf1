//! The socket by which `portcullis backup` reaches a running gateway: `control.sock` in the state directory.
//!
//! Whoever may use it could read that directory anyway: its mode is 0600, and nothing else grants it.

use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;

use super::VERSION;
use crate::clock::Clock;
use crate::store::Store;
use crate::store::backup;
use crate::telemetry::lifecycle::Reached;

/// The name of the socket, below the state directory.
pub const CONTROL: &str = "control.sock";
/// What asks for a backup.
pub const BACKUP: &str = "backup\n";
/// How long one read or write may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a connection that cannot be taken is left alone: most often no more files may be open.
const RETRY: Duration = Duration::from_millis(100);

/// Answers at the socket.
pub(super) struct Control {
    pub(super) folder: PathBuf,
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
}

impl Control {
    /// Answers one after the other until `shutdown` resolves.
    pub(super) async fn run(self, mut shutdown: Reached) {
        let listener = match self.listen() {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!(%error, "the control socket cannot be opened: backups need the gateway to be stopped");
                return shutdown.await;
            }
        };
        let this = Arc::new(self);
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => accepted,
            };
            let Ok(caller) = accepted.and_then(|(caller, _)| caller.into_std()) else {
                tokio::time::sleep(RETRY).await;
                continue;
            };
            let answering = Arc::clone(&this);
            let answered = tokio::task::spawn_blocking(move || answering.answer(&caller));
            tokio::select! {
                // What is under way has no end then, and says so.
                () = &mut shutdown => break,
                answered = answered => match answered {
                    Ok(Ok(())) => tracing::info!("a backup was made"),
                    Ok(Err(error)) => tracing::error!(%error, "a backup could not be made"),
                    Err(_) => tracing::error!("a backup could not be made: it panicked"),
                }
            }
        }
        // The next process makes its own.
        let _ = std::fs::remove_file(this.folder.join(CONTROL));
    }

    fn listen(&self) -> io::Result<UnixListener> {
        let path = self.folder.join(CONTROL);
        // The state is ours alone: what lies there is of a process that is gone.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    }

    fn answer(&self, caller: &UnixStream) -> Result<(), backup::BackupError> {
        caller.set_nonblocking(false)?;
        caller.set_read_timeout(Some(PATIENCE))?;
        caller.set_write_timeout(Some(PATIENCE))?;
        let mut asked = String::new();
        BufReader::new(caller.take(BACKUP.len() as u64)).read_line(&mut asked)?;
        if asked != BACKUP {
            return Err(io::Error::from(io::ErrorKind::InvalidInput).into());
        }
        backup::write(&self.store, &self.folder, VERSION, &self.clock.now().to_string(), caller)
    }
}
