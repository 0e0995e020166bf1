//! How long a stream waits: from which byte on a match may still be under way.
//!
//! A [`Watch`] is made once for a policy and shared; a [`HoldState`] is what one reading of one stream remembers.
//! Every byte moves the live threads along the position automaton of all patterns (`automaton`); a thread knows the
//! earliest and the latest place it may have begun at. Text before the earliest start of all threads is settled: no
//! match that begins there can still change. A thread that accepts leaves a mark, so that settled text without a mark
//! need not be scanned at all. Only a value is ever masked: a thread also knows the earliest place its value may have
//! begun at, and what stands before a value need not wait.
//!
//! The automaton accepts more than the patterns do, so waiting is never too short; it ends at the latest when a
//! pattern's widest match would. Patterns that are only
//! reported are not followed, but for wide ones: what is settled for them lags by their widest match.

use std::collections::VecDeque;

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::scan::detector::Detector;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;

mod automaton;
mod origin;
mod pairs;
mod part;
mod settle;

use automaton::Automaton;
use automaton::Facts;
use automaton::NARROW;
use automaton::is_word;
use origin::Origins;
use origin::Place;
use pairs::Begun;
use part::Row;
pub(super) use settle::Followed;
pub(super) use settle::Settler;
use settle::WIDE_BYTES;

/// Every so many bytes threads that are too old are sorted out.
const EXPIRY_INTERVAL: u64 = 64;

/// How far back the sources of steps are asked for: a match that is not wide.
const ORIGINS_KEPT: u64 = WIDE_BYTES as u64 + 2;

/// How many workspaces are kept.
const SCRATCH_MAX: usize = 64;

/// The detectors of a policy, ready to be watched for.
#[derive(Debug)]
pub struct Watch {
    automaton: Automaton,
    patterns: Vec<Watched>,
    /// The widest match of reported patterns that are not followed.
    unfollowed_bytes_max: u64,
    enforced: DetectorSet,
    reported: DetectorSet,
    idle: Mutex<Vec<Scratch>>,
}

/// What one text has under way.
#[derive(Clone, Debug, Default)]
pub struct HoldState {
    threads: Vec<Thread>,
    /// The last byte, if matches may begin with it of which there are no threads yet.
    fresh: Option<Fresh>,
    /// Bytes taken so far.
    now: u64,
    after_word: bool,
    origins: Origins,
    /// Places of the text at multiples of [`EXPIRY_INTERVAL`], as far back as a thread goes.
    trail: VecDeque<Place>,
    /// Where matches may have been completed, by track.
    marks: [Option<Mark>; 2],
    /// Wide patterns that may have been completed since last asked.
    wide: SmallVec<[u32; 2]>,
}

/// What a policy does about the findings of a detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track {
    /// They change what leaves, so text waits for them.
    Enforced,
    /// They are only told.
    Reported,
}

/// Where matches that may have been completed begin, in source bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The earliest start.
    pub first: usize,
    /// The latest start.
    pub last: usize,
    /// The earliest start of a value.
    pub value: usize,
}

/// Room for one step, reused.
#[derive(Debug)]
pub struct Scratch {
    /// By position: its place in `next`, if that place names the position.
    slots: Vec<u32>,
    next: Vec<Thread>,
}

#[derive(Debug)]
struct Watched {
    detector: DetectorId,
    settler: Option<Settler>,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    position: u32,
    first: Place,
    last: Place,
    /// The earliest start of its value in source bytes, or [`NO_VALUE`].
    value: usize,
}

/// A byte that matches may begin with.
#[derive(Clone, Copy, Debug)]
struct Fresh {
    byte: u8,
    /// Whether it stands at the boundary of a word.
    boundary: bool,
    place: Place,
    begun: Begun,
}

/// Says that no value has begun.
const NO_VALUE: usize = usize::MAX;

