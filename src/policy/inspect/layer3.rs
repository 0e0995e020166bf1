//! Layer 3 at work: which texts of a body the model reads, and as whose words.
//!
//! The usual model judges, unless the exchange is a [`Trial`] of another one.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::clock::Clock;
use crate::llm::dialect::Channel;
use crate::policy::decision::Direction;
use crate::policy::ruleset::Ruleset;
use crate::scan::classifier::Origin;
use crate::scan::classifier::Signals;
use crate::scan::classifier::choice::ModelRef;
use crate::scan::classifier::reading::TEXT_BYTES_MIN;
use crate::scan::classifier::shelf::Shelf;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Finding;

/// One exchange that tries a model: which one, and what is measured of it.
pub struct Trial {
    model: ModelRef,
    clock: Arc<dyn Clock>,
    texts: AtomicU64,
    micros: AtomicU64,
}

impl Trial {
    /// Returns a trial of a model; the clock tells how long it takes.
    pub fn new(model: ModelRef, clock: Arc<dyn Clock>) -> Self {
        Self { model, clock, texts: AtomicU64::new(0), micros: AtomicU64::new(0) }
    }

    /// Returns how many texts there were that a model would read.
    pub fn texts(&self) -> u64 {
        self.texts.load(Ordering::Relaxed)
    }

    /// Returns how long the model took for all of them.
    pub fn took(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }

    fn find(
        &self,
        shelf: &Shelf,
        text: &[u8],
        origin: Origin,
        signals: Signals,
        wanted: &DetectorSet,
    ) -> Option<Finding> {
        if !shelf.ids().any(|id| wanted.contains(id)) {
            return None;
        }
        self.texts.fetch_add(1, Ordering::Relaxed);
        let ModelRef::Model { name, bias } = &self.model else { return None };
        let began = self.clock.monotonic();
        let model = shelf.model(name.as_deref())?;
        let found = shelf.find_by(model, text, origin, &Signals { bias: *bias, ..signals }, wanted);
        let took = self.clock.monotonic().saturating_sub(began);
        self.micros.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
        found
    }
}

impl std::fmt::Debug for Trial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trial")
            .field("model", &self.model)
            .field("texts", &self.texts)
            .finish_non_exhaustive()
    }
}

/// Returns whose words a channel carries, unless they are the protected model's own.
///
/// What a provider answers is its model's; but tools may answer through the gateway, too.
pub fn origin(direction: Direction, channel: Channel) -> Option<Origin> {
    match channel {
        Channel::ToolResult => Some(Origin::Tool),
        _ if direction == Direction::Response => None,
        Channel::System => Some(Origin::System),
        Channel::User | Channel::Metadata => Some(Origin::User),
        Channel::ToolDefinition => Some(Origin::Definition),
        Channel::Assistant | Channel::Reasoning | Channel::ToolCall => None,
    }
}

/// Returns a number for what the model's verdict on a text of a channel depends on.
pub fn reading(direction: Direction, channel: Channel) -> u8 {
    origin(direction, channel).map_or(u8::MAX, |origin| origin.index() as u8)
}

/// Tells whether the model has something to read in a text: more than a name, an id or a number.
pub fn reads(text: &[u8], direction: Direction, channel: Channel) -> bool {
    let has_words = || memchr::memchr(b' ', text).is_some() || !text.is_ascii();
    origin(direction, channel).is_some() && text.len() >= TEXT_BYTES_MIN && has_words()
}

/// Returns what the model finds in a text in which the first layer found `findings`.
pub fn find(
    ruleset: &Ruleset,
    text: &[u8],
    (direction, channel): (Direction, Channel),
    findings: &[Finding],
    wanted: &DetectorSet,
    trial: Option<&Trial>,
) -> Option<Finding> {
    let origin = origin(direction, channel).filter(|_| reads(text, direction, channel))?;
    let signals = Signals::of(findings, |id| ruleset.kind(id).map(|kind| kind.category));
    match trial {
        Some(trial) => trial.find(&ruleset.layer3, text, origin, signals, wanted),
        None => ruleset.layer3.find(text, origin, &signals, wanted),
    }
}
