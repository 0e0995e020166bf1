//! The releases of holds, each to be recorded once it is known to be safe.

use super::desk::Privacy;
use super::desk::PrivacyError;
use super::hold::Hold;
use super::hold::HoldId;

impl Privacy {
    /// Releases a hold, unless it was before; returns it, and whether that is still to be recorded: it changed it, or it
    /// is known only now that an earlier release is safe. `None`: there is none.
    ///
    /// # Errors
    /// When it cannot be read or written. It may be released all the same: [`Privacy::confirmed`] tells once it is safe.
    pub fn release(&self, id: HoldId, actor: Option<String>) -> Result<Option<(Hold, bool)>, PrivacyError> {
        let released = self.holds.change(
            |fresh| self.take_over_hold(fresh),
            |batch| {
                let Some(record) = self.holds.table().get(&id.0)? else { return Ok(None) };
                let was = record.open(id, &self.keyring);
                if was.released_at.is_some() {
                    return Ok(Some((was, false)));
                }
                let record = record.released(self.clock.now());
                self.holds.table().put_in(batch, &id.0, &record)?;
                Ok(Some((record.open(id, &self.keyring), true)))
            },
        );
        let mut unsure = self.unsure.lock();
        match released {
            Ok(Some((hold, is_new))) => Ok(Some((hold, unsure.remove(&id.0).is_some() || is_new))),
            Ok(None) => Ok(None),
            Err(error) => {
                unsure.insert(id.0, actor);
                Err(error)
            }
        }
    }

    /// Returns the holds whose release was not known to be safe and is now, with who asked for it: each once.
    ///
    /// # Errors
    /// The store failed: it is not known of any.
    pub fn confirmed(&self) -> Result<Vec<(Hold, Option<String>)>, PrivacyError> {
        let mut unsure = self.unsure.lock();
        if unsure.is_empty() {
            return Ok(Vec::new());
        }
        self.holds.table().store().durable()?;
        let mut confirmed = Vec::new();
        for (number, actor) in unsure.iter() {
            let hold = self.hold_of(HoldId(*number))?.filter(|hold| hold.released_at.is_some());
            confirmed.extend(hold.map(|hold| (hold, actor.clone())));
        }
        // A hold that is in force was not released, and whoever wanted that was told to ask again.
        unsure.clear();
        Ok(confirmed)
    }
}
