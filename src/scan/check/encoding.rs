//! Alphabets and checksums that credentials are written in.
//!
//! Pure and bounded; what is decoded never decides alone: the checks of `secret` do.

pub(super) const BASE62: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
pub(super) const BASE36: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
pub(super) const BASE58: &[u8] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
pub(super) const BASE32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
pub(super) const BECH32: &[u8] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";

/// Characters of Base58 that are decoded at most: the work grows with the square.
const BASE58_MAX: usize = 128;

/// Writes `number` in the base of the alphabet, `width` digits, zeros in front.
pub(super) fn digits(number: u32, alphabet: &[u8], width: usize) -> Vec<u8> {
    let base = alphabet.len() as u32;
    let mut rest = number;
    let mut written = vec![b'0'; width];
    for digit in written.iter_mut().rev() {
        *digit = alphabet[(rest % base) as usize];
        rest /= base;
    }
    written
}

/// Writes bytes as lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns where the separator stands and the groups of five bits a checksum is taken over, or `None` for text
/// that is no bech32.
pub(super) fn bech32_groups(lower: &[u8]) -> Option<(usize, Vec<u8>)> {
    let one = lower.iter().rposition(|byte| *byte == b'1').filter(|at| *at > 0)?;
    let (prefix, data) = (lower.get(..one)?, lower.get(one + 1..)?);
    let mut groups: Vec<u8> = prefix.iter().map(|byte| byte >> 5).collect();
    groups.push(0);
    groups.extend(prefix.iter().map(|byte| byte & 31));
    for byte in data {
        groups.push(BECH32.iter().position(|known| known == byte)? as u8);
    }
    (data.len() >= 6).then_some((one, groups))
}

/// Returns the checksum of BIP-173 over groups of five bits.
pub(super) fn bech32_polymod(groups: &[u8]) -> u32 {
    const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
    groups.iter().fold(1, |sum, group| {
        let top = sum >> 25;
        let shifted = (sum & 0x01ff_ffff) << 5 ^ u32::from(*group);
        GENERATOR
            .iter()
            .enumerate()
            .filter(|(bit, _)| top >> bit & 1 == 1)
            .fold(shifted, |sum, (_, part)| sum ^ part)
    })
}

/// Decodes Base58 of at most `BASE58_MAX` characters.
pub(super) fn base58_decode(value: &[u8]) -> Option<Vec<u8>> {
    if value.len() > BASE58_MAX {
        return None;
    }
    let mut bytes: Vec<u8> = Vec::new();
    for byte in value {
        let mut carry = BASE58.iter().position(|known| known == byte)?;
        for place in &mut bytes {
            carry += usize::from(*place) * 58;
            *place = (carry & 0xff) as u8;
            carry >>= 8;
        }
        while carry > 0 {
            bytes.push((carry & 0xff) as u8);
            carry >>= 8;
        }
    }
    bytes.extend(value.iter().take_while(|byte| **byte == b'1').map(|_| 0));
    bytes.reverse();
    Some(bytes)
}

/// Encodes bytes in Base58.
pub(super) fn base58_encode(bytes: &[u8]) -> Vec<u8> {
    let mut places: Vec<usize> = Vec::new();
    for byte in bytes {
        let mut carry = usize::from(*byte);
        for place in &mut places {
            carry += *place << 8;
            *place = carry % 58;
            carry /= 58;
        }
        while carry > 0 {
            places.push(carry % 58);
            carry /= 58;
        }
    }
    places.extend(bytes.iter().take_while(|byte| **byte == 0).map(|_| 0));
    places.iter().rev().map(|place| BASE58[*place]).collect()
}

/// Decodes RFC 4648 base32 without padding.
pub(super) fn base32_decode(value: &[u8]) -> Option<Vec<u8>> {
    let (mut bits, mut held) = (0_u32, 0_u32);
    let mut bytes = Vec::with_capacity(value.len() * 5 / 8);
    for byte in value {
        bits = bits << 5 & 0xffff | BASE32.iter().position(|known| known == byte)? as u32;
        held += 5;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xff) as u8);
        }
    }
    Some(bytes)
}

/// Encodes bytes in RFC 4648 base32 without padding.
pub(super) fn base32_encode(bytes: &[u8]) -> Vec<u8> {
    let (mut bits, mut held) = (0_u32, 0_u32);
    let mut text = Vec::with_capacity(bytes.len() * 8 / 5 + 1);
    for byte in bytes {
        bits = bits << 8 & 0xffff | u32::from(*byte);
        held += 8;
        while held >= 5 {
            held -= 5;
            text.push(BASE32[(bits >> held & 31) as usize]);
        }
    }
    if held > 0 {
        text.push(BASE32[(bits << (5 - held) & 31) as usize]);
    }
    text
}

/// Returns the CRC-16/XMODEM of bytes.
pub(super) fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(
            sum ^ u16::from(*byte) << 8,
            |sum, _| if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 },
        )
    })
}
