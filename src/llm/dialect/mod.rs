//! What is known about a provider's way of speaking: which strings are whose, which deltas belong together.
//!
//! All of it is data (`plugins/dialects/*.toml`). A dialect only adds knowledge: a string it does not name is still
//! seen, on its own, as [`Channel::Metadata`].

mod called;
mod fault;
mod file;
mod lane;
mod marks;
mod names;
mod paths;
mod pattern;
mod usage;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::hash::Hasher;
use std::sync::Arc;

pub use self::called::Called;
use self::called::CalledRule;
pub use self::fault::DialectFault;
pub use self::fault::DialectProblem;
use self::lane::JoinedRule;
pub use self::lane::LaneEnd;
pub use self::lane::LaneKey;
pub use self::lane::LaneKind;
pub use self::lane::LanePart;
use self::lane::LaneRule;
pub use self::lane::Sequel;
use self::lane::SequelRule;
use self::lane::SoundRule;
pub use self::names::Channel;
pub use self::names::DialectKind;
pub use self::names::Wire;
use self::paths::Paths;
use self::pattern::PathPattern;
use self::usage::UsagePaths;
use crate::llm::json::Document;
use crate::llm::json::JsonString;
use crate::llm::json::NodeId;
use crate::llm::json::fold;
use crate::llm::json::folded_hash;
use crate::llm::media::Media;
use crate::llm::stream::StreamFormat;

/// A shorter image, sound or file is read like any string, in bytes of base64: a key may be base64, too. What comes in
/// events of sound alone is sound, however short.
const FILE_BYTES_MIN: usize = 256;

/// The dialects of a ruleset.
#[derive(Clone, Debug)]
pub struct Dialects {
    /// In the order of detection by body; the generic one last.
    ranked: Vec<Arc<Dialect>>,
    generic: Arc<Dialect>,
}

/// Spellings by the hash of their folded form, which is what the map goes by; a few may share one.
type Spellings = HashMap<u64, Vec<String>, BuildHasherDefault<Hashed>>;

/// Takes what is a hash already as it is. Only keys of the dialect's own file are ever put in.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What a message that a caller sends on a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It asks for an answer.
    Asks,
    /// It asks for none.
    Steers,
    /// It may be answered.
    Unknown,
}

/// What one dialect file says, valid by construction.
#[derive(Debug)]
pub struct Dialect {
    name: String,
    provider: String,
    kind: DialectKind,
    wire: Wire,
    peers: bool,
    asks_back: bool,
    routes: Vec<Route>,
    paths: Paths,
    leads: Vec<String>,
    shapes: Vec<Shape>,
    streams: Vec<StreamRule>,
    roles: BTreeMap<String, Channel>,
    texts: Vec<TextRule>,
    metadata_keys: Vec<String>,
    known: Vec<KnownKeys>,
    /// Every spelling of the known keys.
    spellings: Spellings,
    lanes: Vec<LaneRule>,
    strays: Vec<LaneRule>,
    joined: Vec<JoinedRule>,
    sequels: Vec<SequelRule>,
    lane_leaves: Vec<String>,
    sounds: Vec<SoundRule>,
    labels: Vec<String>,
    /// A name stands for itself at any depth.
    copies: Vec<PathPattern>,
    over: Vec<PathPattern>,
    envelopes: Vec<PathPattern>,
    rows: Vec<PathPattern>,
    apart: Vec<PathPattern>,
    bodies: Vec<String>,
    ends: Vec<lane::EndRule>,
    called: Vec<CalledRule>,
    asks: Vec<String>,
    steers: Vec<String>,
    terminators: Vec<String>,
    plain_events: Vec<String>,
    /// Whose words events and bodies are that come in pieces and are no JSON, where there are such.
    plain_text: Option<Channel>,
    pub(crate) usage: UsagePaths,
}

/// A request path and the API behind it.
#[derive(Debug)]
struct Route {
    path: String,
    wire: Wire,
    operation: Option<String>,
}

/// What a body looks like.
#[derive(Debug)]
struct Shape {
    has: Vec<String>,
    is: BTreeMap<String, String>,
    wire: Wire,
}

/// A media type that is a stream, on some paths.
#[derive(Debug)]
struct StreamRule {
    media: String,
    path: String,
    format: StreamFormat,
}

