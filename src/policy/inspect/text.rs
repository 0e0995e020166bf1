//! One text after another: scanned, judged, and its masks noted as edits of the body.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

use bytes::Bytes;
use serde::de::IgnoredAny;

use super::Inspection;
use super::Inspector;
use super::Observation;
use super::Unreadable;
use super::attached::Attachments;
use super::layer2::Gathered;
use super::layer3;
use super::names;
use super::prompt;
use super::prompt::Prompt;
use super::quoted;
use super::shadow::Foreseen;
use crate::llm::dialect::Channel;
use crate::llm::json;
use crate::llm::usage::Usage;
use crate::policy::decision::Action;
use crate::policy::decision::Cleared;
use crate::policy::decision::Direction;
use crate::redact::mask;
use crate::redact::nested::Nested;
use crate::redact::nested::Origin;
use crate::redact::restore;
use crate::redact::restore::Inside;
use crate::redact::splice::Edit;
use crate::redact::splice::override_with;
use crate::redact::splice::splice;
use crate::redact::token::Vault;
use crate::scan::classifier::Spellings;
use crate::scan::scanner::ScanFault;
use crate::scan::spelling::Searched;
use crate::scan::threat::Category;
use crate::scan::threat::Confidence;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Finding;

/// A body's findings and edits as they gather.
pub struct Sheet<'a, 'v> {
    pub(super) inspector: &'a Inspector<'a>,
    pub(super) usage: Usage,
    /// How many bytes were declared to hold no text, and hold none.
    pub(super) opaque_bytes: usize,
    pub(super) prompt: Prompt,
    pub(super) attachments: Attachments,
    vault: &'v mut Vault,
    wanted: Cow<'a, DetectorSet>,
    observations: Vec<Observation>,
    pub(super) edits: Vec<Edit>,
    shadow: Foreseen,
    gathered: Gathered,
    /// How many findings there were, whatever is done about them.
    pub(super) found: usize,
}

/// What replaces some bytes of a text.
#[derive(Clone, PartialEq, Eq)]
pub struct Masked {
    /// The bytes that go.
    pub range: Range<usize>,
    /// What stands there instead, as text that is not escaped yet.
    pub text: String,
    /// Whether it hides a value or puts one back.
    pub origin: Origin,
}

/// What a text is written in, and so how its masks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// As it is.
    Plain,
    /// Inside a JSON string.
    Json,
    /// As a JSON number.
    Number,
    /// In the data lines of an event.
    Lines,
}

impl Written {
    /// Returns a mask as it stands in the body.
    pub fn write(self, text: &str) -> Vec<u8> {
        match self {
            Self::Plain | Self::Number => text.as_bytes().to_vec(),
            Self::Lines => text.replace("\r\n", "\n").replace(['\r', '\n'], "\ndata: ").into_bytes(),
            Self::Json => json::escaped(text),
        }
    }
}

impl Masked {
    /// Returns a value that is put back where its placeholder stood.
    pub fn restored((range, text): (Range<usize>, String)) -> Self {
        Self { range, text, origin: Origin::Restored }
    }

    /// Returns it as a text of JSON takes it.
    pub fn placed(&self) -> (Range<usize>, &str, Origin) {
        (self.range.clone(), &self.text, self.origin)
    }
}

impl<'a, 'v> Sheet<'a, 'v> {
    /// Returns an empty sheet.
    pub fn new(inspector: &'a Inspector<'a>, vault: &'v mut Vault) -> Self {
        let shadow = inspector.shadow().map_or_else(Foreseen::default, |_| Foreseen::nothing());
        let wanted = Cow::Borrowed(inspector.policy.looked_for(inspector.judged()));
        let usage = Usage::default();
        Self {
            inspector,
            usage,
            opaque_bytes: 0,
            prompt: Prompt::default(),
            attachments: Attachments::default(),
            vault,
            wanted,
            observations: Vec::new(),
            edits: Vec::new(),
            shadow,
            gathered: Gathered::default(),
            found: 0,
        }
    }

    /// Lets only the findings of some detectors matter.
    pub fn narrow(&mut self, only: &DetectorSet) {
        self.wanted = Cow::Owned(self.wanted.iter().filter(|id| only.contains(*id)).collect());
    }

    /// Returns the detectors whose findings matter here.
    pub fn wanted(&self) -> &DetectorSet {
        &self.wanted
    }

    /// Tells whether a text of a response may hold the caller's own values, to be put back.
    pub fn may_restore(&self, text: &[u8]) -> bool {
        let is_answer = self.inspector.direction == Direction::Response && self.attachments.within.is_none();
        is_answer && restore::may_hold(self.vault, text)
    }

