//! Checkpoints: signed sentences that say where the chain was at a moment.
//!
//! A chain alone shows that nothing in its midst was changed; who can write the whole journal can still write another
//! one, or cut its end off. A checkpoint that was signed before, and kept, shows that. The gateway signs one whenever
//! [`EVERY`] has gone by with new entries, and keeps it beside the journal; copies belong on another machine.
//!
//! What is signed are the lines of [`Checkpoint::statement`]: a name of the format, the origin, the moment, the id of the
//! newest entry, its hash, for exports the SHA-256 of the file (else an empty line), and the key's name.

use std::fs::File;
use std::future::Future;
use std::io;
use std::io::BufRead;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

use super::chain::Hash;
use super::index::QueryError;
use super::open::AuditLog;
use super::query::Query;
use crate::access::jose::VerifyingKey;
use crate::access::signing::KeyRing;
use crate::clock::Clock;
use crate::id::Ulid;

/// The file of checkpoints, one JSON object a line, in the journal's directory.
pub const CHECKPOINTS_FILE: &str = "checkpoints.jsonl";
/// How often a checkpoint is signed, where entries came.
pub const EVERY: Duration = Duration::from_secs(600);

const FORMAT: &str = "portcullis-audit-checkpoint-v1";
/// The longest line of a file of checkpoints that is read, in bytes.
const LINE_BYTES_MAX: usize = 4096;

/// Where a chain was, signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The node whose journal it is.
    pub origin: String,
    /// When it was signed.
    pub at: Timestamp,
    /// The newest entry.
    pub last_id: Ulid,
    /// Its hash.
    pub last_hash: Hash,
    /// The SHA-256 of the export that it seals.
    pub sha256: Option<Hash>,
    /// The name of the key, as in `/.well-known/jwks.json`.
    pub key_id: String,
    /// The public key (`x` of its JWK), so that the signature can be checked once the key has left the set.
    pub public_key: String,
    /// An Ed25519 signature of the statement.
    pub signature: Vec<u8>,
}

/// A checkpoint as it is written.
#[derive(Serialize, Deserialize)]
struct Written {
    v: u32,
    origin: String,
    at: Timestamp,
    last_id: String,
    last_hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    key_id: String,
    public_key: String,
    signature: String,
}

/// The text is no checkpoint.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a checkpoint")]
pub struct InvalidCheckpoint;

/// Signs checkpoints of one log.
#[derive(Clone)]
pub struct Notary {
    log: AuditLog,
    keys: Arc<KeyRing>,
    clock: Arc<dyn Clock>,
    origin: String,
    file: PathBuf,
}

impl Checkpoint {
    /// Returns the bytes that are signed.
    pub fn statement(&self) -> Vec<u8> {
        let sha256 = self.sha256.map(|hash| hash.to_string()).unwrap_or_default();
        let Self { origin, at, last_id, last_hash, key_id, .. } = self;
        format!("{FORMAT}\n{origin}\n{at}\n{last_id}\n{last_hash}\n{sha256}\n{key_id}\n").into_bytes()
    }

    /// Tells whether the key it names signed it. Whose key that is, only a list of trusted ones tells.
    pub fn is_signed(&self) -> bool {
        let key = URL_SAFE_NO_PAD.decode(&self.public_key).ok().and_then(|raw| VerifyingKey::from_raw(&raw));
        key.is_some_and(|key| key.verifies(&self.statement(), &self.signature))
    }

    /// Returns it as one line of JSON.
    pub fn to_line(&self) -> String {
        let written = Written {
            v: 1,
            origin: self.origin.clone(),
            at: self.at,
            last_id: self.last_id.to_string(),
            last_hash: self.last_hash.to_string(),
            sha256: self.sha256.map(|hash| hash.to_string()),
            key_id: self.key_id.clone(),
            public_key: self.public_key.clone(),
            signature: URL_SAFE_NO_PAD.encode(&self.signature),
        };
        serde_json::to_string(&written).expect("texts and numbers always have a JSON form")
    }

    /// Reads one line of JSON.
    ///
    /// # Errors
    /// It is no checkpoint.
    pub fn from_line(line: &str) -> Result<Self, InvalidCheckpoint> {
        let written: Written = serde_json::from_str(line).map_err(|_| InvalidCheckpoint)?;
        if written.v != 1 {
            return Err(InvalidCheckpoint);
        }
        let sha256 = written.sha256.map(|hash| hash.parse()).transpose().map_err(|_| InvalidCheckpoint)?;
        Ok(Self {
            origin: written.origin,
            at: written.at,
            last_id: written.last_id.parse().map_err(|_| InvalidCheckpoint)?,
            last_hash: written.last_hash.parse().map_err(|_| InvalidCheckpoint)?,
            sha256,
            key_id: written.key_id,
            public_key: written.public_key,
            signature: URL_SAFE_NO_PAD.decode(written.signature).map_err(|_| InvalidCheckpoint)?,
        })
    }

