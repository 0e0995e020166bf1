//! JSON-RPC 2.0, as far as saying no needs it: whose answer a refusal is.

use serde::Deserialize;
use serde_json::value::RawValue;

/// The longest id that is taken over, in bytes.
const ID_BYTES_MAX: usize = 256;

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

/// Returns the id of a call as it is written, a text or a number; `None` where it has none.
pub fn id_of(body: &[u8]) -> Option<String> {
    let head: Head<'_> = serde_json::from_slice(body).ok()?;
    let id = head.id?.get();
    let is_id = id.starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit());
    (is_id && id.len() <= ID_BYTES_MAX).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_text_or_a_number() {
        for (body, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, Some("7")),
            (r#"{"id": "a\"b" ,"method":"ping"}"#, Some(r#""a\"b""#)),
            (r#"{"method":"notifications/cancelled","params":{"id":7}}"#, None),
            (r#"{"id":null}"#, None),
            (r#"{"id":{"a":1}}"#, None),
            (r#"[{"id":1}]"#, None),
            ("no JSON", None),
        ] {
            assert_eq!(id_of(body.as_bytes()).as_deref(), id, "{body}");
        }
        assert_eq!(id_of(format!(r#"{{"id":"{}"}}"#, "x".repeat(300)).as_bytes()), None);
    }
}
