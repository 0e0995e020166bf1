//! The scanner: all detectors over all readings of a text.

mod candidates;
mod judge;
mod merged;
mod reading;
mod sought;
mod suspects;

use std::fmt;
use std::num::NonZero;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::OnceLock;
use std::thread;

use regex_automata::meta::BuildError;

use crate::scan::confirm::Changed;
use crate::scan::confirm::Confirm;
use crate::scan::confirm::Exhausted;
use crate::scan::confirm::Field;
use crate::scan::confirm::Placed;
use crate::scan::confirm::Work;
use crate::scan::decode;
use crate::scan::decode::Lines;
use crate::scan::decode::RUN_HEAD_BYTES;
use crate::scan::detector::CONTEXT_BYTES;
use crate::scan::detector::Detector;
use crate::scan::engine::DatabaseCache;
use crate::scan::engine::Engine;
use crate::scan::engine::EngineFault;
use crate::scan::engine::NoCache;
use crate::scan::engine::Run;
use crate::scan::pack::DETECTORS_MAX;
use crate::scan::pack::PackFault;
use crate::scan::pack::PackProblem;
use crate::scan::shape::Shape;
use crate::scan::spelling::Marks;
use crate::scan::threat::Category;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Encoding;
use crate::scan::threat::Finding;
use crate::scan::threat::Layer;
use crate::scan::view;
use crate::scan::view::View;
use crate::scan::words::WordIndex;

use self::judge::judge;
use self::judge::passes;
pub(super) use self::merged::merged;
use self::reading::Reading;
use self::reading::view_offset;
pub use self::suspects::Suspects;

/// The fewest detectors that are worth a thread to compile them.
const DETECTORS_PER_THREAD_MIN: usize = 256;

/// How many layers of encoding are undone.
pub const DECODING_DEPTH_MAX: usize = 3;

/// How much text before a region a scan of it may look at, in source bytes.
///
/// A caller that keeps this much before the region gets the findings of a scan of the whole text.
pub const LOOKBACK_BYTES: usize = 1024;

/// The decoded text any scan may make, in bytes, however short its text.
const DECODED_BASE: usize = 1 << 20;

/// Beyond the base, the decoded bytes for each byte of text.
const DECODED_PER_BYTE: usize = 8;

/// So much behind a region is read whatever matches reach it: to ask how far they do takes longer.
const REST_BYTES: usize = 512;

/// All detectors, compiled: immutable, to be shared between threads.
pub struct Scanner {
    engine: Engine,
    words: WordIndex,
    detectors: Arc<Vec<Detector>>,
    confirms: Vec<Confirm>,
    /// Which detectors look for what is of a category, in the order of [`Category::ALL`].
    categories: [DetectorSet; Category::ALL.len()],
    /// What tells other spellings, made when it is first asked.
    pub(super) marks: OnceLock<Option<Marks>>,
}

/// A text could not be judged; it must not pass as clean.
#[derive(Debug, thiserror::Error)]
pub enum ScanFault {
    /// The first stage failed or found too many candidates.
    #[error(transparent)]
    Engine(#[from] EngineFault),
    /// The second stage would take too long.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    /// Too much text came out of what is encoded in it.
    #[error("decoding the text gives more bytes than a text of its length may hide")]
    TooMuchDecoded,
    /// Other spellings cannot be looked for.
    #[error("the marks of other spellings do not compile")]
    Spellings,
}

impl Scanner {
    /// Compiles detectors; their ids are their places in the list.
    ///
    /// # Errors
    /// Every detector that an engine refuses.
    pub fn compile(detectors: impl Into<Arc<Vec<Detector>>>) -> Result<Self, Vec<PackFault>> {
        Self::compile_cached(detectors.into(), &NoCache)
    }

    /// Compiles detectors, with what a cache has of them.
    ///
    /// # Errors
    /// As [`Scanner::compile`].
    pub fn compile_cached(
        detectors: Arc<Vec<Detector>>,
        cache: &dyn DatabaseCache,
    ) -> Result<Self, Vec<PackFault>> {
        if let Some(first) = detectors.get(DETECTORS_MAX) {
            return Err(vec![PackFault::about(first, PackProblem::TooManyDetectors)]);
        }
        let (engine, words, built) = thread::scope(|scope| {
            let words = scope.spawn(|| WordIndex::compile(&detectors, cache));
            let (shapes, built) = stages(&detectors);
            let engine = Engine::compile_cached(&shapes, cache);
            (engine, words.join().unwrap_or_else(|panic| resume_unwind(panic)), built)
        });
        let mut faults = Vec::new();
        let confirms = detectors.iter().zip(built).filter_map(|(detector, built)| {
            built.map_err(|fault| faults.push(PackFault::about(detector, PackProblem::Confirm(fault)))).ok()
        });
        let confirms = confirms.collect();
        let words = words.map_err(|fault| vec![(None, fault)]);
        match engine.and_then(|engine| Ok((engine, words?))) {
            Ok((engine, words)) if faults.is_empty() => {
                let categories = Category::ALL.map(|category| of_category(&detectors, category));
                return Ok(Self { engine, words, detectors, confirms, categories, marks: OnceLock::new() });
            }
            Ok(_) => {}
            Err(refused) => faults.extend(refused.into_iter().map(|(at, fault)| {
                let problem = PackProblem::Engine(fault);
                match at.and_then(|at| detectors.get(at)) {
                    Some(detector) => PackFault::about(detector, problem),
                    None => PackFault { file: "detectors".to_owned(), line: None, detector: None, problem },
                }
            })),
        }
        Err(faults)
    }

