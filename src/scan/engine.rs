//! The only home of Hyperscan: one block database, its scratch space, and runs of candidate ends.
//!
//! Only block mode is used, over bytes, without start-of-match and without UTF-8 mode. Scratch space belongs to
//! the engine that allocated it and never meets another database. The match callback only pushes into vectors
//! with a known limit, and touches nothing by unchecked index, so that no panic can cross the C frames.

use hyperscan::BlockDatabase;
use hyperscan::Builder;
use hyperscan::Matching;
use hyperscan::Pattern;
use hyperscan::PatternFlags;
use hyperscan::Patterns;
use hyperscan::Scratch;
use parking_lot::Mutex;

use crate::scan::shape::Shape;
use crate::scan::shape::Start;

/// The longest text that is scanned at once, in bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 30;

/// The runs of candidates any scan may have, however short its text: one long number is a candidate of
/// nearly a hundred detectors, and tables of them are ordinary.
const RUNS_BASE: usize = 1 << 18;
/// How many of them an idle workspace has room for.
const RUNS_KEPT: usize = 1 << 16;

/// Beyond the base, a scan may have one run of candidates for so many bytes of text.
const BYTES_PER_RUN: usize = 2;

/// How many workspaces are kept for later scans.
const WORKSPACES_MAX: usize = 64;

/// Marks a detector without a run of candidates yet.
const NO_RUN: u32 = u32::MAX;

/// A database of first-stage shapes and what is needed to run it.
pub struct Engine {
    database: Option<BlockDatabase>,
    /// By detector: how far apart two ends may be to belong to one run.
    gaps: Vec<usize>,
    idle: Mutex<Vec<Workspace>>,
}

/// Ends of one detector's shape, close to each other, by their first and last.
///
/// With a known start every end between the two occurred; otherwise neighbours are at most the widest
/// possible look-back apart, and the run stands for all starts that one of its ends allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The index of the detector.
    pub detector: u32,
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
    scratch: Scratch,
    runs: Vec<Run>,
    /// By detector: the run that may still grow.
    open: Vec<u32>,
}

impl Engine {
    /// Compiles shapes into one database.
    ///
    /// # Errors
    /// The index and the fault of every shape that is refused; index `None` if only the whole is.
    pub fn compile(shapes: &[Shape]) -> Result<Self, Vec<(Option<usize>, EngineFault)>> {
        let gaps = shapes.iter().map(|shape| gap(shape.start)).collect();
        let database = match shapes.is_empty() {
            true => None,
            false => Some(database(shapes)?),
        };
        Ok(Self { database, gaps, idle: Mutex::new(Vec::new()) })
    }

