//! ZIP archives, and the documents that are such: OOXML, OpenDocument, EPUB.
//!
//! Every entry is read that a reader may find, by the directory at the end or by the heads before the entries, and is
//! taken for what its bytes are, not for what its name says. Names only tell where a text stands, as far as a format
//! gives them.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::bufread::DeflateDecoder;
use memchr::memmem;

use super::Form;
use super::HEAD_BYTES;
use super::Place;
use super::Reader;
use super::TAIL_BYTES;
use super::Unread;
use super::markup;
use super::text;

/// How long the record is that ends an archive, in bytes, without a comment.
pub(super) const END_BYTES: usize = 22;

const ENTRY_MARK: &[u8] = b"PK\x03\x04";
const DIRECTORY_MARK: &[u8] = b"PK\x01\x02";
const END_MARK: &[u8] = b"PK\x05\x06";
/// How long a comment at the end may be, in bytes.
const COMMENT_BYTES_MAX: usize = u16::MAX as usize;
/// How long the head of an entry is, in bytes, without its name.
const ENTRY_HEAD_BYTES: usize = 30;
/// How long a record of the directory is, in bytes, without its name.
const RECORD_BYTES: usize = 46;
/// What stands for a number that is told elsewhere.
const ELSEWHERE: u32 = u32::MAX;
/// The extra field that tells such numbers.
const LONG_NUMBERS: u16 = 1;
/// The flag of an entry that is encrypted.
const IS_ENCRYPTED: u16 = 1;
/// The flag of an entry whose lengths stand behind it, and how these begin.
const LENGTHS_BEHIND: u16 = 8;
const LENGTHS_MARK: &[u8] = b"PK\x07\x08";
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// How much one entry may unfold to, in bytes.
const ENTRY_BYTES_MAX: usize = 16 << 20;

/// Parts of formats, by how their names begin behind the last folder or as a whole, and what they are called.
const NAMED: &[(&str, &str)] = &[
    ("word/document", "body"),
    ("word/comments", "comments"),
    ("word/footnotes", "footnotes"),
    ("word/endnotes", "endnotes"),
    ("word/header", "header"),
    ("word/footer", "footer"),
    ("docProps/", "properties"),
    ("xl/sharedStrings", "shared strings"),
    ("xl/worksheets/", "sheet"),
    ("xl/comments", "comments"),
    ("xl/threadedComments/", "comments"),
    ("ppt/slides/", "slide"),
    ("ppt/notesSlides/", "notes"),
    ("ppt/comments/", "comments"),
    ("content.xml", "body"),
    ("meta.xml", "properties"),
    ("styles.xml", "styles"),
];

/// Tells whether a file begins as an archive.
pub fn begins(head: &[u8]) -> bool {
    head.starts_with(ENTRY_MARK)
}

/// Tells whether a file ends as an archive without a comment.
pub(super) fn ends(tail: &[u8]) -> bool {
    tail.len() >= END_BYTES && tail.get(tail.len() - END_BYTES..).is_some_and(|end| end.starts_with(END_MARK))
}

/// Tells whether a file is an archive to those who look for its directory at the end.
pub(super) fn is_one(file: &[u8]) -> bool {
    begins(file) || !listed(file, 0).is_empty()
}

/// An entry by its own head.
struct Entry<'a> {
    name: &'a [u8],
    flags: u16,
    method: u16,
    /// Where its bytes begin.
    from: usize,
    /// How many they are, by the head; 0 where that is told behind them.
    packed_bytes: u32,
}

