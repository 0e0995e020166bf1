//! Inspection with the real packs and the shipped policies, in this process: whole bodies and streams.

mod arguments;
mod begun;
mod blocks;
mod borders;
mod canary;
mod carrier;
mod chunking;
mod copies;
mod credentials;
mod endings;
mod errands;
mod frames;
mod growing;
mod hidden;
mod images;
mod joined;
mod layer2;
mod live;
mod memo;
mod names;
mod peers;
mod pieces;
mod plain;
mod policies;
mod quoted;
mod refused;
mod remarks;
mod scripts;
mod spelt;
mod tainted;
mod tokens;
mod traffic;
mod typed;
mod unknown;
mod waiting;
mod whole;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use jiff::Timestamp;
use portcullis::app::compiled::CompiledFolder;
use portcullis::document::Document;
use portcullis::document::section;
use portcullis::document::toml;
use portcullis::llm::dialect::Dialects;
use portcullis::llm::media::Media;
use portcullis::llm::stream::StreamFormat;
use portcullis::policy::decision::Action;
use portcullis::policy::decision::CallerId;
use portcullis::policy::decision::Cleared;
use portcullis::policy::decision::Direction;
use portcullis::policy::inspect::Inspection;
use portcullis::policy::inspect::Inspector;
use portcullis::policy::inspect::Observation;
use portcullis::policy::inspect::Pinning;
use portcullis::policy::inspect::shadow::Foreseen;
use portcullis::policy::pin::Pins;
use portcullis::policy::ruleset::Parts;
use portcullis::policy::ruleset::RulesFile;
use portcullis::policy::ruleset::Ruleset;
use portcullis::policy::stream::Flow;
use portcullis::policy::stream::StreamInspector;
use portcullis::redact::mask::Masker;
use portcullis::redact::mask::TenantKey;
use portcullis::redact::token::Vault;
use portcullis::scan::classifier::shelf::Shelf;
use portcullis::scan::pack;
use portcullis::scan::rule::Rules;
use portcullis::scan::rule::fact::Fact;
use portcullis::scan::scanner::Scanner;
use portcullis::scan::trace::Guarded;

use crate::gateway::COMPILED;

/// When everything here happens.
const NOW: &str = "2026-11-21T12:00:00Z";
const EVENT_BYTES_MAX: usize = 1 << 20;

/// The shipped rules with policies added, and what a judgement needs beside them.
pub struct Bench {
    pub rules: Ruleset,
    key: TenantKey,
    masker: Masker,
    pub caller: Option<CallerId>,
    pub pins: Option<Pins>,
    pub now: Timestamp,
    /// Whether the time for scanning is over.
    pub is_late: bool,
    /// How often it may still be asked whether it is; none: as often as it likes.
    pub looks_left: Option<AtomicUsize>,
    /// The system prompt that answers must not tell.
    pub guarded: Option<Guarded>,
    /// What was found in the request that is answered.
    pub asked: Vec<Fact>,
}

/// Who judges, and which way the body goes.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    pub policy: &'a str,
    pub direction: Direction,
    pub dialect: &'a str,
}

/// What became of a stream.
pub struct Streamed {
    pub out: Vec<u8>,
    pub end: End,
    pub action: Action,
    pub shadow: Foreseen,
    pub seen: Vec<Seen>,
    /// What ends the stream in the caller's dialect, with an error and gracefully.
    pub inspector: StreamInspector,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Finished,
    Passed,
    Blocked,
    Unreadable,
}

/// One finding: type, action, confidence, where its value began and ended, its sample.
pub type Seen = (String, Action, String, usize, usize, String);

/// Takes one of what is left; tells whether there was none.
fn takes_the_last(left: &AtomicUsize) -> bool {
    let less = |left: usize| left.checked_sub(1);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err()
}

impl Bench {
    /// Compiles the built-in packs under the shipped policies and more.
    pub fn new(more: &str) -> Self {
        let mut document = parsed(include_str!("../../../conf/gateway.toml"));
        let shipped = [
            ("default", include_str!("../../../conf/policies/default.toml")),
            ("strict", include_str!("../../../conf/policies/strict.toml")),
            ("monitor", include_str!("../../../conf/policies/monitor.toml")),
        ];
        for (name, text) in shipped {
            document.overlay(parsed(text).nested(&["policies", name]));
        }
        document.overlay(parsed(more));
        for own in portcullis::policy::reload::FIXED_KEYS.iter().chain(&["siem"]) {
            document = without(&document, own);
        }
        let rules = section::read(&document, RulesFile::read).expect("the rules are sound");
        let packs = Arc::new(pack::builtin().expect("packs"));
        let kept = CompiledFolder::new(COMPILED.into());
        let scanner = Scanner::compile_cached(packs, &kept).expect("packs compile");
        let names: Vec<&str> = scanner.detectors().iter().map(|detector| detector.name.as_str()).collect();
        let layer3 = Shelf::read(pack::builtin_models(), &names).expect("models");
        let layer2 = Rules::compile_beside(pack::builtin_rules(), scanner.detectors(), layer3.kinds());
        let layer2 = layer2.expect("rules");
        let parts = Parts {
            revision: 1,
            rules: &rules,
            places: document.places(),
            scanner: Arc::new(scanner),
            layer2: Arc::new(layer2),
            layer3: Arc::new(layer3),
            dialects: Arc::new(Dialects::embedded().expect("dialects")),
            dialect_files: Vec::new(),
        };
        let key = TenantKey::derive(&[7; 32], "test");
        Self {
            rules: Ruleset::build(parts).expect("the policies compile"),
            masker: Masker::new(key.clone()),
            key,
            caller: None,
            pins: None,
            now: NOW.parse().expect("a time"),
            is_late: false,
            looks_left: None,
            guarded: None,
            asked: Vec::new(),
        }
    }

