//! `/api/v1/screen` and `/api/v1/screen/response`: what a policy would do about a prompt or an answer.
//!
//! A text (`content`, `prompt`, `response`) is judged as it stands; a `body` as a whole provider message,
//! every string of it, in its dialect.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::Deserialize;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::scan;
use super::scan::Findings;
use super::threat;
use super::threat::ScanOptions;
use super::threat::Threat;
use super::wire::object;
use crate::admin::Office;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::error::ApiError;
use crate::llm::dialect::Channel;
use crate::llm::dialect::Dialect;
use crate::llm::json;
use crate::llm::media::Media;
use crate::policy::decision::Action;
use crate::policy::decision::CallerId;
use crate::policy::decision::Direction;
use crate::policy::inspect::Inspection;
use crate::policy::inspect::Inspector;
use crate::policy::inspect::Observation;
use crate::policy::ruleset::Policy;
use crate::policy::ruleset::Ruleset;
use crate::redact::token::Vault;
use crate::scan::kind::Kind;

const POLICY_DEFAULT: &str = "default";
const DIALECT_AUTO: &str = "auto";

/// A text or a provider message to judge; exactly one of `content`, `prompt`, `response` and `body`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScreenRequest {
    /// A text.
    pub content: Option<String>,
    /// A text, by its name in requests.
    pub prompt: Option<String>,
    /// A text, by its name in responses.
    pub response: Option<String>,
    /// A whole provider request or response, as JSON.
    #[schema(value_type = Option<Object>)]
    pub body: Option<Box<RawValue>>,
    /// The dialect of `body`: `auto`, `openai`, `anthropic`, `gemini`, `ollama`, `generic`.
    pub dialect: Option<String>,
    /// The policy that decides; `default` where it is absent.
    pub policy: Option<String>,
    /// Which threats are looked for.
    #[serde(default, deserialize_with = "object")]
    pub options: ScanOptions,
}

/// What a policy would do.
#[derive(Serialize, ToSchema)]
pub struct ScreenResult {
    /// Whether it would pass, redacted or not.
    pub allowed: bool,
    /// `allow`, `monitor`, `redact` or `block`.
    pub action: &'static str,
    /// Why, in a sentence.
    pub reason: String,
    /// The rules that fired, each once.
    pub rules: Vec<String>,
    /// Every threat, in the order of the content.
    pub threats: Vec<Threat>,
    /// 0 (nothing found) to 100.
    pub risk_score: u8,
    /// How long it took, in milliseconds.
    pub scan_time_ms: f64,
    /// The layers that fired.
    pub layers_triggered: Vec<&'static str>,
    /// The text without what must not pass; only where the action is `redact`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redacted_content: Option<String>,
    /// The body without what must not pass; only where the action is `redact`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub redacted_body: Option<Box<RawValue>>,
    /// The policy that decided.
    pub policy: String,
    /// The revision it was taken from.
    pub revision: u64,
}

/// What is judged.
enum Matter {
    Text(Bytes),
    Body(Bytes, Option<String>),
}

/// Everything a judgement needs, on its way to a thread of its own.
struct Bench {
    office: std::sync::Arc<Office>,
    ruleset: std::sync::Arc<Ruleset>,
    policy: std::sync::Arc<Policy>,
    direction: Direction,
    options: ScanOptions,
    caller: Option<CallerId>,
}

/// `POST /api/v1/screen`.
pub async fn prompt(call: Call) -> Answer {
    screen(call, Direction::Request).await
}

/// `POST /api/v1/screen/response`.
pub async fn response(call: Call) -> Answer {
    screen(call, Direction::Response).await
}

