//! Moving what is under way along the bytes of a reading.
//!
//! While bytes are taken the sets go by their numbers in the [`Table`] of the [`Scratch`]; between two pieces of a text
//! each stands for itself, so that any other scratch will do for the next one.

use std::sync::Arc;

use super::Fresh;
use super::Group;
use super::HoldState;
use super::Mark;
use super::NO_VALUE;
use super::Since;
use super::Watch;
use super::automaton::is_word;
use super::origin::Place;
use super::sets::EMPTY;
use super::sets::Ends;
use super::sets::Set;
use super::sets::Step;
use super::sets::Table;
use super::settle::Settler;
use super::settle::WIDE_BYTES;

/// Every so many bytes what is too old is sorted out.
pub(super) const EXPIRY_INTERVAL: u64 = 64;

/// How far back the sources of steps are asked for: a match that is not wide.
const ORIGINS_KEPT: u64 = WIDE_BYTES as u64 + 2;

/// Room for following, reused; and what following has found out of the automaton.
#[derive(Debug)]
pub struct Scratch {
    table: Table,
    /// What is under way, and what will be behind the byte in hand.
    live: Vec<Live>,
    next: Vec<Live>,
    /// By number of a set: its place in `next`, if that place names the set.
    slots: Vec<u32>,
}

/// The same, while it moves: its set by number.
#[derive(Clone, Copy, Debug)]
struct Live {
    set: u32,
    since: Since,
}

impl HoldState {
    /// Takes bytes of the reading; `source` says where in the text each of them comes from.
    pub fn follow(
        &mut self,
        watch: &Watch,
        scratch: &mut Scratch,
        bytes: &[u8],
        source: impl Fn(usize) -> usize,
    ) {
        self.enter(scratch);
        for (at, byte) in bytes.iter().enumerate() {
            self.step(watch, scratch, *byte, source(at));
        }
        self.leave(scratch);
    }

    /// Gives the sets of what is under way numbers.
    fn enter(&mut self, scratch: &mut Scratch) {
        if scratch.table.is_full() {
            scratch.table.forget();
        }
        scratch.live.clear();
        for Group { set, number, since } in self.groups.drain(..) {
            let set = match number {
                (name, known) if name == scratch.table.name() => known,
                _ => scratch.table.number(set),
            };
            scratch.live.push(Live { set, since });
        }
    }

    /// Takes over what is under way.
    fn leave(&mut self, scratch: &Scratch) {
        let Scratch { table, live, .. } = scratch;
        let group = |Live { set, since }: &Live| Group {
            set: Arc::clone(table.set(*set)),
            number: (table.name(), *set),
            since: *since,
        };
        self.groups.extend(live.iter().map(group));
    }

    fn step(&mut self, watch: &Watch, scratch: &mut Scratch, byte: u8, source: usize) {
        let automaton = &watch.automaton;
        let word = is_word(byte);
        let boundary = word != self.after_word;
        self.after_word = word;
        let place = Place { step: self.now, source };
        self.origins.push(place, ORIGINS_KEPT);
        scratch.next.clear();
        for at in 0..scratch.live.len() {
            let Live { set, since } = scratch.live[at];
            let step = scratch.table.step(automaton, set, byte);
            self.arrive(watch, scratch, step, since, source);
        }
        if let Some(Fresh { byte: first, boundary, place: begun, .. }) = self.fresh {
            let [valued, rest] = scratch.table.pairs(automaton, (first, boundary), byte);
            let since = |value| Since { first: begun, last: begun, value };
            self.arrive(watch, scratch, valued, since(begun.source), source);
            self.arrive(watch, scratch, rest, since(NO_VALUE), source);
        }
        let begun = automaton.begun(byte, boundary);
        self.fresh = begun.map(|begun| Fresh { byte, boundary, place, begun });
        let step = scratch.table.starts(automaton, byte, boundary);
        self.arrive(watch, scratch, step, Since { first: place, last: place, value: NO_VALUE }, source);
        std::mem::swap(&mut scratch.live, &mut scratch.next);
        self.now += 1;
        if self.now.is_multiple_of(EXPIRY_INTERVAL) {
            self.expire(watch, scratch, source);
            if scratch.table.is_full() {
                self.leave(scratch);
                self.enter(scratch);
            }
        }
    }

