//! One text of a stream, judged while it arrives.
//!
//! Pieces of text come in, cut anywhere; out come the findings and the offset before which everything may leave. Both
//! depend on the text alone. The lane follows the text as it stands and, while the two differ, as its reader takes
//! it; text is settled where nothing is under way in either, and settled text that could hold a match is scanned by
//! the same scanner as a whole text. A finding is told once nothing that overlaps it can still change. Only values are
//! ever masked, so text before the first value that may be under way leaves although its match is not judged.
//!
//! It never lets a byte of an enforced value go before the finding is told. It does not promise that text of detectors
//! that are only reported is told soon.

use std::ops::Range;

use smallvec::SmallVec;

use crate::scan::decode::Passed;
use crate::scan::decode::RunTracker;
use crate::scan::hold::HoldState;
use crate::scan::hold::Mark;
use crate::scan::hold::Scratch;
use crate::scan::hold::Track;
use crate::scan::hold::Watch;
use crate::scan::scanner::LOOKBACK_BYTES;
use crate::scan::scanner::ScanFault;
use crate::scan::scanner::Scanner;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Finding;
use crate::scan::view;
use crate::scan::view::Canonicaliser;
use crate::scan::view::Piece;

mod buffer;
mod cluster;
mod early;
mod over;

use buffer::Buffer;
use cluster::Settled;
use early::Early;
use over::Over;

/// How many bytes of one text may wait to be judged.
pub const STREAM_HOLD_BYTES_MAX: usize = 256 << 10;

/// How much settled text is looked through at once for what is only reported.
const REPORT_BYTES: usize = 1 << 10;

/// One text of a stream.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    text: Buffer,
    reader: Canonicaliser,
    raw: Reading,
    /// Only while it differs from `raw`.
    canonical: Option<Box<Reading>>,
    noted: Noted,
    over: Over,
    tracks: [Progress; 2],
    early: Early,
    /// Up to where text may have left: every value that is told later begins behind it.
    free_to: usize,
}

/// What a step of a lane brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneAdvance {
    /// All bytes of the lane before this one may leave, once findings are masked; never within a UTF-8 character.
    pub judged_to: usize,
    /// The findings that became final, in offsets of the lane.
    pub findings: Vec<Finding>,
}

/// Why a lane cannot go on; nothing more of its text may be vouched for.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// More than [`STREAM_HOLD_BYTES_MAX`] wait.
    #[error("more than {STREAM_HOLD_BYTES_MAX} bytes wait to be judged")]
    HeldTooMuch,
    /// Settled text could not be scanned.
    #[error(transparent)]
    Scan(#[from] ScanFault),
}

/// One way to read the text.
#[derive(Clone, Debug, Default)]
struct Reading {
    hold: HoldState,
    runs: RunTracker,
}

/// What the readings passed by.
#[derive(Clone, Debug, Default)]
struct Noted {
    /// Encoded runs, within which no region may begin.
    runs: Vec<Range<usize>>,
    marks: [Option<Mark>; 2],
    /// Wide patterns that may have been completed, and the end of the text when they were.
    wide: SmallVec<[(DetectorId, usize); 2]>,
}

/// How far a track is.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    judged_to: usize,
    /// Where the findings end that begin at `judged_to` and are not final.
    waits_for: usize,
}

impl Lane {
    /// Begins an empty text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece of the text and judges what it settles.
    ///
    /// # Errors
    /// The text cannot be judged further; see [`LaneError`].
    pub fn feed(&mut self, scanner: &Scanner, watch: &Watch, text: &[u8]) -> Result<LaneAdvance, LaneError> {
        self.text.trim(self.needed_from(watch));
        self.text.bytes.extend_from_slice(text);
        let mut reader = std::mem::take(&mut self.reader);
        self.follow(watch, |emit| reader.push(text, &mut |piece| emit(piece)));
        self.reader = reader;
        self.settle_wide(scanner, watch)?;
        let advance = self.judge(scanner, watch, false)?;
        match Track::ALL.into_iter().all(|track| self.waiting(watch, track) <= STREAM_HOLD_BYTES_MAX) {
            true => Ok(advance),
            false => Err(LaneError::HeldTooMuch),
        }
    }

    /// Ends the text and judges the rest of it.
    ///
    /// # Errors
    /// The text cannot be judged further; see [`LaneError`].
    pub fn finish(&mut self, scanner: &Scanner, watch: &Watch) -> Result<LaneAdvance, LaneError> {
        let mut reader = std::mem::take(&mut self.reader);
        self.follow(watch, |emit| reader.finish(&mut |piece| emit(piece)));
        let end = self.text.end();
        let readings = [Some(&mut self.raw), self.canonical.as_deref_mut()];
        for reading in readings.into_iter().flatten() {
            if let Some(passed) = reading.runs.finish() {
                self.noted.run(passed, end);
            }
        }
        self.judge(scanner, watch, true)
    }

    /// Returns bytes of the lane that are still kept; those of a new finding are.
    pub fn value(&self, range: &Range<usize>) -> Option<&[u8]> {
        let from = range.start.checked_sub(self.text.base)?;
        self.text.bytes.get(from..range.end.checked_sub(self.text.base)?)
    }

