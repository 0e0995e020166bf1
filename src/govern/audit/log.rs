//! The reading side of the journal: positions, and readers that stop where the committed part ends.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::access::keyring::Keyring;
use crate::id::Ulid;

use super::chain::Hash;
use super::segment;
use super::segment::HEADER_BYTES;
use super::segment::Step;
use super::stored;

/// How much a reader takes from the disk at a time.
const CHUNK_BYTES: u64 = 256 << 10;
/// How much is taken for a few frames at first.
const SHORT_CHUNK_BYTES: u64 = 16 << 10;
/// How much is taken for a single frame at first.
const FRAME_CHUNK_BYTES: u64 = 2 << 10;
/// How much is taken at a time to find out where entries go on behind damage.
const SEARCH_CHUNK_BYTES: usize = 4 << 20;
/// How many bytes are summed at most to find that out; what takes more is damaged up to the end of its segment.
const SEARCH_SUMMED_BYTES_MAX: usize = 256 << 20;

/// The place of a frame: its segment, and its offset there in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) segment: u64,
    pub(super) offset: u64,
}

/// Why the journal could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The disk failed.
    #[error("the audit journal could not be read")]
    Disk(#[from] io::Error),
    /// The bytes are not what was written.
    #[error("segment {segment} of the audit journal is damaged at byte {offset}")]
    Damaged {
        /// The segment's sequence.
        segment: u64,
        /// Where the damage begins.
        offset: u64,
    },
    /// A shipped entry is not what was written.
    #[error("entry {sequence} of node {node} is damaged in the database")]
    DamagedRow {
        /// Whose it is.
        node: String,
        /// Its place among that node's.
        sequence: u64,
    },
}

/// A segment that is no longer written to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    /// Where its acknowledged part ends.
    pub(super) end: u64,
    /// Before this moment all its entries were written.
    pub(super) closed_unix_ms: u64,
}

impl Closed {
    /// Returns what is known of a segment that ends at an offset and was begun and closed at moments, in Unix
    /// milliseconds. A clock that was set back meanwhile does not make it older than its begin.
    pub(super) fn new(end: u64, (begun_unix_ms, closed_unix_ms): (u64, u64)) -> Self {
        Self { end, closed_unix_ms: closed_unix_ms.max(begun_unix_ms) }
    }
}

/// What writer and readers share.
pub(super) struct Log {
    pub(super) directory: PathBuf,
    /// The names in it.
    pub(super) keyring: Arc<Keyring>,
    pub(super) closed: RwLock<BTreeMap<u64, Closed>>,
    /// Where the next frame will begin: everything before is safe on disk.
    pub(super) committed: watch::Sender<Position>,
    /// How many entries this process wrote; changes with `committed`.
    pub(super) appended: AtomicU64,
    /// The newest entry, of this process or of one before; changes before `committed`.
    pub(super) newest: RwLock<Ulid>,
    /// Whether the writer has ended: nothing follows.
    pub(super) is_over: AtomicBool,
}

/// Goes through frames in the order they were written.
pub(super) struct Reader<'a> {
    log: &'a Log,
    at: Position,
    file: Option<File>,
    buffer: Vec<u8>,
    /// How much of `buffer` lies before `at`.
    used: usize,
    chunk_bytes: u64,
}

impl Log {
    pub(super) fn committed(&self) -> Position {
        *self.committed.borrow()
    }

    /// Returns where the committed part ends, and how many entries this process has written of it.
    pub(super) fn committed_and_appended(&self) -> (Position, u64) {
        let committed = self.committed.borrow();
        (*committed, self.appended.load(Ordering::Acquire))
    }

    /// Returns where the committed part ends, and the newest entry of it.
    pub(super) fn committed_and_newest(&self) -> (Position, Ulid) {
        let committed = self.committed.borrow();
        (*committed, *self.newest.read())
    }

    /// Returns the position of the oldest frame there may be.
    pub(super) fn start(&self) -> Position {
        let oldest = self.closed.read().keys().next().copied();
        Position { segment: oldest.unwrap_or(self.committed().segment), offset: HEADER_BYTES }
    }

