//! A model of somebody else's, in the form of ONNX: a graph from tokens to classes.
//!
//! In: the `[onnx]` table of a card ([`settings`]), the file of the graph (`graph`) and that of its tokenizer
//! (`tokens`). Out: a [`Classifier`] like any other. A text is read whole, in windows of tokens (`window`), and the
//! loudest one counts (`scores`), so that what stands deep in a long text is judged as it is alone.
//!
//! A model is run on a short text and on a full window before it is taken: one that cannot be run is a fault of its card,
//! not of a request. Where it fails all the same, or the time is over, the text was not judged, which is for the policy to
//! answer. What other layers found says nothing to it. It is as steady as its file: the same text, the same verdict.

use std::ops::Range;

use self::fault::OnnxFault;
use self::fault::detail;
use self::graph::Draft;
use self::graph::Graph;
use self::guard::Failed;
use self::scores::Said;
use self::settings::BYTES;
use self::settings::OnnxFile;
use self::settings::Settings;
use self::tokens::Tokens;
use self::window::Ahead;
use self::window::Token;
use super::Classifier;
use super::Head;
use super::Origin;
use super::Signals;
use super::Unjudged;
use super::Verdict;
use crate::scan::threat::Confidence;

pub mod fault;
mod graph;
mod guard;
mod scores;
pub mod settings;
mod tokens;
mod window;

/// How the name of a graph's file ends.
pub const EXTENSION: &str = ".onnx";
/// The longest file of a graph, in bytes.
pub const GRAPH_BYTES_MAX: usize = 512 << 20;

/// The harmless text that a model is tried on.
const TRIAL: &str = "Please tell me which trains leave for Lisbon on a Sunday morning.";

/// A model in the form of ONNX.
#[derive(Debug)]
pub struct Onnx {
    tokens: Tokens,
    graph: Graph,
    settings: Settings,
    /// How many tokens of a text are in a window.
    room: usize,
}

/// What was said of a window.
#[derive(Debug)]
struct Heard {
    said: Said,
    window: Range<usize>,
}

impl Onnx {
    /// Reads a model as its card describes it; `beside` gives the files beside the card.
    ///
    /// # Errors
    /// The first fault.
    pub fn read<'f>(
        card: &OnnxFile,
        (file, bytes): (&str, &[u8]),
        beside: impl Fn(&str) -> Option<&'f [u8]>,
    ) -> Result<Self, OnnxFault> {
        let settings = card.settings()?;
        let tokens = match card.tokenizer.as_str() {
            BYTES => Tokens::Bytes,
            name => {
                let text = beside(name).ok_or_else(|| OnnxFault::NoTokenizer(name.to_owned()))?;
                Tokens::read(name, text)?
            }
        };
        let room = settings.window.saturating_sub(tokens.marks());
        if settings.stride > room {
            return Err(OnnxFault::Stride);
        }
        let draft = Draft::read(file, bytes, card)?;
        let cannot_run = |failed: Failed| OnnxFault::Run { file: file.to_owned(), detail: detail(&failed) };
        let tried = tokens_of(&tokens).map_err(cannot_run)?;
        let mut last = None;
        for length in draft.lengths(settings.window) {
            match draft.ready(length).and_then(|graph| {
                let numbers = try_out(&graph, &tokens, &tried, &settings, room)?;
                Ok((graph, numbers))
            }) {
                Ok((graph, [short, again, full])) => {
                    if short.len() != settings.classes.len() {
                        let (found, expected) = (short.len(), settings.classes.len());
                        return Err(OnnxFault::Outputs { file: file.to_owned(), found, expected });
                    }
                    let said = |numbers: &[f32]| scores::read(numbers, &settings.classes, settings.scores);
                    if said(&short).is_none() || said(&full).is_none() {
                        return Err(OnnxFault::NotFinite(file.to_owned()));
                    }
                    if short != again {
                        return Err(OnnxFault::Unsteady(file.to_owned()));
                    }
                    return Ok(Self { tokens, graph, settings, room });
                }
                Err(failed) => last = Some(failed),
            }
        }
        Err(cannot_run(last.unwrap_or_else(|| Failed("it has no length".to_owned()))))
    }

    /// Returns what the model reports.
    pub fn heads(&self) -> impl Iterator<Item = Head> + '_ {
        self.settings.classes.iter().filter_map(|class| *class)
    }

    /// Reads a text window by window.
    fn listen(
        &self,
        text: &[u8],
        expired: &(dyn Fn() -> bool + Sync),
        mut hear: impl FnMut(Heard),
    ) -> Result<(), Unjudged> {
        let mut ahead = Ahead::default();
        let mut read = |window: &[Token]| match expired() {
            true => Err(Unjudged::Late),
            false => self.say(window).map(&mut hear),
        };
        for part in window::parts(text) {
            if expired() {
                return Err(Unjudged::Late);
            }
            self.tokens.push(text, part, &mut ahead.0).map_err(|_| Unjudged::Failed)?;
            ahead.take_full(self.room, self.settings.stride, &mut read)?;
        }
        if ahead.0.is_empty() { Ok(()) } else { read(&ahead.0) }
    }

    fn say(&self, window: &[Token]) -> Result<Heard, Unjudged> {
        let numbers = self.graph.run(&self.tokens.window(window), self.settings.pad);
        let numbers = numbers.map_err(|_| Unjudged::Failed)?;
        let said = scores::read(&numbers, &self.settings.classes, self.settings.scores);
        let said = said.ok_or(Unjudged::Failed)?;
        let start = window.iter().map(|token| token.range.start).min().unwrap_or_default();
        let end = window.iter().map(|token| token.range.end).max().unwrap_or_default();
        Ok(Heard { said, window: start..end.max(start) })
    }
}

