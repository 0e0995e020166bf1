//! What a text is read as beside how it stands, made once for all who read it.

use crate::scan::decode;
use crate::scan::decode::Lines;
use crate::scan::decode::Run;
use crate::scan::view;
use crate::scan::view::View;

/// What a whole text says to its reader, and what is encoded in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwrapped {
    /// How long the text is.
    pub bytes: usize,
    /// Its canonical view, unless that is the text itself.
    pub canonical: Option<View>,
    /// Its runs of base64 and of hexadecimal.
    pub runs: Vec<Run>,
}

impl Unwrapped {
    /// Unwraps a text.
    pub fn of(text: &[u8]) -> Self {
        let runs = decode::runs(text, 0, Lines::Joined);
        Self { bytes: text.len(), canonical: view::canonical(text), runs }
    }
}
