//! The scanner as it ships: three layers, asked one by one and together.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use portcullis::scan::classifier::Origin;
use portcullis::scan::classifier::Signals;
use portcullis::scan::classifier::Spellings;
use portcullis::scan::classifier::reading;
use portcullis::scan::classifier::shelf::Shelf;
use portcullis::scan::pack;
use portcullis::scan::rule::Rules;
use portcullis::scan::scanner::Scanner;
use portcullis::scan::spelling::Searched;
use portcullis::scan::tagger::reading::Span;
use portcullis::scan::threat::Category;
use portcullis::scan::threat::Confidence;
use portcullis::scan::threat::DetectorId;
use portcullis::scan::threat::DetectorSet;
use portcullis::scan::threat::Finding;

/// Everything that looks at a text.
pub struct Layers {
    /// Layer 1.
    pub scanner: Arc<Scanner>,
    /// Layer 2.
    pub rules: Arc<Rules>,
    /// Layer 3.
    pub shelf: Arc<Shelf>,
    all: DetectorSet,
}

/// The layers from the first up to each.
pub const STACKS: [&str; 3] = ["l1", "l1 + l2", "l1 + l2 + l3"];

/// How sure each layer is that a text is an attack; nothing where it does not report it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Patterns.
    pub layer1: Option<Confidence>,
    /// Rules over what patterns and the model found.
    pub layer2: Option<Confidence>,
    /// Rules over what patterns alone found.
    pub layer2_alone: Option<Confidence>,
    /// The model.
    pub layer3: Option<Confidence>,
    /// Patterns of secrets, which is another matter.
    pub secret: Option<Confidence>,
}

/// What some of the layers make of a text.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// Whether the default policy stops it.
    pub blocked: bool,
    /// Whether anything is reported.
    pub told: bool,
}

impl Layers {
    /// Compiles what is built in, with the models as they are in this tree.
    pub fn shipped() -> Result<Self, Box<dyn Error>> {
        let told = |faults: Vec<String>| faults.join("\n");
        let packs = pack::builtin().map_err(|it| told(it.iter().map(ToString::to_string).collect()))?;
        let scanner =
            Scanner::compile(packs).map_err(|it| told(it.iter().map(ToString::to_string).collect()))?;
        let names: Vec<&str> = scanner.detectors().iter().map(|detector| detector.name.as_str()).collect();
        let (models, faults) = pack::read_models(Path::new("plugins"));
        if !faults.is_empty() {
            return Err(told(faults.iter().map(ToString::to_string).collect()).into());
        }
        let shelf =
            Shelf::read(models, &names).map_err(|it| told(it.iter().map(ToString::to_string).collect()))?;
        let rules = Rules::compile_beside(pack::builtin_rules(), scanner.detectors(), shelf.kinds())
            .map_err(|it| told(it.iter().map(ToString::to_string).collect()))?;
        let all = scanner.all().iter().chain(shelf.ids()).chain(rules.ids()).collect();
        Ok(Self { scanner: Arc::new(scanner), rules: Arc::new(rules), shelf: Arc::new(shelf), all })
    }

    /// Returns what patterns find; a text that cannot be judged has nothing.
    pub fn patterns(&self, text: &str) -> Vec<Finding> {
        self.scanner.scan(text.as_bytes(), &self.all).unwrap_or_default()
    }

    /// Returns what the model finds in a text in which patterns found `seen`, and in its other spellings.
    pub fn learned(
        &self,
        text: &str,
        origin: Origin,
        seen: &[Finding],
        spellings: Spellings,
    ) -> Option<Finding> {
        let found = Signals::of(seen, |id| self.scanner.detector(id).map(|it| it.category));
        let signals = Signals { spellings, ..found };
        self.shelf.find(text.as_bytes(), origin, &signals, &self.all, &|| false).ok()?
    }

    /// Returns what the tagger finds.
    pub fn names(&self, text: &str) -> Vec<Span> {
        let names = self.shelf.tagger(&self.all);
        names.map(|names| names.tagger.find(text.as_bytes())).unwrap_or_default()
    }

