//! A dialect as it is written, and every fault in it.
//!
//! | table | says |
//! |---|---|
//! | `[dialect]` | name, kind, usual wire, rank in detection (low first), whether what comes back is input of a model too (`peers`), whether who sends an event may wait for an answer to it (`asks_back`): then members that no rule names hold nothing back, keys whose strings are never text, names that tell a piece of text anywhere, names (`labels`, globs) whose strings never come in pieces, objects and arrays (`copies`, by name or by path) that repeat a text in other forms, paths (`over`) of strings and of `true` that say that the texts beside them are over, paths (`envelopes`) of values that are a whole body each, as in a batch, paths (`credentials`) of strings that are keys or tokens for whom the API calls, of no channel that a model reads, paths (`rows`) of strings that are read once more as one text, paths (`apart`) of answers that stand beside one another, members (`bodies`) of events each of which is a body of its own, payloads that end a stream, events whose payload is no JSON (`plain_events`), whose words events and bodies are that come in pieces and are no JSON (`plain_text`, a channel; none: there are no such), globs over request paths behind which no model works (`free`): tokens are counted there, files brought; those where a body is a file, whatever type SDKs give it (`files`); those at which files come part by part (`parts`), each in a request of its own, and behind a question mark the member of the query that names the file, where the path does not; those behind which models work later, whose use the answer does not tell (`unmetered`): batches, training; those at which a secret, a key or a call is to be had that goes past whoever reads requests (`past`; `past_by_body`, where a body asks for it); fields of an answer's head that tell where to go on (`leads`); types of messages on a socket that ask for an answer (`asks`), and that ask for none (`steers`): any other may be answered; the name (`provider`) that traces give whoever speaks it |
//! | `[[route]]` | a glob over request paths, the wire behind it, and what a model does there (`operation`), by the names of OpenTelemetry's conventions |
//! | `[[shape]]` | members a body has, or texts they are, and the wire that means |
//! | `[[stream]]` | a media type (and path glob) that is a stream: `sse`, `ndjson`, `json_array`, `amazon_events`, `text` (of no told length, and not what begins as JSON does; it takes a `plain_text`); JSON under the status of an error is none |
//! | `[roles]` | role names and their channels |
//! | `[[text]]` | a path below `at`, and the channel of its strings; none: by the `role` of the value at `at`; `when` asks members there (globs). The first rule that fits counts |
//! | `[[known]]` | keys the provider reads at a place; the same in another case is refused there |
//! | `[[lane]]` | where deltas of a text are, in which event (a glob); told apart by `key` members, by each `[*]` (its `index` member, else its position), not by `[+]`, and by `flags` beside it that are true: such a text is a brief one. A path that ends in `**`, or in `*`, is for what no other rule names, labels and metadata aside; `kind` says how it comes: in `pieces` (the usual way), in `brief` ones, `whole` each time, in `messages` that are read alone too, as `stray` members of events: read alone, and put together where they may be pieces (asked where no other rule fits, and no name that tells a piece); `json` tells that it is JSON itself, as a tool call's arguments are: masks leave it so |
//! | `[[joined]]` | lanes whose texts are read once more as one text, of that name, in the order in which they come; of several that join one lane, those of fewer lanes first |
//! | `[[sequel]]` | lanes whose texts follow one another, as blocks of one answer: one that begins where another is over goes on with it, if their keys are `alike` in so many first members; an event that ends one ends none of them where it ends in what is likely to be the begin of a value |
//! | `[[sound]]` | where sound, images and files are, in base64, in which event: what holds no text there passes, and is counted; a short one, or one with words in it, only in an event |
//! | `[[end]]` | an event, or a member that is set, that ends the lanes named (none: all) whose key begins so; with `may_resume` not those that end in what is likely to be the begin of a value |
//! | `[[called]]` | where an event (a glob) names the tool that the lanes are for whose whole key is made of its `key` members and of each `[*]` |
//! | `[usage]` | alternatives of sums of paths; `[name=text]` in a path leads to the element whose member is that text |

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::Channel;
use super::Dialect;
use super::DialectKind;
use super::KnownKeys;
use super::Route;
use super::RuleChannel;
use super::Shape;
use super::Spellings;
use super::StreamRule;
use super::TextRule;
use super::Wire;
use super::called::CalledFile;
use super::called::CalledRule;
use super::fault::DialectFault;
use super::fault::DialectProblem;
use super::lane::EndRule;
use super::lane::JoinedRule;
use super::lane::LaneKind;
use super::lane::LaneRule;
use super::lane::SequelRule;
use super::lane::SoundRule;
use super::paths::PartRule;
use super::paths::Paths;
use super::pattern::PathPattern;
use super::pattern::Wanted;
use super::usage::UsageFile;
use crate::llm::json::folded_hash;
use crate::llm::stream::StreamFormat;

