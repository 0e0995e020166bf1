//! `/api/v1/analytics/anomalies`: hours that lie far from comparable ones, each with the figures that say so.

use serde::Serialize;
use utoipa::ToSchema;

use super::analytics::names;
use super::analytics::period;
use super::analytics::read;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::clock::rfc3339;
use crate::govern::analytics::Period;
use crate::govern::analytics::anomaly;
use crate::govern::analytics::anomaly::Anomaly;
use crate::govern::analytics::anomaly::Baseline;
use crate::govern::analytics::anomaly::Grade;
use crate::govern::analytics::anomaly::HISTORY_H;
use crate::govern::analytics::anomaly::SCORE_MIN;
use crate::govern::analytics::anomaly::Subject;
use crate::govern::analytics::period::DAY_H;
use crate::govern::analytics::period::Hour;

/// The most hours that are judged at once.
const HOURS_MAX: u64 = 31 * DAY_H;

/// Anomalies, the latest first.
#[derive(Serialize, ToSchema)]
#[serde(transparent)]
pub struct AnomalyList(Vec<AnomalyEntry>);

/// One anomaly.
#[derive(Serialize, ToSchema)]
pub struct AnomalyEntry {
    /// `request_spike`, `request_drop`, `token_spike`, `cost_spike`, `error_spike` or `latency_spike`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// One sentence for people.
    pub description: String,
    /// `low`, `medium`, `high` or `critical`, by the score.
    pub severity: &'static str,
    /// When the hour begins.
    pub timestamp: String,
    /// The figures that made it one.
    pub data: AnomalyData,
}

/// The figures that made an anomaly one.
#[derive(Serialize, ToSchema)]
pub struct AnomalyData {
    /// What was measured: `requests`, `tokens`, `cost`, `error_rate`, `latency_ms`.
    pub metric: &'static str,
    /// Whose: `everything`, `user` or `model`.
    pub subject: &'static str,
    /// The caller's or the model's name.
    pub name: Option<String>,
    /// The key's name, where the caller is a key.
    pub key_name: Option<String>,
    /// What was measured in the hour.
    pub value: f64,
    /// What is ordinary: the median of the hours it was compared with.
    pub median: f64,
    /// The median distance of those hours from their median.
    pub mad: f64,
    /// The ordinary variation: 1.4826 times `mad`, a tenth of `median`, or the least change that counts of what was measured,
    /// whichever is most.
    pub variation: f64,
    /// How many ordinary variations the value lies away from `median`; negative: below.
    pub score: f64,
    /// The score from which on it is an anomaly.
    pub threshold: f64,
    /// How many hours it was compared with.
    pub samples: usize,
    /// `same_hour` of the days before, or `all_hours` before.
    pub baseline: &'static str,
    /// Whether the hour is not over yet.
    pub partial: bool,
}

/// `GET /api/v1/analytics/anomalies`.
pub async fn anomalies(call: Call) -> Answer {
    let judged = period(&call, DAY_H, HOURS_MAX)?;
    let now = Hour::of(call.office.clock.now());
    let found = read(&call, move |meter| {
        let hours = meter.hours(Period { from: judged.from.back(HISTORY_H), to: judged.to })?;
        Ok(anomaly::find(&hours, judged, now))
    });
    let (found, names) = (found.await?, names(&call.office));
    let entry = |anomaly: &Anomaly| {
        let (subject, name) = match &anomaly.subject {
            Subject::Everything => ("everything", None),
            Subject::Caller(name) => ("user", Some(name.clone())),
            Subject::Model(name) => ("model", Some(name.clone())),
        };
        let key_name = name.as_ref().and_then(|name| names.get(name).cloned());
        AnomalyEntry {
            kind: anomaly.kind(),
            description: describe(anomaly),
            severity: grade(anomaly.grade()),
            timestamp: rfc3339(anomaly.hour.begins()),
            data: AnomalyData {
                metric: anomaly.measure.as_str(),
                subject,
                name,
                key_name,
                value: anomaly.value,
                median: anomaly.median,
                mad: anomaly.mad,
                variation: anomaly.variation,
                score: anomaly.score,
                threshold: SCORE_MIN,
                samples: anomaly.samples,
                baseline: baseline(anomaly.baseline),
                partial: anomaly.is_partial,
            },
        }
    };
    ok(&AnomalyList(found.iter().map(entry).collect()))
}

fn describe(anomaly: &Anomaly) -> String {
    let of = match &anomaly.subject {
        Subject::Everything => String::new(),
        Subject::Caller(name) => format!(" of user {name}"),
        Subject::Model(name) => format!(" of model {name}"),
    };
    let than = match anomaly.baseline {
        Baseline::SameHour => "at this hour of the day",
        Baseline::AllHours => "in the hours before",
    };
    let Anomaly { value, median, score, .. } = anomaly;
    let what = anomaly.measure.as_str();
    format!("{what}{of} was {value:.2}, where {median:.2} is ordinary {than}: {score:.1} variations away")
}

fn grade(grade: Grade) -> &'static str {
    match grade {
        Grade::Low => "low",
        Grade::Medium => "medium",
        Grade::High => "high",
        Grade::Critical => "critical",
    }
}

fn baseline(baseline: Baseline) -> &'static str {
    match baseline {
        Baseline::SameHour => "same_hour",
        Baseline::AllHours => "all_hours",
    }
}