impl Watch {
    /// Prepares to watch for `wanted`; text waits for those that are `enforced`.
    ///
    /// `detectors` are those of the scanner, in the order of their ids.
    pub fn compile(detectors: &[Detector], enforced: &DetectorSet, wanted: &DetectorSet) -> Self {
        let mut builder = automaton::Builder::default();
        let (mut patterns, mut unfollowed_bytes_max) = (Vec::new(), 0);
        let mut reported = DetectorSet::default();
        for (at, detector) in detectors.iter().enumerate() {
            let id = DetectorId(at as u16);
            let track = match (enforced.contains(id), wanted.contains(id)) {
                (true, _) => Track::Enforced,
                (false, true) => Track::Reported,
                (false, false) => continue,
            };
            if track == Track::Reported {
                reported.insert(id);
            }
            let width = detector.pattern.width_max();
            let is_wide = width >= WIDE_BYTES;
            if track == Track::Reported && !is_wide {
                // Nothing waits for it: what is old enough is looked at in one go, which is cheaper than following.
                unfollowed_bytes_max = unfollowed_bytes_max.max(width as u64 + 1);
                continue;
            }
            let hir = detector.pattern.hir();
            let settler = is_wide.then(|| Settler::new(&hir));
            let wide = if settler.is_some() { patterns.len() as u32 } else { NARROW };
            let reach = u32::try_from(width).map_or(u32::MAX, |width| width.saturating_add(1));
            builder.add(Row::of(&hir), Facts { track, reach, wide });
            patterns.push(Watched { detector: id, settler });
        }
        let enforced = enforced.clone();
        let automaton = builder.finish();
        Self { automaton, patterns, unfollowed_bytes_max, enforced, reported, idle: Mutex::new(Vec::new()) }
    }

    /// Returns the detectors of a track.
    pub fn detectors(&self, track: Track) -> &DetectorSet {
        match track {
            Track::Enforced => &self.enforced,
            Track::Reported => &self.reported,
        }
    }

    /// Tells whether matches of a track may be complete that leave no mark: those of patterns that are not followed.
    pub(super) fn is_blind(&self, track: Track) -> bool {
        track == Track::Reported && self.unfollowed_bytes_max > 0
    }

    /// Returns the length of a match that `text` begins with, behind `before`, if whatever follows cannot change it.
    ///
    /// Only answered for detectors with wide patterns.
    pub(super) fn settled_length(
        &self,
        detector: DetectorId,
        before: Option<u8>,
        text: &[u8],
    ) -> Option<usize> {
        let settler = self.settler(detector)?;
        let mut followed = settler.begin(before)?;
        settler.follow(&mut followed, text);
        settler.length(&followed)
    }

    /// Returns what follows the matches of a detector with a wide pattern.
    pub(super) fn settler(&self, detector: DetectorId) -> Option<&Settler> {
        let watched = self.patterns.iter().find(|watched| watched.detector == detector)?;
        watched.settler.as_ref()
    }

    /// Returns the detector of a position, if its pattern is wide.
    fn wide(&self, position: u32) -> Option<DetectorId> {
        self.patterns.get(self.automaton.position(position).wide as usize).map(|watched| watched.detector)
    }

    /// Lends room for steps.
    pub(super) fn scratch(&self) -> Scratch {
        let idle = self.idle.lock().pop();
        idle.unwrap_or_else(|| Scratch { slots: vec![0; self.automaton.len()], next: Vec::new() })
    }

    /// Takes the room back.
    pub(super) fn give_back(&self, scratch: Scratch) {
        let mut idle = self.idle.lock();
        if idle.len() < SCRATCH_MAX {
            idle.push(scratch);
        }
    }
}

impl Track {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Enforced, Self::Reported];

    /// Returns the track's place in [`Track::ALL`].
    pub(super) fn index(self) -> usize {
        usize::from(self == Self::Reported)
    }
}

