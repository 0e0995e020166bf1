//! What is packed in streams of a PDF, unpacked: never to more than what is left.

use std::io::Read;

use flate2::bufread::DeflateDecoder;

use super::object::Dict;
use super::object::Object;
use super::object::is_blank;
use super::object::of_hex;
use crate::attachment::Unread;

/// The most filters of one stream.
const FILTERS_MAX: usize = 8;
/// The longest row of a predictor, in bytes.
const ROW_BYTES_MAX: usize = 1 << 20;
/// The codes of LZW that begin anew and that end, and the first one that stands for several bytes.
const LZW_CLEAR: usize = 256;
const LZW_END: usize = 257;
const LZW_FIRST: usize = 258;
/// The most codes, and how many bits they have.
const LZW_CODES_MAX: usize = 1 << 12;
const LZW_BITS: (u32, u32) = (9, 12);

/// Returns what a stream holds, at most so many bytes, and whether that is all; broken ones hold what came out before.
///
/// # Errors
/// It is packed in a way that is not read, as pictures are.
pub(super) fn unpacked(bytes: &[u8], dict: &Dict, most: usize) -> Result<(Vec<u8>, bool), Unread> {
    let filters = list(dict.get("Filter").or(dict.get("F")));
    let parameters = list(dict.get("DecodeParms").or(dict.get("DP")));
    if filters.len() > FILTERS_MAX {
        return Err(Unread::Format);
    }
    let (mut held, mut is_whole) =
        (bytes.get(..most.min(bytes.len())).unwrap_or_default().to_vec(), bytes.len() <= most);
    for (at, filter) in filters.iter().enumerate() {
        let source = if at == 0 { bytes } else { &held };
        let Object::Name(name) = filter else { return Err(Unread::Format) };
        let unfolded = match name.as_slice() {
            b"FlateDecode" | b"Fl" => deflated(source, most),
            b"LZWDecode" | b"LZW" => lzw(source, most, early(parameters.get(at))),
            b"ASCII85Decode" | b"A85" => base85(source, most),
            b"ASCIIHexDecode" | b"AHx" => {
                of_hex(source.split(|byte| *byte == b'>').next().unwrap_or_default())
            }
            b"RunLengthDecode" | b"RL" => runs(source, most),
            b"Crypt" => source.to_vec(),
            _ => return Err(Unread::Format),
        };
        is_whole &= unfolded.len() < most;
        held = match parameters.get(at) {
            Some(Object::Dict(parameters)) => predicted(unfolded, parameters),
            _ => unfolded,
        };
    }
    Ok((held, is_whole || filters.is_empty() && bytes.len() <= most))
}

fn list(value: Option<&Object>) -> Vec<Object> {
    match value {
        None | Some(Object::Null) => Vec::new(),
        Some(Object::Array(items)) => items.clone(),
        Some(one) => vec![one.clone()],
    }
}

/// Returns deflated bytes, with the head that belongs there or without one.
fn deflated(bytes: &[u8], most: usize) -> Vec<u8> {
    let blanks = bytes.iter().take_while(|byte| is_blank(**byte)).count();
    let bytes = bytes.get(blanks..).unwrap_or_default();
    let is_headed = matches!(bytes, [first, second, ..] if first & 0x0f == 8 && (u16::from(*first) << 8 | u16::from(*second)) % 31 == 0);
    let body = if is_headed { bytes.get(2..).unwrap_or_default() } else { bytes };
    let mut held = Vec::new();
    // What came out before a fault is what other readers show.
    let _ = DeflateDecoder::new(body).take(most as u64).read_to_end(&mut held);
    held
}

/// Tells whether codes of LZW grow a code early, as they do unless a stream says otherwise.
fn early(parameters: Option<&Object>) -> bool {
    let Some(Object::Dict(parameters)) = parameters else { return true };
    parameters.get("EarlyChange").and_then(Object::count) != Some(0)
}

