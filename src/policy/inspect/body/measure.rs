//! How much of a body a model reads or writes, as far as its texts tell.

use crate::llm::dialect::Channel;
use crate::llm::dialect::Dialect;
use crate::llm::dialect::DialectKind;
use crate::llm::json::Document;
use crate::llm::json::JsonString;
use crate::llm::json::NodeId;
use crate::llm::json::StepView;
use crate::policy::decision::Direction;

/// A string that begins with so many bytes without a space is a file written as text, not language, where files are.
const FILE_HEAD_BYTES: usize = 512;
/// The names of members that hold files, or arrays of them.
const FILE_NAMES: [&[u8]; 16] = [
    b"audio",
    b"b64_json",
    b"blob",
    b"bytes",
    b"bytesBase64Encoded",
    b"data",
    b"document",
    b"file",
    b"file_data",
    b"image",
    b"image_url",
    b"images",
    b"mask",
    b"uri",
    b"url",
    b"video",
];
/// Of ASCII with less than one space in so many bytes a token is half as long as of language.
const DENSE_BYTES_PER_SPACE: usize = 32;

/// Returns whose words a string of a channel is; where nothing is known of an API, what names of pieces of text tell.
pub(super) fn words_of(
    channel: Channel,
    dialect: &Dialect,
    text: &[u8],
    document: &Document,
    string: &JsonString,
) -> Channel {
    match channel {
        Channel::Metadata if dialect.kind() == DialectKind::Generic => {
            dialect.lane(None, text, document, string).map_or(Channel::Metadata, |lane| lane.channel)
        }
        channel => channel,
    }
}

/// Returns how many bytes of language take a model as much as a string that it reads or writes: none of names, of keys, and
/// of files.
pub(super) fn bytes_of_model(
    said: &[u8],
    (direction, channel): (Direction, Channel),
    (text, document, string): (&[u8], &Document, &JsonString),
) -> u64 {
    let head = said.get(..FILE_HEAD_BYTES).unwrap_or_default();
    let is_unbroken = !head.is_empty() && head.is_ascii() && !head.iter().any(u8::is_ascii_whitespace);
    let is_file = is_unbroken && may_hold_file(text, document, string.node);
    let is_own = match (direction, channel) {
        (_, Channel::Metadata | Channel::Credential) => false,
        (Direction::Request, _) => true,
        (Direction::Response, Channel::Assistant | Channel::Reasoning | Channel::ToolCall) => true,
        (Direction::Response, _) => false,
    };
    if is_own && !is_file && !string.key { bytes_as_language(said) } else { 0 }
}

/// Tells whether a value is one of the [`FILE_NAMES`], or is in an array that is.
fn may_hold_file(text: &[u8], document: &Document, node: NodeId) -> bool {
    match document.step(text, node) {
        StepView::Key(name) => FILE_NAMES.contains(&&*name),
        StepView::Index(_) => document.parent(node).is_some_and(|array| may_hold_file(text, document, array)),
        StepView::Root => false,
    }
}

/// Returns how many bytes of language a model makes as many tokens of: what is written in digits and signs without spaces
/// takes more.
fn bytes_as_language(said: &[u8]) -> u64 {
    let enough = said.len().div_ceil(DENSE_BYTES_PER_SPACE);
    let spaces = || said.iter().filter(|byte| byte.is_ascii_whitespace()).take(enough).count();
    let is_dense = said.len() >= FILE_HEAD_BYTES && spaces() < enough && said.is_ascii();
    said.len() as u64 * if is_dense { 2 } else { 1 }
}
