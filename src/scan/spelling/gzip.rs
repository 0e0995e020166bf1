//! Base64 of gzip files and of other deflated bytes: read within limits, and a fault where they do not suffice.

use std::io::BufRead;
use std::io::Read;
use std::io::Result as IoResult;
use std::ops::Range;

use flate2::bufread::MultiGzDecoder;

use super::code;
use crate::scan::decode;
use crate::scan::scanner::ScanFault;
use crate::scan::threat::Encoding;

/// What comes out of the gzip files of a text at most, in bytes: twenty times what a piece full of them holds.
pub(super) const INFLATED_BYTES_MAX: usize = 4 << 20;
/// How much base64 of gzip files is read in a text, in signs: more than a piece has.
pub(super) const PACKED_SIGNS_MAX: usize = 1 << 20;
/// What a beginning of a file counts for at least, in signs, for what it takes to begin.
const START_SIGNS: usize = 256;
/// How every gzip file begins in base64.
const HEAD: &[u8] = b"H4sI";
/// How many signs are decoded together.
const BLOCK_SIGNS: usize = 1 << 10;
/// How many bytes are unpacked together.
const PART_BYTES: usize = 1 << 14;

/// What a file or a stream says.
pub(super) struct Unpacked {
    /// What came out.
    pub(super) bytes: Vec<u8>,
    /// Its base64.
    pub(super) run: Range<usize>,
}

/// What may still be read of a text.
pub(super) struct Budget {
    signs: usize,
    inflated: usize,
}

/// Base64 that is decoded as it is read; it knows how far it was.
pub(super) struct Packed<'t> {
    /// What is not decoded yet.
    signs: &'t [u8],
    block: Vec<u8>,
    /// How much of the block was read.
    read: usize,
    /// How many bytes were read in all.
    read_bytes: usize,
}

/// Returns what the gzip files of a text say, each with the base64 it comes from.
///
/// # Errors
/// There is more to read than a text may have: what would be left out could hide anything.
pub(super) fn files(text: &[u8], budget: &mut Budget) -> Result<Vec<Unpacked>, ScanFault> {
    let (mut found, mut at, mut end) = (Vec::new(), 0, 0);
    while let Some(start) = memchr::memmem::find(text.get(at..).unwrap_or_default(), HEAD) {
        let start = at + start;
        if start >= end {
            let is_sign = |byte: &&u8| decode::in_alphabet(**byte);
            end = start + text.get(start..).unwrap_or_default().iter().take_while(is_sign).count();
        }
        let mut packed = Packed::of(budget.readable(text.get(start..end).unwrap_or_default()));
        let bytes = inflate(MultiGzDecoder::new(&mut packed), budget)?;
        budget.charge(&packed)?;
        at = start + (packed.read_bytes / 3 * 4).max(HEAD.len());
        found.push(Unpacked { bytes, run: start..end });
    }
    Ok(found)
}

/// Unpacks a file with all its members, or a stream, and leaves out what is no text.
///
/// What is cut off is not whole, but what came before it can be read.
pub(super) fn inflate(mut file: impl Read, budget: &mut Budget) -> Result<Vec<u8>, ScanFault> {
    let mut bytes = Vec::new();
    loop {
        let mut part = Vec::new();
        let ended = file.by_ref().take(PART_BYTES as u64).read_to_end(&mut part).is_err();
        let is_last = ended || part.len() < PART_BYTES;
        budget.inflated = budget.inflated.checked_sub(part.len()).ok_or(ScanFault::TooMuchDecoded)?;
        let part = code::narrow(part);
        match code::clean(&mut part.clone()) {
            true => bytes.extend_from_slice(&part),
            false => bytes.extend(code::lines_within(&part)),
        }
        if is_last {
            return Ok(bytes);
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self { signs: PACKED_SIGNS_MAX, inflated: INFLATED_BYTES_MAX }
    }
}

impl Budget {
    /// Returns what may be read of some signs, and one group more: who needs it is told.
    pub(super) fn readable<'t>(&self, signs: &'t [u8]) -> &'t [u8] {
        signs.get(..self.signs + 4).unwrap_or(signs)
    }

    /// Takes what was read from what may still be read.
    pub(super) fn charge(&mut self, packed: &Packed<'_>) -> Result<(), ScanFault> {
        let signs = packed.read_bytes.div_ceil(3) * 4;
        self.signs = self.signs.checked_sub(signs.max(START_SIGNS)).ok_or(ScanFault::TooMuchDecoded)?;
        Ok(())
    }
}

impl<'t> Packed<'t> {
    /// Begins to read signs.
    pub(super) fn of(signs: &'t [u8]) -> Self {
        Self { signs, block: Vec::new(), read: 0, read_bytes: 0 }
    }

    /// Passes over the first bytes, of which there are no more than a block has.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.next_block();
        self.consume(bytes.min(self.block.len()));
    }

    /// Decodes the next signs.
    fn next_block(&mut self) {
        let (block, rest) = self.signs.split_at(BLOCK_SIGNS.min(self.signs.len()));
        let decoded = decode::decoded(block, Encoding::Base64);
        (self.signs, self.block, self.read) = (rest, decoded.unwrap_or_default(), 0);
    }
}

impl Read for Packed<'_> {
    fn read(&mut self, out: &mut [u8]) -> IoResult<usize> {
        let taken = self.fill_buf()?.read(out)?;
        self.consume(taken);
        Ok(taken)
    }
}

impl BufRead for Packed<'_> {
    fn fill_buf(&mut self) -> IoResult<&[u8]> {
        if self.read == self.block.len() {
            self.next_block();
        }
        Ok(self.block.get(self.read..).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        self.read += count;
        self.read_bytes += count;
    }
}
