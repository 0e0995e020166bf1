//! Backups: one file that holds everything below a state directory, taken while the gateway runs.
//!
//! The file is JSON lines: a head, every record of the store as it was written (with its version, so that a newer
//! program reads it), every other file in pieces, and an end with the digest of all lines before it. Records are those of
//! one moment: writers wait while they are put aside. The audit journal follows, to where it has come by then, and last
//! the keys of its subjects, of which it so never lacks one; what an erasure destroys meanwhile is destroyed in the backup
//! too. A file without its end, or whose digest is another, or that has not as many records and files as its end tells,
//! is none.
//!
//! It holds the node's secret and its signing keys: it is written with mode 0600, and to be kept like them.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::BufWriter;
use std::io::Read;
use std::io::Seek;
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Component;
use std::path::Path;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde::Serialize;
use sha2::Digest;
use sha2::Sha256;

use super::Batch;
use super::KeyRange;
use super::Order;
use super::Store;
use super::StoreError;
use super::open_sled;

/// The folder of the store, below the state directory.
pub const STORE_FOLDER: &str = "store";
/// What is kept beside the store, in the order it is read in.
const KEPT: [&str; 5] = ["audit", "siem", "node.secret", "admin.key", "subjects.keys"];
/// What is made anew.
const PASSING: [&str; 2] = ["lock", "reserve"];
const FORMAT: u32 = 1;
const PIECE_BYTES: usize = 1 << 20;
/// A record of the greatest length, in base64, and its names.
const LINE_BYTES_MAX: u64 = 16 << 20;
const BATCH_RECORDS: u64 = 256;
const DEPTH_MAX: usize = 4;
/// What is restored into a directory that is there lies here, below it, until it is whole.
const PARTIAL_INSIDE: &str = "restored.partial";
/// What `mkfs` leaves at the top of some file systems.
const LOST_AND_FOUND: &str = "lost+found";

/// Why a backup could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The backup itself cannot be read or written.
    #[error("the backup cannot be read or written: {0}")]
    Stream(#[from] io::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is no backup, or was changed, or cut off.
    #[error("line {line} of the backup is not what was written: {what}")]
    Damaged {
        /// Which line, from 1 on.
        line: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// It was made by a later program, in a form that this one does not know.
    #[error("the backup has format {0}, this program knows 1")]
    Newer(u32),
    /// There is something where it is to be restored.
    #[error("{} is not empty: name a directory that is not there yet", .0.display())]
    Occupied(PathBuf),
}

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The release that made it.
    pub version: String,
    /// When, in ISO 8601.
    pub made_at: String,
    /// How many records of the store.
    pub records: u64,
    /// How many files.
    pub files: u64,
    /// The digest of its lines, in hex.
    pub sha256: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    PortcullisBackup { format: u32, version: String, made_at: String },
    Record { table: String, key: String, value: String },
    File { path: String, mode: u32, offset: u64, data: String },
    End { records: u64, files: u64, sha256: String },
}

/// Where a backup is restored.
enum Place {
    /// A directory that is not there yet.
    New(PathBuf),
    /// One that is there and empty: a volume that is mounted cannot be replaced, and is filled.
    Empty(PathBuf),
}

struct Hashed<W> {
    out: W,
    digest: Sha256,
}

impl<W: Write> Hashed<W> {
    fn line(&mut self, line: &Line) -> Result<(), BackupError> {
        let mut text = serde_json::to_vec(line).map_err(io::Error::from)?;
        text.push(b'\n');
        self.digest.update(&text);
        Ok(self.out.write_all(&text)?)
    }
}

