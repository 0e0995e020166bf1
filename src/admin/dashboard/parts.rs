//! What each page shows before its script has run, and where none does: answers of the management API, as lists of facts
//! and as tables.

use super::menu;
use super::part::Form;
use super::part::Part;
use super::part::facts;
use super::part::table;

const HEALTH: (&str, &str) = ("/api/v1/health", "");
const FIGURES: (&str, &str) = ("/api/v1/analytics/dashboard", "");
const USAGE: (&str, &str) = ("/api/v1/analytics/usage", "");
const COST: (&str, &str) = ("/api/v1/analytics/cost", "");
const NEWEST: (&str, &str) = ("/api/v1/audit", "limit=25");
const FRAMEWORKS: (&str, &str) = ("/api/v1/compliance/live", "");
const LICENSE: (&str, &str) = ("/api/v1/license/status", "");
const TIER: (&str, &str) = ("/api/v1/tier", "");
const SLA: (&str, &str) = ("/api/v1/sla", "");

const OVERVIEW: &[Part] = &[
    facts(
        "Traffic",
        FIGURES,
        &[
            ("Since", "/period_start", Form::Moment),
            ("Requests", "/totals/request_count", Form::Count),
            ("Blocked", "/totals/blocked_count", Form::Count),
            ("Redacted", "/totals/redacted_count", Form::Count),
            ("Failed", "/totals/error_count", Form::Count),
            ("Mean time", "/totals/avg_latency_ms", Form::Millis),
            ("99 % within", "/latency/p99_ms", Form::Millis),
            ("Tokens", "/totals/total_tokens", Form::Count),
            ("Cost", "/cost", Form::Decimal),
            ("Currency", "/currency", Form::Text),
        ],
    ),
    table(
        "Found most",
        FIGURES,
        "/top_findings",
        &[
            ("Detector", "/type", Form::Code),
            ("Category", "/category", Form::Badge),
            ("Exchanges", "/exchanges", Form::Count),
            ("Blocked", "/blocked", Form::Count),
            ("Redacted", "/redacted", Form::Count),
        ],
        "No detector had anything to say about this period.",
    ),
    table(
        "Models",
        FIGURES,
        "/top_models",
        &[
            ("Model", "/name", Form::Code),
            ("Requests", "/request_count", Form::Count),
            ("Tokens", "/total_tokens", Form::Count),
            ("Cost", "/cost", Form::Decimal),
        ],
        "Nothing yet.",
    ),
    table(
        "Out of the ordinary",
        ("/api/v1/analytics/anomalies", ""),
        "",
        &[
            ("Severity", "/severity", Form::Badge),
            ("What", "/description", Form::Text),
            ("When", "/timestamp", Form::Moment),
        ],
        "Nothing stands out.",
    ),
    table(
        "Health",
        HEALTH,
        "/dependencies",
        &[("Part", "/name", Form::Text), ("State", "/value", Form::Badge)],
        "Nothing is told.",
    ),
];

const ENTRIES: &[Part] = &[table(
    "Newest entries",
    NEWEST,
    "/entries",
    &[
        ("When", "/timestamp", Form::Moment),
        ("Event", "/event_type", Form::Badge),
        ("Action", "/action", Form::Badge),
        ("Severity", "/severity", Form::Badge),
        ("What", "/message", Form::Text),
        ("By", "/actor", Form::Code),
        ("About", "/entity", Form::Code),
        ("Request", "/request_id", Form::Code),
    ],
    "Nothing is recorded yet.",
)];

const USED: &[Part] = &[
    facts(
        "Usage",
        USAGE,
        &[
            ("Since", "/period_start", Form::Moment),
            ("Requests", "/request_count", Form::Count),
            ("Tokens", "/total_tokens", Form::Count),
            ("Of prompts", "/prompt_tokens", Form::Count),
            ("Of completions", "/completion_tokens", Form::Count),
            ("Estimated", "/estimated_tokens", Form::Count),
        ],
    ),
    facts(
        "Cost",
        COST,
        &[
            ("In all", "/total", Form::Decimal),
            ("Estimated", "/estimated", Form::Decimal),
            ("Currency", "/currency", Form::Text),
            ("Tokens without a price", "/unpriced_tokens", Form::Count),
        ],
    ),
    table(
        "Models",
        USAGE,
        "/by_model",
        &[
            ("Model", "/name", Form::Code),
            ("Requests", "/value/request_count", Form::Count),
            ("Tokens", "/value/total_tokens", Form::Count),
            ("Mean time", "/value/avg_latency_ms", Form::Millis),
        ],
        "Nothing was used.",
    ),
    table(
        "Callers",
        USAGE,
        "/by_user",
        &[
            ("Caller", "/user", Form::Code),
            ("Name", "/name", Form::Text),
            ("Requests", "/request_count", Form::Count),
            ("Tokens", "/total_tokens", Form::Count),
        ],
        "Nobody called.",
    ),
];

