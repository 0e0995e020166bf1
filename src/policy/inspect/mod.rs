//! A whole body, read, judged and cleared.
//!
//! In: the bytes of a request or response, what they claim to be, and one ruleset. Out: an
//! [`Inspection`]: the strictest action, every finding with its own action, and the bytes that may
//! leave, as a [`Cleared`]. Every string is scanned, known field or not, keys included; what cannot be
//! read meets the policy's fail mode. It has no clock: how much time is left is asked of the caller.

pub(super) mod attached;
pub(super) mod body;
pub mod border;
pub mod layer2;
pub mod layer3;
pub mod member;
pub mod names;
pub mod prompt;
pub mod quoted;
pub mod shadow;
pub mod text;
mod twofold;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;

use crate::attachment::Unread;
use crate::llm::dialect::Channel;
use crate::llm::dialect::Dialect;
use crate::llm::dialect::DisguisedKey;
use crate::llm::json::JsonFault;
use crate::llm::media::Media;
use crate::llm::media::MediaFault;
use crate::llm::multipart::MultipartFault;
use crate::llm::stream::StreamFault;
use crate::llm::usage::Usage;
use crate::llm::websocket::SocketFault;
use crate::policy::decision::Action;
use crate::policy::decision::CallerId;
use crate::policy::decision::Cleared;
use crate::policy::decision::Direction;
use crate::policy::inspect::layer3::Trial;
use crate::policy::inspect::prompt::Prompt;
use crate::policy::inspect::shadow::Foreseen;
use crate::policy::pin::Pins;
use crate::policy::ruleset::Policy;
use crate::policy::ruleset::Ruleset;
use crate::redact::mask::Masker;
use crate::redact::token::Vault;
use crate::scan::classifier::Unjudged;
use crate::scan::lane::LaneError;
use crate::scan::rule::fact::Fact;
use crate::scan::scanner::ScanFault;
use crate::scan::tagger::reading::Late;
use crate::scan::threat::Confidence;
use crate::scan::threat::Decoded;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Layer;
use crate::scan::trace::Guarded;

/// One finding, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Who found it.
    pub detector: DetectorId,
    /// What is done about it.
    pub action: Action,
    /// How sure the detector is.
    pub confidence: Confidence,
    /// The layer that fired.
    pub layer: Layer,
    /// What had to be undone to see it.
    pub decoded_from: Decoded,
    /// Whose text it was in.
    pub channel: Channel,
    /// Where the value lay, in bytes of its text.
    pub value: Range<usize>,
    /// The value with its middle masked.
    pub sample: String,
    /// In which part of which document of the body it was, where it was in one: `document 1: comments`.
    pub within: Option<Arc<str>>,
}

