//! Layer 3 at work: which texts of a body the model reads, and as whose words.
//!
//! A text of a request is read whole. A text of a response is read in windows as it grows ([`Reading`]), streamed or not,
//! so that both tell the same. The usual model judges, unless the exchange is a [`Trial`] of another one.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::SmallVec;

use crate::clock::Clock;
use crate::llm::dialect::Channel;
use crate::policy::decision::Direction;
use crate::policy::ruleset::Ruleset;
use crate::scan::classifier::Classifier;
use crate::scan::classifier::Origin;
use crate::scan::classifier::Signals;
use crate::scan::classifier::Spellings;
use crate::scan::classifier::Unjudged;
use crate::scan::classifier::choice::ModelRef;
use crate::scan::classifier::reading::may_say;
use crate::scan::classifier::shelf::Shelf;
use crate::scan::growing::Growing;
use crate::scan::growing::Window;
use crate::scan::threat::Confidence;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Finding;

/// Log odds that are taken off what the model says of a window within a longer text: there are many of them.
const EXCERPT_COST: f32 = 1.5;
/// Log odds that are taken off what it says of a model's own words: it writes prompts, and about attacks, when it is asked to.
const OWN_WORDS_COST: f32 = 1.0;
/// How sure it may be of the operator's own instructions, in percent: below high. They defend themselves in the words of
/// those they defend against, and an application whose every request is refused is of no use.
const OPERATOR_PERCENT_MAX: u8 = 89;

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

    /// Returns the model that is tried, where there is one.
    fn model<'s>(&self, shelf: &'s Shelf) -> Option<&'s dyn Classifier> {
        match &self.model {
            ModelRef::Off => None,
            ModelRef::Model { name, .. } => shelf.model(name.as_deref()),
        }
    }

    fn find(
        &self,
        shelf: &Shelf,
        text: &[u8],
        origin: Origin,
        signals: Signals,
        (wanted, expired): (&DetectorSet, &(dyn Fn() -> bool + Sync)),
    ) -> Result<Option<Finding>, Unjudged> {
        if !shelf.judged().any(|id| wanted.contains(id)) {
            return Ok(None);
        }
        self.texts.fetch_add(1, Ordering::Relaxed);
        let ModelRef::Model { bias, .. } = &self.model else { return Ok(None) };
        let began = self.clock.monotonic();
        let Some(model) = self.model(shelf) else { return Ok(None) };
        let bias = signals.bias + bias;
        let found = shelf.find_by(model, text, origin, &Signals { bias, ..signals }, wanted, expired);
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

/// What judges the windows of a text.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    /// The models.
    pub ruleset: &'a Ruleset,
    /// The kinds of findings that are looked for.
    pub wanted: &'a DetectorSet,
    /// The model that is tried on this exchange.
    pub trial: Option<&'a Trial>,
    /// Tells whether the time for the body is over.
    pub expired: &'a (dyn Fn() -> bool + Sync),
}

impl Judge<'_> {
    /// Asks the model that is tried, or the usual one.
    fn ask(&self, text: &[u8], origin: Origin, signals: Signals) -> Result<Option<Finding>, Unjudged> {
        let shelf = &self.ruleset.layer3;
        let found = match self.trial {
            Some(trial) => trial.find(shelf, text, origin, signals, (self.wanted, self.expired)),
            None => shelf.find(text, origin, &signals, self.wanted, self.expired),
        };
        Ok(found?.map(|finding| match origin {
            Origin::System => {
                let most = Confidence::from_percent(OPERATOR_PERCENT_MAX);
                Finding { confidence: finding.confidence.min(most), ..finding }
            }
            _ => finding,
        }))
    }
}

/// The model at a text that grows: what of it was read, and what was told.
///
/// It reads without what the first layer found, which is told on its own and may come later. Each kind of finding is
/// told once, and once more when the model has become sure of it.
#[derive(Clone, Debug)]
pub struct Reading {
    growing: Growing,
    /// Whose words the model takes it for; none where it only tells where windows end.
    origin: Option<Origin>,
    told: SmallVec<[(DetectorId, Confidence); 2]>,
}

/// What the model found in a window.
#[derive(Debug)]
pub struct Heard {
    /// The finding, in offsets of the text.
    pub finding: Finding,
    /// The bytes of its value.
    pub value: Vec<u8>,
}

impl Reading {
    /// Begins a text of a channel; none where the model does not read such texts, or nobody wants to know.
    pub fn begin(judge: Judge<'_>, (direction, channel): (Direction, Channel)) -> Option<Self> {
        let is_wanted = judge.ruleset.layer3.judged().any(|id| judge.wanted.contains(id));
        let origin = origin(direction, channel).filter(|_| is_wanted)?;
        Some(Self { origin: Some(origin), ..Self::silent() })
    }

    /// Begins a text that no model reads: it is parted like others.
    pub fn silent() -> Self {
        Self { growing: Growing::default(), origin: None, told: SmallVec::new() }
    }

