//! The tools that a body defines, wherever its API has them, and what each definition says.
//!
//! Places: `tools`, `functions` (OpenAI), `tools` (Anthropic), `tools[].functionDeclarations` (Gemini),
//! `toolConfig.tools[].toolSpec` (Bedrock), `result.tools` (MCP `tools/list`), `mcp_list_tools` items and `mcp` servers
//! of OpenAI's Responses, and `session.tools` and `response.tools` of its Realtime.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use super::json::Document;
use super::json::NodeId;

/// The most tools of one body that are looked at.
pub const TOOLS_MAX: usize = 512;

/// The longest name of a tool, in bytes; what is longer is no name.
pub const TOOL_NAME_BYTES_MAX: usize = 256;

/// What providers' clients change without meaning another tool by it: where a cache begins, and with which token a server is
/// called.
const VOLATILE: [&str; 3] = ["authorization", "cache_control", "headers"];

/// Where requests list the tools that they define.
const REQUESTED: [&[&str]; 5] =
    [&["tools"], &["functions"], &["toolConfig", "tools"], &["session", "tools"], &["response", "tools"]];

/// One definition of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolDefinition<'a> {
    /// The server it comes from, where the body tells; else empty.
    pub origin: Cow<'a, str>,
    /// Its name.
    pub name: Cow<'a, str>,
    /// The definition as it stands in the body, from brace to brace.
    pub raw: &'a [u8],
}

impl ToolDefinition<'_> {
    /// Returns the definition with its keys in order and without what does not belong to the tool; `None` when it
    /// is no JSON.
    pub fn canonical(&self) -> Option<Vec<u8>> {
        let mut value: Value = serde_json::from_slice(self.raw).ok()?;
        let members = value.as_object_mut()?;
        VOLATILE.iter().for_each(|key| drop(members.remove(*key)));
        let mut text = Vec::with_capacity(self.raw.len());
        write_ordered(&value, &mut text)?;
        Some(text)
    }
}

/// Returns what a message of JSON-RPC calls, or each of a batch, at most [`TOOLS_MAX`]: the tool of MCP's `tools/call`, else
/// the method; names at most [`TOOL_NAME_BYTES_MAX`] long, each once, in order.
pub fn called(body: &[u8], document: &Document) -> BTreeSet<String> {
    let messages = match document.is_array(NodeId::ROOT) {
        true => document.children(NodeId::ROOT).take(TOOLS_MAX).collect(),
        false => vec![NodeId::ROOT],
    };
    messages.into_iter().filter_map(|message| called_by(body, document, message)).collect()
}

fn called_by(body: &[u8], document: &Document, message: NodeId) -> Option<String> {
    let child = |of, name| document.child(body, of, name);
    let method = document.str_of(body, child(message, "method")?)?;
    let name = match method.as_ref() {
        "tools/call" => document.str_of(body, child(child(message, "params")?, "name")?)?,
        _ => method,
    };
    (1..=TOOL_NAME_BYTES_MAX).contains(&name.len()).then(|| name.into_owned())
}

/// Returns the tools that a request defines, at most [`TOOLS_MAX`], in its order.
pub fn requested<'a>(body: &'a [u8], document: &Document) -> Vec<ToolDefinition<'a>> {
    let mut search = Search { body, document, found: Vec::new() };
    for list in REQUESTED {
        search.list(document.find(body, list), "");
    }
    search.items("input");
    search.found
}

/// Returns the tools that a response offers, at most [`TOOLS_MAX`], in its order.
///
/// A `tools` of its own is none of them: it repeats the request's, with defaults filled in.
pub fn offered<'a>(body: &'a [u8], document: &Document) -> Vec<ToolDefinition<'a>> {
    let mut search = Search { body, document, found: Vec::new() };
    search.list(document.find(body, &["result", "tools"]), "");
    search.items("output");
    search.found
}

struct Search<'a, 'd> {
    body: &'a [u8],
    document: &'d Document,
    found: Vec<ToolDefinition<'a>>,
}