impl Reader<'_> {
    /// Reads the entries of an archive, in the order in which they stand.
    pub(super) fn archive(&mut self, file: &[u8], place: &Place) -> Result<(), Unread> {
        let listed = listed(file, self.entries_left);
        let mut places: BTreeMap<usize, Option<usize>> =
            listed.iter().map(|(at, bytes)| (*at, Some(*bytes))).collect();
        let found = memmem::find_iter(file, ENTRY_MARK).take(self.entries_left.saturating_add(1));
        for at in found {
            places.entry(at).or_default();
        }
        if places.is_empty() {
            return Err(Unread::Damaged);
        }
        let mut read_until = 0;
        for (number, (at, packed)) in places.into_iter().enumerate() {
            // What stands within an entry was read with that, unless it is an entry of this archive as well.
            if packed.is_none() && at < read_until {
                continue;
            }
            self.entries_left = self.entries_left.checked_sub(1).ok_or(Unread::TooLarge)?;
            let Some(entry) = entry(file, at) else {
                self.skip(Unread::Damaged);
                continue;
            };
            let name = name(entry.name, number + 1);
            let (end, read) = self.entry(file, (&entry, packed), &name, place);
            read_until = read_until.max(end);
            match read {
                Err(fault @ (Unread::Damaged | Unread::Encrypted | Unread::Format)) => self.skip(fault),
                read => read?,
            }
        }
        Ok(())
    }

    /// Reads an entry; returns where its bytes end, as far as that is known, and what became of it.
    fn entry(
        &mut self,
        file: &[u8],
        (entry, packed): (&Entry<'_>, Option<usize>),
        name: &str,
        place: &Place,
    ) -> (usize, Result<(), Unread>) {
        let told = packed.unwrap_or(entry.packed_bytes as usize);
        let rest = file.get(entry.from..).unwrap_or_default();
        let is_told_behind = told == 0 && entry.flags & LENGTHS_BEHIND != 0;
        let told = if is_told_behind { memmem::find(rest, LENGTHS_MARK).unwrap_or(rest.len()) } else { told };
        let bytes = rest.get(..told).unwrap_or(rest);
        if entry.flags & IS_ENCRYPTED != 0 {
            return (entry.from + bytes.len(), Err(Unread::Encrypted));
        }
        match entry.method {
            STORED => (entry.from + bytes.len(), self.unpacked(bytes, name, place)),
            DEFLATED => {
                // The bytes tell themselves where they end, whatever the heads say.
                let mut decoder = DeflateDecoder::new(rest);
                let read = self.deflated(&mut decoder, name, place);
                (entry.from + decoder.total_in() as usize, read)
            }
            _ => (entry.from + bytes.len(), Err(Unread::Format)),
        }
    }

    fn deflated(
        &mut self,
        decoder: &mut DeflateDecoder<&[u8]>,
        name: &str,
        place: &Place,
    ) -> Result<(), Unread> {
        let mut bytes = Vec::new();
        let unfold = |decoder: &mut DeflateDecoder<&[u8]>, bytes: &mut Vec<u8>, most: usize| {
            decoder.take(most as u64).read_to_end(bytes).map(drop).map_err(|_| Unread::Damaged)
        };
        let begun = unfold(decoder, &mut bytes, HEAD_BYTES.min(self.expanded_left));
        // Pictures, fonts and the like are not unfolded any further.
        if !is_read(&bytes) {
            self.spend(bytes.len())?;
            return if bytes.is_empty() { begun } else { Ok(()) };
        }
        let most = ENTRY_BYTES_MAX.min(self.expanded_left);
        let unfolded = begun.and_then(|()| unfold(decoder, &mut bytes, most.saturating_sub(HEAD_BYTES)));
        let is_cut = bytes.len() >= most;
        self.spend(bytes.len())?;
        // What came out before a fault is read: other readers may take it for all.
        self.unpacked(&bytes, name, place)?;
        if is_cut { Err(Unread::TooLarge) } else { unfolded }
    }

    /// Reads the bytes of an entry: mark-up, text, or a file of its own.
    fn unpacked(&mut self, bytes: &[u8], name: &str, place: &Place) -> Result<(), Unread> {
        let tail = bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default();
        if let Some(form) = Form::of(bytes, tail) {
            return self.file(bytes, form, &place.within(name));
        }
        let head = bytes.get(..HEAD_BYTES).unwrap_or(bytes);
        if !text::begins(head) {
            return Ok(());
        }
        self.spend(bytes.len())?;
        let source = text::of(bytes);
        if !source.trim_start().starts_with('<') {
            return self.take(place.of(name), source);
        }
        let said = markup::read(&source);
        self.take(place.of(name), said.text)?;
        self.take(place.of(name), said.aside)
    }
}

