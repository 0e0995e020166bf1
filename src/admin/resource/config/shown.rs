//! The configuration as answers show it: for the API document. What is shown is the document itself.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// What a change answers: what is in force after it, or what a trial found.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum ConfigChanged {
    /// It was made.
    Made(Box<EffectiveConfig>),
    /// It was only tried (`dry_run=true`).
    Tried(ConfigTrial),
}

/// The effective configuration.
#[derive(Serialize, ToSchema)]
pub struct EffectiveConfig {
    /// The revision in force.
    pub revision: u64,
    /// All that it says.
    #[serde(flatten)]
    pub document: ConfigDocument,
}

/// What a change would bring.
#[derive(Serialize, ToSchema)]
pub struct ConfigTrial {
    /// `true`.
    pub dry_run: bool,
    /// The revision in force, which stays.
    pub revision: u64,
    /// The top-level keys that would change.
    pub changed: Vec<String>,
    /// Whether packs or dialects would change.
    pub packs_changed: bool,
    /// Keys that would wait for a restart.
    pub needs_restart: Vec<String>,
    /// The whole document afterwards.
    #[schema(value_type = ConfigDocument)]
    pub config: Value,
}

/// The keys of `gateway.toml`, defaults and environment laid over each other; what a key calls a secret reads `***`. The
/// file that comes with the gateway, `conf/gateway.toml`, says what each means.
#[derive(Serialize, ToSchema)]
pub struct ConfigDocument {
    /// Where requests go. This and `policies`, `limits`, `detectors`, `a2a` and `siem` change while the gateway runs.
    pub routes: Option<Vec<RouteDocument>>,
    /// What is done about findings, by the policy's name.
    pub policies: Option<BTreeMap<String, PolicyDocument>>,
    /// How large, deep and frequent things may be.
    pub limits: LimitsDocument,
    /// Which detectors are off.
    pub detectors: Option<DetectorsDocument>,
    /// How calls between agents are judged.
    #[schema(value_type = Option<Object>)]
    pub a2a: Option<Value>,
    /// Where the audit log is forwarded to.
    #[schema(value_type = Option<Object>)]
    pub siem: Option<Value>,
    /// The data plane. This and what follows changes only with a restart.
    #[schema(value_type = Object)]
    pub proxy: Value,
    /// The management plane.
    #[schema(value_type = Object)]
    pub admin: Value,
    /// Sessions of people who sign in.
    #[schema(value_type = Option<Object>)]
    pub session: Option<Value>,
    /// The identity provider.
    #[schema(value_type = Option<Object>)]
    pub sso: Option<Value>,
    /// Where state lies.
    #[schema(value_type = Object)]
    pub store: Value,
    /// What nodes share.
    #[schema(value_type = Option<Object>)]
    pub cluster: Option<Value>,
    /// Where packs lie.
    #[schema(value_type = Option<Object>)]
    pub plugins: Option<Value>,
    /// The audit log.
    #[schema(value_type = Object)]
    pub audit: Value,
    /// What use costs.
    #[schema(value_type = Option<Object>)]
    pub analytics: Option<Value>,
    /// Where the licence lies.
    #[schema(value_type = Option<Object>)]
    pub license: Option<Value>,
    /// Where traces and metrics are sent.
    #[schema(value_type = Option<Object>)]
    pub otlp: Option<Value>,
    /// When signing keys change.
    #[schema(value_type = Option<Object>)]
    pub signing: Option<Value>,
    /// Local users and their tokens.
    #[schema(value_type = Option<Object>)]
    pub auth: Option<Value>,
    /// Logs and metrics.
    #[schema(value_type = Option<Object>)]
    pub telemetry: Option<Value>,
    /// How trust in agents is kept.
    #[schema(value_type = Option<Object>)]
    pub trust: Option<Value>,
}

/// One route, as it is written.
#[derive(Serialize, ToSchema)]
pub struct RouteDocument {
    /// Its name.
    pub name: String,
    /// The host it answers for, or `*.` and one; absent: every host.
    pub host: Option<String>,
    /// What paths begin with.
    pub path_prefix: Option<String>,
    /// Whether that is taken off before the request is forwarded.
    pub strip_prefix: Option<bool>,
    /// Where requests go.
    pub upstream: Texts,
    /// Certificates that vouch for the upstream beside the system's.
    pub upstream_ca_file: Option<String>,
    /// Whether HTTP/2 is spoken to the upstream: `auto`, `never` or `always`.
    pub h2: Option<String>,
    /// The shape of bodies: `auto` or a dialect's name.
    pub dialect: Option<String>,
    /// Who may call: `transparent`, `gateway_key` or `a2a`.
    pub auth: Option<String>,
    /// The file in which the provider's key lies.
    pub provider_key_file: Option<String>,
    /// The variable in which the provider's key lies.
    pub provider_key_env: Option<String>,
    /// The region of AWS that requests are signed for.
    pub aws_region: Option<String>,
    /// The service of AWS that requests are signed for.
    pub aws_service: Option<String>,
    /// The policy that decides.
    pub policy: Option<String>,
    /// Whether connections may be upgraded.
    pub websocket: Option<bool>,
    /// Whether upgraded connections of a dialect that is not known are let through unread.
    pub websocket_uninspected: Option<bool>,
    /// Timeouts that differ from those of the proxy, in milliseconds.
    #[schema(value_type = Option<Object>)]
    pub timeouts: Option<Value>,
}

