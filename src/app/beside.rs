//! What of the state can be looked at beside the process that has it: whoever takes over looks before that lets go.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::Access;

use super::state::AUDIT_FOLDER;
use super::state::StateError;
use super::state::secret_at;
use super::stores;
use super::stores::KEYS_FILE;
use crate::access::keyring::Keyring;
use crate::access::secret::NodeSecret;
use crate::cluster::NoRedisUrl;
use crate::cluster::RedisUrl;
use crate::config::Config;
use crate::govern::audit;

/// Looks at the state directory, what lies in it, the database and the place of Redis, as far as that needs no lock. The
/// directory and the node's secret are made where they are missing. Blocks.
///
/// # Errors
/// What would keep the state from being opened.
pub(super) fn look(config: &Config) -> Result<(), StateError> {
    let folder = &config.store.path;
    make_folder(folder)?;
    let may_write = rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK);
    may_write.map_err(|error| StateError::Folder(error.into()))?;
    NodeSecret::open(folder).map_err(StateError::Folder)?;
    look_at_stores(config)?;
    audit::look(&folder.join(AUDIT_FOLDER)).map_err(audit::OpenError::from)?;
    if let Some(redis) = &config.shared_limits {
        let url: Result<RedisUrl, NoRedisUrl> = secret_at(&redis.url).unwrap_or_default().parse();
        url?;
    }
    Ok(())
}

/// Makes the state directory, for its owner alone.
///
/// # Errors
/// It cannot be made.
pub(super) fn make_folder(folder: &Path) -> Result<(), StateError> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(StateError::Folder)
}

fn look_at_stores(config: &Config) -> Result<(), StateError> {
    let folder = &config.store.path;
    let store = folder.join(stores::FOLDER);
    if store.exists() && !store.is_dir() {
        return Err(StateError::Folder(io::ErrorKind::NotADirectory.into()));
    }
    let Some(postgres) = &config.store.postgres else {
        if stores::are_keys_lost(folder) {
            return Err(StateError::KeysLost(folder.join(KEYS_FILE)));
        }
        let keys = Keyring::look(&folder.join(KEYS_FILE));
        return keys.map_err(|error| StateError::Audit(error.into()));
    };
    NodeSecret::shared(&secret_at(&postgres.secret).unwrap_or_default())?;
    match stores::ask_database(config).transpose()? {
        Some(facts) if !facts.is_writable => Err(StateError::ReadOnly),
        Some(_) | None => Ok(()),
    }
}
