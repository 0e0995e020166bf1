//! Finds the texts of a body, whatever it is, and hands each to the sheet.

pub(in crate::policy) mod borders;
mod measure;
mod texts;

use std::borrow::Cow;
use std::cell::Cell;
use std::cell::RefCell;
use std::ops::Range;

use self::borders::Borders;
use self::borders::read_rows;
use self::measure::bytes_of_model;
use self::measure::words_of;
use self::texts::Known;
use self::texts::Recall;
use self::texts::Standing;
use self::texts::Texts;
use self::texts::find_files;
use super::Inspector;
use super::Pinning;
use super::Unreadable;
use super::layer2;
use super::layer3;
use super::member::holds_values;
use super::member::name_of_value;
use super::names;
use super::prompt;
use super::prompt::Prompt;
use super::text::Sheet;
use super::text::Written;
use crate::llm::dialect::Channel;
use crate::llm::dialect::DialectKind;
use crate::llm::json;
use crate::llm::json::Document;
use crate::llm::json::JsonLimits;
use crate::llm::json::JsonString;
use crate::llm::json::LongNumber;
use crate::llm::json::RawCursor;
use crate::llm::media::BYTE_ORDER_MARK;
use crate::llm::media::Media;
use crate::llm::media::MediaFault;
use crate::llm::multipart;
use crate::llm::tools;
use crate::llm::usage::Usage;
use crate::policy::decision::CallerId;
use crate::policy::decision::Direction;
use crate::policy::decision::DocumentMode;
use crate::policy::memo;
use crate::scan::classifier::reading::may_say;
use crate::scan::scanner::ScanFault;
use crate::scan::spelling;
use crate::scan::threat::Finding;
use crate::scan::view;

/// What occurs in the names of members that hold secrets, in whatever case.
const SECRET_NAMES: [&[u8]; 7] = [b"passw", b"pwd", b"secret", b"token", b"key", b"cred", b"auth"];
/// The longest such name, in bytes.
const SECRET_NAME_BYTES_MAX: usize = 64;
/// The shortest value that may be a secret for its name, in bytes.
const SECRET_BYTES_MIN: usize = 8;

/// The most binary bytes that say nothing by what they look like: a ping's are drawn by chance, or count.
const CHANCE_BYTES_MAX: usize = 8;

/// Reads a body and scans every text in it, and in the documents that it brings.
pub fn read(sheet: &mut Sheet<'_, '_>, body: &[u8], media: &Media) -> Result<(), Unreadable> {
    read_texts(sheet, body, media)?;
    sheet.read_attached()
}

fn read_texts(sheet: &mut Sheet<'_, '_>, body: &[u8], media: &Media) -> Result<(), Unreadable> {
    let limit = sheet.inspector.ruleset.limits.max_inspect_bytes;
    if body.len() > limit
        && !matches!(media, Media::Opaque | Media::File | Media::Binary | Media::Multipart { .. })
    {
        return Err(Unreadable::TooLarge(limit));
    }
    let speaks_json = sheet.inspector.dialect.kind() != DialectKind::Generic;
    match media {
        _ if body.is_empty() => Ok(()),
        Media::Multipart { boundary } => multipart(sheet, body, boundary),
        Media::Json => json(sheet, body, 0),
        Media::Ndjson => lines(sheet, body, 0),
        Media::AmazonEvents => Err(MediaFault::Framed.into()),
        Media::Binary => binary(sheet, body),
        // A provider reads JSON whatever its label says, and so do we: known APIs take nothing else.
        Media::Text | Media::Form | Media::Opaque | Media::Undeclared
            if speaks_json && Media::may_be_json(body) =>
        {
            json(sheet, unmarked(body), body.len() - unmarked(body).len())
        }
        Media::Text | Media::Form | Media::EventStream | Media::Opaque | Media::File | Media::Undeclared => {
            loose(sheet, body, media, 0)
        }
    }
}

