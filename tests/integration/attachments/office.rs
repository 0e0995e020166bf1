//! Office documents and archives, as small as they can be.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// The media type of a document of Word's.
pub const DOCX: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";

/// An entry of an archive.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    pub name: &'a str,
    pub content: &'a [u8],
    pub is_deflated: bool,
    pub flags: u16,
}

impl<'a> Entry<'a> {
    /// Returns an entry as it is.
    pub fn stored(name: &'a str, content: &'a [u8]) -> Self {
        Self { name, content, is_deflated: false, flags: 0 }
    }

    /// Returns an entry that is compressed.
    pub fn deflated(name: &'a str, content: &'a [u8]) -> Self {
        Self { is_deflated: true, ..Self::stored(name, content) }
    }

    fn packed(&self) -> Vec<u8> {
        if !self.is_deflated {
            return self.content.to_vec();
        }
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(self.content).expect("memory takes it");
        encoder.finish().expect("memory takes it")
    }
}

/// Returns an archive.
pub fn zip(entries: &[Entry<'_>]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let packed = entry.packed();
        let method: u16 = if entry.is_deflated { 8 } else { 0 };
        let lengths = [crc32fast::hash(entry.content), packed.len() as u32, entry.content.len() as u32];
        let mut shared = Vec::new();
        [20, entry.flags, method, 0, 0].iter().for_each(|field| shared.extend(field.to_le_bytes()));
        lengths.iter().for_each(|field| shared.extend(field.to_le_bytes()));
        shared.extend((entry.name.len() as u16).to_le_bytes());
        shared.extend(0_u16.to_le_bytes());
        let at = file.len() as u32;
        file.extend([b"PK\x03\x04", &shared[..], entry.name.as_bytes(), &packed].concat());
        directory.extend(
            [b"PK\x01\x02\x14\0", &shared[..], &[0; 10], &at.to_le_bytes(), entry.name.as_bytes()].concat(),
        );
    }
    let count = (entries.len() as u16).to_le_bytes();
    let (size, at) = ((directory.len() as u32).to_le_bytes(), (file.len() as u32).to_le_bytes());
    [&file[..], &directory, b"PK\x05\x06\0\0\0\0", &count, &count, &size, &at, b"\0\0"].concat()
}

/// Returns a document of Word's with some runs in its only paragraph, and further parts.
pub fn docx(runs: &str, parts: &[(&str, &str)]) -> Vec<u8> {
    let body = format!("<?xml version=\"1.0\"?><w:document><w:body><w:p>{runs}</w:p></w:body></w:document>");
    let types =
        "<?xml version=\"1.0\"?><Types><Default Extension=\"xml\" ContentType=\"application/xml\"/></Types>";
    let mut entries = vec![
        Entry::deflated("[Content_Types].xml", types.as_bytes()),
        Entry::deflated("word/document.xml", body.as_bytes()),
        // A picture: nothing to read in it.
        Entry::stored(
            "word/media/image1.png",
            b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89",
        ),
    ];
    entries.extend(parts.iter().map(|(name, content)| Entry::deflated(name, content.as_bytes())));
    zip(&entries)
}