    /// Returns a reader; a position in a segment that is gone means the oldest one that is left.
    pub(super) fn reader(&self, from: Position) -> Reader<'_> {
        let at = from.max(self.start());
        Reader { log: self, at, file: None, buffer: Vec::new(), used: 0, chunk_bytes: CHUNK_BYTES }
    }

    /// Returns a reader for a few frames.
    pub(super) fn short_reader(&self, from: Position) -> Reader<'_> {
        Reader { chunk_bytes: SHORT_CHUNK_BYTES, ..self.reader(from) }
    }

    /// Returns the payload of the frame at a position, or `None` when there is none (any more).
    pub(super) fn frame_at(&self, position: Position) -> Result<Option<Vec<u8>>, ReadError> {
        let mut reader = Reader { chunk_bytes: FRAME_CHUNK_BYTES, ..self.reader(position) };
        let frame = reader.next()?;
        Ok(frame.filter(|(at, _)| *at == position).map(|(_, payload)| payload.to_vec()))
    }

    /// Returns when the newest entry was written, as its id tells; `None`: there never was one.
    pub(super) fn last_written(&self) -> Option<Timestamp> {
        let newest = *self.newest.read();
        (newest != Ulid(0)).then(|| Timestamp::from_millisecond(newest.unix_ms()).unwrap_or(Timestamp::MAX))
    }

    /// Returns the size of all segments, in bytes.
    pub(super) fn size_bytes(&self) -> u64 {
        let closed: u64 = self.closed.read().values().map(|segment| segment.end).sum();
        closed + self.committed().offset
    }

    /// Returns the last hash before a segment, as its header says.
    pub(super) fn hash_before(&self, segment: u64) -> Result<Option<Hash>, ReadError> {
        let file = File::open(segment::path(&self.directory, segment))?;
        Ok(segment::read_header(&file)?.map(|header| header.previous_hash))
    }

    /// Returns how many bytes lie between two positions.
    pub(super) fn bytes_between(&self, from: Position, until: Position) -> u64 {
        if from.segment >= until.segment {
            return until.offset.saturating_sub(from.offset);
        }
        let closed = self.closed.read();
        let whole: u64 = closed.range(from.segment..until.segment).map(|(_, segment)| segment.end).sum();
        (whole + until.offset).saturating_sub(from.offset)
    }

    /// Returns the last segment's begin, from a position on, whose first entry is not above an id; that position where
    /// there is none.
    pub(super) fn begin_up_to(&self, id: Ulid, from: Position) -> Result<Position, ReadError> {
        let closed = self.closed.read();
        let mut segments: Vec<u64> = closed.range(from.segment + 1..).map(|(segment, _)| *segment).collect();
        drop(closed);
        segments.push(self.committed().segment);
        let mut begin = from;
        for segment in segments.into_iter().filter(|segment| *segment > from.segment) {
            let at = Position { segment, offset: HEADER_BYTES };
            let first = match self.frame_at(at) {
                Err(ReadError::Damaged { .. }) => None,
                read => read?,
            };
            match first.as_deref().map(stored::outline) {
                Some(Ok(entry)) if entry.id > id => break,
                Some(Ok(_)) => begin = at,
                Some(Err(_)) | None => {}
            }
        }
        Ok(begin)
    }

    /// Tells whether entries from a position on have been dropped.
    pub(super) fn has_dropped_from(&self, from: Position) -> Result<bool, ReadError> {
        let start = self.start();
        if from.segment >= start.segment {
            return Ok(false);
        }
        let header = segment::read_header(&File::open(segment::path(&self.directory, start.segment))?)?;
        let is_end = |end: u64| from.segment + 1 == start.segment && from.offset >= end;
        Ok(!header.is_some_and(|header| is_end(header.previous_end)))
    }

    /// Tells whether entries after one of an id may have been dropped. Only where that one was the last that was dropped
    /// it says so of none.
    pub(super) fn may_have_dropped_after(&self, id: Ulid) -> Result<bool, ReadError> {
        let start = self.start();
        if self.hash_before(start.segment)?.is_none_or(|hash| hash == Hash::default()) {
            return Ok(false);
        }
        let first = match self.frame_at(start) {
            Err(ReadError::Damaged { .. }) => None,
            read => read?,
        };
        let first = first.as_deref().and_then(|first| stored::outline(first).ok());
        Ok(first.is_none_or(|first| id < first.id))
    }

    fn end_of(&self, segment: u64) -> Option<u64> {
        let committed = self.committed();
        if segment == committed.segment {
            return Some(committed.offset);
        }
        self.closed.read().get(&segment).map(|closed| closed.end)
    }

    fn segment_after(&self, segment: u64) -> u64 {
        let next = self.closed.read().range(segment + 1..).next().map(|(sequence, _)| *sequence);
        next.unwrap_or(self.committed().segment)
    }
}

