//! What the provider said and waits, in its order.

use std::collections::VecDeque;

use bytes::Bytes;
use bytes::BytesMut;

use super::super::reject::Rejection;
use crate::llm::websocket::Message;
use crate::policy::decision::Cleared;
use crate::policy::inspect::Unreadable;

/// Messages that wait for what was said before them.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

enum Waiting {
    /// Its message is judged with those of its lanes.
    Running(Message),
    /// It was judged alone.
    Judged(Bytes),
}

impl Queue {
    /// Adds a message whose lanes settle it.
    pub(super) fn push_running(&mut self, message: Message) {
        self.push(Waiting::Running(message));
    }

    /// Adds the frames of a message that was judged.
    pub(super) fn push_judged(&mut self, frames: Bytes) {
        self.push(Waiting::Judged(frames));
    }

    /// Returns how many bytes wait, with what it takes to keep them: messages may be empty.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts what was cleared into the frames it came in, or new ones, and lets go what waited behind it.
    ///
    /// # Errors
    /// Fails where more was cleared than waits.
    pub(super) fn release(&mut self, cleared: Vec<Cleared>, out: &mut BytesMut) -> Result<(), Rejection> {
        self.release_judged(out);
        for left in cleared.into_iter().map(Cleared::into_bytes).filter(|left| !left.is_empty()) {
            let Some(Waiting::Running(message)) = self.pop() else {
                return Err(Rejection::UnreadableResponse(Unreadable::Splice));
            };
            match left == message.payload {
                true => out.extend_from_slice(&message.raw),
                false => out.extend_from_slice(&message.with(&left)),
            }
            self.release_judged(out);
        }
        Ok(())
    }

    fn release_judged(&mut self, out: &mut BytesMut) {
        while let Some(Waiting::Judged(frames)) = self.waiting.front() {
            out.extend_from_slice(frames);
            self.pop();
        }
    }

    fn push(&mut self, waiting: Waiting) {
        self.bytes += waiting.bytes();
        self.waiting.push_back(waiting);
    }

    fn pop(&mut self) -> Option<Waiting> {
        self.waiting.pop_front().inspect(|waiting| self.bytes -= waiting.bytes())
    }
}

impl Waiting {
    fn bytes(&self) -> usize {
        let raw = match self {
            Self::Running(message) => &message.raw,
            Self::Judged(frames) => frames,
        };
        raw.len() + size_of::<Self>()
    }
}