    /// Lets go of what was built when patterns were asked for the first time: a proof asks for hundreds, whose automata take
    /// tens of megabytes, and few texts do.
    pub fn forget_built(&mut self) {
        self.confirms.iter_mut().for_each(Confirm::forget_built);
    }

    /// Returns the detectors in the order of their ids.
    pub fn detectors(&self) -> &[Detector] {
        &self.detectors
    }

    /// Returns the detector of an id, if it is one of this scanner.
    pub fn detector(&self, id: DetectorId) -> Option<&Detector> {
        self.detectors.get(usize::from(id.0))
    }

    /// Returns the id of the detector of a name.
    pub fn find(&self, name: &str) -> Option<DetectorId> {
        self.detectors.iter().position(|known| known.name == name).map(|at| DetectorId(at as u16))
    }

    /// Returns those of the `wanted` detectors that look for what is of some categories.
    pub(super) fn of(&self, wanted: &DetectorSet, categories: &[Category]) -> DetectorSet {
        let known = Category::ALL.iter().zip(&self.categories);
        let of_all = known.filter(|(category, _)| categories.contains(category)).map(|(_, set)| set);
        wanted.intersection(&of_all.fold(DetectorSet::default(), |all, set| all.union(set)))
    }

    /// Returns the set of all detectors.
    pub fn all(&self) -> DetectorSet {
        (0..self.detectors.len()).map(|at| DetectorId(at as u16)).collect()
    }

    /// Finds what the `wanted` detectors see in a whole text, in every reading of it.
    ///
    /// The findings are sorted by start and detector; those of one detector do not overlap. Offsets are bytes
    /// of `text`.
    ///
    /// # Errors
    /// The text could not be judged; see [`ScanFault`].
    pub fn scan(&self, text: &[u8], wanted: &DetectorSet) -> Result<Vec<Finding>, ScanFault> {
        let mut found = Vec::new();
        self.scan_region(text, 0..text.len(), wanted, &mut found)?;
        Ok(found)
    }

    /// Finds what begins in a region of a text and appends it to `out`, sorted like the findings of a scan.
    ///
    /// What stands before the region is context, of which at most [`LOOKBACK_BYTES`] matter; what stands behind
    /// it completes matches. An encoded run counts where it begins. Regions that touch where nothing is matched
    /// or encoded give together what a scan of the whole gives.
    ///
    /// # Errors
    /// The text could not be judged; `out` is then as it was.
    pub fn scan_region(
        &self,
        text: &[u8],
        region: Range<usize>,
        wanted: &DetectorSet,
        out: &mut Vec<Finding>,
    ) -> Result<(), ScanFault> {
        let pass = Pass::new(self, wanted, text.len().saturating_sub(region.start));
        out.extend(pass.found_in(text, region)?);
        Ok(())
    }

    /// Finds the same in a region of a text that still grows, but for what only shows once lines are joined; see
    /// [`Lines`].
    ///
    /// # Errors
    /// The text could not be judged; `out` is then as it was.
    pub fn scan_growing(
        &self,
        text: &[u8],
        region: Range<usize>,
        wanted: &DetectorSet,
        out: &mut Vec<Finding>,
    ) -> Result<(), ScanFault> {
        let pass = Pass::new(self, wanted, text.len().saturating_sub(region.start));
        out.extend(Pass { lines: Lines::Apart, ..pass }.found_in(text, region)?);
        Ok(())
    }

    /// Finds what stands in a text as it is, without decoding anything; for measuring detectors.
    ///
    /// # Errors
    /// The text could not be judged.
    pub fn search_plain(&self, text: &[u8], wanted: &DetectorSet) -> Result<Vec<Finding>, ScanFault> {
        let mut pass = Pass::new(self, wanted, text.len());
        pass.search(text, 0..text.len(), &Reading::plain())?;
        Ok(merged(pass.found))
    }