/// Why a body, or a part of it, could not be inspected.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Two JSON decoders could read it differently.
    #[error("it is not JSON that every decoder reads alike: {0}")]
    Json(#[from] JsonFault),
    /// A key is disguised as another.
    #[error("it is not JSON that every decoder reads alike: {0}")]
    Key(#[from] DisguisedKey),
    /// Its declaration cannot be honoured.
    #[error(transparent)]
    Media(#[from] MediaFault),
    /// Its parts could be split differently.
    #[error(transparent)]
    Multipart(#[from] MultipartFault),
    /// It claims to be text and is not UTF-8.
    #[error("it is not valid UTF-8")]
    NotText,
    /// Its content coding is unknown or broken.
    #[error("its content coding cannot be undone")]
    Coding,
    /// It is longer than what is inspected.
    #[error("it is longer than the {0} bytes that are inspected")]
    TooLarge(usize),
    /// More lanes than the limit.
    #[error("it has more than {0} texts under way at once")]
    TooManyLanes(usize),
    /// A text of a stream goes on behind its end, where nothing is known any more of how it began.
    #[error("it has a text that goes on behind its end")]
    Resumed,
    /// The frames of a socket cannot be read.
    #[error(transparent)]
    Socket(#[from] SocketFault),
    /// A part of a stream was never judged.
    #[error("a part of it was not judged")]
    Unjudged,
    /// The time for scanning ran out.
    #[error("it could not be scanned in time")]
    Late,
    /// The model gave no answer.
    #[error("the model did not judge it")]
    Model,
    /// The scanner gave up.
    #[error(transparent)]
    Scan(#[from] ScanFault),
    /// A text of a stream could not be judged.
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// A stream could not be cut into events.
    #[error(transparent)]
    Stream(#[from] StreamFault),
    /// It tells its caller to go on elsewhere.
    #[error("it leads past the gateway")]
    Past,
    /// A document that it brings could not be read, and the policy requires that.
    #[error("a document in it was not read as a whole: {0}")]
    Document(#[from] Unread),
    /// A mask could not be put in its place.
    #[error("a value that was found could not be masked")]
    Splice,
}

/// What became of a body.
#[derive(Debug)]
pub struct Inspection {
    /// The strictest action of all findings and faults.
    pub action: Action,
    /// Every finding, in the order of the body.
    pub observations: Vec<Observation>,
    /// What could not be read, where something could not.
    pub unreadable: Option<Unreadable>,
    /// What the shadow policy would have done, where there is one.
    pub shadow: Foreseen,
    /// The model and the tokens that the body tells.
    pub usage: Usage,
    /// How many bytes pass unread, because they were declared to hold no text and hold none.
    pub opaque_bytes: usize,
    /// What became of each document in it, in one word, for metrics.
    pub documents: Vec<&'static str>,
    /// What may leave; `None` when the action is to block.
    pub cleared: Option<Cleared>,
    /// What a request tells its model as its operator, to be known again in the answer.
    pub prompt: Prompt,
    /// What was found, as rules see it and without content: rules look back at it that judge the answer.
    pub facts: Vec<Fact>,
}

/// The pins of tools, and the route they are for.
#[derive(Clone, Copy)]
pub struct Pinning<'a> {
    /// The pins of all callers.
    pub pins: &'a Pins,
    /// The route's name.
    pub route: &'a str,
}

/// Everything a body is judged by.
pub struct Inspector<'a> {
    /// The detectors, dialects and limits.
    pub ruleset: &'a Ruleset,
    /// The policy that decides.
    pub policy: &'a Policy,
    /// Which way the body travels.
    pub direction: Direction,
    /// The caller's dialect.
    pub dialect: &'a Dialect,
    /// Who sent the request.
    pub caller: Option<&'a CallerId>,
    /// The tools that callers know, on the route of the exchange; none where nothing is to be learnt.
    pub pins: Option<Pinning<'a>>,
    /// When.
    pub now: Timestamp,
    /// The tenant's masks.
    pub masker: &'a Masker,
    /// The model that is tried on this exchange; none: the usual one judges.
    pub trial: Option<&'a Trial>,
    /// The request's system prompt, where a response must not tell it.
    pub guarded: Option<&'a Guarded>,
    /// What was found in the request that a response answers.
    pub asked: &'a [Fact],
    /// Tells whether the time for this body is over.
    pub expired: &'a (dyn Fn() -> bool + Sync),
    /// Does what may take long, where whoever asks has others to serve meanwhile.
    pub aside: Aside,
}

/// Does work on so many bytes, wherever that holds up nobody, and returns once it is done.
pub type Aside = fn(usize, &mut dyn FnMut());

impl From<Late> for Unreadable {
    fn from(_: Late) -> Self {
        Self::Late
    }
}

impl From<Unjudged> for Unreadable {
    fn from(unjudged: Unjudged) -> Self {
        match unjudged {
            Unjudged::Late => Self::Late,
            Unjudged::Failed => Self::Model,
        }
    }
}

impl Unreadable {
    /// Returns the reason in one word, for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Json(_) | Self::Key(_) => "json",
            Self::Media(_) => "media",
            Self::Multipart(_) => "multipart",
            Self::NotText => "text",
            Self::Coding => "coding",
            Self::TooLarge(_) | Self::TooManyLanes(_) => "too_large",
            Self::Late => "late",
            Self::Model => "model",
            Self::Scan(_) | Self::Lane(_) => "scan",
            Self::Stream(_) | Self::Socket(_) | Self::Resumed | Self::Unjudged => "stream",
            Self::Past => "past",
            Self::Document(_) => "document",
            Self::Splice => "splice",
        }
    }
}

impl Inspector<'_> {
    /// Returns as which way's words a body is judged: between agents, what comes back is input of a model too.
    pub fn judged(&self) -> Direction {
        if self.dialect.is_between_peers() { Direction::Request } else { self.direction }
    }

    /// Returns the policy that decides beside the one in force and is only recorded.
    pub fn shadow(&self) -> Option<&Policy> {
        self.ruleset.shadow_of(self.policy)
    }

    /// Tells whether even a short body may take milliseconds, so that it is no work for a worker's own loop.
    pub fn is_slow(&self) -> bool {
        layer3::is_slow(self.ruleset, self.trial)
    }

    /// Reads, judges and clears a whole body.
    pub fn body(&self, bytes: Bytes, media: Result<Media, MediaFault>, vault: &mut Vault) -> Inspection {
        if self.direction == Direction::Request {
            vault.reserve(&bytes);
        }
        self.read_body(text::Sheet::new(self, vault), bytes, media)
    }

    /// Does the same for the findings of some detectors only.
    pub fn body_for(
        &self,
        bytes: Bytes,
        media: Result<Media, MediaFault>,
        vault: &mut Vault,
        only: &DetectorSet,
    ) -> Inspection {
        let mut sheet = text::Sheet::new(self, vault);
        sheet.narrow(only);
        self.read_body(sheet, bytes, media)
    }

    /// Reads, judges and clears one plain text, for the findings of some detectors.
    pub fn plain(&self, bytes: Bytes, channel: Channel, vault: &mut Vault, only: &DetectorSet) -> Inspection {
        let mut sheet = text::Sheet::new(self, vault);
        sheet.narrow(only);
        let read = sheet.text(&bytes, channel, text::Written::Plain, |range| range);
        let read = read.and_then(|()| if (self.expired)() { Err(Unreadable::Late) } else { Ok(()) });
        sheet.conclude(bytes, read.err())
    }

    fn read_body(
        &self,
        mut sheet: text::Sheet<'_, '_>,
        bytes: Bytes,
        media: Result<Media, MediaFault>,
    ) -> Inspection {
        sheet.attachments.body = bytes.clone();
        let read = media.map_err(Unreadable::from).and_then(|media| body::read(&mut sheet, &bytes, &media));
        let unreadable = read.err();
        sheet.conclude(bytes, unreadable)
    }
}
