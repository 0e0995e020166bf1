//! What is out of the ordinary: hours whose figures lie far from those of comparable hours before.
//!
//! Traffic has a rhythm of days and of weeks, so an hour is compared with the same hour of the days before, as soon as
//! a week of them is known: of working days or of week-ends (in UTC), whichever its day is. Until then it is compared
//! with all hours before. Whoever is new is measured by having been silent before for a day, and from then on by what
//! they did since they came. Hours whose figures do not name somebody who may have been among the others say nothing
//! of them. What is ordinary is their median, and how much they vary
//! is the median of their distances from it (MAD): one spike in the past moves neither. The score is how many
//! times the ordinary variation an hour lies away; quiet series get a least variation, so that three requests
//! after none are no alarm. Everything here is a function of the figures: the same figures, the same anomalies.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::figures::Count;
use super::figures::Figures;
use super::figures::Ranked;
use super::figures::Roll;
use super::period::DAY_H;
use super::period::Hour;
use super::period::Period;
use super::price::PICO_PER_UNIT;

/// How far back hours are compared with.
pub const HISTORY_H: u64 = 28 * DAY_H;
/// The least score of an anomaly.
pub const SCORE_MIN: f64 = 5.0;
/// The most anomalies of one answer: the gravest.
pub const ANOMALIES_MAX: usize = 500;
/// The same hour of so many days has to be known before it is compared with those alone.
const SAME_HOUR_MIN: usize = 7;
/// And of so many days of its kind: an hour of the first week-ends is not judged.
const SAME_KIND_MIN: usize = 3;
/// For how long somebody is new.
const NEWCOMER_H: u64 = DAY_H;
/// So many hours have to be known before anything is compared.
const SAMPLES_MIN: usize = 24;
/// Callers and models that are looked at one by one: those that use most.
const SUBJECTS_MAX: usize = 20;
/// A share or a mean of fewer exchanges says nothing.
const REQUESTS_MIN: u64 = 20;
/// What a MAD is multiplied by to be a standard deviation, were the figures normal.
const MAD_TO_DEVIATION: f64 = 1.4826;
/// The least variation, as a share of the median.
const VARIATION_SHARE_MIN: f64 = 0.1;

/// What is measured of an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Exchanges.
    Requests,
    /// Tokens.
    Tokens,
    /// Cost, in the currency of the prices.
    Cost,
    /// The share of exchanges that failed.
    ErrorRate,
    /// The mean time an exchange took, in milliseconds.
    LatencyMs,
}

/// Whose figures they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Everybody's.
    Everything,
    /// A caller's.
    Caller(String),
    /// A model's.
    Model(String),
}

/// Which hours an hour was compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The same hour of the days before that are of its kind: working days, or week-ends.
    SameHour,
    /// All hours before.
    AllHours,
}

/// How grave an anomaly is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// A score below 8.
    Low,
    /// A score below 15.
    Medium,
    /// A score below 30.
    High,
    /// A score of 30 or more.
    Critical,
}

/// One hour of one series that lies far from the ordinary, with the figures that say so.
#[derive(Clone, Debug, PartialEq)]
pub struct Anomaly {
    /// What is out of the ordinary.
    pub measure: Measure,
    /// Whose.
    pub subject: Subject,
    /// When.
    pub hour: Hour,
    /// Whether the hour is not over yet.
    pub is_partial: bool,
    /// What was measured.
    pub value: f64,
    /// What is ordinary.
    pub median: f64,
    /// How much it ordinarily varies: the median distance from the median.
    pub mad: f64,
    /// The ordinary variation: the MAD as a standard deviation, a tenth of the median, or the least that is called a change,
    /// whichever is most.
    pub variation: f64,
    /// How many ordinary variations the value lies away; negative: below.
    pub score: f64,
    /// How many hours it was compared with.
    pub samples: usize,
    /// Which.
    pub baseline: Baseline,
}

impl Measure {
    const ALL: [Self; 5] = [Self::Requests, Self::Tokens, Self::Cost, Self::ErrorRate, Self::LatencyMs];

