//! Puts hidden values back into a whole body.

use bytes::Bytes;

use crate::llm::json::JsonLimits;
use crate::llm::json::escape_into;
use crate::llm::json::walk;
use crate::redact::restore::Inside;
use crate::redact::restore::restore;
use crate::redact::splice::Edit;
use crate::redact::splice::splice;
use crate::redact::token::PLACEHOLDER_PREFIX;
use crate::redact::token::Vault;

impl Vault {
    /// Returns the body with this exchange's placeholders turned back, in every string of a JSON body, escaped for
    /// where they stand; in the text itself when it is no JSON. Strings without a placeholder keep their bytes.
    pub fn restore_body(&self, body: Bytes) -> Bytes {
        let concerned = |text: &[u8]| memchr::memmem::find(text, PLACEHOLDER_PREFIX.as_bytes()).is_some();
        if self.is_empty() || (!concerned(&body) && memchr::memchr(b'\\', &body).is_none()) {
            return body;
        }
        let Ok(doc) = walk(&body, &JsonLimits::STRICT) else { return self.restore_text(body) };
        let edits: Vec<Edit> = doc
            .strings
            .iter()
            .filter_map(|string| {
                let text = doc.text(&body, string);
                let text = std::str::from_utf8(&text).ok().filter(|text| concerned(text.as_bytes()))?;
                let restored = restore(self, text, inside(text));
                let mut replacement = Vec::with_capacity(restored.len());
                escape_into(&restored, &mut replacement);
                (restored != text).then(|| Edit { range: string.raw.clone(), replacement })
            })
            .collect();
        match edits.is_empty() {
            true => body,
            // Strings of one document are in order and apart; a fault leaves the placeholders.
            false => {
                splice(&body, &edits).map(|spliced| Bytes::from(spliced.into_owned())).unwrap_or(body.clone())
            }
        }
    }

    fn restore_text(&self, body: Bytes) -> Bytes {
        match std::str::from_utf8(&body) {
            Ok(text) => Bytes::from(restore(self, text, Inside::Text)),
            Err(_) => body,
        }
    }
}

/// A string that is JSON itself, such as a tool call's arguments, stays JSON.
fn inside(text: &str) -> Inside {
    let nested =
        text.trim_start().starts_with(['{', '[']) && walk(text.as_bytes(), &JsonLimits::STRICT).is_ok();
    if nested { Inside::Json } else { Inside::Text }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::*;
    use crate::redact::mask::TenantKey;

    #[test]
    fn values_come_back_escaped_for_where_they_stand() {
        let mut vault = Vault::new(TenantKey::derive(&[5; 32], "t"));
        let value = "O\"Brien\\\n";
        let token = vault.issue("name", value).unwrap();
        let arguments = json!({ "to": token }).to_string();
        let body = json!({ "text": format!("Hi {token}!"), "arguments": arguments, "n": 1.50 }).to_string();
        let restored: Value = serde_json::from_slice(&vault.restore_body(Bytes::from(body))).unwrap();
        assert_eq!(restored["text"], format!("Hi {value}!"));
        let arguments: Value = serde_json::from_str(restored["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(arguments["to"], value);
        let escaped = format!("[\"{}\"]", token.replacen('P', "\\u0050", 1));
        assert_eq!(vault.restore_body(Bytes::from(escaped)), json!([value]).to_string());
        assert_eq!(vault.restore_body(Bytes::from(format!("Hi {token}"))), format!("Hi {value}"));
    }

    #[test]
    fn other_bytes_stay() {
        let mut vault = Vault::new(TenantKey::derive(&[5; 32], "t"));
        let body = Bytes::from_static(b"{ \"a\":\"PII_\\u0041\", \"n\": 1.50 }");
        assert_eq!(vault.restore_body(body.clone()), body);
        vault.issue("name", "x").unwrap();
        assert_eq!(vault.restore_body(body.clone()), body);
        let broken = Bytes::from_static(b"PII_\xff");
        assert_eq!(vault.restore_body(broken.clone()), broken);
    }
}
