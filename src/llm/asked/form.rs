//! The search through the fields of a form: each is read as the member of a request that it is named after.

use super::Asked;
use super::keys;
use super::search::Search;
use crate::llm::json::JsonLimits;
use crate::llm::json::escape_into;
use crate::llm::json::walk;
use crate::llm::multipart;
use crate::llm::multipart::Part;

/// The field that names a model.
const MODEL: &str = "model";
/// Members that are texts as well as structures, and files of whatever content.
const TEXTS: [&str; 2] = ["prompt", "input"];
/// What a structure may begin with, some readers' marks of an encoding among it.
const STRUCTURE: [char; 4] = ['{', '[', '\u{feff}', '\0'];

/// Looks at the parts of a form; tells whether all that matter could be read.
pub(super) fn parts(asked: &mut Asked, body: &[u8], boundary: &str, limits: &JsonLimits) -> bool {
    let Ok(parts) = multipart::parts(body, boundary, multipart::PARTS_MAX) else { return false };
    let mut is_read = true;
    for part in &parts {
        is_read &= self::part(asked, body, part, limits);
    }
    is_read
}

fn part(asked: &mut Asked, body: &[u8], part: &Part, limits: &JsonLimits) -> bool {
    let name = part.name.as_deref().unwrap_or_default().trim();
    let content = body.get(part.content.clone()).unwrap_or_default();
    // What a file holds is its own affair, unless it stands for a member.
    let is_file = part.is_file && !name.eq_ignore_ascii_case(MODEL) && !is_structural(name);
    is_file || field(asked, name, content, limits)
}

/// Looks at one field; tells whether it could be read.
pub(super) fn field(asked: &mut Asked, name: &str, content: &[u8], limits: &JsonLimits) -> bool {
    if name.eq_ignore_ascii_case(MODEL) {
        asked.own_model(&String::from_utf8_lossy(content));
        return true;
    }
    let Ok(text) = std::str::from_utf8(content) else { return !is_structural(name) };
    let begins_so = text.trim_start().starts_with(STRUCTURE);
    let is_structure = begins_so && walk(content, limits).is_ok();
    if begins_so && !is_structure {
        // A text may begin so by chance.
        return !is_structural(name);
    }
    let member = member(name, text, is_structure);
    let Ok(document) = walk(&member, limits) else { return false };
    Search { body: &member, document: &document, asked }.all();
    true
}

/// Tells whether a field has to be read: a member of that name says what is asked for, and is no text.
fn is_structural(name: &str) -> bool {
    let root = root(name);
    keys::is_read(root) && !TEXTS.contains(&root)
}

/// Returns the name of the member that a field belongs to: `session` of `session[audio][input]`.
fn root(name: &str) -> &str {
    name.split('[').next().unwrap_or_default()
}

/// Returns a request with the one member that a field is.
fn member(name: &str, text: &str, is_structure: bool) -> Vec<u8> {
    let mut written = Vec::with_capacity(name.len() + text.len() + 16);
    let mut depth = 0;
    for step in name.split(['[', ']']).filter(|step| !step.is_empty()) {
        written.extend_from_slice(b"{\"");
        escape_into(step, &mut written);
        written.extend_from_slice(b"\":");
        depth += 1;
    }
    match is_structure {
        true => written.extend_from_slice(text.as_bytes()),
        false => {
            written.push(b'"');
            escape_into(text, &mut written);
            written.push(b'"');
        }
    }
    written.resize(written.len() + depth, b'}');
    written
}