    /// Reads a file of checkpoints, oldest first; a last line that never became whole is left out.
    ///
    /// # Errors
    /// The file cannot be read, or a line of it is no checkpoint.
    pub fn read_all(path: &Path) -> io::Result<Vec<Self>> {
        let mut reader = io::BufReader::new(File::open(path)?);
        let (mut found, mut line) = (Vec::new(), Vec::new());
        while reader.read_until(b'\n', &mut line)? > 0 {
            let is_whole = line.pop() == Some(b'\n');
            let text = std::str::from_utf8(&line).ok().filter(|text| text.len() <= LINE_BYTES_MAX);
            match text.and_then(|text| Self::from_line(text).ok()) {
                Some(checkpoint) if is_whole => found.push(checkpoint),
                _ if !is_whole => {}
                _ => {
                    let number = found.len() + 1;
                    return Err(io::Error::other(format!("line {number} is no checkpoint")));
                }
            }
            line.clear();
        }
        Ok(found)
    }
}

impl Notary {
    /// Signs for the node `origin`, and keeps what it signs in `directory`.
    pub fn new(
        log: AuditLog,
        keys: Arc<KeyRing>,
        clock: Arc<dyn Clock>,
        origin: String,
        directory: &Path,
    ) -> Self {
        Self { log, keys, clock, origin, file: directory.join(CHECKPOINTS_FILE) }
    }

    /// Signs where the log is now; `None`: it is empty.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub async fn sign(&self) -> Result<Option<Checkpoint>, QueryError> {
        self.log.ensure_current().await?;
        let query = Query { limit: 1, node: Some(self.origin.clone()), ..Query::default() };
        let newest = self.log.query(query).await?;
        Ok(newest.entries.first().map(|entry| self.seal(entry.id, entry.hash, None)))
    }

    /// Signs that an entry was the newest one, of an export where one is named.
    pub fn seal(&self, last_id: Ulid, last_hash: Hash, sha256: Option<Hash>) -> Checkpoint {
        let active = self.keys.active();
        let unsigned = Checkpoint {
            origin: self.origin.clone(),
            at: self.clock.now(),
            last_id,
            last_hash,
            sha256,
            key_id: active.id,
            public_key: URL_SAFE_NO_PAD.encode(active.key.public()),
            signature: Vec::new(),
        };
        Checkpoint { signature: active.key.sign_bytes(&unsigned.statement()), ..unsigned }
    }

    /// Returns the node whose log it is.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Signs and keeps checkpoints until `shutdown` resolves, and a last one then.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let mut last = None;
        loop {
            let ends = tokio::select! {
                () = &mut shutdown => true,
                () = tokio::time::sleep(EVERY) => false,
            };
            match self.keep(last).await {
                Ok(kept) => last = kept,
                Err(error) => tracing::warn!(%error, "no checkpoint of the audit log could be kept"),
            }
            if ends {
                return;
            }
        }
    }

    /// Signs and keeps a checkpoint, unless the last one was of the same entry.
    async fn keep(&self, last: Option<Ulid>) -> Result<Option<Ulid>, QueryError> {
        let signed = self.sign().await?.filter(|signed| Some(signed.last_id) != last);
        let Some(signed) = signed else { return Ok(last) };
        let (path, id) = (self.file.clone(), signed.last_id);
        let kept = tokio::task::spawn_blocking(move || append(&path, &signed.to_line())).await;
        kept.map_err(|_| QueryError::Interrupted)?.map_err(super::log::ReadError::from)?;
        Ok(Some(id))
    }
}

/// Adds a line and comes back once it would survive a power cut. A part of a line that a crash left behind is cut off
/// first: nothing may be read from it, and it would spoil the line behind it.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut options = File::options();
    options.create(true).read(true).append(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let (whole, length) = (whole_bytes(&file)?, file.metadata()?.len());
    if whole < length {
        file.set_len(whole)?;
    }
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_all()
}

/// Returns where the last whole line of a file ends; only its end is read.
fn whole_bytes(file: &File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    while end > 0 {
        let begin = end.saturating_sub(LINE_BYTES_MAX as u64);
        let mut piece = vec![0; (end - begin) as usize];
        file.read_exact_at(&mut piece, begin)?;
        if let Some(at) = piece.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_short_does_not_spoil_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoints");
        let long = "l".repeat(LINE_BYTES_MAX);
        for (whole, torn) in
            [("", ""), ("one\n", ""), ("one\n", "tw"), ("", "on"), ("one\n", &long), ("", &long)]
        {
            std::fs::write(&path, format!("{whole}{torn}")).unwrap();
            append(&path, "next").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{whole}next\n"), "after {whole:?}");
        }
    }
}
