//! `/api/v1/analytics`: what was used and what it cost.
//!
//! Periods are whole hours of UTC, those that `from` and `to` touch; the answer names them. Hours that are no longer
//! known one by one are taken by the day.

use std::collections::BTreeMap;
use std::collections::HashMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde::Serialize;
use utoipa::ToSchema;

use super::audit::moment;
use super::audit::until;
use super::findings::FindingFigures;
use super::findings::LatencyFigures;
use crate::admin::Office;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::error::ApiError;
use crate::clock::rfc3339;
use crate::govern::analytics::Meter;
use crate::govern::analytics::Period;
use crate::govern::analytics::figures::Count;
use crate::govern::analytics::figures::Figures;
use crate::govern::analytics::figures::Ranked;
use crate::govern::analytics::figures::Roll;
use crate::govern::analytics::meter::DAYS_KEPT;
use crate::govern::analytics::meter::HOURS_KEPT;
use crate::govern::analytics::period::DAY_H;
use crate::govern::analytics::period::Day;
use crate::govern::analytics::period::Hour;
use crate::govern::analytics::price::PICO_PER_UNIT;
use crate::store::StoreError;

/// What may be asked by.
pub const PARAMETERS: [&str; 2] = ["from", "to"];
/// How those are called together that are not named.
const OTHER: &str = "other";
/// The most hours that are told one by one.
const HOURS_MAX: u64 = 31 * DAY_H;
/// How many users, models and routes a dashboard names.
const TOP: usize = 10;

/// What was used in a period.
#[derive(Serialize, ToSchema)]
pub struct UsageReport {
    /// Everything together.
    #[serde(flatten)]
    pub totals: UsageFigures,
    /// When the period begins.
    pub period_start: String,
    /// When it ends.
    pub period_end: String,
    /// By caller, those that used most first; `other`: those that are not named.
    pub by_user: Vec<UserUsage>,
    /// By model.
    pub by_model: BTreeMap<String, UsageFigures>,
    /// By route, those that used most first.
    pub by_route: Vec<RouteUsage>,
    /// By day of UTC.
    pub by_day: Vec<DayUsage>,
}

/// Figures of use.
#[derive(Clone, Serialize, ToSchema)]
pub struct UsageFigures {
    /// All tokens.
    pub total_tokens: u64,
    /// Tokens read by models.
    pub prompt_tokens: u64,
    /// Tokens written by models.
    pub completion_tokens: u64,
    /// Of those read, from a provider's cache.
    pub cached_tokens: u64,
    /// Of those read, put into a provider's cache.
    pub cache_write_tokens: u64,
    /// Of those written, thinking.
    pub reasoning_tokens: u64,
    /// Of those read, sound.
    pub audio_prompt_tokens: u64,
    /// Of those written, sound.
    pub audio_completion_tokens: u64,
    /// Of all, estimates: no provider told them.
    pub estimated_tokens: u64,
    /// Exchanges.
    pub request_count: u64,
    /// Exchanges that failed.
    pub error_count: u64,
    /// Exchanges that a policy refused; they are no failures.
    pub blocked_count: u64,
    /// Exchanges out of which something was taken, and whose rest went on.
    pub redacted_count: u64,
    /// The share of exchanges that failed, 0 to 1.
    pub error_rate: f64,
    /// The mean time an exchange took, in milliseconds.
    pub avg_latency_ms: f64,
}

/// What one caller used.
#[derive(Serialize, ToSchema)]
pub struct UserUsage {
    /// A key's id, or the keyed hash of a provider's credential.
    pub user: String,
    /// The key's name, where it is a key.
    pub name: Option<String>,
    /// What it used.
    #[serde(flatten)]
    pub figures: UsageFigures,
}

/// What went over one route.
#[derive(Serialize, ToSchema)]
pub struct RouteUsage {
    /// The route's name.
    pub route: String,
    /// What was used.
    #[serde(flatten)]
    pub figures: UsageFigures,
}

