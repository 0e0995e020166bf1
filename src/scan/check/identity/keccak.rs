//! Keccak-256 as Ethereum uses it: the original padding, not that of SHA-3.
//!
//! For checking the letter case of addresses. It is not meant for secrets: nothing here is tuned.

/// Words of the permuted state.
const LANES: usize = 25;

/// Bytes taken in before each permutation: 1,600 bits less twice the 256 of the digest.
const RATE: usize = 136;

/// Rounds of Keccak-f\[1600\].
const ROUNDS: usize = 24;

/// Returns the Keccak-256 digest of `input`.
pub fn keccak256(input: &[u8]) -> [u8; 32] {
    let mut state = [0_u64; LANES];
    let mut padded = input.to_vec();
    let filled = (input.len() / RATE + 1) * RATE;
    padded.push(1);
    padded.resize(filled, 0);
    if let Some(last) = padded.last_mut() {
        *last |= 0x80;
    }
    for block in padded.chunks_exact(RATE) {
        for (lane, bytes) in state.iter_mut().zip(block.chunks_exact(8)) {
            *lane ^= bytes.iter().rev().fold(0, |word, &byte| (word << 8) | u64::from(byte));
        }
        permute(&mut state);
    }
    let mut digest = [0; 32];
    for (bytes, lane) in digest.chunks_exact_mut(8).zip(state) {
        bytes.copy_from_slice(&lane.to_le_bytes());
    }
    digest
}

/// Applies Keccak-f\[1600\]; lane (x, y) is word `x + 5 * y`.
fn permute(state: &mut [u64; LANES]) {
    let mut feedback = 1_u8;
    for _ in 0..ROUNDS {
        mix_columns(state);
        let mut moved = [0; LANES];
        let (mut x, mut y) = (1, 0);
        moved[0] = state[0];
        for step in 1..LANES as u32 {
            let (next_x, next_y) = (y, (2 * x + 3 * y) % 5);
            moved[next_x + 5 * next_y] = state[x + 5 * y].rotate_left(step * (step + 1) / 2 % 64);
            (x, y) = (next_x, next_y);
        }
        for (at, lane) in state.iter_mut().enumerate() {
            let row = at / 5 * 5;
            *lane = moved[at] ^ (!moved[row + (at + 1) % 5] & moved[row + (at + 2) % 5]);
        }
        state[0] ^= round_constant(&mut feedback);
    }
}

fn mix_columns(state: &mut [u64; LANES]) {
    let mut parity = [0; 5];
    for (at, lane) in state.iter().enumerate() {
        parity[at % 5] ^= lane;
    }
    for (at, lane) in state.iter_mut().enumerate() {
        *lane ^= parity[(at + 4) % 5] ^ parity[(at + 1) % 5].rotate_left(1);
    }
}

/// Draws the next round constant from the linear feedback register of the specification.
fn round_constant(feedback: &mut u8) -> u64 {
    (0..7).fold(0, |constant, bit| {
        let drawn = u64::from(*feedback & 1) << ((1_u32 << bit) - 1);
        *feedback = (*feedback << 1) ^ if *feedback & 0x80 == 0 { 0 } else { 0x71 };
        constant | drawn
    })
}
