//! The numbers in the file of a model: read from the front, whole or refused, and written the same each time.
//!
//! A file is a word that tells its form, then one Zstandard frame of little-endian numbers. Its weights stand last, of a
//! byte each: those of all rows for the first head or state, then those for the next.

/// How hard a model is compressed; deterministic for one version of the library.
const COMPRESSION: i32 = 19;

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
pub(in crate::scan) struct Numbers<'a>(pub &'a [u8]);

impl<'a> Numbers<'a> {
    /// Takes so many bytes.
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], FormatFault> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(FormatFault::Short)?;
        self.0 = rest;
        Ok(*first)
    }

    /// Takes as many bytes as `count` says.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], FormatFault> {
        let (first, rest) = self.0.split_at_checked(count).ok_or(FormatFault::Short)?;
        self.0 = rest;
        Ok(first)
    }

    /// Takes a whole number.
    pub fn word(&mut self) -> Result<u32, FormatFault> {
        self.take().map(u32::from_le_bytes)
    }

    /// Takes a real number, which has to be finite.
    pub fn real(&mut self) -> Result<f32, FormatFault> {
        let value = f32::from_le_bytes(self.take()?);
        if value.is_finite() { Ok(value) } else { Err(FormatFault::Bounds("a number")) }
    }

    /// Takes so many real numbers.
    pub fn reals<const N: usize>(&mut self) -> Result<[f32; N], FormatFault> {
        let mut values = [0.0; N];
        for value in &mut values {
            *value = self.real()?;
        }
        Ok(values)
    }

    /// Takes the weights, which nothing follows; there may be more room in a row than it has weights.
    pub fn weights<const ROOM: usize>(
        self,
        rows: usize,
        per_row: usize,
    ) -> Result<Vec<[i8; ROOM]>, FormatFault> {
        match self.0.len().checked_sub(rows * per_row) {
            None => return Err(FormatFault::Short),
            Some(0) => {}
            Some(over) => return Err(FormatFault::Long(over)),
        }
        let mut table = vec![[0; ROOM]; rows];
        for (at, plane) in self.0.chunks_exact(rows).enumerate() {
            table.iter_mut().zip(plane).for_each(|(row, weight)| row[at] = *weight as i8);
        }
        Ok(table)
    }
}

/// Returns the numbers of a file of some form, so many bytes at most.
pub(in crate::scan) fn unpack(file: &[u8], magic: &[u8], bytes_max: usize) -> Result<Vec<u8>, FormatFault> {
    let frame = file.strip_prefix(magic).ok_or(FormatFault::Magic)?;
    zstd::bulk::decompress(frame, bytes_max).map_err(FormatFault::Damaged)
}

/// Returns the file of some form that numbers make.
pub(in crate::scan) fn pack(numbers: &[u8], magic: &[u8]) -> Result<Vec<u8>, FormatFault> {
    let mut file = magic.to_vec();
    file.extend(zstd::bulk::compress(numbers, COMPRESSION).map_err(FormatFault::Damaged)?);
    Ok(file)
}

/// Writes real numbers.
pub(in crate::scan) fn write_reals<'n>(numbers: &mut Vec<u8>, reals: impl IntoIterator<Item = &'n f32>) {
    reals.into_iter().for_each(|value| numbers.extend(value.to_le_bytes()));
}

/// Writes weights, so many of each row.
pub(in crate::scan) fn write_weights<const ROOM: usize>(
    numbers: &mut Vec<u8>,
    table: &[[i8; ROOM]],
    per_row: usize,
) {
    for at in 0..per_row {
        numbers.extend(table.iter().map(|row| row[at] as u8));
    }
}
