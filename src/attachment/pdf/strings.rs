//! The strings of a PDF that are for people: in notes, fields, outlines, properties.

use super::object::Object;
use crate::attachment::text;

/// How long a line is at most that only shows that bytes follow which are no text (ISO 32000-1, 7.5.2).
const MARK_BYTES_MAX: usize = 8;
/// How many numbers a line has that says where something is, and how long they are: more are somebody's.
const NUMBERS_MAX: usize = 2;
const NUMBER_BYTES_MAX: usize = 10;
/// The words that stand around objects.
const FRAME: [&[u8]; 9] =
    [b"obj", b"endobj", b"endstream", b"xref", b"trailer", b"startxref", b"%%EOF", b"f", b"n"];

/// Names whose values are no text of anybody's: checksums, signatures, dates, settings.
const OTHERS: &[&str] = &[
    "ByteRange",
    "Cert",
    "CharSet",
    "CreationDate",
    "DA",
    "ID",
    "Lang",
    "M",
    "ModDate",
    "O",
    "OE",
    "Ordering",
    "Panose",
    "Perms",
    "Registry",
    "U",
    "UE",
];
/// How deep values are looked into.
const DEPTH_MAX: usize = 64;
/// Of so many signs of a text at most one is a control character.
const TEXT_SIGNS_PER_CONTROL_MIN: usize = 16;

/// Adds what the strings within an object say, a line each.
pub(super) fn gather(object: &Object, into: &mut String) {
    add(object, into, DEPTH_MAX);
}

fn add(object: &Object, into: &mut String, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match object {
        Object::Text(bytes) => {
            if let Some(text) = of(bytes) {
                into.push_str(&text);
                into.push('\n');
            }
        }
        Object::Array(items) => items.iter().for_each(|item| add(item, into, depth)),
        Object::Dict(dict) => {
            let is_signature = dict.has("ByteRange");
            for (name, value) in &dict.0 {
                let is_other = OTHERS.iter().any(|other| other.as_bytes() == name)
                    || is_signature && name == b"Contents";
                if !is_other {
                    add(value, into, depth);
                }
            }
        }
        Object::Null
        | Object::Bool(_)
        | Object::Number(_)
        | Object::Name(_)
        | Object::Ref(_)
        | Object::Word(_) => {}
    }
}

/// Returns what a string says, unless it says nothing.
fn of(bytes: &[u8]) -> Option<String> {
    let text = match bytes {
        [0xfe, 0xff, ..] | [0xff, 0xfe, ..] | [0xef, 0xbb, 0xbf, ..] => text::of(bytes),
        _ => bytes.iter().map(|byte| char::from(*byte)).collect(),
    };
    let is_control = |sign: &char| sign.is_control() && !sign.is_whitespace();
    let controls = text.chars().filter(is_control).count();
    let is_text = controls * TEXT_SIGNS_PER_CONTROL_MIN <= text.chars().count();
    (is_text && !text.trim().is_empty()).then_some(text)
}

/// Adds the lines between objects that are neither of the frame of a file nor bytes.
pub(super) fn gather_lines(gap: &[u8], into: &mut String) {
    for line in gap.split(|byte| matches!(byte, b'\r' | b'\n')) {
        let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
        let is_named = |word: &[u8]| FRAME.contains(&word) || word.starts_with(b"%PDF-");
        let mut numbers = 0;
        let is_of_frame = |word: &[u8]| {
            let is_number = word.len() <= NUMBER_BYTES_MAX && word.iter().all(u8::is_ascii_digit);
            numbers += usize::from(is_number);
            is_named(word) || is_number
        };
        let is_frame = words.all(is_of_frame) && numbers <= NUMBERS_MAX;
        let is_mark = line.starts_with(b"%") && line.len() <= MARK_BYTES_MAX;
        if !is_mark && !is_frame && !line.iter().any(|byte| matches!(byte, 0..=8 | 11..=31)) {
            into.push_str(&text::of(line));
            into.push('\n');
        }
    }
}
