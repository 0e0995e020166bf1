//! `/api/v1/keys/{id}/budget`: how much a key may use, and how much of it is used.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde::Serialize;
use utoipa::ToSchema;

use super::analytics::money;
use crate::access::budget::Allowance;
use crate::access::budget::Amount;
use crate::access::budget::Budget;
use crate::access::budget::Spent;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::error::ApiError;
use crate::clock::rfc3339;
use crate::govern::analytics::Period;
use crate::govern::analytics::figures::Count;
use crate::govern::analytics::figures::Figures;
use crate::govern::analytics::period::Day;
use crate::govern::analytics::period::Hour;
use crate::govern::analytics::price::PICO_PER_UNIT;

/// The largest amount of money of a budget.
const MONEY_MAX: f64 = 10_000_000.0;
/// The most tokens of a budget: a thousand million millions, which every reader of JSON holds exactly.
const TOKENS_MAX: u64 = 1_000_000_000_000_000;

/// How much a key may use; what is absent is unlimited. Days and months are those of UTC.
#[derive(Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetLimits {
    /// Tokens in a day.
    #[schema(maximum = 1_000_000_000_000_000_i64)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_day: Option<u64>,
    /// Tokens in a month.
    #[schema(maximum = 1_000_000_000_000_000_i64)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_month: Option<u64>,
    /// Money in a day, in the currency of the prices.
    #[schema(minimum = 0, maximum = 10_000_000)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_per_day: Option<f64>,
    /// Money in a month.
    #[schema(minimum = 0, maximum = 10_000_000)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_per_month: Option<f64>,
}

/// A key's budget, and how much of it is used.
#[derive(Serialize, ToSchema)]
pub struct BudgetReport {
    /// The key's id.
    pub key_id: String,
    /// The currency of money.
    pub currency: String,
    /// How much it may use.
    pub limits: BudgetLimits,
    /// What it used today.
    pub today: BudgetUse,
    /// What it used this month.
    pub this_month: BudgetUse,
}

/// What was used of a budget.
#[derive(Serialize, ToSchema)]
pub struct BudgetUse {
    /// Tokens.
    pub tokens: u64,
    /// Money.
    pub cost: f64,
    /// When it begins anew.
    pub resets_at: String,
}

/// A budget that was taken away.
#[derive(Serialize, ToSchema)]
pub struct Unlimited {
    /// `unlimited`.
    pub status: &'static str,
    /// The key's id.
    pub key_id: String,
}

/// `GET /api/v1/keys/{id}/budget`.
pub async fn read(call: Call) -> Answer {
    let id = known(&call)?;
    match call.office.budgets.of(&id, call.office.clock.now()) {
        Some((budget, spent)) => ok(&report(&call, id, budget, &spent)),
        None => Err(unlimited()),
    }
}

/// `PUT /api/v1/keys/{id}/budget`.
pub async fn put(call: Call) -> Answer {
    let id = known(&call)?;
    let budget = call.json::<BudgetLimits>()?.read()?;
    if !budget.is_limited() {
        return Err(ApiError::Invalid("a budget limits something; DELETE takes it away".to_owned()));
    }
    call.ensure_recordable()?;
    set(&call, &id, budget).await?;
    let mut event = call.event("key_budget_changed", "a key's budget was set".to_owned());
    event.entity = Some(id.clone());
    call.office.record(event).await;
    let spent =
        call.office.budgets.of(&id, call.office.clock.now()).map(|(_, spent)| spent).unwrap_or_default();
    ok(&report(&call, id, budget, &spent))
}

/// `DELETE /api/v1/keys/{id}/budget`.
pub async fn remove(call: Call) -> Answer {
    let id = known(&call)?;
    call.ensure_recordable()?;
    let (office, key) = (call.office.clone(), id.clone());
    let removed = tokio::task::spawn_blocking(move || office.budgets.remove(&key)).await;
    let removed = removed.map_err(|_| call.office.panicked())?.map_err(|_| ApiError::Unavailable)?;
    if !removed {
        return Err(unlimited());
    }
    let mut event = call.event("key_budget_changed", "a key's budget was taken away".to_owned());
    event.entity = Some(id.clone());
    call.office.record(event).await;
    ok(&Unlimited { status: "unlimited", key_id: id })
}