    /// Calls `each` with the runs of candidates in `text`, in the order in which they began.
    ///
    /// # Errors
    /// What Hyperscan reports, or a text with too many candidates; runs are then incomplete and must not be used.
    pub fn scan<R>(
        &self,
        text: &[u8],
        wanted: impl Fn(u32) -> bool,
        each: impl FnOnce(&[Run]) -> R,
    ) -> Result<R, EngineFault> {
        let Some(database) = &self.database else { return Ok(each(&[])) };
        if text.is_empty() {
            return Ok(each(&[]));
        }
        if text.len() > TEXT_BYTES_MAX {
            return Err(EngineFault::TooLong);
        }
        let mut workspace = self.workspace(database)?;
        let limit = RUNS_BASE + text.len() / BYTES_PER_RUN;
        let Workspace { scratch, runs, open } = &mut workspace;
        let scanned = database.scan(text, scratch, |detector, _, end, _| {
            if !wanted(detector) {
                return Matching::Continue;
            }
            match self.note(runs, open, detector, usize::try_from(end).unwrap_or(usize::MAX), limit) {
                true => Matching::Continue,
                false => Matching::Terminate,
            }
        });
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

    /// Adds an end to the open run of its detector, or opens one; false if there are too many.
    fn note(&self, runs: &mut Vec<Run>, open: &mut [u32], detector: u32, end: usize, limit: usize) -> bool {
        let (Some(slot), Some(gap)) = (open.get_mut(detector as usize), self.gaps.get(detector as usize))
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
        runs.push(Run { detector, first: end, last: end });
        true
    }

    /// Takes an idle workspace or makes one.
    fn workspace(&self, database: &BlockDatabase) -> Result<Workspace, EngineFault> {
        if let Some(idle) = self.idle.lock().pop() {
            return Ok(idle);
        }
        let scratch = database.alloc_scratch().map_err(EngineFault::Scratch)?;
        Ok(Workspace { scratch, runs: Vec::new(), open: vec![NO_RUN; self.gaps.len()] })
    }

    /// Cleans a workspace and keeps it for the next scan.
    fn give_back(&self, mut workspace: Workspace) {
        for run in &workspace.runs {
            if let Some(slot) = workspace.open.get_mut(run.detector as usize) {
                *slot = NO_RUN;
            }
        }
        workspace.runs.clear();
        workspace.runs.shrink_to(RUNS_KEPT);
        let mut idle = self.idle.lock();
        if idle.len() < WORKSPACES_MAX {
            idle.push(workspace);
        }
    }
}

/// Returns how far apart two ends may be to belong to one run.
fn gap(start: Start) -> usize {
    match start {
        Start::Known { .. } => 1,
        Start::Within { back_min, back_max } => back_max - back_min + 1,
    }
}

fn database(shapes: &[Shape]) -> Result<BlockDatabase, Vec<(Option<usize>, EngineFault)>> {
    let patterns: Patterns = shapes.iter().map(pattern).collect();
    let whole = match patterns.build() {
        Ok(database) => return Ok(database),
        Err(fault) => fault,
    };
    let mut faults = Vec::new();
    for (at, shape) in shapes.iter().enumerate() {
        let alone: Result<BlockDatabase, _> = Patterns(vec![pattern(shape)]).build();
        if let Err(fault) = alone {
            faults.push((Some(at), EngineFault::Refused(fault)));
        }
    }
    if faults.is_empty() {
        faults.push((None, EngineFault::Together(whole)));
    }
    Err(faults)
}

fn pattern(shape: &Shape) -> Pattern {
    Pattern {
        expression: shape.expression.clone(),
        flags: PatternFlags::empty(),
        id: None,
        ext: hyperscan::ExprExt::default(),
        som: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(expression: &str, start: Start) -> Shape {
        Shape { expression: expression.to_owned(), start }
    }

    #[test]
    fn ends_are_gathered_into_runs() {
        let known = shape("[0-9]{3}", Start::Known { back: 3 });
        let within = shape("x", Start::Within { back_min: 1, back_max: 4 });
        let engine = Engine::compile(&[known, within]).unwrap();
        let runs = |text: &str| engine.scan(text.as_bytes(), |_| true, <[Run]>::to_vec).unwrap();
        let run = |detector, first, last| Run { detector, first, last };
        assert_eq!(runs("12345 678"), [run(0, 3, 5), run(0, 9, 9)]);
        assert_eq!(runs("x..x....x"), [run(1, 1, 4), run(1, 9, 9)]);
        assert_eq!(runs("12345"), [run(0, 3, 5)], "a workspace starts clean");
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
        let pair = || shape("ab", Start::Known { back: 2 });
        let engine = Engine::compile(&[pair(), pair(), pair(), pair()]).unwrap();
        let scan = |pairs: usize| engine.scan("ab".repeat(pairs).as_bytes(), |_| true, <[Run]>::len);
        assert_eq!(scan(1000).unwrap(), 4000);
        assert!(matches!(scan(1 << 18), Err(EngineFault::TooManyRuns { .. })));
        assert_eq!(scan(1000).unwrap(), 4000, "a workspace starts clean after a fault");
    }

    #[test]
    fn an_empty_engine_finds_nothing() {
        assert!(Engine::compile(&[]).unwrap().scan(b"text", |_| true, <[Run]>::is_empty).unwrap());
    }
}
