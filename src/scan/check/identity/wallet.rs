//! Addresses of crypto-currency wallets.

use sha2::Digest;
use sha2::Sha256;

use super::keccak::keccak256;

/// Digits of base 58 in Bitcoin's order.
const BASE58: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// Digits of base 58 in the order of the XRP Ledger.
const BASE58_XRP: &[u8; 58] = b"rpshnaf39wBUDNEGHJKLM4PQRST7VWXYZ2bcdeCg65jkm8oFqi1tuvAxyz";

/// Bytes of a versioned, checksummed hash: 1 + 20 + 4.
const BASE58CHECK_BYTES: usize = 25;

/// Bytes of the payload before the checksum.
const PAYLOAD_BYTES: usize = 21;

/// Digits of bech32 (BIP 173).
const BECH32: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";

/// Longest bech32 string (BIP 173).
const BECH32_BYTES_MAX: usize = 90;

/// Tells whether `value` is a Bitcoin address: Base58Check of version 0 or 5, or bech32.
pub fn btc(value: &[u8]) -> bool {
    if value.first_chunk::<3>().is_some_and(|head| head.eq_ignore_ascii_case(b"bc1")) {
        return segwit(b"bc", value);
    }
    matches!(base58check(value), Some(0x00 | 0x05))
}

/// Tells whether `value` is a Litecoin address of segregated witness: bech32 behind `ltc1`.
pub fn ltc_segwit(value: &[u8]) -> bool {
    segwit(b"ltc", value)
}

/// Tells whether `value` is an address of the XRP Ledger: Base58Check of version 0 in its own order of digits.
pub fn xrp(value: &[u8]) -> bool {
    respelled(value, BASE58_XRP, BASE58).is_some_and(|address| base58check(&address) == Some(0x00))
}

/// Returns an address of the XRP Ledger with a hash drawn from the text of `value`.
pub fn repair_xrp(value: &[u8]) -> Option<Vec<u8>> {
    let mut seed = b"1".to_vec();
    seed.extend(value);
    respelled(&repair_base58(&seed)?, BASE58, BASE58_XRP)
}

/// Writes a value with the digits of another order.
fn respelled(value: &[u8], from: &[u8; 58], to: &[u8; 58]) -> Option<Vec<u8>> {
    let place = |symbol: &u8| from.iter().position(|digit| digit == symbol);
    value.iter().map(|symbol| to.get(place(symbol)?).copied()).collect()
}

/// Tells whether `value` is a TRON (version 0x41), Litecoin (0x30, 0x32) or Dogecoin (0x1e) address.
pub fn base58_wallet(value: &[u8]) -> bool {
    matches!(base58check(value), Some(0x41 | 0x30 | 0x32 | 0x1e))
}

/// Returns the version byte of a Base58Check string whose checksum holds.
fn base58check(value: &[u8]) -> Option<u8> {
    let mut decoded = [0_u8; BASE58CHECK_BYTES];
    for &symbol in value {
        let mut carry = BASE58.iter().position(|&digit| digit == symbol)?;
        for byte in decoded.iter_mut().rev() {
            carry += usize::from(*byte) * 58;
            *byte = (carry & 0xff) as u8;
            carry >>= 8;
        }
        if carry > 0 {
            return None;
        }
    }
    let (payload, check) = decoded.split_at_checked(PAYLOAD_BYTES)?;
    let leading = |bytes: &[u8], zero: u8| bytes.iter().take_while(|&&byte| byte == zero).count();
    // Each leading zero byte is written as one leading digit `1`, so that an address has one spelling.
    let spelled_once = leading(value, b'1') == leading(&decoded, 0);
    (spelled_once && check == checksum(payload)).then(|| payload.first().copied())?
}

fn checksum(payload: &[u8]) -> [u8; 4] {
    let digest: [u8; 32] = Sha256::digest(Sha256::digest(payload)).into();
    [digest[0], digest[1], digest[2], digest[3]]
}

/// Returns an address with the version `value` begins with and a hash drawn from its text.
pub fn repair_base58(value: &[u8]) -> Option<Vec<u8>> {
    let version = match value.first()? {
        b'1' => 0x00,
        b'3' => 0x05,
        b'T' => 0x41,
        b'L' => 0x30,
        b'M' => 0x32,
        b'D' => 0x1e,
        _ => return None,
    };
    let seed: [u8; 32] = Sha256::digest(value).into();
    let mut payload = vec![version];
    payload.extend(seed.iter().take(PAYLOAD_BYTES - 1));
    let check = checksum(&payload);
    payload.extend(check);
    let zeros = payload.iter().take_while(|&&byte| byte == 0).count();
    let mut spelled = Vec::new();
    while payload.iter().any(|&byte| byte > 0) {
        let mut rest = 0;
        for byte in &mut payload {
            let number = (rest << 8) | usize::from(*byte);
            *byte = (number / 58) as u8;
            rest = number % 58;
        }
        spelled.push(*BASE58.get(rest)?);
    }
    spelled.extend(std::iter::repeat_n(b'1', zeros));
    spelled.reverse();
    Some(spelled)
}

