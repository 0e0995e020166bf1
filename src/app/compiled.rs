//! Compiled databases of packs in a folder: the next start reads what this one compiled.

use std::fs;
use std::fs::DirBuilder;
use std::fs::File;
use std::fs::Metadata;
use std::fs::OpenOptions;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use rustix::fs::OFlags;
use rustix::fs::Timespec;
use rustix::fs::Timestamps;
use rustix::fs::UTIME_NOW;
use rustix::fs::UTIME_OMIT;
use sha2::Digest;
use sha2::Sha256;

use crate::scan::engine::DatabaseCache;
use crate::scan::engine::DatabaseKey;

/// The most databases of a folder: three make a scanner of all packs, and proofs have some beside.
const DATABASES_MAX: usize = 24;

/// The largest database that is kept, in bytes.
const DATABASE_BYTES_MAX: usize = 64 << 20;

const EXTENSION: &str = "hsdb";
const DIGEST_BYTES: usize = 32;
/// Who but the owner may write.
const OTHERS_WRITE: u32 = 0o022;
const OTHERS: &str = "it belongs to somebody else, or others may write to it";

/// A folder of compiled databases, each a file: the SHA-256 of its key and itself, then itself.
///
/// The folder is made where the one above it belongs to whoever asks. What somebody else owns or may write to is
/// neither read nor written: who can change a database can take over the process.
pub struct CompiledFolder(PathBuf);

impl CompiledFolder {
    /// Returns the folder of a path; it need not exist.
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    fn read(&self, key: &DatabaseKey) -> io::Result<Vec<u8>> {
        own(&fs::metadata(&self.0)?)?;
        let no_link = OFlags::NOFOLLOW.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(no_link).open(self.file(key))?;
        own(&file.metadata()?)?;
        let mut bytes = Vec::new();
        (&file).take((DIGEST_BYTES + DATABASE_BYTES_MAX) as u64).read_to_end(&mut bytes)?;
        let (digest, database) = bytes.split_at_checked(DIGEST_BYTES).ok_or(io::ErrorKind::UnexpectedEof)?;
        if digest != digest_of(key, database) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        touch(&file)?;
        bytes.drain(..DIGEST_BYTES);
        Ok(bytes)
    }

    fn write(&self, key: &DatabaseKey, database: &[u8]) -> io::Result<()> {
        if !self.0.exists() {
            let above = self.0.parent().filter(|above| !above.as_os_str().is_empty());
            own(&fs::metadata(above.unwrap_or(Path::new(".")))?)?;
            DirBuilder::new().mode(0o700).create(&self.0)?;
        }
        own(&fs::metadata(&self.0)?)?;
        let file = self.file(key);
        let draft = file.with_extension(std::process::id().to_string());
        let mut writing =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        let written = writing.write_all(&digest_of(key, database)).and_then(|()| writing.write_all(database));
        if let Err(error) = written.and_then(|()| fs::rename(&draft, file)) {
            fs::remove_file(draft)?;
            return Err(error);
        }
        self.forget_oldest()
    }

    /// Removes what was used longest ago, where there is too much.
    fn forget_oldest(&self) -> io::Result<()> {
        let used = |entry: io::Result<fs::DirEntry>| {
            let entry = entry?;
            Ok((entry.metadata()?.modified()?, entry.path()))
        };
        let mut files = fs::read_dir(&self.0)?.map(used).collect::<io::Result<Vec<_>>>()?;
        files.sort_unstable();
        let surplus = files.len().saturating_sub(DATABASES_MAX);
        files.iter().take(surplus).try_for_each(|(_, path)| fs::remove_file(path))
    }

    fn file(&self, key: &DatabaseKey) -> PathBuf {
        let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.0.join(name).with_extension(EXTENSION)
    }
}

impl DatabaseCache for CompiledFolder {
    fn get(&self, key: &DatabaseKey) -> Option<Vec<u8>> {
        match self.read(key) {
            Ok(database) => Some(database),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                let file = self.file(key);
                tracing::warn!(%error, file = %file.display(), "compiled patterns cannot be used, and are compiled anew");
                None
            }
        }
    }

    fn put(&self, key: &DatabaseKey, database: &[u8]) {
        if let Err(error) = self.write(key, database) {
            let folder = self.0.display();
            tracing::warn!(%error, %folder, "compiled patterns cannot be kept: the next start compiles them again");
        }
    }
}

