//! Allow-lists: what an operator has looked at and lets through.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use regex::bytes::Regex;
use regex::bytes::RegexBuilder;
use sha2::Digest;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::document::Problem;
use crate::document::section::Section;
use crate::policy::decision::CallerId;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;

/// The most bytes a compiled pattern may take.
const PATTERN_COMPILED_BYTES_MAX: usize = 1 << 20;

/// One entry of an allow-list as it was written.
#[derive(Clone, Debug)]
pub struct AllowFile {
    /// What is let through.
    pub subject: Subject,
    /// The types of the detectors it is about; empty for all.
    pub detectors: Vec<String>,
    /// From when on the entry counts no more.
    pub expires: Option<Timestamp>,
    /// Why.
    pub reason: String,
}

/// One entry of an allow-list.
#[derive(Clone, Debug)]
pub struct Allowance {
    /// What is let through.
    pub subject: Subject,
    /// For which detectors; `None` for all.
    pub detectors: Option<DetectorSet>,
    /// From when on the entry counts no more.
    pub expires: Option<Timestamp>,
    /// Why, for whoever reads the policy next year.
    pub reason: String,
}

/// What an allow-list entry looks at.
#[derive(Clone)]
pub enum Subject {
    /// The matched value, kept as its SHA-256, so that a secret stays out of memory and of logs.
    Value([u8; 32]),
    /// The whole matched value, by a pattern that is anchored at both ends.
    Pattern(Regex),
    /// Whoever sent the request.
    Caller(CallerId),
}

impl AllowFile {
    /// Reads an entry: exactly one of `value`, `sha256`, `regex` and `caller`, and perhaps
    /// `detectors`, `expires` and `reason`. `None` if it is faulty.
    pub fn read(section: &mut Section<'_>) -> Option<Self> {
        let subject = read_subject(section);
        let detectors = section.texts("detectors").into_iter().map(str::to_owned).collect();
        let expires = read_expiry(section);
        let reason = section.text_maybe("reason").unwrap_or_default().to_owned();
        section.finish();
        Some(Self { subject: subject?, detectors, expires, reason })
    }

    /// Returns the entry for the detectors that its names stand for.
    pub(crate) fn compile(&self, detectors: DetectorSet) -> Allowance {
        Allowance {
            subject: self.subject.clone(),
            detectors: (!self.detectors.is_empty()).then_some(detectors),
            expires: self.expires,
            reason: self.reason.clone(),
        }
    }
}

impl PartialEq for AllowFile {
    fn eq(&self, other: &Self) -> bool {
        let subjects = self.subject == other.subject;
        subjects
            && (&self.detectors, self.expires, &self.reason)
                == (&other.detectors, other.expires, &other.reason)
    }
}

impl Eq for AllowFile {}

impl Allowance {
    /// Tells whether a finding is let through at `now`.
    pub fn excuses(
        &self,
        detector: DetectorId,
        value: &[u8],
        caller: Option<&CallerId>,
        now: Timestamp,
    ) -> bool {
        let in_time = self.expires.is_none_or(|expires| now < expires);
        let in_scope = self.detectors.as_ref().is_none_or(|set| set.contains(detector));
        in_time && in_scope && self.subject.fits(value, caller)
    }
}

impl Subject {
    /// Returns the subject for one exact value.
    pub fn value(value: &[u8]) -> Self {
        Self::Value(Sha256::digest(value).into())
    }

    /// Returns the subject for the values that a pattern fits as a whole.
    ///
    /// # Errors
    ///
    /// What is wrong with the pattern.
    pub fn pattern(pattern: &str) -> Result<Self, Box<regex::Error>> {
        let whole = format!(r"\A(?:{pattern})\z");
        let compiled = RegexBuilder::new(&whole).size_limit(PATTERN_COMPILED_BYTES_MAX).build();
        compiled.map(Self::Pattern).map_err(Box::new)
    }

    fn fits(&self, value: &[u8], caller: Option<&CallerId>) -> bool {
        match self {
            Self::Value(expected) => {
                let digest: [u8; 32] = Sha256::digest(value).into();
                digest.ct_eq(expected).into()
            }
            Self::Pattern(pattern) => pattern.is_match(value),
            Self::Caller(expected) => caller == Some(expected),
        }
    }
}

impl PartialEq for Subject {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Value(one), Self::Value(two)) => one == two,
            (Self::Pattern(one), Self::Pattern(two)) => one.as_str() == two.as_str(),
            (Self::Caller(one), Self::Caller(two)) => one == two,
            (Self::Value(_) | Self::Pattern(_) | Self::Caller(_), _) => false,
        }
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(_) => f.write_str("Value(***)"),
            Self::Pattern(_) => f.write_str("Pattern(***)"),
            Self::Caller(caller) => write!(f, "Caller({caller})"),
        }
    }
}

fn read_subject(section: &mut Section<'_>) -> Option<Subject> {
    let value = section.text_maybe("value");
    let digest = section.text_maybe("sha256");
    let pattern = section.text_maybe("regex");
    let caller = section.text_maybe("caller");
    let given = [value, digest, pattern, caller].into_iter().flatten().count();
    if given != 1 {
        section.invalid("", "expected exactly one of value, sha256, regex and caller", None);
        return None;
    }
    if let Some(text) = digest {
        let bytes = digest_of_hex(text);
        if bytes.is_none() {
            section.invalid("sha256", "expected 64 hexadecimal digits", None);
        }
        return bytes.map(Subject::Value);
    }
    if let Some(text) = pattern {
        let compiled = Subject::pattern(text);
        if compiled.is_err() {
            section.invalid("regex", "not a regular expression, or too large a one", None);
        }
        return compiled.ok();
    }
    let named = caller.filter(|name| !name.is_empty()).map(|name| Subject::Caller(CallerId::new(name)));
    let exact = value.filter(|value| !value.is_empty()).map(|value| Subject::value(value.as_bytes()));
    let subject = named.or(exact);
    if subject.is_none() {
        section.fault("", Problem::Missing);
    }
    subject
}

/// Reads a moment; a date counts until its end in UTC.
fn read_expiry(section: &mut Section<'_>) -> Option<Timestamp> {
    let text = section.text_maybe("expires")?;
    let end_of = |date: Date| date.tomorrow().ok()?.to_zoned(TimeZone::UTC).ok().map(|day| day.timestamp());
    let moment = text.parse().ok().or_else(|| text.parse().ok().and_then(end_of));
    if moment.is_none() {
        section.invalid("expires", "expected a date (2027-01-31) or a moment (2027-01-31T12:00:00Z)", None);
    }
    moment
}

fn digest_of_hex(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if text.len() != 2 * digest.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}
