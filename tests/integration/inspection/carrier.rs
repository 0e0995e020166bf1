//! Places of a stream in which text arrives in pieces: how to write them, and how a client reads them back.

use portcullis::llm::stream::StreamFormat;
use serde_json::Value;

/// One such place of one API.
#[derive(Clone, Copy, Debug)]
pub struct Carrier {
    pub name: &'static str,
    pub dialect: &'static str,
    pub format: StreamFormat,
    /// The name of its events, where they have one.
    event: &'static str,
    /// The payload before and after the quoted text.
    before: &'static str,
    after: &'static str,
    /// Where the text is.
    pointer: &'static str,
    /// What the provider sends at the end.
    end: &'static str,
}

/// Every place that is written in pieces, of every API.
pub const CARRIERS: [Carrier; 20] = [
    openai(
        "chat content",
        r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"#,
        "/choices/0/delta/content",
    ),
    openai(
        "chat reasoning",
        r#"{"choices":[{"index":0,"delta":{"reasoning_content":"#,
        "/choices/0/delta/reasoning_content",
    ),
    openai("chat refusal", r#"{"choices":[{"index":0,"delta":{"refusal":"#, "/choices/0/delta/refusal"),
    Carrier {
        after: "}}]}}]}",
        ..openai(
            "chat tool call",
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":2,"function":{"arguments":"#,
            "/choices/0/delta/tool_calls/0/function/arguments",
        )
    },
    Carrier { after: "}]}", ..openai("completions", r#"{"choices":[{"index":0,"text":"#, "/choices/0/text") },
    responses(
        "output_text",
        "response.output_text.delta",
        r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"#,
    ),
    responses(
        "refusal",
        "response.refusal.delta",
        r#"{"type":"response.refusal.delta","output_index":0,"content_index":0,"delta":"#,
    ),
    responses(
        "arguments",
        "response.function_call_arguments.delta",
        r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"#,
    ),
    responses(
        "reasoning",
        "response.reasoning_text.delta",
        r#"{"type":"response.reasoning_text.delta","output_index":0,"content_index":0,"delta":"#,
    ),
    responses(
        "summary",
        "response.reasoning_summary_text.delta",
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"#,
    ),
    anthropic(
        "text",
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"#,
        "/delta/text",
    ),
    anthropic(
        "tool input",
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"#,
        "/delta/partial_json",
    ),
    anthropic(
        "thinking",
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"#,
        "/delta/thinking",
    ),
    gemini("gemini part", StreamFormat::Sse, r#"{"candidates":[{"content":{"parts":[{"text":"#),
    gemini(
        "gemini thought",
        StreamFormat::Sse,
        r#"{"candidates":[{"content":{"parts":[{"thought":true,"text":"#,
    ),
    gemini("gemini array", StreamFormat::JsonArray, r#"{"candidates":[{"content":{"parts":[{"text":"#),
    ollama(
        "ollama chat",
        r#"{"model":"m","message":{"role":"assistant","content":"#,
        r#"},"done":false}"#,
        "/message/content",
    ),
    ollama(
        "ollama thinking",
        r#"{"model":"m","message":{"role":"assistant","thinking":"#,
        r#"},"done":false}"#,
        "/message/thinking",
    ),
    ollama("ollama generate", r#"{"model":"m","response":"#, r#","done":false}"#, "/response"),
    Carrier { dialect: "generic", after: "}", ..openai("generic", r#"{"kind":"piece","text":"#, "/text") },
];

const fn openai(name: &'static str, before: &'static str, pointer: &'static str) -> Carrier {
    let format = StreamFormat::Sse;
    let (after, end) = ("}}]}", "[DONE]");
    Carrier { name, dialect: "openai", format, event: "", before, after, pointer, end }
}

const fn responses(name: &'static str, event: &'static str, before: &'static str) -> Carrier {
    let end = r#"{"type":"response.completed","response":{"id":"r","output":[]}}"#;
    let format = StreamFormat::Sse;
    Carrier { name, dialect: "openai", format, event, before, after: "}", pointer: "/delta", end }
}

const fn anthropic(name: &'static str, before: &'static str, pointer: &'static str) -> Carrier {
    let end = r#"{"type":"message_stop"}"#;
    let (format, event) = (StreamFormat::Sse, "content_block_delta");
    Carrier { name, dialect: "anthropic", format, event, before, after: "}}", pointer, end }
}

const fn gemini(name: &'static str, format: StreamFormat, before: &'static str) -> Carrier {
    let end = r#"{"candidates":[{"finishReason":"STOP","index":0}]}"#;
    let pointer = "/candidates/0/content/parts/0/text";
    let after = r#"}]},"index":0}]}"#;
    Carrier { name, dialect: "gemini", format, event: "", before, after, pointer, end }
}

const fn ollama(
    name: &'static str,
    before: &'static str,
    after: &'static str,
    pointer: &'static str,
) -> Carrier {
    let end = r#"{"model":"m","message":{"role":"assistant","content":""},"response":"","done":true}"#;
    Carrier { name, dialect: "ollama", format: StreamFormat::Ndjson, event: "", before, after, pointer, end }
}

impl Carrier {
    /// Writes one piece of text as the provider's event.
    pub fn event(&self, text: &str) -> String {
        let quoted = serde_json::to_string(text).expect("text");
        self.framed(self.event, &format!("{}{quoted}{}", self.before, self.after))
    }

    /// Writes the pieces of a text as a whole stream.
    pub fn stream(&self, pieces: &[&str]) -> String {
        let events: Vec<String> = pieces.iter().map(|piece| self.event(piece)).chain([self.end()]).collect();
        match self.format {
            StreamFormat::JsonArray => format!("[{}]\n", events.join(",\n")),
            StreamFormat::Sse
            | StreamFormat::Ndjson
            | StreamFormat::TypedLines
            | StreamFormat::AmazonEvents
            | StreamFormat::Text => events.concat(),
        }
    }

    fn end(&self) -> String {
        self.framed(if self.event.starts_with("response.") { "response.completed" } else { "" }, self.end)
    }

    fn framed(&self, event: &str, payload: &str) -> String {
        match self.format {
            StreamFormat::Sse if event.is_empty() => format!("data: {payload}\n\n"),
            StreamFormat::Sse => format!("event: {event}\ndata: {payload}\n\n"),
            StreamFormat::Ndjson => format!("{payload}\n"),
            // Frames are no text: `frames` has their tests, `typed` those of typed lines, `plain` those of texts.
            StreamFormat::JsonArray
            | StreamFormat::TypedLines
            | StreamFormat::AmazonEvents
            | StreamFormat::Text => payload.to_owned(),
        }
    }

    /// Returns the text that a client puts together from what it got.
    pub fn read(&self, stream: &[u8]) -> String {
        let stream = std::str::from_utf8(stream).expect("UTF-8");
        let payloads: Vec<Value> = match self.format {
            StreamFormat::Sse => {
                let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
                data.filter(|data| *data != "[DONE]").map(json).collect()
            }
            StreamFormat::Ndjson
            | StreamFormat::TypedLines
            | StreamFormat::AmazonEvents
            | StreamFormat::Text => stream.lines().map(json).collect(),
            StreamFormat::JsonArray => elements(stream),
        };
        payloads.iter().filter_map(|payload| payload.pointer(self.pointer)?.as_str()).collect()
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("not JSON: {text}"))
}

/// Reads the elements of an array that may not have come to its end.
fn elements(stream: &str) -> Vec<Value> {
    let mut all = Vec::new();
    let mut rest = stream.trim_start_matches(['[', ',', '\n', ' ']);
    while rest.starts_with('{') {
        let mut parser = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let element = parser.next().expect("an element").unwrap_or_else(|_| panic!("not JSON: {rest}"));
        rest = rest[parser.byte_offset()..].trim_start_matches([',', '\n', ' ']);
        all.push(element);
    }
    all
}