    /// Returns the name used in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::ErrorRate => "error_rate",
            Self::LatencyMs => "latency_ms",
        }
    }

    /// Returns its value; `None` where the figures do not tell.
    fn of(self, figures: &Figures) -> Option<f64> {
        let has_enough = figures[Count::Requests] >= REQUESTS_MIN;
        match self {
            Self::Requests => Some(figures[Count::Requests] as f64),
            Self::Tokens => Some(figures[Count::Total] as f64),
            Self::Cost => Some(figures.cost_pico() as f64 / PICO_PER_UNIT),
            Self::ErrorRate => has_enough.then(|| figures.error_rate()),
            Self::LatencyMs => has_enough.then(|| figures.latency_ms_mean()),
        }
    }

    /// Returns the least variation: what nobody would call a change.
    fn variation_min(self) -> f64 {
        match self {
            Self::Requests => 10.0,
            Self::Tokens => 10_000.0,
            Self::Cost => 0.1,
            Self::ErrorRate => 0.02,
            Self::LatencyMs => 50.0,
        }
    }

    /// Tells whether less than ordinary is worth a word, too: traffic that stays away.
    fn looks_below(self) -> bool {
        self == Self::Requests
    }
}

impl Anomaly {
    /// Returns the name of what is out of the ordinary.
    pub fn kind(&self) -> &'static str {
        match (self.measure, self.score < 0.0) {
            (Measure::Requests, false) => "request_spike",
            (Measure::Requests, true) => "request_drop",
            (Measure::Tokens, _) => "token_spike",
            (Measure::Cost, _) => "cost_spike",
            (Measure::ErrorRate, _) => "error_spike",
            (Measure::LatencyMs, _) => "latency_spike",
        }
    }

    /// Returns how grave it is.
    pub fn grade(&self) -> Grade {
        match self.score.abs() {
            score if score < 8.0 => Grade::Low,
            score if score < 15.0 => Grade::Medium,
            score if score < 30.0 => Grade::High,
            _ => Grade::Critical,
        }
    }
}

/// Returns what is out of the ordinary in the hours of `judged` up to `now`, the latest and gravest first.
///
/// `hours` are those that have figures, [`HISTORY_H`] before `judged` included; an hour without any counts as
/// one without traffic, from the first hour that has some.
pub fn find(hours: &BTreeMap<Hour, Roll>, judged: Period, now: Hour) -> Vec<Anomaly> {
    let Some(first) = hours.keys().next().copied() else { return Vec::new() };
    let mut found = Vec::new();
    for subject in subjects(hours, judged) {
        let from = Hour(first.0.max(judged.from.0.saturating_sub(HISTORY_H)));
        let figures: BTreeMap<Hour, Figures> = (from.0..judged.to.0.min(now.0 + 1))
            .filter_map(|hour| Some((Hour(hour), subject.at(hours.get(&Hour(hour)))?)))
            .collect();
        for measure in Measure::ALL {
            let judged = judged.each_hour().filter(|hour| *hour <= now && *hour > first);
            found.extend(judged.filter_map(|hour| judge(&figures, measure, &subject, hour, now)));
        }
    }
    found.sort_by(|one, two| two.score.abs().total_cmp(&one.score.abs()));
    found.truncate(ANOMALIES_MAX);
    found.sort_by(|one, two| two.hour.cmp(&one.hour).then(two.score.abs().total_cmp(&one.score.abs())));
    found
}

fn judge(
    series: &BTreeMap<Hour, Figures>,
    measure: Measure,
    subject: &Subject,
    hour: Hour,
    now: Hour,
) -> Option<Anomaly> {
    let value = measure.of(series.get(&hour)?)?;
    let (baseline, samples) = ordinary(series, measure, hour)?;
    let (count, middle) = (samples.len(), median(samples.clone())?);
    let mad = median(samples.into_iter().map(|sample| (sample - middle).abs()).collect())?;
    let variation = (mad * MAD_TO_DEVIATION).max(middle * VARIATION_SHARE_MIN).max(measure.variation_min());
    let score = (value - middle) / variation;
    let is_partial = hour == now;
    // What is still missing of the hour may yet come.
    let is_below =
        score <= -SCORE_MIN && measure.looks_below() && *subject == Subject::Everything && !is_partial;
    let is_anomaly = score >= SCORE_MIN || is_below;
    is_anomaly.then(|| Anomaly {
        measure,
        subject: subject.clone(),
        hour,
        is_partial,
        value,
        median: middle,
        mad,
        variation,
        score,
        samples: count,
        baseline,
    })
}

