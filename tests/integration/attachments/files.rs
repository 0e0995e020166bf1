//! Files where a dialect has them: their base64 is no text, and what is text in them is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::BLOCKING;
use super::JSON;
use super::assert_passes;
use super::bring;
use super::in_front_of;
use super::office::Entry;
use super::office::zip;
use super::pdf::framed;
use super::pdf::stream;
use crate::answers::recorded;
use crate::answers::send;
use crate::framing::secret;
use crate::gateway::Gateway;
use crate::upstream::Upstream;

/// What stands in most pictures of cameras: a profile of colours, with words in it.
const PROFILE: &[u8] =
    b"\xff\xd8\xff\xe2\x0c\x58ICC_PROFILE\x00\x01\x01Copyright (c) 1998 Example Colour Company\x00\x00desc\x00";

/// Returns bytes in whose base64 a key stands, by chance as it were: so many bytes behind the begin of a file.
fn by_chance(before: &[u8]) -> Vec<u8> {
    let signs = format!("ab+/{}/+ab", secret());
    let noise: Vec<u8> = (0..600_u32).map(|at| (at * at % 251) as u8 | 0x80).collect();
    let filling = vec![0xfe; 3 - before.len() % 3];
    [before, &filling, &noise, &STANDARD.decode(signs).expect("base64"), &noise].concat()
}

/// Sends a picture, with base64 as it is written by each of two clients: one escapes slashes.
fn show(gateway: &Gateway, picture: &[u8]) -> [u16; 2] {
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": [
        { "type": "image_url", "image_url": { "url": format!("data:image/jpeg;base64,{}", STANDARD.encode(picture)) } }] }] });
    let body = body.to_string();
    let status = |body: &str| send(gateway.proxy, "/v1/chat/completions", JSON, body.as_bytes()).status;
    [status(&body), status(&body.replace('/', "\\/"))]
}

#[test]
fn no_key_is_found_by_chance_in_the_base64_of_a_file() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = in_front_of(&upstream, BLOCKING);
    assert_eq!(show(&gateway, &by_chance(PROFILE)), [200, 200]);
    upstream.take();
    let mut file = framed(&[stream("/Subtype/Image", &by_chance(b""))]);
    // The bytes of the picture are written one place on until their base64 is aligned again.
    while !STANDARD.encode(&file).contains(&secret()) {
        file.insert(9, b' ');
    }
    assert_passes(&gateway, &upstream, &file, "application/pdf", true);
    let text = json!({ "model": "m", "messages": [{ "role": "user", "content": format!("Use {} now.", secret()) }] });
    assert_eq!(send(gateway.proxy, "/v1/chat/completions", JSON, text.to_string().as_bytes()).status, 403);
}

/// A tool gives back a screenshot within a text, say. Keys of that form begin with four letters and go on with any.
#[test]
fn no_key_of_a_loose_form_is_found_within_base64_in_a_text() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = in_front_of(&upstream, BLOCKING);
    let mut state = 7_u64;
    let mut sign = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"[(state >> 33) as usize % 62],
        )
    };
    let mut signs = |count: usize| (0..count).map(|_| sign()).collect::<String>();
    let (before, key, behind) = (signs(400), format!("AQEq{}", signs(96)), signs(400));
    let status = |text: String| {
        let body = json!({ "model": "m", "messages": [{ "role": "user", "content": text }] }).to_string();
        send(gateway.proxy, "/v1/chat/completions", JSON, body.as_bytes()).status
    };
    assert_eq!(status(format!("The log: {before}/{key}/{behind}.")), 200);
    assert_eq!(status(format!("The log: {before} {key} {behind}.")), 403);
    // A form that chance does not make counts wherever it stands.
    assert_eq!(status(format!("The log: {before}/{}/{behind}.", secret())), 403);
}

#[test]
fn what_is_words_in_a_picture_is_read() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = in_front_of(&upstream, BLOCKING);
    let described = format!("<x:xmpmeta><dc:description>Our key is {}</dc:description>", secret());
    let picture = [PROFILE, described.as_bytes(), &by_chance(b"")].concat();
    assert_eq!(show(&gateway, &picture), [403, 403]);
    let entry = recorded(&gateway, "exchange");
    assert!(entry["message"].as_str().unwrap_or_default().ends_with(", in document 1: words"), "{entry}");
    assert!(upstream.take().is_empty(), "what is refused reached the provider");
}

/// A file that begins as a document, and says more than a reader of such documents sees.
#[test]
fn what_a_reader_of_documents_passes_over_is_read() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = in_front_of(&upstream, BLOCKING);
    let key = secret();
    let whole = framed(&[stream("", b"")]);
    let begin = 9;
    let between = [&whole[..begin], format!("% {key}\n").as_bytes(), &whole[begin..]].concat();
    let behind = [&whole[..], format!("\nand use {key} for it\n").as_bytes()].concat();
    let none = format!("%PDF-1.7\nThis is a note about our key, which is {key}, and no document.\n");
    let about = format!("Über %PDF-1.7 haben wir nur das: {key}.\n");
    let files = [
        ("between", &between),
        ("behind", &behind),
        ("none", &none.into_bytes()),
        ("about", &about.into_bytes()),
        (
            "in a picture",
            &[PROFILE, b"%PDF-1.7 by our camera\nwhose key is ", key.as_bytes(), b"\x01"].concat(),
        ),
    ];
    let archive = zip(&[Entry::stored("a.txt", b"All is well.")]);
    let before =
        [format!("Before an archive stands our key, {key}, in some words.").as_bytes(), &archive].concat();
    for (what, file) in files.into_iter().chain([("before", &before)]) {
        let answer = bring(&gateway, file);
        assert_eq!(answer.status, 403, "{what}: {}", answer.text());
    }
}

/// Bytes of a picture within a document are no text, unless whoever brings it calls all of it one.
#[test]
fn a_file_that_is_called_a_text_is_read_as_one() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = in_front_of(&upstream, BLOCKING);
    let said = format!("Our key is {}, keep it.", secret());
    let data = STANDARD.encode(framed(&[stream("/Subtype/Image", said.as_bytes())]));
    let bring = |media_type: &str| {
        let source = json!({ "type": "base64", "media_type": media_type, "data": data });
        let body = json!({ "model": "m", "max_tokens": 9, "messages": [{ "role": "user", "content": [{ "type": "document", "source": source }] }] });
        send(gateway.proxy, "/v1/messages", JSON, body.to_string().as_bytes()).status
    };
    assert_eq!(["application/pdf", "text/plain", "Text/Markdown; charset=utf-8"].map(bring), [200, 403, 403]);
}

#[test]
fn documents_pass_unread_where_a_policy_says_so() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = in_front_of(&upstream, &format!("documents = \"pass\"\n{BLOCKING}"));
    let text = format!("BT /F1 12 Tf 72 700 Td (use {}) Tj ET", secret());
    let file = framed(&[stream("", text.as_bytes())]);
    assert_passes(&gateway, &upstream, &file, "application/pdf", true);
}
