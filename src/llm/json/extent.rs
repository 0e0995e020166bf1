//! Where an object or array lies in its body: the walker keeps that of strings and numbers only.

use std::ops::Range;

use super::Document;
use super::JsonString;

impl Document {
    /// Returns the bytes of the object or array that a key names; none for any other value.
    pub fn container_of(&self, body: &[u8], key: &JsonString) -> Option<Range<usize>> {
        if !key.key || !(self.is_object(key.node) || self.is_array(key.node)) {
            return None;
        }
        let opening = |byte: &u8| matches!(byte, b'{' | b'[');
        let start = key.raw.end + body.get(key.raw.end..)?.iter().position(opening)?;
        let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
        for (at, byte) in body.iter().enumerate().skip(start) {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = in_string,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(start..at + 1);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::JsonLimits;
    use super::super::walk;

    #[test]
    fn containers_are_found_with_their_brackets() {
        let body = br#"{"a" : [1,"]\"]",{"b":{}}], "c":{"d":"}"},"e":"{}","f":null}"#;
        let doc = walk(body, &JsonLimits::STRICT).unwrap();
        let found = doc.strings.iter().filter_map(|key| doc.container_of(body, key));
        let found: Vec<&str> = found.map(|range| std::str::from_utf8(&body[range]).unwrap()).collect();
        assert_eq!(found, [r#"[1,"]\"]",{"b":{}}]"#, "{}", r#"{"d":"}"}"#]);
    }
}