    /// Adds what a byte led to, and marks the matches that may have ended with it.
    fn arrive(&mut self, watch: &Watch, scratch: &mut Scratch, step: Step, since: Since, source: usize) {
        let valued = Since { value: since.value.min(source), ..since };
        if let Some(ends) = scratch.table.ends(step) {
            self.note(watch, ends, [since, valued]);
        }
        scratch.add(Live { set: step.before, since });
        scratch.add(Live { set: step.value, since: valued });
    }

    /// Marks the matches that may have ended: of those without a value and of those with one where they began.
    fn note(&mut self, watch: &Watch, ends: &Ends, since: [Since; 2]) {
        for (mark, by_value) in self.marks.iter_mut().zip(ends.tracks) {
            for (Since { first, last, value }, _) in since.into_iter().zip(by_value).filter(|(_, ends)| *ends)
            {
                let fresh = Mark { first: first.source, last: last.source, value };
                *mark = Some(mark.map_or(fresh, |known| known.with(fresh)));
            }
        }
        for pattern in &ends.wide {
            let settler = watch.patterns.get(*pattern as usize).and_then(|it| it.settler.as_ref());
            if settler.is_some_and(Settler::is_able) && !self.wide.contains(pattern) {
                self.wide.push(*pattern);
            }
        }
    }

    /// Drops what would be too wide a match by now, and moves up what only in part would.
    fn expire(&mut self, watch: &Watch, scratch: &mut Scratch, source: usize) {
        let Some(oldest) = scratch.live.iter().map(|live| live.since.first.step).min() else {
            self.trail.clear();
            return;
        };
        self.trail.push_back(Place { step: self.now - 1, source });
        while self.trail.get(1).is_some_and(|place| place.step <= oldest) {
            self.trail.pop_front();
        }
        scratch.next.clear();
        for at in 0..scratch.live.len() {
            let live = scratch.live[at];
            let set = Arc::clone(scratch.table.set(live.set));
            if live.since.first.step >= self.earliest(set.reach) {
                scratch.add(live);
                continue;
            }
            let mut parts: Vec<(Since, Vec<u32>)> = Vec::new();
            for at in &set.positions {
                let Some(since) = self.young(live.since, watch.automaton.position(*at).reach) else {
                    continue;
                };
                match parts.iter_mut().find(|(known, _)| known.first.step == since.first.step) {
                    Some((_, part)) => part.push(*at),
                    None => parts.push((since, vec![*at])),
                }
            }
            for (since, positions) in parts {
                let part = Set::new(&watch.automaton, positions, set.has_value);
                let set = scratch.table.number(Arc::new(part));
                scratch.add(Live { set, since });
            }
        }
        std::mem::swap(&mut scratch.live, &mut scratch.next);
    }

    /// Returns the earliest step that a match with such a reach may have begun with.
    fn earliest(&self, reach: u32) -> u64 {
        self.now.saturating_sub(u64::from(reach))
    }

    /// Returns where of what began then matches with such a reach may still have begun, if anywhere.
    fn young(&self, since: Since, reach: u32) -> Option<Since> {
        let earliest = self.earliest(reach);
        if since.last.step < earliest {
            return None;
        }
        let after = self.trail.partition_point(|place| place.step <= earliest);
        let known = after.checked_sub(1).and_then(|at| self.trail.get(at));
        Some(match known.filter(|place| place.step > since.first.step) {
            Some(place) => Since { first: *place, value: since.value.max(place.source), ..since },
            None => since,
        })
    }
}

impl Scratch {
    /// Makes room with a table.
    pub(super) fn of(table: Table) -> Self {
        Self { table, live: Vec::new(), next: Vec::new(), slots: Vec::new() }
    }

    /// Adds what is under way, or joins it with an equal set that is already there.
    fn add(&mut self, live: Live) {
        if live.set == EMPTY {
            return;
        }
        let number = live.set as usize;
        if number >= self.slots.len() {
            self.slots.resize(self.table.len(), 0);
        }
        let slot = &mut self.slots[number];
        match self.next.get_mut(*slot as usize) {
            Some(known) if known.set == live.set => known.since = known.since.with(live.since),
            _ => {
                *slot = self.next.len() as u32;
                self.next.push(live);
            }
        }
    }
}

impl Since {
    /// Returns what covers both.
    fn with(self, other: Self) -> Self {
        let first = if other.first.step < self.first.step { other.first } else { self.first };
        let last = if other.last.step > self.last.step { other.last } else { self.last };
        Self { first, last, value: self.value.min(other.value) }
    }
}
