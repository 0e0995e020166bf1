//! What the sample provider says, whatever dialect it is asked in.
//!
//! | the last user message | the answer |
//! |---|---|
//! | holds `say: TEXT` | `TEXT`, with placeholders filled in (see below) |
//! | names one of the request's tools | a call of that tool, arguments made from its schema |
//! | holds `fail: STATUS` | an error with that status (400 to 599), in the dialect's shape |
//! | is the result of a tool | a sentence that quotes the result |
//! | anything else | one fixed, friendly sentence |
//!
//! Placeholders let a prompt that holds nothing sensitive be answered with something that is:
//! `{card}`, `{iban}`, `{email}`, `{github_token}` and `{image_link}` stand for made-up values that
//! pass their checksums. The same request always gets the same answer.

use axum::http::StatusCode;
use serde_json::Map;
use serde_json::Value;

const GREETING: &str =
    "Hello from the sample provider. I am not a model: write `say: ` and some words, and I will say them.";
const SAY: &str = "say:";
const FAIL: &str = "fail:";
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Lengths of the pieces of a streamed answer, in characters, used in turn.
const PIECE_CHARS: [usize; 5] = [3, 1, 4, 2, 4];
/// Most members that are made up for a tool's arguments.
const ARGUMENTS_MAX: usize = 64;

/// A question, read out of a request of any dialect.
#[derive(Debug, Default)]
pub(super) struct Ask {
    /// The last message of the user.
    pub text: String,
    /// The tools that may be called.
    pub tools: Vec<Tool>,
    /// The caller insists on a tool call.
    pub tool_forced: bool,
    /// The conversation ends with this result of a tool.
    pub tool_result: Option<String>,
}

/// A tool that the caller offers.
#[derive(Debug)]
pub(super) struct Tool {
    /// Its name.
    pub name: String,
    /// The JSON Schema of its arguments.
    pub schema: Value,
}

/// An answer, ready to be written in any dialect.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// Words.
    Text(String),
    /// A call of one of the caller's tools; the arguments are a JSON object.
    Call { name: String, arguments: Value },
    /// A refusal with this status.
    Failure(StatusCode),
}

/// Returns the one answer there is to a question.
pub(super) fn answer(ask: &Ask) -> Answer {
    if let Some(result) = &ask.tool_result {
        return Answer::Text(format!("The tool says: {result}"));
    }
    if let Some(status) = failure(&ask.text) {
        return Answer::Failure(status);
    }
    let words = said(&ask.text);
    let named = ask.tools.iter().find(|tool| !tool.name.is_empty() && ask.text.contains(&tool.name));
    let forced = ask.tools.first().filter(|_| ask.tool_forced);
    match named.or(forced) {
        Some(tool) => Answer::Call {
            name: tool.name.clone(),
            arguments: arguments(&tool.schema, words.as_deref().unwrap_or("sample")),
        },
        None => Answer::Text(words.unwrap_or_else(|| GREETING.to_owned())),
    }
}

/// Returns the text cut into pieces of one to four characters, as a model's tokens would cut it.
pub(super) fn pieces(text: String) -> impl Iterator<Item = String> + Send + 'static {
    let mut lengths = PIECE_CHARS.into_iter().cycle();
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let length = rest.char_indices().nth(lengths.next()?).map_or(rest.len(), |(end, _)| end);
        at += length;
        rest.get(..length).map(str::to_owned)
    })
}

/// Returns how many tokens a text is counted as: one for every four characters begun.
pub(super) fn tokens(text: &str) -> u64 {
    text.chars().count().div_ceil(4) as u64
}

fn failure(text: &str) -> Option<StatusCode> {
    let digits: String =
        text.split_once(FAIL)?.1.trim_start().chars().take_while(char::is_ascii_digit).collect();
    let status = StatusCode::from_u16(digits.parse().ok()?).ok()?;
    (status.is_client_error() || status.is_server_error()).then_some(status)
}

fn said(text: &str) -> Option<String> {
    let words = text.split_once(SAY)?.1.trim();
    if !words.contains('{') {
        return Some(words.to_owned());
    }
    let filled = words
        .replace("{card}", "4111 1111 1111 1111")
        .replace("{iban}", "DE89 3704 0044 0532 0130 00")
        .replace("{email}", "ada.lovelace@example.com")
        .replace("{image_link}", "![logo](https://collector.example/p.png?d=aGVsbG8td29ybGQtaGVsbG8)");
    Some(if filled.contains("{github_token}") {
        filled.replace("{github_token}", &github_token())
    } else {
        filled
    })
}

/// Returns a token of the documented form: a prefix, 30 characters and their CRC-32 in base 62.
/// It is computed so that no file of the project holds something that looks like a live key.
fn github_token() -> String {
    let random: String = (0..30).map(|i: usize| char::from(BASE62[(i * 23 + 11) % 62])).collect();
    let mut rest = crc32fast::hash(random.as_bytes());
    let mut checksum = [b'0'; 6];
    for digit in checksum.iter_mut().rev() {
        *digit = BASE62[(rest % 62) as usize];
        rest /= 62;
    }
    format!("ghp_{random}{}", String::from_utf8_lossy(&checksum))
}

fn arguments(schema: &Value, words: &str) -> Value {
    let members = schema.get("properties").and_then(Value::as_object);
    let made = members.into_iter().flatten().take(ARGUMENTS_MAX).map(|(name, kind)| {
        let first = kind.get("enum").and_then(|values| values.get(0));
        (name.clone(), first.cloned().unwrap_or_else(|| example(kind, words)))
    });
    Value::Object(made.collect())
}

fn example(kind: &Value, words: &str) -> Value {
    // Gemini writes type names in capitals.
    match kind.get("type").and_then(Value::as_str).unwrap_or("string").to_ascii_lowercase().as_str() {
        "integer" => Value::from(7),
        "number" => Value::from(2.5),
        "boolean" => Value::Bool(true),
        "array" => Value::Array(Vec::new()),
        "object" => Value::Object(Map::new()),
        _ => Value::from(words),
    }
}