async fn screen(call: Call, direction: Direction) -> Answer {
    let request: ScreenRequest = call.json()?;
    let ruleset = call.office.reloader.handle().load();
    let name = request.policy.as_deref().unwrap_or(POLICY_DEFAULT);
    let Some(policy) = ruleset.policy(name).cloned() else {
        let known = ruleset.policies.keys().map(|id| id.as_str().to_owned()).collect();
        return Err(ApiError::UnknownName {
            message: "there is no such policy".to_owned(),
            key: "valid_policies",
            known,
        });
    };
    let options = request.options;
    let matter = request.matter(direction)?;
    let (Matter::Text(bytes) | Matter::Body(bytes, _)) = &matter;
    scan::ensure_inspectable(&ruleset, bytes.len())?;
    let caller = call.principal.as_ref().map(|principal| CallerId::new(principal.id()));
    let office = call.office.clone();
    let bench = Bench { office: office.clone(), ruleset, policy, direction, options, caller };
    let judging = tokio::task::spawn_blocking(move || bench.judge(matter));
    let (result, record, action) = judging.await.map_err(|_| office.panicked())??;
    record.note(&call, "screen", action, result.revision, Some(result.policy.clone())).await?;
    ok(&result)
}

impl ScreenRequest {
    fn matter(self, direction: Direction) -> Result<Matter, ApiError> {
        let (own, foreign) = match direction {
            Direction::Request => (self.prompt, self.response),
            Direction::Response => (self.response, self.prompt),
        };
        let expected = match direction {
            Direction::Request => "expected exactly one of content, prompt and body",
            Direction::Response => "expected exactly one of content, response and body",
        };
        let wrong = || ApiError::Invalid(expected.to_owned());
        if foreign.is_some() {
            return Err(wrong());
        }
        match (self.content.xor(own.clone()), own, self.body) {
            (Some(text), _, None) if self.dialect.is_none() => Ok(Matter::Text(Bytes::from(text))),
            (Some(_), _, None) => Err(ApiError::Invalid("dialect goes with body".to_owned())),
            (None, None, Some(body)) if body.get().starts_with(['{', '[']) => {
                Ok(Matter::Body(Bytes::from(body.get().to_owned()), self.dialect))
            }
            (None, None, Some(_)) => Err(ApiError::Invalid("body is a JSON object or array".to_owned())),
            _ => Err(wrong()),
        }
    }
}

impl Bench {
    /// Judges on a thread that may block.
    fn judge(self, matter: Matter) -> Result<(ScreenResult, Findings, Action), ApiError> {
        let began = self.office.clock.monotonic();
        let is_body = matches!(matter, Matter::Body(..));
        let inspection = self.inspect(matter)?;
        let took = self.office.clock.monotonic().saturating_sub(began);
        self.office.telemetry.metrics.scanned(took);
        let redacted = inspection.cleared.as_ref().filter(|_| inspection.action == Action::Redact);
        let redacted = redacted.and_then(|cleared| String::from_utf8(cleared.bytes().to_vec()).ok());
        let (content, body) = if is_body { (None, redacted) } else { (redacted, None) };
        let mut record = Findings::default();
        for (observation, kind) in self.observed(&inspection) {
            let Observation { confidence, action, sample, .. } = observation;
            record.push(&self.office, &kind, *confidence, *action, sample.clone());
        }
        let rules: BTreeSet<String> = self.observed(&inspection).map(|(_, kind)| kind.rule_id()).collect();
        let evidence =
            self.observed(&inspection).map(|(seen, kind)| threat::evidence(&kind, seen.confidence));
        let result = ScreenResult {
            allowed: inspection.action != Action::Block,
            action: inspection.action.as_str(),
            reason: reason(&inspection, rules.len()),
            rules: rules.into_iter().collect(),
            threats: self.observed(&inspection).map(|(seen, kind)| show(seen, &kind)).collect(),
            risk_score: threat::risk(evidence),
            scan_time_ms: took.as_micros() as f64 / 1000.0,
            layers_triggered: threat::layers(inspection.observations.iter().map(|seen| seen.layer)),
            redacted_content: content,
            redacted_body: body.map(RawValue::from_string).transpose().map_err(|_| ApiError::Internal)?,
            policy: self.policy.id.as_str().to_owned(),
            revision: self.ruleset.revision,
        };
        Ok((result, record, inspection.action))
    }