    /// Returns whether an id in the engine's form is one of the wanted detectors.
    fn is_wanted<'w>(&self, wanted: &'w DetectorSet) -> impl Fn(u32) -> bool + use<'w> {
        |id| u16::try_from(id).is_ok_and(|id| wanted.contains(DetectorId(id)))
    }

    /// Returns the widest match of the wanted detectors.
    fn reach(&self, wanted: &DetectorSet) -> usize {
        let widths = wanted.iter().filter_map(|id| self.detector(id)).map(|it| it.pattern.width_max());
        widths.max().unwrap_or(0)
    }
}

impl fmt::Debug for Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner").field("detectors", &self.detectors.len()).finish_non_exhaustive()
    }
}

/// One scan under way.
struct Pass<'s> {
    scanner: &'s Scanner,
    wanted: &'s DetectorSet,
    found: Vec<Finding>,
    /// Detectors with a match that goes on behind the part that is searched, and where it ends.
    reaching: Vec<(u32, usize)>,
    work: Work,
    lines: Lines,
    /// How many bytes may still come out of decoding.
    decodable: usize,
}

impl<'s> Pass<'s> {
    /// Begins a scan of so many bytes.
    fn new(scanner: &'s Scanner, wanted: &'s DetectorSet, bytes: usize) -> Self {
        Self {
            scanner,
            wanted,
            found: Vec::new(),
            reaching: Vec::new(),
            work: Work::for_text(bytes),
            lines: Lines::Joined,
            decodable: DECODED_BASE.saturating_add(bytes.saturating_mul(DECODED_PER_BYTE)),
        }
    }

    /// Reads a region of a text and returns what is found.
    fn found_in(mut self, text: &[u8], region: Range<usize>) -> Result<Vec<Finding>, ScanFault> {
        self.read(text, region.start..region.end.min(text.len()), &Reading::plain())?;
        Ok(merged(self.found))
    }

    /// Reads a text as it stands, then what its reader takes it for, then what is encoded in it.
    fn read(&mut self, text: &[u8], region: Range<usize>, reading: &Reading<'_>) -> Result<(), ScanFault> {
        if region.is_empty() {
            return Ok(());
        }
        self.search(text, region.clone(), reading)?;
        self.read_beyond(text, region, reading)
    }

    /// Reads what a text's reader takes it for, then what is encoded in it.
    fn read_beyond(
        &mut self,
        text: &[u8],
        region: Range<usize>,
        reading: &Reading<'_>,
    ) -> Result<(), ScanFault> {
        if reading.decoded.0.len() == DECODING_DEPTH_MAX {
            return Ok(());
        }
        if reading.decoded.0.last() != Some(&Encoding::Canonical) {
            let base = region.start.saturating_sub(LOOKBACK_BYTES);
            if let Some(view) = view::canonical(text.get(base..).unwrap_or_default()) {
                self.read_canonical((&view, base), region.clone(), reading)?;
            }
        }
        self.read_runs(&decode::runs(text, region.start, self.lines), region, reading)
    }

    /// Reads a region of what a text's reader takes it for, from a base in the text on.
    fn read_canonical(
        &mut self,
        (view, base): (&View, usize),
        region: Range<usize>,
        reading: &Reading<'_>,
    ) -> Result<(), ScanFault> {
        self.charge(view.bytes().len())?;
        let inner = reading.viewed(view, base, Encoding::Canonical);
        let starts = view_offset(view, region.start - base)..view_offset(view, region.end - base);
        self.read(view.bytes(), starts, &inner)
    }

    /// Reads the runs of a text that begin in a region of it.
    fn read_runs(
        &mut self,
        runs: &[decode::Run],
        region: Range<usize>,
        reading: &Reading<'_>,
    ) -> Result<(), ScanFault> {
        for run in runs.iter().filter(|run| run.source.start < region.end) {
            self.charge(run.view.bytes().len())?;
            let inner = reading.viewed(&run.view, 0, run.encoding);
            let known = self.found.len();
            self.read(run.view.bytes(), 0..run.view.bytes().len(), &inner)?;
            let body = reading.source(run.source.start + RUN_HEAD_BYTES..run.source.end).start;
            self.found.iter_mut().skip(known).for_each(|finding| finding.begin_at(body));
        }
        Ok(())
    }