/// Tells whether `value` is a segregated-witness address of a chain: BIP 173 for version 0, BIP 350 after it.
fn segwit(chain: &[u8], value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    if value.len() > BECH32_BYTES_MAX || (lower != value && value.to_ascii_uppercase() != value) {
        return false;
    }
    let data = lower.strip_prefix(chain).and_then(|rest| rest.strip_prefix(b"1"));
    let Some(words) = data.and_then(bech32_words) else { return false };
    let (Some(&version), Some(program_words)) = (words.first(), words.len().checked_sub(7)) else {
        return false;
    };
    let program_bytes = program_words * 5 / 8;
    let constant = if version == 0 { 1 } else { 0x2bc8_30a3 };
    let padding = program_words * 5 % 8;
    let last = words.get(program_words).copied().unwrap_or_default();
    version <= 16
        && (2..=40).contains(&program_bytes)
        && (version > 0 || matches!(program_bytes, 20 | 32))
        && padding < 5
        && last & ((1 << padding) - 1) == 0
        && polymod(chain, &words) == constant
}

/// Returns the five-bit words of the data behind a chain's name, checksum included.
fn bech32_words(data: &[u8]) -> Option<Vec<u8>> {
    data.iter().map(|symbol| Some(BECH32.iter().position(|digit| digit == symbol)? as u8)).collect()
}

fn polymod(human: &[u8], words: &[u8]) -> u32 {
    let expanded = human.iter().map(|byte| byte >> 5).chain([0]).chain(human.iter().map(|byte| byte & 31));
    expanded.chain(words.iter().copied()).fold(1, |check: u32, word| {
        let top = check >> 25;
        let shifted = ((check & 0x01ff_ffff) << 5) ^ u32::from(word);
        [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3]
            .iter()
            .enumerate()
            .filter(|(bit, _)| (top >> bit) & 1 == 1)
            .fold(shifted, |check, (_, generator)| check ^ generator)
    })
}

/// Returns a Bitcoin address of the kind `value` begins as.
pub fn repair_btc(value: &[u8]) -> Option<Vec<u8>> {
    if !value.starts_with(b"bc1") {
        return repair_base58(value);
    }
    segwit_of(b"bc", value)
}

/// Returns a Litecoin address of segregated witness with a hash drawn from the text of `value`.
pub fn repair_ltc_segwit(value: &[u8]) -> Option<Vec<u8>> {
    segwit_of(b"ltc", value)
}

fn segwit_of(chain: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let seed: [u8; 32] = Sha256::digest(value).into();
    let mut words = vec![0];
    words.extend(seed.map(|byte| byte & 31));
    words.extend([0; 6]);
    let check = polymod(chain, &words) ^ 1;
    words.truncate(33);
    words.extend((0..6).map(|word| ((check >> (5 * (5 - word))) & 31) as u8));
    let text = words.iter().map(|&word| BECH32.get(usize::from(word)).copied());
    chain.iter().chain(b"1").copied().map(Some).chain(text).collect()
}

/// Tells whether `value` is an Ethereum address; mixed case must satisfy EIP-55.
pub fn eth(value: &[u8]) -> bool {
    let Some(address) = value.strip_prefix(b"0x") else { return false };
    let lower = address.to_ascii_lowercase();
    address.len() == 40
        && address.iter().all(u8::is_ascii_hexdigit)
        && address.iter().any(|byte| byte != address.first().unwrap_or(&0))
        && (address == lower || address == address.to_ascii_uppercase() || address == eip55(&lower))
}

/// Returns a lower-case address in the letter case that carries its checksum.
fn eip55(lower: &[u8]) -> Vec<u8> {
    let digest = keccak256(lower);
    let nibbles = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    lower
        .iter()
        .zip(nibbles)
        .map(|(byte, n)| if n >= 8 { byte.to_ascii_uppercase() } else { *byte })
        .collect()
}

/// Returns `value` in the letter case of EIP-55.
pub fn repair_eth(value: &[u8]) -> Option<Vec<u8>> {
    let mut fixed = b"0x".to_vec();
    fixed.extend(eip55(&value.get(2..)?.to_ascii_lowercase()));
    eth(&fixed).then_some(fixed)
}
