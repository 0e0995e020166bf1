//! The file of a model: compressed numbers, read whole or refused.
//!
//! `PCM2`, then one Zstandard frame of little-endian numbers: bits, scales, biases, the lexicon, the stack and the
//! thresholds, and last the weights, head after head. What is missing or left over is a fault.

use super::lexicon::CONCEPTS_MAX;
use super::lexicon::ENTRIES_MAX;
use super::lexicon::Entry;
use super::lexicon::Lexicon;
use super::linear::Levels;
use super::linear::Linear;
use super::pool::HEADS;
use super::pool::Weights;
use super::stack::INPUTS;
use super::stack::SIGNALS;
use super::stack::Stack;

/// How the file of a linear model begins.
pub const MAGIC: &[u8; 4] = b"PCM2";
/// The most buckets of a model, as a logarithm.
pub const BITS_MAX: u32 = 21;
/// The longest file of a model, in bytes, of whatever format.
pub const MODEL_BYTES_MAX: usize = 64 << 20;

/// How hard a model is compressed; deterministic for one version of the library.
const COMPRESSION: i32 = 19;
/// No scale, bias or weight of a model is larger: sums over windows stay far from what a number can hold.
const NUMBER_MAX: f32 = 1e6;
/// The most bytes the numbers of a model take.
const NUMBERS_BYTES_MAX: usize = (HEADS << BITS_MAX) + (ENTRIES_MAX * 10) + 4096;

/// What is wrong with the file of a model.
#[derive(Debug, thiserror::Error)]
pub enum FormatFault {
    /// It begins like no model.
    #[error("is no model of this version")]
    Magic,
    /// It cannot be decompressed.
    #[error("is damaged")]
    Damaged(#[source] std::io::Error),
    /// It ends too early.
    #[error("ends too early")]
    Short,
    /// Something is left over.
    #[error("has {0} bytes too many")]
    Long(usize),
    /// A number is out of its bounds.
    #[error("has a value out of bounds: {0}")]
    Bounds(&'static str),
}

/// Takes numbers from the front of bytes.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], FormatFault> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(FormatFault::Short)?;
        self.0 = rest;
        Ok(*first)
    }

    fn word(&mut self) -> Result<u32, FormatFault> {
        self.take().map(u32::from_le_bytes)
    }

    fn real(&mut self) -> Result<f32, FormatFault> {
        let value = f32::from_le_bytes(self.take()?);
        if value.is_finite() { Ok(value) } else { Err(FormatFault::Bounds("a number")) }
    }

    fn reals<const N: usize>(&mut self) -> Result<[f32; N], FormatFault> {
        let mut values = [0.0; N];
        for value in &mut values {
            *value = self.real()?;
        }
        Ok(values)
    }
}

/// Reads a model.
///
/// # Errors
/// The first fault.
pub fn read(file: &[u8]) -> Result<Linear, FormatFault> {
    let frame = file.strip_prefix(MAGIC.as_slice()).ok_or(FormatFault::Magic)?;
    let numbers = zstd::bulk::decompress(frame, NUMBERS_BYTES_MAX).map_err(FormatFault::Damaged)?;
    let mut numbers = Numbers(&numbers);
    let bits = numbers.word()?;
    if !(8..=BITS_MAX).contains(&bits) {
        return Err(FormatFault::Bounds("the number of buckets"));
    }
    let (scales, biases) = (numbers.reals()?, numbers.reals()?);
    let lexicon = read_lexicon(&mut numbers)?;
    let stack = Stack { weights: numbers.reals::<INPUTS>()?, signals: numbers.reals::<SIGNALS>()? };
    let levels = Levels { watch: numbers.reals()?, sure: numbers.reals()? };
    let rows = 1usize << bits;
    let weights = numbers.0;
    match weights.len().checked_sub(rows * HEADS) {
        None => return Err(FormatFault::Short),
        Some(0) => {}
        Some(over) => return Err(FormatFault::Long(over)),
    }
    let mut table = vec![[0i8; 4]; rows];
    for (head, plane) in weights.chunks_exact(rows).enumerate() {
        table.iter_mut().zip(plane).for_each(|(row, weight)| row[head] = *weight as i8);
    }
    let read = Linear { weights: Weights { bits, table, scales, biases }, lexicon, stack, levels };
    // Finite numbers may be so large that what is reckoned with them is none: such a model would never report.
    if !scales.iter().chain(&biases).chain(&read.stack.weights).all(|number| number.abs() <= NUMBER_MAX) {
        return Err(FormatFault::Bounds("a number"));
    }
    Ok(read)
}

