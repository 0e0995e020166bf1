//! Packs prove themselves: every example of every detector is run before the detector is used.
//!
//! `{valid}` in an example stands for a value made here, of the pattern's form and fit for its checks, so that no
//! live-looking key has to be written down.

use regex_automata::Anchored;
use regex_automata::Input;
use regex_automata::meta;
use regex_syntax::hir::Class;
use regex_syntax::hir::Hir;
use regex_syntax::hir::HirKind;

use crate::scan::confirm::AUTOMATON_BYTES_MAX;
use crate::scan::detector::Detector;
use crate::scan::scanner::ScanFault;
use crate::scan::scanner::Scanner;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Finding;

use self::candidates::Candidates;

mod anchored;
mod candidates;
mod heads;
pub mod rate;

/// What an example writes where a valid value belongs.
pub const PLACEHOLDER: &str = "{valid}";
/// How many values are tried until one passes its checks.
const TRIES_MAX: u32 = 20_000;
/// How many different values each example is proven with.
const VALUES_PER_EXAMPLE: u64 = 3;
/// How many more turns than needed a made repetition takes at most.
const SPARE_TURNS_MAX: u32 = 24;
/// From how many letters and digits on a class is taken to mean them.
const WORD_BYTES_MIN: usize = 4;
/// How much of a text that was made is shown, in bytes.
const SHOWN_BYTES: usize = 160;
/// How many places a text is cut at, at most, to prove that streams see what blocks see.
const CUTS_MAX: usize = 1024;

/// Scans a text for one detector when it arrives in two pieces, cut at an offset, as a stream would.
pub type Replay<'a> = dyn Fn(&Scanner, DetectorId, &[u8], usize) -> Vec<Finding> + 'a;

/// An example that a detector does not live up to.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {detector}: {problem}")]
pub struct ProofFault {
    /// The file of the detector.
    pub file: String,
    /// The line at which the detector begins.
    pub line: usize,
    /// The detector.
    pub detector: String,
    /// What does not hold.
    #[source]
    pub problem: ProofProblem,
}

/// What does not hold. Examples are counted from one; their text is never told.
#[derive(Debug, thiserror::Error)]
pub enum ProofProblem {
    /// No value could be made that has the pattern's form and passes the checks.
    #[error("no value of the pattern's form passes the checks")]
    NoValue,
    /// The pattern matches what the first stage does not see.
    #[error("the pattern matches text without its `anchor`, such as {made:?}")]
    Unanchored {
        /// Such a match, made from the pattern.
        made: String,
    },
    /// The first stage does not see what it is to see.
    #[error(
        "the first stage misses {made:?}, which it is to see; give an `anchor` of words that stand in every match, without \
         what may stand between them: `restriction|limit` and not `no (?:[a-z]{{1,12}} )?(?:restriction|limit)`"
    )]
    Unseen {
        /// Such a text, made from the shape.
        made: String,
    },
    /// No value of the pattern's form begins so.
    #[error("`heads` entry {head} begins no value of the pattern's form")]
    Head {
        /// The number of the entry.
        head: usize,
    },
    /// It must be found and is not.
    #[error("`finds` example {example} is not found")]
    NotFound {
        /// The number of the example.
        example: usize,
    },
    /// It must be ignored and is found.
    #[error("`ignores` example {example} is found")]
    Found {
        /// The number of the example.
        example: usize,
    },
    /// A stream sees something else than a block.
    #[error("`finds` example {example} gives other findings when it is cut after {cut} bytes")]
    Stream {
        /// The number of the example.
        example: usize,
        /// Where the text was cut, in bytes.
        cut: usize,
    },
    /// A text made from the shape could not be searched.
    #[error("what is made of it cannot be searched: {fault}")]
    Unsearched {
        /// Why.
        #[source]
        fault: ScanFault,
    },
    /// The example could not be judged.
    #[error("`{list}` example {example} cannot be judged: {fault}")]
    Unjudged {
        /// The list it stands in.
        list: &'static str,
        /// The number of the example.
        example: usize,
        /// Why.
        #[source]
        fault: ScanFault,
    },
}

