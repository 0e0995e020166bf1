//! The chain itself: certificate, agent known, licence, rate, capability, and integrity at the end of the body.
//!
//! The order is the contract's, and every step rests on the ones before it: who fails early pays nobody's
//! quota and learns nothing of what lies behind. [`Chain::admit`] judges the head and hands out a [`Pending`];
//! only [`Pending::complete`], after the whole body went through [`Pending::update`], makes a [`Grant`].

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use super::Guardrails;
use super::Rules;
use super::claims::Claim;
use super::claims::Claims;
use super::claims::moment;
use super::denial::Cause;
use super::denial::Code;
use super::denial::Denial;
use super::directory::Agents;
use super::replay::MAC_BYTES;
use super::replay::Moments;
use super::replay::Seen;
use super::shared::Told;
use super::signature::Verification;
use crate::access::jose::VerifyingKey;
use crate::access::license::Licensing;
use crate::access::limit::LimitState;
use crate::access::patience::Patience;
use crate::access::tier::Tier;

/// What the connection's client certificate is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// There is none.
    Absent,
    /// There is no authority to verify one by, and none was asked for.
    Unverifiable,
    /// It does not count: expired, of a foreign authority, for another purpose.
    Refused,
    /// It counts and has no Common Name.
    Nameless,
    /// It counts, and this is its Common Name.
    Named(String),
}

/// What calls are judged by.
pub struct Chain<'a> {
    /// What is remembered between calls.
    pub guardrails: &'a Guardrails,
    /// Verifies licences, and tells what the deployment is entitled to.
    pub licensing: &'a Licensing,
    /// How calls are judged.
    pub rules: Rules,
    /// The time.
    pub now: Timestamp,
}

/// What became of a call, for records, metrics and trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentCall {
    /// The agent; only where its certificate vouches for it and the map knows it.
    pub agent: Option<String>,
    /// The capability that was asked for, where it can be named.
    pub capability: Option<String>,
    /// Whether the whole chain let it pass.
    pub is_granted: bool,
    /// Why it did not.
    pub denied: Option<Code>,
    /// What it was, where the code does not tell.
    pub cause: Option<Cause>,
    /// The bytes of the request's body, as they came.
    pub request_bytes: u64,
    /// The bytes of the answer's body.
    pub response_bytes: u64,
}

/// What a head came to.
pub struct Admission {
    /// What is known of the call so far.
    pub call: AgentCall,
    /// What is left of the agent's quota, where the chain came that far.
    pub limit: Option<LimitState>,
    /// The call, waiting for its body; or why it goes no further.
    pub verdict: Result<Pending, Denial>,
}

/// A call whose head passed, and whose body is on its way.
pub struct Pending {
    agent: String,
    capability: String,
    mac: [u8; MAC_BYTES],
    verification: Verification,
    timestamp: Option<String>,
    rules: Rules,
    shown: Option<Shown>,
}

/// When to come back where nobody can tell whether a request came before.
const AWAY_WAIT: Duration = Duration::from_secs(1);

/// A call that passed the whole chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    agent: String,
    capability: String,
    /// The signature, where it is remembered.
    remembered: Option<Remembered>,
    /// The licence that the agent presented.
    shown: Option<Shown>,
}

/// What a licence that was presented rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    signer: VerifyingKey,
    ends: Timestamp,
}

/// A signature that is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Remembered {
    mac: [u8; MAC_BYTES],
    /// When it was made, as the agent says, in Unix seconds.
    signed: i64,
    kept_for: Duration,
}

/// A call on its way through the head's steps.
struct Walk<'a> {
    chain: &'a Chain<'a>,
    claims: &'a Claims,
    agents: Option<Arc<Agents>>,
    call: AgentCall,
    limit: Option<LimitState>,
    shown: Option<Shown>,
}

impl Chain<'_> {
    /// Judges the head of a call.
    pub fn admit(&self, certificate: Certificate, claims: &Claims) -> Admission {
        let call = AgentCall { capability: nameable(&claims.capability), ..AgentCall::default() };
        let agents = self.guardrails.directory.load();
        let mut walk = Walk { chain: self, claims, agents, call, limit: None, shown: None };
        let verdict = walk.head(certificate).map_err(|mut denial| {
            denial.agent = walk.call.agent.clone().or_else(|| nameable(&claims.agent));
            denial.capability = walk.call.capability.clone();
            denial
        });
        walk.call.denied = verdict.as_ref().err().map(|denial| denial.code);
        walk.call.cause = verdict.as_ref().err().and_then(|denial| denial.cause);
        Admission { call: walk.call, limit: walk.limit, verdict }
    }
}

