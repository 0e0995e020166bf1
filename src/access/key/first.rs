//! The key of the first start, and of every later one at which no admin key counts: in a file of its own, for whoever has
//! the state directory.

use std::io::ErrorKind;
use std::path::Path;
use std::path::PathBuf;

use jiff::Timestamp;

use super::KeyError;
use super::KeyStore;
use super::NewKey;
use super::check;
use crate::access::role::Role;
use crate::access::scope::Scope;
use crate::access::secret::put_in_place;
use crate::access::secret::write_private;
use crate::access::tier::Tier;

const ADMIN_KEY_FILE: &str = "admin.key";
/// Where it is until it counts.
const ADMIN_KEY_STAGED: &str = "admin.key.new";

impl KeyStore {
    /// Makes an admin key where none counts, at the first start or when the last one has expired; returns
    /// the path of the file it is in.
    ///
    /// # Errors
    /// The store or the file failed.
    pub fn ensure_admin(
        &self,
        state: &Path,
        id: String,
        now: Timestamp,
    ) -> Result<Option<PathBuf>, KeyError> {
        let new = NewKey {
            name: "first admin".to_owned(),
            role: Role::Admin,
            tier: Tier::OF_THE_DEPLOYMENT,
            expires_at: None,
            scope: Scope::default(),
        };
        check(&new, now)?;
        let (path, staged) = (state.join(ADMIN_KEY_FILE), state.join(ADMIN_KEY_STAGED));
        if self.is_key_in(&staged, now) {
            // It came to count, and the process ended before its file had its name.
            put_in_place(&staged, &path).map_err(KeyError::File)?;
            return Ok(Some(path));
        }
        if self.known.read().admins(now) != 0 {
            return Ok(None);
        }
        let (record, key) = self.made(id, new, now);
        // First the file: a key that counts and that nobody has could not be made again.
        remove_if_there(&staged)?;
        write_private(&staged, key.as_bytes()).map_err(KeyError::File)?;
        let is_needed = self.deciding(|batch| {
            let is_needed = self.known.read().admins(now) == 0;
            if is_needed {
                self.put_in(batch, &record)?;
            }
            Ok(is_needed)
        })?;
        if !is_needed {
            remove_if_there(&staged)?;
            return Ok(None);
        }
        put_in_place(&staged, &path).map_err(KeyError::File)?;
        Ok(Some(path))
    }

    fn is_key_in(&self, file: &Path, now: Timestamp) -> bool {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        self.authenticate(text.trim(), now).is_some()
    }
}

fn remove_if_there(file: &Path) -> Result<(), KeyError> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(KeyError::File(error)),
        _ => Ok(()),
    }
}