fn digest_of(key: &DatabaseKey, database: &[u8]) -> [u8; DIGEST_BYTES] {
    Sha256::new().chain_update(key).chain_update(database).finalize().into()
}

/// Tells that nobody else may have written a file, or what a folder holds.
fn own(about: &Metadata) -> io::Result<()> {
    let is_own = about.uid() == rustix::process::geteuid().as_raw() && about.mode() & OTHERS_WRITE == 0;
    is_own.then_some(()).ok_or_else(|| io::Error::new(io::ErrorKind::PermissionDenied, OTHERS))
}

/// Notes that a file was used just now.
fn touch(file: &File) -> io::Result<()> {
    let time = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    let now = Timestamps { last_access: time(UTIME_OMIT), last_modification: time(UTIME_NOW) };
    Ok(rustix::fs::futimens(file, &now)?)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const KEY: DatabaseKey = [7; 32];

    fn folder() -> (tempfile::TempDir, CompiledFolder) {
        let above = tempfile::tempdir().unwrap();
        let folder = CompiledFolder::new(above.path().join("compiled"));
        (above, folder)
    }

    #[test]
    fn what_is_kept_comes_back_under_its_key_alone() {
        let (_above, folder) = folder();
        assert_eq!(folder.get(&KEY), None);
        folder.put(&KEY, b"database");
        assert_eq!(folder.get(&KEY).as_deref(), Some(&b"database"[..]));
        assert_eq!(folder.get(&[8; 32]), None);
        fs::rename(folder.file(&KEY), folder.file(&[8; 32])).unwrap();
        assert_eq!(folder.get(&[8; 32]), None, "the digest is of the key, too");
    }

    #[test]
    fn a_damaged_file_is_not_read_and_is_written_anew() {
        let (_above, folder) = folder();
        folder.put(&KEY, b"database");
        let whole = fs::read(folder.file(&KEY)).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(folder.file(&KEY), &damaged).unwrap();
            assert_eq!(folder.get(&KEY), None, "byte {at}");
            fs::write(folder.file(&KEY), &whole[..at]).unwrap();
            assert_eq!(folder.get(&KEY), None, "cut at {at}");
        }
        folder.put(&KEY, b"database");
        assert_eq!(folder.get(&KEY).as_deref(), Some(&b"database"[..]));
    }

    #[test]
    fn what_others_may_write_is_neither_read_nor_written() {
        let (above, folder) = folder();
        folder.put(&KEY, b"database");
        let may_write = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        may_write(&folder.file(&KEY), 0o602);
        assert_eq!(folder.get(&KEY), None);
        may_write(&folder.file(&KEY), 0o600);
        may_write(&folder.0, 0o770);
        assert_eq!(folder.get(&KEY), None);
        folder.put(&[8; 32], b"database");
        assert!(!folder.file(&[8; 32]).exists());
        may_write(&folder.0, 0o700);
        assert_eq!(folder.get(&KEY).as_deref(), Some(&b"database"[..]));
        fs::remove_dir_all(&folder.0).unwrap();
        may_write(above.path(), 0o777);
        folder.put(&KEY, b"database");
        assert!(!folder.0.exists());
    }

    #[test]
    fn a_link_is_not_followed() {
        let (above, folder) = folder();
        folder.put(&KEY, b"database");
        let elsewhere = above.path().join("elsewhere");
        fs::rename(folder.file(&KEY), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, folder.file(&KEY)).unwrap();
        assert_eq!(folder.get(&KEY), None);
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let (_above, folder) = folder();
        let keys: Vec<DatabaseKey> = (0..DATABASES_MAX as u8).map(|at| [at; 32]).collect();
        for (at, key) in keys.iter().enumerate() {
            folder.put(key, b"database");
            let file = File::open(folder.file(key)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(at as u64)).unwrap();
        }
        assert!(folder.get(&keys[0]).is_some());
        folder.put(&[255; 32], b"database");
        let kept = |key: &DatabaseKey| folder.file(key).exists();
        assert!(kept(&keys[0]) && kept(&[255; 32]) && !kept(&keys[1]));
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), DATABASES_MAX);
    }
}
