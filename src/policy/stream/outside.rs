//! What an event says that is no JSON: its fields and comments, and payloads that are plain text.

use smallvec::SmallVec;

use super::Held;
use super::Stop;
use super::StreamInspector;
use super::held::edit;
use crate::llm::dialect::Channel;
use crate::llm::dialect::LaneKey;
use crate::llm::json::Document;
use crate::llm::json::JsonFault;
use crate::llm::json::JsonProblem;
use crate::llm::json::JsonString;
use crate::llm::json::NodeId;
use crate::llm::stream::StreamFormat;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::Unreadable;
use crate::policy::inspect::text::Written;
use crate::redact::splice::Edit;
use crate::redact::token::Vault;

impl StreamInspector {
    /// Scans what an event says beside its payload: names, ids, comments.
    pub(super) fn scan_outside(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
    ) -> Result<(), Stop> {
        let raw = held.piece.raw.clone();
        let mut from = 0;
        let ends = held.piece.data.iter().map(|data| (data.start, data.end)).chain([(raw.len(), raw.len())]);
        for (start, next) in ends {
            let outside = raw.get(from..start).unwrap_or_default();
            if outside.len() > b"data: ".len() {
                let masks = self.scan_alone(inspector, vault, (&[], outside), (Channel::Metadata, None))?;
                held.edits.extend(masks.into_iter().map(|masked| {
                    let range = masked.range.start + from..masked.range.end + from;
                    Edit { range, replacement: Written::Plain.write(&masked.text) }
                }));
            }
            from = next;
        }
        self.scan_remarks(inspector, vault, held)
    }

    /// Returns the text that an event's payload is a piece of, where it is one as it stands. What begins as an object, an
    /// array or a string of JSON does is none if it is that, or a faulty one: but the begin of one is, and behind other
    /// pieces what is none, or has no word in it.
    pub(super) fn plain_lane(
        &self,
        inspector: &Inspector<'_>,
        held: &Held,
        walked: &Result<Document, JsonFault>,
    ) -> Option<LaneKey> {
        let key = inspector.dialect.plain_lane(held.piece.event.as_deref())?;
        let is_begun = || self.by_key.contains_key(&key);
        let first = held.payload.trim_ascii_start().first();
        let is_piece = match (self.track.format(), first) {
            (StreamFormat::Text, _) => true,
            (StreamFormat::Sse, None) => is_begun() && !held.payload.is_empty(),
            (StreamFormat::Sse, Some(b'"' | b'{' | b'[')) => match walked {
                Ok(document) => is_begun() && (document.strings.is_empty() || !has_word(&held.payload)),
                Err(fault) => is_begun() || fault.problem == JsonProblem::UnexpectedEnd,
            },
            (StreamFormat::Sse, _) => true,
            _ => false,
        };
        is_piece.then_some(key)
    }

    /// Feeds a payload to the text that it is a piece of, as it stands; returns the lanes that it ends.
    pub(super) fn say_plain(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
        key: LaneKey,
    ) -> Result<SmallVec<[usize; 2]>, Stop> {
        let payload = held.payload.clone();
        if std::str::from_utf8(&payload).is_err() {
            return Err(Unreadable::NotText.into());
        }
        let string = JsonString { raw: 0..payload.len(), escaped: false, key: false, node: NodeId::ROOT };
        held.written =
            if self.track.format() == StreamFormat::Text { Written::Plain } else { Written::Lines };
        let told = self.observations.len();
        let is_over = self.by_key.get(&key).is_some_and(|slot| self.lanes[*slot].ended);
        if is_over {
            // Behind another event it may be a text of its own as well.
            let masks = self.scan_alone(inspector, vault, (&[], &payload), (key.channel, None))?;
            let (piece, written) = (&held.piece, held.written);
            held.edits
                .extend(masks.into_iter().map(|masked| edit(piece, written, masked.range, &masked.text)));
        }
        let fed = self.continued(inspector, vault, held, (key, &string), (&payload, told));
        // What a finding stopped was read up to there; anything else was not.
        held.is_read = matches!(fed, Ok(()) | Err(Stop::Finding(_)));
        fed?;
        Ok(self.ended_by(inspector, held, &[]))
    }

    /// Scans a payload that is plain text.
    pub(super) fn scan_plain(
        &mut self,
        inspector: &Inspector<'_>,
        vault: &mut Vault,
        held: &mut Held,
    ) -> Result<SmallVec<[usize; 2]>, Stop> {
        let payload = held.payload.clone();
        let masks = self.scan_alone(inspector, vault, (&[], &payload), (Channel::Metadata, None))?;
        held.edits.extend(masks.into_iter().map(|masked| {
            let range = held.piece.raw_range(masked.range);
            Edit { range, replacement: Written::Plain.write(&masked.text) }
        }));
        held.is_read = true;
        Ok(SmallVec::new())
    }
}

/// Tells whether anything in a payload may be a part of a word, or stand for one.
fn has_word(payload: &[u8]) -> bool {
    payload.iter().any(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii())
}
