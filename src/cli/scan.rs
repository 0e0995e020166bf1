//! `portcullis scan`: what the packs find in files, as a table or as JSON. Of a document (PDF, office file, archive) the texts
//! are scanned, each on its own. A text of up to 8 MiB is read as one that a message brings: its other spellings, and its
//! tables by their columns. Of a longer one what is there as it stands is found, piece by piece.

use std::fs::File;
use std::io;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::Value;
use serde_json::json;

use super::EXIT_FINDINGS;
use super::complain;
use super::progress::Progress;
use super::say;
use crate::app::compiled::CompiledFolder;
use crate::attachment;
use crate::attachment::Bounds;
use crate::attachment::Form;
use crate::attachment::Unread;
use crate::llm::media::Media;
use crate::redact::mask;
use crate::scan::classifier::Origin;
use crate::scan::classifier::Signals;
use crate::scan::classifier::Spellings;
use crate::scan::classifier::shelf::Shelf;
use crate::scan::kind::Kind;
use crate::scan::pack;
use crate::scan::scanner::ScanFault;
use crate::scan::scanner::Scanner;
use crate::scan::tagger::reading::Reading;
use crate::scan::tagger::reading::Span;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Finding;

/// Files are read and scanned in pieces of this size, each with [`OVERLAP_BYTES`] of the one before.
const PIECE_BYTES: usize = 8 << 20;
/// No match is wider, so one that lies on a border is whole in one of the two pieces.
const OVERLAP_BYTES: usize = 256 << 10;
/// Why a text in wide characters is not read: nothing would be found in it.
const WIDE: &str = "it is UTF-16 or UTF-32, which is not read; convert it to UTF-8 first (iconv)";
/// How large a document may be, and how much of it is read.
const DOCUMENT_BYTES_MAX: u64 = 256 << 20;
const DOCUMENT_BOUNDS: Bounds = Bounds {
    text_bytes_max: 64 << 20,
    expanded_bytes_max: 1 << 30,
    entries_max: 100_000,
    objects_max: 1_000_000,
    depth_max: 8,
};

/// What to scan and how to tell.
#[derive(Debug, Args)]
pub struct ScanArguments {
    /// Files; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one JSON object for each finding.
    #[arg(long)]
    json: bool,
    /// Look for names of people, addresses, places and organisations, too.
    #[arg(long)]
    names: bool,
    /// A folder of packs to lay over the built-in ones.
    #[arg(long, value_name = "FOLDER", default_value = "plugins")]
    plugins: PathBuf,
    /// A folder to keep compiled patterns in: the next scan begins at once. A gateway's is `STATE/compiled`.
    #[arg(long, value_name = "FOLDER", env = "PORTCULLIS__PLUGINS__COMPILED_PATH")]
    compiled: Option<PathBuf>,
}

/// Scans, prints, and tells by the exit code whether anything was found.
pub fn run(arguments: &ScanArguments) -> ExitCode {
    let (scanner, shelf) = match compile(&arguments.plugins, arguments.compiled.as_deref()) {
        Ok(compiled) => compiled,
        Err(faults) => {
            faults.iter().for_each(|fault| complain(fault));
            return ExitCode::from(super::EXIT_CONFIG);
        }
    };
    let mut report = Report {
        file: Path::new(""),
        part: None,
        json: arguments.json,
        scanner: &scanner,
        shelf: &shelf,
        names: arguments.names,
        reading: Reading::default(),
        line: 1,
        found: 0,
        progress: Progress::begin(),
    };
    let mut read = 0;
    for file in &arguments.files {
        report.begin(file);
        let scanned = scan(file, &mut report);
        report.progress.clear();
        match scanned {
            Ok(()) => read += 1,
            Err(error) => complain(&format!("{}: {error}", file.display())),
        }
    }
    let found = report.found;
    if !arguments.json {
        say(&format!("{} in {}", counted(found, "finding"), counted(read, "input")));
    }
    match found {
        _ if read < arguments.files.len() => ExitCode::FAILURE,
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(EXIT_FINDINGS),
    }
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn compile(plugins: &Path, compiled: Option<&Path>) -> Result<(Scanner, Shelf), Vec<String>> {
    let told = |faults: Vec<pack::PackFault>| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
    let detectors = Arc::new(pack::load_dir(plugins).map_err(told)?);
    let scanner = match compiled.map(|folder| CompiledFolder::new(folder.to_owned())) {
        Some(folder) => Scanner::compile_cached(detectors, &folder),
        None => Scanner::compile(detectors),
    };
    let scanner = scanner.map_err(told)?;
    let (models, unreadable) = pack::read_models(plugins);
    if !unreadable.is_empty() {
        return Err(told(unreadable));
    }
    let names: Vec<&str> = scanner.detectors().iter().map(|detector| detector.name.as_str()).collect();
    let shelf = Shelf::read(models, &names)
        .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    Ok((scanner, shelf))
}

/// Findings on their way out, one input after the other.
struct Report<'a> {
    file: &'a Path,
    /// The part of a document that is scanned.
    part: Option<String>,
    json: bool,
    scanner: &'a Scanner,
    shelf: &'a Shelf,
    /// Whether names are looked for, too.
    names: bool,
    /// The tagger at the file: it reads on over the borders of pieces.
    reading: Reading,
    /// The line that the piece in hand begins on.
    line: usize,
    /// In all inputs.
    found: usize,
    progress: Progress,
}

