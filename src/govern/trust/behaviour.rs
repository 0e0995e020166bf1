//! Whether an agent behaves as it always did: the sizes of its calls, how many it makes in an hour, at which hours of
//! the day, and with which tools, each against its own baseline.
//!
//! Numbers are compared on a logarithmic scale by the robust z-score: the distance from the median in units of the
//! median absolute deviation (Iglewicz, Hoaglin 1993; 0.6745 makes it comparable to standard deviations). A few odd
//! calls neither move the baseline nor hide in it. Every call gets an anomaly from 0 to 1; the factor is what a
//! moving average of them leaves. The baseline learns only from calls that count as credits, so it cannot be
//! taught quickly.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

use super::Act;
use super::Reason;
use super::remember;
use super::shortened;

/// How many values a baseline has.
const WINDOW: usize = 64;
/// Under so many values nothing is called odd.
const VALUES_MIN: usize = 20;
/// Distances under this say nothing.
const Z_ODD: f64 = 3.5;
/// Distances from here on say all.
const Z_CERTAIN: f64 = 10.0;
/// The least deviation that is assumed: a quarter more or less is nothing.
const DEVIATION_MIN: f64 = 0.25;
/// How much one call moves the average.
const STEP: f64 = 0.1;
/// The most tools that are remembered.
const TOOLS_MAX: usize = 128;
/// How odd an hour without precedent, or a new tool, is.
const NEW_ANOMALY: f64 = 0.5;
const HOURS: usize = 24;
/// The share of calls at an hour of the day, its neighbours included, below which it is without precedent.
const HOUR_SHARE_MIN: f64 = 0.02;
/// How long calls must be known before an hour can be without precedent.
const DAYS_MIN: i64 = 7;
const HOUR_S: i64 = 3600;

/// The calls of an agent, as far as they tell what is usual.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    requests: Window,
    responses: Window,
    hourly: Window,
    /// The hour under way, in hours since the epoch, and its calls.
    hour: (i64, u64),
    first_hour: i64,
    by_hour: Vec<f64>,
    tools: Vec<String>,
}

/// The newest values of a number, on a logarithmic scale.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Window(VecDeque<f64>);

/// How odd the calls of late were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Anomaly {
    average: f64,
    reasons: Vec<Reason>,
}

/// How odd one call is, and why.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Odd {
    /// From 0 to 1.
    pub anomaly: f64,
    /// Why.
    pub text: Option<String>,
}

impl Baseline {
    /// Returns how odd a call is, and counts it in the hour under way.
    pub fn judge(&mut self, act: &Act) -> Odd {
        self.turn_hour(act);
        self.hour.1 += 1;
        let sizes = act.sizes.map(|sizes| {
            let request = self.requests.odd(sizes.request_bytes, "bytes in a request");
            [request, self.responses.odd(sizes.response_bytes, "bytes in an answer")]
        });
        let hourly = self.hourly.more(self.hour.1, "calls within an hour");
        let others = [hourly, self.odd_hour(act), self.odd_tool(act)];
        let all = sizes.into_iter().flatten().chain(others);
        all.max_by(|one, other| one.anomaly.total_cmp(&other.anomaly)).unwrap_or_default()
    }

    /// Learns from a call that counts.
    pub fn learn(&mut self, act: &Act) {
        if let Some(sizes) = act.sizes {
            self.requests.push(sizes.request_bytes);
            self.responses.push(sizes.response_bytes);
        }
        self.by_hour.resize(HOURS, 0.0);
        if let Some(calls) = self.by_hour.get_mut(hour_of_day(act.at)) {
            *calls += 1.0;
        }
        for tool in &act.tools {
            let tool = shortened(tool);
            if self.tools.len() < TOOLS_MAX && !self.tools.iter().any(|known| known == tool) {
                self.tools.push(tool.to_owned());
            }
        }
    }