/// The dialects built into the binary: file name and text.
pub(super) const EMBEDDED: [(&str, &str); 9] = [
    ("a2a.toml", include_str!("../../../plugins/dialects/a2a.toml")),
    ("anthropic.toml", include_str!("../../../plugins/dialects/anthropic.toml")),
    ("bedrock.toml", include_str!("../../../plugins/dialects/bedrock.toml")),
    ("cohere.toml", include_str!("../../../plugins/dialects/cohere.toml")),
    ("gemini.toml", include_str!("../../../plugins/dialects/gemini.toml")),
    ("generic.toml", include_str!("../../../plugins/dialects/generic.toml")),
    ("mcp.toml", include_str!("../../../plugins/dialects/mcp.toml")),
    ("ollama.toml", include_str!("../../../plugins/dialects/ollama.toml")),
    ("openai.toml", include_str!("../../../plugins/dialects/openai.toml")),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DialectFile {
    dialect: Header,
    #[serde(default)]
    route: Vec<RouteFile>,
    #[serde(default)]
    shape: Vec<ShapeFile>,
    #[serde(default)]
    stream: Vec<StreamFile>,
    #[serde(default)]
    roles: BTreeMap<String, Channel>,
    #[serde(default)]
    text: Vec<TextFile>,
    #[serde(default)]
    known: Vec<KnownFile>,
    #[serde(default)]
    lane: Vec<LaneFile>,
    #[serde(default)]
    joined: Vec<JoinedFile>,
    #[serde(default)]
    sequel: Vec<SequelRule>,
    #[serde(default)]
    sound: Vec<SoundFile>,
    #[serde(default)]
    end: Vec<EndFile>,
    #[serde(default)]
    called: Vec<CalledFile>,
    #[serde(default)]
    usage: UsageFile,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    name: String,
    kind: DialectKind,
    wire: Wire,
    /// Lower ranks are asked first.
    rank: u8,
    #[serde(default)]
    peers: bool,
    #[serde(default)]
    asks_back: bool,
    #[serde(default)]
    metadata_keys: Vec<String>,
    #[serde(default)]
    lane_leaves: Vec<String>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    copies: Vec<Spanned<String>>,
    #[serde(default)]
    over: Vec<Spanned<String>>,
    #[serde(default)]
    envelopes: Vec<Spanned<String>>,
    #[serde(default)]
    credentials: Vec<Spanned<String>>,
    #[serde(default)]
    rows: Vec<Spanned<String>>,
    #[serde(default)]
    apart: Vec<Spanned<String>>,
    #[serde(default)]
    bodies: Vec<String>,
    #[serde(default)]
    terminators: Vec<String>,
    #[serde(default)]
    plain_events: Vec<String>,
    plain_text: Option<Channel>,
    #[serde(default)]
    free: Vec<String>,
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    unmetered: Vec<String>,
    #[serde(default)]
    past: Vec<String>,
    #[serde(default)]
    past_by_body: Vec<String>,
    #[serde(default)]
    parts: Vec<String>,
    #[serde(default)]
    leads: Vec<String>,
    #[serde(default)]
    asks: Vec<String>,
    #[serde(default)]
    steers: Vec<String>,
    /// The provider's name in OpenTelemetry's conventions; its own name, where none is said.
    provider: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteFile {
    path: String,
    wire: Wire,
    operation: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShapeFile {
    #[serde(default)]
    has: Vec<String>,
    #[serde(default)]
    is: BTreeMap<String, String>,
    wire: Wire,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamFile {
    media: String,
    #[serde(default = "any_path")]
    path: String,
    format: Spanned<FormatName>,
}

fn any_path() -> String {
    "*".into()
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum FormatName {
    Sse,
    Ndjson,
    JsonArray,
    AmazonEvents,
    Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextFile {
    #[serde(default)]
    at: Option<Spanned<String>>,
    text: Spanned<String>,
    #[serde(default)]
    when: BTreeMap<String, Vec<String>>,
    /// Absent: the role of the value at `at` tells.
    #[serde(default)]
    channel: Option<Channel>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownFile {
    at: Spanned<String>,
    keys: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LaneFile {
    name: String,
    channel: Channel,
    event: Option<String>,
    #[serde(default)]
    kind: LaneKind,
    #[serde(default)]
    json: bool,
    path: Spanned<String>,
    #[serde(default)]
    key: Vec<String>,
    #[serde(default)]
    flags: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JoinedFile {
    name: String,
    lanes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SoundFile {
    event: Option<String>,
    path: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndFile {
    #[serde(default)]
    lanes: Vec<String>,
    event: Option<String>,
    path: Option<Spanned<String>>,
    #[serde(default)]
    key: Vec<String>,
    #[serde(default)]
    may_resume: bool,
}

/// Reads one file, and returns the dialect with its rank.
pub(super) fn parse(file: &str, text: &str) -> Result<(u8, Dialect), Vec<DialectFault>> {
    let mut reader = Reader { file, text, faults: Vec::new() };
    let written: DialectFile = match toml::from_str(text) {
        Ok(written) => written,
        Err(fault) => {
            reader.fault(fault.span(), DialectProblem::Malformed { reason: fault.message().into() });
            return Err(reader.faults);
        }
    };
    let rank = written.dialect.rank;
    let dialect = reader.dialect(written);
    match reader.faults.is_empty() {
        true => Ok((rank, dialect)),
        false => Err(reader.faults),
    }
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    faults: Vec<DialectFault>,
}

impl Reader<'_> {
    fn dialect(&mut self, written: DialectFile) -> Dialect {
        let DialectFile {
            dialect,
            route,
            shape,
            stream,
            roles,
            text,
            known,
            lane,
            joined,
            sequel,
            sound,
            end,
            called,
            usage,
        } = written;
        let by_role_allowed = !roles.is_empty();
        let (strays, lane) = lane.into_iter().partition::<Vec<_>, _>(|rule| rule.kind == LaneKind::Stray);
        Dialect {
            provider: dialect.provider.unwrap_or_else(|| dialect.name.clone()),
            name: dialect.name,
            kind: dialect.kind,
            wire: dialect.wire,
            asks_back: dialect.asks_back,
            peers: dialect.peers,
            routes: route.into_iter().map(route_rule).collect(),
            shapes: shape.into_iter().map(shape_rule).collect(),
            streams: stream.into_iter().map(|rule| self.stream_rule(rule, dialect.plain_text)).collect(),
            roles,
            texts: self.text_rules(&dialect.credentials, text, by_role_allowed),
            metadata_keys: dialect.metadata_keys,
            spellings: spellings(&known),
            known: known
                .into_iter()
                .map(|known| KnownKeys { at: self.pattern(&known.at), keys: known.keys })
                .collect(),
            lanes: lane.into_iter().map(|rule| self.lane_rule(rule)).collect(),
            strays: strays.into_iter().map(|rule| self.lane_rule(rule)).collect(),
            joined: joined.into_iter().map(joined_rule).collect(),
            sequels: sequel,
            lane_leaves: dialect.lane_leaves,
            sounds: sound.into_iter().map(|rule| self.sound_rule(rule)).collect(),
            labels: dialect.labels,
            copies: dialect.copies.iter().map(|path| self.pattern(path)).collect(),
            over: dialect.over.iter().map(|path| self.pattern(path)).collect(),
            envelopes: dialect.envelopes.iter().map(|path| self.pattern(path)).collect(),
            rows: dialect.rows.iter().map(|path| self.pattern(path)).collect(),
            apart: dialect.apart.iter().map(|path| self.pattern(path)).collect(),
            bodies: dialect.bodies,
            ends: end.into_iter().map(|rule| self.end_rule(rule)).collect(),
            called: called.into_iter().map(|rule| self.called_rule(rule)).collect(),
            asks: dialect.asks,
            steers: dialect.steers,
            terminators: dialect.terminators,
            plain_events: dialect.plain_events,
            plain_text: dialect.plain_text,
            paths: Paths {
                free: dialect.free,
                files: dialect.files,
                unmetered: lowered(&dialect.unmetered),
                past: lowered(&dialect.past),
                past_by_body: lowered(&dialect.past_by_body),
                parts: dialect.parts.iter().map(|rule| PartRule::read(rule)).collect(),
            },
            leads: dialect.leads,
            usage: usage.paths(),
        }
    }

    fn stream_rule(&mut self, written: StreamFile, plain_text: Option<Channel>) -> StreamRule {
        let format = match written.format.get_ref() {
            FormatName::Sse => StreamFormat::Sse,
            FormatName::Ndjson => StreamFormat::Ndjson,
            FormatName::JsonArray => StreamFormat::JsonArray,
            FormatName::AmazonEvents => StreamFormat::AmazonEvents,
            FormatName::Text => StreamFormat::Text,
        };
        if format == StreamFormat::Text && plain_text.is_none() {
            self.fault(Some(written.format.span()), DialectProblem::NoPlainText);
        }
        StreamRule { media: written.media, path: written.path, format }
    }

    /// Reads the rules of channels; those of credentials are asked first.
    fn text_rules(
        &mut self,
        credentials: &[Spanned<String>],
        texts: Vec<TextFile>,
        by_role_allowed: bool,
    ) -> Vec<TextRule> {
        let mut rules: Vec<TextRule> = Vec::with_capacity(credentials.len() + texts.len());
        for path in credentials {
            rules.push(TextRule {
                pattern: self.pattern(path),
                asked_at: 0,
                when: BTreeMap::new(),
                channel: RuleChannel::Fixed(Channel::Credential),
            });
        }
        rules.extend(texts.into_iter().map(|rule| self.text_rule(rule, by_role_allowed)));
        rules
    }

    fn text_rule(&mut self, written: TextFile, by_role_allowed: bool) -> TextRule {
        let mut pattern = written.at.as_ref().map(|at| self.pattern(at)).unwrap_or_default();
        // One value is asked: what goes on behind it could not be told from it.
        let at = written.at.as_ref().filter(|_| pattern.steps.last() == Some(&Wanted::Below));
        at.into_iter().for_each(|at| self.fault(Some(at.span()), DialectProblem::PathPattern));
        let asked_at = pattern.steps.len();
        pattern.steps.extend(self.pattern(&written.text).steps);
        let channel = written.channel.map_or(RuleChannel::ByRole, RuleChannel::Fixed);
        if matches!(channel, RuleChannel::ByRole) && !by_role_allowed {
            self.fault(Some(written.text.span()), DialectProblem::NoRoles);
        }
        TextRule { pattern, asked_at, when: written.when, channel }
    }

    fn lane_rule(&mut self, written: LaneFile) -> LaneRule {
        LaneRule {
            path: self.pattern(&written.path),
            name: written.name,
            channel: written.channel,
            event: written.event,
            kind: written.kind,
            is_json: written.json,
            keys: written.key.iter().map(|path| keys(path)).collect(),
            flags: written.flags,
        }
    }

    fn sound_rule(&mut self, written: SoundFile) -> SoundRule {
        SoundRule { path: self.pattern(&written.path), event: written.event }
    }

    fn end_rule(&mut self, written: EndFile) -> EndRule {
        EndRule {
            path: written.path.as_ref().map(|path| self.pattern(path)).unwrap_or_default(),
            names: written.lanes,
            event: written.event,
            keys: written.key.iter().map(|path| keys(path)).collect(),
            may_resume: written.may_resume,
        }
    }

    fn called_rule(&mut self, CalledFile { event, path, key }: CalledFile) -> CalledRule {
        CalledRule { event, path: self.pattern(&path), keys: key.iter().map(|path| keys(path)).collect() }
    }

    fn pattern(&mut self, written: &Spanned<String>) -> PathPattern {
        written.get_ref().parse().unwrap_or_else(|_| {
            self.fault(Some(written.span()), DialectProblem::PathPattern);
            PathPattern::default()
        })
    }

    fn fault(&mut self, span: Option<Range<usize>>, problem: DialectProblem) {
        let before = span.and_then(|span| self.text.get(..span.start));
        let line = before.map(|before| before.matches('\n').count() + 1);
        self.faults.push(DialectFault { file: self.file.to_string(), line, problem });
    }
}

/// Returns every spelling of the known keys, by the hash of their folded form.
fn spellings(known: &[KnownFile]) -> Spellings {
    let mut spellings = Spellings::default();
    for key in known.iter().flat_map(|known| &known.keys) {
        let same = spellings.entry(folded_hash(key.as_bytes())).or_default();
        if !same.contains(key) {
            same.push(key.clone());
        }
    }
    spellings
}

fn lowered(globs: &[String]) -> Vec<String> {
    globs.iter().map(|glob| glob.to_ascii_lowercase()).collect()
}

fn route_rule(written: RouteFile) -> Route {
    Route { path: written.path, wire: written.wire, operation: written.operation }
}

fn shape_rule(written: ShapeFile) -> Shape {
    Shape { has: written.has, is: written.is, wire: written.wire }
}

fn joined_rule(written: JoinedFile) -> JoinedRule {
    JoinedRule { name: written.name, lanes: written.lanes }
}

/// Returns the keys of a path.
pub(super) fn keys(path: &str) -> Vec<String> {
    path.split('.').map(str::to_string).collect()
}