/// What was used on one day.
#[derive(Serialize, ToSchema)]
pub struct DayUsage {
    /// The day, in UTC.
    pub day: String,
    /// What was used.
    #[serde(flatten)]
    pub figures: UsageFigures,
}

/// What use cost in a period.
#[derive(Serialize, ToSchema)]
pub struct CostReport {
    /// The currency, as in ISO 4217.
    pub currency: String,
    /// Everything together.
    pub total: f64,
    /// The part of it that rests on estimates.
    pub estimated: f64,
    /// Tokens without a price, which cost nothing here.
    pub unpriced_tokens: u64,
    /// Exchanges with such tokens.
    pub unpriced_requests: u64,
    /// When the period begins.
    pub period_start: String,
    /// When it ends.
    pub period_end: String,
    /// By model.
    pub by_model: BTreeMap<String, ModelCost>,
    /// By caller, those that used most first; `other`: those that are not named.
    pub by_user: Vec<UserCost>,
    /// By day of UTC.
    pub by_day: Vec<DayCost>,
}

/// What one model cost.
#[derive(Serialize, ToSchema)]
pub struct ModelCost {
    /// What it cost.
    pub cost: f64,
    /// The tokens it used.
    pub total_tokens: u64,
    /// Those without a price.
    pub unpriced_tokens: u64,
    /// The page its price was read from; `null`: it has none.
    pub price_source: Option<String>,
    /// When it was read.
    pub price_seen: Option<String>,
}

/// What one caller's use cost.
#[derive(Serialize, ToSchema)]
pub struct UserCost {
    /// A key's id, or the keyed hash of a provider's credential.
    pub user: String,
    /// The key's name, where it is a key.
    pub name: Option<String>,
    /// What it cost.
    pub cost: f64,
    /// The tokens it used.
    pub total_tokens: u64,
    /// Those without a price.
    pub unpriced_tokens: u64,
}

/// What one day cost.
#[derive(Serialize, ToSchema)]
pub struct DayCost {
    /// The day, in UTC.
    pub day: String,
    /// What it cost.
    pub cost: f64,
    /// The tokens of the day.
    pub total_tokens: u64,
}

/// Figures to be drawn.
#[derive(Serialize, ToSchema)]
pub struct Dashboard {
    /// When the period begins.
    pub period_start: String,
    /// When it ends.
    pub period_end: String,
    /// The currency of costs.
    pub currency: String,
    /// Everything together.
    pub totals: UsageFigures,
    /// What it cost.
    pub cost: f64,
    /// Every hour of the period, also those without traffic.
    pub hours: Vec<HourPoint>,
    /// The callers that used most.
    pub top_users: Vec<UserCost>,
    /// The models that were used most.
    pub top_models: Vec<NamedCost>,
    /// The routes that were used most.
    pub top_routes: Vec<NamedCost>,
    /// What was found in most exchanges.
    pub top_findings: Vec<FindingFigures>,
    /// How long proxied requests took, whatever the period.
    pub latency: LatencyFigures,
}

/// The figures of one hour.
#[derive(Serialize, ToSchema)]
pub struct HourPoint {
    /// When it begins.
    pub hour: String,
    /// What was used.
    #[serde(flatten)]
    pub figures: UsageFigures,
    /// What it cost.
    pub cost: f64,
}

/// What something cost.
#[derive(Serialize, ToSchema)]
pub struct NamedCost {
    /// Its name.
    pub name: String,
    /// What it cost.
    pub cost: f64,
    /// The tokens it used.
    pub total_tokens: u64,
    /// Exchanges.
    pub request_count: u64,
}

/// The query as it was written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    from: Option<String>,
    to: Option<String>,
}

