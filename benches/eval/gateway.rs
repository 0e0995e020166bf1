//! The default policy as it ships, asked as a gateway asks it: whole bodies, streams and single texts.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use portcullis::config::file;
use portcullis::document::Document;
use portcullis::document::section;
use portcullis::llm::dialect::Channel;
use portcullis::llm::dialect::Dialect;
use portcullis::llm::dialect::Dialects;
use portcullis::llm::media::Media;
use portcullis::llm::stream::StreamFormat;
use portcullis::policy::decision::Action;
use portcullis::policy::decision::Direction;
use portcullis::policy::inspect::Inspection;
use portcullis::policy::inspect::Inspector;
use portcullis::policy::inspect::Observation;
use portcullis::policy::reload::FIXED_KEYS;
use portcullis::policy::ruleset::Parts;
use portcullis::policy::ruleset::Policy;
use portcullis::policy::ruleset::RulesFile;
use portcullis::policy::ruleset::Ruleset;
use portcullis::policy::ruleset::SINKS_KEY;
use portcullis::policy::stream::Flow;
use portcullis::policy::stream::StreamInspector;
use portcullis::redact::mask::Masker;
use portcullis::redact::mask::TenantKey;
use portcullis::redact::token::Vault;
use portcullis::scan::threat::Category;
use portcullis::scan::threat::DetectorId;
use portcullis::scan::threat::DetectorSet;

use crate::layers::Layers;

const POLICY: &str = "default";
/// The dialect of what no dialect is known for.
const GENERIC: &str = "generic";
const EVENT_BYTES_MAX: usize = 16 << 20;
/// A stream comes in pieces of about a packet.
const PIECE_BYTES: usize = 1400;

/// The shipped rules, and what a judgement needs beside them.
pub struct Gateway {
    ruleset: Ruleset,
    policy: Arc<Policy>,
    all: DetectorSet,
    key: TenantKey,
    masker: Masker,
}

/// A body that somebody sent.
pub struct Body<'a> {
    /// Which way it went.
    pub direction: Direction,
    /// How the recorder calls its dialect: the provider's, a dash, and the API's.
    pub dialect: &'a str,
    /// Its `Content-Type`.
    pub media: &'a str,
    /// Whether it came as a stream.
    pub stream: bool,
    /// What it is.
    pub bytes: Bytes,
}

/// What became of it.
pub struct Judged {
    /// The strictest action of all.
    pub action: Action,
    /// Every finding, in the order of the body.
    pub observations: Vec<Observation>,
    /// Whether it, or a part of it, could not be read.
    pub unread: bool,
}

impl Gateway {
    /// Compiles the policies that are built in, over the layers of this tree.
    pub fn shipped(layers: &Layers) -> Result<Self, Box<dyn Error>> {
        let told = |faults: Vec<String>| faults.join("\n");
        let defaults = file::defaults();
        let mut root = defaults.root().clone();
        FIXED_KEYS.iter().chain(&[SINKS_KEY]).for_each(|key| drop(root.remove(*key)));
        let document = Document::from_json(root.into(), None).ok_or("the defaults are no table")?;
        let rules = section::read(&document, RulesFile::read)
            .map_err(|it| told(it.iter().map(ToString::to_string).collect()))?;
        let dialects =
            Dialects::embedded().map_err(|it| told(it.iter().map(ToString::to_string).collect()))?;
        let parts = Parts {
            revision: 1,
            rules: &rules,
            places: document.places(),
            scanner: Arc::clone(&layers.scanner),
            layer3: Arc::clone(&layers.shelf),
            layer2: Arc::clone(&layers.rules),
            dialects: Arc::new(dialects),
            dialect_files: Vec::new(),
        };
        let ruleset =
            Ruleset::build(parts).map_err(|it| told(it.iter().map(ToString::to_string).collect()))?;
        let policy = Arc::clone(ruleset.policy(POLICY).ok_or("there is no default policy")?);
        let key = TenantKey::derive(&[0; 32], "evaluation");
        Ok(Self { all: ruleset.all(), policy, masker: Masker::new(key.clone()), key, ruleset })
    }

    /// Judges a text that a person or, in an answer, a model wrote.
    pub fn text(&self, text: &str, direction: Direction) -> Option<Judged> {
        let channel = match direction {
            Direction::Request => Channel::User,
            Direction::Response => Channel::Assistant,
        };
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        self.ask(direction, GENERIC, |inspector, vault| {
            Judged::from(inspector.plain(bytes, channel, vault, &self.all))
        })
    }

    /// Judges a body, or a stream in pieces.
    pub fn body(&self, body: &Body<'_>) -> Option<Judged> {
        let name = body.dialect.split(['-', '/']).next().unwrap_or_default();
        self.ask(body.direction, name, |inspector, vault| {
            let format = inspector.dialect.stream_format(body.media, "/").filter(|_| body.stream);
            match format {
                Some(format) => streamed(inspector, vault, format, &body.bytes),
                None => {
                    let media = Media::parse(Some(body.media));
                    Judged::from(inspector.body(body.bytes.clone(), media, vault))
                }
            }
        })
    }

    /// Returns what a finding is about.
    pub fn category(&self, id: DetectorId) -> Option<Category> {
        self.ruleset.kind(id).map(|kind| kind.category)
    }

    /// Asks on behalf of one exchange in a dialect, or in none that is known.
    fn ask<T>(
        &self,
        direction: Direction,
        dialect: &str,
        run: impl FnOnce(&Inspector<'_>, &mut Vault) -> T,
    ) -> Option<T> {
        let dialects = &self.ruleset.dialects;
        let dialect: &Dialect = dialects.get(dialect).or_else(|| dialects.get(GENERIC))?;
        let inspector = Inspector {
            ruleset: &self.ruleset,
            policy: &self.policy,
            direction,
            dialect,
            caller: None,
            pins: None,
            now: Timestamp::UNIX_EPOCH,
            masker: &self.masker,
            trial: None,
            guarded: None,
            asked: &[],
            expired: &|| false,
            aside: |_, work| work(),
        };
        Some(run(&inspector, &mut Vault::new(self.key.clone())))
    }
}

fn streamed(inspector: &Inspector<'_>, vault: &mut Vault, format: StreamFormat, body: &Bytes) -> Judged {
    let mut stream = StreamInspector::new(format, EVENT_BYTES_MAX);
    let mut out = Vec::new();
    let mut flow = Flow::Continue;
    for piece in body.chunks(PIECE_BYTES) {
        flow = stream.push(inspector, vault, piece, &mut out);
        if !matches!(flow, Flow::Continue) {
            break;
        }
    }
    if matches!(flow, Flow::Continue) {
        flow = stream.finish(inspector, vault, &mut out);
    }
    Judged {
        action: stream.action(),
        observations: stream.take_observations(),
        unread: matches!(flow, Flow::Open(_) | Flow::Block(Some(_))),
    }
}

impl From<Inspection> for Judged {
    fn from(inspection: Inspection) -> Self {
        Self {
            action: inspection.action,
            observations: inspection.observations,
            unread: inspection.unreadable.is_some(),
        }
    }
}