/// Runs every example of every detector, in one piece and, with `replay`, cut at every place.
///
/// # Errors
/// Every example that does not hold.
pub fn prove(scanner: &Scanner, replay: Option<&Replay<'_>>) -> Result<(), Vec<ProofFault>> {
    let mut faults = Vec::new();
    let mut candidates = Candidates::default();
    for (at, detector) in scanner.detectors().iter().enumerate() {
        let mut proof = Proof {
            scanner,
            detector,
            id: DetectorId(at as u16),
            alone: [DetectorId(at as u16)].into_iter().collect(),
            faults: &mut faults,
        };
        proof.run(replay);
        proof.ask_first_stage(&mut candidates);
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// Makes a value of the form of a detector's value that passes its checks; the same for the same seed.
///
/// `None` if no try passes.
pub fn valid_value(detector: &Detector, seed: u64) -> Option<Vec<u8>> {
    let pattern = detector.pattern.hir();
    let form = value_form(&pattern);
    let regex = meta::Regex::builder()
        .configure(meta::Config::new().utf8_empty(false).nfa_size_limit(Some(AUTOMATON_BYTES_MAX)))
        .build_from_hir(form)
        .ok()?;
    let fits = |value: &[u8]| {
        let input = Input::new(value).anchored(Anchored::Yes);
        let whole = regex.find(input).is_some_and(|found| found.end() == value.len());
        whole && detector.lets(value)
    };
    let mut dice = Dice::of(detector, seed);
    for _ in 0..TRIES_MAX {
        let mut value = Vec::new();
        dice.write(form, &mut value);
        for check in &detector.checks {
            if !check.passes(&value)
                && let Some(repaired) = check.repair(&value)
            {
                value = repaired;
            }
        }
        if fits(&value) {
            return Some(value);
        }
    }
    None
}

/// The proof of one detector.
struct Proof<'a> {
    scanner: &'a Scanner,
    detector: &'a Detector,
    id: DetectorId,
    alone: DetectorSet,
    faults: &'a mut Vec<ProofFault>,
}

impl Proof<'_> {
    fn run(&mut self, replay: Option<&Replay<'_>>) {
        let detector = self.detector;
        let lists = [&detector.finds, &detector.ignores];
        let needed = lists.iter().any(|list| list.iter().any(|text| text.contains(PLACEHOLDER)));
        let made = if needed { VALUES_PER_EXAMPLE } else { 0 };
        let values: Option<Vec<Vec<u8>>> = (0..made).map(|seed| valid_value(detector, seed)).collect();
        let Some(values) = values else { return self.fault(ProofProblem::NoValue) };
        if let Some(made) = anchored::match_without(detector) {
            self.fault(ProofProblem::Unanchored { made });
        }
        if let Some(at) = heads::unfit(detector) {
            self.fault(ProofProblem::Head { head: at + 1 });
        }
        for (at, written) in detector.finds.iter().enumerate() {
            let example = at + 1;
            let texts = filled(written, &values);
            if texts.iter().all(|text| self.is_found("finds", example, text, true))
                && let (Some(replay), Some(text)) = (replay, texts.first())
            {
                self.replay(replay, example, text);
            }
        }
        for (at, written) in detector.ignores.iter().enumerate() {
            let texts = filled(written, &values);
            texts.iter().all(|text| self.is_found("ignores", at + 1, text, false));
        }
    }

    /// Looks for what the first stage is to see in texts made for it.
    fn ask_first_stage(&mut self, candidates: &mut Candidates) {
        match candidates.missed(self.scanner, self.id) {
            Ok(None) => {}
            Ok(Some(made)) => self.fault(ProofProblem::Unseen { made }),
            Err(fault) => self.fault(ProofProblem::Unsearched { fault }),
        }
    }

    /// Tells whether a text is found or not, as it should; else notes a fault.
    fn is_found(&mut self, list: &'static str, example: usize, text: &[u8], should: bool) -> bool {
        let problem = match self.scanner.scan(text, &self.alone) {
            Ok(found) if found.iter().any(|finding| finding.detector == self.id) == should => return true,
            Ok(_) if should => ProofProblem::NotFound { example },
            Ok(_) => ProofProblem::Found { example },
            Err(fault) => ProofProblem::Unjudged { list, example, fault },
        };
        self.fault(problem);
        false
    }

    /// Compares what a stream sees with what a block sees, for every cut.
    fn replay(&mut self, replay: &Replay<'_>, example: usize, text: &[u8]) {
        let whole = match self.scanner.scan(text, &self.alone) {
            Ok(whole) => whole,
            Err(fault) => return self.fault(ProofProblem::Unjudged { list: "finds", example, fault }),
        };
        let step = text.len().div_ceil(CUTS_MAX).max(1);
        let differs = |cut: &usize| replay(self.scanner, self.id, text, *cut) != whole;
        if let Some(cut) = (0..=text.len()).step_by(step).find(differs) {
            self.fault(ProofProblem::Stream { example, cut });
        }
    }

    fn fault(&mut self, problem: ProofProblem) {
        let Detector { file, line, name, .. } = self.detector;
        self.faults.push(ProofFault { file: file.clone(), line: *line, detector: name.clone(), problem });
    }
}

