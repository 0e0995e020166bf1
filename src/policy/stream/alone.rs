//! What an event says that no later event continues: strings, and long numbers of tools.

use super::Held;
use super::Stop;
use super::StreamInspector;
use crate::llm::json::Document;
use crate::llm::json::JsonString;
use crate::llm::json::LongNumber;
use crate::llm::json::RawCursor;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::body::name_of_secret;
use crate::policy::inspect::member::holds_values;
use crate::policy::inspect::member::name_of_value;
use crate::policy::inspect::text::Written;
use crate::policy::inspect::text::as_number;
use crate::redact::splice::Edit;
use crate::redact::token::Vault;

impl StreamInspector {
    /// Scans one string of an event, under its name where that tells what it is.
    pub(super) fn scan_string(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
        (document, at): (&Document, usize),
        is_suspect: bool,
    ) -> Result<(), Stop> {
        let payload = held.payload.clone();
        let Some(string) = document.strings.get(at) else { return Ok(()) };
        let channel = inspector.dialect.channel(&payload, document, string);
        let text = document.text(&payload, string);
        let mut cursor = RawCursor::new(&payload, string);
        let is_message = inspector.dialect.is_between_peers();
        let name = name_of_secret(&payload, document, at).filter(|_| is_message);
        let name =
            name.or_else(|| is_suspect.then(|| name_of_value(&payload, document, string.node, channel))?);
        let masks = self.scan_alone(inspector, vault, (&name.unwrap_or_default(), &text), channel)?;
        held.edits.extend(masks.into_iter().map(|masked| {
            let range = held.piece.raw_range(cursor.raw_range(masked.range));
            Edit { range, replacement: Written::Json.write(&masked.text) }
        }));
        Ok(())
    }

    /// Scans the long numbers of tools' input and results.
    pub(super) fn scan_numbers(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
        document: &Document,
    ) -> Result<(), Stop> {
        let payload = held.payload.clone();
        for LongNumber { node, raw, digits } in document.long_numbers(&payload) {
            let number = JsonString { raw, escaped: false, key: false, node };
            let channel = inspector.dialect.channel(&payload, document, &number);
            if !holds_values(channel) {
                continue;
            }
            let name = name_of_value(&payload, document, node, channel).unwrap_or_default();
            let digits = payload.get(digits).unwrap_or_default();
            let masks = self.scan_alone(inspector, vault, (&name, digits), channel)?;
            held.edits.extend(as_number(masks, digits).into_iter().map(|masked| {
                let range = held.piece.raw_range(number.raw.clone());
                Edit { range, replacement: Written::Number.write(&masked.text) }
            }));
        }
        Ok(())
    }
}
