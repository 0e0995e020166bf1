//! What an event says that no later event continues: strings, and long numbers of tools.

use super::Held;
use super::Stop;
use super::StreamInspector;
use super::held::Segment;
use crate::llm::dialect::LaneKey;
use crate::llm::dialect::LaneKind;
use crate::llm::json::Document;
use crate::llm::json::JsonString;
use crate::llm::json::LongNumber;
use crate::llm::json::RawCursor;
use crate::policy::decision::Action;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::Observation;
use crate::policy::inspect::body::borders;
use crate::policy::inspect::body::name_of_secret;
use crate::policy::inspect::layer2;
use crate::policy::inspect::member::holds_values;
use crate::policy::inspect::member::name_of_value;
use crate::policy::inspect::text::Sheet;
use crate::policy::inspect::text::Written;
use crate::policy::inspect::text::as_number;
use crate::redact::nested::Origin;
use crate::redact::restore::Inside;
use crate::redact::splice::Edit;
use crate::redact::token::Vault;

/// A shorter begin of a text is hardly a value, in bytes.
const VALUE_BYTES_MIN: usize = 16;

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
        let stood = (channel, layer2::tool_of(channel, &payload, document, string));
        let masks = self.scan_alone(inspector, vault, (&name.unwrap_or_default(), &text), stood)?;
        held.edits.extend(masks.into_iter().map(|masked| {
            let range = held.piece.raw_range(cursor.raw_range(masked.range));
            Edit { range, replacement: Written::Json.write(&masked.text) }
        }));
        Ok(())
    }

    /// Scans the begin of a text that may be a piece or whole, where it stands right behind signs of the lane: a value
    /// that it begins with would be none behind those. What is put back, the lane puts back.
    pub(super) fn scan_begin(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
        (key, string): (&LaneKey, &JsonString),
        text: &[u8],
    ) -> Result<(), Stop> {
        let begin = text.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        if begin.len() < VALUE_BYTES_MIN || !self.is_behind_signs(key, begin) {
            return Ok(());
        }
        let payload = held.payload.clone();
        let mut cursor = RawCursor::new(&payload, string);
        let tool = self.by_key.get(key).and_then(|slot| self.tool_of(*slot));
        let masks = self.scan_alone(inspector, vault, (&[], begin), (key.channel, tool))?;
        let masks = masks.into_iter().filter(|masked| masked.origin == Origin::Mask);
        held.edits.extend(masks.map(|masked| {
            let range = held.piece.raw_range(cursor.raw_range(masked.range));
            Edit { range, replacement: Written::Json.write(&masked.text) }
        }));
        Ok(())
    }

    /// Tells whether a text begins with a word right behind what is no blank, if it goes on with what its lane has: in JSON
    /// signs part nothing from its value, and a word behind its end is of another text.
    fn is_behind_signs(&self, key: &LaneKey, text: &[u8]) -> bool {
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let entry = self.by_key.get(key).map(|slot| &self.lanes[*slot]).filter(|entry| !entry.is_whole);
        let Some(entry) = entry else { return false };
        let last = || entry.lane.value(&(entry.fed.checked_sub(1)?..entry.fed))?.last();
        let is_sign = |byte: &u8| match entry.inside {
            Some(Inside::Json) => matches!(byte, b'}' | b']'),
            Some(Inside::Text) | None => !byte.is_ascii_whitespace(),
        };
        text.first().is_some_and(is_word) && last().is_some_and(is_sign)
    }

    /// Scans what stands over the borders of the texts that an event says at once, as in a body.
    pub(super) fn scan_borders(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
        document: &Document,
    ) -> Result<(), Stop> {
        let is_piece = |it: &Segment, string: &JsonString| {
            // A text that begins here may be all that is said of it, beside another one.
            let may_be_whole = self.lanes[it.slot].kind == LaneKind::Stray || it.text.start == 0;
            !may_be_whole && it.string.raw == string.raw
        };
        let payload = held.payload.clone();
        // What repeats a part of a value that was told is masked when it leaves.
        let is_free = |string: &JsonString| {
            !held.segments.iter().any(|it| is_piece(it, string))
                && !self.parts.are_in(|| document.text(&payload, string))
        };
        let texts = borders::texts_of_event(&payload, document, is_free);
        if texts.len() < 2 {
            return Ok(());
        }
        let mut sheet = Sheet::new(inspector, vault);
        std::mem::swap(sheet.gathered(), &mut self.gathered);
        let read = borders::read_event(&mut sheet, (&payload, document), &texts);
        let observations = sheet.take_observations();
        if !observations.is_empty() {
            sheet.weigh();
        }
        std::mem::swap(sheet.gathered(), &mut self.gathered);
        read?;
        let edits = sheet.take_edits().into_iter();
        held.edits.extend(edits.map(|edit| Edit { range: held.piece.raw_range(edit.range), ..edit }));
        let weighed = sheet.take_observations();
        self.shadow.merge(sheet.take_shadow());
        self.observe(observations.into_iter().chain(weighed))
    }

    /// Notes what was observed in an event; what blocks stops the stream before it.
    pub(super) fn observe(&mut self, observations: impl Iterator<Item = Observation>) -> Result<(), Stop> {
        let told = self.observations.len();
        self.observations.extend(observations);
        let told = self.observations.get(told..).unwrap_or_default();
        let action = Action::strictest(told.iter().map(|observation| observation.action));
        self.action = self.action.max(action);
        if action == Action::Block { Err(Stop::Alone) } else { Ok(()) }
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
            let stood = (channel, layer2::tool_of(channel, &payload, document, &number));
            let masks = self.scan_alone(inspector, vault, (&name, digits), stood)?;
            held.edits.extend(as_number(masks, digits).into_iter().map(|masked| {
                let range = held.piece.raw_range(number.raw.clone());
                Edit { range, replacement: Written::Number.write(&masked.text) }
            }));
        }
        Ok(())
    }
}