/// What is not bound to be JSON: read as JSON where it is, as text where it is text.
fn loose(sheet: &mut Sheet<'_, '_>, body: &[u8], media: &Media, offset: usize) -> Result<(), Unreadable> {
    let is_opaque = matches!(media, Media::Opaque | Media::File);
    let mode = sheet.inspector.policy.documents;
    let is_document = sheet.attachments.push_part(body, mode, is_opaque);
    let unread_bytes = if is_document && mode != DocumentMode::Pass { 0 } else { body.len() };
    if Media::looks_wide(body) || !is_opaque && body.contains(&0) {
        return Err(Unreadable::NotText);
    }
    if is_document && is_opaque {
        sheet.opaque_bytes += unread_bytes;
        return Ok(());
    }
    if !Media::is_cut_text(body) {
        if !is_opaque {
            return Err(Unreadable::NotText);
        }
        // Only what is declared to hold no text passes unread. What holds no byte that is none of a text is one, in
        // an older encoding, and its ASCII is read.
        if Media::looks_binary(body) {
            sheet.opaque_bytes += unread_bytes;
            return Ok(());
        }
    }
    words(sheet, body, media, offset)
}

/// What says that it is binary, and is most often: how it begins tells nothing, and it is JSON only where that can be
/// read.
fn binary(sheet: &mut Sheet<'_, '_>, body: &[u8]) -> Result<(), Unreadable> {
    let is_text = std::str::from_utf8(body).is_ok();
    let is_short = body.len() <= CHANCE_BYTES_MAX;
    if !is_short && Media::is_wide_text(body) {
        return Err(Unreadable::NotText);
    }
    if !is_text && (is_short || Media::looks_binary(body)) {
        sheet.opaque_bytes += body.len();
        return Ok(());
    }
    words(sheet, body, &Media::Binary, 0)
}

/// What is text: read as JSON where it is, and behind a byte order mark as without one.
fn words(sheet: &mut Sheet<'_, '_>, body: &[u8], media: &Media, offset: usize) -> Result<(), Unreadable> {
    let (marked, body) = (body.len(), unmarked(body));
    let offset = offset + marked - body.len();
    let limit = sheet.inspector.ruleset.limits.max_inspect_bytes;
    if body.len() > limit {
        return Err(Unreadable::TooLarge(limit));
    }
    if Media::may_be_json(body) && json::walk(body, &sheet.inspector.ruleset.limits.json()).is_ok() {
        return json(sheet, body, offset);
    }
    if are_lines(body, &sheet.inspector.ruleset.limits.json()) {
        return lines(sheet, body, offset);
    }
    match media {
        Media::Form => sheet.form_text(body, |range| shifted(range, offset)),
        _ => sheet.text(body, Channel::User, Written::Plain, |range| shifted(range, offset)),
    }
}

/// Tells whether a text is JSON objects, one a line.
fn are_lines(text: &[u8], limits: &JsonLimits) -> bool {
    let lines = text.split(|byte| *byte == b'\n').map(|line| unmarked(line).trim_ascii());
    let mut lines = lines.filter(|line| !line.is_empty());
    text.trim_ascii_start().starts_with(b"{")
        && lines.all(|line| line.starts_with(b"{") && json::walk(line, limits).is_ok())
}

/// Reads JSON texts, one a line, that begin at `offset` of the body.
fn lines(sheet: &mut Sheet<'_, '_>, text: &[u8], mut offset: usize) -> Result<(), Unreadable> {
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let said = unmarked(line);
        if !said.trim_ascii().is_empty() {
            json(sheet, said, offset + line.len() - said.len())?;
        }
        offset += line.len();
    }
    Ok(())
}

/// Returns what is behind a byte order mark: some parsers pass over one before each line.
fn unmarked(line: &[u8]) -> &[u8] {
    line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
}

fn multipart(sheet: &mut Sheet<'_, '_>, body: &[u8], boundary: &str) -> Result<(), Unreadable> {
    let parts = multipart::parts(body, boundary, sheet.inspector.ruleset.limits.multipart_parts_max)?;
    for part in parts {
        let (head, content) = (part.head, part.content);
        sheet.head_text(&body[head.clone()], |range| shifted(range, head.start))?;
        // A form field without a type is text (RFC 7578, section 4.4); a file is whatever its bytes are.
        let media = match Media::parse(part.content_type.as_deref())? {
            Media::Undeclared if part.is_file => Media::File,
            Media::Undeclared => Media::Text,
            declared => declared,
        };
        loose(sheet, &body[content.clone()], &media, content.start)?;
    }
    Ok(())
}

