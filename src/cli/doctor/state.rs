//! The state directory: is it there, ours, roomy, and free?

use std::fs::File;
use std::fs::TryLockError;
use std::path::Path;

use rustix::fs::Access;

use super::Check;
use super::Outcome;
use crate::config::Config;
use crate::store::HighWater;
use crate::store::backup::STORE_FOLDER;

const AREA: &str = "state";
/// What each running gateway holds, below the state directory.
const LOCK: &str = "audit/lock";
/// Files that nobody else may read.
const SECRETS: [&str; 3] = ["node.secret", "admin.key", "subjects.keys"];
const OTHERS_MODE: u32 = 0o077;
const MIB: u64 = 1 << 20;

/// Looks at the state directory.
pub(super) fn checks(config: &Config) -> Vec<Check> {
    let folder = config.store.path.as_path();
    let forgets =
        "in memory: a restart forgets keys, users, rules and figures, not the audit log and legal holds";
    let mut checks = Vec::new();
    if config.store.in_memory {
        checks.push(Check::new(AREA, "store", Outcome::Warning, forgets));
    }
    if !folder.is_dir() {
        checks.push(beginning(folder));
        return checks;
    }
    checks.extend([owner(folder), room(folder, config.audit.low_water_bytes)]);
    checks.extend(loss(folder));
    checks.extend(secrets(folder));
    checks
}

/// Tells what the last start found missing of the store, or that it is gone; whether anything is missing of one that is there
/// only a start can tell, for looking into it changes it.
fn loss(folder: &Path) -> Option<Check> {
    let high_water = HighWater::of(folder);
    let check = |outcome, detail: String| Some(Check::new(AREA, "store", outcome, detail));
    let acceptance = high_water.acceptance();
    if high_water.is_loss_accepted() {
        let detail = format!("the next start goes on whatever is missing: {} is there", acceptance.display());
        return check(Outcome::Warning, detail);
    }
    if let Some(found) = high_water.finding() {
        return check(Outcome::Fault, found);
    }
    let store = folder.join(STORE_FOLDER);
    let is_gone = high_water.has_mark() && !store.is_dir();
    let detail = format!("{} is gone: restore a backup (portcullis restore)", store.display());
    check(Outcome::Fault, detail).filter(|_| is_gone)
}

/// Tells whether the directory can be made at the first start.
fn beginning(folder: &Path) -> Check {
    let fault = |why: String| Check::new(AREA, "directory", Outcome::Fault, why);
    if folder.exists() {
        return fault(format!("{} is no directory", folder.display()));
    }
    let above = folder.ancestors().skip(1).map(|above| match above.as_os_str().is_empty() {
        true => Path::new("."),
        false => above,
    });
    let Some(above) = above.into_iter().find(|above| above.exists()) else {
        return fault(format!("{} cannot be made", folder.display()));
    };
    if !above.is_dir() || rustix::fs::access(above, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        return fault(format!("{} cannot be made: {} is not writable", folder.display(), above.display()));
    }
    Check::new(AREA, "directory", Outcome::Good, format!("{} is made at the first start", folder.display()))
}

fn owner(folder: &Path) -> Check {
    let detail = |words: &str| format!("{} {words}", folder.display());
    let Ok(lock) = File::options().write(true).open(folder.join(LOCK)) else {
        return match tempfile_in(folder) {
            Ok(()) => Check::new(AREA, "directory", Outcome::Good, detail("is writable, and new")),
            Err(error) => {
                Check::new(AREA, "directory", Outcome::Fault, detail(&format!("is not writable: {error}")))
            }
        };
    };
    match lock.try_lock() {
        Ok(()) => Check::new(AREA, "directory", Outcome::Good, detail("is free: no gateway runs on it")),
        Err(TryLockError::WouldBlock) => {
            Check::new(AREA, "directory", Outcome::Good, detail("is in use: a gateway runs on it"))
        }
        Err(TryLockError::Error(error)) => {
            Check::new(AREA, "directory", Outcome::Fault, detail(&format!("cannot be locked: {error}")))
        }
    }
}

fn tempfile_in(folder: &Path) -> std::io::Result<()> {
    let probe = folder.join(".doctor");
    File::create_new(&probe)?;
    std::fs::remove_file(probe)
}

fn room(folder: &Path, low_water_bytes: u64) -> Check {
    let disk = match rustix::fs::statvfs(folder) {
        Ok(disk) => disk,
        Err(error) => return Check::new(AREA, "disk", Outcome::Fault, format!("cannot be asked: {error}")),
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let detail =
        format!("{} MiB are free, the log counts as failing below {}", free / MIB, low_water_bytes / MIB);
    let outcome = match free {
        free if free < low_water_bytes => Outcome::Fault,
        free if free < low_water_bytes.saturating_mul(10) => Outcome::Warning,
        _ => Outcome::Good,
    };
    Check::new(AREA, "disk", outcome, detail)
}

fn secrets(folder: &Path) -> Vec<Check> {
    use std::os::unix::fs::PermissionsExt;
    let readable = SECRETS.iter().filter_map(|name| {
        let mode = folder.join(name).metadata().ok()?.permissions().mode();
        (mode & OTHERS_MODE != 0).then(|| {
            let detail = format!("others may read it (mode {:o}); chmod 600", mode & 0o777);
            Check::new(AREA, *name, Outcome::Fault, detail)
        })
    });
    readable.collect()
}
