//! `/api/v1/trust/*`: what the gateway thinks of agents, and why, and what it attests.

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::access::tier::Tier;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::error::ApiError;
use crate::clock::rfc3339;
use crate::govern::trust::Factors;
use crate::govern::trust::Listed;
use crate::govern::trust::Reason;
use crate::govern::trust::TrustError;
use crate::govern::trust::TrustScore;
use crate::govern::trust::WEIGHTS;
use crate::govern::trust::attestation::Attestation;
use crate::govern::trust::attestation::PAYLOAD_TYPE;

/// The tier from which on trust is told.
const LEAST_TIER: Tier = Tier::Professional;
const FEATURE: &str = "trust";
/// Attestations of one answer, where nobody asks for less or more.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1000;

/// Whose score is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScoreQuery {
    agent: Option<String>,
    session: Option<String>,
    #[serde(default)]
    explain: bool,
}

/// Which sessions are asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionQuery {
    agent: Option<String>,
    active: Option<bool>,
}

/// Which attestations are asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AttestationQuery {
    agent: Option<String>,
    since: Option<String>,
    limit: Option<usize>,
}

/// Whose newest attestation is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LatestQuery {
    agent: Option<String>,
}

/// Whether the trust framework lives.
#[derive(Serialize, ToSchema)]
pub struct TrustHealth {
    /// `healthy`.
    pub status: &'static str,
}

/// What the gateway thinks of an agent.
#[derive(Serialize, ToSchema)]
pub struct ScoreEntry {
    /// Whose score it is.
    pub agent_id: String,
    /// Of which session; absent for an agent's life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// `lifetime` or `session`.
    pub scope: &'static str,
    /// From 0 to 100.
    pub score: f64,
    /// `TRUSTED` from 75 on, `SUSPICIOUS` from 50 on, else `BLOCKED`.
    pub verdict: &'static str,
    /// What the score is made of, each from 0 to 1.
    pub factors: FactorValues,
    /// When the agent did something last.
    pub last_updated: String,
    /// What moved each factor, with `explain=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
}

/// A value for each factor.
#[derive(Serialize, ToSchema)]
pub struct FactorValues {
    /// Whether the agent keeps to what it was granted.
    pub contract_compliance: f64,
    /// Whether it behaves as it always did.
    pub behavioral_anomaly: f64,
    /// Whether its requests were harmless.
    pub historical_incidents: f64,
    /// Whether it uses what it always used.
    pub capability_drift: f64,
}

/// What moved each factor.
#[derive(Serialize, ToSchema)]
pub struct Explanation {
    /// Capabilities and calls that were granted and denied.
    pub contract_compliance: FactorExplanation,
    /// What was unlike the agent's own baseline.
    pub behavioral_anomaly: FactorExplanation,
    /// What was found in its requests.
    pub historical_incidents: FactorExplanation,
    /// How the mix of its capabilities moved.
    pub capability_drift: FactorExplanation,
}

/// What moved one factor.
#[derive(Serialize, ToSchema)]
pub struct FactorExplanation {
    /// The factor.
    pub value: f64,
    /// Its share of the score.
    pub weight: f64,
    /// What it adds to the score.
    pub points: f64,
    /// What moved it: a sum first, then single events, the newest first.
    pub reasons: Vec<ReasonEntry>,
}

/// One thing that moved a factor.
#[derive(Serialize, ToSchema)]
pub struct ReasonEntry {
    /// When, where it was at one moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What, with its figures.
    pub reason: String,
}

/// Sessions, the newest first.
#[derive(Serialize, ToSchema)]
pub struct AgentSessionList {
    /// The sessions.
    pub sessions: Vec<AgentSessionEntry>,
    /// How many.
    pub count: usize,
}

/// One session.
#[derive(Serialize, ToSchema)]
pub struct AgentSessionEntry {
    /// Its id.
    pub session_id: String,
    /// Whose.
    pub agent_id: String,
    /// Whether it goes on.
    pub active: bool,
    /// When its first call was.
    pub started_at: String,
    /// When its last call was.
    pub last_seen: String,
    /// How many calls it had.
    pub calls: u64,
    /// How many of them were incidents.
    pub incidents: u64,
    /// Its score.
    pub score: f64,
    /// What that means.
    pub verdict: &'static str,
}