fn lzw(bytes: &[u8], most: usize, is_early: bool) -> Vec<u8> {
    let mut held: Vec<u8> = Vec::new();
    // What a code stands for came out before: where, and how long it is.
    let mut known: Vec<(usize, usize)> = Vec::new();
    let mut last = None;
    let (mut buffer, mut bits, mut width, mut rest) = (0_u32, 0, LZW_BITS.0, bytes.iter());
    while held.len() < most {
        while bits < width {
            let Some(byte) = rest.next() else { return held };
            (buffer, bits) = (buffer << 8 | u32::from(*byte), bits + 8);
        }
        bits -= width;
        let code = (buffer >> bits) as usize & ((1 << width) - 1);
        if code == LZW_END {
            break;
        }
        if code == LZW_CLEAR {
            (last, width) = (None, LZW_BITS.0);
            known.clear();
            continue;
        }
        if let Some((at, bytes)) = last
            && LZW_FIRST + known.len() < LZW_CODES_MAX
        {
            known.push((at, bytes + 1));
        }
        let begin = held.len();
        match (u8::try_from(code), code.checked_sub(LZW_FIRST).and_then(|code| known.get(code))) {
            (Ok(byte), _) => held.push(byte),
            // It may end with the byte that it begins with, which comes out as it is copied.
            (_, Some((at, bytes))) => (*at..at + bytes).for_each(|at| held.extend(held.get(at).copied())),
            (Err(_), None) => break,
        }
        last = Some((begin, held.len() - begin));
        let next = (LZW_FIRST + known.len() + usize::from(is_early)) as u32;
        width = (u32::BITS - next.leading_zeros()).clamp(LZW_BITS.0, LZW_BITS.1);
    }
    held.truncate(most);
    held
}

fn base85(bytes: &[u8], most: usize) -> Vec<u8> {
    let bytes = bytes.strip_prefix(b"<~").unwrap_or(bytes);
    let mut held = Vec::with_capacity(bytes.len().min(most));
    let mut group = Vec::with_capacity(5);
    for byte in bytes.iter().take_while(|byte| **byte != b'~').filter(|byte| !is_blank(**byte)) {
        if held.len() >= most {
            break;
        }
        match byte {
            b'z' if group.is_empty() => held.extend([0; 4]),
            b'!'..=b'u' => group.push(byte - b'!'),
            _ => {}
        }
        if group.len() == 5 {
            held.extend(quartet(&group));
            group.clear();
        }
    }
    if group.len() > 1 {
        let bytes = group.len() - 1;
        group.resize(5, 84);
        held.extend(quartet(&group).iter().take(bytes));
    }
    held.truncate(most);
    held
}

fn quartet(digits: &[u8]) -> [u8; 4] {
    let value =
        digits.iter().fold(0_u32, |value, digit| value.wrapping_mul(85).wrapping_add(u32::from(*digit)));
    value.to_be_bytes()
}

fn runs(bytes: &[u8], most: usize) -> Vec<u8> {
    let (mut held, mut rest) = (Vec::new(), bytes);
    while let Some((length, behind)) = rest.split_first()
        && held.len() < most
    {
        match length {
            0..=127 => {
                let (copied, behind) = behind.split_at((usize::from(*length) + 1).min(behind.len()));
                held.extend_from_slice(copied);
                rest = behind;
            }
            128 => break,
            129.. => {
                let Some((byte, behind)) = behind.split_first() else { break };
                held.resize(held.len() + 257 - usize::from(*length), *byte);
                rest = behind;
            }
        }
    }
    held.truncate(most);
    held
}