/// Writes a backup of a store and of what lies beside it in the state directory.
///
/// # Errors
/// See [`BackupError`]; what was written has no end then.
pub fn write(
    store: &Store,
    folder: &Path,
    version: &str,
    made_at: &str,
    out: impl Write,
) -> Result<(), BackupError> {
    let mut out = Hashed { out: BufWriter::new(out), digest: Sha256::new() };
    let (version, made_at) = (version.to_owned(), made_at.to_owned());
    out.line(&Line::PortcullisBackup { format: FORMAT, version, made_at })?;
    let (mut aside, records) = put_aside(store, folder)?;
    let mut lines = Vec::with_capacity(PIECE_BYTES);
    while (&mut aside).take(PIECE_BYTES as u64).read_to_end(&mut lines)? > 0 {
        out.digest.update(&lines);
        out.out.write_all(&lines)?;
        lines.clear();
    }
    let mut files = Vec::new();
    KEPT.iter().try_for_each(|name| collect(folder, &folder.join(name), 0, &mut files))?;
    let mut copied = 0;
    for path in &files {
        copied += u64::from(copy(folder, path, &mut out)?);
    }
    let sha256 = hex(out.digest.clone());
    out.line(&Line::End { records, files: copied, sha256 })?;
    Ok(out.out.flush()?)
}