/// Scans every string of a JSON text that begins at `offset` of the body.
///
/// One pass of the first stage over all the texts, one after another, tells which of them can hold a
/// match at all; a text is scanned on its own where it can, or where it has to be read through a view. Texts
/// that were clean before are not read again.
fn json(sheet: &mut Sheet<'_, '_>, text: &[u8], offset: usize) -> Result<(), Unreadable> {
    let document = json::walk(text, &sheet.inspector.ruleset.limits.json())?;
    let dialect = sheet.inspector.dialect;
    dialect.check_keys(text, &document)?;
    check_files(sheet, text, &document)?;
    sheet.usage.merge(Usage::read(dialect, text, &document));
    pin_tools(sheet, text, &document);
    let recall = Recall::of(sheet);
    let files = find_files(sheet, &recall, text, &document);
    let texts = survey(sheet, &recall, text, (&document, &files));
    let edits = sheet.edit_count();
    // Until the work is done, nothing vouches for the body.
    let (aside, mut outcome) = (sheet.inspector.aside, Err(Unreadable::Late));
    aside(texts.joined.len(), &mut || outcome = judge_texts(sheet, text, offset, (&document, &texts)));
    outcome?;
    if sheet.edit_count() > edits {
        for (range, none) in dialect.copies(text, &document) {
            sheet.empty(shifted(range, offset), none);
        }
    }
    Ok(())
}

/// Judges what the texts of a document hold that is not known to be clean, and its long numbers.
fn judge_texts(
    sheet: &mut Sheet<'_, '_>,
    text: &[u8],
    offset: usize,
    (document, texts): (&Document, &Texts),
) -> Result<(), Unreadable> {
    trace_prompt(sheet, text, document, texts);
    scan_texts(sheet, text, offset, (document, texts))?;
    scan_borders(sheet, text, offset, (document, texts))?;
    numbers(sheet, text, offset, document)
}

/// Refuses a request that brings a file in base64 which is text in wide characters: read as a part of a form, it is
/// refused too.
///
/// # Errors
/// Fails at the first such string.
fn check_files(sheet: &Sheet<'_, '_>, text: &[u8], document: &Document) -> Result<(), Unreadable> {
    let is_asked = sheet.inspector.direction == Direction::Request;
    let mut strings = document.strings.iter().filter(|string| is_asked && !string.key);
    let is_wide = |string: &JsonString| {
        Media::may_be_base64(&text[string.raw.clone()]) && Media::is_wide_base64(&document.text(text, string))
    };
    if strings.any(is_wide) { Err(Unreadable::NotText) } else { Ok(()) }
}

/// Gathers the texts of a document, and counts what is in them for a model, and what is none; what is the system prompt of
/// a guarded route is kept. Of strings that are `files` nothing is.
fn survey(
    sheet: &mut Sheet<'_, '_>,
    recall: &Recall,
    text: &[u8],
    (document, files): (&Document, &[usize]),
) -> Texts {
    let (dialect, direction) = (sheet.inspector.dialect, sheet.inspector.judged());
    let (text_bytes, opaque_bytes) = (Cell::new(0), Cell::new(0));
    let is_guarded = prompt::is_guarded(sheet.inspector);
    let prompt = RefCell::new(Prompt::default());
    let texts = Texts::of(text, document, |at, string, alone| {
        if files.binary_search(&at).is_ok() || dialect.is_sound(None, text, document, string) {
            return Known::sound(alone, &opaque_bytes);
        }
        // A key belongs to no model; only one that is long is worth asking whose it is.
        let is_asked = !string.key || alone.len() >= memo::TEXT_BYTES_MIN;
        if !is_asked && document.is_textless(string.node) {
            return Known { channel: None, standing: recall.of_name(sheet, alone) };
        }
        let channel = is_asked.then(|| dialect.channel(text, document, string));
        let words = channel.map(|channel| words_of(channel, dialect, text, document, string));
        let bytes =
            words.map_or(0, |words| bytes_of_model(alone, (direction, words), (text, document, string)));
        text_bytes.set(text_bytes.get() + bytes);
        if is_guarded && channel == Some(Channel::System) {
            prompt.borrow_mut().add(alone);
        }
        Known { channel, standing: recall.standing(sheet, (text, document, at), channel, alone) }
    });
    sheet.usage.text_bytes += text_bytes.get();
    sheet.opaque_bytes += opaque_bytes.get();
    sheet.prompt.append(&prompt.into_inner());
    texts
}

