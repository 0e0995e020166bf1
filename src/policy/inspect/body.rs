//! Finds the texts of a body, whatever it is, and hands each to the sheet.

use super::Unreadable;
use super::text::Sheet;
use crate::llm::dialect::Channel;
use crate::llm::json;
use crate::llm::json::Document;
use crate::llm::json::JsonString;
use crate::llm::json::RawCursor;
use crate::llm::media::Media;
use crate::llm::multipart;
use crate::scan::view;

/// Reads a body and scans every text in it.
pub fn read(sheet: &mut Sheet<'_, '_>, body: &[u8], media: &Media) -> Result<(), Unreadable> {
    let limit = sheet.inspector.ruleset.limits.max_inspect_bytes;
    if body.len() > limit && *media != Media::Opaque {
        return Err(Unreadable::TooLarge(limit));
    }
    let expects_json = sheet.inspector.dialect.expects_json();
    match media {
        Media::Multipart { boundary } => multipart(sheet, body, boundary),
        Media::Json => json(sheet, body, 0),
        _ if body.is_empty() => Ok(()),
        _ if expects_json => json(sheet, body, 0),
        Media::Ndjson => lines(sheet, body),
        Media::Text | Media::EventStream | Media::Opaque | Media::Undeclared => loose(sheet, body, media, 0),
    }
}

/// What is not bound to be JSON: read as JSON where it is, as text where it is text.
fn loose(sheet: &mut Sheet<'_, '_>, body: &[u8], media: &Media, offset: usize) -> Result<(), Unreadable> {
    if Media::looks_wide(body) {
        return Err(Unreadable::NotText);
    }
    if std::str::from_utf8(body).is_err() {
        // Bytes that nobody called text may be anything; they pass, and are counted by the caller.
        return if *media == Media::Text { Err(Unreadable::NotText) } else { Ok(()) };
    }
    if Media::may_be_json(body) && json(sheet, body, offset).is_ok() {
        return Ok(());
    }
    sheet.text(body, Channel::User, |range| range.start + offset..range.end + offset)
}

fn lines(sheet: &mut Sheet<'_, '_>, body: &[u8]) -> Result<(), Unreadable> {
    let mut offset = 0;
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        if !line.trim_ascii().is_empty() {
            json(sheet, line, offset)?;
        }
        offset += line.len();
    }
    Ok(())
}

fn multipart(sheet: &mut Sheet<'_, '_>, body: &[u8], boundary: &str) -> Result<(), Unreadable> {
    let parts = multipart::parts(body, boundary, sheet.inspector.ruleset.limits.multipart_parts_max)?;
    for part in parts {
        let shift = |by: usize| move |range: std::ops::Range<usize>| range.start + by..range.end + by;
        sheet.text(&body[part.head.clone()], Channel::Metadata, shift(part.head.start))?;
        let media = Media::parse(part.content_type.as_deref())?;
        loose(sheet, &body[part.content.clone()], &media, part.content.start)?;
    }
    Ok(())
}

/// Scans every string of a JSON text that begins at `offset` of the body.
///
/// One pass of the first stage over the raw bytes tells which strings can hold a match at all; a
/// string is scanned on its own where it can, or where it has to be read through a view first.
fn json(sheet: &mut Sheet<'_, '_>, text: &[u8], offset: usize) -> Result<(), Unreadable> {
    let document = json::walk(text, &sheet.inspector.ruleset.limits.json())?;
    sheet.inspector.dialect.check_keys(&document, text)?;
    let mut suspects = Vec::new();
    sheet.inspector.ruleset.scanner.suspects(text, sheet.wanted(), &mut suspects)?;
    let mut suspects = suspects.as_slice();
    for string in &document.strings {
        let before = suspects.partition_point(|end| *end <= string.raw.start);
        suspects = &suspects[before..];
        let suspected = suspects.first().is_some_and(|end| *end <= string.raw.end);
        let raw = &text[string.raw.clone()];
        if suspected || string.escaped || view::needs_views(raw) {
            scan_string(sheet, text, offset, &document, string)?;
        }
    }
    Ok(())
}

fn scan_string(
    sheet: &mut Sheet<'_, '_>,
    text: &[u8],
    offset: usize,
    document: &Document,
    string: &JsonString,
) -> Result<(), Unreadable> {
    let channel = sheet.inspector.dialect.channel(document, text, string);
    let decoded = document.text(text, string);
    let mut cursor = RawCursor::new(text, string);
    sheet.text(&decoded, channel, |range| {
        let raw = cursor.raw_range(range);
        raw.start + offset..raw.end + offset
    })
}