impl<'a> Search<'a, '_> {
    /// Looks into the items of a conversation, each the list of one server.
    fn items(&mut self, items: &str) {
        let (body, document) = (self.body, self.document);
        let items = document.child(body, NodeId::ROOT, items).filter(|items| document.is_array(*items));
        for item in items.into_iter().flat_map(|items| document.children(items)) {
            let Some(tools) = document.child(body, item, "tools") else { continue };
            let origin = self.text(item, "server_label").unwrap_or_default();
            self.list(Some(tools), &origin);
        }
    }

    fn list(&mut self, list: Option<NodeId>, origin: &str) {
        let (body, document) = (self.body, self.document);
        let Some(list) = list.filter(|list| document.is_array(*list)) else { return };
        for element in document.children(list) {
            let nested = ["functionDeclarations", "function_declarations"];
            let nested = nested.into_iter().find_map(|key| document.child(body, element, key));
            match nested {
                Some(nested) => self.list(Some(nested), origin),
                None => self.one(element, origin),
            }
        }
    }

    fn one(&mut self, element: NodeId, origin: &str) {
        let inside = ["function", "toolSpec"];
        let inside = inside.into_iter().find_map(|key| self.document.child(self.body, element, key));
        let name = self.text(inside.unwrap_or(element), "name");
        let name = name.or_else(|| self.text(element, "server_label"));
        let named = name.filter(|name| (1..=TOOL_NAME_BYTES_MAX).contains(&name.len()));
        if let (Some(name), Some(raw)) = (named, self.raw(element))
            && self.found.len() < TOOLS_MAX
        {
            self.found.push(ToolDefinition { origin: Cow::Owned(origin.to_owned()), name, raw });
        }
    }

    fn text(&self, node: NodeId, key: &str) -> Option<Cow<'a, str>> {
        self.document.str_of(self.body, self.document.child(self.body, node, key)?)
    }

    /// Returns the bytes of an object that has at least one member.
    fn raw(&self, object: NodeId) -> Option<&'a [u8]> {
        let (body, document) = (self.body, self.document);
        let end = document.nodes.get(object.0 as usize)?.end;
        let from = document.strings.partition_point(|string| string.node.0 <= object.0);
        let to = document.strings.partition_point(|string| string.node.0 < end);
        let inside = document.strings.get(from..to)?;
        let (first, last) = (inside.first()?, inside.last()?);
        let before = body.get(..first.raw.start.checked_sub(1)?)?.trim_ascii_end();
        let start = before.len().checked_sub(1).filter(|at| before.get(*at) == Some(&b'{'))?;
        // Behind the last string there is none; only brackets tell where the object ends.
        let above = std::iter::successors(document.parent(last.node), |node| document.parent(*node));
        let mut open = above.take_while(|node| *node != object).count() + 1;
        let behind = last.raw.end + 1;
        for (at, byte) in body.get(behind..)?.iter().enumerate() {
            match byte {
                b'{' | b'[' => open += 1,
                b'}' | b']' => open -= 1,
                _ => {}
            }
            if open == 0 {
                return body.get(start..behind + at + 1);
            }
        }
        None
    }
}