    /// Moves both readings along the pieces that `read` hands out.
    fn follow(&mut self, watch: &Watch, read: impl FnOnce(&mut dyn FnMut(Piece<'_>))) {
        let mut scratch = watch.scratch();
        let Self { text, raw, canonical, noted, .. } = self;
        read(&mut |piece| {
            if piece.changed && canonical.is_none() {
                *canonical = Some(Box::new(raw.clone()));
            }
            let source = text.range(piece.source..piece.source + piece.taken);
            raw.read(watch, &mut scratch, noted, source, |at| piece.source + at);
            if let Some(reading) = canonical {
                match piece.changed {
                    true => reading.read(watch, &mut scratch, noted, piece.bytes, |_| piece.source),
                    false => reading.read(watch, &mut scratch, noted, piece.bytes, |at| piece.source + at),
                }
                if raw.agrees_with(reading, watch) {
                    noted.take(watch, reading, piece.source + piece.taken);
                    *canonical = None;
                }
            }
        });
        watch.give_back(scratch);
        let end = text.end();
        noted.take(watch, raw, end);
        if let Some(reading) = canonical {
            noted.take(watch, reading, end);
        }
    }

    /// Lets go of wide patterns whose match is over although they could go on.
    fn settle_wide(&mut self, scanner: &Scanner, watch: &Watch) -> Result<(), LaneError> {
        let end = self.text.end();
        // What may be the begin of an escape is not read yet, and may end a match.
        let is_read = self.reader.pending_from().is_none();
        for (detector, seen) in std::mem::take(&mut self.noted.wide) {
            if !self.settle(scanner, watch, detector)? && (seen == end || !is_read) {
                self.noted.wide.push((detector, seen));
            }
        }
        Ok(())
    }

    /// Lets go of one wide pattern if its earliest match is over; true if so.
    fn settle(&mut self, scanner: &Scanner, watch: &Watch, detector: DetectorId) -> Result<bool, LaneError> {
        let readings = [Some(&self.raw), self.canonical.as_deref()];
        let starts = readings.into_iter().flatten().filter_map(|it| it.hold.detector_from(watch, detector));
        let Some(start) = starts.min() else { return Ok(true) };
        // Where nothing was escaped yet, the raw reading is the canonical one as well.
        let until = self.reader.pending_from().unwrap_or(self.text.end());
        let mut raw_end = None;
        if self.raw.hold.detector_from(watch, detector).is_some() {
            raw_end = self.over.end(watch, (detector, start), &self.text, until);
            // While it may go on there is nothing to look for.
            if raw_end.is_none() {
                return Ok(false);
            }
        }
        let track = if watch.detectors(Track::Enforced).contains(detector) {
            Track::Enforced
        } else {
            Track::Reported
        };
        let judged_to = self.tracks[track.index()].judged_to.min(start);
        let only: DetectorSet = [detector].into_iter().collect();
        let found = self.text.scan(scanner, judged_to..start + 1, &only)?;
        let Some(found) = found.into_iter().find(|finding| finding.span.start == start) else {
            return Ok(false);
        };
        let mut settled = true;
        if let Some(end) = raw_end {
            match end == found.span.end {
                true => self.raw.hold.settle(watch, detector, end),
                false => settled = false,
            }
        }
        if let Some(reading) = self.canonical.as_deref_mut() {
            let text = self.text.range(start..until);
            let view = view::canonical(text);
            let shown = view.as_ref().map_or(text, |view| view.bytes());
            let end = watch.settled_length(detector, None, shown);
            let end = end.map(|end| start + view.as_ref().map_or(end, |view| view.source_range(0..end).end));
            match end == Some(found.span.end) {
                true => reading.hold.settle(watch, detector, found.span.end),
                false => settled = false,
            }
        }
        Ok(settled)
    }

    /// Judges both tracks as far as the text is settled.
    fn judge(&mut self, scanner: &Scanner, watch: &Watch, finished: bool) -> Result<LaneAdvance, LaneError> {
        let mut findings = Vec::new();
        for track in Track::ALL {
            if !watch.detectors(track).is_empty() {
                let settled = if finished { self.text.end() } else { self.settled_to(watch, track) };
                let is_early = settled < self.tracks[track.index()].judged_to + REPORT_BYTES;
                if finished || !is_early || !watch.is_blind(track) {
                    self.judge_track(scanner, watch, track, settled, &mut findings)?;
                }
            }
        }
        if !finished {
            self.judge_early(scanner, watch, &mut findings)?;
        }
        let waiting =
            Track::ALL.map(|track| self.waiting(watch, track)).into_iter().max().unwrap_or_default();
        let judged_by_all = self.text.end() - waiting;
        if self.noted.runs.first().is_some_and(|run| run.end <= judged_by_all) {
            self.noted.runs.retain(|run| run.end > judged_by_all);
        }
        let judged_to = match watch.detectors(Track::Enforced).is_empty() {
            true => self.text.end(),
            false => self.values_from(finished).max(self.tracks[Track::Enforced.index()].judged_to),
        };
        let judged_to = self.text.character_start(judged_to, finished).max(self.free_to);
        self.free_to = judged_to;
        Ok(LaneAdvance { judged_to, findings })
    }

    fn judge_track(
        &mut self,
        scanner: &Scanner,
        watch: &Watch,
        track: Track,
        settled: usize,
        findings: &mut Vec<Finding>,
    ) -> Result<(), LaneError> {
        let progress = &mut self.tracks[track.index()];
        let mark = &mut self.noted.marks[track.index()];
        if settled <= progress.judged_to {
            return Ok(());
        }
        let settled = cluster::outside(settled, &self.noted.runs);
        if settled <= progress.judged_to || settled < progress.waits_for {
            return Ok(());
        }
        if !watch.is_blind(track) && mark.is_none_or(|mark| mark.first >= settled) {
            progress.judged_to = settled;
            return Ok(());
        }
        let found = self.text.scan(scanner, progress.judged_to..settled, watch.detectors(track))?;
        let Settled { judged_to, waits_for, count } = cluster::settle(&found, settled, &self.noted.runs);
        *progress = Progress { judged_to, waits_for };
        *mark = mark.map(|mark| mark.from(judged_to)).filter(|mark| mark.last >= judged_to);
        if waits_for > judged_to {
            let again = Mark { first: judged_to, last: judged_to, value: judged_to };
            *mark = Some(mark.map_or(again, |mark| mark.with(again)));
        }
        findings.extend(found.into_iter().take(count).filter(|finding| !self.early.has(finding)));
        self.early.forget(judged_to);
        Ok(())
    }

    /// Returns up to where nothing of a track is under way.
    fn settled_to(&self, watch: &Watch, track: Track) -> usize {
        let readings = [Some(&self.raw), self.canonical.as_deref()];
        let held = readings
            .into_iter()
            .flatten()
            .flat_map(|reading| [reading.hold.held_from(watch, track), reading.runs.held_from()]);
        let pending = self.reader.pending_from();
        held.chain([pending]).flatten().min().unwrap_or(self.text.end()).min(self.text.end())
    }

    /// Returns where the earliest value may begin that is under way or not told yet, else the end of the text.
    fn values_from(&self, finished: bool) -> usize {
        let end = self.text.end();
        let told = self.noted.marks[Track::Enforced.index()].map_or(end, |mark| mark.value);
        let under_way = if finished { end } else { self.values_under_way_from() };
        under_way.min(told).min(end)
    }

    /// Returns where the earliest value may begin that is under way, else the end of the text.
    fn values_under_way_from(&self) -> usize {
        let readings = [Some(&self.raw), self.canonical.as_deref()];
        let held = readings
            .into_iter()
            .flatten()
            .flat_map(|reading| [reading.hold.value_from(Track::Enforced), reading.runs.value_from()]);
        let end = self.text.end();
        held.chain([self.reader.pending_from()]).flatten().min().unwrap_or(end).min(end)
    }

    fn waiting(&self, watch: &Watch, track: Track) -> usize {
        match watch.detectors(track).is_empty() {
            true => 0,
            false => self.text.end() - self.tracks[track.index()].judged_to,
        }
    }

    /// Returns where the text begins that is still needed, context included.
    fn needed_from(&self, watch: &Watch) -> usize {
        let waiting =
            Track::ALL.map(|track| self.waiting(watch, track)).into_iter().max().unwrap_or_default();
        (self.text.end() - waiting).saturating_sub(LOOKBACK_BYTES)
    }
}

impl Reading {
    /// Takes bytes; `source` says where in the lane each of them comes from.
    fn read(
        &mut self,
        watch: &Watch,
        scratch: &mut Scratch,
        noted: &mut Noted,
        bytes: &[u8],
        source: impl Fn(usize) -> usize,
    ) {
        self.hold.follow(watch, scratch, bytes, &source);
        for (at, byte) in bytes.iter().enumerate() {
            let source = source(at);
            if let Some(passed) = self.runs.step(*byte, source) {
                noted.run(passed, source);
            }
        }
    }

    fn agrees_with(&self, other: &Self, watch: &Watch) -> bool {
        self.hold.agrees_with(&other.hold, watch) && self.runs.agrees_with(&other.runs)
    }
}

impl Noted {
    /// Notes a run that ends before `end`.
    fn run(&mut self, passed: Passed, end: usize) {
        self.runs.push(passed.start..end);
        if passed.readable {
            let mark = Mark { first: passed.start, last: passed.start, value: passed.value };
            for known in &mut self.marks {
                *known = Some(known.map_or(mark, |known| known.with(mark)));
            }
        }
    }

    /// Takes over what a reading has noted.
    fn take(&mut self, watch: &Watch, reading: &mut Reading, end: usize) {
        for track in Track::ALL {
            if let Some(mark) = reading.hold.take_mark(track) {
                let known = &mut self.marks[track.index()];
                *known = Some(known.map_or(mark, |known| known.with(mark)));
            }
        }
        for detector in reading.hold.take_wide(watch) {
            if !self.wide.iter().any(|(known, _)| *known == detector) {
                self.wide.push((detector, end));
            }
        }
    }
}

#[cfg(test)]
mod tests;