impl Classifier for Onnx {
    fn judge(
        &self,
        text: &[u8],
        origin: Origin,
        signals: &Signals,
        expired: &(dyn Fn() -> bool + Sync),
    ) -> Result<Verdict, Unjudged> {
        let mut loudest: Option<Heard> = None;
        let read = self.listen(text, expired, |heard| {
            if loudest.as_ref().is_none_or(|known| heard.said.odds > known.said.odds) {
                loudest = Some(heard);
            }
        });
        let Some(Heard { said, window }) = loudest else {
            // A text without tokens says nothing.
            let nothing = Verdict { odds: f32::MIN, head: Head::Override, window: 0..0, confidence: None };
            return read.map(|()| nothing);
        };
        let odds = said.odds + signals.bias;
        let confidence = self.settings.levels.confidence(odds, origin);
        // What is sure stays so, whatever is left to read.
        let is_sure = confidence.is_some_and(|it| it >= Confidence::HIGH);
        if is_sure { Ok(()) } else { read }?;
        Ok(Verdict { odds, head: said.head, window, confidence })
    }

    fn is_slow(&self) -> bool {
        true
    }
}

fn tokens_of(tokens: &Tokens) -> Result<Vec<Token>, Failed> {
    let mut tried = Vec::new();
    tokens.push(TRIAL.as_bytes(), 0..TRIAL.len(), &mut tried)?;
    match tried.is_empty() {
        true => Err(Failed("its tokenizer makes nothing of a text".to_owned())),
        false => Ok(tried),
    }
}

/// Returns what a graph makes of a short text, of the same again, and of a full window that begins with the token of
/// the highest number: a graph that knows fewer tokens than its tokenizer fails at it.
fn try_out(
    graph: &Graph,
    tokens: &Tokens,
    tried: &[Token],
    settings: &Settings,
    room: usize,
) -> Result<[Vec<f32>; 3], Failed> {
    let run = |window: &[Token]| graph.run(&tokens.window(window), settings.pad);
    let short = tried.get(..room).unwrap_or(tried);
    let highest = Token { id: tokens.highest(), range: 0..0 };
    let full: Vec<Token> =
        std::iter::once(&highest).chain(tried.iter().cycle()).take(room).cloned().collect();
    Ok([run(short)?, run(short)?, run(&full)?])
}

#[cfg(test)]
mod attention;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