fn scan(file: &Path, report: &mut Report<'_>) -> io::Result<()> {
    let (mut input, length): (Box<dyn Read>, Option<u64>) = match file.to_str() {
        Some("-") => (Box::new(io::stdin().lock()), None),
        _ => {
            let opened = File::open(file)?;
            let length = opened.metadata().ok().filter(|metadata| metadata.is_file());
            (Box::new(opened), length.map(|metadata| metadata.len()))
        }
    };
    let kinds = report.shelf.ids().zip(report.shelf.kinds());
    let kinds = kinds.filter(|(_, kind)| report.names || !kind.is_named_only()).map(|(id, _)| id);
    let wanted = report.scanner.all().iter().chain(kinds).collect();
    let (mut text, mut base) = (Vec::new(), 0usize);
    let (mut judged_to, mut unread) = (0, None);
    loop {
        let before = text.len();
        let read = input.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut text)?;
        let is_last = read < PIECE_BYTES;
        if base + before == 0 {
            if Media::looks_wide(&text) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, WIDE));
            }
            let (form, is_binary) =
                (Form::of(&text, if is_last { &text } else { &[] }), Media::looks_binary(&text));
            if let Some(form) = form.filter(|_| is_last || is_binary) {
                input.by_ref().take(DOCUMENT_BYTES_MAX).read_to_end(&mut text)?;
                // A text that only speaks of a format is read as it stands.
                unread = report.document(&text, form, &wanted)?.filter(|_| is_binary);
                // What could not be read as what it is may show something as it stands.
                if is_binary && (unread.is_none() || !is_last) {
                    return whole(unread);
                }
            }
        }
        let until =
            if is_last { text.len() } else { text.len().saturating_sub(OVERLAP_BYTES).max(before / 2) };
        report.piece(&text, judged_to..until, (base, is_last), &wanted)?;
        if is_last {
            return whole(unread);
        }
        let kept_from = until.saturating_sub(OVERLAP_BYTES);
        report.line += memchr::memchr_iter(b'\n', &text[..kept_from]).count();
        text.drain(..kept_from);
        base += kept_from;
        judged_to = until - kept_from;
        report.progress.tell(file, (base + text.len()) as u64, length);
    }
}

/// Tells of a document that was not read as a whole.
fn whole(unread: Option<Unread>) -> io::Result<()> {
    unread.map_or(Ok(()), |unread| Err(io::Error::new(io::ErrorKind::InvalidData, unread)))
}

impl<'a> Report<'a> {
    fn begin(&mut self, file: &'a Path) {
        self.file = file;
        self.begin_part(None);
    }

    fn begin_part(&mut self, part: Option<String>) {
        self.part = part;
        self.line = 1;
        self.reading = Reading::default();
    }

    /// Scans the texts of a document; returns why that is not all of it, if it is not.
    fn document(&mut self, file: &[u8], form: Form, wanted: &DetectorSet) -> io::Result<Option<Unread>> {
        let read = attachment::read(file, form, &DOCUMENT_BOUNDS, &|| false);
        for part in read.parts {
            self.begin_part(Some(part.place));
            self.piece(part.text.as_bytes(), 0..part.text.len(), (0, true), wanted)?;
        }
        self.begin_part(None);
        Ok(read.unread)
    }

    fn piece(
        &mut self,
        text: &[u8],
        region: std::ops::Range<usize>,
        (base, is_last): (usize, bool),
        wanted: &DetectorSet,
    ) -> io::Result<()> {
        let is_whole = is_last && region == (0..text.len());
        let mut findings = self.found(text, region.clone(), is_whole, wanted)?;
        findings.extend(self.learned(text, region.clone(), &findings, wanted)?);
        findings.extend(self.named(text, region, (base, is_last), wanted));
        findings.sort_by_key(|finding| (finding.value.start, finding.detector));
        let (mut at, mut line) = (0, self.line);
        for finding in &findings {
            // A match may begin before another one and have its value behind that of the other.
            let start = finding.value.start;
            let lines = memchr::memchr_iter(b'\n', &text[at.min(start)..at.max(start)]).count();
            line = if start >= at { line + lines } else { line - lines };
            at = start;
            self.tell(finding, line, base, &text[finding.value.clone()]);
        }
        Ok(())
    }

