//! Whether bytes can be read as text, one by one.

/// How far into a UTF-8 character the decoded text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::scan) struct Utf8 {
    /// Continuation bytes missing.
    pub(in crate::scan) missing: u8,
    /// The least and greatest value of the next one.
    low: u8,
    high: u8,
}

impl Utf8 {
    /// Takes a decoded byte; false if the text cannot be read any more.
    pub(in crate::scan) fn step(&mut self, byte: u8) -> bool {
        if self.missing > 0 {
            let fits = (self.low..=self.high).contains(&byte);
            *self = Self { missing: self.missing - 1, low: 0x80, high: 0xbf };
            return fits;
        }
        // The bounds of the second byte are those of the Unicode standard, table 3-7; C1 controls are left out.
        let (missing, low, high) = match byte {
            b'\t' | b'\n' | b'\r' | 0x20..=0x7e => (0, 0x80, 0xbf),
            0xc2 => (1, 0xa0, 0xbf),
            0xc3..=0xdf => (1, 0x80, 0xbf),
            0xe0 => (2, 0xa0, 0xbf),
            0xed => (2, 0x80, 0x9f),
            0xe1..=0xef => (2, 0x80, 0xbf),
            0xf0 => (3, 0x90, 0xbf),
            0xf1..=0xf3 => (3, 0x80, 0xbf),
            0xf4 => (3, 0x80, 0x8f),
            _ => return false,
        };
        *self = Self { missing, low, high };
        true
    }
}