fn read_lexicon(numbers: &mut Numbers<'_>) -> Result<Lexicon, FormatFault> {
    let count = numbers.word()? as usize;
    if count > ENTRIES_MAX {
        return Err(FormatFault::Bounds("the number of words"));
    }
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let hash = u64::from_le_bytes(numbers.take()?);
        let [concept, kinds] = numbers.take()?;
        if usize::from(concept) >= CONCEPTS_MAX {
            return Err(FormatFault::Bounds("a concept"));
        }
        entries.push(Entry { hash, concept, kinds });
    }
    Ok(Lexicon::new(entries))
}

/// Writes a model, the same bytes for the same numbers.
///
/// # Errors
/// The numbers cannot be compressed.
pub fn write(model: &Linear) -> Result<Vec<u8>, FormatFault> {
    let mut numbers = Vec::new();
    let Linear { weights, lexicon, stack, levels } = model;
    numbers.extend(weights.bits.to_le_bytes());
    let reals = |numbers: &mut Vec<u8>, list: &[f32]| {
        list.iter().for_each(|value| numbers.extend(value.to_le_bytes()));
    };
    reals(&mut numbers, &weights.scales);
    reals(&mut numbers, &weights.biases);
    numbers.extend((lexicon.entries().len() as u32).to_le_bytes());
    for entry in lexicon.entries() {
        numbers.extend(entry.hash.to_le_bytes());
        numbers.extend([entry.concept, entry.kinds]);
    }
    reals(&mut numbers, &stack.weights);
    reals(&mut numbers, &stack.signals);
    reals(&mut numbers, &levels.watch);
    reals(&mut numbers, &levels.sure);
    for head in 0..HEADS {
        numbers.extend(weights.table.iter().map(|row| row[head] as u8));
    }
    let mut file = MAGIC.to_vec();
    file.extend(zstd::bulk::compress(&numbers, COMPRESSION).map_err(FormatFault::Damaged)?);
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Linear {
        let mut table = vec![[0i8; 4]; 256];
        table[7] = [1, -2, 127, 0];
        Linear {
            weights: Weights { bits: 8, table, scales: [0.5, 1.0, 2.0], biases: [-1.0, 0.0, 1.0] },
            lexicon: Lexicon::new(super::super::lexicon::entries_of(b"from now on", 3)),
            stack: Stack { weights: [0.25; INPUTS], signals: [0.5; SIGNALS] },
            levels: Levels { watch: [1.0; 5], sure: [2.0; 5] },
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let file = write(&small()).unwrap();
        assert_eq!(read(&file).unwrap(), small());
        assert_eq!(write(&read(&file).unwrap()).unwrap(), file);
    }

    #[test]
    fn half_a_model_is_none() {
        let file = write(&small()).unwrap();
        assert!(matches!(read(b"PCM1"), Err(FormatFault::Magic)));
        assert!(matches!(read(&file[..file.len() - 1]), Err(FormatFault::Damaged(_))));
        let refused = |numbers: &[u8]| {
            let mut file = MAGIC.to_vec();
            file.extend(zstd::bulk::compress(numbers, 1).unwrap());
            read(&file).unwrap_err()
        };
        let mut vast = small();
        vast.weights.scales[1] = f32::MAX;
        assert!(matches!(read(&write(&vast).unwrap()), Err(FormatFault::Bounds(_))));
        assert!(matches!(refused(&[]), FormatFault::Short));
        assert!(matches!(refused(&[255; 64]), FormatFault::Bounds(_)));
        let whole = zstd::bulk::decompress(&file[4..], 1 << 20).unwrap();
        assert!(matches!(refused(&whole[..whole.len() - 1]), FormatFault::Short));
        assert!(matches!(refused(&[&whole[..], &[0]].concat()), FormatFault::Long(1)));
    }
}
