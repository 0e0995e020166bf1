//! Text of files that models read: PDF, office documents, rich text, archives.
//!
//! In: the bytes of a file whose format was told by how they begin, and [`Bounds`]. Out: a [`Reading`]: its texts, each
//! with the place it stands at, whatever it looks like to a person (hidden, white, deleted, a comment, a property), and
//! why some of it could not be read, if so. Files come from anybody: what is unfolded is counted while it is, nothing is
//! followed twice or deeper than the bounds say, and a fault ends the reading with what was read until then. Places are
//! told by numbers and by names of formats, never by names that a file gives.
//!
//! It draws nothing: text in pictures is not read. It promises the order of texts only as far as the file tells it.

pub mod archive;
mod markup;
mod pdf;
mod rtf;
mod text;

use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

/// Where the header of a PDF may begin at the latest, in bytes.
const PDF_HEAD_BYTES: usize = 1024;
/// How many bytes of the begin of a file [`Form::of`] looks at.
pub const HEAD_BYTES: usize = PDF_HEAD_BYTES + PDF_MARK.len();
/// How many bytes of its end.
pub const TAIL_BYTES: usize = archive::END_BYTES;

const PDF_MARK: &[u8] = b"%PDF-";
const RTF_MARK: &[u8] = b"{\\rtf";
/// How compound files of Microsoft's begin: office files from before 2007, and encrypted ones since.
const COMPOUND_MARK: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";

/// The format of a file that may hold text for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A PDF.
    Pdf,
    /// A ZIP archive, as office documents and e-books are.
    Archive,
    /// Rich Text Format.
    RichText,
    /// A compound file: an office document from before 2007, or an encrypted one.
    Compound,
}

/// How much of a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The most bytes of text.
    pub text_bytes_max: usize,
    /// The most bytes that its streams unfold to, in all, and that are read again.
    pub expanded_bytes_max: usize,
    /// The most entries of archives.
    pub entries_max: usize,
    /// The most objects of PDFs.
    pub objects_max: usize,
    /// How deep files may lie within files; the outermost is at 1.
    pub depth_max: usize,
}

/// Why some of a file was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// It is encrypted.
    #[error("it is encrypted")]
    Encrypted,
    /// Its format, or the way some of it is packed, is known and not read.
    #[error("its format is not read")]
    Format,
    /// It breaks the rules of its format.
    #[error("it is damaged")]
    Damaged,
    /// It is larger than the bounds in one of their ways.
    #[error("it is larger, or lies deeper, than what is read")]
    TooLarge,
    /// The time was over.
    #[error("it could not be read in time")]
    Late,
    /// The reader met a defect of its own.
    #[error("its reader met a defect of its own")]
    Defect,
}

/// A text of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it stands, in words that are not the file's, such as `comments`.
    pub place: String,
    /// What it says.
    pub text: String,
}

/// What was read of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Its texts.
    pub parts: Vec<Part>,
    /// Why that is not all, if it is not.
    pub unread: Option<Unread>,
    /// Whether it is no such file: it only mentions one where that would begin.
    pub is_other: bool,
}

impl Form {
    /// Returns the format of a file by how it begins and ends; none of what is no document.
    ///
    /// `head` are the first [`HEAD_BYTES`] of it or more, `tail` the last [`TAIL_BYTES`] or more.
    pub fn of(head: &[u8], tail: &[u8]) -> Option<Self> {
        let begin = head.get(..HEAD_BYTES).unwrap_or(head);
        if memchr::memmem::find(begin, PDF_MARK).is_some() {
            return Some(Self::Pdf);
        }
        if head.starts_with(RTF_MARK) {
            return Some(Self::RichText);
        }
        if archive::begins(head) || archive::ends(tail) {
            return Some(Self::Archive);
        }
        head.starts_with(COMPOUND_MARK).then_some(Self::Compound)
    }
}

