//! Dead letters: the ids of entries that a platform refuses for what they are, and why.
//!
//! That is said of entries next to others that it took. A receiver that takes none of a batch, or has taken nothing since
//! it refused an entry, is the one that is wrong, and the entries wait.
//!
//! Only ids are written: the entries stay in the audit log, where erasures and retention reach them.

use std::fs::OpenOptions;
use std::io;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::id::Ulid;

/// How large a file of dead letters grows, in bytes; what comes then is counted and logged, not written.
const DEAD_LETTER_BYTES_MAX: u64 = 16 << 20;

/// The dead letters of one sink: a line `ID<TAB>REASON` for each.
#[derive(Debug)]
pub(super) struct DeadLetters {
    path: PathBuf,
}

impl DeadLetters {
    /// Returns the dead letters of a sink below a folder, which is made when it is needed.
    pub(super) fn new(folder: &std::path::Path, sink: &str) -> Self {
        Self { path: folder.join(format!("{sink}.dead")) }
    }

    /// Adds one; `reason` is ours, never a receiver's text.
    pub(super) fn add(&self, id: Ulid, reason: &str) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)?;
        if file.metadata()?.len() >= DEAD_LETTER_BYTES_MAX {
            return Err(io::Error::other("the file of dead letters is full"));
        }
        writeln!(file, "{id}\t{reason}")?;
        file.sync_data()
    }
}
