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

use parking_lot::RwLock;
use tokio::sync::watch;

use crate::access::keyring::Keyring;

use super::chain::Hash;
use super::segment;
use super::segment::HEADER_BYTES;
use super::segment::Step;

/// How much a reader takes from the disk at a time.
const CHUNK_BYTES: u64 = 256 << 10;
/// How much is taken for a single frame at first.
const FRAME_CHUNK_BYTES: u64 = 2 << 10;

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

    /// Returns the payload of the frame at a position, or `None` when there is none (any more).
    pub(super) fn frame_at(&self, position: Position) -> Result<Option<Vec<u8>>, ReadError> {
        let mut reader = Reader { chunk_bytes: FRAME_CHUNK_BYTES, ..self.reader(position) };
        let frame = reader.next()?;
        Ok(frame.filter(|(at, _)| *at == position).map(|(_, payload)| payload.to_vec()))
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
        let payload_bytes = loop {
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
                Step::Frame { payload, .. } => break payload.len(),
                Step::Short(wanted) if self.at.offset + wanted as u64 <= end => self.fill(wanted, end)?,
                Step::Short(_) | Step::Torn => {
                    return Err(ReadError::Damaged { segment: self.at.segment, offset: self.at.offset });
                }
            }
        };
        let (at, payload_from) = (self.at, self.used + segment::FRAME_HEAD_BYTES);
        self.used = payload_from + payload_bytes;
        self.at.offset += (segment::FRAME_HEAD_BYTES + payload_bytes) as u64;
        Ok(Some((at, self.buffer.get(payload_from..self.used).unwrap_or_default())))
    }

    fn fill(&mut self, wanted: usize, end: u64) -> Result<(), ReadError> {
        if self.file.is_none() {
            self.file = Some(File::open(segment::path(&self.log.directory, self.at.segment))?);
        }
        let Some(file) = &self.file else { return Ok(()) };
        let length = self.chunk_bytes.max(wanted as u64).min(end - self.at.offset);
        self.buffer.resize(length as usize, 0);
        self.used = 0;
        file.read_exact_at(&mut self.buffer, self.at.offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                ReadError::Damaged { segment: self.at.segment, offset: self.at.offset }
            }
            _ => ReadError::Disk(error),
        })
    }
}
