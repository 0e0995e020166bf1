//! Names that age out: those of whom nothing is left that names them.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use parking_lot::MutexGuard;
use parking_lot::RwLockWriteGuard;

use super::Home;
use super::Keyring;
use super::Standing;
use super::day_of;
use super::file::Index;

/// Within so many days it is told, at the latest, that a name was seen: by this process, and by other nodes.
const DAYS_UNTOLD: u32 = 7;
/// How many names age out at a time.
const AT_ONCE: usize = 1000;
/// How many of them where their keys lie in a file: whoever needs a key waits for that.
const IN_FILE_AT_ONCE: usize = 250;

/// How many names there are of a standing, and what became of others since that was last asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameCount {
    /// The standing.
    pub standing: Standing,
    /// How many have keys.
    pub names: usize,
    /// How often one was recorded that had no place.
    pub unlisted: u64,
}

impl Keyring {
    /// Destroys the keys of those who are in no journal since `since`, are not among `kept`, and in no record that is
    /// kept ([`Keyring::keep`]); returns how many. Tells the other nodes who was seen here. Blocks.
    ///
    /// # Errors
    /// The disk or the store failed: those keys are still there.
    pub fn age_out<'n>(
        &self,
        since: Timestamp,
        kept: impl IntoIterator<Item = &'n str>,
    ) -> io::Result<usize> {
        let before = day_of(since).saturating_sub(DAYS_UNTOLD);
        let kept: HashSet<Index> = kept.into_iter().map(|name| self.index_of(name)).collect();
        let gone = match &self.home {
            Home::File(_) => self.age_out_of_file(before, &kept)?,
            Home::Shared(_) => {
                self.tell_seen()?;
                self.age_out_everywhere(before, &kept)?
            }
        };
        self.counts.aged_out.fetch_add(gone as u64, Ordering::Relaxed);
        Ok(gone)
    }

    /// Nobody gets, makes or writes a key while some go, so that none is left behind whose name finds another one; whoever
    /// waits for that is let in before the next ones go.
    fn age_out_of_file(&self, before: u32, kept: &HashSet<Index>) -> io::Result<usize> {
        let Home::File(file) = &self.home else { return Ok(0) };
        let mut gone = 0;
        let old = self.known.read().old(before, kept);
        for some in old.chunks(IN_FILE_AT_ONCE) {
            let (writing, mut known) = (self.writing.lock(), self.known.write());
            // Some may have been seen meanwhile.
            let old: Vec<u32> =
                some.iter().copied().filter(|number| known.is_old(*number, before, kept)).collect();
            let written = old.iter().try_for_each(|number| file.write(*number, None));
            if let Err(error) = written.and_then(|()| file.sync()) {
                // They are all there still, and some of them are to be written again.
                let slots: Vec<_> =
                    old.iter().filter_map(|number| Some((*number, known.slot(*number)?.index))).collect();
                known.note_dirty(slots);
                self.is_dirty.store(true, Ordering::Release);
                return Err(error);
            }
            gone += old.len();
            old.iter().for_each(|number| known.forget(*number));
            known.free(old);
            // Whose they were nobody knows any more.
            self.cache.write().clear();
            RwLockWriteGuard::unlock_fair(known);
            MutexGuard::unlock_fair(writing);
        }
        Ok(gone)
    }

    fn age_out_everywhere(&self, before: u32, kept: &HashSet<Index>) -> io::Result<usize> {
        let Home::Shared(keys) = &self.home else { return Ok(0) };
        self.follow().map_err(io::Error::other)?;
        let mut gone = 0;
        let old = self.known.read().old(before, kept);
        for some in old.chunks(AT_ONCE) {
            // Some may have been seen meanwhile, here or elsewhere.
            let find = || {
                let known = self.known.read();
                some.iter().copied().filter(|number| known.is_old(*number, before, kept)).collect()
            };
            gone += keys.destroy_all(|fresh| self.take_over(fresh), find).map_err(io::Error::other)?;
        }
        Ok(gone)
    }

    /// Tells the other nodes who was seen here, and how well they are known.
    fn tell_seen(&self) -> io::Result<()> {
        let Home::Shared(keys) = &self.home else { return Ok(()) };
        let seen = self.known.write().take_dirty();
        for (at, some) in seen.chunks(AT_ONCE).enumerate() {
            let numbers: Vec<u32> = some.iter().map(|(number, _)| *number).collect();
            let current = |number| self.known.read().slot(number).cloned();
            if let Err(error) = keys.tell(|fresh| self.take_over(fresh), &numbers, current) {
                let untold = seen.iter().skip(at * AT_ONCE).map(|(number, slot)| (*number, slot.index));
                self.known.write().note_dirty(untold);
                return Err(io::Error::other(error));
            }
        }
        Ok(())
    }

    /// Lets a share be full early.
    #[cfg(test)]
    pub fn fill_at(&self, standing: Standing, names_max: usize) {
        self.known.write().fill_at(standing, names_max);
    }

    /// Returns how many names there are by standing.
    pub fn count(&self) -> [NameCount; Standing::ALL.len()] {
        let known = self.known.read();
        Standing::ALL.map(|standing| NameCount {
            standing,
            names: known.names(standing),
            unlisted: self.counts.unlisted[standing.place()].swap(0, Ordering::Relaxed),
        })
    }

    /// Returns how many names have aged out since that was last asked for.
    pub fn take_aged_out(&self) -> u64 {
        self.counts.aged_out.swap(0, Ordering::Relaxed)
    }
}
