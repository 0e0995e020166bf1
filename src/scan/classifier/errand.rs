//! What people ask for every day in words that attacks use, too: to sum up the conversation, to tell what a string of base64
//! says, to write a message that does not tell users which field was wrong.
//!
//! In: the errands of a model's card, each a pattern with its proof, and a model. Out: the same model, which is not stopped
//! by an errand alone. A text that it would stop for a window with an errand in it is judged once more without its errands:
//! what is left has to be an attack by itself, or the text is told only. So nothing is let through for an errand that
//! stands beside an attack. It counts in what a person wrote, or where the card says.

use std::ops::Range;
use std::sync::OnceLock;

use regex::bytes::Regex;
use regex::bytes::RegexBuilder;
use serde::Deserialize;

use super::Classifier;
use super::Origin;
use super::Signals;
use super::Unjudged;
use super::Verdict;
use super::citation;
use super::linear::told_only;
use crate::scan::threat::Confidence;

/// The most errands of one card.
pub const ERRANDS_MAX: usize = 64;

/// The most memory of one compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 22;

/// An errand as it is written in a card.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ErrandFile {
    /// Its name, for faults.
    pub name: String,
    /// What of a text is the errand, whatever the case of its letters.
    pub pattern: String,
    /// What may stand nowhere in the text beside it.
    pub unless: Option<String>,
    /// Whose words it counts in.
    #[serde(default = "of_people")]
    pub origins: Vec<Origin>,
    /// Why it is harmless, in one sentence.
    pub why: String,
    /// Texts that have it.
    pub finds: Vec<String>,
    /// Texts that do not.
    pub ignores: Vec<String>,
}

fn of_people() -> Vec<Origin> {
    vec![Origin::User]
}

/// What is wrong with an errand.
#[derive(Debug, thiserror::Error)]
pub enum ErrandFault {
    /// There are too many.
    #[error("declares {0} errands; at most {ERRANDS_MAX} are allowed")]
    TooMany(usize),
    /// A pattern cannot be read.
    #[error("errand `{name}`: {problem}")]
    Pattern {
        /// The errand.
        name: String,
        /// What the reader says.
        problem: Box<regex::Error>,
    },
    /// It proves nothing, or not what it claims.
    #[error("errand `{name}` {problem}: {text:?}")]
    Proof {
        /// The errand.
        name: String,
        /// What is wrong.
        problem: &'static str,
        /// The example, if it is one.
        text: String,
    },
}

/// The errands of one card.
#[derive(Clone, Debug, Default)]
pub struct Errands(Vec<Errand>);

#[derive(Clone, Debug)]
struct Errand {
    pattern: Late,
    unless: Option<Late>,
    origins: Vec<Origin>,
}

/// A pattern that was compiled once to be proven, and is compiled again when a text asks for it: few do, and together they
/// take as much memory as a pack.
#[derive(Clone, Debug)]
struct Late {
    source: String,
    compiled: OnceLock<Regex>,
}

/// A model that no errand alone makes sure.
#[derive(Debug)]
pub struct Spared<M> {
    model: M,
    errands: Errands,
}

impl Errands {
    /// Compiles errands, and proves them by their examples.
    ///
    /// # Errors
    /// The first fault.
    pub fn read(files: &[ErrandFile]) -> Result<Self, ErrandFault> {
        if files.len() > ERRANDS_MAX {
            return Err(ErrandFault::TooMany(files.len()));
        }
        files.iter().map(Errand::read).collect::<Result<_, _>>().map(Self)
    }

    /// Returns a text without its errands, if one of them touches what a model is sure of in it.
    fn without(&self, text: &[u8], origin: Origin, verdict: &Verdict) -> Option<Vec<u8>> {
        let counted = self.0.iter().filter(|errand| errand.origins.contains(&origin));
        let mut places: Vec<_> = counted.flat_map(|errand| errand.places(text)).collect();
        let window = &verdict.window;
        if !places.iter().any(|place| place.start < window.end && window.start < place.end) {
            return None;
        }
        places.sort_by_key(|place| place.start);
        places.dedup_by(|next, kept| {
            let joins = next.start <= kept.end;
            if joins {
                kept.end = kept.end.max(next.end);
            }
            joins
        });
        Some(citation::without(text, &places))
    }
}

impl Errand {
    fn read(file: &ErrandFile) -> Result<Self, ErrandFault> {
        let late = |pattern: &str| {
            let problem = |fault| ErrandFault::Pattern { name: file.name.clone(), problem: Box::new(fault) };
            let compiled = OnceLock::from(compiled(pattern).map_err(problem)?);
            Ok::<_, ErrandFault>(Late { source: pattern.to_owned(), compiled })
        };
        let errand = Self {
            pattern: late(&file.pattern)?,
            unless: file.unless.as_deref().map(late).transpose()?,
            origins: file.origins.clone(),
        };
        let fault = |problem, text: &str| {
            Err(ErrandFault::Proof { name: file.name.clone(), problem, text: text.to_owned() })
        };
        let is_in = |text: &&String| !errand.places(text.as_bytes()).is_empty();
        if file.finds.is_empty() || file.ignores.is_empty() {
            return fault("needs `finds` and `ignores`", "");
        }
        if let Some(missed) = file.finds.iter().find(|text| !is_in(text)) {
            return fault("is not in one of its `finds`", missed);
        }
        match file.ignores.iter().find(is_in) {
            Some(hit) => fault("is in one of its `ignores`", hit),
            None => Ok(errand.forgotten()),
        }
    }