impl Walk<'_> {
    fn head(&mut self, certificate: Certificate) -> Result<Pending, Denial> {
        let agent = self.certified(certificate)?;
        let agents = self.known(&agent)?;
        let tier = self.licensed(&agents, &agent)?;
        self.paced(&agent, tier)?;
        let capability = self.granted(&agents, &agent)?;
        let mac = self.signed()?;
        let (timestamp, rules) = (self.claims.timestamp.given(), self.chain.rules);
        let verification =
            Verification::begin(mac, agents.secrets(&agent), timestamp, rules.signed_timestamp);
        let timestamp = timestamp.map(str::to_owned);
        let shown = self.shown.take();
        Ok(Pending { agent, capability, mac, verification, timestamp, rules, shown })
    }

    /// The certificate counts, and the request speaks for whom it names.
    fn certified(&self, certificate: Certificate) -> Result<String, Denial> {
        let name = match certificate {
            Certificate::Absent => return Err(Denial::of(Code::AuthNoCert)),
            Certificate::Unverifiable => {
                return Err(Denial::of(Code::AuthFailed).because(Cause::Unverifiable));
            }
            Certificate::Refused => return Err(Denial::of(Code::AuthFailed)),
            Certificate::Nameless => return Err(Denial::of(Code::AuthMissingCn)),
            Certificate::Named(name) => name,
        };
        match self.claims.agent.given() == Some(&name) {
            true => Ok(name),
            false => Err(Denial::of(Code::AuthFailed)),
        }
    }

    fn known(&mut self, agent: &str) -> Result<Arc<Agents>, Denial> {
        let agents = self.agents.take().ok_or(Denial::of(Code::CapCheckFailed))?;
        if !agents.map.agents.contains_key(agent) {
            return Err(Denial::of(Code::CapUnknownAgent));
        }
        self.call.agent = Some(agent.to_owned());
        Ok(agents)
    }

    /// The capability is paid for; returns the tier at which the agent is served.
    ///
    /// A licence that is presented must count, needed or not.
    fn licensed(&mut self, agents: &Agents, agent: &str) -> Result<Tier, Denial> {
        let Chain { licensing, now, .. } = self.chain;
        let asked = self.claims.capability.given();
        let needed = asked.map_or(Tier::Community, |capability| agents.map.min_tier(capability));
        let presented = match &self.claims.license {
            Claim::Absent if needed > Tier::Community => return Err(Denial::of(Code::LicenseMissing)),
            Claim::Absent => Tier::Community,
            Claim::Unusable => return Err(Denial::of(Code::LicenseInvalid)),
            Claim::Given(token) => {
                let proven = licensing.prove(token, *now).map_err(|_| Denial::of(Code::LicenseInvalid))?;
                let (license, signer) = proven;
                if license.agent.is_some_and(|other| other != agent) || license.tier < needed {
                    return Err(Denial::of(Code::LicenseInvalid));
                }
                self.shown = Some(Shown { signer, ends: license.expires_at });
                license.tier
            }
        };
        let entitled = presented.max(licensing.tier(*now));
        let own = agents.map.agents.get(agent).and_then(|agent| agent.tier);
        Ok(own.map_or(entitled, |tier| tier.min(entitled)))
    }

    fn paced(&mut self, agent: &str, tier: Tier) -> Result<(), Denial> {
        let limit = self.chain.guardrails.buckets.take(agent, tier, self.chain.now);
        self.limit = Some(limit);
        if limit.allowed {
            return Ok(());
        }
        let retry_after = Some(Duration::from_secs(limit.retry_after_s));
        Err(Denial { retry_after, ..Denial::of(Code::RateLimited) })
    }

    fn granted(&self, agents: &Agents, agent: &str) -> Result<String, Denial> {
        let asked = match &self.claims.capability {
            Claim::Absent => return Err(Denial::of(Code::CapMissing)),
            Claim::Unusable => return Err(Denial::of(Code::CapDenied)),
            Claim::Given(asked) => asked,
        };
        let held = agents.map.agents.get(agent).map(|agent| &agent.capabilities);
        match held.is_some_and(|held| held.contains(asked)) {
            true => Ok(asked.clone()),
            false => Err(Denial::of(Code::CapDenied)),
        }
    }

    fn signed(&self) -> Result<[u8; MAC_BYTES], Denial> {
        let text = match &self.claims.signature {
            Claim::Absent => return Err(Denial::of(Code::IntegrityMissing)),
            Claim::Unusable => return Err(Denial::of(Code::IntegrityMalformed)),
            Claim::Given(text) => text,
        };
        let mac = STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        mac.ok_or(Denial::of(Code::IntegrityMalformed))
    }
}

impl Pending {
    /// Takes the next bytes of the body, as they came over the wire.
    pub fn update(&mut self, bytes: &[u8]) {
        self.verification.update(bytes);
    }

