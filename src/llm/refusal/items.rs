//! The items of a Responses stream as they were sent, so that those under way are ended before the response is.
//!
//! In: the bytes that left, masks and cuts included: what is told again in the end is what was told before. Calls of tools
//! are not ended here, for nobody is to take half of one for a call. What outgrows the limit is forgotten, all of it: a
//! response tells its items whole or none.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde_json::Value;
use serde_json::json;

use crate::llm::stream::PIECE_BYTES_MAX;
use crate::llm::stream::StreamFormat;
use crate::llm::stream::StreamParser;

/// How much of the items is kept, in bytes of their JSON.
const ITEMS_BYTES_MAX: usize = 256 << 10;
/// How many of them are.
const ITEMS_MAX: usize = 128;

/// Where items have parts: the events that begin and end one, the list it is in, and what numbers it there.
struct Place {
    added: &'static str,
    done: &'static str,
    list: &'static str,
    index: &'static str,
}

/// A text in a part: the part's type, the events that go on with it and end it, and the member it is.
struct Text {
    part: &'static str,
    delta: &'static str,
    done: &'static str,
    member: &'static str,
    place: &'static Place,
}

const SUMMARY: Place = Place {
    added: "response.reasoning_summary_part.added",
    done: "response.reasoning_summary_part.done",
    list: "summary",
    index: "summary_index",
};
const CONTENT: Place = Place {
    added: "response.content_part.added",
    done: "response.content_part.done",
    list: "content",
    index: "content_index",
};
const OUTPUT_TEXT: &str = "output_text";
const TEXTS: [Text; 4] = [
    Text {
        part: OUTPUT_TEXT,
        delta: "response.output_text.delta",
        done: "response.output_text.done",
        member: "text",
        place: &CONTENT,
    },
    Text {
        part: "refusal",
        delta: "response.refusal.delta",
        done: "response.refusal.done",
        member: "refusal",
        place: &CONTENT,
    },
    Text {
        part: "reasoning_text",
        delta: "response.reasoning_text.delta",
        done: "response.reasoning_text.done",
        member: "text",
        place: &CONTENT,
    },
    Text {
        part: "summary_text",
        delta: "response.reasoning_summary_text.delta",
        done: "response.reasoning_summary_text.done",
        member: "text",
        place: &SUMMARY,
    },
];

/// What was sent of a response's items.
#[derive(Debug)]
pub(super) struct Items {
    parser: StreamParser,
    by_index: BTreeMap<u64, Item>,
    bytes: usize,
    is_lost: bool,
}