    /// Returns what the detectors find in a region of the text. What hides more than a look may decode is read as it stands,
    /// which is told.
    fn found(
        &self,
        text: &[u8],
        region: std::ops::Range<usize>,
        is_whole: bool,
        wanted: &DetectorSet,
    ) -> io::Result<Vec<Finding>> {
        let spelt = is_whole.then(|| self.scanner.scan_spelt(text, wanted));
        match spelt {
            Some(Ok(searched)) => return Ok(searched.findings),
            Some(Err(fault @ ScanFault::TooMuchDecoded)) => {
                self.progress.clear();
                complain(&format!("{}: {fault}; only what stands there is found", self.file.display()));
            }
            None => {}
            Some(Err(fault)) => return Err(io::Error::other(fault)),
        }
        let mut findings = Vec::new();
        self.scanner.scan_region(text, region, wanted, &mut findings).map_err(io::Error::other)?;
        Ok(findings)
    }

    /// Returns what the model finds in a region of the text.
    fn learned(
        &self,
        text: &[u8],
        region: std::ops::Range<usize>,
        seen: &[Finding],
        wanted: &DetectorSet,
    ) -> io::Result<Option<Finding>> {
        let category = |id| self.scanner.detector(id).map(|detector| detector.category);
        let part = text.get(region.clone()).unwrap_or_default();
        let signals = Signals { spellings: Spellings::All, ..Signals::of(seen, category) };
        let found = self.shelf.find(part, Origin::User, &signals, wanted, &|| false);
        let Some(mut finding) = found.map_err(io::Error::other)? else { return Ok(None) };
        for range in [&mut finding.span, &mut finding.value] {
            *range = range.start + region.start..range.end + region.start;
        }
        Ok(Some(finding))
    }

    /// Returns the names that are over with a region of the text; they may have begun before it.
    fn named(
        &mut self,
        text: &[u8],
        region: std::ops::Range<usize>,
        (base, is_last): (usize, bool),
        wanted: &DetectorSet,
    ) -> Vec<Finding> {
        let Some(names) = self.shelf.tagger(wanted) else { return Vec::new() };
        let mut spans = Vec::new();
        self.reading.push(names.tagger, text.get(region).unwrap_or_default(), &mut spans);
        if is_last {
            self.reading.finish(names.tagger, &mut spans);
        }
        for Span { range, .. } in &mut spans {
            *range = range.start.saturating_sub(base)..range.end.saturating_sub(base);
        }
        names.findings(spans, self.reading.undoes_escapes(), |range| text.get(range))
    }

    fn tell(&mut self, finding: &Finding, line: usize, base: usize, value: &[u8]) {
        let learned = || self.shelf.kind(finding.detector).map(Kind::from);
        let known = self.scanner.detector(finding.detector).map(Kind::from).or_else(learned);
        let Some(detector) = known else { return };
        let sample = mask::sample(value);
        self.progress.clear();
        if self.json {
            let decoded_from = finding.decoded_from.to_string();
            let finding: Value = json!({
                "file": self.file.display().to_string(),
                "part": self.part,
                "line": line,
                "start": finding.value.start + base,
                "end": finding.value.end + base,
                "category": detector.category.as_str(),
                "type": detector.name,
                "severity": detector.severity.as_str(),
                "confidence": finding.confidence.as_unit(),
                "redacted_match": sample,
                "decoded_from": (!decoded_from.is_empty()).then_some(decoded_from),
            });
            say(&finding.to_string());
        } else {
            if self.found == 0 {
                say(&row("PLACE", "SEVERITY", "CATEGORY", "TYPE", "VALUE"));
            }
            let part = self.part.iter().map(|part| format!(" {part}:")).collect::<String>();
            let place = format!("{}:{part}{line}", self.file.display());
            let (severity, category) = (detector.severity.as_str(), detector.category.as_str());
            let value = match finding.decoded_from.to_string() {
                plain if plain.is_empty() => sample,
                encoding => format!("{sample} ({encoding})"),
            };
            say(&row(&place, severity, category, detector.name, &value));
        }
        self.found += 1;
    }
}

fn row(place: &str, severity: &str, category: &str, name: &str, value: &str) -> String {
    format!("{place:<32} {severity:<8} {category:<12} {name:<32} {value}")
}