impl HoldState {
    /// Takes a byte of the reading that comes from `source`.
    pub fn step(&mut self, watch: &Watch, scratch: &mut Scratch, byte: u8, source: usize) {
        let word = is_word(byte);
        let boundary = word != self.after_word;
        self.after_word = word;
        let place = Place { step: self.now, source };
        self.origins.push(place, ORIGINS_KEPT);
        scratch.next.clear();
        let mut ends = false;
        for thread in &self.threads {
            for to in watch.automaton.follow(thread.position, byte) {
                let position = watch.automaton.position(to);
                ends |= position.accepts;
                let value = if position.in_value { thread.value.min(source) } else { thread.value };
                scratch.enter(Thread { position: to, value, ..*thread });
            }
        }
        if let Some(Fresh { byte: first, boundary, place, .. }) = self.fresh {
            for (to, in_value) in watch.automaton.pairs((first, boundary), byte) {
                let position = watch.automaton.position(to);
                ends |= position.accepts;
                let value = match (in_value, position.in_value) {
                    (true, _) => place.source,
                    (false, true) => source,
                    (false, false) => NO_VALUE,
                };
                scratch.enter(Thread { position: to, first: place, last: place, value });
            }
        }
        let begun = watch.automaton.begun(byte, boundary);
        self.fresh = begun.map(|begun| Fresh { byte, boundary, place, begun });
        for to in watch.automaton.starts(byte, boundary) {
            let position = watch.automaton.position(to);
            ends |= position.accepts;
            let value = if position.in_value { source } else { NO_VALUE };
            scratch.enter(Thread { position: to, first: place, last: place, value });
        }
        self.now += 1;
        std::mem::swap(&mut self.threads, &mut scratch.next);
        if ends {
            self.note_ends(watch);
        }
        if self.now.is_multiple_of(EXPIRY_INTERVAL) {
            self.expire(watch, source);
        }
    }

    /// Returns where the earliest match of a track begins that may be under way.
    pub fn held_from(&self, watch: &Watch, track: Track) -> Option<usize> {
        let of_track = |thread: &&Thread| watch.automaton.position(thread.position).track == track;
        let followed = self.threads.iter().filter(of_track).map(|thread| thread.first.source).min();
        let fresh = self.fresh.filter(|it| it.begun.matches(track)).map(|it| it.place.source);
        followed.into_iter().chain(fresh).chain(self.unfollowed_from(watch, track)).min()
    }

    /// Returns where the earliest match of a track begins that may be under way and is not followed.
    fn unfollowed_from(&self, watch: &Watch, track: Track) -> Option<usize> {
        let from = self.now.saturating_sub(watch.unfollowed_bytes_max);
        (watch.is_blind(track) && from < self.now).then(|| self.origins.source(from))
    }

    /// Returns where the earliest match of an enforced detector begins that may be under way.
    pub fn enforced_from(&self, watch: &Watch) -> Option<usize> {
        self.held_from(watch, Track::Enforced)
    }

    /// Returns where the earliest match of any detector begins that may be under way.
    pub fn wanted_from(&self, watch: &Watch) -> Option<usize> {
        Track::ALL.into_iter().filter_map(|track| self.held_from(watch, track)).min()
    }

    /// Returns where the earliest value of a track begins that may be under way.
    pub fn value_from(&self, watch: &Watch, track: Track) -> Option<usize> {
        let of_track = |thread: &&Thread| watch.automaton.position(thread.position).track == track;
        let values = self.threads.iter().filter(of_track).map(|thread| thread.value);
        let fresh = self.fresh.filter(|it| it.begun.values(track)).map(|it| it.place.source);
        values.filter(|value| *value != NO_VALUE).chain(fresh).min()
    }

    /// Takes the mark that completed matches of a track have left.
    pub(super) fn take_mark(&mut self, track: Track) -> Option<Mark> {
        self.marks[track.index()].take()
    }

    /// Takes the detectors with wide patterns of which a match may have been completed.
    pub(super) fn take_wide(&mut self, watch: &Watch) -> SmallVec<[DetectorId; 2]> {
        self.wide.drain(..).map(|pattern| watch.patterns[pattern as usize].detector).collect()
    }

    /// Returns where the earliest match of one detector with a wide pattern begins that may be under way.
    pub(super) fn detector_from(&self, watch: &Watch, detector: DetectorId) -> Option<usize> {
        let of_detector = |thread: &&Thread| watch.wide(thread.position) == Some(detector);
        self.threads.iter().filter(of_detector).map(|thread| thread.first.source).min()
    }

