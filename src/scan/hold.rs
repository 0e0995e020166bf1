//! How long a stream waits: from which byte on a match may still be under way.
//!
//! A [`Watch`] is made once for a policy and shared; a [`HoldState`] is what one reading of one stream remembers.
//! Every byte moves what is under way along the position automaton of all patterns (`automaton`): what began at one
//! place moves as one set of positions (`sets`), and sets that became equal go on as one that knows the earliest and the
//! latest place it may have begun at. Text before the earliest start of all sets is settled: no match that begins there
//! can still change. A set that accepts leaves a mark, so that settled text without a mark need not be scanned at all.
//! Only a value is ever masked: a set also knows the earliest place its value may have begun at, and what stands before
//! a value need not wait.
//!
//! The automaton accepts more than the patterns do, so waiting is never too short; it ends at the latest when a
//! pattern's widest match would. Patterns that are only
//! reported are not followed, but for wide ones: what is settled for them lags by their widest match.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::scan::detector::Detector;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;

mod automaton;
mod follow;
mod origin;
mod pairs;
mod part;
mod sets;
mod settle;

use automaton::Automaton;
use automaton::Facts;
use automaton::NARROW;
pub use follow::Scratch;
use origin::Origins;
use origin::Place;
use pairs::Begun;
use part::Row;
use sets::EMPTY;
use sets::Set;
use sets::Table;
pub(super) use settle::Followed;
pub(super) use settle::Settler;
use settle::WIDE_BYTES;

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
    groups: Vec<Group>,
    /// The last byte, if matches may begin with it that are in no group yet.
    fresh: Option<Fresh>,
    /// Bytes taken so far.
    now: u64,
    after_word: bool,
    origins: Origins,
    /// Places of the text at multiples of [`follow::EXPIRY_INTERVAL`], as far back as a group goes.
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

#[derive(Debug)]
struct Watched {
    detector: DetectorId,
    settler: Option<Settler>,
}

/// What is under way and has begun at the same places.
#[derive(Clone, Debug)]
struct Group {
    set: Arc<Set>,
    /// The table that has a number for the set, and the number.
    number: (u64, u32),
    since: Since,
}

/// Where something began that is under way.
#[derive(Clone, Copy, Debug)]
struct Since {
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

/// Says that no table has a number for a set.
const UNNUMBERED: (u64, u32) = (u64::MAX, EMPTY);

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
            let settler = is_wide.then(|| Settler::new(&detector.pattern));
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

    /// Tells whether a detector with a wide pattern has positions in a set.
    fn has_wide(&self, set: &Set, detector: DetectorId) -> bool {
        set.wide.iter().any(|pattern| self.patterns[*pattern as usize].detector == detector)
    }

    /// Lends room for following.
    pub(super) fn scratch(&self) -> Scratch {
        let idle = self.idle.lock().pop();
        idle.unwrap_or_else(|| Scratch::of(Table::new()))
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
    /// Returns where the earliest match of a track begins that may be under way.
    pub fn held_from(&self, watch: &Watch, track: Track) -> Option<usize> {
        let of_track = self.groups.iter().filter(|group| group.set.tracks[track.index()]);
        let followed = of_track.map(|group| group.since.first.source).min();
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
    pub fn value_from(&self, track: Track) -> Option<usize> {
        let of_track = self.groups.iter().filter(|group| group.set.tracks[track.index()]);
        let values = of_track.filter(|group| group.set.has_value).map(|group| group.since.value);
        let fresh = self.fresh.filter(|it| it.begun.values(track)).map(|it| it.place.source);
        values.chain(fresh).min()
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
        let of_detector = self.groups.iter().filter(|group| watch.has_wide(&group.set, detector));
        of_detector.map(|group| group.since.first.source).min()
    }

    /// Forgets what a detector with a wide pattern has under way that began before `end`: a match ends there.
    pub(super) fn settle(&mut self, watch: &Watch, detector: DetectorId, end: usize) {
        let groups = std::mem::take(&mut self.groups);
        for group in groups {
            if !watch.has_wide(&group.set, detector) {
                self.groups.push(group);
                continue;
            }
            let Since { mut first, last, mut value } = group.since;
            let has_value = group.set.has_value;
            let (own, others): (Vec<u32>, Vec<u32>) =
                group.set.positions.iter().partition(|at| watch.wide(**at) == Some(detector));
            if first.source < end {
                first = Place { source: end.min(last.source), ..first };
                value = value.max(first.source);
            }
            let kept = if last.source >= end { own } else { Vec::new() };
            for (positions, since) in [(others, group.since), (kept, Since { first, last, value })] {
                if !positions.is_empty() {
                    let set = Arc::new(Set::new(&watch.automaton, positions, has_value));
                    self.groups.push(Group { set, number: UNNUMBERED, since });
                }
            }
        }
    }

    /// Tells whether what follows means the same to both.
    pub(super) fn agrees_with(&self, other: &Self, watch: &Watch) -> bool {
        let is_idle = |it: &Self| it.groups.is_empty() && it.fresh.is_none();
        is_idle(self)
            && is_idle(other)
            && self.after_word == other.after_word
            && [self, other]
                .into_iter()
                .all(|state| state.origins.is_straight(state.now, watch.unfollowed_bytes_max))
    }
}

impl Mark {
    /// Returns what is left of the mark from an offset on; it may then end before it begins.
    pub(super) fn from(self, start: usize) -> Self {
        Self { first: self.first.max(start), last: self.last, value: self.value.max(start) }
    }

    /// Returns the mark, with no value before an offset any more.
    pub(super) fn with_value(self, value: usize) -> Self {
        Self { value: value.max(self.value), ..self }
    }

    /// Returns the mark that covers both.
    pub(super) fn with(self, other: Self) -> Self {
        let Self { first, last, value } = self;
        Self { first: first.min(other.first), last: last.max(other.last), value: value.min(other.value) }
    }
}

#[cfg(test)]
mod tests;