/// Scans the texts of a document that are not known to be clean, each as deep as it takes; what is found clean is
/// remembered.
fn scan_texts(
    sheet: &mut Sheet<'_, '_>,
    text: &[u8],
    offset: usize,
    (document, texts): (&Document, &Texts),
) -> Result<(), Unreadable> {
    let (dialect, direction) = (sheet.inspector.dialect, sheet.inspector.judged());
    let scanner = &sheet.inspector.ruleset.scanner;
    let suspects = scanner.suspects(&texts.joined, sheet.wanted())?;
    let asks_model = sheet.inspector.ruleset.layer3.judged().any(|id| sheet.wanted().contains(id));
    let asks_names = names::wanted(sheet.inspector.ruleset, sheet.wanted()).is_some();
    let is_spelt = may_be_spelt(sheet, &texts.joined)?;
    for (at, (string, (place, known))) in document.strings.iter().zip(texts.places()).enumerate() {
        if known.standing == Standing::Clean {
            continue;
        }
        let alone = &texts.joined[place.clone()];
        let is_suspect = suspects.touch(&place);
        let channel = || known.channel.unwrap_or_else(|| dialect.channel(text, document, string));
        let name = name_of_secret(text, document, at)
            .or_else(|| is_suspect.then(|| name_of_value(text, document, string.node, channel()))?);
        let plain = match (&name, is_suspect) {
            (Some(_), _) => None,
            (None, false) => Some(Vec::new()),
            (None, true) => scanner.found_among(&suspects, &texts.joined, place, sheet.wanted()),
        };
        let depth = match plain {
            None => Depth::Whole,
            Some(plain) if plain.is_empty() => depth_of_plain(sheet, alone, is_spelt || is_suspect)?,
            Some(plain) => Depth::Beyond(plain),
        };
        let found = sheet.found;
        let is_read = depth != Depth::Model
            || asks_model && may_say(alone) && layer3::reads(alone, direction, channel())
            || asks_names && names::reads(channel(), alone);
        if is_read {
            let how = (depth, &*name.unwrap_or_default());
            scan_string(sheet, text, offset, (document, string, channel()), how)?;
        }
        if let Standing::New(tag) = known.standing
            && sheet.found == found
        {
            sheet.inspector.ruleset.memo.note(tag);
        }
    }
    Ok(())
}

/// Looks for what stands over the borders of texts, and in rows of them.
fn scan_borders(
    sheet: &mut Sheet<'_, '_>,
    text: &[u8],
    offset: usize,
    (document, texts): (&Document, &Texts),
) -> Result<(), Unreadable> {
    let mut borders = Borders::of(sheet.inspector.dialect, text, document);
    for (string, (_, known)) in document.strings.iter().zip(texts.places()) {
        if let Some(channel) = known.channel.filter(|_| !string.key) {
            borders.take(sheet, (text, offset), (document, string, channel))?;
        }
    }
    borders.read(sheet, (text, offset), document)?;
    read_rows(sheet, (text, offset), document)
}

/// Returns how a text is read in which nothing can match as it stands.
fn depth_of_plain(sheet: &Sheet<'_, '_>, text: &[u8], is_spelt: bool) -> Result<Depth, Unreadable> {
    let is_read_otherwise =
        view::needs_views(text) || is_spelt && may_be_spelt(sheet, text)? || sheet.may_restore(text);
    Ok(if is_read_otherwise { Depth::Beyond(Vec::new()) } else { Depth::Model })
}

/// Tells whether a text, or one of those in a row, may say more than it says as it stands: in a request by any other
/// spelling, in a response by its tables.
fn may_be_spelt(sheet: &Sheet<'_, '_>, text: &[u8]) -> Result<bool, ScanFault> {
    match sheet.inspector.judged() {
        Direction::Request => sheet.inspector.ruleset.scanner.may_be_spelt(text),
        Direction::Response => Ok(spelling::has_table(text)),
    }
}

/// Scans the long numbers that a tool is given, or gives back.
fn numbers(
    sheet: &mut Sheet<'_, '_>,
    text: &[u8],
    offset: usize,
    document: &Document,
) -> Result<(), Unreadable> {
    let Inspector { dialect, direction, .. } = *sheet.inspector;
    for LongNumber { node, raw, digits } in document.long_numbers(text) {
        let number = JsonString { raw, escaped: false, key: false, node };
        let channel = dialect.channel(text, document, &number);
        if !holds_values(channel) {
            continue;
        }
        let name = name_of_value(text, document, node, channel).unwrap_or_default();
        let before = sheet.gathered().len();
        let whole = shifted(number.raw.clone(), offset);
        sheet.named_text(&name, &text[digits], channel, Written::Number, |_| whole.clone())?;
        if sheet.gathered().len() > before {
            let place = layer2::place(direction, channel, text, document, &number);
            sheet.gathered().place(before, &place);
        }
    }
    Ok(())
}

