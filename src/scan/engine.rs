//! The only home of Hyperscan: block databases, their scratch space, and runs of candidate ends.
//!
//! Phrases have a database of their own: words of prose among the beginnings of tokens leave Hyperscan no cheap way
//! through a text, and two passes take a fraction of one. It takes most of the time, and none of its shapes is of a wide
//! match: where only what is near some places may be new, only that is searched for phrases.
//!
//! Only block mode is used, over bytes, without start-of-match and without UTF-8 mode. Scratch space belongs to
//! the engine that allocated it and never meets another database. The match callback only pushes into vectors
//! with a known limit, and touches nothing by unchecked index, so that no panic can cross the C frames.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::resume_unwind;
use std::thread;

use hyperscan::BlockDatabase;
use hyperscan::Builder;
use hyperscan::Matching;
use hyperscan::Pattern;
use hyperscan::PatternFlags;
use hyperscan::Patterns;
use hyperscan::Scratch;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::scan::shape::Shape;
use crate::scan::shape::Start;

mod cache;
mod heads;

pub use cache::DatabaseCache;
pub use cache::DatabaseKey;
pub use cache::NoCache;
use heads::Heads;

/// The longest text that is scanned at once, in bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 30;

/// The runs of candidates any scan may have, however short its text: one long number is a candidate of
/// nearly a hundred detectors, and tables of them are ordinary.
const RUNS_BASE: usize = 1 << 18;
/// How many of them an idle workspace has room for.
const RUNS_KEPT: usize = 1 << 16;

/// How many bytes of a padded text it has room for.
const PADDED_KEPT: usize = 1 << 18;

/// Beyond the base, a scan may have one run of candidates for so many bytes of text.
const BYTES_PER_RUN: usize = 2;

/// How many shapes either database has at least, else there is only one.
///
/// Databases of few literals are searched by another machine of Hyperscan's, which was seen to miss matches in the
/// last bytes of a text (Vectorscan 5.4.9).
const SPLIT_SHAPES_MIN: usize = 200;

/// What such a database reads behind the end of a text, so that the last bytes are none of the last.
const PADDING: [u8; 64] = [0; 64];

/// How many workspaces are kept for later scans.
const WORKSPACES_MAX: usize = 64;

/// Marks a group without a run of candidates yet.
const NO_RUN: u32 = u32::MAX;

/// Databases of first-stage shapes and what is needed to run them.
pub struct Engine {
    databases: Vec<Database>,
    /// Whether texts are padded for the databases: the one there is has few shapes.
    is_small: bool,
    heads: Heads,
    groups: Vec<Group>,
    /// How far behind the begin of a match its candidate ends at most.
    reach: usize,
    idle: Mutex<Vec<Workspace>>,
}

/// Some of the shapes.
struct Database {
    compiled: BlockDatabase,
    /// Whether all of them are phrases.
    is_of_phrases: bool,
    /// How far behind the begin of a match one of their candidates ends at most.
    reach: usize,
}

/// Shapes that say the same; Hyperscan looks for them once.
#[derive(Debug)]
struct Group {
    /// The indexes of the shapes.
    shapes: SmallVec<[u32; 2]>,
    /// The fewest and the most bytes between the begin of a match and an end.
    back: (usize, usize),
    /// How far apart two ends may be to belong to one run.
    gap: usize,
}

/// Ends of equal shapes, close to each other, by their first and last.
///
/// With a known start every end between the two occurred; otherwise neighbours are at most the widest
/// possible look-back apart, and the run stands for all starts that one of its ends allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The group of equal shapes; see [`Engine::shapes`].
    pub group: u32,
    /// The first end.
    pub first: usize,
    /// The last end.
    pub last: usize,
}