/// One item, as far as it was sent.
#[derive(Debug)]
struct Item {
    value: Value,
    bytes: usize,
    is_over: bool,
    /// The texts and the parts that were ended, by their list and number.
    texts_over: BTreeSet<(&'static str, usize)>,
    parts_over: BTreeSet<(&'static str, usize)>,
}

impl Items {
    /// Returns the items of a response that has just begun.
    pub(super) fn new(format: StreamFormat) -> Self {
        let parser = StreamParser::new(format, PIECE_BYTES_MAX);
        Self { parser, by_index: BTreeMap::new(), bytes: 0, is_lost: false }
    }

    /// Notes bytes that left.
    pub(super) fn left(&mut self, bytes: &[u8]) {
        if self.is_lost {
            return;
        }
        match self.parser.push(bytes) {
            Ok(pieces) => pieces.iter().for_each(|piece| self.read(&piece.payload())),
            Err(_) => self.is_lost = true,
        }
        if self.is_lost || self.bytes > ITEMS_BYTES_MAX || self.by_index.len() > ITEMS_MAX {
            self.is_lost = true;
            self.by_index.clear();
        }
    }

    /// Ends the messages and thoughts that are under way, and returns the items that are over then.
    pub(super) fn end(&self, say: &mut impl FnMut(&'static str, Value)) -> Vec<Value> {
        let mut over = Vec::new();
        for (index, item) in &self.by_index {
            let kind = item.value.get("type").and_then(Value::as_str);
            match (item.is_over, kind) {
                (true, _) => over.push(item.value.clone()),
                (false, Some("message" | "reasoning")) => over.push(item.end(*index, say)),
                (false, _) => {}
            }
        }
        over
    }

    fn read(&mut self, payload: &[u8]) {
        let Ok(mut event) = serde_json::from_slice::<Value>(payload) else { return };
        let Some(index) = number(&event, "output_index") else { return };
        let name = text(&event, "type").to_owned();
        let is_over = name == "response.output_item.done";
        if is_over || name == "response.output_item.added" {
            let value = event.get_mut("item").map(Value::take).filter(Value::is_object);
            let Some(value) = value else { return };
            let bytes = payload.len();
            let item =
                Item { value, bytes, is_over, texts_over: BTreeSet::new(), parts_over: BTreeSet::new() };
            let before = self.by_index.insert(index, item).map_or(0, |before| before.bytes);
            self.bytes = (self.bytes + bytes).saturating_sub(before);
        } else if let Some(item) = self.by_index.get_mut(&index) {
            let before = item.bytes;
            item.read(&name, &mut event);
            self.bytes += item.bytes - before;
        }
    }
}

impl Item {
    fn read(&mut self, name: &str, event: &mut Value) {
        for place in [&SUMMARY, &CONTENT] {
            let Some(at) = number(event, place.index).and_then(|at| usize::try_from(at).ok()) else {
                continue;
            };
            if name == place.added {
                let part = event.get_mut("part").map(Value::take).unwrap_or_default();
                self.begin(place, at, part);
            } else if name == place.done {
                self.parts_over.insert((place.list, at));
            }
            for told in TEXTS.iter().filter(|told| told.place.list == place.list) {
                if name == told.delta {
                    self.go_on(told, at, text(event, "delta"));
                } else if name == told.done {
                    self.texts_over.insert((place.list, at));
                }
            }
        }
    }

    fn begin(&mut self, place: &Place, at: usize, part: Value) {
        let Some(members) = self.value.as_object_mut() else { return };
        let list = members.entry(place.list).or_insert(Value::Null);
        if list.is_null() {
            *list = json!([]);
        }
        if let Some(list) = list.as_array_mut().filter(|list| list.len() == at) {
            self.bytes += part.to_string().len();
            list.push(part);
        }
    }

    fn go_on(&mut self, told: &Text, at: usize, delta: &str) {
        let list = self.value.get_mut(told.place.list).and_then(Value::as_array_mut);
        let part = list.and_then(|list| list.get_mut(at)?.get_mut(told.member));
        if let Some(Value::String(text)) = part {
            text.push_str(delta);
            self.bytes += delta.len();
        }
    }

    /// Ends its texts, its parts and itself, as the provider would; returns it as it is then.
    fn end(&self, index: u64, say: &mut impl FnMut(&'static str, Value)) -> Value {
        let mut value = self.value.clone();
        let id = value.get("id").cloned().unwrap_or_default();
        for place in [&SUMMARY, &CONTENT] {
            let parts = value.get(place.list).and_then(Value::as_array);
            for (at, part) in parts.into_iter().flatten().enumerate() {
                let about = || {
                    let mut about = json!({ "item_id": id, "output_index": index });
                    about[place.index] = json!(at);
                    about
                };
                let told = TEXTS.iter().find(|told| told.part == text(part, "type"));
                if let Some(told) = told.filter(|_| !self.texts_over.contains(&(place.list, at))) {
                    let mut event = about();
                    event[told.member] = json!(text(part, told.member));
                    if told.part == OUTPUT_TEXT {
                        event["logprobs"] = json!([]);
                    }
                    say(told.done, event);
                }
                if !self.parts_over.contains(&(place.list, at)) {
                    let mut event = about();
                    event["part"] = part.clone();
                    say(place.done, event);
                }
            }
        }
        value["status"] = json!("incomplete");
        say("response.output_item.done", json!({ "output_index": index, "item": value }));
        value
    }
}

fn number(value: &Value, member: &str) -> Option<u64> {
    value.get(member).and_then(Value::as_u64)
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}
