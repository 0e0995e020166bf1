//! The writing side of the journal: one writer, whole groups, safe on disk before anyone is told.
//!
//! What it promises: an id that [`Journal::append`] returned survives the process and the power. A group that
//! fails leaves no trace in the chain. A file whose write or sync failed is never written again, because after
//! a failed `fsync` the kernel may have dropped the pages: the group goes to a fresh segment instead.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use parking_lot::RwLock;
use tokio::sync::watch;

use crate::access::keyring::Keyring;
use crate::id::Ulid;
use crate::id::UlidSource;

use super::chain::Hash;
use super::log::Closed;
use super::log::Log;
use super::log::Position;
use super::log::next_entry;
use super::segment;
use super::segment::HEADER_BYTES;
use super::segment::Header;
use super::segment::Step;
use super::stored;

/// A larger buffer of frames is given back.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// How far an id may be ahead of the clock, which goes back a little whenever it is set right, before an entry says when it
/// was recorded. Ids never go back.
const AHEAD_MS_MAX: i64 = 1000;

/// Why the journal could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process writes to it.
    #[error("the audit journal in {} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// The disk failed.
    #[error("the audit journal could not be opened")]
    Disk(#[from] io::Error),
    /// A segment's header is damaged although entries follow it: restore the file, or move it away.
    #[error("the audit segment {} is damaged", .0.display())]
    Damaged(PathBuf),
}

/// A torn end that was cut off when the journal was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The segment that had it.
    pub segment: u64,
    /// How many bytes were cut off; they are kept beside the segment, in a file ending in `.torn`.
    pub bytes: u64,
}

/// A part of the last segment that is damaged, with whole entries behind it: no crash does that.
pub(super) struct Damage {
    /// Where it begins.
    pub(super) at: Position,
    /// Where the next whole entry begins.
    pub(super) end: u64,
    /// The ids of the last entry before it and of that one.
    pub(super) ids: (Ulid, Ulid),
}

/// Appends entries; there is one per directory.
pub(super) struct Journal {
    log: Arc<Log>,
    file: File,
    segment_bytes_max: u64,
    made_unix_ms: u64,
    ids: UlidSource,
    last_hash: Hash,
    abandoned: bool,
    damage: Vec<Damage>,
    /// The frames of a group, kept for its memory.
    buffer: Vec<u8>,
    #[cfg(test)]
    pub(super) faults: super::fault::Faults,
    _lock: File,
}

/// Where the last segment's entries end, and with what.
struct Tail {
    end: u64,
    last_id: Ulid,
    last_hash: Hash,
}

/// How the end of the last segment was found.
struct Mended {
    tail: Tail,
    damage: Vec<Damage>,
    repair: Option<Repair>,
}

impl Journal {
    /// Opens the journal in a directory, which is made if need be, and mends its end.
    pub(super) fn open(
        directory: &Path,
        keyring: Arc<Keyring>,
        segment_bytes_max: u64,
        now_unix_ms: i64,
    ) -> Result<(Self, Option<Repair>), JournalError> {
        std::fs::create_dir_all(directory)?;
        let lock = File::options().create(true).truncate(false).write(true).open(directory.join("lock"))?;
        lock.try_lock().map_err(|_| JournalError::InUse(directory.to_owned()))?;
        let headers = headers(directory)?;
        let closed = headers.windows(2).map(|pair| {
            let [(old, header), (_, next)] = pair else { unreachable!("windows of two") };
            (*old, Closed::new(next.previous_end, (header.made_unix_ms, next.made_unix_ms)))
        });
        let closed = closed.collect();
        let (header, file, mended) = match headers.last() {
            Some((sequence, header)) => {
                let file =
                    File::options().read(true).write(true).open(segment::path(directory, *sequence))?;
                let mended = mend(directory, &file, header)?;
                (*header, file, mended)
            }
            None => {
                let header = Header {
                    sequence: 1,
                    made_unix_ms: now_unix_ms.max(0) as u64,
                    previous_end: 0,
                    previous_hash: Hash::default(),
                };
                let file = segment::create(directory, header)?;
                let tail = Tail::empty(&header);
                (header, file, Mended { tail, damage: Vec::new(), repair: None })
            }
        };
        let Mended { tail, damage, repair } = mended;
        let committed = Position { segment: header.sequence, offset: tail.end };
        let log = Log {
            directory: directory.to_owned(),
            keyring,
            closed: RwLock::new(closed),
            committed: watch::Sender::new(committed),
            appended: AtomicU64::new(0),
            newest: RwLock::new(Ulid(0)),
            is_over: AtomicBool::new(false),
        };
        let last_id = tail.last_id.max(last_id_before(&log, header.sequence));
        *log.newest.write() = last_id;
        let journal = Self {
            log: Arc::new(log),
            file,
            segment_bytes_max,
            made_unix_ms: header.made_unix_ms,
            ids: UlidSource::after(last_id),
            last_hash: tail.last_hash,
            abandoned: false,
            damage,
            buffer: Vec::new(),
            #[cfg(test)]
            faults: super::fault::Faults::default(),
            _lock: lock,
        };
        Ok((journal, repair))
    }