/// Returns an example with each value in the place of its placeholder.
fn filled(written: &str, values: &[Vec<u8>]) -> Vec<Vec<u8>> {
    if !written.contains(PLACEHOLDER) {
        return vec![written.as_bytes().to_vec()];
    }
    let parts: Vec<&[u8]> = written.split(PLACEHOLDER).map(str::as_bytes).collect();
    values.iter().map(|value| parts.join(value.as_slice())).collect()
}

/// Returns a text that was made as it is shown: cut where it is long.
fn shown(made: &[u8]) -> String {
    String::from_utf8_lossy(made.get(..SHOWN_BYTES).unwrap_or(made)).into_owned()
}

/// Returns the form of the value: the group, or the whole pattern.
pub(in crate::scan) fn value_form(hir: &Hir) -> &Hir {
    fn group(hir: &Hir) -> Option<&Hir> {
        match hir.kind() {
            HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => None,
            HirKind::Repetition(repeat) => group(&repeat.sub),
            HirKind::Capture(capture) => Some(&capture.sub),
            HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().find_map(group),
        }
    }
    group(hir).unwrap_or(hir)
}

/// Random choices that are the same for the same seed (xorshift64*).
struct Dice(u64);

impl Dice {
    /// Returns the dice of a detector, others for each seed.
    fn of(detector: &Detector, seed: u64) -> Self {
        let named = detector.name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(named ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        drawn as usize % limit.max(1)
    }

    /// Writes a text of the form of `hir`; look-arounds are left to chance.
    fn write(&mut self, hir: &Hir, out: &mut Vec<u8>) {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => out.extend_from_slice(&literal.0),
            HirKind::Class(class) => out.extend(self.pick(class)),
            HirKind::Repetition(repeat) => {
                let spare = repeat.max.unwrap_or(repeat.min).saturating_sub(repeat.min).min(SPARE_TURNS_MAX);
                let turns = repeat.min as usize + self.below(spare as usize + 1);
                (0..turns).for_each(|_| self.write(&repeat.sub, out));
            }
            HirKind::Capture(group) => self.write(&group.sub, out),
            HirKind::Concat(parts) => parts.iter().for_each(|part| self.write(part, out)),
            HirKind::Alternation(arms) => {
                let chosen = self.below(arms.len());
                arms.iter().skip(chosen).take(1).for_each(|arm| self.write(arm, out));
            }
        }
    }

    /// Picks a byte of a class: a letter or digit if it has more than a few, else something that can be read.
    fn pick(&mut self, class: &Class) -> Option<u8> {
        let Class::Bytes(class) = class else { return None };
        let all = || class.ranges().iter().flat_map(|range| range.start()..=range.end());
        let words = || all().filter(u8::is_ascii_alphanumeric);
        let readable = || all().filter(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
        match (words().count(), readable().count()) {
            (words_count @ WORD_BYTES_MIN.., _) => words().nth(self.below(words_count)),
            (_, readable_count @ 1..) => readable().nth(self.below(readable_count)),
            _ => all().nth(self.below(all().count())),
        }
    }
}

#[cfg(test)]
mod tests;