    /// Returns what rules find over other findings.
    pub fn ruled(&self, text: &str, seen: &[Finding]) -> Vec<Finding> {
        self.rules.over(text.as_bytes(), seen, &self.all)
    }

    /// Returns what a finding is about.
    pub fn category(&self, id: DetectorId) -> Option<Category> {
        let learned = || self.shelf.kind(id).map(|kind| kind.category);
        let rule = || self.rules.rule(id).map(|rule| rule.category);
        self.scanner.detector(id).map(|it| it.category).or_else(learned).or_else(rule)
    }

    /// Returns what patterns find in a text of a request, however it is spelt, and its other spellings.
    pub fn spelt(&self, text: &str) -> Searched {
        let nothing = || Searched { findings: Vec::new(), spellings: Spellings::All };
        self.scanner.scan_spelt(text.as_bytes(), &self.all).unwrap_or_else(|_| nothing())
    }

    /// Returns the log odds that the model gives a text, with what patterns find in it added; a text it does not judge
    /// has the least there are.
    pub fn odds(&self, text: &str, origin: Origin) -> f32 {
        let Searched { findings, spellings } = self.spelt(text);
        let found = Signals::of(&findings, |id| self.scanner.detector(id).map(|it| it.category));
        let signals = Signals { spellings, ..found };
        let judged = self.shelf.model(None).and_then(|model| {
            reading::judge(model, text.as_bytes(), origin, &signals, &|| false).ok().flatten()
        });
        judged.map_or(f32::NEG_INFINITY, |told| told.verdict.odds)
    }

    /// Asks all layers whether a text of a request is an attack, however it is spelt.
    pub fn outcome(&self, text: &str, origin: Origin) -> Outcome {
        let Searched { mut findings, spellings } = self.spelt(text);
        let layer1 = self.surest(&findings, Category::Injection);
        let secret = self.surest(&findings, Category::Secrets);
        let layer2_alone = self.surest(&self.ruled(text, &findings), Category::Injection);
        let learned = self.learned(text, origin, &findings, spellings);
        let layer3 = learned.as_ref().map(|finding| finding.confidence);
        findings.extend(learned);
        let layer2 = self.surest(&self.ruled(text, &findings), Category::Injection);
        Outcome { layer1, layer2, layer2_alone, layer3, secret }
    }

    fn surest(&self, findings: &[Finding], category: Category) -> Option<Confidence> {
        let about = findings.iter().filter(|it| self.category(it.detector) == Some(category));
        about.map(|finding| finding.confidence).max()
    }
}

impl Outcome {
    /// Tells whether the default policy stops the text as an attack.
    pub fn blocked(self) -> bool {
        Verdict::of(&[self.layer1, self.layer2, self.layer3]).blocked
    }

    /// Tells whether anything is reported.
    pub fn told(self) -> bool {
        Verdict::of(&[self.layer1, self.layer2, self.layer3]).told
    }

    /// Tells whether the default policy stops a request for the text: as an attack, or for a secret.
    pub fn refused(self) -> bool {
        self.blocked() || self.secret.is_some_and(|it| it >= Confidence::MEDIUM)
    }

    /// Returns what the layers up to each make of it, in the order of [`STACKS`].
    pub fn stacks(self) -> [Verdict; STACKS.len()] {
        [
            Verdict::of(&[self.layer1]),
            Verdict::of(&[self.layer1, self.layer2_alone]),
            Verdict::of(&[self.layer1, self.layer2, self.layer3]),
        ]
    }
}

impl Verdict {
    fn of(layers: &[Option<Confidence>]) -> Self {
        let surest = layers.iter().flatten().max();
        let reaches = |least: Confidence| surest.is_some_and(|it| *it >= least);
        Self { blocked: reaches(Confidence::HIGH), told: reaches(Confidence::MEDIUM) }
    }
}