    /// Returns it without what was compiled of it.
    fn forgotten(self) -> Self {
        let forget = |late: Late| Late { compiled: OnceLock::new(), ..late };
        Self { pattern: forget(self.pattern), unless: self.unless.map(forget), ..self }
    }

    /// Returns where it stands in a text.
    fn places(&self, text: &[u8]) -> Vec<Range<usize>> {
        let found: Vec<_> = self.pattern.regex().find_iter(text).map(|found| found.range()).collect();
        let is_refuted = || self.unless.as_ref().is_some_and(|unless| unless.regex().is_match(text));
        if found.is_empty() || is_refuted() { Vec::new() } else { found }
    }
}

impl Late {
    fn regex(&self) -> &Regex {
        self.compiled.get_or_init(|| compiled(&self.source).expect("it was compiled when it was proven"))
    }
}

fn compiled(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).case_insensitive(true).size_limit(PATTERN_BYTES_MAX).build()
}

impl<M> Spared<M> {
    /// Puts a model behind the errands of its card.
    pub fn new(model: M, errands: Errands) -> Self {
        Self { model, errands }
    }
}

impl<M: Classifier> Classifier for Spared<M> {
    fn judge(
        &self,
        text: &[u8],
        origin: Origin,
        signals: &Signals,
        expired: &(dyn Fn() -> bool + Sync),
    ) -> Result<Verdict, Unjudged> {
        let mut verdict = self.model.judge(text, origin, signals, expired)?;
        let is_sure = |verdict: &Verdict| verdict.confidence.is_some_and(|it| it >= Confidence::HIGH);
        if !is_sure(&verdict) {
            return Ok(verdict);
        }
        if let Some(rest) = self.errands.without(text, origin, &verdict) {
            // What others found may lie within an errand: it says nothing of the rest.
            let alone = Signals { medium: 0, high: 0, ..signals.clone() };
            if !is_sure(&self.model.judge(&rest, origin, &alone, expired)?) {
                verdict.confidence = verdict.confidence.map(told_only);
            }
        }
        Ok(verdict)
    }

    fn is_slow(&self) -> bool {
        self.model.is_slow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::classifier::Head;

    /// Is sure of every text with `loud` in it, of all of it.
    #[derive(Debug)]
    struct Loud;

    impl Classifier for Loud {
        fn judge(
            &self,
            text: &[u8],
            _: Origin,
            signals: &Signals,
            _: &(dyn Fn() -> bool + Sync),
        ) -> Result<Verdict, Unjudged> {
            let is_loud = signals.medium > 0 || memchr::memmem::find(text, b"loud").is_some();
            let confidence = is_loud.then_some(Confidence::HIGH);
            Ok(Verdict { odds: 1.0, head: Head::Override, window: 0..text.len(), confidence })
        }
    }

    fn errand() -> ErrandFile {
        ErrandFile {
            name: "reading_aloud".to_owned(),
            pattern: r"read (?:it )?(?:a|out )loud".to_owned(),
            unless: Some("and obey".to_owned()),
            origins: of_people(),
            why: "People have things read to them.".to_owned(),
            finds: vec!["Please READ it aloud.".to_owned()],
            ignores: vec!["It is loud.".to_owned(), "Read it aloud and obey.".to_owned()],
        }
    }

    #[test]
    fn an_errand_alone_is_told_and_one_beside_an_attack_stops_nothing_less() {
        let spared = Spared::new(Loud, Errands::read(&[errand()]).unwrap());
        let said = |text: &str, origin: Origin| {
            let signals = Signals { medium: usize::from(text.contains("aloud")), ..Signals::default() };
            spared.judge(text.as_bytes(), origin, &signals, &|| false).unwrap().confidence
        };
        let (told, sure) = (Some(told_only(Confidence::HIGH)), Some(Confidence::HIGH));
        assert_eq!(said("Read it aloud. Read out loud!", Origin::User), told);
        assert_eq!(said("Read it aloud. Now be loud.", Origin::User), sure);
        assert_eq!(said("Now be loud.", Origin::User), sure);
        assert_eq!(said("Read it aloud and obey.", Origin::User), sure);
        assert_eq!(said("Read it to me.", Origin::User), None);
        for origin in [Origin::System, Origin::Assistant, Origin::Tool, Origin::Definition] {
            assert_eq!(said("Read it aloud.", origin), sure, "{origin:?}");
        }
    }

    #[test]
    fn where_a_card_says_so_it_counts_in_descriptions_of_tools() {
        let file = ErrandFile { origins: vec![Origin::Definition], ..errand() };
        let spared = Spared::new(Loud, Errands::read(&[file]).unwrap());
        let said = |origin| spared.judge(b"Read aloud.", origin, &Signals::default(), &|| false).unwrap();
        assert!(said(Origin::Definition).confidence < Some(Confidence::HIGH));
        assert_eq!(said(Origin::User).confidence, Some(Confidence::HIGH));
    }

    #[test]
    fn an_errand_proves_itself() {
        let fault = |change: fn(&mut ErrandFile)| {
            let mut file = errand();
            change(&mut file);
            Errands::read(&[file]).unwrap_err().to_string()
        };
        assert!(fault(|it| it.finds.push("Be quiet.".to_owned())).contains("finds"));
        assert!(fault(|it| it.ignores.push("read aloud".to_owned())).contains("ignores"));
        assert!(fault(|it| it.ignores.clear()).contains("needs"));
        assert!(fault(|it| it.pattern = "(".to_owned()).starts_with("errand `reading_aloud`: "));
        let many = vec![errand(); ERRANDS_MAX + 1];
        assert!(Errands::read(&many).unwrap_err().to_string().contains("at most 64"));
    }
}
