//! Why a body is not read: what is wrong and where, never what it says.

/// The first thing wrong with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at byte {offset}")]
pub struct JsonFault {
    /// What is wrong.
    pub problem: JsonProblem,
    /// Where, in bytes of the body.
    pub offset: usize,
}

/// What can be wrong with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonProblem {
    /// Nothing, or only white space.
    #[error("the body is empty")]
    Empty,
    /// Offsets would not fit.
    #[error("the body is larger than 4 GiB")]
    TooLarge,
    /// A byte order mark: some decoders drop it, some refuse it.
    #[error("byte order mark")]
    ByteOrderMark,
    /// UTF-16 or UTF-32: only one decoder of five reads it.
    #[error("encoding other than UTF-8")]
    NotUtf8Encoding,
    /// Bytes that are not UTF-8: some decoders replace them.
    #[error("invalid UTF-8")]
    InvalidUtf8,
    /// No value can begin here.
    #[error("expected a value")]
    ExpectedValue,
    /// Something else than a key in quotes.
    #[error("expected a key in double quotes")]
    ExpectedKey,
    /// Something else than a colon after a key.
    #[error("expected a colon")]
    ExpectedColon,
    /// Something else than a comma or the closing bracket.
    #[error("expected a comma or the end of the object or array")]
    ExpectedCommaOrEnd,
    /// The body ends inside a value.
    #[error("unexpected end")]
    UnexpectedEnd,
    /// Text after the value.
    #[error("text after the value")]
    TrailingText,
    /// A number that is not written as RFC 8259 says.
    #[error("malformed number")]
    MalformedNumber,
    /// A number that becomes infinite, null or zero, depending on the decoder.
    #[error("number out of range")]
    NumberOutOfRange,
    /// An unescaped control character in a string.
    #[error("control character in a string")]
    ControlCharacter,
    /// A backslash that begins no known escape.
    #[error("malformed escape")]
    MalformedEscape,
    /// Half of a surrogate pair.
    #[error("lone surrogate")]
    LoneSurrogate,
    /// A NUL in a key: some decoders cut there.
    #[error("nul in a key")]
    NulInKey,
    /// A key that its object already has, once escapes are undone.
    #[error("duplicate key")]
    DuplicateKey,
    /// A key that its object already has but for its case: some decoders take them for one.
    #[error("key that differs from another only by case")]
    CaseVariantKey,
    /// Too many objects and arrays inside one another.
    #[error("nesting too deep")]
    TooDeep,
    /// More strings than the limit.
    #[error("too many strings")]
    TooManyStrings,
    /// More members and elements than the limit.
    #[error("too many values")]
    TooManyValues,
}

impl JsonProblem {
    /// Returns the fault that names where the problem is.
    pub(crate) fn at(self, offset: usize) -> JsonFault {
        JsonFault { problem: self, offset }
    }
}
