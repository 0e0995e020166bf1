//! `portcullis audit`: verifies a copy of the log, without the gateway.
//!
//! Exit codes: 0 it is sound; 1 it cannot be read, nothing is said about it; 4 it is not what was written.

use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use serde::Deserialize;

use super::complain;
use super::say;
use crate::govern::audit::Checkpoint;
use crate::govern::audit::verify::Fault;
use crate::govern::audit::verify::Trust;
use crate::govern::audit::verify::Verified;
use crate::govern::audit::verify::verify;

/// The copy is not what was written.
const EXIT_BROKEN: u8 = 4;

/// What to do with the audit log.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Verify an export (JSON lines), a journal's directory, or the state directory above it.
    Verify {
        /// The file or the directory.
        path: PathBuf,
        /// The keys that may have signed checkpoints: a saved `/.well-known/jwks.json`; may be repeated. Without one
        /// every signature that is one counts.
        #[arg(long = "keys", value_name = "FILE")]
        keys: Vec<PathBuf>,
        /// Checkpoints from elsewhere that it has to hold to, one JSON object a line; may be repeated.
        #[arg(long = "checkpoint", value_name = "FILE")]
        checkpoints: Vec<PathBuf>,
    },
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Key>,
}

#[derive(Deserialize)]
struct Key {
    x: String,
}

/// Runs one of the commands.
pub fn run(command: &AuditCommand) -> ExitCode {
    let AuditCommand::Verify { path, keys, checkpoints } = command;
    let trust = match trust(keys, checkpoints) {
        Ok(trust) => trust,
        Err(problem) => {
            complain(&problem);
            return ExitCode::FAILURE;
        }
    };
    match verify(path, &trust) {
        Ok(verified) => {
            say(&sentence(path, &verified, &trust));
            ExitCode::SUCCESS
        }
        Err(fault) => {
            complain(&format!("{}: {fault}", path.display()));
            match fault {
                Fault::Unreadable(_) | Fault::Foreign => ExitCode::FAILURE,
                _ => ExitCode::from(EXIT_BROKEN),
            }
        }
    }
}

fn trust(keys: &[PathBuf], checkpoints: &[PathBuf]) -> Result<Trust, String> {
    let mut trust = Trust::default();
    for path in keys {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read(path).map_err(|error| wrong(&error))?;
        let set: KeySet = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
        trust.keys.extend(set.keys.into_iter().map(|key| key.x));
    }
    if !keys.is_empty() && trust.keys.is_empty() {
        // No key would mean any key.
        return Err("there is no key in what --keys names: nothing would be trusted".to_owned());
    }
    for path in checkpoints {
        let read = Checkpoint::read_all(path);
        trust.checkpoints.extend(read.map_err(|error| format!("{}: {error}", path.display()))?);
    }
    Ok(trust)
}

fn sentence(path: &Path, verified: &Verified, trust: &Trust) -> String {
    let Verified { entries, span, last_hash, checkpoints, torn_bytes } = verified;
    let mut lines = vec![format!("{}: sound, {entries} entries", path.display())];
    if let Some(((first, last), hash)) = span.zip(*last_hash) {
        lines.push(format!("from {first} to {last}, whose hash is {hash}"));
    }
    let by = if trust.keys.is_empty() {
        "signed, by keys that nobody vouches for (see --keys)"
    } else {
        "signed by trusted keys"
    };
    lines.push(format!("{checkpoints} checkpoints agree, {by}"));
    if *torn_bytes > 0 {
        lines.push(format!(
            "{torn_bytes} bytes at the end are no whole entry: a crash, or a gateway that writes"
        ));
    }
    lines.join("\n")
}
