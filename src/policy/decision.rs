//! From findings to what is done about them.
//!
//! In: a detector, how sure it is, the matched value, the caller and the time. Out: an [`Action`].
//! Everything here is pure and takes time as an argument; the tables are compiled once per
//! ruleset, so that judging one finding is two array reads and the allow-lists of that policy.
//!
//! [`Cleared`] is the only thing that may leave the gateway, and has its one constructor here.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use jiff::Timestamp;

use crate::policy::allow::Allowance;
use crate::scan::detector::MaskKind;
use crate::scan::threat::Confidence;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::UnknownName;

/// What an operator wants done about the findings of a detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Not looked for.
    Off,
    /// Recorded, and let through.
    Monitor,
    /// Taken out of the text.
    Redact,
    /// Refused with everything around it.
    Block,
}

/// What is done about a finding, or about a body: the strictest of its findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Let through.
    Allow,
    /// Let through and recorded.
    Monitor,
    /// Let through without the matched values.
    Redact,
    /// Refused.
    Block,
}

/// Which way a body travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the caller to the provider.
    Request,
    /// From the provider to the caller.
    Response,
}

/// What happens to a body that could not be inspected; the one default is
/// [`FAIL_MODE_DEFAULT`](crate::policy::FAIL_MODE_DEFAULT).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailMode {
    /// It is refused.
    Closed,
    /// It is let through and recorded.
    Open,
}

/// What is done about documents (PDFs, office files, archives) that a body brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DocumentMode {
    /// They pass unread.
    Pass,
    /// They are read; what cannot be read of them passes, and is counted.
    Inspect,
    /// They are read; a body with one that cannot be read as a whole is refused.
    Require,
}

/// How a blocked stream ends that is already under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamBlock {
    /// With the provider's error event, which its SDKs raise.
    Error,
    /// With the provider's own "content filter" ending.
    Graceful,
}

/// The name of a policy: 1 to 64 of `a-z A-Z 0-9 _ - .`, as [`PolicyId::from_str`] checks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyId(String);

/// Who sends a request: the keyed hash of a credential, or the identifier of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallerId(String);

/// The text is no policy name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a policy name is 1 to {} letters, digits, '_', '-' or '.'", PolicyId::BYTES_MAX)]
pub struct InvalidPolicyId;

/// What a policy wants done about one detector in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What is done about findings that reach the threshold.
    pub mode: Mode,
    /// How sure a finding must be; one that is less sure counts as monitored at most.
    pub threshold: Confidence,
}

/// What a policy says about one detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetectorRules {
    /// In requests.
    pub request: Rule,
    /// In responses.
    pub response: Rule,
    /// The mask to use instead of the detector's own.
    pub mask: Option<MaskKind>,
    /// The highest confidence the detector can reach: one step up where context words can raise it.
    pub confidence_max: Confidence,
}

/// A policy's answers for every detector of one scanner.
#[derive(Clone, Debug)]
pub struct Decisions {
    by_detector: Vec<DetectorRules>,
    allowances: Vec<Allowance>,
    wanted: [DetectorSet; 2],
    enforced: [DetectorSet; 2],
}

/// Bytes that may leave the gateway: they were judged, and what had to go is gone.
///
/// [`Cleared::release`] is the only constructor; searching for it finds every place that vouches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleared(Bytes);

impl Decisions {
    /// Returns the tables for detectors in the order of their identifiers.
    pub fn new(by_detector: Vec<DetectorRules>, allowances: Vec<Allowance>) -> Self {
        let set = |keep: &dyn Fn(&DetectorRules) -> bool| -> DetectorSet {
            let kept = by_detector.iter().enumerate().filter(|(_, rules)| keep(rules));
            kept.map(|(at, _)| DetectorId(at as u16)).collect()
        };
        let directions = [Direction::Request, Direction::Response];
        let wanted = directions.map(|way| set(&|rules| rules.rule(way).mode != Mode::Off));
        let enforced = directions.map(|way| set(&|rules| rules.can_enforce(way)));
        Self { by_detector, allowances, wanted, enforced }
    }

    /// Returns the detectors whose findings are looked for.
    pub fn wanted(&self, direction: Direction) -> &DetectorSet {
        &self.wanted[direction.index()]
    }

    /// Returns the detectors whose findings can change or stop a body.
    pub fn enforced(&self, direction: Direction) -> &DetectorSet {
        &self.enforced[direction.index()]
    }

    /// Returns the mask this policy wants instead of the detector's own.
    pub fn mask(&self, detector: DetectorId) -> Option<MaskKind> {
        self.rules(detector).and_then(|rules| rules.mask)
    }

    /// Returns what is done about one finding.
    ///
    /// A detector that is off, unknown, or whose value or caller is on an allow-list that has not
    /// expired at `now`, is allowed; one below its threshold is monitored at most.
    pub fn judge(
        &self,
        direction: Direction,
        detector: DetectorId,
        confidence: Confidence,
        value: &[u8],
        caller: Option<&CallerId>,
        now: Timestamp,
    ) -> Action {
        let Some(rules) = self.rules(detector) else { return Action::Allow };
        let action = rules.rule(direction).action(confidence);
        if action == Action::Allow || self.excuses(detector, value, caller, now) {
            return Action::Allow;
        }
        action
    }