/// Returns what an hour is compared with; nothing while too little is known.
fn ordinary(series: &BTreeMap<Hour, Figures>, measure: Measure, hour: Hour) -> Option<(Baseline, Vec<f64>)> {
    let came = series.iter().find(|(_, figures)| figures[Count::Requests] > 0).map(|(hour, _)| *hour)?;
    let is_new = hour.0 < came.0 + NEWCOMER_H;
    let from = if is_new { hour.back(HISTORY_H) } else { came.max(hour.back(HISTORY_H)) };
    let before = || series.range(from..hour.max(from)).rev();
    let same = || before().filter(|(other, _)| other.of_day() == hour.of_day());
    if values(same(), measure).len() < SAME_HOUR_MIN {
        let all = values(before(), measure);
        return (all.len() >= SAMPLES_MIN).then_some((Baseline::AllHours, all));
    }
    let kind = same().filter(|(other, _)| other.is_of_weekend() == hour.is_of_weekend());
    let kind = values(kind, measure);
    (kind.len() >= SAME_KIND_MIN).then_some((Baseline::SameHour, kind))
}

fn values<'s>(hours: impl Iterator<Item = (&'s Hour, &'s Figures)>, measure: Measure) -> Vec<f64> {
    hours.filter_map(|(_, figures)| measure.of(figures)).collect()
}

impl Subject {
    /// Returns the figures in an hour: none where nothing is known of any traffic, and nothing where it may have been
    /// among those that are not named.
    fn at(&self, roll: Option<&Roll>) -> Option<Figures> {
        let Some(roll) = roll else { return Some(Figures::default()) };
        let folded = match self {
            Self::Everything => 0,
            Self::Caller(_) => roll.callers.folded,
            Self::Model(_) => roll.models.folded,
        };
        self.figures(roll).copied().or((folded == 0).then(Figures::default))
    }

    fn figures<'r>(&self, roll: &'r Roll) -> Option<&'r Figures> {
        match self {
            Self::Everything => Some(&roll.total),
            Self::Caller(name) => roll.callers.named.get(name),
            Self::Model(name) => roll.models.named.get(name),
        }
    }
}

/// Returns whose series are looked at: everything's, and those of whoever used most in some hour.
fn subjects(hours: &BTreeMap<Hour, Roll>, judged: Period) -> Vec<Subject> {
    let among = |ranked: fn(&Roll) -> &Ranked| -> BTreeSet<&str> {
        let mut sum = Ranked::default();
        hours.range(judged.from..judged.to).for_each(|(_, roll)| sum.merge(ranked(roll)));
        let first: BTreeSet<String> =
            sum.by_weight().into_iter().take(SUBJECTS_MAX).map(|(name, _)| name.to_owned()).collect();
        let named = hours.range(judged.from..judged.to).flat_map(move |(_, roll)| ranked(roll).named.keys());
        named.filter(|name| first.contains(*name)).map(String::as_str).collect()
    };
    let callers = among(|roll| &roll.callers).into_iter().map(|name| Subject::Caller(name.to_owned()));
    let models = among(|roll| &roll.models).into_iter().map(|name| Subject::Model(name.to_owned()));
    [Subject::Everything].into_iter().chain(callers).chain(models).collect()
}

/// Returns the middle of some values, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    match values.len() % 2 {
        0 => values.get(values.len() / 2 - 1).map(|lower| f64::midpoint(*lower, *upper)),
        _ => Some(*upper),
    }
}

#[cfg(test)]
mod tests;