const COMPLIANCE: &[Part] = &[
    facts(
        "Controls",
        FRAMEWORKS,
        &[
            ("Judged", "/timestamp", Form::Moment),
            ("Controls", "/summary/controls", Form::Count),
            ("Pass", "/summary/score", Form::Percent),
            ("Assessed", "/summary/coverage", Form::Percent),
        ],
    ),
    table(
        "Frameworks",
        FRAMEWORKS,
        "/frameworks",
        &[
            ("Framework", "/value/name", Form::Text),
            ("Version", "/value/version", Form::Text),
            ("Stands", "/value/status", Form::Badge),
            ("Pass", "/value/score", Form::Percent),
            ("Assessed", "/value/coverage", Form::Percent),
        ],
        "There is no framework.",
    ),
];

const PRIVACY: &[Part] = &[table(
    "Legal holds",
    ("/api/v1/legal-holds", ""),
    "",
    &[
        ("Hold", "/id", Form::Code),
        ("State", "/status", Form::Badge),
        ("Entity", "/entity_id", Form::Code),
        ("Kind", "/entity_type", Form::Text),
        ("Reason", "/reason", Form::Text),
        ("Issued by", "/issued_by", Form::Text),
        ("Since", "/created_at", Form::Moment),
        ("Released", "/released_at", Form::Moment),
    ],
    "Nobody is under a hold.",
)];

const SINKS: &[Part] = &[table(
    "Sinks",
    ("/api/v1/siem/status", ""),
    "/platforms",
    &[
        ("Sink", "/name", Form::Text),
        ("Platform", "/platform", Form::Badge),
        ("State", "/status", Form::Badge),
        ("Forwarded", "/events_forwarded", Form::Count),
        ("Last taken", "/last_forward", Form::Moment),
        ("Failed attempts", "/errors", Form::Count),
        ("Refused for good", "/dead_letters", Form::Count),
        ("Last error", "/last_error", Form::Text),
    ],
    "Nothing is forwarded: name a sink in [[siem.sinks]] of the configuration.",
)];

const POLICIES: &[Part] = &[
    table(
        "Policies",
        ("/api/v1/policies", ""),
        "/policies",
        &[
            ("Policy", "/id", Form::Code),
            ("Name", "/name", Form::Text),
            ("Mode", "/mode", Form::Badge),
            ("Fails", "/fail_mode", Form::Badge),
            ("Routes", "/routes", Form::Text),
            ("What it does", "/description", Form::Text),
        ],
        "There is no policy.",
    ),
    table(
        "Revisions",
        ("/api/v1/config/revisions", ""),
        "/revisions",
        &[
            ("Revision", "/revision", Form::Count),
            ("By", "/author", Form::Text),
            ("From", "/source", Form::Badge),
            ("Since", "/created_at", Form::Moment),
            ("In force", "/active", Form::Badge),
        ],
        "There is no revision.",
    ),
];

const DETECTORS: &[Part] = &[table(
    "Detectors",
    ("/api/v1/detectors", ""),
    "/detectors",
    &[
        ("Detector", "/type", Form::Code),
        ("Category", "/category", Form::Badge),
        ("Severity", "/severity", Form::Badge),
        ("Layer", "/layer", Form::Text),
        ("Pack", "/pack", Form::Code),
        ("Why", "/why", Form::Text),
    ],
    "There is no detector.",
)];

const TESTS: &[Part] = &[table(
    "A/B tests",
    ("/api/v1/abtest/tests", ""),
    "/tests",
    &[
        ("Test", "/name", Form::Text),
        ("State", "/status", Form::Badge),
        ("Question", "/description", Form::Text),
        ("Began", "/started_at", Form::Moment),
        ("Made", "/created_at", Form::Moment),
    ],
    "There is no test.",
)];

const KEYS: &[Part] = &[table(
    "API keys",
    ("/api/v1/keys", ""),
    "/keys",
    &[
        ("Name", "/name", Form::Text),
        ("Id", "/id", Form::Code),
        ("Role", "/role", Form::Badge),
        ("Tier", "/tier", Form::Badge),
        ("Made", "/created_at", Form::Moment),
        ("Ends", "/expires_at", Form::Moment),
        ("Last used", "/last_used_at", Form::Moment),
    ],
    "There is no key.",
)];

const PEOPLE: &[Part] = &[
    table(
        "Users",
        ("/api/v1/users", ""),
        "/users",
        &[
            ("Name", "/name", Form::Text),
            ("Role", "/role", Form::Badge),
            ("Tier", "/tier", Form::Badge),
            ("Last sign-in", "/last_login_at", Form::Moment),
            ("Made", "/created_at", Form::Moment),
        ],
        "There is no local user.",
    ),
    table(
        "Sessions",
        ("/api/v1/sessions", ""),
        "/sessions",
        &[
            ("Who", "/name", Form::Text),
            ("Role", "/role", Form::Badge),
            ("With", "/method", Form::Text),
            ("Since", "/created_at", Form::Moment),
            ("Last seen", "/last_seen_at", Form::Moment),
            ("Ends", "/expires_at", Form::Moment),
        ],
        "Nobody is signed in.",
    ),
];

