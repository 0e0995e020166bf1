//! Whether the earliest match of a wide pattern is over, followed from piece to piece: a key of a hundred kilobytes
//! may be complete at every byte.

use super::buffer::Buffer;
use crate::scan::hold::Followed;
use crate::scan::hold::Watch;
use crate::scan::threat::DetectorId;

/// The matches that were asked about: one of a detector.
#[derive(Clone, Debug, Default)]
pub(super) struct Over {
    known: Vec<Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    detector: DetectorId,
    start: usize,
    /// Up to where the text was followed.
    to: usize,
    followed: Followed,
}

impl Over {
    /// Returns where the match ends that begins at `start`, if whatever follows cannot change it; `text` is read up to `until`.
    pub(super) fn end(
        &mut self,
        watch: &Watch,
        (detector, start): (DetectorId, usize),
        text: &Buffer,
        until: usize,
    ) -> Option<usize> {
        let settler = watch.settler(detector)?;
        let is_known = |known: &Known| known.start == start && known.to >= text.base;
        self.known.retain(|known| known.detector != detector || is_known(known));
        let at = self.known.iter().position(|known| known.detector == detector);
        let known = match at.and_then(|at| self.known.get_mut(at)) {
            Some(known) => known,
            None => {
                let before = start.checked_sub(1).and_then(|before| text.range(before..start).first());
                let followed = settler.begin(before.copied())?;
                self.known.push_mut(Known { detector, start, to: start, followed })
            }
        };
        settler.follow(&mut known.followed, text.range(known.to..until.max(known.to)));
        known.to = until.max(known.to);
        settler.length(&known.followed).map(|length| start + length)
    }
}