/// Whose words the strings at a place are.
#[derive(Debug)]
struct TextRule {
    /// The whole path, and how many of its steps lead to the value that is asked.
    pattern: PathPattern,
    asked_at: usize,
    when: BTreeMap<String, Vec<String>>,
    channel: RuleChannel,
}

/// A fixed channel, or the one that the role of the value asked stands for.
#[derive(Clone, Copy, Debug)]
enum RuleChannel {
    Fixed(Channel),
    ByRole,
}

/// Keys that the provider reads at a place.
#[derive(Debug)]
struct KnownKeys {
    at: PathPattern,
    keys: Vec<String>,
}

/// A key that reads as one the provider knows, but is written otherwise: some decoders take it for that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key at byte {offset} is a known key in another case")]
pub struct DisguisedKey {
    /// Where the key is, in bytes of the body.
    pub offset: usize,
}

/// The dialect and API that an exchange was taken for.
#[derive(Clone, Debug)]
pub struct Detected {
    /// What is known about the way it speaks.
    pub dialect: Arc<Dialect>,
    /// The shape of answers.
    pub wire: Wire,
}

impl Dialects {
    /// Returns the dialects built into the binary.
    ///
    /// # Errors
    /// Fails when a built-in file is wrong; a test keeps that from happening.
    pub fn embedded() -> Result<Self, Vec<DialectFault>> {
        Self::overlaid(&[])
    }

    /// Returns the built-in dialects, with files of the same name replaced and further ones added.
    ///
    /// # Errors
    /// Returns every fault of every file.
    pub fn overlaid(files: &[(String, String)]) -> Result<Self, Vec<DialectFault>> {
        let mut all: BTreeMap<&str, &str> = file::EMBEDDED.iter().copied().collect();
        all.extend(files.iter().map(|(name, text)| (name.as_str(), text.as_str())));
        let (mut ranked, mut faults) = (Vec::new(), Vec::new());
        for (name, text) in all {
            match file::parse(name, text) {
                Ok(dialect) => ranked.push(dialect),
                Err(found) => faults.extend(found),
            }
        }
        ranked.sort_by_key(|(rank, _)| *rank);
        let ranked: Vec<Arc<Dialect>> = ranked.into_iter().map(|(_, dialect)| Arc::new(dialect)).collect();
        let generic = ranked.iter().find(|dialect| dialect.kind == DialectKind::Generic).cloned();
        if generic.is_none() && faults.is_empty() {
            faults.push(DialectFault::without_generic());
        }
        match generic {
            Some(generic) if faults.is_empty() => Ok(Self { ranked, generic }),
            _ => Err(faults),
        }
    }

    /// Returns the dialect of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Dialect>> {
        self.ranked.iter().find(|dialect| dialect.name == name)
    }

    /// Returns the names of all dialects.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.ranked.iter().map(|dialect| dialect.name.as_str())
    }

    /// Returns an exchange of a dialect that was named, with the API told by path, else by body, else the usual one.
    pub fn of(&self, dialect: &Arc<Dialect>, path: &str, body: Option<(&[u8], &Document)>) -> Detected {
        Detected { dialect: Arc::clone(dialect), wire: dialect.wire(path, body) }
    }

    /// Returns the dialect of an exchange: by its request path (no query), else by its body, else the generic one.
    pub fn detect(&self, path: &str, body: Option<(&[u8], &Document)>) -> Detected {
        let of = |dialect: &Arc<Dialect>, wire| Detected { dialect: Arc::clone(dialect), wire };
        let by_path = self.ranked.iter().find_map(|dialect| Some(of(dialect, dialect.wire_of_path(path)?)));
        let by_body = || {
            let (body, doc) = body?;
            self.ranked.iter().find_map(|dialect| Some(of(dialect, dialect.wire_of_body(body, doc)?)))
        };
        by_path.or_else(by_body).unwrap_or_else(|| of(&self.generic, Wire::Generic))
    }
}

impl Dialect {
    /// Returns the name used in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the provider in OpenTelemetry's conventions (`gen_ai.provider.name`).
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Returns what a model is asked to do at a path (no query), by the names of `gen_ai.operation.name`.
    pub fn operation(&self, path: &str) -> Option<&str> {
        let route = self.routes.iter().find(|route| pattern::glob(&route.path, path))?;
        route.operation.as_deref()
    }

    /// Returns the provider it belongs to.
    pub fn kind(&self) -> DialectKind {
        self.kind
    }

