//! Content codings undone under a bomb limit: gzip, deflate, br and zstd, one layer only.
//!
//! What is scanned is what is forwarded: a decoded body travels on without its coding, so that no
//! provider unpacks something else than we read. Measured bombs reach 1,127,501:1 (brotli, 93 bytes),
//! hence a cap on the output and on the ratio. What a body unfolds to, and what its decoder looks back
//! through, is of the room of all bodies, and is asked for before it is taken: many bodies at once, each
//! of them just below the caps, take no more than that.

use std::io;
use std::io::Read;
use std::io::Write;

use bytes::Bytes;
use http::HeaderMap;
use http::header;

use super::gate::GateFault;
use super::gate::Reserved;

const BROTLI_BUFFER_BYTES: usize = 4096;
/// What a decoder takes before it gives anything: tables, and what it reads at once.
const STATE_BYTES: usize = 256 << 10;
/// What is decoded of a whole body at once: little of what is small, and no more than this of anything.
const PIECE_BYTES_MIN: usize = 4 << 10;
const PIECE_BYTES_MAX: usize = 256 << 10;
/// The largest window that RFC 7932 knows.
const BROTLI_WINDOW_BYTES: usize = 16 << 20;
/// The largest window that RFC 9659 lets `zstd` have as a content coding: 8 MiB. The library would give sixteen times that.
const ZSTD_WINDOW_LOG: u32 = 23;

/// A content coding that can be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// RFC 1952.
    Gzip,
    /// RFC 1950, or the bare RFC 1951 form that some clients send under the same name.
    Deflate,
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstd,
}

/// How far a body may unfold.
#[derive(Clone, Copy, Debug)]
pub struct CodingLimits {
    /// Decoded bytes.
    pub decoded_bytes_max: usize,
    /// Decoded bytes for each encoded one.
    pub ratio_max: usize,
    /// Below this many decoded bytes the ratio is not looked at: small texts compress well.
    pub ratio_from_bytes: usize,
}

/// Why a coded body cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CodingFault {
    /// An unknown coding, or several.
    #[error("the only content codings accepted are gzip, deflate, br or zstd, one at a time")]
    Unknown,
    /// The bytes are not of the coding they claim.
    #[error("the body is not validly encoded")]
    Broken,
    /// The body unfolds past the limits.
    #[error("the body unfolds past the limit")]
    Bomb,
    /// There is no room for what the body unfolds to.
    #[error(transparent)]
    Room(#[from] GateFault),
}

/// Undoes a coding piece by piece.
pub struct StreamDecoder {
    inner: Inner,
    limits: CodingLimits,
    encoded_bytes: usize,
    decoded_bytes: usize,
}

enum Inner {
    Gzip(flate2::write::MultiGzDecoder<Vec<u8>>),
    Undecided(Vec<u8>),
    Zlib(flate2::write::ZlibDecoder<Vec<u8>>),
    Deflate(flate2::write::DeflateDecoder<Vec<u8>>),
    Brotli(Box<brotli::DecompressorWriter<Vec<u8>>>),
    Zstd(zstd::stream::zio::Writer<Vec<u8>, zstd::stream::raw::Decoder<'static>>),
}

impl Coding {
    /// Returns the coding that the Content-Encoding fields of a head tell, all of them read as one list; `None` is identity.
    ///
    /// # Errors
    /// Fails where the list names an unknown coding, or several.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, CodingFault> {
        let mut told = None;
        for value in headers.get_all(header::CONTENT_ENCODING) {
            let value = value.to_str().map_err(|_| CodingFault::Unknown)?;
            for name in value.split(',') {
                match (Self::named(name)?, told) {
                    (None, _) => {}
                    (Some(_), Some(_)) => return Err(CodingFault::Unknown),
                    (first, None) => told = first,
                }
            }
        }
        Ok(told)
    }