    pub(super) fn log(&self) -> Arc<Log> {
        self.log.clone()
    }

    /// Returns what of the last segment was found damaged when the journal was opened.
    pub(super) fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Returns when the segment under way was begun, in Unix milliseconds.
    pub(super) fn segment_made_unix_ms(&self) -> u64 {
        self.made_unix_ms
    }

    /// Returns how far the newest entry's id is ahead of the clock, in milliseconds; 0: it is not.
    pub(super) fn ahead_ms(&self, now_unix_ms: i64) -> u64 {
        u64::try_from(self.log.newest.read().unix_ms().saturating_sub(now_unix_ms)).unwrap_or(0)
    }

    /// Writes events, each as its [body](stored::body_with), as one group and returns their ids once they are safe on
    /// disk. On an error none of them is part of the chain, and the next call begins a fresh segment.
    pub(super) fn append<'a>(
        &mut self,
        bodies: impl Iterator<Item = &'a [u8]>,
        now_unix_ms: i64,
    ) -> io::Result<Vec<Ulid>> {
        let committed = self.log.committed();
        if self.abandoned || committed.offset >= self.segment_bytes_max {
            self.rotate(now_unix_ms)?;
        }
        let mut ids = Vec::with_capacity(bodies.size_hint().0);
        let (mut buffer, mut last_hash) = (std::mem::take(&mut self.buffer), self.last_hash);
        for body in bodies {
            let id = self.ids.next(now_unix_ms);
            let is_ahead = id.unix_ms() > now_unix_ms.saturating_add(AHEAD_MS_MAX);
            let body = match is_ahead {
                true => Cow::Owned(stored::body_at(body, now_unix_ms)),
                false => Cow::Borrowed(body),
            };
            segment::push_frame(&mut buffer, |frame| {
                last_hash = stored::push_payload(last_hash, id, &body, frame)
            });
            ids.push(id);
        }
        let committed = self.log.committed();
        let (written, bytes) = (self.write(&buffer, committed.offset), buffer.len() as u64);
        if buffer.capacity() <= BUFFER_BYTES_KEPT {
            buffer.clear();
            self.buffer = buffer;
        }
        if let Err(error) = written {
            self.abandoned = true;
            return Err(error);
        }
        self.last_hash = last_hash;
        self.log.committed.send_modify(|end| {
            if let Some(newest) = ids.last() {
                *self.log.newest.write() = *newest;
            }
            end.offset += bytes;
            self.log.appended.fetch_add(ids.len() as u64, Ordering::AcqRel);
        });
        Ok(ids)
    }

    /// Closes the segment under way, if it has entries or was abandoned, and begins the next.
    pub(super) fn rotate(&mut self, now_unix_ms: i64) -> io::Result<()> {
        let old = self.log.committed();
        if old.offset == HEADER_BYTES && !self.abandoned {
            return Ok(());
        }
        let header = Header {
            sequence: old.segment + 1,
            made_unix_ms: now_unix_ms.max(0) as u64,
            previous_end: old.offset,
            previous_hash: self.last_hash,
        };
        #[cfg(test)]
        self.faults.strike()?;
        self.file = segment::create(&self.log.directory, header)?;
        let closed = Closed::new(old.offset, (self.made_unix_ms, header.made_unix_ms));
        self.log.closed.write().insert(old.segment, closed);
        self.log.committed.send_replace(Position { segment: header.sequence, offset: HEADER_BYTES });
        self.made_unix_ms = header.made_unix_ms;
        self.abandoned = false;
        Ok(())
    }

    fn write(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        #[cfg(test)]
        self.faults.strike()?;
        self.file.write_all_at(buffer, offset)?;
        #[cfg(test)]
        self.faults.strike()?;
        self.file.sync_data()
    }
}

impl Tail {
    fn empty(header: &Header) -> Self {
        Self { end: HEADER_BYTES, last_id: Ulid(0), last_hash: header.previous_hash }
    }
}