    /// Tells whether both sides are read by models: what comes back is input of one, like what is asked.
    pub fn is_between_peers(&self) -> bool {
        self.peers
    }

    /// Tells whether who sends an event may wait for an answer to it, so that none may wait for the next.
    pub fn asks_back(&self) -> bool {
        self.asks_back
    }

    /// Returns the API of an exchange within this dialect: by path, else by body, else the usual one.
    pub fn wire(&self, path: &str, body: Option<(&[u8], &Document)>) -> Wire {
        let by_body = || body.and_then(|(body, doc)| self.wire_of_body(body, doc));
        self.wire_of_path(path).or_else(by_body).unwrap_or(self.wire)
    }

    /// Returns how a response of that media type is framed, if it is a stream. Parameters are disregarded.
    pub fn stream_format(&self, media_type: &str, path: &str) -> Option<StreamFormat> {
        let media = media_type.split(';').next().unwrap_or_default().trim();
        let fits =
            |rule: &&StreamRule| rule.media.eq_ignore_ascii_case(media) && pattern::glob(&rule.path, path);
        self.streams.iter().find(fits).map(|rule| rule.format)
    }

    /// Tells whether streams of it are objects, one a line.
    pub fn speaks_lines(&self) -> bool {
        self.streams.iter().any(|rule| rule.format == StreamFormat::Ndjson)
    }

    /// Tells whose words a string is.
    pub fn channel(&self, body: &[u8], doc: &Document, string: &JsonString) -> Channel {
        let node = match string.key {
            true => doc.parent(string.node).unwrap_or(NodeId::ROOT),
            false => string.node,
        };
        let steps = pattern::Ancestry::of(doc, node).within(&self.envelopes, body, doc);
        let leaf = steps.last_key(body, doc);
        if !string.key
            && leaf.is_some_and(|leaf| self.metadata_keys.iter().any(|key| key.as_bytes() == &*leaf))
        {
            return Channel::Metadata;
        }
        let fits = |rule: &TextRule| rule.channel(self, body, doc, &steps);
        self.texts.iter().find_map(fits).unwrap_or(Channel::Metadata)
    }

    /// Looks for a key that reads as a known one but is written otherwise.
    ///
    /// # Errors
    /// Fails at the first such key.
    pub fn check_keys(&self, body: &[u8], doc: &Document) -> Result<(), DisguisedKey> {
        for string in doc.strings.iter().filter(|string| string.key) {
            let text = doc.text(body, string);
            let Some(spellings) = self.spellings.get(&folded_hash(&text)) else { continue };
            // Where a key is only ever written in one way, being written so is no disguise.
            if spellings.iter().all(|known| known.as_bytes() == &*text) {
                continue;
            }
            let folded = fold(&text);
            let parent = doc.parent(string.node).unwrap_or(NodeId::ROOT);
            let place = pattern::Ancestry::of(doc, parent).within(&self.envelopes, body, doc);
            let here = self.known.iter().filter(|known| known.at.matches(body, doc, &place));
            let disguised = |key: &String| key.as_bytes() != &*text && fold(key.as_bytes()) == folded;
            if here.flat_map(|known| &known.keys).any(disguised) {
                return Err(DisguisedKey { offset: string.raw.start });
            }
        }
        Ok(())
    }

    /// Tells whether a string is sound or an image, in base64: it is where the dialect says so, and holds no text.
    pub fn is_sound(&self, event: Option<&str>, body: &[u8], doc: &Document, string: &JsonString) -> bool {
        if self.sounds.is_empty() || string.key || string.escaped {
            return false;
        }
        // Asked first, for it is told soonest: language is no base64.
        let raw = body.get(string.raw.clone()).unwrap_or_default();
        let Some(bytes) = Media::binary_of_base64(raw) else { return false };
        let is_file = raw.len() >= FILE_BYTES_MIN && !Media::has_words(&bytes);
        self.stands(event, body, doc, string, |rule| is_file || rule.event.is_some())
    }

    /// Tells whether a string is where the dialect says that sound, images and files are.
    pub fn is_place_of_files(
        &self,
        event: Option<&str>,
        body: &[u8],
        doc: &Document,
        string: &JsonString,
    ) -> bool {
        !string.key && self.stands(event, body, doc, string, |_| true)
    }