/// Attestations, oldest first.
#[derive(Serialize, ToSchema)]
pub struct AttestationList {
    /// The attestations.
    pub attestations: Vec<AttestationEntry>,
    /// How many.
    pub count: usize,
}

/// One attestation.
#[derive(Serialize, ToSchema)]
pub struct AttestationEntry {
    /// Its id.
    pub id: String,
    /// Whom it is about.
    pub agent_id: String,
    /// When it was issued.
    pub issued_at: String,
    /// Until when it counts.
    pub expires_at: String,
    /// What it says; counts only as it stands in the envelope's payload.
    pub statements: Vec<Value>,
    /// The DSSE envelope that says the same, signed.
    pub signature: Envelope,
}

/// A DSSE envelope.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// What the payload is.
    pub payload_type: &'static str,
    /// The payload, in base 64.
    pub payload: String,
    /// The signatures over both.
    pub signatures: Vec<EnvelopeSignature>,
}

/// One signature of an envelope.
#[derive(Serialize, ToSchema)]
pub struct EnvelopeSignature {
    /// The `kid` of the key, in `/.well-known/jwks.json`.
    pub keyid: String,
    /// Ed25519 over the envelope's pre-authentication encoding, in base 64.
    pub sig: String,
}

/// `GET /api/v1/trust/health`.
pub async fn health(_call: Call) -> Answer {
    ok(&TrustHealth { status: "healthy" })
}

/// `GET /api/v1/trust/score`.
pub async fn score(call: Call) -> Answer {
    call.ensure_tier(LEAST_TIER, FEATURE)?;
    let ScoreQuery { agent, session, explain } = call.query()?;
    let now = call.office.clock.now();
    let score = match (agent, session) {
        (Some(agent), None) => call.office.trust.score(&agent, now)?,
        (None, Some(session)) => call.office.trust.session_score(&session, now)?,
        (None, None) => return Err(ApiError::Invalid("expected agent or session".to_owned())),
        (Some(_), Some(_)) => {
            return Err(ApiError::Invalid("expected agent or session, not both".to_owned()));
        }
    };
    ok(&ScoreEntry::of(score, explain))
}

/// `GET /api/v1/trust/sessions`.
pub async fn sessions(call: Call) -> Answer {
    call.ensure_tier(LEAST_TIER, FEATURE)?;
    let SessionQuery { agent, active } = call.query()?;
    let (trust, now) = (call.office.trust.clone(), call.office.clock.now());
    let found = tokio::task::spawn_blocking(move || trust.sessions(agent.as_deref(), active, now)).await;
    let found = found.map_err(|_| call.office.panicked())??;
    let entry = |Listed { session, is_active, score }: Listed| AgentSessionEntry {
        agent_id: score.agent_id,
        active: is_active,
        started_at: rfc3339(session.started_at),
        last_seen: rfc3339(session.last_seen),
        calls: session.track.acts(),
        incidents: session.track.incidents(),
        score: score.score,
        verdict: score.verdict.as_str(),
        session_id: session.id,
    };
    let sessions: Vec<AgentSessionEntry> = found.into_iter().map(entry).collect();
    ok(&AgentSessionList { count: sessions.len(), sessions })
}

/// `GET /api/v1/trust/attestations`.
pub async fn attestations(call: Call) -> Answer {
    call.ensure_tier(LEAST_TIER, FEATURE)?;
    let AttestationQuery { agent, since, limit } = call.query()?;
    let agent = named(agent)?;
    let since = since.as_deref().map(moment).transpose()?;
    let limit = limit.unwrap_or(LIMIT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(ApiError::Invalid(format!("limit: expected 1 to {LIMIT_MAX}")));
    }
    let found = call.office.trust.attestations(&agent, since, limit)?;
    let attestations: Vec<AttestationEntry> = found.into_iter().map(AttestationEntry::from).collect();
    ok(&AttestationList { count: attestations.len(), attestations })
}

