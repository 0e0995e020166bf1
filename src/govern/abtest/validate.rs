//! From a test as somebody wrote it to one that can run.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::AbTest;
use super::AbTestError;
use super::DESCRIPTION_BYTES_MAX;
use super::GUARD_REQUESTS_MAX;
use super::LATENCY_MS_MAX;
use super::NAME_BYTES_MAX;
use super::NewTest;
use super::REQUEST_ID_BYTES_MAX;
use super::Report;
use super::Status;
use super::VARIANTS_MAX;
use super::Variant;
use super::WEIGHTS_APART_MAX;
use crate::scan::classifier::choice::ModelRef;
use crate::scan::classifier::shelf::Shelf;

/// The most decimals of a weight that are told exactly.
const DECIMALS_MAX: i32 = 9;

impl NewTest {
    /// Returns the test, made now.
    pub(super) fn read(self, id: String, shelf: &Shelf, now: Timestamp) -> Result<AbTest, AbTestError> {
        name(&self.name, "name")?;
        if self.description.len() > DESCRIPTION_BYTES_MAX {
            return Err(AbTestError::Description);
        }
        if !(2..=VARIANTS_MAX).contains(&self.variants.len()) {
            return Err(AbTestError::Variants);
        }
        let rail = self.guard_rail;
        if !(0.0..=1.0).contains(&rail.block_rate_max)
            || !(1..=GUARD_REQUESTS_MAX).contains(&rail.requests_min)
        {
            return Err(AbTestError::GuardRail);
        }
        let weights: Vec<f64> = self.variants.iter().map(|(_, weight, _)| *weight).collect();
        let shares = shares(&weights);
        let variants = self.variants.into_iter().enumerate();
        let variants = variants.map(|(at, written)| {
            let share = shares.as_ref().and_then(|shares| shares.get(at).copied());
            variant(written, share, shelf)
        });
        let variants: Vec<Variant> = variants.collect::<Result<_, _>>()?;
        let names: BTreeSet<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        if names.len() < variants.len() {
            return Err(AbTestError::RepeatedName);
        }
        Ok(AbTest {
            id,
            name: self.name,
            description: self.description,
            variants,
            guard_rail: rail,
            status: Status::Created,
            is_archived: false,
            created_at: now,
            updated_at: now,
            started_at: None,
        })
    }
}

impl Report {
    /// Tells whether the numbers can be believed.
    pub(super) fn check(&self) -> Result<(), AbTestError> {
        if !(0.0..=LATENCY_MS_MAX).contains(&self.latency_ms) {
            return Err(AbTestError::Latency);
        }
        self.request_id.as_deref().map_or(Ok(()), request_id)
    }
}

/// Tells whether a text can be the id of a request.
pub(super) fn request_id(text: &str) -> Result<(), AbTestError> {
    match (1..=REQUEST_ID_BYTES_MAX).contains(&text.len()) {
        true => Ok(()),
        false => Err(AbTestError::RequestId),
    }
}

fn name(text: &str, field: &'static str) -> Result<(), AbTestError> {
    let fits = (1..=NAME_BYTES_MAX).contains(&text.len()) && !text.trim().is_empty();
    if fits { Ok(()) } else { Err(AbTestError::Name(field)) }
}

fn variant(
    (text, written_weight, model): (String, f64, String),
    share: Option<u32>,
    shelf: &Shelf,
) -> Result<Variant, AbTestError> {
    name(&text, "variants: name")?;
    let weight = share.ok_or(AbTestError::Weight)?;
    let known = model.parse::<ModelRef>().ok().filter(|model| model.is_on(shelf));
    let model_ref = known.ok_or_else(|| AbTestError::UnknownModel { known: ModelRef::known(shelf) })?;
    Ok(Variant { name: text, weight, written_weight, model_ref })
}

/// Returns weights as whole numbers that are to each other what they are, with a sum of 32 bits: whole ones as they are,
/// and decimals by the least power of ten that makes them whole. `None` where one is no share, or there is nothing to
/// share, or where of one nothing would be left.
fn shares(weights: &[f64]) -> Option<Vec<u32>> {
    let largest = weights.iter().copied().fold(0.0, f64::max);
    let are_shares = weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0);
    if !are_shares || largest == 0.0 {
        return None;
    }
    let scaled = |scale: f64| weights.iter().map(move |weight| weight * scale);
    let is_exact = |scale: &f64| {
        let is_whole = |weight: f64| (weight - weight.round()).abs() <= weight * 4.0 * f64::EPSILON;
        scaled(*scale).sum::<f64>() <= f64::from(u32::MAX) && scaled(*scale).all(is_whole)
    };
    let exact = (0..=DECIMALS_MAX).map(|decimals| 10f64.powi(decimals)).find(is_exact);
    let shares = match exact {
        Some(scale) => scaled(scale).map(|weight| weight.round() as u32).collect::<Vec<_>>(),
        // The largest alone is far below what the sum may be.
        None => {
            let whole = |weight: &f64| (weight / largest * f64::from(WEIGHTS_APART_MAX)).round() as u32;
            weights.iter().map(whole).collect()
        }
    };
    let is_lost = weights.iter().zip(&shares).any(|(weight, share)| *weight > 0.0 && *share == 0);
    (!is_lost).then_some(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_shares_of_each_other() {
        let cases: &[(&[f64], Option<&[u32]>)] = &[
            (&[90.0, 10.0], Some(&[90, 10])),
            (&[0.3, 0.7], Some(&[3, 7])),
            (&[0.1, 0.2, 0.7], Some(&[1, 2, 7])),
            (&[33.3, 66.7], Some(&[333, 667])),
            (&[0.0, 2.5], Some(&[0, 25])),
            (&[1.0, f64::from(u32::MAX) - 1.0], Some(&[1, u32::MAX - 1])),
            (&[1.0 / 3.0, 2.0 / 3.0], Some(&[50_000_000, 100_000_000])),
            (&[1e300, 1e300], Some(&[100_000_000, 100_000_000])),
            (&[1e-300, 2e-300], Some(&[50_000_000, 100_000_000])),
            (&[0.0, 0.0], None),
            (&[1.0, -1.0], None),
            (&[1.0, f64::NAN], None),
            (&[1.0, f64::INFINITY], None),
            (&[1.0, 1e-12], None),
        ];
        for (weights, expected) in cases {
            assert_eq!(shares(weights).as_deref(), *expected, "{weights:?}");
        }
    }
}
