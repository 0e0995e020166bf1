//! `portcullis audit`: verifies a copy of the log, without the gateway.
//!
//! Exit codes: 0 it is sound; 1 it cannot be read, or there is nothing: nothing is said about it; 4 it is not what was
//! written. Of several chains the worst counts.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use serde::Deserialize;

use super::EXIT_CONFIG;
use super::complain;
use super::complain_of;
use super::say;
use super::sources;
use crate::app;
use crate::govern::audit::ShippedChain;
use crate::govern::audit::checkpoint_lines;
use crate::govern::audit::verify::Fault;
use crate::govern::audit::verify::Trust;
use crate::govern::audit::verify::Verified;
use crate::govern::audit::verify::verify;
use crate::govern::audit::verify_shipped;

/// The copy is sound.
const EXIT_SOUND: u8 = 0;
/// Nothing is said about it.
const EXIT_UNREADABLE: u8 = 1;
/// The copy is not what was written.
const EXIT_BROKEN: u8 = 4;

/// What to do with the audit log.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Verify an export (JSON lines), a journal's directory, the state directory above it, or what nodes shipped.
    Verify {
        /// The file or the directory.
        #[arg(required_unless_present = "shipped", conflicts_with = "shipped")]
        path: Option<PathBuf>,
        /// Verify what all nodes shipped to the database of a configuration.
        #[arg(long, requires = "config")]
        shipped: bool,
        /// The configuration.
        #[arg(short, long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// The keys that may have signed checkpoints: a saved `/.well-known/jwks.json`; may be repeated. Without one
        /// every signature that is one counts.
        #[arg(long = "keys", value_name = "FILE")]
        keys: Vec<PathBuf>,
        /// Checkpoints from elsewhere that it has to hold to, of one node or of all, one JSON object a line; may be
        /// repeated.
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
    let AuditCommand::Verify { path, config, keys, checkpoints, .. } = command;
    let trust = match trust(keys, checkpoints) {
        Ok(trust) => trust,
        Err(problem) => {
            complain(&problem);
            return ExitCode::FAILURE;
        }
    };
    match path {
        Some(path) => ExitCode::from(tell(&path.display().to_string(), verify(path, &trust), &trust)),
        None => shipped(config.clone(), &trust),
    }
}

/// Says what was found in one copy or chain; returns the exit code it is worth, the worse the higher.
fn tell(name: &str, found: Result<Verified, Fault>, trust: &Trust) -> u8 {
    match found {
        Ok(verified) => {
            say(&sentence(name, &verified, trust));
            EXIT_SOUND
        }
        Err(fault) => {
            complain(&format!("{name}: {fault}"));
            match fault {
                Fault::Unreadable(_) | Fault::Foreign => EXIT_UNREADABLE,
                _ => EXIT_BROKEN,
            }
        }
    }
}

/// Verifies what all nodes shipped, chain by chain.
fn shipped(config: Option<PathBuf>, trust: &Trust) -> ExitCode {
    let config = match sources(config).load() {
        Ok(config) => config,
        Err(faults) => {
            complain_of(&faults);
            return ExitCode::from(EXIT_CONFIG);
        }
    };
    let chains = match app::shipped(&config) {
        Ok(Some((archive, kept))) => {
            let chains = verify_shipped(&archive, &kept, trust, &|| true);
            chains.map(Option::unwrap_or_default).map_err(|error| error.to_string())
        }
        Ok(None) => Err("this configuration has no database that nodes share".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    match chains {
        Ok(chains) => {
            let told = chains.into_iter().map(|ShippedChain { node, sequence, found }| {
                tell(&format!("node {node}, shipped up to entry {sequence}"), found, trust)
            });
            let worst = told.max().unwrap_or_else(|| {
                complain("no node has shipped anything: there is nothing to verify");
                EXIT_UNREADABLE
            });
            ExitCode::from(worst)
        }
        Err(problem) => {
            complain(&problem);
            ExitCode::FAILURE
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
        let read = checkpoint_lines(path).map_err(|error| format!("{}: {error}", path.display()))?;
        trust.checkpoints.extend(read.0);
        trust.clusters.extend(read.1);
    }
    Ok(trust)
}

fn sentence(name: &str, verified: &Verified, trust: &Trust) -> String {
    let Verified { entries, span, last_hash, checkpoints, torn_bytes } = verified;
    let mut lines = vec![format!("{name}: sound, {entries} entries")];
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
