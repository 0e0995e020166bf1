//! All that is known of one agent, and what it comes to.

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

use super::Act;
use super::Factors;
use super::NEUTRAL;
use super::Reason;
use super::behaviour::Anomaly;
use super::behaviour::Baseline;
use super::behaviour::Odd;
use super::compliance::Compliance;
use super::drift::Mix;
use super::incidents::Incidents;

/// How many calls an hour make an agent better known.
pub const CREDITS_PER_HOUR: u32 = 5;
/// So many credits make it known to 63 %.
const CREDITS_SCALE: f64 = 20.0;
const HOUR_S: i64 = 3600;

/// What acts leave behind, of a life or of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Track {
    acts: u64,
    credits: u64,
    /// The hour under way, in hours since the epoch, and its credits.
    hour: (i64, u32),
    compliance: Compliance,
    anomaly: Anomaly,
    incidents: Incidents,
    mix: Mix,
}

/// An agent's life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// When it called first.
    pub first_seen: Timestamp,
    /// When it called last.
    pub last_seen: Timestamp,
    /// What its calls left behind.
    pub track: Track,
    baseline: Baseline,
}

impl Track {
    /// Takes one act into account, which is so odd, and before which all fades up to a moment; tells whether it counts as
    /// a credit.
    pub(super) fn observe(&mut self, act: &Act, odd: &Odd, fades_to: Timestamp) -> bool {
        self.acts += 1;
        self.compliance.observe(act, fades_to);
        self.anomaly.observe(act.at, odd);
        self.incidents.observe(act, fades_to);
        self.mix.observe(act, fades_to);
        self.credit(act)
    }

    /// Returns how many acts there were.
    pub fn acts(&self) -> u64 {
        self.acts
    }

    /// Returns how many incidents there were.
    pub fn incidents(&self) -> u64 {
        self.incidents.count()
    }

    /// Returns how well the agent is known, from 0 to 1.
    pub fn maturity(&self) -> f64 {
        1.0 - (-(self.credits as f64) / CREDITS_SCALE).exp()
    }

    /// Returns the factors that begin at `prior`, with what moved them; the mix is held against `usual`.
    pub(super) fn factors(
        &self,
        prior: Factors,
        usual: &Self,
        now: Timestamp,
    ) -> (Factors, Factors<Vec<Reason>>) {
        let (compliance, of_compliance) = self.compliance.factor(now);
        let (behaviour, of_behaviour) = self.anomaly.factor();
        let (incidents, of_incidents) = self.incidents.factor(now);
        let (drift, of_drift) = self.mix.against(&usual.mix, now);
        let seen = Factors {
            contract_compliance: compliance,
            behavioral_anomaly: behaviour,
            historical_incidents: incidents,
            capability_drift: drift,
        };
        let reasons = Factors {
            contract_compliance: of_compliance,
            behavioral_anomaly: of_behaviour,
            historical_incidents: of_incidents,
            capability_drift: of_drift,
        };
        let known = self.maturity();
        let factors = prior.zip(seen, |prior, seen| moved(prior, seen, known));
        let noted =
            reasons.zip(prior.zip(seen, |prior, seen| (prior, seen)), |mut reasons, (prior, seen)| {
                reasons.extend(held_back(prior, seen, known));
                reasons
            });
        (factors, noted)
    }

    /// Counts an act as a credit unless the hour has had its share; what was denied earns nothing.
    fn credit(&mut self, act: &Act) -> bool {
        let hour = act.at.as_second().div_euclid(HOUR_S);
        // A clock that is set back begins an hour, too.
        if hour != self.hour.0 {
            self.hour = (hour, 0);
        }
        let counts = act.denied.is_none() && self.hour.1 < CREDITS_PER_HOUR;
        self.hour.1 += u32::from(counts);
        self.credits += u64::from(counts);
        counts
    }
}

impl Profile {
    /// Returns the profile of an agent that was never seen.
    pub fn new(now: Timestamp) -> Self {
        Self { first_seen: now, last_seen: now, track: Track::default(), baseline: Baseline::default() }
    }

    /// Takes one act into account, before which all fades up to a moment; returns how odd it was.
    pub fn observe(&mut self, act: &Act, fades_to: Timestamp) -> Odd {
        self.last_seen = self.last_seen.max(act.at);
        let odd = self.baseline.judge(act);
        if self.track.observe(act, &odd, fades_to) {
            self.baseline.learn(act);
        }
        odd
    }

    /// Returns the factors of the agent's life, with what moved them.
    pub fn factors(&self, now: Timestamp) -> (Factors, Factors<Vec<Reason>>) {
        let neutral = Factors {
            contract_compliance: NEUTRAL,
            behavioral_anomaly: NEUTRAL,
            historical_incidents: NEUTRAL,
            capability_drift: NEUTRAL,
        };
        self.track.factors(neutral, &self.track, now)
    }
}

/// Returns where a factor stands that began at `prior`: bad news count at once, good ones as far as one is known.
fn moved(prior: f64, seen: f64, known: f64) -> f64 {
    if seen < prior { seen } else { prior + (seen - prior) * known }
}

fn held_back(prior: f64, seen: f64, known: f64) -> Option<Reason> {
    let text = format!("begun at {prior:.2}, counted to {:.0} %: so well is it known by now", known * 100.0);
    (seen > prior).then_some(Reason { at: None, text })
}
