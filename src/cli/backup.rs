//! `portcullis backup` and `portcullis restore`: a state directory in one file, and back.
//!
//! A running gateway makes its own backup, through a socket in its state directory; where none runs, the directory is
//! read. Exit codes: 0 done, or sound; 1 not done; 4 the backup, or the audit log in it, is not what was written.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::EXIT_CONFIG;
use super::complain;
use super::complain_of;
use super::say;
use super::sources;
use crate::access::a2a::replay;
use crate::app;
use crate::app::control;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::govern::audit::verify::Trust;
use crate::govern::audit::verify::verify as verify_audit;
use crate::store::backup;
use crate::store::backup::BackupError;
use crate::store::backup::Contents;
use crate::store::backup::STORE_FOLDER;
use crate::store::open_sled;

const EXIT_BROKEN: u8 = 4;

/// What to back up, and where to.
#[derive(Debug, Args)]
pub struct BackupArguments {
    /// The configuration, which names the state directory; without it, the embedded defaults.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to write it; must not exist.
    file: PathBuf,
}

/// What to restore, and where to.
#[derive(Debug, Args)]
pub struct RestoreArguments {
    /// The backup.
    file: PathBuf,
    /// The state directory to make: not there yet, or empty. Without it, the backup is only verified.
    #[arg(long, value_name = "DIRECTORY")]
    into: Option<PathBuf>,
}

/// Makes a backup, and reads it once more.
pub fn backup(arguments: &BackupArguments) -> ExitCode {
    let config = match sources(arguments.config.clone()).load() {
        Ok(config) => config,
        Err(faults) => {
            complain_of(&faults);
            return ExitCode::from(EXIT_CONFIG);
        }
    };
    match make(&config.store.path, &arguments.file) {
        Ok(contents) => {
            say(&sentence(&arguments.file, &contents));
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

/// Verifies a backup, and restores it where that is asked for.
pub fn restore(arguments: &RestoreArguments) -> ExitCode {
    let contents = match backup::verify(&arguments.file) {
        Ok(contents) => contents,
        Err(error) => return failed(&error),
    };
    say(&sentence(&arguments.file, &contents));
    let Some(folder) = &arguments.into else { return ExitCode::SUCCESS };
    match backup::restore(&arguments.file, folder, settle) {
        Ok(true) => {
            say(&format!("restored into {}", folder.display()));
            ExitCode::SUCCESS
        }
        Ok(false) => ExitCode::from(EXIT_BROKEN),
        Err(error) => failed(&error),
    }
}

fn make(folder: &Path, file: &Path) -> Result<Contents, BackupError> {
    let mut draft = file.as_os_str().to_owned();
    draft.push(".partial");
    let draft = PathBuf::from(draft);
    let wrong = |path: &Path| {
        let path = path.to_owned();
        move |source| BackupError::File { path, source }
    };
    if file.exists() {
        return Err(wrong(file)(io::ErrorKind::AlreadyExists.into()));
    }
    // What a backup left that was cut off. Never into a file of somebody else's, nor through a link: it holds secrets.
    let _ = std::fs::remove_file(&draft);
    let out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft);
    let out = out.map_err(wrong(&draft))?;
    fill(folder, &out)?;
    out.sync_all().map_err(wrong(&draft))?;
    let contents = backup::verify(&draft)?;
    std::fs::rename(&draft, file).map_err(wrong(file))?;
    Ok(contents)
}

fn fill(folder: &Path, mut out: &File) -> Result<(), BackupError> {
    match UnixStream::connect(folder.join(control::CONTROL)) {
        Ok(mut gateway) => {
            gateway.write_all(control::BACKUP.as_bytes())?;
            io::copy(&mut gateway, &mut out)?;
            Ok(())
        }
        // Else an empty store would be made, and its backup be sound.
        Err(source) if !folder.join(STORE_FOLDER).is_dir() => {
            Err(BackupError::File { path: folder.join(STORE_FOLDER), source })
        }
        Err(_) => {
            let store = open_sled(&folder.join(STORE_FOLDER))?;
            let now = SystemClock.now().to_string();
            backup::write(&store, folder, app::VERSION, &now, out)
        }
    }
}

/// Looks whether what was restored is sound, and takes note in it that it is a copy: what agents signed after the backup
/// was made is known to the store it was made of alone.
fn settle(folder: &Path) -> Result<bool, BackupError> {
    if !audit_is_sound(folder) {
        return Ok(false);
    }
    replay::distrust(&open_sled(&folder.join(STORE_FOLDER))?)?;
    Ok(true)
}

fn audit_is_sound(folder: &Path) -> bool {
    match verify_audit(folder, &Trust::default()) {
        Ok(verified) => {
            say(&format!("the audit log is sound: {} entries", verified.entries));
            true
        }
        Err(fault) => {
            complain(&format!("{}: the audit log: {fault}", folder.display()));
            false
        }
    }
}

fn failed(error: &BackupError) -> ExitCode {
    complain(&error.to_string());
    match error {
        BackupError::Damaged { .. } => ExitCode::from(EXIT_BROKEN),
        BackupError::File { .. }
        | BackupError::Stream(_)
        | BackupError::Store(_)
        | BackupError::Newer(_)
        | BackupError::Occupied(_) => ExitCode::FAILURE,
    }
}

fn sentence(file: &Path, contents: &Contents) -> String {
    let Contents { version, made_at, records, files, sha256 } = contents;
    format!(
        "{}: sound, {records} records and {files} files of release {version}, made at {made_at}, sha256 {sha256}",
        file.display()
    )
}