/// Writes a value with the keys of all objects in order, so that equal definitions have equal bytes.
fn write_ordered(value: &Value, out: &mut Vec<u8>) -> Option<()> {
    match value {
        Value::Object(members) => {
            let mut keys: Vec<&String> = members.keys().collect();
            keys.sort();
            out.push(b'{');
            for key in keys {
                serde_json::to_writer(&mut *out, key).ok()?;
                out.push(b':');
                write_ordered(members.get(key)?, out)?;
                out.push(b',');
            }
            out.push(b'}');
        }
        Value::Array(elements) => {
            out.push(b'[');
            for element in elements {
                write_ordered(element, out)?;
                out.push(b',');
            }
            out.push(b']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            serde_json::to_writer(&mut *out, value).ok()?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::json::JsonLimits;
    use crate::llm::json::walk;

    fn names(body: &str) -> Vec<(String, String, String)> {
        let document = walk(body.as_bytes(), &JsonLimits::STRICT).unwrap();
        let mut found = requested(body.as_bytes(), &document);
        found.extend(offered(body.as_bytes(), &document));
        let row = |tool: &ToolDefinition<'_>| {
            let raw = String::from_utf8(tool.raw.to_vec()).unwrap();
            (tool.origin.to_string(), tool.name.to_string(), raw)
        };
        found.iter().map(row).collect()
    }

    #[test]
    fn a_batch_tells_all_that_it_calls() {
        let cases: [(&str, &[&str]); 5] = [
            (r#"{"method":"tools/call","params":{"name":"book"}}"#, &["book"]),
            (r#"{"method":"message/send","params":{"name":"book"}}"#, &["message/send"]),
            (
                r#"[{"method":"tools/call","params":{"name":"pay"}},1,{"method":"tools/list"},
                    {"method":"tools/call","params":{"name":"book"}},{"id":1},
                    {"method":"tools/call","params":{"name":"pay"}}]"#,
                &["book", "pay", "tools/list"],
            ),
            (r#"{"method":"tools/call"}"#, &[]),
            ("[]", &[]),
        ];
        for (body, expected) in cases {
            let document = walk(body.as_bytes(), &JsonLimits::STRICT).unwrap();
            assert_eq!(Vec::from_iter(called(body.as_bytes(), &document)), expected, "{body}");
        }
    }

    #[test]
    fn every_api_tells_its_tools() {
        let tool = r#"{"name":"a","enum":[1,[2]],"x":{"y":[]}}"#;
        let cases = [
            (r#"{"tools":[TOOL,{"type":"web_search"}]}"#, "", "a", tool.to_owned()),
            (r#"{"functions":[ TOOL ]}"#, "", "a", tool.to_owned()),
            (r#"{"type":"session.update","session":{"tools":[TOOL]}}"#, "", "a", tool.to_owned()),
            (r#"{"type":"response.create","response":{"tools":[TOOL]}}"#, "", "a", tool.to_owned()),
            (r#"{"result":{"tools":[TOOL]},"id":1}"#, "", "a", tool.to_owned()),
            (r#"{"tools":[{"functionDeclarations":[TOOL]}]}"#, "", "a", tool.to_owned()),
            (
                r#"{"input":[{"type":"mcp_list_tools","server_label":"s","tools":[TOOL]}]}"#,
                "s",
                "a",
                tool.to_owned(),
            ),
            (
                r#"{"tools":[{"function":TOOL,"type":"function"}]}"#,
                "",
                "a",
                format!(r#"{{"function":{tool},"type":"function"}}"#),
            ),
            (r#"{"toolConfig":{"tools":[{"toolSpec":TOOL}]}}"#, "", "a", format!(r#"{{"toolSpec":{tool}}}"#)),
            (
                r#"{"tools":[{"type":"mcp","server_label":"m"}]}"#,
                "",
                "m",
                r#"{"type":"mcp","server_label":"m"}"#.to_owned(),
            ),
        ];
        for (body, origin, name, raw) in cases {
            let body = body.replace("TOOL", tool);
            assert_eq!(names(&body), [(origin.to_owned(), name.to_owned(), raw)], "{body}");
        }
        for none in [
            r#"{"tools":[]}"#,
            r#"{"tools":{"a":{"name":"b"}}}"#,
            r#"{"messages":[{"name":"a"}]}"#,
            "[1]",
            r#"{"tools":[{}]}"#,
        ] {
            assert_eq!(names(none), [], "{none}");
        }
    }

    #[test]
    fn a_definition_is_the_same_in_any_order_and_with_any_cache_mark() {
        let canonical = |raw: &str| {
            ToolDefinition { origin: "".into(), name: "a".into(), raw: raw.as_bytes() }.canonical()
        };
        let one = canonical(r#"{"name":"a","p":{"x":1,"y":"é"}}"#);
        assert!(one.is_some());
        assert_eq!(
            one,
            canonical(r#"{ "p": {"y": "\u00e9", "x": 1}, "name": "a", "cache_control": {"type": "e"} }"#)
        );
        assert_ne!(one, canonical(r#"{"name":"a","p":{"x":2,"y":"é"}}"#));
        assert_ne!(canonical(r#"{"a":["b","c"]}"#), canonical(r#"{"a":["bc"]}"#));
    }
}