    fn turn_hour(&mut self, act: &Act) {
        let hour = act.at.as_second().div_euclid(HOUR_S);
        if self.first_hour == 0 || hour < self.first_hour {
            (self.first_hour, self.hour) = (hour, (hour, 0));
        }
        // A clock that is set back begins an hour, too.
        if hour != self.hour.0 {
            self.hourly.push(self.hour.1);
            self.hour = (hour, 0);
        }
    }

    fn odd_hour(&self, act: &Act) -> Odd {
        let known = (self.hour.0 - self.first_hour) / 24 >= DAYS_MIN;
        let at = hour_of_day(act.at);
        let near = [at + HOURS - 1, at, at + 1].map(|hour| self.by_hour.get(hour % HOURS).copied());
        let calls: f64 = near.into_iter().flatten().sum();
        let all: f64 = self.by_hour.iter().sum();
        match known && self.requests.is_known() && calls < HOUR_SHARE_MIN * all {
            true => Odd {
                anomaly: NEW_ANOMALY,
                text: Some(format!("a call at {at}:00 UTC, when it hardly ever calls")),
            },
            false => Odd::default(),
        }
    }

    fn odd_tool(&self, act: &Act) -> Odd {
        let is_new = |tool: &&String| !self.tools.iter().any(|known| known == shortened(tool));
        match act.tools.iter().find(is_new).filter(|_| self.requests.is_known()) {
            Some(tool) => Odd {
                anomaly: NEW_ANOMALY,
                text: Some(format!("the tool {}, which it never called before", shortened(tool))),
            },
            None => Odd::default(),
        }
    }
}

impl Window {
    fn push(&mut self, value: u64) {
        if self.0.len() >= WINDOW {
            self.0.pop_front();
        }
        self.0.push_back(scaled(value));
    }

    fn is_known(&self) -> bool {
        self.0.len() >= VALUES_MIN
    }

    /// Returns how odd a value is, either way.
    fn odd(&self, value: u64, what: &str) -> Odd {
        let (median, z) = self.distance(value);
        let anomaly = ((z.abs() - Z_ODD) / (Z_CERTAIN - Z_ODD)).clamp(0.0, 1.0);
        let usual = median.exp_m1();
        let text = format!("{value} {what}, {z:+.1} robust deviations from the usual {usual:.0}");
        Odd { anomaly, text: (anomaly > 0.0).then_some(text) }
    }

    /// Does the same where only more is odd.
    fn more(&self, value: u64, what: &str) -> Odd {
        if self.distance(value).1 > 0.0 { self.odd(value, what) } else { Odd::default() }
    }

    /// Returns the median, and the robust z-score of a value; zero where too little is known.
    fn distance(&self, value: u64) -> (f64, f64) {
        if !self.is_known() {
            return (0.0, 0.0);
        }
        let center = median(self.0.iter().copied().collect());
        let deviation = median(self.0.iter().map(|known| (known - center).abs()).collect());
        (center, 0.6745 * (scaled(value) - center) / deviation.max(DEVIATION_MIN))
    }
}

impl Anomaly {
    /// Takes one call into account.
    pub fn observe(&mut self, at: Timestamp, odd: &Odd) {
        self.average += STEP * (odd.anomaly - self.average);
        if let Some(text) = &odd.text {
            remember(&mut self.reasons, at, text.clone());
        }
    }

    /// Returns the factor, and what moved it.
    pub fn factor(&self) -> (f64, Vec<Reason>) {
        let text = format!("the calls of late are odd by {:.2} of 1", self.average);
        let mut reasons = vec![Reason { at: None, text }];
        reasons.extend(self.reasons.iter().rev().cloned());
        (1.0 - self.average, reasons)
    }
}

fn scaled(value: u64) -> f64 {
    (value as f64).ln_1p()
}

fn hour_of_day(at: Timestamp) -> usize {
    at.as_second().div_euclid(HOUR_S).rem_euclid(HOURS as i64) as usize
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle), values.get(middle.wrapping_sub(1))) {
        (Some(high), Some(low)) if values.len().is_multiple_of(2) => (high + low) / 2.0,
        (Some(value), _) => *value,
        (None, _) => 0.0,
    }
}