/// `GET /api/v1/analytics/usage`.
pub async fn usage(call: Call) -> Answer {
    let period = period(&call, 30 * DAY_H, DAYS_KEPT * DAY_H)?;
    let days = read(&call, move |meter| meter.by_day(period)).await?;
    let sum = sum(days.values());
    let names = names(&call.office);
    let with_other = |ranked: &Ranked| -> BTreeMap<String, UsageFigures> {
        named(ranked).into_iter().map(|(name, figures)| (name.to_owned(), figures.into())).collect()
    };
    let user = |(user, figures): (&str, &Figures)| UserUsage {
        user: user.to_owned(),
        name: names.get(user).cloned(),
        figures: figures.into(),
    };
    let route =
        |(route, figures): (&str, &Figures)| RouteUsage { route: route.to_owned(), figures: figures.into() };
    ok(&UsageReport {
        totals: (&sum.total).into(),
        period_start: rfc3339(period.from.begins()),
        period_end: rfc3339(period.to.begins()),
        by_user: named(&sum.callers).into_iter().map(user).collect(),
        by_model: with_other(&sum.models),
        by_route: named(&sum.routes).into_iter().map(route).collect(),
        by_day: days
            .iter()
            .map(|(at, roll)| DayUsage { day: day(*at), figures: (&roll.total).into() })
            .collect(),
    })
}

/// `GET /api/v1/analytics/cost`.
pub async fn cost(call: Call) -> Answer {
    let period = period(&call, 30 * DAY_H, DAYS_KEPT * DAY_H)?;
    let days = read(&call, move |meter| meter.by_day(period)).await?;
    let sum = sum(days.values());
    let (prices, now, names) = (call.office.meter.prices(), call.office.clock.now(), names(&call.office));
    let model = |(name, figures): (&str, &Figures)| {
        let price = prices.of(name, now);
        let told = ModelCost {
            cost: money(figures.cost_pico()),
            total_tokens: figures[Count::Total],
            unpriced_tokens: figures[Count::UnpricedTokens],
            price_source: price.map(|price| price.source.clone()),
            price_seen: price.map(|price| price.seen.to_string()),
        };
        (name.to_owned(), told)
    };
    let of_day = |(at, roll): (&Day, &Roll)| DayCost {
        day: day(*at),
        cost: money(roll.total.cost_pico()),
        total_tokens: roll.total[Count::Total],
    };
    ok(&CostReport {
        currency: prices.currency.clone(),
        total: money(sum.total.cost_pico()),
        estimated: money(sum.total.cost_estimated_pico()),
        unpriced_tokens: sum.total[Count::UnpricedTokens],
        unpriced_requests: sum.total[Count::UnpricedRequests],
        period_start: rfc3339(period.from.begins()),
        period_end: rfc3339(period.to.begins()),
        by_model: named(&sum.models).into_iter().map(model).collect(),
        by_user: named(&sum.callers).into_iter().map(|of| user_cost(of, &names)).collect(),
        by_day: days.iter().map(of_day).collect(),
    })
}

/// `GET /api/v1/analytics/dashboard`.
pub async fn dashboard(call: Call) -> Answer {
    let period = period(&call, DAY_H, HOURS_MAX)?;
    let hours = read(&call, move |meter| meter.hours(period)).await?;
    let sum = sum(hours.values());
    let names = names(&call.office);
    let nothing = Roll::default();
    let point = |hour: Hour| {
        let figures = &hours.get(&hour).unwrap_or(&nothing).total;
        let cost = money(figures.cost_pico());
        HourPoint { hour: rfc3339(hour.begins()), figures: figures.into(), cost }
    };
    ok(&Dashboard {
        period_start: rfc3339(period.from.begins()),
        period_end: rfc3339(period.to.begins()),
        currency: call.office.meter.prices().currency.clone(),
        totals: (&sum.total).into(),
        cost: money(sum.total.cost_pico()),
        hours: period.each_hour().map(point).collect(),
        top_users: sum.callers.by_weight().into_iter().take(TOP).map(|of| user_cost(of, &names)).collect(),
        top_models: top(&sum.models),
        top_routes: top(&sum.routes),
        top_findings: FindingFigures::of(&sum.findings),
        latency: LatencyFigures::of(&call.office),
    })
}

