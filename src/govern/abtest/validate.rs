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
use crate::scan::classifier::choice::ModelRef;
use crate::scan::classifier::shelf::Shelf;

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
        let variants = self.variants.into_iter().map(|written| variant(written, shelf));
        let variants: Vec<Variant> = variants.collect::<Result<_, _>>()?;
        let names: BTreeSet<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        if names.len() < variants.len() {
            return Err(AbTestError::RepeatedName);
        }
        let sum: u64 = variants.iter().map(|variant| u64::from(variant.weight)).sum();
        if !(1..=u64::from(u32::MAX)).contains(&sum) {
            return Err(AbTestError::Weight);
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
        if self.false_positive && !self.detected {
            return Err(AbTestError::Contradiction);
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

fn variant((text, weight, model): (String, f64, String), shelf: &Shelf) -> Result<Variant, AbTestError> {
    name(&text, "variants: name")?;
    let is_whole = weight.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&weight);
    if !is_whole {
        return Err(AbTestError::Weight);
    }
    let known = model.parse::<ModelRef>().ok().filter(|model| model.is_on(shelf));
    let model_ref = known.ok_or_else(|| AbTestError::UnknownModel { known: ModelRef::known(shelf) })?;
    Ok(Variant { name: text, weight: weight as u32, model_ref })
}