/// Writes every record, as of one moment, to a file that nobody else sees.
fn put_aside(store: &Store, folder: &Path) -> Result<(File, u64), BackupError> {
    let path = folder.join(".backup");
    let wrong = |source| BackupError::File { path: path.clone(), source };
    // What a process that was killed left. Never into a file of somebody else's, nor through a link: it holds secrets.
    let _ = std::fs::remove_file(&path);
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
    let file = file.map_err(wrong)?;
    std::fs::remove_file(&path).map_err(wrong)?;
    let mut aside = Hashed { out: BufWriter::new(file), digest: Sha256::new() };
    let mut records = 0;
    store.at_one_moment(|tables| {
        for table in tables {
            let mut outcome = Ok(());
            store.scan(table, &KeyRange::all(), Order::Ascending, &mut |key, value| {
                let (key, value) = (BASE64.encode(key), BASE64.encode(value));
                outcome = aside.line(&Line::Record { table: table.clone(), key, value });
                records += 1;
                if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            outcome?;
        }
        Ok::<(), BackupError>(())
    })?;
    let mut file = aside.out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.rewind()?;
    Ok((file, records))
}

fn collect(folder: &Path, path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), BackupError> {
    let name = path.file_name().unwrap_or_default();
    if depth > DEPTH_MAX || PASSING.iter().any(|passing| name == *passing) {
        return Ok(());
    }
    let wrong = |source| BackupError::File { path: path.to_owned(), source };
    let facts = match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        facts => facts.map_err(wrong)?,
    };
    if facts.is_file() {
        files.extend(path.strip_prefix(folder).map(Path::to_owned));
    }
    if facts.is_dir() {
        let entries: io::Result<Vec<_>> = std::fs::read_dir(path).map_err(wrong)?.collect();
        let mut under: Vec<PathBuf> = entries.map_err(wrong)?.iter().map(std::fs::DirEntry::path).collect();
        under.sort();
        under.iter().try_for_each(|path| collect(folder, path, depth + 1, files))?;
    }
    Ok(())
}

/// Writes a file in pieces; tells whether it was still there.
fn copy<W: Write>(folder: &Path, path: &Path, out: &mut Hashed<W>) -> Result<bool, BackupError> {
    let wrong = |source| BackupError::File { path: path.to_owned(), source };
    let file = match File::open(folder.join(path)) {
        // A segment whose time was up.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file.map_err(wrong)?,
    };
    let facts = file.metadata().map_err(wrong)?;
    let name = path.to_string_lossy().into_owned();
    let mode = facts.permissions().mode() & 0o777;
    // To its present end: what is appended meanwhile is of a later moment.
    let (mut rest, mut offset) = (file.take(facts.len()), 0);
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    loop {
        piece.clear();
        (&mut rest).take(PIECE_BYTES as u64).read_to_end(&mut piece).map_err(wrong)?;
        if piece.is_empty() && offset > 0 {
            return Ok(true);
        }
        out.line(&Line::File { path: name.clone(), mode, offset, data: BASE64.encode(&piece) })?;
        if piece.is_empty() {
            return Ok(true);
        }
        offset += piece.len() as u64;
    }
}

/// Reads a backup to its end.
///
/// # Errors
/// See [`BackupError`]: whatever is not as it was written.
pub fn verify(path: &Path) -> Result<Contents, BackupError> {
    read(path, |_| Ok(()))
}

/// Restores a backup into a directory that is not there yet, or empty, a volume's among them. It is verified as a whole
/// before anything is written; `settle` has the last word on what was, and may amend it. Returns that word.
///
/// # Errors
/// See [`BackupError`]; what was written so far lies in a directory whose name ends in `.partial` then: beside the one
/// that was named, or in it where that was there.
pub fn restore(
    path: &Path,
    folder: &Path,
    settle: impl FnOnce(&Path) -> Result<bool, BackupError>,
) -> Result<bool, BackupError> {
    verify(path)?;
    let place = Place::of(folder)?;
    let partial = place.partial();
    let wrong = |source| BackupError::File { path: partial.clone(), source };
    // What an earlier attempt left would become part of this one.
    if partial.symlink_metadata().is_ok() {
        return Err(BackupError::Occupied(partial));
    }
    std::fs::DirBuilder::new().mode(0o700).recursive(true).create(&partial).map_err(wrong)?;
    let store = open_sled(&partial.join(STORE_FOLDER))?;
    let (mut batch, mut waiting) = (Batch::default(), 0);
    read(path, |line| match line {
        Line::Record { table, key, value } => {
            if table.is_empty() || table.contains('\0') {
                return Err(BackupError::Damaged { line: 0, what: "it names a table that no store has" });
            }
            batch.put(&table, decoded(&key)?, decoded(&value)?);
            waiting += 1;
            if waiting == BATCH_RECORDS {
                store.commit(&std::mem::take(&mut batch))?;
                waiting = 0;
            }
            Ok(())
        }
        Line::File { path, mode, offset, data } => put(&partial, &path, mode, offset, &decoded(&data)?),
        Line::PortcullisBackup { .. } | Line::End { .. } => Ok(()),
    })?;
    store.commit_durable(&batch)?;
    drop(store);
    if !settle(&partial)? {
        return Ok(false);
    }
    place.settle(&partial).map_err(wrong)?;
    Ok(true)
}

impl Place {
    /// Judges where a backup is to be restored.
    ///
    /// # Errors
    /// It is no directory, or not empty.
    fn of(folder: &Path) -> Result<Self, BackupError> {
        // Without a slash at its end, which would be the begin of another name.
        let folder: PathBuf = folder.components().collect();
        let entries = match folder.read_dir() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::New(folder)),
            entries => entries.map_err(|source| BackupError::File { path: folder.clone(), source })?,
        };
        // What file systems make for themselves is no state.
        let mut ours = entries.flatten().map(|entry| entry.file_name()).filter(|name| name != LOST_AND_FOUND);
        match ours.next() {
            Some(name) if name == PARTIAL_INSIDE => Err(BackupError::Occupied(folder.join(PARTIAL_INSIDE))),
            Some(_) => Err(BackupError::Occupied(folder)),
            None => Ok(Self::Empty(folder)),
        }
    }

    /// Returns where the backup lies until it is whole.
    fn partial(&self) -> PathBuf {
        match self {
            Self::New(folder) => {
                let mut partial = folder.as_os_str().to_owned();
                partial.push(".partial");
                PathBuf::from(partial)
            }
            Self::Empty(folder) => folder.join(PARTIAL_INSIDE),
        }
    }

    /// Puts what is whole in its place: the store comes last, for without it there is no state.
    fn settle(&self, partial: &Path) -> io::Result<()> {
        let folder = match self {
            Self::New(folder) => return std::fs::rename(partial, folder),
            Self::Empty(folder) => folder,
        };
        let entries: io::Result<Vec<_>> = partial.read_dir()?.map(|entry| Ok(entry?.file_name())).collect();
        let mut names = entries?;
        names.sort_by_key(|name| name == STORE_FOLDER);
        names.iter().try_for_each(|name| std::fs::rename(partial.join(name), folder.join(name)))?;
        std::fs::remove_dir(partial)?;
        // As a first start makes it; the top of a volume may be somebody else's, and stays as they let it be.
        let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700));
        Ok(())
    }
}