    /// Tells whether a string is where some of the rules for sound say.
    fn stands(
        &self,
        event: Option<&str>,
        body: &[u8],
        doc: &Document,
        string: &JsonString,
        counts: impl Fn(&SoundRule) -> bool,
    ) -> bool {
        let steps = pattern::Ancestry::of(doc, string.node).within(&self.envelopes, body, doc);
        let kind = lane::event_kind(body, doc);
        let mut rules = self.sounds.iter().filter(|rule| counts(rule));
        rules.any(|rule| rule.fits(event, kind.as_deref(), body, doc, &steps))
    }

    /// Tells whether anything but the end of a stream ends a text: where nothing does, a word under way may wait for ever.
    pub fn ends_texts(&self) -> bool {
        !self.ends.is_empty()
    }

    /// Returns what a message that a caller sends on a socket is for.
    pub fn purpose(&self, body: &[u8], doc: &Document) -> Purpose {
        let kind = lane::event_kind(body, doc);
        let is_in = |kinds: &[String]| kinds.iter().any(|known| Some(known.as_str()) == kind.as_deref());
        match () {
            () if is_in(&self.asks) => Purpose::Asks,
            () if is_in(&self.steers) => Purpose::Steers,
            () => Purpose::Unknown,
        }
    }

    /// Returns the lanes that an event ends, after its own strings were taken.
    pub fn lane_ends(&self, event: Option<&str>, body: &[u8], doc: &Document) -> Vec<LaneEnd> {
        let kind = lane::event_kind(body, doc);
        self.ends.iter().flat_map(|rule| rule.ends(event, kind.as_deref(), body, doc)).collect()
    }

    /// Returns the strings of a body that are read once more as one text: those of each row, in their order.
    pub fn rows<'d>(&self, body: &[u8], doc: &'d Document) -> Vec<Vec<&'d JsonString>> {
        let strings = |row: &PathPattern| row.places(body, doc).filter_map(|node| doc.string(node)).collect();
        self.rows.iter().map(strings).collect()
    }

    /// Returns the answers of a body that stand beside one another: a text of one does not go on in the next.
    pub fn apart(&self, body: &[u8], doc: &Document) -> Vec<NodeId> {
        self.apart.iter().flat_map(|path| path.places(body, doc)).collect()
    }

    /// Tells whether an event is a body of its own, as each line of a batch's results is: no text of it goes on in the next.
    pub fn is_body(&self, body: &[u8], doc: &Document) -> bool {
        self.bodies.iter().any(|member| doc.find(body, &[member.as_str()]).is_some())
    }

    /// Tells whether a payload that is no JSON is this dialect's end of the stream (`[DONE]`).
    pub fn is_terminator(&self, payload: &[u8]) -> bool {
        self.terminators.iter().any(|terminator| terminator.as_bytes() == payload.trim_ascii())
    }

    /// Tells whether the payload of an event is plain text.
    pub fn is_plain(&self, event: Option<&str>) -> bool {
        event.is_some_and(|event| self.plain_events.iter().any(|plain| plain == event))
    }

    fn wire_of_path(&self, path: &str) -> Option<Wire> {
        self.routes.iter().find(|route| pattern::glob(&route.path, path)).map(|route| route.wire)
    }

    fn wire_of_body(&self, body: &[u8], doc: &Document) -> Option<Wire> {
        let fits = |shape: &&Shape| {
            shape.has.iter().all(|key| doc.find(body, &[key.as_str()]).is_some())
                && shape
                    .is
                    .iter()
                    .all(|(key, value)| doc.str_at(body, &[key.as_str()]).as_deref() == Some(value))
        };
        self.shapes.iter().find(fits).map(|shape| shape.wire)
    }
}

impl TextRule {
    fn channel(
        &self,
        dialect: &Dialect,
        body: &[u8],
        doc: &Document,
        steps: &pattern::Ancestry,
    ) -> Option<Channel> {
        if !self.pattern.matches(body, doc, steps) {
            return None;
        }
        let asked = steps.node_at(self.asked_at);
        let is = |key: &str| doc.child(body, asked, key).and_then(|node| doc.str_of(body, node));
        let holds = self.when.iter().all(|(key, values)| {
            is(key).is_some_and(|value| values.iter().any(|wanted| pattern::glob(wanted, &value)))
        });
        match self.channel {
            _ if !holds => None,
            RuleChannel::Fixed(channel) => Some(channel),
            RuleChannel::ByRole => is("role").and_then(|role| dialect.roles.get(&*role).copied()),
        }
    }
}