impl Unread {
    /// Returns the reason in one word, for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Encrypted => "encrypted",
            Self::Format => "format",
            Self::Damaged => "damaged",
            Self::TooLarge => "too_large",
            Self::Late => "late",
            Self::Defect => "defect",
        }
    }
}

/// Reads a file, as far as the bounds let it and there is time.
pub fn read(file: &[u8], form: Form, bounds: &Bounds, expired: &dyn Fn() -> bool) -> Reading {
    let mut reader = Reader::new(*bounds, expired);
    // What is read is bounded and checked; should a rule of a format be forgotten, one file is unread.
    let read = catch_unwind(AssertUnwindSafe(|| reader.file(file, form, &Place::default())));
    let failed = read.unwrap_or(Err(Unread::Defect)).err();
    Reading { unread: failed.or(reader.unread), parts: reader.parts, is_other: reader.is_other }
}

/// Where in a file the reader is: in which files within it.
#[derive(Clone, Default)]
struct Place {
    steps: String,
    depth: usize,
}

impl Place {
    /// Returns the place of something in here.
    fn of(&self, name: &str) -> String {
        match self.steps.is_empty() {
            true => name.to_owned(),
            false => format!("{}: {name}", self.steps),
        }
    }

    /// Returns the inside of a file that stands here.
    fn within(&self, name: &str) -> Self {
        Self { steps: self.of(name), depth: self.depth + 1 }
    }
}

/// What is read of a file, and what may still be.
struct Reader<'a> {
    bounds: Bounds,
    expired: &'a dyn Fn() -> bool,
    parts: Vec<Part>,
    unread: Option<Unread>,
    is_other: bool,
    text_left: usize,
    expanded_left: usize,
    entries_left: usize,
    objects_left: usize,
}

impl<'a> Reader<'a> {
    fn new(bounds: Bounds, expired: &'a dyn Fn() -> bool) -> Self {
        Self {
            bounds,
            expired,
            parts: Vec::new(),
            unread: None,
            is_other: false,
            text_left: bounds.text_bytes_max,
            expanded_left: bounds.expanded_bytes_max,
            entries_left: bounds.entries_max,
            objects_left: bounds.objects_max,
        }
    }

    /// Reads a file that stands at a place of another one.
    fn file(&mut self, file: &[u8], form: Form, place: &Place) -> Result<(), Unread> {
        if place.depth >= self.bounds.depth_max {
            return Err(Unread::TooLarge);
        }
        let read = match form {
            Form::Pdf => self.pdf(file, place),
            Form::RichText => self.rich_text(file, place),
            Form::Archive => return self.archive(file, place),
            Form::Compound => return Err(Unread::Format),
        };
        // Such a file may be an archive as well: readers of these begin at the end.
        if archive::is_one(file) {
            self.archive(file, place)?;
        }
        read
    }

    /// Notes that some of the file is not read, while the rest is.
    fn skip(&mut self, unread: Unread) {
        self.unread.get_or_insert(unread);
    }

    /// Takes a text of the file.
    ///
    /// # Errors
    /// It is longer than what is left; what fits was taken.
    fn take(&mut self, place: String, mut text: String) -> Result<(), Unread> {
        if text.trim().is_empty() {
            return Ok(());
        }
        let fits = text.floor_char_boundary(self.text_left.min(text.len()));
        let is_cut = fits < text.len();
        text.truncate(fits);
        self.text_left -= fits;
        self.parts.push(Part { place, text });
        if is_cut { Err(Unread::TooLarge) } else { self.check() }
    }

    /// Counts bytes that were unfolded or read.
    ///
    /// # Errors
    /// They are more than what is left, or the time is over.
    fn spend(&mut self, bytes: usize) -> Result<(), Unread> {
        self.expanded_left = self.expanded_left.checked_sub(bytes).ok_or(Unread::TooLarge)?;
        self.check()
    }

    fn check(&self) -> Result<(), Unread> {
        if (self.expired)() { Err(Unread::Late) } else { Ok(()) }
    }
}