fn read(path: &Path, mut each: impl FnMut(Line) -> Result<(), BackupError>) -> Result<Contents, BackupError> {
    let file = File::open(path).map_err(|source| BackupError::File { path: path.to_owned(), source })?;
    let mut lines = BufReader::with_capacity(PIECE_BYTES, file);
    let (mut digest, mut text, mut number) = (Sha256::new(), Vec::new(), 0);
    let (mut head, mut records, mut files) = (None, 0, 0);
    loop {
        text.clear();
        number += 1;
        (&mut lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut text)?;
        let damaged = |what| BackupError::Damaged { line: number, what };
        let line: Line =
            serde_json::from_slice(&text).map_err(|_| damaged("it is cut off, or no line of a backup"))?;
        match (&line, &head) {
            (Line::PortcullisBackup { format, .. }, None) if *format != FORMAT => {
                return Err(BackupError::Newer(*format));
            }
            (Line::PortcullisBackup { version, made_at, .. }, None) => {
                head = Some((version.clone(), made_at.clone()));
            }
            (Line::End { records: records_told, files: files_told, sha256 }, Some((version, made_at))) => {
                let what = if *sha256 != hex(digest) {
                    "the digest is another"
                } else if *records_told != records {
                    "it tells of more records than there are, or of fewer"
                } else if *files_told != files {
                    "it tells of more files than there are, or of fewer"
                } else if !lines.fill_buf()?.is_empty() {
                    "something follows it"
                } else {
                    let (version, made_at, sha256) = (version.clone(), made_at.clone(), sha256.clone());
                    return Ok(Contents { version, made_at, records, files, sha256 });
                };
                return Err(damaged(what));
            }
            (Line::Record { .. }, Some(_)) => records += 1,
            // A file begins with its first piece, an empty one with its only one.
            (Line::File { offset, .. }, Some(_)) => files += u64::from(*offset == 0),
            _ => return Err(damaged("it is out of place")),
        }
        digest.update(&text);
        each(line).map_err(|error| match error {
            BackupError::Damaged { what, .. } => damaged(what),
            other => other,
        })?;
    }
}

fn decoded(text: &str) -> Result<Vec<u8>, BackupError> {
    BASE64.decode(text).map_err(|_| BackupError::Damaged { line: 0, what: "it is no base64" })
}

fn put(folder: &Path, name: &str, mode: u32, offset: u64, piece: &[u8]) -> Result<(), BackupError> {
    let relative = Path::new(name);
    let is_ours = relative.components().all(|part| matches!(part, Component::Normal(_)))
        && KEPT.iter().any(|kept| relative.starts_with(kept));
    if !is_ours {
        return Err(BackupError::Damaged {
            line: 0,
            what: "it names a file that is not of a state directory",
        });
    }
    let path = folder.join(relative);
    let wrong = |source| BackupError::File { path: path.clone(), source };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(wrong)?;
    }
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(mode & 0o700).open(&path);
    let mut file = file.map_err(wrong)?;
    // A piece far behind the others would leave a hole as large as it says.
    if file.seek(io::SeekFrom::End(0)).map_err(wrong)? != offset {
        return Err(BackupError::Damaged { line: 0, what: "it is a piece of a file, and out of its order" });
    }
    file.write_all(piece).map_err(wrong)?;
    file.sync_data().map_err(wrong)
}

fn hex(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
