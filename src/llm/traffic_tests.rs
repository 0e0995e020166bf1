//! Recorded traffic of twenty providers: all of it is read, and none of it is changed.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::llm::dialect::Dialect;
use crate::llm::dialect::Dialects;
use crate::llm::dialect::LaneKey;
use crate::llm::json::JsonLimits;
use crate::llm::json::walk;
use crate::llm::stream::PIECE_BYTES_MAX;
use crate::llm::stream::StreamFormat;
use crate::llm::stream::StreamParser;
use crate::llm::stream::StreamPiece;
use crate::llm::usage::Usage;

struct Recorded {
    id: String,
    dialect: String,
    stream: bool,
    content_type: String,
    body: String,
}

/// Returns the recorded bodies that are byte-exact; none, and says so, where the recordings are not at hand.
#[allow(clippy::print_stderr)]
fn recorded() -> Vec<Recorded> {
    let shared = option_env!("PORTCULLIS_SHARED").map(Path::new);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let folder = shared.unwrap_or(&beside).join("data/train/traffic");
    let Ok(files) = std::fs::read_dir(&folder) else {
        eprintln!("SKIPPED: no recorded traffic in {}", folder.display());
        return Vec::new();
    };
    let read = |file: std::fs::DirEntry| std::fs::read_to_string(file.path()).unwrap();
    let texts: Vec<String> = files.map(|file| read(file.unwrap())).collect();
    texts.iter().flat_map(|text| text.lines()).filter_map(exact).collect()
}

fn exact(line: &str) -> Option<Recorded> {
    let row: Value = serde_json::from_str(line).unwrap();
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_string();
    (row["exact"] == true && row["body_encoding"] == "utf-8").then(|| Recorded {
        id: text("id"),
        dialect: text("dialect"),
        stream: row["stream"] == true && row["direction"] == "response",
        content_type: text("content_type"),
        body: text("body"),
    })
}

fn pieces(format: StreamFormat, body: &[u8], chunk_bytes: usize) -> Vec<StreamPiece> {
    let mut parser = StreamParser::new(format, PIECE_BYTES_MAX);
    let mut pieces: Vec<StreamPiece> =
        body.chunks(chunk_bytes).flat_map(|chunk| parser.push(chunk).unwrap()).collect();
    pieces.extend(parser.finish().unwrap());
    pieces
}

fn dialect_of<'a>(dialects: &'a Dialects, recorded: &Recorded) -> &'a Dialect {
    let names = ["openai", "anthropic", "gemini", "bedrock", "cohere", "ollama"].map(|name| (name, name));
    let name = names
        .iter()
        .find(|(prefix, _)| recorded.dialect.starts_with(prefix))
        .map_or("generic", |(_, name)| name);
    dialects.get(name).unwrap()
}

#[test]
fn every_recorded_body_is_read() {
    let dialects = Dialects::embedded().unwrap();
    for recorded in recorded().iter().filter(|recorded| !recorded.stream) {
        let body = recorded.body.as_bytes();
        if recorded.content_type.contains("json") && serde_json::from_slice::<Value>(body).is_ok() {
            let doc =
                walk(body, &JsonLimits::STRICT).unwrap_or_else(|fault| panic!("{}: {fault}", recorded.id));
            assert_eq!(dialect_of(&dialects, recorded).check_keys(body, &doc), Ok(()), "{}", recorded.id);
        }
    }
}

#[test]
fn every_recorded_stream_is_cut_and_joined() {
    let dialects = Dialects::embedded().unwrap();
    for recorded in recorded().iter().filter(|recorded| recorded.stream) {
        let (body, dialect) = (recorded.body.as_bytes(), dialect_of(&dialects, recorded));
        let format = dialect.stream_format(&recorded.content_type, "/").unwrap();
        let whole = pieces(format, body, body.len().max(1));
        assert_eq!(
            whole.iter().flat_map(|piece| piece.raw.to_vec()).collect::<Vec<u8>>(),
            body,
            "{}",
            recorded.id
        );
        assert_eq!(pieces(format, body, 7), whole, "{}", recorded.id);
        let (lanes, usage, finals) = read_stream(dialect, &whole, &recorded.id);
        assert!(!lanes.is_empty() || !recorded.body.contains("delta\""), "{}: no lanes", recorded.id);
        for text in finals {
            assert!(lanes.values().any(|lane| *lane == text), "{}: a final text is no lane", recorded.id);
        }
        if recorded.body.contains("\"usage\":{") {
            assert!(usage.total().is_some(), "{}: no usage", recorded.id);
        }
        if recorded.body.contains("\"model\":\"") {
            assert!(usage.model.is_some(), "{}: no model", recorded.id);
        }
    }
}

type Read = (BTreeMap<LaneKey, String>, Usage, Vec<String>);

/// Reads a stream as the gateway does: its lanes, its usage, and the texts it repeats whole at their end.
fn read_stream(dialect: &Dialect, pieces: &[StreamPiece], id: &str) -> Read {
    let (mut lanes, mut usage, mut finals) =
        (BTreeMap::<LaneKey, String>::new(), Usage::default(), Vec::new());
    for piece in pieces.iter().filter(|piece| piece.has_payload()) {
        let payload = piece.payload();
        if dialect.is_terminator(&payload) {
            continue;
        }
        let doc = walk(&payload, &JsonLimits::STRICT).unwrap_or_else(|fault| panic!("{id}: {fault}"));
        usage.merge(Usage::read(dialect, &payload, &doc));
        for string in &doc.strings {
            if let Some(lane) = dialect.lane(piece.event.as_deref(), &payload, &doc, string) {
                let text = String::from_utf8(doc.text(&payload, string).into_owned()).unwrap();
                lanes.entry(lane).or_default().push_str(&text);
            }
        }
        let told = |kind: &str| doc.str_at(&payload, &["type"]).as_deref() == Some(kind);
        for (kind, member) in [
            ("response.output_text.done", "text"),
            ("response.reasoning_summary_text.done", "text"),
            ("response.function_call_arguments.done", "arguments"),
        ] {
            finals
                .extend(doc.str_at(&payload, &[member]).filter(|_| told(kind)).map(|text| text.into_owned()));
        }
    }
    (lanes, usage, finals)
}