/// `GET /api/v1/trust/attestations/latest`.
pub async fn latest(call: Call) -> Answer {
    call.ensure_tier(LEAST_TIER, FEATURE)?;
    let LatestQuery { agent } = call.query()?;
    ok(&AttestationEntry::from(call.office.trust.latest(&named(agent)?)?))
}

fn named(agent: Option<String>) -> Result<String, ApiError> {
    agent.ok_or_else(|| ApiError::Invalid("expected agent".to_owned()))
}

/// Reads a moment: RFC 3339, or seconds since the epoch.
fn moment(text: &str) -> Result<Timestamp, ApiError> {
    let read = match text.parse::<i64>() {
        Ok(seconds) => Timestamp::from_second(seconds).ok(),
        // A plus sign in a query reads as a space.
        Err(_) => text.replace(' ', "+").parse().ok(),
    };
    read.ok_or_else(|| ApiError::Invalid("since: expected an RFC 3339 time or Unix seconds".to_owned()))
}

impl ScoreEntry {
    fn of(score: TrustScore, explain: bool) -> Self {
        let values = score.factors.rounded();
        Self {
            agent_id: score.agent_id,
            scope: if score.session_id.is_some() { "session" } else { "lifetime" },
            session_id: score.session_id,
            score: score.score,
            verdict: score.verdict.as_str(),
            factors: FactorValues {
                contract_compliance: values.contract_compliance,
                behavioral_anomaly: values.behavioral_anomaly,
                historical_incidents: values.historical_incidents,
                capability_drift: values.capability_drift,
            },
            last_updated: rfc3339(score.last_updated),
            explanation: explain.then(|| Explanation::of(values, score.reasons)),
        }
    }
}

impl Explanation {
    fn of(values: Factors, reasons: Factors<Vec<Reason>>) -> Self {
        let explained = values.zip(WEIGHTS, |value, weight| (value, weight)).zip(
            reasons,
            |(value, weight), reasons: Vec<Reason>| FactorExplanation {
                value,
                weight,
                points: (value * weight * 1000.0).round() / 10.0,
                reasons: reasons.into_iter().map(ReasonEntry::from).collect(),
            },
        );
        Self {
            contract_compliance: explained.contract_compliance,
            behavioral_anomaly: explained.behavioral_anomaly,
            historical_incidents: explained.historical_incidents,
            capability_drift: explained.capability_drift,
        }
    }
}

/// Returns a moment of an attestation as it was signed: an earlier release signed times to the nanosecond.
fn as_signed(at: Timestamp) -> String {
    match at.subsec_nanosecond() % 1_000_000 {
        0 => rfc3339(at),
        _ => at.to_string(),
    }
}

impl From<Reason> for ReasonEntry {
    fn from(reason: Reason) -> Self {
        Self { at: reason.at.map(rfc3339), reason: reason.text }
    }
}

impl From<Attestation> for AttestationEntry {
    fn from(attestation: Attestation) -> Self {
        let signature = EnvelopeSignature { keyid: attestation.key_id, sig: attestation.signature };
        Self {
            id: attestation.id,
            agent_id: attestation.agent_id,
            issued_at: as_signed(attestation.issued_at),
            expires_at: as_signed(attestation.expires_at),
            statements: attestation.statements,
            signature: Envelope {
                payload_type: PAYLOAD_TYPE,
                payload: attestation.payload,
                signatures: vec![signature],
            },
        }
    }
}

impl From<TrustError> for ApiError {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::UnknownAgent | TrustError::UnknownSession | TrustError::NoAttestation => {
                Self::NotFound(error.to_string())
            }
            TrustError::Store(_) => Self::Unavailable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attestation_shows_the_times_that_were_signed() {
        for (signed, shown) in [
            ("2026-05-01T12:00:00Z", "2026-05-01T12:00:00.000Z"),
            ("2026-05-01T12:00:00.12Z", "2026-05-01T12:00:00.120Z"),
            ("2026-05-01T12:00:00.123456789Z", "2026-05-01T12:00:00.123456789Z"),
        ] {
            assert_eq!(as_signed(signed.parse().unwrap()), shown);
        }
    }
}
