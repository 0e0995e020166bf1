//! One file of the journal: a header, then frames.
//!
//! Header (70 bytes): magic `PCAUDIT\0`, format version (u16), sequence (u64), moment of making (Unix ms, u64),
//! where the segment before ends (u64), the last hash before this segment (32 bytes), CRC-32 of all that (u32).
//! Frame: payload length (u32), CRC-32 of length and payload (u32), payload. All numbers are little-endian.
//! The end of the segment before is noted because a segment whose sync failed may hold frames past it that
//! were never acknowledged and do not count.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;

use super::chain::Hash;

/// The length of a segment's header, in bytes.
pub(super) const HEADER_BYTES: u64 = 70;
/// The length of a frame without its payload, in bytes.
pub(super) const FRAME_HEAD_BYTES: usize = 8;
/// The longest payload, in bytes.
pub(super) const PAYLOAD_BYTES_MAX: usize = 1 << 20;

const MAGIC: &[u8; 8] = b"PCAUDIT\0";
const VERSION: u16 = 1;
const PREFIX: &str = "audit-";
const SUFFIX: &str = ".segment";

/// What a segment says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) sequence: u64,
    pub(super) made_unix_ms: u64,
    pub(super) previous_end: u64,
    pub(super) previous_hash: Hash,
}

/// One step through the frames of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// A whole frame: its payload, and its length with its head.
    Frame { payload: &'a [u8], bytes: usize },
    /// More bytes are needed: at least this many in all.
    Short(usize),
    /// What follows is no frame.
    Torn,
}

impl Header {
    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        for number in [self.sequence, self.made_unix_ms, self.previous_end] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.previous_hash.0);
        let sum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; HEADER_BYTES as usize]) -> Option<Self> {
        let (body, sum) = bytes.split_last_chunk::<4>()?;
        let (magic, rest) = body.split_first_chunk::<8>()?;
        let (version, rest) = rest.split_first_chunk::<2>()?;
        let (sequence, rest) = rest.split_first_chunk::<8>()?;
        let (made, rest) = rest.split_first_chunk::<8>()?;
        let (previous_end, hash) = rest.split_first_chunk::<8>()?;
        let sound = crc32fast::hash(body).to_le_bytes() == *sum
            && magic == MAGIC
            && u16::from_le_bytes(*version) == VERSION;
        sound.then_some(Self {
            sequence: u64::from_le_bytes(*sequence),
            made_unix_ms: u64::from_le_bytes(*made),
            previous_end: u64::from_le_bytes(*previous_end),
            previous_hash: Hash(hash.try_into().ok()?),
        })
    }
}

/// Returns the file of a segment.
pub(super) fn path(directory: &Path, sequence: u64) -> PathBuf {
    directory.join(format!("{PREFIX}{sequence:016x}{SUFFIX}"))
}

/// Returns the sequences of the segments in a directory, ascending.
pub(super) fn list(directory: &Path) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
        found.extend(digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()));
    }
    found.sort_unstable();
    Ok(found)
}

/// Makes a segment and returns it once its header and its name would survive a power cut.
pub(super) fn create(directory: &Path, header: Header) -> io::Result<File> {
    let file = make(&path(directory, header.sequence))?;
    file.write_all_at(&header.to_bytes(), 0)?;
    file.sync_all()?;
    File::open(directory)?.sync_all()?;
    Ok(file)
}

/// Makes an empty file that nobody else may read.
pub(super) fn make(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Returns the header of a segment file, or `None` when it is not whole.
pub(super) fn read_header(file: &File) -> io::Result<Option<Header>> {
    let mut bytes = [0u8; HEADER_BYTES as usize];
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => Ok(Header::from_bytes(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Adds a frame to a buffer, its payload written in place by `write`.
pub(super) fn push_frame(buffer: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let head_from = buffer.len();
    buffer.extend_from_slice(&[0; FRAME_HEAD_BYTES]);
    write(buffer);
    let Some((head, payload)) =
        buffer.get_mut(head_from..).and_then(|frame| frame.split_first_chunk_mut::<FRAME_HEAD_BYTES>())
    else {
        return;
    };
    let length = (payload.len() as u32).to_le_bytes();
    let sum = checksum(length, payload).to_le_bytes();
    *head = [length, sum].as_flattened().try_into().unwrap_or_default();
}

/// Returns where a frame with that payload ends which begins at `offset`.
pub(super) fn frame_end(offset: u64, payload: &[u8]) -> u64 {
    offset + (FRAME_HEAD_BYTES + payload.len()) as u64
}

/// Looks at the frame that `bytes` begins with.
pub(super) fn step(bytes: &[u8]) -> Step<'_> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Step::Short(FRAME_HEAD_BYTES) };
    let Some((sum, rest)) = rest.split_first_chunk::<4>() else { return Step::Short(FRAME_HEAD_BYTES) };
    let Some(payload_bytes) = payload_bytes(*length) else { return Step::Torn };
    match rest.get(..payload_bytes) {
        None => Step::Short(FRAME_HEAD_BYTES + payload_bytes),
        Some(payload) if checksum(*length, payload).to_le_bytes() == *sum => {
            Step::Frame { payload, bytes: FRAME_HEAD_BYTES + payload_bytes }
        }
        Some(_) => Step::Torn,
    }
}

/// Returns how long the payload is of the frame that `bytes` begin with, if they do; `None`: they begin with none.
pub(super) fn claimed_bytes(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk::<4>().and_then(|length| payload_bytes(*length))
}

fn payload_bytes(length: [u8; 4]) -> Option<usize> {
    let bytes = u32::from_le_bytes(length) as usize;
    (1..=PAYLOAD_BYTES_MAX).contains(&bytes).then_some(bytes)
}

fn checksum(length: [u8; 4], payload: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&length);
    sum.update(payload);
    sum.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_as_written_and_not_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let header = Header { sequence: 7, made_unix_ms: 8, previous_end: 9, previous_hash: Hash([3; 32]) };
        let file = create(folder.path(), header).unwrap();
        assert_eq!(file.metadata().unwrap().len(), HEADER_BYTES);
        assert_eq!(read_header(&file).unwrap(), Some(header));
        assert_eq!(list(folder.path()).unwrap(), [7]);
        for at in 0..HEADER_BYTES {
            let mut byte = [0u8];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 1], at).unwrap();
            assert_eq!(read_header(&file).unwrap(), None, "byte {at}");
            file.write_all_at(&byte, at).unwrap();
        }
    }

    #[test]
    fn every_cut_and_every_flip_of_a_frame_is_noticed() {
        let mut bytes = Vec::new();
        push_frame(&mut bytes, |bytes| bytes.extend_from_slice(b"payload"));
        assert_eq!(step(&bytes), Step::Frame { payload: b"payload", bytes: bytes.len() });
        for cut in 0..bytes.len() {
            assert!(matches!(step(&bytes[..cut]), Step::Short(_)), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert!(!matches!(step(&flipped), Step::Frame { .. }), "flip at {at}");
        }
        assert_eq!(step(&[0; 64]), Step::Torn);
    }
}
