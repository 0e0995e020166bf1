//! A tagger that is unpacked for whoever wants it first: it takes some six megabytes, and most policies name nothing
//! that it finds.

use std::sync::OnceLock;

use bytes::Bytes;

use super::Tagger;
use super::format;
use crate::scan::numbers::FormatFault;

/// The file of a tagger that can be read, and the tagger once somebody has asked for it.
#[derive(Debug)]
pub struct LateTagger {
    file: Bytes,
    tagger: OnceLock<Tagger>,
}

impl LateTagger {
    /// Takes a file that holds a tagger; what is read to see that is not kept.
    ///
    /// # Errors
    /// The first fault.
    pub fn read(file: Bytes) -> Result<Self, FormatFault> {
        format::read(&file)?;
        Ok(Self { file, tagger: OnceLock::new() })
    }

    /// Returns the tagger; the first call takes some milliseconds.
    pub fn tagger(&self) -> &Tagger {
        self.tagger.get_or_init(|| format::read(&self.file).expect("what was read once can be read again"))
    }
}