/// Reads `from` and `to`; without them, the last `usual` hours.
///
/// # Errors
/// They are no times, `from` lies after `to`, or there are more than `most` hours between them.
pub(super) fn period(call: &Call, usual: u64, most: u64) -> Result<Period, ApiError> {
    let asked: Asked = call.query()?;
    let now = call.office.clock.now();
    let to = until("to", asked.to)?.unwrap_or(now);
    let from = moment("from", asked.from)?;
    let epoch = Timestamp::UNIX_EPOCH;
    if to < epoch || from.is_some_and(|from| from < epoch) {
        return Err(ApiError::Invalid("from and to: expected times after 1970".to_owned()));
    }
    let from = from.unwrap_or_else(|| Hour::of(to).back(usual - 1).begins());
    if from > to {
        return Err(ApiError::Invalid("from lies after to".to_owned()));
    }
    let period = Period::touching(from, to).known(Hour::of(now).back(HOURS_KEPT));
    if period.hours() > most {
        return Err(ApiError::Invalid(format!("from and to lie more than {} days apart", most / DAY_H)));
    }
    Ok(period)
}

/// Reads figures off the workers.
///
/// # Errors
/// The store failed.
pub(super) async fn read<T: Send + 'static>(
    call: &Call,
    read: impl FnOnce(&Meter) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, ApiError> {
    let meter = call.office.meter.clone();
    let read = tokio::task::spawn_blocking(move || read(&meter)).await;
    read.map_err(|_| call.office.panicked())?.map_err(|_| ApiError::Unavailable)
}

/// Returns the names of keys, by id.
pub(super) fn names(office: &Office) -> HashMap<String, String> {
    office.keys.list().into_iter().map(|key| (key.id, key.name)).collect()
}

fn sum<'a>(rolls: impl Iterator<Item = &'a Roll>) -> Roll {
    rolls.fold(Roll::default(), |mut sum, roll| {
        sum.merge(roll);
        sum
    })
}

/// Returns those that are named, and after them all the others together.
fn named(ranked: &Ranked) -> Vec<(&str, &Figures)> {
    let other = (ranked.other != Figures::default()).then_some((OTHER, &ranked.other));
    ranked.by_weight().into_iter().chain(other).collect()
}

fn user_cost((user, figures): (&str, &Figures), names: &HashMap<String, String>) -> UserCost {
    UserCost {
        user: user.to_owned(),
        name: names.get(user).cloned(),
        cost: money(figures.cost_pico()),
        total_tokens: figures[Count::Total],
        unpriced_tokens: figures[Count::UnpricedTokens],
    }
}

fn top(ranked: &Ranked) -> Vec<NamedCost> {
    let named = |(name, figures): (&str, &Figures)| NamedCost {
        name: name.to_owned(),
        cost: money(figures.cost_pico()),
        total_tokens: figures[Count::Total],
        request_count: figures[Count::Requests],
    };
    ranked.by_weight().into_iter().take(TOP).map(named).collect()
}

/// Returns a sum in the currency.
pub(super) fn money(pico: impl Into<u128>) -> f64 {
    pico.into() as f64 / PICO_PER_UNIT
}

fn day(day: Day) -> String {
    day.begins().to_zoned(TimeZone::UTC).date().to_string()
}

impl From<&Figures> for UsageFigures {
    fn from(figures: &Figures) -> Self {
        Self {
            total_tokens: figures[Count::Total],
            prompt_tokens: figures[Count::Prompt],
            completion_tokens: figures[Count::Completion],
            cached_tokens: figures[Count::Cached],
            cache_write_tokens: figures[Count::CacheWrite],
            reasoning_tokens: figures[Count::Reasoning],
            audio_prompt_tokens: figures[Count::AudioPrompt],
            audio_completion_tokens: figures[Count::AudioCompletion],
            estimated_tokens: figures[Count::Estimated],
            request_count: figures[Count::Requests],
            error_count: figures[Count::Errors],
            blocked_count: figures[Count::Blocked],
            redacted_count: figures[Count::Redacted],
            error_rate: figures.error_rate(),
            avg_latency_ms: figures.latency_ms_mean(),
        }
    }
}