/// What can go wrong in Hyperscan.
#[derive(Debug, thiserror::Error)]
pub enum EngineFault {
    /// The shape does not compile; an anchor would help.
    #[error("the first stage refuses the shape; give a simpler `anchor`: {0}")]
    Refused(#[source] hyperscan::Error),
    /// All shapes compile, but not together.
    #[error("the shapes do not compile together: {0}")]
    Together(#[source] hyperscan::Error),
    /// No scratch space could be had.
    #[error("no scratch space: {0}")]
    Scratch(#[source] hyperscan::Error),
    /// The scan failed.
    #[error("the scan failed: {0}")]
    Scan(#[source] hyperscan::Error),
    /// The text is longer than [`TEXT_BYTES_MAX`].
    #[error("the text is longer than {TEXT_BYTES_MAX} bytes")]
    TooLong,
    /// The text has more candidates than a text of its length may have.
    #[error("the text has more than {limit} runs of candidates")]
    TooManyRuns {
        /// How many are allowed for its length.
        limit: usize,
    },
}

/// What one scan at a time works with.
struct Workspace {
    /// By database.
    scratch: Vec<Scratch>,
    runs: Vec<Run>,
    /// By group: the run that may still grow.
    open: Vec<u32>,
    /// The text with [`PADDING`] behind it, where that is needed.
    padded: Vec<u8>,
}

impl Engine {
    /// Compiles shapes.
    ///
    /// # Errors
    /// The index and the fault of every shape that is refused; index `None` if only the whole is.
    pub fn compile(shapes: &[Shape]) -> Result<Self, Vec<(Option<usize>, EngineFault)>> {
        Self::compile_cached(shapes, &NoCache)
    }

    /// Compiles shapes, or takes from the cache what was compiled of them before.
    ///
    /// # Errors
    /// As [`Engine::compile`].
    pub fn compile_cached(
        shapes: &[Shape],
        cache: &dyn DatabaseCache,
    ) -> Result<Self, Vec<(Option<usize>, EngineFault)>> {
        let mut groups: Vec<Group> = Vec::new();
        let mut heads = Heads::default();
        let mut distinct: Vec<(usize, &Shape)> = Vec::new();
        let mut known: HashMap<&Shape, usize> = HashMap::new();
        for (at, shape) in shapes.iter().enumerate() {
            let index = *known.entry(shape).or_insert_with(|| {
                let group = groups.len();
                groups.push(Group::new(shape.start));
                match &shape.lead {
                    Some(lead) => heads.add(group as u32, lead),
                    None => distinct.push((group, shape)),
                }
                group
            });
            groups[index].shapes.push(at as u32);
        }
        let is_small = distinct.len() < SPLIT_SHAPES_MIN;
        let databases =
            databases(parts(distinct), &groups, cache).map_err(|faults| by_shape(faults, &groups))?;
        let reach = groups.iter().map(|group| group.back.1).max().unwrap_or(0);
        Ok(Self { databases, is_small, heads, groups, reach, idle: Mutex::new(Vec::new()) })
    }

    /// Returns the indexes of the shapes of a group.
    pub fn shapes(&self, group: u32) -> &[u32] {
        self.groups.get(group as usize).map_or(&[], |group| &group.shapes)
    }

    /// Calls `each` with the runs of candidates for matches that begin at one of the `starts` in `text`, those of a
    /// group in ascending order.
    ///
    /// A group counts if one of its shapes is `wanted`.
    ///
    /// # Errors
    /// What Hyperscan reports, or a text with too many candidates; runs are then incomplete and must not be used.
    pub fn scan<R>(
        &self,
        text: &[u8],
        starts: Range<usize>,
        wanted: impl Fn(u32) -> bool,
        each: impl FnOnce(&[Run]) -> R,
    ) -> Result<R, EngineFault> {
        self.scan_near(text, starts, None, wanted, each)
    }

    /// Does the same, and may leave out phrases none of whose matches begin `near`, if that is given: ascending and
    /// disjoint parts of the `starts`.
    ///
    /// # Errors
    /// As [`Engine::scan`].
    pub fn scan_near<R>(
        &self,
        text: &[u8],
        starts: Range<usize>,
        near: Option<&[Range<usize>]>,
        wanted: impl Fn(u32) -> bool,
        each: impl FnOnce(&[Run]) -> R,
    ) -> Result<R, EngineFault> {
        let (before, stretch) = stretch(text, &starts, self.reach);
        if stretch.is_empty() || self.groups.is_empty() {
            return Ok(each(&[]));
        }
        if stretch.len() > TEXT_BYTES_MAX {
            return Err(EngineFault::TooLong);
        }
        let mut workspace = self.workspace()?;
        let Workspace { scratch, runs, open, padded } = &mut workspace;
        let is_wanted = |group: u32, end: usize, starts: &Range<usize>| {
            let group = self.groups.get(group as usize).filter(|group| group.begins_in(starts, end));
            group.is_some_and(|group| group.shapes.iter().any(|shape| wanted(*shape)))
        };
        let limit = RUNS_BASE + stretch.len();
        let headed = self.heads.scan(stretch, |group, end| {
            let end = before + end;
            !is_wanted(group, end, &starts) || self.note(runs, open, group, end, limit)
        });
        let limit = runs.len() + RUNS_BASE + stretch.len() / BYTES_PER_RUN;
        let mut scanned = match headed {
            true => Ok(()),
            false => Err(hyperscan::Error::Hyperscan(hyperscan::HsError::ScanTerminated)),
        };
        for (database, scratch) in self.databases.iter().zip(scratch.iter_mut()) {
            let parts = match near {
                Some(near) if database.is_of_phrases => joined(near, database.reach),
                _ => vec![starts.clone()],
            };
            for starts in &parts {
                let (before, stretch) = self::stretch(text, starts, database.reach);
                let searched = if self.is_small { padded_in(padded, stretch) } else { stretch };
                scanned = scanned.and_then(|()| {
                    database.compiled.scan(searched, scratch, |group, _, end, _| {
                        let end = usize::try_from(end).unwrap_or(usize::MAX);
                        let is_beyond = end > stretch.len();
                        let end = before.saturating_add(end);
                        match is_beyond
                            || !is_wanted(group, end, starts)
                            || self.note(runs, open, group, end, limit)
                        {
                            true => Matching::Continue,
                            false => Matching::Terminate,
                        }
                    })
                });
            }
        }
        let outcome = match scanned {
            Ok(()) => Ok(each(runs)),
            Err(hyperscan::Error::Hyperscan(hyperscan::HsError::ScanTerminated)) => {
                Err(EngineFault::TooManyRuns { limit })
            }
            Err(fault) => Err(EngineFault::Scan(fault)),
        };
        self.give_back(workspace);
        outcome
    }

    /// Adds an end to the open run of its group, or opens one; false if there are too many.
    fn note(&self, runs: &mut Vec<Run>, open: &mut [u32], group: u32, end: usize, limit: usize) -> bool {
        let (Some(slot), Some(Group { gap, .. })) =
            (open.get_mut(group as usize), self.groups.get(group as usize))
        else {
            return false;
        };
        if let Some(run) = runs.get_mut(*slot as usize)
            && *slot != NO_RUN
            && end <= run.last.saturating_add(*gap)
        {
            run.last = run.last.max(end);
            return true;
        }
        if runs.len() >= limit {
            return false;
        }
        *slot = u32::try_from(runs.len()).unwrap_or(NO_RUN);
        runs.push(Run { group, first: end, last: end });
        true
    }

    /// Takes an idle workspace or makes one.
    fn workspace(&self) -> Result<Workspace, EngineFault> {
        if let Some(idle) = self.idle.lock().pop() {
            return Ok(idle);
        }
        let scratch: Result<Vec<Scratch>, _> =
            self.databases.iter().map(|it| it.compiled.alloc_scratch()).collect();
        let scratch = scratch.map_err(EngineFault::Scratch)?;
        Ok(Workspace { scratch, runs: Vec::new(), open: vec![NO_RUN; self.groups.len()], padded: Vec::new() })
    }

    /// Cleans a workspace and keeps it for the next scan.
    fn give_back(&self, mut workspace: Workspace) {
        for run in &workspace.runs {
            if let Some(slot) = workspace.open.get_mut(run.group as usize) {
                *slot = NO_RUN;
            }
        }
        workspace.runs.clear();
        workspace.runs.shrink_to(RUNS_KEPT);
        workspace.padded.clear();
        workspace.padded.shrink_to(PADDED_KEPT);
        let mut idle = self.idle.lock();
        if idle.len() < WORKSPACES_MAX {
            idle.push(workspace);
        }
    }
}

impl Group {
    fn new(start: Start) -> Self {
        let (back_min, back_max) = match start {
            Start::Known { back } => (back, back),
            Start::Within { back_min, back_max } => (back_min, back_max),
        };
        Self { shapes: SmallVec::new(), back: (back_min, back_max), gap: back_max - back_min + 1 }
    }

    /// Tells whether a match with a candidate that ends here may begin at one of the `starts`.
    fn begins_in(&self, starts: &Range<usize>, end: usize) -> bool {
        let (back_min, back_max) = self.back;
        end.saturating_sub(back_min) >= starts.start && end.saturating_sub(back_max) < starts.end
    }
}

/// Returns where a text has to be searched for matches that begin at one of the `starts`, with candidates that end so far
/// behind at most, and what stands there.
fn stretch<'t>(text: &'t [u8], starts: &Range<usize>, reach: usize) -> (usize, &'t [u8]) {
    // One byte more: the edge of a word shows behind it.
    let behind = starts.end.saturating_add(reach).saturating_add(1).min(text.len());
    // So it does before it; a shape stands inside its match.
    let before = starts.start.saturating_sub(1).min(behind);
    (before, text.get(before..behind).unwrap_or_default())
}

/// Joins parts that are so close to each other that what is behind one has to be searched for it anyway.
fn joined(parts: &[Range<usize>], reach: usize) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(parts.len());
    for part in parts {
        match joined.last_mut() {
            Some(last) if part.start <= last.end.saturating_add(reach) => last.end = part.end,
            _ => joined.push(part.clone()),
        }
    }
    joined
}

/// Writes a text with [`PADDING`] behind it into some room.
fn padded_in<'r>(room: &'r mut Vec<u8>, text: &[u8]) -> &'r [u8] {
    room.clear();
    room.extend_from_slice(text);
    room.extend_from_slice(&PADDING);
    room
}

