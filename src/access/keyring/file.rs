//! The file of keys: a header, then slots of 64 bytes that are overwritten where they lie.
//!
//! Header: magic `PCSUBJ\0\0`, format version (u16), two zeros, 32 random bytes that names are hashed with, CRC-32
//! of all that, zeros. Slot: CRC-32 of the rest (u32), state (1: taken), standing of the name, two zeros, keyed hash of
//! the name (16 bytes), day since 1970 on which it was last seen (u32), four zeros, key (32 bytes). Slots from before
//! there were standings have zeros in their places. A slot that is all zero is free; one whose sum is wrong was torn
//! while it was made or destroyed, its key counts as destroyed, and it is zeroed. All numbers are little-endian.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::KeyringError;
use super::cipher;
use super::cipher::KEY_BYTES;
use super::cipher::Key;
use super::standing::Standing;

const MAGIC: &[u8; 8] = b"PCSUBJ\0\0";
const VERSION: u16 = 1;
const UNIT_BYTES: usize = 64;
const SECRET_BYTES: usize = 32;
const INDEX_BYTES: usize = 16;
const TAKEN: u8 = 1;
/// Where in a slot the name's standing is, where its hash begins, its day, and its key.
const STANDING_AT: usize = 5;
const INDEX_AT: usize = 8;
const DAY_AT: usize = 24;
const KEY_AT: usize = 32;
const SECRET_AT: usize = 12;

/// What a name is found by.
pub(super) type Index = [u8; INDEX_BYTES];

/// A key, and what is known of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// What the name is found by.
    pub(super) index: Index,
    pub(super) key: Key,
    pub(super) standing: Standing,
    /// The day, since 1970, on which it was last recorded.
    pub(super) seen_day: u32,
}

/// The file.
pub(super) struct KeyFile {
    file: File,
    secret: [u8; SECRET_BYTES],
}

impl KeyFile {
    /// Opens the file, or makes it, and returns its slots, the free ones as `None`.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<Option<Slot>>), KeyringError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        file.try_lock().map_err(|_| KeyringError::InUse)?;
        let length = file.metadata()?.len();
        // A header that never became whole has no slots behind it.
        if length < UNIT_BYTES as u64 {
            let opened = Self { secret: cipher::random(), file };
            opened.file.write_all_at(&opened.header(), 0)?;
            opened.file.sync_all()?;
            if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                File::open(folder)?.sync_all()?;
            }
            return Ok((opened, Vec::new()));
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| KeyringError::Damaged)?];
        file.read_exact_at(&mut bytes, 0)?;
        let (units, _) = bytes.as_chunks::<UNIT_BYTES>();
        let (header, slots) = units.split_first().ok_or(KeyringError::Damaged)?;
        let opened = Self { secret: secret_of(header).ok_or(KeyringError::Damaged)?, file };
        let read = |(number, unit): (usize, &[u8; UNIT_BYTES])| -> Result<Option<Slot>, KeyringError> {
            let slot = Slot::from_bytes(unit);
            if slot.is_none() && unit.iter().any(|byte| *byte != 0) {
                opened.write(u32::try_from(number).map_err(|_| KeyringError::Damaged)?, None)?;
                opened.sync()?;
            }
            Ok(slot)
        };
        let slots = slots.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok((opened, slots))
    }

    /// Looks at the file, and takes nothing of it.
    pub(super) fn look(path: &Path) -> Result<(), KeyringError> {
        let mut header = [0; UNIT_BYTES];
        let read = File::open(path).and_then(|file| file.read_exact_at(&mut header, 0));
        match read {
            Ok(()) => secret_of(&header).map(drop).ok_or(KeyringError::Damaged),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => {
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns what a name is found by.
    pub(super) fn index_of(&self, name: &str) -> Index {
        let hash = cipher::hash(&self.secret, name);
        let mut index = Index::default();
        index.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
        index
    }

    /// Overwrites a slot; `None` frees it.
    pub(super) fn write(&self, number: u32, slot: Option<&Slot>) -> io::Result<()> {
        let bytes = slot.map_or([0; UNIT_BYTES], Slot::to_bytes);
        self.file.write_all_at(&bytes, (u64::from(number) + 1) * UNIT_BYTES as u64)
    }

    /// Comes back once everything written would survive a power cut.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn header(&self) -> [u8; UNIT_BYTES] {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&self.secret);
        let sum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes.resize(UNIT_BYTES, 0);
        bytes.try_into().unwrap_or([0; UNIT_BYTES])
    }
}

/// Returns the secret of a header that is whole.
fn secret_of(header: &[u8; UNIT_BYTES]) -> Option<[u8; SECRET_BYTES]> {
    let (body, rest) = header.split_first_chunk::<{ SECRET_AT + SECRET_BYTES }>()?;
    let (sum, _) = rest.split_first_chunk::<4>()?;
    let is_ours = body.starts_with(MAGIC)
        && body.get(8..10) == Some(VERSION.to_le_bytes().as_slice())
        && crc32fast::hash(body).to_le_bytes() == *sum;
    is_ours.then(|| body.last_chunk::<SECRET_BYTES>().copied())?
}

impl Slot {
    fn to_bytes(&self) -> [u8; UNIT_BYTES] {
        let mut bytes = [0; UNIT_BYTES];
        bytes[4] = TAKEN;
        bytes[STANDING_AT] = self.standing.code();
        bytes[INDEX_AT..INDEX_AT + INDEX_BYTES].copy_from_slice(&self.index);
        bytes[DAY_AT..DAY_AT + 4].copy_from_slice(&self.seen_day.to_le_bytes());
        bytes[KEY_AT..].copy_from_slice(&self.key.0);
        let sum = crc32fast::hash(&bytes[4..]).to_le_bytes();
        bytes[..4].copy_from_slice(&sum);
        bytes
    }

    fn from_bytes(bytes: &[u8; UNIT_BYTES]) -> Option<Self> {
        let (sum, rest) = bytes.split_first_chunk::<4>()?;
        let is_whole = crc32fast::hash(rest).to_le_bytes() == *sum && rest.first() == Some(&TAKEN);
        let index = bytes.get(INDEX_AT..INDEX_AT + INDEX_BYTES)?.try_into().ok()?;
        let standing = Standing::of_code(*bytes.get(STANDING_AT)?);
        let seen_day = u32::from_le_bytes(bytes.get(DAY_AT..DAY_AT + 4)?.try_into().ok()?);
        let key = Key(*bytes.last_chunk::<KEY_BYTES>()?);
        is_whole.then_some(Self { index, key, standing, seen_day })
    }
}