/// Tells whether every segment of a journal has its header, beside whoever writes to it. Blocks.
///
/// # Errors
/// One of them has not, or cannot be read.
pub fn look(directory: &Path) -> Result<(), JournalError> {
    let sequences = match segment::list(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        sequences => sequences?,
    };
    for sequence in &sequences {
        let path = segment::path(directory, *sequence);
        let file = match File::open(&path) {
            // Its time was up.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        let is_begun = Some(sequence) == sequences.last() && file.metadata()?.len() <= HEADER_BYTES;
        let is_whole = segment::read_header(&file)?.is_some_and(|header| header.sequence == *sequence);
        if !is_whole && !is_begun {
            return Err(JournalError::Damaged(path));
        }
    }
    Ok(())
}

/// Returns the headers of all segments; a last one that never got its header is removed.
fn headers(directory: &Path) -> Result<Vec<(u64, Header)>, JournalError> {
    let sequences = segment::list(directory)?;
    let mut found = Vec::with_capacity(sequences.len());
    for sequence in &sequences {
        let path = segment::path(directory, *sequence);
        let file = File::open(&path)?;
        match segment::read_header(&file)? {
            Some(header) if header.sequence == *sequence => found.push((*sequence, header)),
            _ if Some(sequence) == sequences.last() && file.metadata()?.len() <= HEADER_BYTES => {
                std::fs::remove_file(&path)?;
            }
            _ => return Err(JournalError::Damaged(path)),
        }
    }
    Ok(found)
}

/// Finds the end of the last segment's whole entries and cuts off, and keeps, what follows.
///
/// A crash tears the end alone. What is damaged before a whole entry was damaged later: the entries behind it stay.
fn mend(directory: &Path, file: &File, header: &Header) -> io::Result<Mended> {
    let length = file.metadata()?.len();
    let mut bytes = vec![0; (length - HEADER_BYTES) as usize];
    file.read_exact_at(&mut bytes, HEADER_BYTES)?;
    let entry_at = |offset: u64| entry(bytes.get((offset - HEADER_BYTES) as usize..)?, offset);
    let (mut tail, mut damage) = (Tail::empty(header), Vec::new());
    loop {
        while let Some((_, next)) = entry_at(tail.end).filter(|(previous, _)| *previous == tail.last_hash) {
            tail = next;
        }
        let Some(begin) = next_entry(file, tail.end, length)? else { break };
        let Some((_, next)) = entry_at(begin) else { break };
        let at = Position { segment: header.sequence, offset: tail.end };
        damage.push(Damage { at, end: begin, ids: (tail.last_id, next.last_id) });
        tail = next;
    }
    let torn = bytes.get((tail.end - HEADER_BYTES) as usize..).unwrap_or_default();
    if torn.is_empty() {
        return Ok(Mended { tail, damage, repair: None });
    }
    let keep = format!("audit-{:016x}-{}.torn", header.sequence, tail.end);
    segment::make(&directory.join(keep))?.write_all_at(torn, 0)?;
    file.set_len(tail.end)?;
    file.sync_all()?;
    let repair = Repair { segment: header.sequence, bytes: torn.len() as u64 };
    Ok(Mended { tail, damage, repair: Some(repair) })
}

/// Returns the entry that some bytes begin with, which lie at `offset`: the hash before it, and the tail that it makes.
fn entry(bytes: &[u8], offset: u64) -> Option<(Hash, Tail)> {
    let Step::Frame { payload, bytes } = segment::step(bytes) else { return None };
    let (previous, last_hash, _) = stored::split(payload).ok()?;
    let last_id = stored::outline(payload).ok()?.id;
    Some((previous, Tail { end: offset + bytes as u64, last_id, last_hash }))
}

/// Returns the last id of the segments before `segment`, or zero: ids must go on above it.
fn last_id_before(log: &Log, segment: u64) -> Ulid {
    let before = log.closed.read().range(..segment).next_back().map(|(sequence, _)| *sequence);
    let Some(before) = before else { return Ulid(0) };
    let mut reader = log.reader(Position { segment: before, offset: HEADER_BYTES });
    let mut last = Ulid(0);
    while let Ok(Some((at, payload))) = reader.next_readable() {
        if at.segment != before {
            break;
        }
        if let Ok(entry) = stored::outline(payload) {
            last = entry.id;
        }
    }
    last
}

#[cfg(test)]
#[path = "journal/tests.rs"]
mod tests;