/// One text, or several.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum Texts {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

/// One policy, as it is written.
#[derive(Serialize, ToSchema)]
pub struct PolicyDocument {
    /// Its name for people.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What happens to what cannot be inspected: `closed` or `open`.
    pub fail_mode: Option<String>,
    /// How a stream ends that is blocked.
    pub stream_block: Option<String>,
    /// What is done about documents that a body brings: `pass`, `inspect` or `require`.
    pub documents: Option<String>,
    /// The most that is done about a secret where the provider's API takes or hands out one: `off`, `monitor`, `redact`
    /// or `block`.
    pub credentials: Option<String>,
    /// The policy that is tried beside it.
    pub shadow: Option<String>,
    /// What it does by category.
    pub categories: Option<BTreeMap<String, CategoryDocument>>,
    /// What it does by detector, where that differs.
    #[schema(value_type = Option<Object>)]
    pub detectors: Option<Value>,
    /// What is let through, for which reason and until when.
    #[schema(value_type = Option<Vec<Object>>)]
    pub allow: Option<Vec<Value>>,
}

/// What a policy does about a category, as it is written.
#[derive(Serialize, ToSchema)]
pub struct CategoryDocument {
    /// In both directions: `off`, `monitor`, `redact` or `block`.
    pub mode: Option<String>,
    /// In requests.
    pub request: Option<String>,
    /// In responses.
    pub response: Option<String>,
    /// How sure a finding must be for more than recording: `low`, `medium` or `high`.
    pub threshold: Option<String>,
    /// The part of the category that it is about.
    pub only: Option<String>,
}

/// Which detectors are off.
#[derive(Serialize, ToSchema)]
pub struct DetectorsDocument {
    /// Their names.
    pub disabled: Option<Texts>,
}

/// How large, deep and frequent things may be.
#[derive(Serialize, ToSchema)]
pub struct LimitsDocument {
    /// The most bytes of a text that is inspected.
    pub max_inspect_bytes: u64,
    /// The most bytes of a body.
    pub max_body_bytes: u64,
    /// The most bytes that all bodies under way may hold.
    pub buffered_bytes_total: u64,
    /// The most of these that one caller may hold.
    pub buffered_bytes_per_caller: u64,
    /// How long one scan may take, in milliseconds.
    pub scan_ms: u64,
    /// The deepest nesting of a JSON body.
    pub json_depth_max: u64,
    /// The most strings, keys included, in a JSON body.
    pub json_strings_max: u64,
    /// The most bytes a compressed body may become.
    pub decompressed_bytes_max: u64,
    /// The most bytes one compressed byte may become.
    pub decompressed_ratio_max: u64,
    /// From how many decompressed bytes on the ratio is looked at.
    pub decompressed_ratio_from_bytes: u64,
    /// The most bytes one stream may hold back.
    pub stream_hold_bytes_max: u64,
    /// The longest single event of a stream.
    pub stream_event_bytes_max: u64,
    /// The most choices, blocks and tool calls under way in one stream.
    pub stream_lanes_max: u64,
    /// The most parts of a multipart body.
    pub multipart_parts_max: u64,
    /// The most bytes of text that are read of one document.
    pub document_text_bytes_max: u64,
    /// The most bytes that the streams of one document may unfold to.
    pub document_expanded_bytes_max: u64,
    /// The most entries of archives in one document.
    pub document_entries_max: u64,
    /// The most objects of PDFs in one document.
    pub document_objects_max: u64,
    /// How deep files may lie within files.
    pub document_depth_max: u64,
    /// The most requests that one caller may have under way; 0: any number.
    pub concurrent_requests_per_caller: u64,
    /// The most upgraded connections that one caller may have open; 0: as many as requests.
    pub upgraded_connections_per_caller: u64,
    /// Requests per minute and burst, by tier.
    pub tiers: Option<BTreeMap<String, TierDocument>>,
}

/// How often callers of a tier may ask; 0: as often as they like.
#[derive(Serialize, ToSchema)]
pub struct TierDocument {
    /// Requests per minute.
    pub requests_per_minute: u64,
    /// How many of them at once.
    pub burst: u64,
}