    /// Scans one text of the body; `raw` gives the body's bytes for a range of the text.
    pub fn text(
        &mut self,
        text: &[u8],
        channel: Channel,
        written: Written,
        raw: impl FnMut(Range<usize>) -> Range<usize>,
    ) -> Result<(), Unreadable> {
        self.named_text(&[], text, channel, written, raw)
    }

    /// Scans a text that is the value of a member, as `"name": "text"` reads; without a name, as it stands.
    ///
    /// Some values are known for secrets by their names alone.
    pub fn named_text(
        &mut self,
        name: &[u8],
        text: &[u8],
        channel: Channel,
        written: Written,
        mut raw: impl FnMut(Range<usize>) -> Range<usize>,
    ) -> Result<(), Unreadable> {
        if (self.inspector.expired)() {
            return Err(Unreadable::Late);
        }
        let Searched { findings, spellings } = match name.is_empty() {
            true => self.search(text)?,
            false => all_spellings(under(name, text, |text| self.scan(text))?),
        };
        self.report(text, (channel, spellings), written, findings, &mut raw)
    }

    /// Scans one text of the body of which it is known what patterns find as it stands: what its reader takes it for,
    /// and what is encoded in it.
    pub fn text_beyond(
        &mut self,
        (text, found): (&[u8], Vec<Finding>),
        channel: Channel,
        written: Written,
        mut raw: impl FnMut(Range<usize>) -> Range<usize>,
    ) -> Result<(), Unreadable> {
        if (self.inspector.expired)() {
            return Err(Unreadable::Late);
        }
        let scanner = &self.inspector.ruleset.scanner;
        let Searched { findings, spellings } = match self.inspector.judged() {
            Direction::Request => scanner.scan_spelt_beyond(text, &self.wanted, found),
            Direction::Response => scanner.scan_tabled_beyond(text, &self.wanted, found).map(all_spellings),
        }?;
        self.report(text, (channel, spellings), written, findings, &mut raw)
    }

    /// Lets the model alone read one text of the body, in which no pattern can match and which is not spelt otherwise.
    pub fn plain_text(
        &mut self,
        text: &[u8],
        channel: Channel,
        written: Written,
        mut raw: impl FnMut(Range<usize>) -> Range<usize>,
    ) -> Result<(), Unreadable> {
        if (self.inspector.expired)() {
            return Err(Unreadable::Late);
        }
        self.report(text, (channel, Spellings::Unread), written, Vec::new(), &mut raw)
    }

    /// Adds what the models find to what patterns found, judges it, and notes what it calls for: where a model did not
    /// judge, for want of time or because it failed, what the others found.
    pub(super) fn report(
        &mut self,
        text: &[u8],
        (channel, spellings): (Channel, Spellings),
        written: Written,
        mut findings: Vec<Finding>,
        raw: &mut dyn FnMut(Range<usize>) -> Range<usize>,
    ) -> Result<(), Unreadable> {
        let Inspector { ruleset, trial, expired, .. } = *self.inspector;
        let judge = layer3::Judge { ruleset, wanted: &self.wanted, trial, expired };
        let read = layer3::find(judge, text, (self.inspector.judged(), channel), spellings, &mut findings);
        quoted::lower(ruleset, text, layer3::origin(self.inspector.judged(), channel), &mut findings);
        let named = names::find(ruleset, &self.wanted, text, channel, expired);
        findings.extend(named.iter().flatten().cloned());
        self.found += findings.len();
        prompt::spare_canaries(self.inspector, text, channel, &mut findings);
        prompt::taint(self.inspector, text, channel, &findings, &mut self.prompt);
        let mut masks = self.judge(&findings, channel, |range| text.get(range));
        if self.may_restore(text) {
            let values = restore::find(self.vault, text, inside(text)).values;
            masks.extend(values.into_iter().map(Masked::restored));
        }
        let masks = match written {
            Written::Number => as_number(masks, text),
            Written::Plain | Written::Json | Written::Lines => fitted(disjoint(masks), text),
        };
        for masked in masks {
            self.edits.push(Edit { range: raw(masked.range), replacement: written.write(&masked.text) });
        }
        read?;
        named.map(drop).map_err(Unreadable::from)
    }

    /// Scans a whole text: of a request in every spelling, of a response as a stream of it would be, and its tables.
    pub(super) fn scan(&self, text: &[u8]) -> Result<Vec<Finding>, ScanFault> {
        Ok(self.search(text)?.findings)
    }

    /// Scans a whole text, and tells in what of it a model may find other spellings.
    fn search(&self, text: &[u8]) -> Result<Searched, ScanFault> {
        let scanner = &self.inspector.ruleset.scanner;
        match self.inspector.judged() {
            Direction::Request => scanner.scan_spelt(text, &self.wanted),
            Direction::Response => scanner.scan_tabled(text, &self.wanted).map(all_spellings),
        }
    }