    fn inspect(&self, matter: Matter) -> Result<Inspection, ApiError> {
        let clock = &self.office.clock;
        let deadline = clock.monotonic() + std::time::Duration::from_millis(self.ruleset.limits.scan_ms);
        let dialect = self.dialect(&matter)?;
        let inspector = Inspector {
            ruleset: &self.ruleset,
            policy: &self.policy,
            direction: self.direction,
            dialect: &dialect,
            caller: self.caller.as_ref(),
            pins: None,
            now: clock.now(),
            masker: &self.office.masker,
            trial: None,
            guarded: None,
            asked: &[],
            expired: &|| clock.monotonic() >= deadline,
            aside: |_, work| work(),
        };
        let only = self.options.left(&self.ruleset);
        let mut vault = Vault::new(self.office.tenant.clone());
        let channel = match self.direction {
            Direction::Request => Channel::User,
            Direction::Response => Channel::Assistant,
        };
        Ok(match matter {
            Matter::Text(text) => inspector.plain(text, channel, &mut vault, &only),
            Matter::Body(body, _) => inspector.body_for(body, Ok(Media::Json), &mut vault, &only),
        })
    }

    fn dialect(&self, matter: &Matter) -> Result<std::sync::Arc<Dialect>, ApiError> {
        let dialects = &self.ruleset.dialects;
        let (body, named) = match matter {
            Matter::Text(_) => return Ok(dialects.detect("", None).dialect),
            Matter::Body(body, named) => (body, named.as_deref().unwrap_or(DIALECT_AUTO)),
        };
        if named == DIALECT_AUTO {
            let document = json::walk(body, &self.ruleset.limits.json()).ok();
            let seen = document.as_ref().map(|document| (&body[..], document));
            return Ok(dialects.detect("", seen).dialect);
        }
        dialects.get(named).cloned().ok_or_else(|| {
            let mut known: Vec<String> = dialects.names().chain([DIALECT_AUTO]).map(str::to_owned).collect();
            known.sort();
            let message = "there is no such dialect".to_owned();
            ApiError::UnknownName { message, key: "valid_dialects", known }
        })
    }

    fn observed<'a>(
        &'a self,
        inspection: &'a Inspection,
    ) -> impl Iterator<Item = (&'a Observation, Kind<'a>)> {
        inspection.observations.iter().filter_map(|seen| Some((seen, self.ruleset.kind(seen.detector)?)))
    }
}

fn reason(inspection: &Inspection, rules: usize) -> String {
    match (&inspection.unreadable, inspection.action) {
        (Some(unreadable), _) => format!("the content cannot be inspected: {unreadable}"),
        (None, Action::Allow) => "nothing was found that the policy cares about".to_owned(),
        (None, Action::Monitor) => format!("{rules} rules fired; the policy records them"),
        (None, Action::Redact) => format!("{rules} rules fired; the policy takes values out"),
        (None, Action::Block) => format!("{rules} rules fired; the policy blocks"),
    }
}

fn show(seen: &Observation, kind: &Kind<'_>) -> Threat {
    Threat {
        category: kind.category.as_str(),
        detector: kind.name.to_owned(),
        severity: kind.severity.as_str(),
        pattern: kind.source.to_owned(),
        redacted_match: seen.sample.clone(),
        rule_id: kind.rule_id(),
        layer: seen.layer.as_str(),
        confidence: seen.confidence.as_unit(),
        start: seen.value.start,
        end: seen.value.end,
        techniques: kind.techniques.to_vec(),
        decoded_from: (!seen.decoded_from.0.is_empty()).then(|| seen.decoded_from.to_string()),
    }
}