/// Tells by how bytes begin whether there is anything to read in them.
fn is_read(head: &[u8]) -> bool {
    text::begins(head) || Form::of(head, &[]).is_some()
}

/// Returns where the directory says that entries begin, and how many bytes each has.
fn listed(file: &[u8], entries_max: usize) -> Vec<(usize, usize)> {
    let mut listed = Vec::new();
    let window = file.len().saturating_sub(END_BYTES + COMMENT_BYTES_MAX);
    let tail = file.get(window..).unwrap_or_default();
    let Some(end) = memmem::rfind(tail, END_MARK) else { return listed };
    let end = window + end;
    let (Some(bytes), Some(from)) = (long(file, end + 12), long(file, end + 16)) else { return listed };
    let begin = end.saturating_sub(bytes as usize);
    // Something may stand before the archive, by which all its places are off. Where numbers are told elsewhere, the
    // heads before the entries tell as much.
    let before = begin.saturating_sub(from as usize);
    let mut at = begin;
    while listed.len() <= entries_max && file.get(at..).is_some_and(|rest| rest.starts_with(DIRECTORY_MARK)) {
        let lengths = [28, 30, 32].map(|field| short(file, at + field).unwrap_or_default());
        let [name_bytes, extra_bytes, comment_bytes] = lengths.map(usize::from);
        let extra_at = at + RECORD_BYTES + name_bytes;
        let extra = file.get(extra_at..extra_at + extra_bytes).unwrap_or_default();
        let numbers = [24, 20, 42].map(|field| long(file, at + field).unwrap_or_default());
        let [_, packed, entry] = long_numbers(numbers, extra);
        listed.push((entry.saturating_add(before), packed));
        at = extra_at + extra_bytes + comment_bytes;
    }
    listed.retain(|(at, _)| file.get(*at..).is_some_and(|rest| rest.starts_with(ENTRY_MARK)));
    listed
}

/// Returns numbers of a record, those that are told elsewhere from its extra fields.
fn long_numbers<const N: usize>(numbers: [u32; N], extra: &[u8]) -> [usize; N] {
    let mut rest = extra;
    let mut field: &[u8] = &[];
    while let Some((head, more)) = rest.split_at_checked(4) {
        let (kind, bytes) = (short(head, 0), usize::from(short(head, 2).unwrap_or_default()));
        let (inner, behind) = more.split_at(bytes.min(more.len()));
        if kind == Some(LONG_NUMBERS) {
            field = inner;
        }
        rest = behind;
    }
    numbers.map(|number| {
        if number != ELSEWHERE {
            return number as usize;
        }
        let Some((told, behind)) = field.split_first_chunk::<8>() else { return number as usize };
        field = behind;
        usize::try_from(u64::from_le_bytes(*told)).unwrap_or(usize::MAX)
    })
}

/// Returns the entry whose head begins somewhere.
fn entry(file: &[u8], at: usize) -> Option<Entry<'_>> {
    let name_bytes = usize::from(short(file, at + 26)?);
    let extra_bytes = usize::from(short(file, at + 28)?);
    let name_at = at + ENTRY_HEAD_BYTES;
    Some(Entry {
        name: file.get(name_at..name_at + name_bytes)?,
        flags: short(file, at + 6)?,
        method: short(file, at + 8)?,
        from: name_at + name_bytes + extra_bytes,
        packed_bytes: long(file, at + 18)?,
    })
}

/// Returns what an entry is called in places: what a format calls it, or its number.
fn name(name: &[u8], number: usize) -> String {
    let text = std::str::from_utf8(name).unwrap_or_default();
    let known = NAMED.iter().find(|(begin, _)| text.starts_with(begin));
    let Some((_, known)) = known else { return format!("entry {number}") };
    let digits = text.trim_end_matches(".xml").rsplit(|sign: char| !sign.is_ascii_digit()).next();
    match digits.and_then(|digits| digits.parse::<u16>().ok()) {
        Some(of_format) => format!("{known} {of_format}"),
        None => (*known).to_owned(),
    }
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}