/// Turns faults of groups into faults of the first shape of each.
fn by_shape(
    faults: Vec<(Option<usize>, EngineFault)>,
    groups: &[Group],
) -> Vec<(Option<usize>, EngineFault)> {
    let first = |group: usize| groups.get(group).and_then(|group| group.shapes.first());
    faults.into_iter().map(|(at, fault)| (at.and_then(first).map(|shape| *shape as usize), fault)).collect()
}

/// Phrases and the rest, each with its group.
type Parts<'s> = (Vec<(usize, &'s Shape)>, Vec<(usize, &'s Shape)>);

/// Parts phrases from the rest if there is enough of both.
fn parts(mut shapes: Vec<(usize, &Shape)>) -> Parts<'_> {
    let phrases = shapes.iter().filter(|(_, shape)| shape.is_phrase()).count();
    if phrases.min(shapes.len() - phrases) < SPLIT_SHAPES_MIN {
        return (Vec::new(), shapes);
    }
    let phrases = shapes.extract_if(.., |(_, shape)| shape.is_phrase()).collect();
    (phrases, shapes)
}

/// Compiles the parts that have shapes, at the same time.
fn databases(
    (phrases, others): Parts<'_>,
    groups: &[Group],
    cache: &dyn DatabaseCache,
) -> Result<Vec<Database>, Vec<(Option<usize>, EngineFault)>> {
    let compiled = |shapes: &[(usize, &Shape)], is_of_phrases: bool| -> Result<_, Vec<_>> {
        if shapes.is_empty() {
            return Ok(None);
        }
        let of_shapes = shapes.iter().filter_map(|(group, _)| groups.get(*group));
        let reach = of_shapes.map(|group| group.back.1).max().unwrap_or(0);
        Ok(Some(Database { compiled: database(shapes, cache)?, is_of_phrases, reach }))
    };
    let (phrases, others) = thread::scope(|scope| {
        let phrases = scope.spawn(|| compiled(&phrases, true));
        let others = compiled(&others, false);
        (phrases.join().unwrap_or_else(|panic| resume_unwind(panic)), others)
    });
    match (phrases, others) {
        (Ok(phrases), Ok(others)) => Ok(phrases.into_iter().chain(others).collect()),
        (phrases, others) => Err([phrases.err(), others.err()].into_iter().flatten().flatten().collect()),
    }
}

fn database(
    shapes: &[(usize, &Shape)],
    cache: &dyn DatabaseCache,
) -> Result<BlockDatabase, Vec<(Option<usize>, EngineFault)>> {
    let patterns: Patterns = shapes.iter().copied().map(pattern).collect();
    let whole = match cache::cached(&patterns, cache) {
        Ok(database) => return Ok(database),
        Err(fault) => fault,
    };
    let mut faults = Vec::new();
    for (group, shape) in shapes.iter().copied() {
        let alone: Result<BlockDatabase, _> = Patterns(vec![pattern((group, shape))]).build();
        if let Err(fault) = alone {
            faults.push((Some(group), EngineFault::Refused(fault)));
        }
    }
    if faults.is_empty() {
        faults.push((None, EngineFault::Together(whole)));
    }
    Err(faults)
}

fn pattern((group, shape): (usize, &Shape)) -> Pattern {
    Pattern {
        expression: shape.expression.clone(),
        flags: PatternFlags::empty(),
        id: Some(group),
        ext: hyperscan::ExprExt::default(),
        som: None,
    }
}

#[cfg(test)]
mod tests;
