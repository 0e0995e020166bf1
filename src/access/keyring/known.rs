//! The keys as they are held in memory, by their slots and by what their names are found by.

use std::collections::HashMap;
use std::collections::HashSet;

use super::cipher::Key;
use super::file::Index;
use super::file::Slot;
use super::standing::Shares;
use super::standing::Standing;

/// Every key that is there.
#[derive(Default)]
pub(super) struct Known {
    by_index: HashMap<Index, u32>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Slots of which something is not on the disk yet, and whose they were: others may be in them by now, or nobody.
    dirty: Vec<(u32, Index)>,
    shares: Shares,
}

impl Known {
    /// Returns what a file holds.
    pub(super) fn of_slots(slots: Vec<Option<Slot>>) -> Option<Self> {
        let mut known = Self::default();
        for (number, slot) in slots.into_iter().enumerate() {
            let number = u32::try_from(number).ok()?;
            match slot {
                Some(slot) => known.put(number, slot),
                None => {
                    known.slots.push(None);
                    known.free.push(number);
                }
            }
        }
        Some(known)
    }

    /// Returns how many names have keys.
    pub(super) fn len(&self) -> usize {
        self.by_index.len()
    }

    /// Returns how many names of a standing have keys.
    pub(super) fn names(&self, standing: Standing) -> usize {
        self.shares.names(standing)
    }

    /// Tells whether a name has no key, and there is a place for it.
    pub(super) fn wants(&mut self, index: &Index, standing: Standing, today: u32) -> bool {
        !self.by_index.contains_key(index) && self.shares.admits(standing, today)
    }

    /// Returns those of some names that have no key and get a place, each of them once.
    pub(super) fn newcomers(&mut self, names: &[(Index, Standing)], today: u32) -> Vec<(Index, Standing)> {
        // Whose day has not begun yet begins it: what is counted from there on is only tried.
        for standing in Standing::ALL {
            self.shares.admits(standing, today);
        }
        let (mut shares, mut taken) = (self.shares, HashSet::new());
        let mut is_new = |(index, standing): &(Index, Standing)| {
            if self.by_index.contains_key(index) || taken.contains(index) || !shares.admits(*standing, today)
            {
                return false;
            }
            shares.add(*standing);
            shares.note_newcomer(*standing);
            taken.insert(*index)
        };
        names.iter().copied().filter(|name| is_new(name)).collect()
    }

    /// Takes a slot over as it is elsewhere; what is known here of its name still counts.
    pub(super) fn put(&mut self, number: u32, mut slot: Slot) {
        let at = number as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        let Some(place) = self.slots.get_mut(at) else { return };
        if let Some(before) = place.take() {
            self.shares.take(before.standing);
            match before.index == slot.index {
                true => {
                    slot.standing = slot.standing.max(before.standing);
                    slot.seen_day = slot.seen_day.max(before.seen_day);
                }
                false => drop(self.by_index.remove(&before.index)),
            }
        }
        self.shares.add(slot.standing);
        self.by_index.insert(slot.index, number);
        *place = Some(slot);
    }

    /// Forgets what is in a slot. The slot is not free for another name by that.
    pub(super) fn forget(&mut self, number: u32) {
        let Some(slot) = self.slots.get_mut(number as usize).and_then(Option::take) else { return };
        self.shares.take(slot.standing);
        self.by_index.remove(&slot.index);
    }

    /// Lets slots be used again whose keys are gone from the disk.
    pub(super) fn free(&mut self, numbers: impl IntoIterator<Item = u32>) {
        self.free.extend(numbers);
    }

    /// Returns a name's slot and key.
    pub(super) fn find(&self, index: &Index) -> Option<(u32, Key)> {
        let number = *self.by_index.get(index)?;
        Some((number, self.slot(number)?.key.clone()))
    }

    /// Returns what is in a slot.
    pub(super) fn slot(&self, number: u32) -> Option<&Slot> {
        self.slots.get(number as usize)?.as_ref()
    }

    /// Returns a name's slot and key, new ones if need be and there is a place.
    pub(super) fn find_or_make(
        &mut self,
        index: Index,
        standing: Standing,
        today: u32,
    ) -> Option<(u32, Key)> {
        if let Some(found) = self.find(&index) {
            return Some(found);
        }
        if !self.shares.admits(standing, today) {
            return None;
        }
        let key = Key::random();
        let number = self.free.pop().or_else(|| u32::try_from(self.slots.len()).ok())?;
        self.put(number, Slot { index, key: key.clone(), standing, seen_day: today });
        self.shares.note_newcomer(standing);
        self.dirty.push((number, index));
        Some((number, key))
    }

    /// Notes that the key of a name was made elsewhere on behalf of this process.
    pub(super) fn note_newcomer(&mut self, standing: Standing) {
        self.shares.note_newcomer(standing);
    }

    /// Notes that a name was used, by somebody who knows it that well.
    pub(super) fn note_use(&mut self, number: u32, standing: Standing, today: u32) {
        let Some(Some(slot)) = self.slots.get_mut(number as usize) else { return };
        let was = slot.standing;
        let rises = standing > was && self.shares.admits(standing, today);
        if rises {
            self.shares.take(was);
            self.shares.add(standing);
            self.shares.note_newcomer(standing);
            slot.standing = standing;
        }
        // Of those who never age out it does not matter.
        let is_later = slot.standing != Standing::Known && slot.seen_day < today;
        if is_later {
            slot.seen_day = today;
        }
        if rises || is_later {
            self.dirty.push((number, slot.index));
        }
    }

    /// Tells whether the holder of a slot was last seen before a day, and is not among `kept`.
    pub(super) fn is_old(&self, number: u32, before: u32, kept: &HashSet<Index>) -> bool {
        self.slot(number).is_some_and(|slot| {
            slot.standing != Standing::Known && slot.seen_day < before && !kept.contains(&slot.index)
        })
    }

    /// Returns the slots of those who are old.
    pub(super) fn old(&self, before: u32, kept: &HashSet<Index>) -> Vec<u32> {
        let numbers = (0..).zip(&self.slots).map(|(number, _)| number);
        numbers.filter(|number| self.is_old(*number, before, kept)).collect()
    }

    /// Tells whether something is not on the disk yet.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Takes the slots of which something is not on the disk yet.
    pub(super) fn take_dirty(&mut self) -> Vec<(u32, Slot)> {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        let whole = |(number, index): (u32, Index)| {
            let slot = self.slot(number).filter(|slot| slot.index == index)?;
            Some((number, slot.clone()))
        };
        dirty.into_iter().filter_map(whole).collect()
    }

    /// Notes that slots are not on the disk after all.
    pub(super) fn note_dirty(&mut self, slots: impl IntoIterator<Item = (u32, Index)>) {
        self.dirty.extend(slots);
    }

    /// Lets a share be full early.
    #[cfg(test)]
    pub(super) fn fill_at(&mut self, standing: Standing, names_max: usize) {
        self.shares.fill_at(standing, names_max);
    }
}