const AGENTS: &[Part] = &[
    table(
        "Agents",
        ("/api/v1/guardrails", ""),
        "/agents",
        &[
            ("Agent", "/id", Form::Text),
            ("Tier", "/tier", Form::Badge),
            ("May", "/capabilities", Form::Text),
            ("Calls", "/calls", Form::Count),
            ("Incidents", "/incidents", Form::Count),
        ],
        "No agent is known: name them in the file of capabilities.",
    ),
    table(
        "Sessions",
        ("/api/v1/trust/sessions", ""),
        "/sessions",
        &[
            ("Agent", "/agent_id", Form::Text),
            ("Verdict", "/verdict", Form::Badge),
            ("Score", "/score", Form::Decimal),
            ("Calls", "/calls", Form::Count),
            ("Incidents", "/incidents", Form::Count),
            ("Since", "/started_at", Form::Moment),
            ("Last call", "/last_seen", Form::Moment),
        ],
        "No agent has called.",
    ),
];

const SYSTEM: &[Part] = &[
    facts(
        "This node",
        ("/api/v1/status", ""),
        &[
            ("State", "/status", Form::Badge),
            ("Node", "/node_id", Form::Code),
            ("Release", "/version", Form::Text),
            ("Tier", "/tier", Form::Text),
            ("Began", "/started_at", Form::Moment),
            ("Up for", "/uptime_seconds", Form::Seconds),
            ("Rules", "/revision", Form::Count),
        ],
    ),
    facts(
        "State",
        ("/api/v1/persistence", ""),
        &[
            ("Store", "/backend", Form::Text),
            ("Audit entries", "/entry_count", Form::Count),
            ("Size", "/size_bytes", Form::Bytes),
            ("Kept for days", "/retention_days", Form::Count),
            ("Newest hash", "/last_hash", Form::Code),
        ],
    ),
    table(
        "Nodes",
        ("/api/v1/cluster/health", ""),
        "/nodes",
        &[
            ("Node", "/id", Form::Code),
            ("State", "/status", Form::Badge),
            ("Address", "/address", Form::Code),
            ("Revision", "/revision", Form::Count),
            ("Heard of", "/last_seen", Form::Moment),
        ],
        "No node is known.",
    ),
    table(
        "Certificates",
        ("/api/v1/certs", ""),
        "/certificates",
        &[
            ("Listener", "/name", Form::Text),
            ("State", "/status", Form::Badge),
            ("Names", "/sans", Form::Text),
            ("Ends", "/not_after", Form::Moment),
            ("Days left", "/days_left", Form::Count),
        ],
        "No listener serves TLS.",
    ),
    table(
        "Signing keys",
        ("/api/v1/signing/keys", ""),
        "/keys",
        &[
            ("Key", "/kid", Form::Code),
            ("State", "/status", Form::Badge),
            ("Made", "/created_at", Form::Moment),
            ("Retired", "/retired_at", Form::Moment),
        ],
        "There is no key.",
    ),
];

const ENTITLED: &[Part] = &[
    facts(
        "Licence",
        LICENSE,
        &[
            ("Tier", "/tier", Form::Badge),
            ("Of", "/subject", Form::Text),
            ("Counts", "/valid", Form::Badge),
            ("Ends", "/expires", Form::Moment),
            ("Because", "/reason", Form::Text),
        ],
    ),
    facts(
        "Limits",
        TIER,
        &[
            ("Requests a minute", "/limits/requests_per_minute", Form::Count),
            ("Requests at once", "/limits/burst", Form::Count),
            ("Enabled", "/features", Form::Text),
        ],
    ),
    table(
        "Objectives",
        SLA,
        "/slos",
        &[
            ("Objective", "/name", Form::Badge),
            ("Aim", "/target", Form::Text),
            ("Measured", "/current", Form::Text),
        ],
        "There is no objective.",
    ),
];

/// Returns the parts of a page; none: it is one of forms, or shows what needs no asking.
pub fn of(page: &str) -> &'static [Part] {
    match page {
        menu::HOME => OVERVIEW,
        "live" | "audit" => ENTRIES,
        "usage" => USED,
        "compliance" => COMPLIANCE,
        "privacy" => PRIVACY,
        "siem" => SINKS,
        "policies" => POLICIES,
        "detectors" => DETECTORS,
        "abtests" => TESTS,
        "keys" => KEYS,
        "people" => PEOPLE,
        "trust" => AGENTS,
        "system" => SYSTEM,
        "license" => ENTITLED,
        _ => &[],
    }
}
