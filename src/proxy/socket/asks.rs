//! What is asked for on a socket, and paid as it is answered.
//!
//! In: the caller's messages, and which answers ended. Out: what is due ([`Due`]), and what is counted. It is paid before
//! what was said leaves; what it is not paid for does not. A message reserves anew
//! unless it asks for no answer: it may say how long one may be. An answer that was asked for and has said nothing is
//! awaited until another end is told than those of the answers before it: whoever leaves pays for what was sent.

use std::collections::VecDeque;

use super::super::Gateway;
use super::super::context::Due;
use super::super::context::Exchange;
use super::super::context::Service;
use super::judge::Lanes;
use super::judge::holds_json;
use crate::llm::dialect::Purpose;
use crate::llm::json;
use crate::llm::websocket::Message;

/// The most answers that are awaited at once and told apart.
const AWAITED_MAX: usize = 64;

/// The answers that were asked for and have not ended.
#[derive(Default)]
pub(super) struct Asks {
    /// How many bytes of text were sent for each, the first first.
    awaited: VecDeque<u64>,
    /// How many were sent since.
    since: u64,
}

impl Asks {
    /// Notes a message of so many bytes of text.
    fn note(&mut self, text_bytes: u64, purpose: Purpose) {
        self.since = self.since.saturating_add(text_bytes);
        if purpose == Purpose::Asks && self.awaited.len() < AWAITED_MAX {
            self.awaited.push_back(std::mem::take(&mut self.since));
        }
    }

    /// Notes that an answer ended, which tells what was sent for it. One that nobody asked for answers what was said.
    fn answered(&mut self) {
        if self.awaited.pop_front().is_none() {
            self.since = 0;
        }
    }

    /// Returns how many bytes of text were sent that no answer told.
    fn text_bytes(&self) -> u64 {
        self.awaited.iter().fold(self.since, |sum, bytes| sum.saturating_add(*bytes))
    }
}

impl Gateway {
    /// Notes a message of the caller's, which was judged, and what is due for it. `known` is how many bytes of text were
    /// sent before it.
    pub(super) fn note_asked(&self, exchange: &mut Exchange, asks: &mut Asks, message: &Message, known: u64) {
        let purpose = purpose(exchange, message);
        asks.note(exchange.outcome.asked.text_bytes.saturating_sub(known), purpose);
        let is_awaited = exchange.outcome.service == Service::Untold || exchange.due == Some(Due::Answer);
        if purpose != Purpose::Steers || is_awaited {
            exchange.due = Some(Due::Answer);
        }
    }

    /// Counts an answer that has ended and tells what it used. One that is under way, or awaited, is still to be paid.
    pub(super) fn count_answer(&self, exchange: &mut Exchange, lanes: &mut Lanes<'_>) {
        if let Some(mut usage) = lanes.inspector.take_counted() {
            // The model is told once, when a session begins.
            usage.model = usage.model.or(exchange.outcome.usage.model.take());
            let took = self.clock.monotonic().saturating_sub(lanes.asked_at);
            lanes.asks.answered();
            // It may have been asked for before the last one ended.
            let is_awaited = lanes.inspector.is_answering() || !lanes.asks.awaited.is_empty();
            let service = if is_awaited { Service::Untold } else { Service::Nothing };
            return self.meter_answer(exchange, usage, took, (service, lanes.asks.text_bytes()));
        }
        if lanes.inspector.is_answering() && exchange.outcome.service != Service::Untold {
            // Nobody asked for it in so many words.
            exchange.outcome.service = Service::Untold;
            exchange.due = Some(Due::Answer);
        }
    }
}

/// Returns what a message is for; what cannot be read may be answered.
fn purpose(exchange: &Exchange, message: &Message) -> Purpose {
    let Some(detected) = exchange.detected.as_ref().filter(|_| holds_json(message)) else {
        return Purpose::Unknown;
    };
    let document = json::walk(&message.payload, &exchange.rules.limits.json());
    document.map_or(Purpose::Unknown, |document| detected.dialect.purpose(&message.payload, &document))
}