/// Looks for the request's system prompt in what an answer tells, and for what is tainted in what it calls tools with.
fn trace_prompt(sheet: &mut Sheet<'_, '_>, text: &[u8], document: &Document, texts: &Texts) {
    let Some(guarded) = sheet.inspector.guarded else { return };
    let dialect = sheet.inspector.dialect;
    let places = document.strings.iter().zip(texts.places()).filter(|(string, _)| !string.key);
    let told = places.filter_map(|(string, (place, known))| {
        let channel = known.channel.unwrap_or_else(|| dialect.channel(text, document, string));
        let channel = words_of(channel, dialect, text, document, string);
        let told = texts.joined.get(place).filter(|_| prompt::is_told(channel))?;
        let is_call = channel == Channel::ToolCall && !prompt::is_name_of_tool(text, document, string);
        Some((is_call, told))
    });
    let leak = prompt::leaked(guarded, told);
    sheet.gathered().note_leak(&leak, guarded);
}

/// Returns the name of a member whose value may be a secret for its name alone.
pub fn name_of_secret<'a>(text: &'a [u8], document: &Document, at: usize) -> Option<Cow<'a, [u8]>> {
    let string = document.strings.get(at).filter(|it| !it.key && it.raw.len() >= SECRET_BYTES_MIN)?;
    let key = document.strings.get(at.checked_sub(1)?)?;
    if !key.key || key.node != string.node || key.raw.len() > SECRET_NAME_BYTES_MAX {
        return None;
    }
    let name = document.text(text, key);
    is_of_secret(&name).then_some(name)
}

/// Tells whether one of the [`SECRET_NAMES`] occurs in a name.
fn is_of_secret(name: &[u8]) -> bool {
    let begins_here = |rest: &[u8]| {
        let begins =
            |part: &&[u8]| rest.get(..part.len()).is_some_and(|head| head.eq_ignore_ascii_case(part));
        SECRET_NAMES.iter().any(begins)
    };
    // All of them begin with one of these letters.
    let may_begin = |byte: &u8| matches!(byte | 0x20, b'p' | b's' | b't' | b'k' | b'c' | b'a');
    let mut places = name.iter().enumerate().filter(|(_, byte)| may_begin(byte));
    places.any(|(at, _)| name.get(at..).is_some_and(begins_here))
}

/// Compares the tools that a body defines with those that its caller knows.
pub fn pin_tools(sheet: &mut Sheet<'_, '_>, text: &[u8], document: &Document) {
    let Some(Pinning { pins, route }) = sheet.inspector.pins else { return };
    let tools = match sheet.inspector.direction {
        Direction::Request => tools::requested(text, document),
        Direction::Response => tools::offered(text, document),
    };
    if !tools.is_empty() {
        let caller = sheet.inspector.caller.map_or("", CallerId::as_str);
        let told = pins.check(caller, route, &tools, sheet.inspector.now);
        sheet.gathered().note_tools(told);
    }
}

/// How a text is read once the first pass over all texts is done.
#[derive(PartialEq, Eq)]
enum Depth {
    /// By all layers, in every reading.
    Whole,
    /// The same, but for the text as it stands, in which this is what patterns find.
    Beyond(Vec<Finding>),
    /// By the model alone.
    Model,
}

fn scan_string(
    sheet: &mut Sheet<'_, '_>,
    text: &[u8],
    offset: usize,
    (document, string, channel): (&Document, &JsonString, Channel),
    (depth, name): (Depth, &[u8]),
) -> Result<(), Unreadable> {
    let decoded = document.text(text, string);
    let mut cursor = RawCursor::new(text, string);
    let before = sheet.gathered().len();
    let raw = |range| shifted(cursor.raw_range(range), offset);
    match depth {
        Depth::Whole => sheet.named_text(name, &decoded, channel, Written::Json, raw)?,
        Depth::Beyond(found) => sheet.text_beyond((&decoded, found), channel, Written::Json, raw)?,
        Depth::Model => sheet.plain_text(&decoded, channel, Written::Json, raw)?,
    }
    if sheet.gathered().len() > before {
        let place = layer2::place(sheet.inspector.direction, channel, text, document, string);
        sheet.gathered().place(before, &place);
    }
    Ok(())
}

fn shifted(range: Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}
