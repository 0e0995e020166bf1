//! YAML text into a document, every key with its line and column.
//!
//! What is read is the part of YAML that means the same to every reader: one document of mappings, lists and
//! scalars. Anchors, aliases, tags, merge keys and keys that are no plain text are refused, so that no text
//! unfolds into more than it says, and nothing is understood in two ways. A value left out is an empty table.

use std::sync::Arc;

use saphyr_parser::Event;
use saphyr_parser::Marker;
use saphyr_parser::Parser;
use saphyr_parser::ScalarStyle;
use saphyr_parser::StrInput;
use serde_json::Map;
use serde_json::Value;

use crate::document::Document;
use crate::document::Fault;
use crate::document::Place;
use crate::document::Problem;
use crate::document::patch::child;

/// The most scalars, lists and mappings of one text.
pub const NODES_MAX: usize = 200_000;
/// The deepest nesting.
pub const DEPTH_MAX: usize = 16;

/// Reads YAML text whose root is a mapping; `source` is the name that faults give the file.
///
/// # Errors
///
/// The first thing that is no YAML, or not of the part that is read.
pub fn parse(text: &str, source: &str) -> Result<Document, Vec<Fault>> {
    let parser = Parser::new_from_str(text);
    let mut reader = Reader { parser, source: source.into(), document: Document::default(), nodes: 0 };
    let root = reader.root().map_err(|fault| vec![fault])?;
    let Reader { mut document, .. } = reader;
    *document.root_mut() = root;
    Ok(document)
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    source: Arc<str>,
    document: Document,
    nodes: usize,
}

impl<'a> Reader<'a> {
    fn root(&mut self) -> Result<Map<String, Value>, Fault> {
        let mut root = Map::new();
        let mut documents = 0;
        loop {
            let (event, at) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(root),
                Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
                Event::DocumentStart(_) => {
                    documents += 1;
                    if documents > 1 {
                        return Err(self.refused(at, "expected one document"));
                    }
                }
                event => match self.value(event, at, "", 0)? {
                    Value::Object(table) => root = table,
                    _ => return Err(self.refused(at, "expected keys with values")),
                },
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Marker), Fault> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, span.start)),
            Some(Err(error)) => {
                let problem = Problem::Syntax { message: error.info().to_owned() };
                Err(Fault { place: Some(self.place(*error.marker())), key: String::new(), problem })
            }
            None => Ok((Event::StreamEnd, Marker::new(0, 1, 0))),
        }
    }

    fn value(&mut self, event: Event<'a>, at: Marker, path: &str, depth: usize) -> Result<Value, Fault> {
        self.nodes += 1;
        if self.nodes > NODES_MAX || depth > DEPTH_MAX {
            return Err(self.refused(at, "the text is too large or nested too deeply"));
        }
        match event {
            Event::Scalar(_, _, anchor, tag) if anchor != 0 || tag.is_some() => Err(self.unread(at)),
            Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag)
                if anchor != 0 || tag.is_some() =>
            {
                Err(self.unread(at))
            }
            Event::Scalar(text, style, ..) => Ok(scalar(&text, style)),
            Event::SequenceStart(..) => self.list(path, depth),
            Event::MappingStart(..) => self.table(path, depth),
            _ => Err(self.unread(at)),
        }
    }

    fn list(&mut self, path: &str, depth: usize) -> Result<Value, Fault> {
        let mut items = Vec::new();
        loop {
            let (event, at) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Value::Array(items));
            }
            let path = format!("{path}[{}]", items.len());
            self.put(&path, at);
            items.push(self.value(event, at, &path, depth + 1)?);
        }
    }

    fn table(&mut self, path: &str, depth: usize) -> Result<Value, Fault> {
        let mut table = Map::new();
        loop {
            let (event, at) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(Value::Object(table)),
                Event::Scalar(key, _, 0, None) if key != "<<" => key.into_owned(),
                _ => return Err(self.refused(at, "expected a plain text as the key")),
            };
            let path = child(path, &key);
            if table.contains_key(&key) {
                return Err(self.refused(at, "the key stands here twice"));
            }
            self.put(&path, at);
            let (event, at) = self.next()?;
            let value = self.value(event, at, &path, depth + 1)?;
            table.insert(key, value);
        }
    }

    fn put(&mut self, path: &str, at: Marker) {
        let place = self.place(at);
        self.document.places_mut().put(path.to_owned(), place);
    }

    fn unread(&self, at: Marker) -> Fault {
        self.refused(at, "anchors, aliases and tags are not read: write the value out")
    }

    fn refused(&self, at: Marker, reason: &str) -> Fault {
        let problem = Problem::Invalid { reason: reason.to_owned(), suggestion: None };
        Fault { place: Some(self.place(at)), key: String::new(), problem }
    }

    fn place(&self, at: Marker) -> Place {
        Place { source: self.source.clone(), line: Some(at.line()), column: Some(at.col() + 1) }
    }
}

/// Returns a scalar as YAML 1.2's core schema has it; what is quoted is text.
fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" => Value::Object(Map::new()),
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        text => text.parse::<i64>().map_or_else(|_| Value::String(text.to_owned()), Value::from),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fault(text: &str) -> String {
        parse(text, "m.yaml").unwrap_err()[0].to_string()
    }

    #[test]
    fn keys_have_lines() {
        let document =
            parse("# map\nagents:\n  a:\n    tier: developer\n    n: [x, \"1\", 2]\n  b:\n", "m.yaml");
        let document = document.unwrap();
        let expected = json!({"agents": {"a": {"tier": "developer", "n": ["x", "1", 2]}, "b": {}}});
        assert_eq!(document.to_json(), expected);
        let place = document.places().of("agents.a.tier").unwrap();
        assert_eq!((place.line, place.column), (Some(4), Some(5)));
        assert_eq!(document.places().of("agents.a.n[2]").unwrap().line, Some(5));
        assert_eq!(parse("", "m.yaml").unwrap().to_json(), json!({}));
    }

    #[test]
    fn what_unfolds_or_has_two_meanings_is_refused_with_its_line() {
        for (text, line) in [
            ("a: &x [1]\nb: *x\n", 1),
            ("a: 1\nb: *x\n", 2),
            ("a: !!str 1\n", 1),
            ("a: 1\na: 2\n", 2),
            ("a:\n  <<: {b: 1}\n", 2),
            ("? [a]\n: 1\n", 1),
            ("a: 1\n---\nb: 1\n", 2),
            ("- a\n", 1),
            ("a: [1\nb: 2\n", 2),
            ("a: \"x\n", 1),
        ] {
            assert!(fault(text).starts_with(&format!("m.yaml:{line}:")), "{text:?} {}", fault(text));
        }
        let deep = format!("a: {}", "[".repeat(100));
        assert!(fault(&deep).contains("nested too deeply"), "{}", fault(&deep));
    }
}