    /// Returns the allow-lists, in the order they were written.
    pub fn allowances(&self) -> &[Allowance] {
        &self.allowances
    }

    /// Returns what is said about a detector.
    pub fn rules(&self, detector: DetectorId) -> Option<&DetectorRules> {
        self.by_detector.get(usize::from(detector.0))
    }

    fn excuses(&self, detector: DetectorId, value: &[u8], caller: Option<&CallerId>, now: Timestamp) -> bool {
        self.allowances.iter().any(|allowance| allowance.excuses(detector, value, caller, now))
    }
}

impl DetectorRules {
    /// Returns the rule for one direction.
    pub fn rule(&self, direction: Direction) -> Rule {
        match direction {
            Direction::Request => self.request,
            Direction::Response => self.response,
        }
    }

    fn can_enforce(&self, direction: Direction) -> bool {
        self.rule(direction).action(self.confidence_max) >= Action::Redact
    }
}

impl Rule {
    /// Returns what is done about a finding of some confidence, allow-lists aside.
    pub fn action(self, confidence: Confidence) -> Action {
        match self.mode {
            Mode::Redact | Mode::Block if confidence < self.threshold => Action::Monitor,
            mode => mode.at_most(),
        }
    }
}

impl Cleared {
    /// Releases bytes that `action` lets through; `None` when it blocks.
    ///
    /// For [`Action::Redact`] the caller hands in the bytes *after* the masks were applied.
    pub fn release(action: Action, bytes: Bytes) -> Option<Self> {
        match action {
            Action::Allow | Action::Monitor | Action::Redact => Some(Self(bytes)),
            Action::Block => None,
        }
    }

    /// Returns the released bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Gives the released bytes away.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl Mode {
    /// Every mode, mildest first.
    pub const ALL: [Self; 4] = [Self::Off, Self::Monitor, Self::Redact, Self::Block];

    /// Returns the strictest that is done under it.
    pub fn at_most(self) -> Action {
        match self {
            Self::Off => Action::Allow,
            Self::Monitor => Action::Monitor,
            Self::Redact => Action::Redact,
            Self::Block => Action::Block,
        }
    }

    /// Returns the name used in policies and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Monitor => "monitor",
            Self::Redact => "redact",
            Self::Block => "block",
        }
    }
}

impl FromStr for Mode {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let expected = "off, monitor, redact, block";
        Self::ALL.into_iter().find(|known| known.as_str() == text).ok_or(UnknownName { expected })
    }
}

impl Action {
    /// Every action, mildest first.
    pub const ALL: [Self; 4] = [Self::Allow, Self::Monitor, Self::Redact, Self::Block];

    /// Returns the name used in headers, records and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Monitor => "monitor",
            Self::Redact => "redact",
            Self::Block => "block",
        }
    }

    /// Returns the strictest of some actions; with none, everything is allowed.
    pub fn strictest(actions: impl IntoIterator<Item = Self>) -> Self {
        actions.into_iter().max().unwrap_or(Self::Allow)
    }
}

impl Direction {
    /// Both directions, in the order of an exchange.
    pub const ALL: [Self; 2] = [Self::Request, Self::Response];

    /// Returns the name used in policies, records and labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
        }
    }

    pub(crate) fn index(self) -> usize {
        match self {
            Self::Request => 0,
            Self::Response => 1,
        }
    }
}

impl FailMode {
    /// Returns the name used in policies and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
        }
    }

    /// Returns what is done with a body that could not be inspected.
    pub fn action(self) -> Action {
        match self {
            Self::Closed => Action::Block,
            Self::Open => Action::Monitor,
        }
    }
}

impl FromStr for FailMode {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "closed" => Ok(Self::Closed),
            "open" => Ok(Self::Open),
            _ => Err(UnknownName { expected: "closed, open" }),
        }
    }
}

impl DocumentMode {
    /// Every mode, mildest first.
    pub const ALL: [Self; 3] = [Self::Pass, Self::Inspect, Self::Require];

    /// Returns the name used in policies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Inspect => "inspect",
            Self::Require => "require",
        }
    }
}

impl FromStr for DocumentMode {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let expected = "pass, inspect, require";
        Self::ALL.into_iter().find(|known| known.as_str() == text).ok_or(UnknownName { expected })
    }
}

impl StreamBlock {
    /// Returns the name used in policies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Graceful => "graceful",
        }
    }
}

impl FromStr for StreamBlock {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "error" => Ok(Self::Error),
            "graceful" => Ok(Self::Graceful),
            _ => Err(UnknownName { expected: "error, graceful" }),
        }
    }
}

impl PolicyId {
    /// The longest name, in bytes.
    pub const BYTES_MAX: usize = 64;

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PolicyId {
    type Err = InvalidPolicyId;

    fn from_str(text: &str) -> Result<Self, InvalidPolicyId> {
        let sane = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if text.is_empty() || text.len() > Self::BYTES_MAX || !text.bytes().all(sane) {
            return Err(InvalidPolicyId);
        }
        Ok(Self(text.to_owned()))
    }
}

impl Borrow<str> for PolicyId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PolicyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl CallerId {
    /// Names a caller.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CallerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