    /// Parts a piece of the text: what may be read on before the model is asked, and the rest.
    pub fn part<'p>(&self, piece: &'p [u8]) -> (&'p [u8], &'p [u8]) {
        self.growing.part(piece)
    }

    /// Reads what [`Reading::part`] gave; tells where a window ended and what the model has to say of it.
    ///
    /// # Errors
    /// The model did not judge the window.
    pub fn read(
        &mut self,
        judge: Judge<'_>,
        piece: &[u8],
        rest: &[u8],
    ) -> Result<Option<(usize, Option<Heard>)>, Unjudged> {
        let Some(window) = self.growing.push(piece, rest) else { return Ok(None) };
        Ok(Some((window.until(), hear(judge, window, self.origin, &mut self.told)?)))
    }

    /// Ends the text, and returns what there is to tell.
    ///
    /// # Errors
    /// The model did not judge its last window.
    pub fn finish(&mut self, judge: Judge<'_>) -> Result<Option<Heard>, Unjudged> {
        let Some(window) = self.growing.finish() else { return Ok(None) };
        hear(judge, window, self.origin, &mut self.told)
    }

    /// Reads a whole text as if it had grown; adds what is found, up to a window that was not judged.
    fn whole(mut self, judge: Judge<'_>, text: &[u8], findings: &mut Vec<Finding>) -> Result<(), Unjudged> {
        let mut read = Ok(());
        Growing::windows(text, |window| {
            if read.is_ok() {
                let heard = hear(judge, window, self.origin, &mut self.told);
                read = heard.map(|heard| findings.extend(heard.map(|heard| heard.finding)));
            }
        });
        read
    }
}

/// Asks the model about a window; returns what is new.
fn hear(
    judge: Judge<'_>,
    window: Window<'_>,
    origin: Option<Origin>,
    told: &mut SmallVec<[(DetectorId, Confidence); 2]>,
) -> Result<Option<Heard>, Unjudged> {
    let Some(origin) = origin.filter(|_| may_say(window.text)) else { return Ok(None) };
    let excerpt = if window.is_excerpt() { EXCERPT_COST } else { 0.0 };
    let own = if origin == Origin::Assistant { OWN_WORDS_COST } else { 0.0 };
    let signals = Signals { bias: -excerpt - own, ..Signals::default() };
    let Some(mut finding) = judge.ask(window.text, origin, signals)? else { return Ok(None) };
    let level = if finding.confidence < Confidence::HIGH { Confidence::MEDIUM } else { Confidence::HIGH };
    match told.iter_mut().find(|(kind, _)| *kind == finding.detector) {
        Some((_, known)) if *known >= level => return Ok(None),
        Some((_, known)) => *known = level,
        None => told.push((finding.detector, level)),
    }
    let value = window.text.get(finding.value.clone()).unwrap_or_default().to_vec();
    for range in [&mut finding.span, &mut finding.value] {
        *range = range.start + window.from..range.end + window.from;
    }
    Ok(Some(Heard { finding, value }))
}

/// Returns whose words a channel carries, as far as the model reads them.
///
/// Of an answer it reads what the caller gets to read: what a model thinks to itself and the arguments of its calls it
/// does not; nor what a model wrote earlier, which comes again in requests.
pub fn origin(direction: Direction, channel: Channel) -> Option<Origin> {
    match (direction, channel) {
        (_, Channel::ToolResult) => Some(Origin::Tool),
        (Direction::Response, Channel::Assistant) => Some(Origin::Assistant),
        (Direction::Response, _) => None,
        (_, Channel::System) => Some(Origin::System),
        (_, Channel::User | Channel::Metadata) => Some(Origin::User),
        (_, Channel::ToolDefinition) => Some(Origin::Definition),
        (_, Channel::Assistant | Channel::Reasoning | Channel::ToolCall | Channel::Credential) => None,
    }
}

/// Returns a number for what the model's verdict on a text of a channel depends on.
pub fn reading(direction: Direction, channel: Channel) -> u8 {
    origin(direction, channel).map_or(u8::MAX, |origin| origin.index() as u8)
}

/// Tells whether the model may have something to read in a text: words, or what is encoded.
pub fn reads(text: &[u8], direction: Direction, channel: Channel) -> bool {
    origin(direction, channel).is_some() && may_say(text)
}

/// Tells whether a text of a stream that comes whole is read: what a tool gave back. A model's own comes in pieces.
pub fn reads_alone(channel: Channel) -> bool {
    origin(Direction::Response, channel) == Some(Origin::Tool)
}

/// Adds what the model finds in a text in which the first layer found `findings`; of a request in its other spellings,
/// too, as `spellings` says.
///
/// # Errors
/// The model did not judge all of it.
pub fn find(
    judge: Judge<'_>,
    text: &[u8],
    (direction, channel): (Direction, Channel),
    spellings: Spellings,
    findings: &mut Vec<Finding>,
) -> Result<(), Unjudged> {
    let Some(origin) = origin(direction, channel).filter(|_| may_say(text)) else { return Ok(()) };
    if direction == Direction::Response {
        let reading = Reading::begin(judge, (direction, channel));
        return reading.map_or(Ok(()), |reading| reading.whole(judge, text, findings));
    }
    let found = Signals::of(findings, |id| judge.ruleset.kind(id).map(|kind| kind.category));
    let signals = Signals { spellings, ..found };
    findings.extend(judge.ask(text, origin, signals)?);
    Ok(())
}

/// Tells whether the model that judges may take milliseconds for a short text.
pub fn is_slow(ruleset: &Ruleset, trial: Option<&Trial>) -> bool {
    let shelf = &ruleset.layer3;
    let model = match trial {
        Some(trial) => trial.model(shelf),
        None => shelf.model(None),
    };
    model.is_some_and(Classifier::is_slow)
}