/// Gives a key a budget; what the key used before, as far as that is known, counts.
///
/// # Errors
/// The store failed.
pub(super) async fn set(call: &Call, id: &str, budget: Budget) -> Result<(), ApiError> {
    let (office, id, now) = (call.office.clone(), id.to_owned(), call.office.clock.now());
    let set = tokio::task::spawn_blocking(move || {
        let month = now.to_zoned(TimeZone::UTC).date().first_of_month().to_zoned(TimeZone::UTC);
        let begins = month.map_or(now, |month| month.timestamp());
        let days = office.meter.by_day(Period::touching(begins, now))?;
        let cost = |figures: &Figures| u64::try_from(figures.cost_pico()).unwrap_or(u64::MAX);
        let of = |figures: &Figures| Amount { tokens: figures[Count::Total], cost: cost(figures) };
        let used: BTreeMap<Day, Figures> =
            days.into_iter().filter_map(|(day, roll)| Some((day, *roll.callers.named.get(&id)?))).collect();
        let today = used.get(&Hour::of(now).day()).map(of).unwrap_or_default();
        let mut sum = Figures::default();
        used.values().for_each(|figures| sum.add(figures));
        office.budgets.set(&id, budget, Spent::of(today, of(&sum), now))
    });
    set.await.map_err(|_| call.office.panicked())?.map_err(|_| ApiError::Unavailable)
}

impl BudgetLimits {
    /// Reads a budget.
    ///
    /// # Errors
    /// Money is negative, or there is more of it, or of tokens, than a budget takes.
    pub(super) fn read(self) -> Result<Budget, ApiError> {
        let money = |name: &str, amount: Option<f64>| match amount {
            Some(amount) if !(0.0..=MONEY_MAX).contains(&amount) => {
                Err(ApiError::Invalid(format!("{name}: expected an amount from 0 to {MONEY_MAX}")))
            }
            amount => Ok(amount.map(|amount| (amount * PICO_PER_UNIT).round() as u64)),
        };
        let tokens = |name: &str, count: Option<u64>| match count {
            Some(count) if count > TOKENS_MAX => {
                Err(ApiError::Invalid(format!("{name}: expected a number from 0 to {TOKENS_MAX}")))
            }
            count => Ok(count),
        };
        Ok(Budget {
            tokens_per_day: tokens("tokens_per_day", self.tokens_per_day)?,
            tokens_per_month: tokens("tokens_per_month", self.tokens_per_month)?,
            cost_per_day: money("cost_per_day", self.cost_per_day)?,
            cost_per_month: money("cost_per_month", self.cost_per_month)?,
        })
    }
}

impl From<Budget> for BudgetLimits {
    fn from(budget: Budget) -> Self {
        Self {
            tokens_per_day: budget.tokens_per_day,
            tokens_per_month: budget.tokens_per_month,
            cost_per_day: budget.cost_per_day.map(money),
            cost_per_month: budget.cost_per_month.map(money),
        }
    }
}

fn report(call: &Call, key_id: String, budget: Budget, spent: &Spent) -> BudgetReport {
    let now = call.office.clock.now();
    let used = |amount: Amount, resets_at: Timestamp| BudgetUse {
        tokens: amount.tokens,
        cost: money(amount.cost),
        resets_at: rfc3339(resets_at),
    };
    BudgetReport {
        key_id,
        currency: call.office.meter.prices().currency.clone(),
        limits: budget.into(),
        today: used(spent.today, Allowance::TokensPerDay.resets_at(now)),
        this_month: used(spent.this_month, Allowance::TokensPerMonth.resets_at(now)),
    }
}

/// Returns the id in the path, if the caller may see that key.
fn known(call: &Call) -> Result<String, ApiError> {
    let id = call.parameter("id");
    let found =
        call.office.keys.list().into_iter().find(|record| record.id == id && super::keys::sees(call, record));
    found.map(|record| record.id).ok_or_else(super::keys::unknown)
}

fn unlimited() -> ApiError {
    ApiError::NotFound("this key has no budget: it is unlimited".to_owned())
}