impl Reader<'_> {
    /// Returns where the next frame will be read.
    pub(super) fn position(&self) -> Position {
        self.at
    }

    /// Returns the next frame's position and payload, or `None` where the committed part ends.
    pub(super) fn next(&mut self) -> Result<Option<(Position, &[u8])>, ReadError> {
        let payload_bytes = self.find()?;
        Ok(payload_bytes.map(|payload_bytes| self.take(payload_bytes)))
    }

    /// As [`Reader::next`], but passes over what is damaged.
    pub(super) fn next_readable(&mut self) -> Result<Option<(Position, &[u8])>, ReadError> {
        let payload_bytes = loop {
            match self.find() {
                Err(ReadError::Damaged { .. }) => {
                    self.skip_damage()?;
                }
                found => break found?,
            }
        };
        Ok(payload_bytes.map(|payload_bytes| self.take(payload_bytes)))
    }

    /// Goes on behind what was found damaged: with the next whole entry of the segment, or with its end. Tells whether
    /// no more than one entry is left out for certain.
    ///
    /// Where a frame begins only the one before it tells, so that a place behind damage counts as a beginning only where
    /// its sum and the hash of its entry hold, too. No text that was recorded can look like that: the head of a frame
    /// has a byte that is zero, and what is recorded has none.
    pub(super) fn skip_damage(&mut self) -> Result<bool, ReadError> {
        let from = self.at;
        self.file = None;
        self.buffer.clear();
        self.used = 0;
        let Some(end) = self.log.end_of(from.segment) else { return Ok(false) };
        let file = match File::open(segment::path(&self.log.directory, from.segment)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.at.offset = end;
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        let mut head = [0; segment::FRAME_HEAD_BYTES];
        let head_bytes = read_up_to(&file, &mut head, from.offset)?;
        let claimed = head.get(..head_bytes).and_then(segment::claimed_bytes);
        let behind = claimed.map(|bytes| from.offset + (segment::FRAME_HEAD_BYTES + bytes) as u64);
        self.at.offset = next_entry(&file, from.offset + 1, end)?.unwrap_or(end);
        Ok(behind == Some(self.at.offset))
    }

    /// Returns the length of the next frame's payload, and stands before the frame then.
    fn find(&mut self) -> Result<Option<usize>, ReadError> {
        loop {
            if self.at >= self.log.committed() {
                return Ok(None);
            }
            let end = self.log.end_of(self.at.segment);
            if end.is_none_or(|end| self.at.offset >= end) {
                let segment = self.log.segment_after(self.at.segment);
                *self = self.log.reader(Position { segment, offset: HEADER_BYTES });
                continue;
            }
            let end = end.unwrap_or_default();
            match segment::step(self.buffer.get(self.used..).unwrap_or_default()) {
                Step::Frame { payload, .. } => return Ok(Some(payload.len())),
                Step::Short(wanted) if self.at.offset + wanted as u64 <= end => self.fill(wanted, end)?,
                Step::Short(_) | Step::Torn => return Err(self.damaged()),
            }
        }
    }

    /// Returns a frame that was found, and stands behind it then.
    fn take(&mut self, payload_bytes: usize) -> (Position, &[u8]) {
        let (at, payload_from) = (self.at, self.used + segment::FRAME_HEAD_BYTES);
        self.used = payload_from + payload_bytes;
        self.at.offset += (segment::FRAME_HEAD_BYTES + payload_bytes) as u64;
        (at, self.buffer.get(payload_from..self.used).unwrap_or_default())
    }

    fn damaged(&self) -> ReadError {
        ReadError::Damaged { segment: self.at.segment, offset: self.at.offset }
    }

    /// Reads on, at least so many bytes, or none of a segment that has just been dropped.
    fn fill(&mut self, wanted: usize, end: u64) -> Result<(), ReadError> {
        if self.file.is_none() {
            match File::open(segment::path(&self.log.directory, self.at.segment)) {
                Ok(file) => self.file = Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return match self.log.end_of(self.at.segment) {
                        Some(_) => Err(self.damaged()),
                        None => Ok(()),
                    };
                }
                Err(error) => return Err(error.into()),
            }
        }
        let Some(file) = &self.file else { return Ok(()) };
        let length = self.chunk_bytes.max(wanted as u64).min(end - self.at.offset);
        self.buffer.resize(length as usize, 0);
        self.used = 0;
        let read = read_up_to(file, &mut self.buffer, self.at.offset)?;
        self.buffer.truncate(read);
        if read < wanted { Err(self.damaged()) } else { Ok(()) }
    }
}

/// Reads from a place of a file, up to its end where that comes before; returns how much.
fn read_up_to(file: &File, bytes: &mut [u8], from: u64) -> io::Result<usize> {
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, from + read as u64) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// Returns where the first whole entry begins in a part of a segment.
pub(super) fn next_entry(file: &File, from: u64, end: u64) -> io::Result<Option<u64>> {
    let (mut at, mut left, mut bytes) = (from, SEARCH_SUMMED_BYTES_MAX, Vec::new());
    while at < end {
        // The last frame that begins in a chunk may reach beyond it.
        let most = SEARCH_CHUNK_BYTES + segment::FRAME_HEAD_BYTES + segment::PAYLOAD_BYTES_MAX;
        bytes.resize(usize::try_from(end - at).map_or(most, |rest| rest.min(most)), 0);
        let read = read_up_to(file, &mut bytes, at)?;
        bytes.truncate(read);
        for begin in 0..read.min(SEARCH_CHUNK_BYTES) {
            let rest = bytes.get(begin..).unwrap_or_default();
            let Some(summed) = segment::claimed_bytes(rest) else { continue };
            let Some(still) = left.checked_sub(summed) else { return Ok(None) };
            left = still;
            if is_entry(rest) {
                return Ok(Some(at + begin as u64));
            }
        }
        at += SEARCH_CHUNK_BYTES as u64;
    }
    Ok(None)
}

/// Tells whether a frame begins here whose entry is as its hash says.
fn is_entry(bytes: &[u8]) -> bool {
    let Step::Frame { payload, .. } = segment::step(bytes) else { return false };
    let is_whole =
        stored::split(payload).is_ok_and(|(previous, hash, canonical)| Hash::of(previous, canonical) == hash);
    is_whole && stored::outline(payload).is_ok()
}