/// Undoes a predictor.
fn predicted(bytes: Vec<u8>, parameters: &Dict) -> Vec<u8> {
    let told = |name: &str, usual: usize| parameters.get(name).and_then(Object::count).unwrap_or(usual);
    let (predictor, bits) = (told("Predictor", 1), told("BitsPerComponent", 8));
    let pixel_bits = told("Colors", 1).saturating_mul(bits);
    let row_bytes = told("Columns", 1).saturating_mul(pixel_bits).div_ceil(8);
    if predictor < 2 || !(1..=ROW_BYTES_MAX).contains(&row_bytes) {
        return bytes;
    }
    let step = pixel_bits.div_ceil(8);
    if predictor == 2 {
        let mut bytes = bytes;
        let rows = bytes.chunks_mut(row_bytes).filter(|_| bits == 8);
        rows.for_each(|row| undo(row, &[], step, 1));
        return bytes;
    }
    let mut held: Vec<u8> = Vec::with_capacity(bytes.len());
    let mut before = vec![0; row_bytes];
    for row in bytes.chunks(row_bytes + 1) {
        let Some((kind, row)) = row.split_first() else { break };
        let mut row = row.to_vec();
        undo(&mut row, &before, step, *kind);
        held.extend_from_slice(&row);
        row.resize(row_bytes, 0);
        before = row;
    }
    held
}

/// Undoes a predictor of PNG in a row.
fn undo(row: &mut [u8], before: &[u8], step: usize, kind: u8) {
    for at in 0..row.len() {
        let left = at.checked_sub(step).and_then(|at| row.get(at)).copied().unwrap_or(0);
        let up = before.get(at).copied().unwrap_or(0);
        let corner = at.checked_sub(step).and_then(|at| before.get(at)).copied().unwrap_or(0);
        let guess = match kind {
            1 => left,
            2 => up,
            3 => ((u16::from(left) + u16::from(up)) / 2) as u8,
            4 => nearest(left, up, corner),
            _ => 0,
        };
        if let Some(byte) = row.get_mut(at) {
            *byte = byte.wrapping_add(guess);
        }
    }
}

/// Returns of three neighbours the one that is nearest to what they would make (Paeth).
fn nearest(left: u8, up: u8, corner: u8) -> u8 {
    let made = i16::from(left) + i16::from(up) - i16::from(corner);
    let far = |of: u8| (made - i16::from(of)).abs();
    match () {
        () if far(left) <= far(up) && far(left) <= far(corner) => left,
        () if far(up) <= far(corner) => up,
        () => corner,
    }
}

#[cfg(test)]
mod tests {
    use super::super::object::Lexer;
    use super::*;

    fn unpack(bytes: &[u8], dict: &str, most: usize) -> Result<(Vec<u8>, bool), Unread> {
        let Some(Object::Dict(dict)) = Lexer::new(dict.as_bytes(), 0).object() else {
            panic!("no dictionary")
        };
        unpacked(bytes, &dict, most)
    }

    #[test]
    fn filters() {
        let all = |text: &str| Ok((text.as_bytes().to_vec(), true));
        assert_eq!(unpack(b"plain", "<<>>", 9), all("plain"));
        assert_eq!(unpack(b"plain", "<<>>", 3), Ok((b"pla".to_vec(), false)));
        assert_eq!(unpack(b"48 65 6c6C6f>", "<</Filter/AHx>>", 99), all("Hello"));
        assert_eq!(unpack(b"87cURDZ~>", "<</Filter[/ASCII85Decode]>>", 99), all("Hello"));
        assert_eq!(unpack(b"\x02abc\xfex\x80zzz", "<</Filter/RunLengthDecode>>", 99), all("abcxxx"));
        let lzw = [0x80, 0x0b, 0x60, 0x50, 0x22, 0x0c, 0x0c, 0x85, 0x01];
        assert_eq!(unpack(&lzw, "<</Filter/LZWDecode>>", 99), all("-----A---B"));
        assert_eq!(unpack(b"", "<</Filter/DCTDecode>>", 99), Err(Unread::Format));
        let png = b"\x01\x01\x01\x01\x02\x01\x01\x01";
        let rows = "<</Filter/Crypt/DecodeParms<</Predictor 12/Columns 3>>>>";
        assert_eq!(unpack(png, rows, 99), Ok((vec![1, 2, 3, 2, 3, 4], true)));
        let huge =
            "<</Filter/Crypt/DecodeParms<</Predictor 12/Columns 99999999999999999999/Colors 9999999999>>>>";
        assert_eq!(unpack(png, huge, 99), Ok((png.to_vec(), true)));
    }
}