    /// Judges findings whose values `value` shows, notes them, and returns the masks they call for:
    /// ascending, disjoint.
    pub fn judge<'t>(
        &mut self,
        findings: &[Finding],
        channel: Channel,
        value: impl Fn(Range<usize>) -> Option<&'t [u8]>,
    ) -> Vec<Masked> {
        let mut masks: Vec<(Confidence, Masked)> = Vec::new();
        let ruleset = self.inspector.ruleset;
        for finding in findings {
            let Some(of) = ruleset.kind(finding.detector) else { continue };
            let matched = value(finding.value.clone()).unwrap_or_default();
            let matched = &*names::plain(ruleset, finding, matched);
            let action = self.action(finding, matched, (of.category, channel));
            self.note_shadow(finding, matched, (of.category, channel), action);
            if action == Action::Allow {
                continue;
            }
            let observation = Observation {
                detector: finding.detector,
                action,
                confidence: finding.confidence,
                layer: finding.layer,
                decoded_from: finding.decoded_from.clone(),
                channel,
                value: finding.value.clone(),
                sample: mask::sample(matched),
                within: self.attachments.within.clone(),
            };
            self.gathered.note(&observation, matched);
            self.observations.push(observation);
            if action == Action::Redact {
                let own = ruleset.scanner.detector(finding.detector).map(|detector| detector.mask);
                let kind = self.inspector.policy.mask(finding.detector, own.unwrap_or_default());
                let text = self.inspector.masker.mask(kind, of.name, matched, Some(self.vault));
                let masked = Masked { range: finding.value.clone(), text, origin: Origin::Mask };
                masks.push((finding.confidence, masked));
            }
        }
        // Of what is found as several things the surest says what it was.
        masks.sort_by_key(|(confidence, _)| Reverse(*confidence));
        disjoint(masks.into_iter().map(|(_, masked)| masked).collect())
    }

    fn action(&self, finding: &Finding, matched: &[u8], of: (Category, Channel)) -> Action {
        let Inspector { policy, caller, now, .. } = self.inspector;
        let (direction, detector) = (self.inspector.judged(), finding.detector);
        let action = policy.judge(direction, detector, finding.confidence, matched, *caller, *now);
        self.attachments.carried(policy.spared(of, action))
    }

    fn note_shadow(&mut self, finding: &Finding, matched: &[u8], of: (Category, Channel), decided: Action) {
        let Inspector { caller, now, .. } = self.inspector;
        let Some(shadow) = self.inspector.shadow() else { return };
        let (direction, detector) = (self.inspector.judged(), finding.detector);
        let foreseen = shadow.judge(direction, detector, finding.confidence, matched, *caller, *now);
        self.shadow.note(detector, self.attachments.carried(shadow.spared(of, foreseen)), decided);
    }

    /// Returns what rules go by.
    pub fn gathered(&mut self) -> &mut Gathered {
        &mut self.gathered
    }

    /// Asks the rules about what was gathered, and notes those that fire.
    pub fn weigh(&mut self) {
        let weighed = self.gathered.weigh(self.inspector, &self.wanted);
        self.observations.extend(weighed.observations);
        self.shadow.merge(weighed.shadow);
    }

    /// Returns how many edits were noted.
    pub(super) fn edit_count(&self) -> usize {
        self.edits.len()
    }

    /// Empties a part of the body, whatever else was noted within it.
    pub(super) fn empty(&mut self, range: Range<usize>, with: &str) {
        self.edits.sort_by_key(|edit| edit.range.start);
        override_with(&mut self.edits, Edit { range, replacement: with.as_bytes().to_vec() });
    }

    /// Takes what was observed so far.
    pub fn take_observations(&mut self) -> Vec<Observation> {
        std::mem::take(&mut self.observations)
    }

    /// Takes the edits that were noted so far.
    pub fn take_edits(&mut self) -> Vec<Edit> {
        std::mem::take(&mut self.edits)
    }

    /// Takes what the shadow policy would have done so far.
    pub fn take_shadow(&mut self) -> Foreseen {
        std::mem::take(&mut self.shadow)
    }

    /// Turns the sheet into the verdict on `bytes`.
    pub fn conclude(mut self, mut bytes: Bytes, mut unreadable: Option<Unreadable>) -> Inspection {
        self.weigh();
        let mut action = Action::strictest(self.observations.iter().map(|observation| observation.action));
        action = action.max(self.attachments.action());
        if unreadable.is_some() {
            action = action.max(self.inspector.policy.fail_mode.action());
            self.inspector.shadow().inspect(|shadow| self.shadow.act(shadow.fail_mode.action()));
        }
        if !self.edits.is_empty() {
            self.edits.sort_by_key(|edit| edit.range.start);
            match splice(&bytes, &self.edits) {
                Ok(spliced) => bytes = Bytes::from(spliced.into_owned()),
                Err(_) => {
                    // What cannot be masked never leaves, whatever the fail mode says.
                    action = Action::Block;
                    unreadable = Some(Unreadable::Splice);
                }
            }
        }
        let cleared = Cleared::release(action, bytes);
        let Self { observations, shadow, usage, opaque_bytes, prompt, gathered, .. } = self;
        let documents = self.attachments.told;
        Inspection {
            action,
            observations,
            unreadable,
            shadow,
            usage,
            opaque_bytes,
            documents,
            cleared,
            prompt,
            facts: gathered.into_facts(),
        }
    }
}