    /// Forgets what a detector with a wide pattern has under way that began before `end`: a match ends there.
    pub(super) fn settle(&mut self, watch: &Watch, detector: DetectorId, end: usize) {
        self.threads.retain_mut(|thread| {
            if watch.wide(thread.position) != Some(detector) {
                return true;
            }
            if thread.first.source < end {
                thread.first = Place { source: end.min(thread.last.source), ..thread.first };
                thread.value = thread.value.max(thread.first.source);
            }
            thread.last.source >= end
        });
    }

    /// Tells whether what follows means the same to both.
    pub(super) fn agrees_with(&self, other: &Self, watch: &Watch) -> bool {
        let is_idle = |it: &Self| it.threads.is_empty() && it.fresh.is_none();
        is_idle(self)
            && is_idle(other)
            && self.after_word == other.after_word
            && [self, other]
                .into_iter()
                .all(|state| state.origins.is_straight(state.now, watch.unfollowed_bytes_max))
    }

    /// Marks the matches that may end here and drops threads that cannot go on.
    fn note_ends(&mut self, watch: &Watch) {
        let (marks, wide) = (&mut self.marks, &mut self.wide);
        self.threads.retain(|thread| {
            let position = watch.automaton.position(thread.position);
            if position.accepts {
                let (first, last) = (thread.first.source, thread.last.source);
                let mark = Mark { first, last, value: thread.value };
                let slot = &mut marks[position.track.index()];
                *slot = Some(slot.map_or(mark, |known| known.with(mark)));
                let settler = watch.patterns.get(position.wide as usize).and_then(|it| it.settler.as_ref());
                if settler.is_some_and(Settler::is_able) && !wide.contains(&position.wide) {
                    wide.push(position.wide);
                }
            }
            !position.last
        });
    }

    /// Drops threads whose matches would be too wide by now, and moves up those of which only some would.
    fn expire(&mut self, watch: &Watch, source: usize) {
        let Some(oldest) = self.threads.iter().map(|thread| thread.first.step).min() else {
            self.trail.clear();
            return;
        };
        let now = self.now;
        self.trail.push_back(Place { step: now - 1, source });
        while self.trail.get(1).is_some_and(|place| place.step <= oldest) {
            self.trail.pop_front();
        }
        let mut threads = std::mem::take(&mut self.threads);
        threads.retain_mut(|thread| {
            let position = watch.automaton.position(thread.position);
            let earliest = now.saturating_sub(u64::from(position.reach));
            if thread.first.step < earliest {
                let after = self.trail.partition_point(|place| place.step <= earliest);
                let known = after.checked_sub(1).and_then(|at| self.trail.get(at));
                if let Some(place) = known.filter(|place| place.step > thread.first.step) {
                    thread.first = *place;
                    thread.value = thread.value.max(place.source);
                }
            }
            thread.last.step >= earliest
        });
        self.threads = threads;
    }
}

impl Mark {
    /// Returns what is left of the mark from an offset on; it may then end before it begins.
    pub(super) fn from(self, start: usize) -> Self {
        Self { first: self.first.max(start), last: self.last, value: self.value.max(start) }
    }

    /// Returns the mark that covers both.
    pub(super) fn with(self, other: Self) -> Self {
        let Self { first, last, value } = self;
        Self { first: first.min(other.first), last: last.max(other.last), value: value.min(other.value) }
    }
}

impl Scratch {
    /// Adds a thread, or joins it with the one that is already there.
    fn enter(&mut self, thread: Thread) {
        let slot = &mut self.slots[thread.position as usize];
        match self.next.get_mut(*slot as usize) {
            Some(known) if known.position == thread.position => {
                if thread.first.step < known.first.step {
                    known.first = thread.first;
                }
                if thread.last.step > known.last.step {
                    known.last = thread.last;
                }
                known.value = known.value.min(thread.value);
            }
            _ => {
                *slot = self.next.len() as u32;
                self.next.push(thread);
            }
        }
    }
}

#[cfg(test)]
mod tests;