    /// Reads one name of the list.
    fn named(name: &str) -> Result<Option<Self>, CodingFault> {
        match name.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(None),
            "gzip" | "x-gzip" => Ok(Some(Self::Gzip)),
            "deflate" => Ok(Some(Self::Deflate)),
            "br" => Ok(Some(Self::Brotli)),
            "zstd" => Ok(Some(Self::Zstd)),
            _ => Err(CodingFault::Unknown),
        }
    }

    /// Decodes a whole body; an empty one is of any coding. What it unfolds to is added to what `reserved` holds; where it is refused, nothing is.
    ///
    /// # Errors
    /// Fails where the body is not of the coding, or unfolds past the limits or the room there is.
    pub fn decode(
        self,
        body: &[u8],
        limits: CodingLimits,
        reserved: &mut Reserved,
    ) -> Result<Bytes, CodingFault> {
        if body.is_empty() {
            return Ok(Bytes::new());
        }
        let mut room = reserved.beside();
        let (pieces, decoded_bytes) = self.unfold(body, limits.allowed(body.len()), &mut room)?;
        // The decoder is gone, with its window; joined, what it gave is there twice for a moment.
        room.hold(decoded_bytes)?;
        room.grow(decoded_bytes)?;
        let mut whole = Vec::with_capacity(decoded_bytes);
        pieces.into_iter().for_each(|piece| whole.extend_from_slice(&piece));
        room.hold(decoded_bytes)?;
        reserved.join(room);
        Ok(whole.into())
    }

    /// Decodes a body into pieces, each of which has its room before it is made; returns them, and their length in all.
    fn unfold(
        self,
        body: &[u8],
        bytes_max: usize,
        room: &mut Reserved,
    ) -> Result<(Vec<Vec<u8>>, usize), CodingFault> {
        room.grow(STATE_BYTES)?;
        let mut rest = body;
        let mut reader = self.reader(&mut rest)?;
        let piece_bytes = body.len().saturating_mul(3).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX);
        let (mut pieces, mut decoded_bytes) = (Vec::new(), 0);
        loop {
            let step = piece_bytes.min(bytes_max + 1 - decoded_bytes);
            // Of a window no more is ever written than what came out.
            let window = step.min(self.window_bytes().saturating_sub(decoded_bytes));
            room.grow(step + window)?;
            let mut piece = Vec::with_capacity(step);
            let read = reader.by_ref().take(step as u64).read_to_end(&mut piece);
            let read = read.map_err(|_| CodingFault::Broken)?;
            decoded_bytes += read;
            pieces.push(piece);
            if decoded_bytes > bytes_max {
                return Err(CodingFault::Bomb);
            }
            if read < step {
                // What stands behind the end of the coding would be dropped, and nobody would have read it.
                let is_over = matches!(reader.read(&mut [0]), Ok(0));
                drop(reader);
                let is_whole = is_over && rest.is_empty();
                return if is_whole { Ok((pieces, decoded_bytes)) } else { Err(CodingFault::Broken) };
            }
        }
    }

    /// Returns what decodes a body. Over its end a decoder leaves what is behind that, or, read once more, finds fault with
    /// what it has taken of it.
    fn reader<'a>(self, body: &'a mut &[u8]) -> Result<Box<dyn Read + 'a>, CodingFault> {
        Ok(match self {
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(body)),
            Self::Deflate if is_zlib(body) => Box::new(flate2::bufread::ZlibDecoder::new(body)),
            Self::Deflate => Box::new(flate2::bufread::DeflateDecoder::new(body)),
            Self::Brotli if has_large_window(body) => return Err(CodingFault::Broken),
            Self::Brotli => Box::new(brotli::Decompressor::new(body, BROTLI_BUFFER_BYTES)),
            Self::Zstd => {
                let decoder = zstd::stream::read::Decoder::with_buffer(body).and_then(|mut decoder| {
                    decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                    Ok(decoder)
                });
                Box::new(decoder.map_err(|_| CodingFault::Broken)?)
            }
        })
    }

    /// Returns how much of what came out a decoder may keep, to look back through; the window of the older codings is of
    /// their decoders' state.
    fn window_bytes(self) -> usize {
        match self {
            Self::Gzip | Self::Deflate => 0,
            Self::Brotli => BROTLI_WINDOW_BYTES,
            Self::Zstd => 1 << ZSTD_WINDOW_LOG,
        }
    }
}

impl CodingLimits {
    fn allowed(self, encoded_bytes: usize) -> usize {
        self.by_ratio(encoded_bytes).min(self.decoded_bytes_max)
    }

    fn by_ratio(self, encoded_bytes: usize) -> usize {
        encoded_bytes.saturating_mul(self.ratio_max).max(self.ratio_from_bytes)
    }
}

/// Tells whether a body asks for a window of up to 1 GiB, which its decoder would give it, and which RFC 7932 (section 9.1)
/// does not know.
fn has_large_window(body: &[u8]) -> bool {
    body.first().is_some_and(|first| first & 0x7f == 0x11)
}

fn is_zlib(body: &[u8]) -> bool {
    matches!(body, [cmf, flg, ..] if cmf & 0x0f == 8 && (u16::from(*cmf) << 8 | u16::from(*flg)) % 31 == 0)
}