    /// Returns the vault of a new exchange.
    pub fn vault(&self) -> Vault {
        Vault::new(self.key.clone())
    }

    pub fn with_inspector<T>(&self, case: Case<'_>, run: impl FnOnce(&Inspector<'_>) -> T) -> T {
        let policy = self.rules.policy(case.policy).expect("a policy");
        let dialect = self.rules.dialects.get(case.dialect).expect("a dialect");
        run(&Inspector {
            ruleset: &self.rules,
            policy,
            direction: case.direction,
            dialect,
            caller: self.caller.as_ref(),
            pins: self.pins.as_ref().map(|pins| Pinning { pins, route: "test" }),
            now: self.now,
            masker: &self.masker,
            trial: None,
            guarded: self.guarded.as_ref(),
            asked: &self.asked,
            expired: &|| self.is_late || self.looks_left.as_ref().is_some_and(takes_the_last),
            aside: |_, work| work(),
        })
    }

    /// Judges a whole JSON body.
    pub fn whole(&self, case: Case<'_>, vault: &mut Vault, body: &[u8]) -> Inspection {
        self.declared(case, vault, body, "application/json")
    }

    /// Judges a whole body of a media type.
    pub fn declared(&self, case: Case<'_>, vault: &mut Vault, body: &[u8], media: &str) -> Inspection {
        let body = Bytes::copy_from_slice(body);
        self.with_inspector(case, |inspector| inspector.body(body, Media::parse(Some(media)), vault))
    }

    /// Judges a stream that comes in chunks.
    pub fn stream<'c>(
        &self,
        case: Case<'_>,
        format: StreamFormat,
        vault: &mut Vault,
        chunks: impl IntoIterator<Item = &'c [u8]>,
    ) -> Streamed {
        self.with_inspector(case, |inspector| {
            let mut stream = StreamInspector::new(format, EVENT_BYTES_MAX);
            let (mut cleared, mut end) = (Vec::new(), None);
            for chunk in chunks {
                end = note(end, stream.push(inspector, vault, chunk, &mut cleared));
                if matches!(end, Some(End::Blocked | End::Unreadable)) {
                    break;
                }
            }
            if !matches!(end, Some(End::Blocked | End::Unreadable)) {
                end = note(end, stream.finish(inspector, vault, &mut cleared));
            }
            Streamed {
                out: cleared.into_iter().flat_map(Cleared::into_bytes).collect(),
                end: end.unwrap_or(End::Finished),
                action: stream.action(),
                shadow: stream.shadow().clone(),
                seen: self.seen(stream.take_observations()),
                inspector: stream,
            }
        })
    }

    /// Returns findings in a form that can be compared, in the order of their places.
    pub fn seen(&self, observations: Vec<Observation>) -> Vec<Seen> {
        let name = |it: &Observation| self.rules.kind(it.detector).expect("known").name.to_owned();
        let row = |it: Observation| {
            let confidence = format!("{:?}", it.confidence);
            (name(&it), it.action, confidence, it.value.start, it.value.end, it.sample)
        };
        let mut seen: Vec<Seen> = observations.into_iter().map(row).collect();
        seen.sort_by(|a, b| (a.3, &a.0).cmp(&(b.3, &b.0)));
        seen
    }
}

impl<'a> Case<'a> {
    /// Names a judgement of a response.
    pub fn response(policy: &'a str, dialect: &'a str) -> Self {
        Self { policy, direction: Direction::Response, dialect }
    }

    /// Names a judgement of a request.
    pub fn request(policy: &'a str, dialect: &'a str) -> Self {
        Self { policy, direction: Direction::Request, dialect }
    }
}

/// Writes a policy that does one thing about every category, however unsure a finding is.
pub fn policy_of_all(name: &str, mode: &str, more: &str) -> String {
    let mut text = format!("[policies.{name}]\n{more}\n");
    for category in ["secrets", "pii", "injection", "exfiltration", "custom"] {
        let _ =
            write!(text, "[policies.{name}.categories.{category}]\nmode = \"{mode}\"\nthreshold = \"low\"\n");
    }
    text
}

/// A GitHub token that is nobody's: made, not written down.
pub fn github_token(bench: &Bench) -> String {
    valid(bench, "github_token", 1)
}

/// Returns a valid value of a detector.
pub fn valid(bench: &Bench, detector: &str, seed: u64) -> String {
    let id = bench.rules.scanner.find(detector).unwrap_or_else(|| panic!("no detector {detector}"));
    let detector = bench.rules.scanner.detector(id).expect("known");
    let value = portcullis::scan::proof::valid_value(detector, seed).expect("a value");
    String::from_utf8(value).expect("a readable value")
}

fn note(before: Option<End>, flow: Flow) -> Option<End> {
    match flow {
        Flow::Continue => before,
        Flow::Open(_) => Some(End::Passed),
        Flow::Block(None) => Some(End::Blocked),
        Flow::Block(Some(_)) => Some(End::Unreadable),
    }
}

fn parsed(text: &str) -> Document {
    toml::parse(text, "test").expect("is TOML")
}

fn without(document: &Document, key: &str) -> Document {
    let mut root = document.root().clone();
    root.remove(key);
    Document::from_json(serde_json::Value::Object(root), None).expect("an object")
}