/// Returns findings of a text in which a model is to look for other spellings itself.
fn all_spellings(findings: Vec<Finding>) -> Searched {
    Searched { findings, spellings: Spellings::All }
}

/// Scans a text as the value of a member, as `"name": "text"` reads; without a name, as it stands.
pub fn under(
    name: &[u8],
    text: &[u8],
    scan: impl Fn(&[u8]) -> Result<Vec<Finding>, ScanFault>,
) -> Result<Vec<Finding>, ScanFault> {
    if name.is_empty() {
        return scan(text);
    }
    let before = [b"\"", name, b"\": \""].concat();
    let place = before.len()..before.len() + text.len();
    let found = scan(&[&before, text, b"\""].concat())?;
    Ok(found.into_iter().filter_map(|finding| finding.within(&place)).collect())
}

/// Returns what values are put into: JSON inside its string, where all of a text can be read so. A tool's arguments are, and
/// often what it gave back, and an answer that was asked for in JSON.
pub fn inside(text: &[u8]) -> Inside {
    let is_json = || serde_json::from_slice::<IgnoredAny>(text).is_ok();
    match begins_json(text) && is_json() {
        true => Inside::Json,
        false => Inside::Text,
    }
}

/// Tells whether a text begins as an object or an array of JSON does.
fn begins_json(text: &[u8]) -> bool {
    matches!(text.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Fits the masks of a whole text into it, so that one that is JSON stays so.
pub fn fitted(masks: Vec<Masked>, text: &[u8]) -> Vec<Masked> {
    if masks.is_empty() || inside(text) == Inside::Text {
        return masks;
    }
    let edits = Nested::default().mask(text, 0, masks.iter().map(Masked::placed));
    edits.into_iter().map(|(range, text)| Masked { range, text, origin: Origin::Mask }).collect()
}

/// Puts the first of the masks of a number into its place, all of it, as a string.
pub fn as_number(masks: Vec<Masked>, digits: &[u8]) -> Vec<Masked> {
    let first = disjoint(masks).into_iter().next();
    let whole = first.map(|masked| Masked { range: 0..digits.len(), text: quoted(&masked.text), ..masked });
    whole.into_iter().collect()
}

fn quoted(text: &str) -> String {
    let mut quoted = vec![b'"'];
    json::escape_into(text, &mut quoted);
    quoted.push(b'"');
    String::from_utf8_lossy(&quoted).into_owned()
}

/// Joins replacements that overlap: the first keeps its text and covers them all.
pub fn disjoint(mut masks: Vec<Masked>) -> Vec<Masked> {
    masks.sort_by_key(|masked| (masked.range.start, Reverse(masked.range.end)));
    let mut joined: Vec<Masked> = Vec::with_capacity(masks.len());
    for masked in masks {
        match joined.last_mut() {
            Some(last) if masked.range.start < last.range.end => {
                last.range.end = last.range.end.max(masked.range.end);
            }
            _ => joined.push(masked),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_json_as_a_whole_is_fitted_as_such() {
        let fit = |text: &str, value: &str| {
            let start = text.find(value).unwrap();
            let range = start..start + value.len();
            let masks = vec![Masked { range, text: "[M]".to_owned(), origin: Origin::Mask }];
            let fitted = fitted(masks, text.as_bytes());
            let [masked] = &fitted[..] else { panic!("{text}") };
            [&text[..masked.range.start], &masked.text, &text[masked.range.end..]].concat()
        };
        assert_eq!(fit(r#"{"a":4111}"#, "4111"), r#"{"a":"[M]"}"#);
        for text in ["[auth]\nuser=4111\n", "[Ann](mailto:4111) wrote", "[x] Ann <4111>, Bob", r#"{"a":4111"#]
        {
            assert_eq!(fit(text, "4111"), text.replace("4111", "[M]"));
        }
    }

    #[test]
    fn a_number_is_masked_as_a_whole() {
        let masks = vec![Masked { range: 2..6, text: "[\"M\"]".to_owned(), origin: Origin::Mask }];
        let [masked] = &as_number(masks, b"0041110")[..] else { panic!("not one") };
        assert_eq!((masked.range.clone(), masked.text.as_str()), (0..7, r#""[\"M\"]""#));
        assert!(as_number(Vec::new(), b"0").is_empty());
    }
}
