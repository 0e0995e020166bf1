//! What must hold for any bytes at all, one plain function for each parser of outside bytes.
//!
//! The fuzzer calls these functions, and so do ordinary tests, over the corpora and over mutations of them.

pub mod attachment;
pub mod audit;
pub mod backup;
pub mod config;
pub mod http;
pub mod identity;
pub mod json;
pub mod model;
pub mod plugin;
pub mod saml;
pub mod stream;
pub mod text;

/// What must hold for any bytes; it panics where it does not.
pub type Check = fn(&[u8]);

/// Every target: its name, which is that of its corpus, and what is checked.
pub const TARGETS: [(&str, Check); 37] = [
    ("agent", identity::agent),
    ("amazon_events", stream::amazon_events),
    ("array", stream::array),
    ("attachment", attachment::file),
    ("audit_segment", audit::segment),
    ("backup", backup::file),
    ("call", identity::call),
    ("card_toml", plugin::card),
    ("coding", http::coding),
    ("config_toml", config::gateway),
    ("cookies", identity::cookies),
    ("dialect_toml", plugin::dialect),
    ("framework_toml", plugin::framework),
    ("head", http::head),
    ("json", json::walk_and_splice),
    ("key_set", identity::key_set),
    ("lane", text::lane),
    ("license", identity::license),
    ("media_type", http::media_type),
    ("model", model::classifier),
    ("multipart", http::multipart),
    ("ndjson", stream::ndjson),
    ("pack_toml", config::pack),
    ("path", http::path),
    ("policy_toml", config::policy),
    ("rule_toml", plugin::rule),
    ("saml_address", saml::address),
    ("saml_response", saml::response),
    ("spelling", text::spelling),
    ("sse", stream::sse),
    ("tagger", model::tagger),
    ("text_stream", stream::text),
    ("token", identity::token),
    ("trace_parent", http::trace_parent),
    ("typed_lines", stream::typed_lines),
    ("websocket", stream::websocket),
    ("yaml", config::yaml),
];

/// Returns a few ways to cut `bytes` into pieces: bytewise, and in two at places that depend on the bytes.
pub fn cuttings(bytes: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut ways: Vec<Vec<&[u8]>> = vec![bytes.chunks(1).collect(), bytes.chunks(7).collect()];
    let sum =
        bytes.iter().fold(bytes.len(), |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    for at in [sum, sum / 7, sum / 49].map(|number| number % (bytes.len() + 1)) {
        let (head, tail) = bytes.split_at(at);
        ways.push(vec![head, tail]);
    }
    ways
}
