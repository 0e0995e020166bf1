//! The only home of Hyperscan: block databases, their scratch space, and runs of candidate ends.
//!
//! Phrases have a database of their own: words of prose among the beginnings of tokens leave Hyperscan no cheap way
//! through a text, and two passes take a fraction of one.
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
    databases: Vec<BlockDatabase>,
    /// Whether texts are padded for the databases: the one there is has few shapes.
    is_small: bool,
    heads: Heads,
    groups: Vec<Group>,
    /// How far behind the begin of a match its candidate ends at most.
    reach: usize,
    idle: Mutex<Vec<Workspace>>,
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
        let databases = databases(parts(distinct), cache).map_err(|faults| by_shape(faults, &groups))?;
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
        // One byte more: the edge of a word shows behind it.
        let behind = starts.end.saturating_add(self.reach).saturating_add(1);
        let text = text.get(..behind).unwrap_or(text);
        // So it does before it; a shape stands inside its match.
        let before = starts.start.saturating_sub(1).min(text.len());
        let text = text.get(before..).unwrap_or_default();
        if text.is_empty() || self.groups.is_empty() {
            return Ok(each(&[]));
        }
        if text.len() > TEXT_BYTES_MAX {
            return Err(EngineFault::TooLong);
        }
        let mut workspace = self.workspace()?;
        let Workspace { scratch, runs, open, padded } = &mut workspace;
        let is_wanted = |group: u32, end: usize| {
            let end = before + end;
            let group = self.groups.get(group as usize).filter(|group| group.begins_in(&starts, end));
            group.is_some_and(|group| group.shapes.iter().any(|shape| wanted(*shape)))
        };
        let limit = RUNS_BASE + text.len();
        let headed = self.heads.scan(text, |group, end| {
            !is_wanted(group, end) || self.note(runs, open, group, before + end, limit)
        });
        let limit = runs.len() + RUNS_BASE + text.len() / BYTES_PER_RUN;
        let mut scanned = match headed {
            true => Ok(()),
            false => Err(hyperscan::Error::Hyperscan(hyperscan::HsError::ScanTerminated)),
        };
        let is_padded = self.is_small && !self.databases.is_empty();
        let searched = if is_padded { padded_in(padded, text) } else { text };
        for (database, scratch) in self.databases.iter().zip(scratch.iter_mut()) {
            scanned = scanned.and_then(|()| {
                database.scan(searched, scratch, |group, _, end, _| {
                    let end = usize::try_from(end).unwrap_or(usize::MAX);
                    match end > text.len()
                        || !is_wanted(group, end)
                        || self.note(runs, open, group, before + end, limit)
                    {
                        true => Matching::Continue,
                        false => Matching::Terminate,
                    }
                })
            });
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
        let scratch: Result<Vec<Scratch>, _> = self.databases.iter().map(|it| it.alloc_scratch()).collect();
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
    cache: &dyn DatabaseCache,
) -> Result<Vec<BlockDatabase>, Vec<(Option<usize>, EngineFault)>> {
    let compiled = |shapes: &[(usize, &Shape)]| match shapes.is_empty() {
        true => Ok(None),
        false => database(shapes, cache).map(Some),
    };
    let (phrases, others) = thread::scope(|scope| {
        let phrases = scope.spawn(|| compiled(&phrases));
        let others = compiled(&others);
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
mod tests {
    use super::*;

    fn shape(expression: &str, start: Start) -> Shape {
        Shape { expression: expression.to_owned(), start, lead: None }
    }

    #[test]
    fn ends_are_gathered_into_runs() {
        let known = shape("[0-9]{3}", Start::Known { back: 3 });
        let within = shape("x", Start::Within { back_min: 1, back_max: 4 });
        let engine = Engine::compile(&[known, within]).unwrap();
        let runs =
            |text: &str| engine.scan(text.as_bytes(), 0..text.len(), |_| true, <[Run]>::to_vec).unwrap();
        let run = |group, first, last| Run { group, first, last };
        assert_eq!(runs("12345 678"), [run(0, 3, 5), run(0, 9, 9)]);
        assert_eq!(runs("x..x....x"), [run(1, 1, 4), run(1, 9, 9)]);
        assert_eq!(runs("12345"), [run(0, 3, 5)], "a workspace starts clean");
    }

    #[test]
    fn phrases_and_tokens_are_found_in_one_scan() {
        let shapes = (0..SPLIT_SHAPES_MIN).flat_map(|at| {
            let known = |expression: String| shape(&expression, Start::Known { back: expression.len() });
            [known(format!("key{at:03}")), known(format!(r"say\x20{at:03}"))]
        });
        let shapes: Vec<Shape> = shapes.collect();
        let engine = Engine::compile(&shapes).unwrap();
        assert_eq!(engine.databases.len(), 2);
        for pad in 0..100 {
            let text = format!("{}key007 say 123", ".".repeat(pad));
            let mut runs = engine.scan(text.as_bytes(), 0..text.len(), |_| true, <[Run]>::to_vec).unwrap();
            runs.sort_by_key(|run| run.group);
            let run = |group, end| Run { group, first: end, last: end };
            assert_eq!(runs, [run(14, pad + 6), run(247, pad + 14)]);
        }
        assert_eq!(Engine::compile(&shapes[..20]).unwrap().databases.len(), 1);
    }

    /// What Vectorscan 5.4.9 misses by itself: a word of few in the last bytes of a text.
    #[test]
    fn few_shapes_are_found_up_to_the_end() {
        let phrase = |expression: &str| shape(expression, Start::Known { back: 8 });
        let engine = Engine::compile(&["[Ii]gnore [a-z]", "[Pp]assword: [a-z]"].map(phrase)).unwrap();
        for before in 0..200 {
            for after in 0..40 {
                let text = [&vec![b'.'; before][..], b"password: x", &vec![b'.'; after]].concat();
                let ends: Vec<usize> = engine
                    .scan(&text, 0..text.len(), |_| true, |runs| runs.iter().map(|run| run.last).collect())
                    .unwrap();
                assert_eq!(ends, [before + 11], "{before} bytes before, {after} after");
            }
        }
    }

    #[test]
    fn a_refused_shape_is_named() {
        let good = shape("abc", Start::Known { back: 3 });
        let bad = shape("(?=a)b", Start::Known { back: 1 });
        let faults = Engine::compile(&[good, bad]).map(|_| ()).unwrap_err();
        assert!(matches!(faults.as_slice(), [(Some(1), EngineFault::Refused(_))]));
    }

    #[test]
    fn too_many_candidates_are_an_error() {
        let pair = |expression: &str| shape(expression, Start::Known { back: 2 });
        let pairs = ["ab", "[a]b", "a[b]", "(?:ab)"].map(pair);
        let engine = Engine::compile(&pairs).unwrap();
        let scan =
            |pairs: usize| engine.scan("ab".repeat(pairs).as_bytes(), 0..pairs * 2, |_| true, <[Run]>::len);
        assert_eq!(scan(1000).unwrap(), 4000);
        assert!(matches!(scan(1 << 18), Err(EngineFault::TooManyRuns { .. })));
        assert_eq!(scan(1000).unwrap(), 4000, "a workspace starts clean after a fault");
    }

    #[test]
    fn equal_shapes_are_looked_for_once() {
        let shapes = [("ab", 2), ("cd", 2), ("ab", 2)].map(|(it, back)| shape(it, Start::Known { back }));
        let engine = Engine::compile(&shapes).unwrap();
        let found = |wanted: u32| engine.scan(b"cdab", 0..4, |it| it == wanted, <[Run]>::to_vec).unwrap();
        assert_eq!(found(2), [Run { group: 0, first: 4, last: 4 }]);
        assert_eq!((found(2), engine.shapes(0), engine.shapes(1)), (found(0), &[0, 2][..], &[1][..]));
        assert!(found(3).is_empty());
    }

    #[test]
    fn an_empty_engine_finds_nothing() {
        assert!(Engine::compile(&[]).unwrap().scan(b"text", 0..4, |_| true, <[Run]>::is_empty).unwrap());
    }
}
