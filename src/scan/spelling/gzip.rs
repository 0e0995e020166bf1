//! Base64 of gzip files: read within limits, and a fault where they do not suffice.

use std::io::BufRead;
use std::io::Read;
use std::io::Result as IoResult;
use std::ops::Range;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::GeneralPurpose;
use base64::engine::GeneralPurposeConfig;
use flate2::bufread::MultiGzDecoder;

use super::code;
use crate::scan::scanner::ScanFault;

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

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// What a gzip file says.
pub(super) struct Unpacked {
    pub(super) bytes: Vec<u8>,
    /// Its base64.
    pub(super) run: Range<usize>,
}

/// What may still be read of a text.
struct Budget {
    signs: usize,
    inflated: usize,
}

/// Base64 that is decoded as it is read; it knows how far it was.
struct Packed<'t> {
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
pub(super) fn files(text: &[u8]) -> Result<Vec<Unpacked>, ScanFault> {
    let mut budget = Budget { signs: PACKED_SIGNS_MAX, inflated: INFLATED_BYTES_MAX };
    let (mut found, mut at, mut end) = (Vec::new(), 0, 0);
    while let Some(start) = memchr::memmem::find(text.get(at..).unwrap_or_default(), HEAD) {
        let start = at + start;
        if start >= end {
            let is_sign = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
            end = start + text.get(start..).unwrap_or_default().iter().take_while(is_sign).count();
        }
        // One group more than may be read: who needs it is told.
        let mut packed = Packed::of(text.get(start..end.min(start + budget.signs + 4)).unwrap_or_default());
        let bytes = inflate(&mut packed, &mut budget.inflated)?;
        let signs = packed.read_bytes.div_ceil(3) * 4;
        budget.signs = budget.signs.checked_sub(signs.max(START_SIGNS)).ok_or(ScanFault::TooMuchDecoded)?;
        at = start + (packed.read_bytes / 3 * 4).max(HEAD.len());
        found.push(Unpacked { bytes, run: start..end });
    }
    Ok(found)
}

/// Unpacks a file, with all its members, and leaves out what is no text.
///
/// What is cut off is no whole file, but what came before it can be read.
fn inflate(packed: &mut Packed<'_>, left: &mut usize) -> Result<Vec<u8>, ScanFault> {
    let mut file = MultiGzDecoder::new(packed);
    let mut bytes = Vec::new();
    loop {
        let mut part = Vec::new();
        let ended = file.by_ref().take(PART_BYTES as u64).read_to_end(&mut part).is_err();
        let is_last = ended || part.len() < PART_BYTES;
        *left = left.checked_sub(part.len()).ok_or(ScanFault::TooMuchDecoded)?;
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

impl<'t> Packed<'t> {
    fn of(signs: &'t [u8]) -> Self {
        Self { signs, block: Vec::new(), read: 0, read_bytes: 0 }
    }

    /// Decodes the next signs.
    fn next_block(&mut self) {
        let (block, rest) = self.signs.split_at(BLOCK_SIGNS.min(self.signs.len()));
        // One sign more than whole groups says nothing.
        let told = if block.len() % 4 == 1 { block.len() - 1 } else { block.len() };
        let decoded = LENIENT.decode(block.get(..told).unwrap_or_default());
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
