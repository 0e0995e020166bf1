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
use crate::scan::numbers::FormatFault;
use crate::scan::numbers::Numbers;
use crate::scan::numbers::pack;
use crate::scan::numbers::unpack;
use crate::scan::numbers::write_reals;
use crate::scan::numbers::write_weights;

/// How the file of a linear model begins.
pub const MAGIC: &[u8; 4] = b"PCM2";
/// The most buckets of a model, as a logarithm.
pub const BITS_MAX: u32 = 21;
/// The longest file of a model, in bytes; a graph in the form of ONNX may be longer
/// ([`GRAPH_BYTES_MAX`](super::onnx::GRAPH_BYTES_MAX)).
pub const MODEL_BYTES_MAX: usize = 64 << 20;

/// No scale, bias or weight of a model is larger: sums over windows stay far from what a number can hold.
const NUMBER_MAX: f32 = 1e6;
/// The most bytes the numbers of a model take.
const NUMBERS_BYTES_MAX: usize = (HEADS << BITS_MAX) + (ENTRIES_MAX * 10) + 4096;

/// Reads a model.
///
/// # Errors
/// The first fault.
pub fn read(file: &[u8]) -> Result<Linear, FormatFault> {
    let numbers = unpack(file, MAGIC, NUMBERS_BYTES_MAX)?;
    let mut numbers = Numbers(&numbers);
    let bits = numbers.word()?;
    if !(8..=BITS_MAX).contains(&bits) {
        return Err(FormatFault::Bounds("the number of buckets"));
    }
    let (scales, biases) = (numbers.reals()?, numbers.reals()?);
    let lexicon = read_lexicon(&mut numbers)?;
    let stack = Stack { weights: numbers.reals::<INPUTS>()?, signals: numbers.reals::<SIGNALS>()? };
    let levels = Levels { watch: numbers.reals()?, sure: numbers.reals()? };
    let table = numbers.weights(1 << bits, HEADS)?;
    let read = Linear { weights: Weights { bits, table, scales, biases }, lexicon, stack, levels };
    // Finite numbers may be so large that what is reckoned with them is none: such a model would never report.
    let stacked = read.stack.weights.iter().chain(&read.stack.signals);
    if !scales.iter().chain(&biases).chain(stacked).all(|number| number.abs() <= NUMBER_MAX) {
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
    write_reals(&mut numbers, weights.scales.iter().chain(&weights.biases));
    numbers.extend((lexicon.entries().len() as u32).to_le_bytes());
    for entry in lexicon.entries() {
        numbers.extend(entry.hash.to_le_bytes());
        numbers.extend([entry.concept, entry.kinds]);
    }
    let stacked = stack.weights.iter().chain(&stack.signals);
    write_reals(&mut numbers, stacked.chain(&levels.watch).chain(&levels.sure));
    write_weights(&mut numbers, &weights.table, HEADS);
    pack(&numbers, MAGIC)
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
        let (mut vast, mut loud) = (small(), small());
        vast.weights.scales[1] = f32::MAX;
        // Two findings of each kind would be worth no number.
        loud.stack.signals = [f32::MAX, f32::MIN];
        for model in [vast, loud] {
            assert!(matches!(read(&write(&model).unwrap()), Err(FormatFault::Bounds(_))));
        }
        assert!(matches!(refused(&[]), FormatFault::Short));
        assert!(matches!(refused(&[255; 64]), FormatFault::Bounds(_)));
        let whole = zstd::bulk::decompress(&file[4..], 1 << 20).unwrap();
        assert!(matches!(refused(&whole[..whole.len() - 1]), FormatFault::Short));
        assert!(matches!(refused(&[&whole[..], &[0]].concat()), FormatFault::Long(1)));
    }
}
