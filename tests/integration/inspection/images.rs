//! Images and sound in base64: they pass as they are, whatever their base64 spells.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis::policy::decision::Action;
use serde_json::Value;
use serde_json::json;

use super::Bench;
use super::Case;
use super::policy_of_all;

/// What base64 may spell by chance.
const KEY: &str = "AKIAQX7MZ3RTNV5WKP2D";

type Body = fn(&str) -> Value;

fn bodies() -> [(&'static str, Case<'static>, Body); 10] {
    [
        (
            "chat",
            Case::request("all", "openai"),
            |it| json!({ "model": "m", "messages": [{ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{it}") } }] }] }),
        ),
        (
            "sound",
            Case::request("all", "openai"),
            |it| json!({ "model": "m", "messages": [{ "role": "user", "content": [{ "type": "input_audio", "input_audio": { "data": it, "format": "wav" } }] }] }),
        ),
        (
            "responses",
            Case::request("all", "openai"),
            |it| json!({ "model": "m", "input": [{ "role": "user", "content": [{ "type": "input_image", "image_url": format!("data:image/jpeg;base64,{it}") }] }] }),
        ),
        ("made", Case::response("all", "openai"), |it| json!({ "created": 1, "data": [{ "b64_json": it }] })),
        (
            "said",
            Case::response("all", "openai"),
            |it| json!({ "choices": [{ "index": 0, "message": { "role": "assistant", "audio": { "data": it } } }] }),
        ),
        (
            "drawn",
            Case::response("all", "openai"),
            |it| json!({ "object": "response", "output": [{ "type": "image_generation_call", "result": it }] }),
        ),
        (
            "messages",
            Case::request("all", "anthropic"),
            |it| json!({ "model": "m", "messages": [{ "role": "user", "content": [{ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": it } }] }] }),
        ),
        (
            "gemini",
            Case::request("all", "gemini"),
            |it| json!({ "contents": [{ "role": "user", "parts": [{ "inlineData": { "mimeType": "image/png", "data": it } }] }] }),
        ),
        (
            "gemini, drawn",
            Case::response("all", "gemini"),
            |it| json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "inlineData": { "mimeType": "image/png", "data": it } }] } }] }),
        ),
        (
            "ollama",
            Case::request("all", "ollama"),
            |it| json!({ "model": "m", "messages": [{ "role": "user", "content": "What is it?", "images": [it] }] }),
        ),
    ]
}

/// Such an image was refused, or came with a mask in its midst.
#[test]
fn what_is_binary_passes_whatever_its_base64_spells() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let image = format!("iVBORw0KGgoAAAANSUhEUgAA+/+/{KEY}+/+/{}", "/+8A".repeat(64));
    assert_eq!(STANDARD.decode(&image).expect("base64")[..4], *b"\x89PNG");
    let told = STANDARD.encode(format!("It is {KEY} so."));
    let words = format!("It is the key that was told here: {KEY} and nothing else. ").repeat(6);
    let mixed = STANDARD.encode([words.as_bytes(), b"\xff\x00"].concat());
    for (name, case, body) in bodies() {
        let judged = |body: &Value| {
            let judged = bench.whole(case, &mut bench.vault(), body.to_string().as_bytes());
            let out = judged.cleared.map(|cleared| cleared.into_bytes().to_vec()).unwrap_or_default();
            (judged.action, String::from_utf8(out).expect("UTF-8"))
        };
        let sent = body(&image);
        assert_eq!(judged(&sent), (Action::Allow, sent.to_string()), "{name}");
        // Text in its place is read, in base64 or not, and beside an image.
        for text in [told.as_str(), KEY, &format!("{image}, {KEY}"), &format!("{image} {KEY}")] {
            assert_eq!(judged(&body(text)).0, Action::Redact, "{name}: {text}");
        }
        // Within a file nothing can be masked.
        assert_eq!(judged(&body(&mixed)).0, Action::Block, "{name}");
    }
}