impl StreamDecoder {
    /// Returns a decoder at the start of a body. A stream has no length, so `decoded_bytes_max` is
    /// not applied to it; the ratio is.
    pub fn new(coding: Coding, limits: CodingLimits) -> Result<Self, CodingFault> {
        let inner = match coding {
            Coding::Gzip => Inner::Gzip(flate2::write::MultiGzDecoder::new(Vec::new())),
            Coding::Deflate => Inner::Undecided(Vec::new()),
            Coding::Brotli => {
                Inner::Brotli(Box::new(brotli::DecompressorWriter::new(Vec::new(), BROTLI_BUFFER_BYTES)))
            }
            Coding::Zstd => {
                let decoder = zstd::stream::raw::Decoder::new().and_then(|mut decoder| {
                    decoder.set_parameter(zstd::zstd_safe::DParameter::WindowLogMax(ZSTD_WINDOW_LOG))?;
                    Ok(decoder)
                });
                let decoder = decoder.map_err(|_| CodingFault::Broken)?;
                Inner::Zstd(zstd::stream::zio::Writer::new(Vec::new(), decoder))
            }
        };
        Ok(Self { inner, limits, encoded_bytes: 0, decoded_bytes: 0 })
    }

    /// Takes the next encoded bytes and returns what they unfold to.
    pub fn push(&mut self, encoded: &[u8]) -> Result<Bytes, CodingFault> {
        let is_begin = self.encoded_bytes == 0;
        if is_begin && matches!(self.inner, Inner::Brotli(_)) && has_large_window(encoded) {
            return Err(CodingFault::Broken);
        }
        self.encoded_bytes += encoded.len();
        // Small bites keep a bomb's output from growing far past the limit before it is noticed.
        let mut decoded = Vec::new();
        for bite in encoded.chunks(256) {
            self.inner.write(bite).map_err(|_| CodingFault::Broken)?;
            let fresh = self.inner.take();
            self.decoded_bytes += fresh.len();
            if self.decoded_bytes > self.limits.by_ratio(self.encoded_bytes) {
                return Err(CodingFault::Bomb);
            }
            decoded.extend_from_slice(&fresh);
        }
        Ok(decoded.into())
    }

    /// Tells that the body is over: what broke off in the middle of its coding is broken.
    ///
    /// # Errors
    /// Fails where bytes came, but not the end of what they encode.
    pub fn finish(&mut self) -> Result<(), CodingFault> {
        match self.encoded_bytes == 0 || self.inner.is_finished() {
            true => Ok(()),
            false => Err(CodingFault::Broken),
        }
    }
}

impl Inner {
    /// Tells whether the last byte written was the last one of the coding.
    fn is_finished(&mut self) -> bool {
        match self {
            Self::Undecided(_) => false,
            Self::Gzip(inner) => inner.try_finish().is_ok(),
            // Past their end they take no byte more.
            Self::Zlib(inner) => matches!(inner.write(&[0]), Ok(0)),
            Self::Deflate(inner) => matches!(inner.write(&[0]), Ok(0)),
            Self::Brotli(inner) => inner.close().is_ok(),
            Self::Zstd(inner) => inner.finish().is_ok(),
        }
    }

    fn write(&mut self, bite: &[u8]) -> io::Result<()> {
        if let Self::Undecided(first) = self {
            first.extend_from_slice(bite);
            if first.len() < 2 {
                return Ok(());
            }
            let first = std::mem::take(first);
            *self = match is_zlib(&first) {
                true => Self::Zlib(flate2::write::ZlibDecoder::new(Vec::new())),
                false => Self::Deflate(flate2::write::DeflateDecoder::new(Vec::new())),
            };
            return self.write(&first);
        }
        match self {
            Self::Undecided(_) => Ok(()),
            Self::Gzip(inner) => inner.write_all(bite).and_then(|()| inner.flush()),
            Self::Zlib(inner) => inner.write_all(bite).and_then(|()| inner.flush()),
            Self::Deflate(inner) => inner.write_all(bite).and_then(|()| inner.flush()),
            Self::Brotli(inner) => inner.write_all(bite).and_then(|()| inner.flush()),
            Self::Zstd(inner) => inner.write_all(bite).and_then(|()| inner.flush()),
        }
    }

    fn take(&mut self) -> Vec<u8> {
        match self {
            Self::Undecided(_) => Vec::new(),
            Self::Gzip(inner) => std::mem::take(inner.get_mut()),
            Self::Zlib(inner) => std::mem::take(inner.get_mut()),
            Self::Deflate(inner) => std::mem::take(inner.get_mut()),
            Self::Brotli(inner) => std::mem::take(inner.get_mut()),
            Self::Zstd(inner) => std::mem::take(inner.writer_mut()),
        }
    }
}

#[cfg(test)]
mod tests;