    /// Checks the signature, now that the whole body was taken.
    ///
    /// # Errors
    /// It is not of this body; or where times are checked, there is none, it does not fit, or the request came before.
    pub fn complete(self, guardrails: &Guardrails, now: Timestamp) -> Result<Grant, Denial> {
        let denied = |code| Denial {
            agent: Some(self.agent.clone()),
            capability: Some(self.capability.clone()),
            ..Denial::of(code)
        };
        let unfit = |cause| denied(Code::IntegrityInvalid).because(cause);
        // That something is missing whoever left it out may know; and it may be why the signature does not fit.
        let signed = self.signed_at().map_err(unfit)?;
        if !self.verification.holds() {
            return Err(denied(Code::IntegrityInvalid));
        }
        // Only who signs well learns what else does not fit.
        let remembered = signed.map(|signed| self.moments(signed, now)).transpose().map_err(unfit)?;
        match remembered {
            None => guardrails.replays.pass(now),
            Some(moments) => {
                match guardrails.replays.remember(&self.agent, self.mac, moments, guardrails.is_shared()) {
                    Seen::First => {}
                    Seen::Full => {
                        let retry_after = Some(Duration::from_secs(self.rules.replay_window_s));
                        let denied = denied(Code::RateLimited).because(Cause::Unremembered);
                        return Err(Denial { retry_after, ..denied });
                    }
                    Seen::Before => return Err(unfit(Cause::Replayed)),
                    Seen::Unknown => return Err(unfit(Cause::Forgotten)),
                }
            }
        }
        let kept_for = Duration::from_secs(2 * self.rules.replay_window_s);
        let remembered =
            remembered.map(|Moments { signed, .. }| Remembered { mac: self.mac, signed, kept_for });
        let Self { agent, capability, shown, .. } = self;
        Ok(Grant { agent, capability, remembered, shown })
    }

    /// Returns when the request was signed, as it says, in Unix seconds; `None` where times are not checked.
    fn signed_at(&self) -> Result<Option<i64>, Cause> {
        if self.rules.replay_window_s == 0 {
            return Ok(None);
        }
        let signed = self.timestamp.as_deref().and_then(moment).ok_or(Cause::Untimed)?;
        Ok(Some(signed.as_second()))
    }

    /// Returns when the request was signed, and how long that is remembered.
    fn moments(&self, signed: i64, now: Timestamp) -> Result<Moments, Cause> {
        let (now, window_s) = (now.as_second(), self.rules.replay_window_s);
        match signed.abs_diff(now) > window_s {
            true => Err(Cause::Stale),
            false => Ok(Moments { signed, now, window_s }),
        }
    }
}

impl Grant {
    /// Makes sure that the request came to no other node before, where nodes remember together.
    ///
    /// # Errors
    /// It came before; or nobody can tell, and the deployment refuses then.
    pub async fn confirmed(self, guardrails: &Guardrails, patience: &Patience) -> Result<Self, Denial> {
        let (Some(asking), Some(remembered)) = (guardrails.together.get(), &self.remembered) else {
            return Ok(self);
        };
        let Remembered { mac, signed, kept_for } = remembered;
        let (code, cause, retry_after) = match asking.remember(&self.agent, (mac, *kept_for), patience).await
        {
            Told::Seen(Seen::First) => return Ok(self),
            Told::Unknown if guardrails.replays.is_known(&self.agent, *signed) => return Ok(self),
            Told::Seen(Seen::Before) => (Code::IntegrityInvalid, Cause::Replayed, None),
            Told::Seen(Seen::Unknown) | Told::Unknown => (Code::IntegrityInvalid, Cause::Forgotten, None),
            Told::Seen(Seen::Full) | Told::Refused => (Code::RateLimited, Cause::Untold, Some(AWAY_WAIT)),
        };
        if code == Code::RateLimited {
            // It is asked to come back, and has not come yet.
            guardrails.replays.forget(&self.agent, mac);
        }
        let (agent, capability) = (Some(self.agent), Some(self.capability));
        Err(Denial { agent, capability, retry_after, ..Denial::of(code).because(cause) })
    }

    /// Makes sure that the call would be let pass now: an answer that is still leaving ends with what let it begin.
    ///
    /// # Errors
    /// The certificate counts no more, the map knows the agent no more, the licence that it presented has ended or its key
    /// is trusted no more, or the agent has lost the capability.
    pub fn ensure_standing(
        &self,
        certificate: &Certificate,
        (guardrails, licensing): (&Guardrails, &Licensing),
        now: Timestamp,
    ) -> Result<(), Denial> {
        let denied = |code| {
            let (agent, capability) = (Some(self.agent.clone()), Some(self.capability.clone()));
            Err(Denial { agent, capability, ..Denial::of(code) })
        };
        if !matches!(certificate, Certificate::Named(name) if *name == self.agent) {
            return denied(Code::AuthFailed);
        }
        let Some(agents) = guardrails.directory.load() else { return denied(Code::CapCheckFailed) };
        let is_void = |shown: &Shown| shown.ends <= now || !licensing.trusts(&shown.signer, now);
        match agents.map.agents.get(&self.agent) {
            Some(_) if self.shown.as_ref().is_some_and(is_void) => denied(Code::LicenseInvalid),
            Some(agent) if agent.capabilities.contains(&self.capability) => Ok(()),
            Some(_) => denied(Code::CapDenied),
            None => denied(Code::CapUnknownAgent),
        }
    }

    /// Returns the agent, vouched for by its certificate.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Returns the capability it was granted.
    pub fn capability(&self) -> &str {
        &self.capability
    }
}

/// Returns what may stand in an answer: a name of letters, not whatever a caller wrote.
fn nameable(claim: &Claim) -> Option<String> {
    let name = claim.given().filter(|name| name.bytes().all(super::map::is_name_byte));
    name.map(str::to_owned)
}

#[cfg(test)]
mod tests;
