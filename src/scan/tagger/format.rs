//! The file of a tagger: compressed numbers, read whole or refused.
//!
//! `PCT1`, then one Zstandard frame of little-endian numbers: bits, scale, the odds of states after each other, the
//! least chances, the words (how far apart their hashes are, byte by byte, then their lists), and last the weights,
//! state after state. What is missing or left over is a fault.

use super::Tagger;
use super::Words;
use super::chain::STATES;
use super::chain::Steps;
use crate::scan::numbers::FormatFault;
use crate::scan::numbers::Numbers;
use crate::scan::numbers::pack;
use crate::scan::numbers::unpack;
use crate::scan::numbers::write_reals;
use crate::scan::numbers::write_weights;

/// How the file of a tagger begins.
pub const MAGIC: &[u8; 4] = b"PCT1";
/// The most buckets of a tagger, as a logarithm.
pub const BITS_MAX: u32 = 20;
/// The most words of a tagger.
pub const WORDS_MAX: usize = 1 << 18;

/// No number is larger: sums stay far from what a number can hold.
const NUMBER_MAX: f32 = 1e3;
/// No odds are better: their powers stay far from what a number can hold.
const ODDS_MAX: f32 = 60.0;
/// The most bytes the numbers of a tagger take.
const NUMBERS_BYTES_MAX: usize = (STATES << BITS_MAX) + WORDS_MAX * 5 + 4096;

/// Reads a tagger.
///
/// # Errors
/// The first fault.
pub fn read(file: &[u8]) -> Result<Tagger, FormatFault> {
    let numbers = unpack(file, MAGIC, NUMBERS_BYTES_MAX)?;
    let mut numbers = Numbers(&numbers);
    let bits = numbers.word()?;
    if !(8..=BITS_MAX).contains(&bits) {
        return Err(FormatFault::Bounds("the number of buckets"));
    }
    let [scale] = numbers.reals()?;
    let mut odds = [[0.0; STATES]; STATES];
    for row in &mut odds {
        *row = numbers.reals()?;
    }
    let least: [f32; 4] = numbers.reals()?;
    let words = read_words(&mut numbers)?;
    let table = numbers.weights(1 << bits, STATES)?;
    let is_odds = |odds: &f32| (-NUMBER_MAX..=ODDS_MAX).contains(odds);
    let within = |number: &f32| number.abs() <= NUMBER_MAX;
    if !within(&scale)
        || !odds.iter().flatten().all(is_odds)
        || !least.iter().all(|least| *least > 0.0 && *least <= 1.0)
    {
        return Err(FormatFault::Bounds("a number"));
    }
    let steps = Steps::of(&odds);
    Ok(Tagger { bits, table, scale, odds, least, words, steps })
}

fn read_words(numbers: &mut Numbers<'_>) -> Result<Words, FormatFault> {
    let count = numbers.word()? as usize;
    if count > WORDS_MAX {
        return Err(FormatFault::Bounds("the number of words"));
    }
    let bytes = numbers.bytes(count * 5)?;
    let mut hash = 0u32;
    let mut entries = Vec::with_capacity(count);
    for at in 0..count {
        let byte = |plane: usize| bytes.get(plane * count + at).copied().unwrap_or_default();
        let step = u32::from_le_bytes(std::array::from_fn(byte));
        hash = hash.checked_add(step).ok_or(FormatFault::Bounds("a word"))?;
        entries.push((hash, byte(4)));
    }
    Words::new(entries).ok_or(FormatFault::Bounds("words that fall on one place"))
}

/// Writes a tagger, the same bytes for the same numbers.
///
/// # Errors
/// The numbers cannot be compressed.
pub fn write(tagger: &Tagger) -> Result<Vec<u8>, FormatFault> {
    let mut numbers = Vec::new();
    numbers.extend(tagger.bits.to_le_bytes());
    let reals = std::iter::once(&tagger.scale).chain(tagger.odds.iter().flatten()).chain(&tagger.least);
    write_reals(&mut numbers, reals);
    let entries = tagger.words.entries();
    numbers.extend((entries.len() as u32).to_le_bytes());
    let before = std::iter::once(0).chain(entries.iter().map(|(hash, _)| *hash));
    let steps: Vec<[u8; 4]> =
        entries.iter().zip(before).map(|(entry, before)| (entry.0 - before).to_le_bytes()).collect();
    for plane in 0..4 {
        numbers.extend(steps.iter().map(|step| step[plane]));
    }
    numbers.extend(entries.iter().map(|(_, lists)| *lists));
    write_weights(&mut numbers, &tagger.table, STATES);
    pack(&numbers, MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::tagger::chain::Row;

    fn small() -> Tagger {
        let mut table = vec![[0i8; 16]; 256];
        table[7][..3].copy_from_slice(&[1, -2, 127]);
        let odds: [Row; STATES] = [[0.5; STATES]; STATES];
        let words = Words::new(vec![(7, 1), (u32::MAX, 3), (7, 4)]).unwrap();
        Tagger { bits: 8, table, scale: 0.25, odds, least: [0.5; 4], words, steps: Steps::of(&odds) }
    }

    #[test]
    fn what_is_written_is_read() {
        let file = write(&small()).unwrap();
        let tagger = read(&file).unwrap();
        assert_eq!(tagger, small());
        assert_eq!(tagger.words.entries(), [(7, 5), (u32::MAX, 3)]);
        assert_eq!(write(&tagger).unwrap(), file);
    }

    #[test]
    fn half_a_tagger_is_none() {
        let file = write(&small()).unwrap();
        assert!(matches!(read(b"PCM2"), Err(FormatFault::Magic)));
        assert!(matches!(read(&file[..file.len() - 1]), Err(FormatFault::Damaged(_))));
        let refused = |numbers: &[u8]| {
            let mut file = MAGIC.to_vec();
            file.extend(zstd::bulk::compress(numbers, 1).unwrap());
            read(&file).unwrap_err()
        };
        assert!(matches!(refused(&[]), FormatFault::Short));
        assert!(matches!(refused(&[255; 64]), FormatFault::Bounds(_)));
        let whole = zstd::bulk::decompress(&file[4..], 1 << 20).unwrap();
        assert!(matches!(refused(&whole[..whole.len() - 1]), FormatFault::Short));
        assert!(matches!(refused(&[&whole[..], &[0]].concat()), FormatFault::Long(1)));
        let mut vast = small();
        vast.scale = f32::MAX;
        assert!(matches!(read(&write(&vast).unwrap()), Err(FormatFault::Bounds(_))));
    }

    #[test]
    fn words_that_all_fall_on_one_place_are_refused() {
        let file = |apart: u32, count: u32| {
            let mut numbers = zstd::bulk::decompress(&write(&small()).unwrap()[4..], 1 << 20).unwrap();
            let head = 4 * (2 + STATES * STATES + 4);
            let mut words = count.to_le_bytes().to_vec();
            (0..4).for_each(|byte| words.extend(vec![apart.to_le_bytes()[byte]; count as usize]));
            words.extend(vec![1; count as usize]);
            numbers.splice(head..head + 4 + 2 * 5, words);
            [MAGIC.as_slice(), &zstd::bulk::compress(&numbers, 1).unwrap()].concat()
        };
        let places = 1 << 13;
        assert!(read(&file(places, 4)).is_ok());
        assert!(read(&file(3, places / 2)).is_ok());
        let told = read(&file(places, places / 2)).unwrap_err();
        assert_eq!(told.to_string(), "has a value out of bounds: words that fall on one place");
    }
}