    /// Runs both stages over a text, in parts where it has too many candidates for one look.
    fn search(&mut self, text: &[u8], region: Range<usize>, reading: &Reading<'_>) -> Result<(), ScanFault> {
        self.reaching.clear();
        let (mut from, mut length) = (region.start, region.len());
        while from < region.end {
            let part = from..region.end.min(from + length);
            let (known, reaching) = (self.found.len(), self.reaching.clone());
            match self.search_part(text, part.clone(), reading) {
                Err(ScanFault::Engine(EngineFault::TooManyRuns { .. })) if part.len() > 1 => {
                    self.found.truncate(known);
                    self.reaching = reaching;
                    length = part.len() / 2;
                }
                searched => {
                    searched?;
                    self.reaching.retain(|(_, end)| *end > part.end);
                    from = part.end;
                }
            }
        }
        Ok(())
    }

    fn search_part(
        &mut self,
        text: &[u8],
        region: Range<usize>,
        reading: &Reading<'_>,
    ) -> Result<(), ScanFault> {
        let from = region.start.saturating_sub(CONTEXT_BYTES + 1);
        let rest = text.len().saturating_sub(region.end);
        let reach = if rest > REST_BYTES { self.scanner.reach(self.wanted) } else { rest };
        let to = region.end.saturating_add(reach).saturating_add(1).min(text.len());
        let part = text.get(from..to).unwrap_or_default();
        let starts = region.start - from..region.end - from;
        let scanner = self.scanner;
        let sought = scanner.sought(part, self.wanted)?;
        let is_wanted = scanner.is_wanted(&sought.detectors);
        scanner.engine.scan(part, starts.clone(), is_wanted, |runs| match runs {
            [] => Ok(()),
            _ => {
                let changed = reading.changes.as_deref().map(|ranges| Changed { ranges, base: from });
                let field = Field { text: part, starts, words: None, changed };
                scanner.by_detector(&field, runs, &sought, |at, field, runs| {
                    Ok(self.place(text, from, field, at, runs, reading)?)
                })
            }
        })?
    }

    /// Places and judges the candidates of one detector.
    fn place(
        &mut self,
        text: &[u8],
        from: usize,
        field: &Field<'_>,
        at: u32,
        runs: &[Run],
        reading: &Reading<'_>,
    ) -> Result<(), Exhausted> {
        let scanner = self.scanner;
        let (Some(confirm), Some(detector)) =
            (scanner.confirms.get(at as usize), scanner.detectors.get(at as usize))
        else {
            return Ok(());
        };
        let (found, reaching) = (&mut self.found, &mut self.reaching);
        let mut field = field.clone();
        if let Some((_, end)) = reaching.iter().find(|(detector, _)| *detector == at) {
            field.starts.start = field.starts.start.max(end - from);
        }
        confirm.place(&field, runs, &mut self.work, |placed| {
            let placed = Placed {
                span: placed.span.start + from..placed.span.end + from,
                value: placed.value.start + from..placed.value.end + from,
            };
            let Some(confidence) = judge(detector, text, &placed, reading) else { return false };
            if confirm.is_by_chance(text, placed.span.start) {
                return false;
            }
            if placed.span.end > field.starts.end + from {
                reaching.push((at, placed.span.end));
            }
            found.push(Finding {
                detector: DetectorId(at as u16),
                span: reading.source(placed.span),
                value: reading.source(placed.value),
                confidence,
                layer: Layer::L1Regex,
                decoded_from: reading.decoded.clone(),
            });
            true
        })
    }

    /// Takes decoded bytes from what may still be decoded.
    fn charge(&mut self, bytes: usize) -> Result<(), ScanFault> {
        self.decodable = self.decodable.checked_sub(bytes).ok_or(ScanFault::TooMuchDecoded)?;
        Ok(())
    }
}

/// Derives both stages of each detector from its pattern, which is parsed once for the two, on all cores.
fn stages(detectors: &[Detector]) -> (Vec<Shape>, Vec<Result<Confirm, Box<BuildError>>>) {
    let of = |detector: &Detector| {
        let pattern = detector.pattern.hir();
        let shape = Shape::of(detector, &pattern);
        let confirm = Confirm::compile(detector, &pattern, shape.start);
        (shape, confirm)
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = detectors.len().div_ceil(cores).max(DETECTORS_PER_THREAD_MIN);
    thread::scope(|scope| {
        let shares = detectors.chunks(share);
        let threads = shares.map(|share| scope.spawn(move || share.iter().map(of).collect::<Vec<_>>()));
        let threads: Vec<_> = threads.collect();
        threads.into_iter().flat_map(|it| it.join().unwrap_or_else(|panic| resume_unwind(panic))).unzip()
    })
}

/// Returns those of all detectors that look for what is of a category.
fn of_category(detectors: &[Detector], category: Category) -> DetectorSet {
    let of_all = detectors.iter().zip(0..).filter(|(detector, _)| detector.category == category);
    of_all.map(|(_, at)| DetectorId(at)).collect()
}

#[cfg(test)]
mod tests;
