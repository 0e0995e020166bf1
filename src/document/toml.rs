//! TOML text into a document, every key with its line and column.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Map;
use serde_json::Number;
use serde_json::Value;
use toml::de::DeTable;
use toml::de::DeValue;

use crate::document::Document;
use crate::document::Fault;
use crate::document::Place;
use crate::document::Problem;
use crate::document::patch::child;

/// Reads TOML text; `source` is the name that faults give the file.
///
/// # Errors
///
/// Every syntax error the parser could find in one pass.
pub fn parse(text: &str, source: &str) -> Result<Document, Vec<Fault>> {
    let reader = Reader { text, source: source.into() };
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(errors.iter().map(|error| reader.syntax(error.message(), error.span())).collect());
    }
    let mut document = Document::default();
    let mut faults = Vec::new();
    let root = reader.table(table.get_ref(), "", &mut document, &mut faults);
    *document.root_mut() = root;
    if faults.is_empty() { Ok(document) } else { Err(faults) }
}

/// Reads one value as it would stand behind `key = `; `None` if it is no TOML value.
pub fn parse_value(text: &str) -> Option<Value> {
    let line = format!("value = {text}");
    let mut document = parse(&line, "").ok()?;
    let only = document.root().len() == 1;
    document.root_mut().remove("value").filter(|_| only)
}

struct Reader<'a> {
    text: &'a str,
    source: Arc<str>,
}

impl Reader<'_> {
    fn table(
        &self,
        table: &DeTable<'_>,
        path: &str,
        document: &mut Document,
        faults: &mut Vec<Fault>,
    ) -> Map<String, Value> {
        let mut values = Map::new();
        for (key, value) in table {
            let path = child(path, key.get_ref());
            document.places_mut().put(path.clone(), self.place(key.span()));
            let value = self.value(value.get_ref(), &path, document, faults);
            values.insert(key.get_ref().to_string(), value);
        }
        values
    }

    fn value(
        &self,
        value: &DeValue<'_>,
        path: &str,
        document: &mut Document,
        faults: &mut Vec<Fault>,
    ) -> Value {
        match value {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Boolean(flag) => Value::Bool(*flag),
            DeValue::Datetime(moment) => Value::String(moment.to_string()),
            DeValue::Integer(number) => {
                let parsed = i64::from_str_radix(number.as_str(), number.radix());
                self.number(parsed.ok().map(Number::from), path, document, faults)
            }
            DeValue::Float(number) => {
                let parsed: Option<f64> = number.as_str().parse().ok();
                self.number(parsed.and_then(Number::from_f64), path, document, faults)
            }
            DeValue::Table(table) => Value::Object(self.table(table, path, document, faults)),
            DeValue::Array(items) => {
                let item = |(at, item): (usize, &toml::Spanned<DeValue<'_>>)| {
                    let path = format!("{path}[{at}]");
                    document.places_mut().put(path.clone(), self.place(item.span()));
                    self.value(item.get_ref(), &path, document, faults)
                };
                Value::Array(items.iter().enumerate().map(item).collect())
            }
        }
    }

    fn number(
        &self,
        number: Option<Number>,
        path: &str,
        document: &Document,
        faults: &mut Vec<Fault>,
    ) -> Value {
        number.map(Value::Number).unwrap_or_else(|| {
            let place = document.places().of(path).cloned();
            let problem = Problem::WrongType { expected: "a finite number of 64 bits" };
            faults.push(Fault { place, key: path.to_owned(), problem });
            Value::Null
        })
    }

    fn syntax(&self, message: &str, span: Option<Range<usize>>) -> Fault {
        let place = match span {
            Some(span) => self.place(span),
            None => Place { source: self.source.clone(), line: None, column: None },
        };
        let message = message.lines().collect::<Vec<_>>().join("; ");
        Fault { place: Some(place), key: String::new(), problem: Problem::Syntax { message } }
    }

    fn place(&self, span: Range<usize>) -> Place {
        let start = span.start.min(self.text.len());
        let before = self.text.as_bytes().get(..start).unwrap_or_default();
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        // Continuation bytes are no characters of their own.
        let in_line = before.get(line_start..).unwrap_or_default();
        let column = in_line.iter().filter(|byte| **byte & 0xC0 != 0x80).count() + 1;
        Place { source: self.source.clone(), line: Some(line), column: Some(column) }
    }
}
