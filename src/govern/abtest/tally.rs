//! The counts of one test, and what they say.

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

use super::AbTest;
use super::GuardRail;
use super::Outcome;
use super::evidence::Arm;
use super::evidence::Count;
use super::evidence::Evidence;
use super::evidence::SIGNIFICANCE_LEVEL;

/// The counts of all variants, in their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Tally {
    pub(super) variants: Vec<VariantTally>,
}

/// The counts of one variant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct VariantTally {
    detections: Count,
    live: u64,
    false_positives: u64,
    /// Live requests of which somebody said something afterwards.
    #[serde(default)]
    live_reported: u64,
    blocks: u64,
    latency_us: u64,
    /// Live requests and blocks since the test was started last, which the guard rail goes by.
    since_start: Count,
    pub(super) trip: Option<Trip>,
    /// What speaks against "like the first variant"; nothing for the first one itself.
    against_first: Evidence,
}

/// A guard rail that held.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trip {
    /// When.
    pub at: Timestamp,
    /// The share of requests that had been blocked.
    pub block_rate: f64,
}

/// Where an outcome comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Live,
    Reported,
}

/// What is known of a variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    /// Its name.
    pub variant: String,
    /// Requests, and those in which something was detected.
    pub detections: Count,
    /// How many of the requests were live traffic; the rest was fed back.
    pub live: u64,
    /// Detections that were wrong, as somebody said.
    pub false_positives: u64,
    /// Requests that the model blocked.
    pub blocks: u64,
    /// How long the model took on average.
    pub latency_ms_average: f64,
    /// Why the variant gets no more traffic.
    pub trip: Option<Trip>,
    /// How it compares with the first one; nothing for the first one itself.
    pub significance: Option<Significance>,
}

/// How a variant compares with the first one.
#[derive(Clone, Debug, PartialEq)]
pub struct Significance {
    /// The first variant.
    pub compared_with: String,
    /// Its own detection rate less that of the first one, over the requests that the p-value goes by: those that came
    /// while both got their share. `None`: one of them has none of these.
    pub difference: Option<f64>,
    /// How surprising the counts would be if both detected alike; valid at every look. `None`: as above.
    pub p_value: Option<f64>,
    /// How many requests of both variants the p-value goes by.
    pub compared: u64,
    /// Whether the difference is real, at [`SIGNIFICANCE_LEVEL`].
    pub is_significant: bool,
}

impl Tally {
    /// Returns empty counts.
    pub(super) fn of(test: &AbTest) -> Self {
        Self { variants: vec![VariantTally::default(); test.variants.len()] }
    }

    /// Counts an outcome of the variant at a place.
    pub(super) fn count(&mut self, at: usize, outcome: Outcome, source: Source) {
        if let Some(tally) = self.variants.get_mut(at) {
            tally.count(outcome, source);
        }
    }

    /// Lets an outcome of the variant at a place speak for or against "all detect alike". It does so in each pair both
    /// of whose variants get requests as their weights say, which `is_open` tells: once one of them gets none, what
    /// comes to the other shows how requests changed, not how the variants differ.
    pub(super) fn compare(
        &mut self,
        test: &AbTest,
        at: usize,
        detected: bool,
        is_open: impl Fn(usize) -> bool,
    ) {
        let has_control = is_open(0) && self.variants.first().is_some_and(|tally| tally.trip.is_none());
        let first = test.variants.first().map_or(0, |variant| variant.weight);
        let others = self.variants.iter_mut().zip(&test.variants).enumerate().skip(1);
        for (place, (tally, variant)) in others.filter(|(place, _)| at == 0 || at == *place) {
            let (own, both) = (f64::from(variant.weight), f64::from(variant.weight) + f64::from(first));
            let arm = if at == place { Arm::Other } else { Arm::Control };
            // With a weight of zero nothing comes to be compared but what somebody makes up.
            let has_both = has_control && is_open(place) && tally.trip.is_none();
            if has_both && own > 0.0 && first > 0 {
                tally.against_first.observe(arm, own / both, detected);
            }
        }
    }

    /// Tells whether it has counted live traffic.
    pub(super) fn has_live(&self) -> bool {
        self.variants.iter().any(|tally| tally.live > 0)
    }

    /// Adds only what somebody said of a live request: whether its detection was wrong.
    pub(super) fn add_feedback(&mut self, at: usize, was_wrong: bool) {
        if let Some(tally) = self.variants.get_mut(at) {
            tally.false_positives += u64::from(was_wrong);
            tally.live_reported += 1;
        }
    }

    /// Stops the variant at a place if it blocks too much; tells so once.
    pub(super) fn guard(&mut self, rail: GuardRail, at: usize, now: Timestamp) -> Option<Trip> {
        let tally = self.variants.get_mut(at)?;
        let Count { all, .. } = tally.since_start;
        let block_rate = tally.since_start.rate();
        if tally.trip.is_some() || all < rail.requests_min || block_rate <= rail.block_rate_max {
            return None;
        }
        tally.trip = Some(Trip { at: now, block_rate });
        tally.trip
    }

    /// Lets every guard rail begin anew.
    pub(super) fn restart(&mut self) {
        for tally in &mut self.variants {
            (tally.since_start, tally.trip) = (Count::default(), None);
        }
    }

    /// Returns about how many requests somebody fed something back, and how many of them were false positives.
    pub(super) fn reported(&self) -> (u64, u64) {
        let sum = |of: fn(&VariantTally) -> u64| self.variants.iter().map(of).sum();
        (
            sum(|tally| tally.detections.all - tally.live + tally.live_reported),
            sum(|tally| tally.false_positives),
        )
    }

    /// Returns what is known of every variant.
    pub(super) fn metrics(&self, test: &AbTest) -> Vec<Metrics> {
        let name = test.variants.first().map_or("", |variant| variant.name.as_str());
        let comparisons = test.variants.len().saturating_sub(1);
        let pairs = test.variants.iter().zip(&self.variants).enumerate();
        let metrics = pairs.map(|(at, (variant, tally))| Metrics {
            variant: variant.name.clone(),
            detections: tally.detections,
            live: tally.live,
            false_positives: tally.false_positives,
            blocks: tally.blocks,
            latency_ms_average: tally.latency_ms_average(),
            trip: tally.trip,
            significance: (at > 0).then(|| {
                let p_value = tally.against_first.p_value(comparisons);
                Significance {
                    compared_with: name.to_owned(),
                    difference: tally.against_first.difference(),
                    p_value,
                    compared: tally.against_first.compared(),
                    is_significant: p_value.is_some_and(|p_value| p_value <= SIGNIFICANCE_LEVEL),
                }
            }),
        });
        metrics.collect()
    }
}

impl VariantTally {
    fn count(&mut self, outcome: Outcome, source: Source) {
        let Outcome { detected, false_positive, blocked, latency_us } = outcome;
        let with = |count: Count, hit: bool| Count { all: count.all + 1, hits: count.hits + u64::from(hit) };
        self.detections = with(self.detections, detected);
        if source == Source::Live {
            self.live += 1;
            self.since_start = with(self.since_start, blocked);
        }
        self.false_positives += u64::from(false_positive);
        self.blocks += u64::from(blocked);
        self.latency_us = self.latency_us.saturating_add(latency_us);
    }

    fn latency_ms_average(&self) -> f64 {
        match self.detections.all {
            0 => 0.0,
            all => self.latency_us as f64 / all as f64 / 1e3,
        }
    }
}
