//! One text of a stream: its lane, and what is to be put into it before it leaves.

use std::borrow::Cow;
use std::collections::HashSet;
use std::collections::VecDeque;
use std::ops::Range;

use crate::llm::dialect::Channel;
use crate::llm::dialect::LaneKey;
use crate::llm::dialect::LaneKind;
use crate::llm::dialect::Sequel;
use crate::llm::json::HALF_BYTES;
use crate::llm::json::Halves;
use crate::policy::inspect::Observation;
use crate::policy::inspect::Unreadable;
use crate::policy::inspect::layer3::Reading;
use crate::policy::inspect::text::Masked;
use crate::policy::inspect::text::disjoint;
use crate::policy::stream::called::Call;
use crate::policy::stream::called::call_of;
use crate::policy::stream::joined::Runs;
use crate::policy::stream::names::Named;
use crate::policy::stream::sequel::Borders;
use crate::redact::nested::Nested;
use crate::redact::restore;
use crate::redact::restore::Inside;
use crate::redact::restore::Levels;
use crate::redact::token::Vault;
use crate::scan::check::rarity;
use crate::scan::lane::Lane;
use crate::scan::lane::STREAM_HOLD_BYTES_MAX;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Finding;
use crate::scan::trace::Trace;

/// How many bytes that may begin a value let a text wait while others go on.
const BEGUN_BYTES_MIN: usize = 8;
/// How far back the begin of a piece without white space is looked for; of a longer one all that is under way waits.
const UNBROKEN_BYTES_MAX: usize = 1024;
/// Of so many small letters of a name one may be a capital more than the first.
const SMALL_PER_CAPITAL: usize = 4;
/// Of so many small letters of a name one may be a digit.
const SMALL_PER_DIGIT: usize = 6;
/// From how many bytes on a piece is unlikely to come twice in one text.
const LABEL_BYTES_MIN: usize = 2;
/// How often in a row a short piece may come again in a value.
const REPEATED_MAX: u8 = 2;
/// How many different pieces of a stray text are remembered.
const STATES_MAX: usize = 256;

/// The lane, the model, the tagger and the trace of a text, as they were at some place of it.
type Before = (Lane, Option<Reading>, Option<Named>, Option<Trace>);

/// What reads a text beside its lane.
pub(super) type Beside = (Option<Reading>, Option<Named>, Option<Trace>);

/// A text under way, in one choice, block or tool call.
pub(super) struct Slot {
    pub(super) lane: Lane,
    /// The model at the text, where one reads it.
    pub(super) model: Option<Reading>,
    /// What the tagger knows of it, where it reads such texts.
    pub(super) names: Option<Named>,
    /// What follows it for the request's system prompt, where that is guarded.
    pub(super) trace: Option<Trace>,
    pub(super) channel: Channel,
    /// Which call it is a text of, where it is one of a tool.
    pub(super) call: Option<Call>,
    /// Text given to the lane, in bytes.
    pub(super) fed: usize,
    /// The first half of a character, behind what was given to it: it waits for the second.
    pub(super) half: Option<u32>,
    pub(super) judged_to: usize,
    /// What of it the lane has settled: less, where it was resumed and all of it had left.
    pub(super) settled_to: usize,
    /// Where masks and restored values stand that have not left yet: ascending, disjoint.
    pub(super) masks: VecDeque<Masked>,
    /// Whether its place is one that holds JSON.
    is_json: bool,
    /// The sign that the text begins with, where it may be JSON.
    bracket: Option<u8>,
    /// What the text is, once its begin shows it.
    pub(super) inside: Option<Inside>,
    /// Where the text that left is, if it is JSON.
    nested: Nested,
    /// Whether placeholders are looked for in it; known from its first piece on.
    pub(super) restores: Option<bool>,
    /// Text in which placeholders are still looked for, and where it begins.
    pub(super) unrestored: Vec<u8>,
    /// How deep in strings of JSON that begins.
    levels: Levels,
    pub(super) restored_to: usize,
    pub(super) ended: bool,
    pub(super) kind: LaneKind,
    /// What it has in common with the texts that may go on with it, if any may.
    pub(super) sequel: Option<Sequel>,
    /// Whether the last of the texts that it is made of is over, and another may go on with it.
    pub(super) is_over: bool,
    pub(super) borders: Borders,
    /// Which lanes it is joined of, if it is.
    pub(super) runs: Runs,
    /// Whether a stray text has shown that it is running text, of several words.
    pub(super) is_running: bool,
    /// Where the last piece of a stray text begins.
    pub(super) piece_from: usize,
    /// Whether that piece was said before.
    is_again: bool,
    /// How often in a row it came again.
    repeated: u8,
    /// Hashes of the pieces of a stray text.
    states: HashSet<u64>,
    /// Whether each piece is the whole text so far.
    pub(super) is_whole: bool,
    /// How long the text was when it was last said whole, or its last piece where that may turn out to be one, and
    /// its hash.
    pub(super) said: Option<(usize, u64)>,
    /// How often in a row a piece began with the one before it.
    pub(super) grown: u8,
    /// How it was before an end that may not be one.
    pub(super) resumable: Option<Box<Before>>,
    /// The values told at such an end, or in a message alone, and up to where the text left.
    pub(super) told: Vec<(DetectorId, Range<usize>)>,
    pub(super) left_to: usize,
    /// Where a finding begins that ends the stream; text after it is not judged any more.
    pub(super) blocked_from: Option<usize>,
}

impl Slot {
    pub(super) fn new(key: &LaneKey, (model, names, trace): Beside) -> Self {
        Self {
            lane: Lane::new(),
            model,
            names,
            trace,
            channel: key.channel,
            call: call_of(key),
            kind: key.kind,
            sequel: None,
            is_over: false,
            borders: Borders::default(),
            runs: Runs::default(),
            is_json: key.is_json,
            bracket: None,
            is_running: false,
            piece_from: 0,
            is_again: false,
            repeated: 0,
            states: HashSet::new(),
            is_whole: key.kind == LaneKind::Whole,
            said: None,
            grown: 0,
            resumable: None,
            told: Vec::new(),
            left_to: 0,
            fed: 0,
            half: None,
            judged_to: 0,
            settled_to: 0,
            masks: VecDeque::new(),
            inside: None,
            nested: Nested::default(),
            // What is put back is put back where it is said.
            restores: matches!(key.kind, LaneKind::Joined | LaneKind::Stray).then_some(false),
            unrestored: Vec::new(),
            levels: Levels::default(),
            restored_to: 0,
            ended: false,
            blocked_from: None,
        }
    }

    /// Goes on with a text that seemed to be over, as it was before.
    pub(super) fn resume(&mut self) -> Result<(), Unreadable> {
        if self.ended {
            let before = *self.resumable.take().ok_or(Unreadable::Resumed)?;
            (self.lane, self.model, self.names, self.trace) = before;
            self.ended = false;
            self.left_to = self.fed;
        }
        Ok(())
    }

    /// Returns the next piece of the text with the character that the last one ended within, and without the one that it
    /// ends within itself; none, where a half has no other.
    pub(super) fn completed<'t>(&mut self, piece: &'t [u8], halves: Halves) -> Option<Cow<'t, [u8]>> {
        let first = match (self.half, halves.begin) {
            (None, None) => None,
            (Some(_), None) if piece.is_empty() => return Some(Cow::Borrowed(piece)),
            (Some(high), Some(low)) => Some(Halves::joined(high, low)?),
            (Some(_), None) | (None, Some(_)) => return None,
        };
        self.half = halves.end;
        let from = first.map_or(0, |_| HALF_BYTES);
        let whole = piece.get(from..piece.len() - halves.end.map_or(0, |_| HALF_BYTES))?;
        Some(first.map_or(Cow::Borrowed(whole), |first| Cow::Owned([&first, whole].concat())))
    }

    /// Tells whether another text may go on with it.
    pub(super) fn may_be_followed(&self, by: &Sequel) -> bool {
        self.is_over && self.sequel.as_ref() == Some(by) && (!self.ended || self.resumable.is_some())
    }

    /// Tells whether it ends in what is likely to be the begin of a value: more than words that could be one, counted from
    /// before each of its ends that were none.
    pub(super) fn is_begun(&self) -> bool {
        let piece = self.unbroken_from(self.settled_to)..self.fed;
        let tail = self.lane.value(&piece).unwrap_or_default();
        tail.len() >= BEGUN_BYTES_MIN && !is_prose(tail)
    }

    /// Notes where the next piece of a stray text begins, which is `text` with this hash, and whether it was said before.
    pub(super) fn note_piece(&mut self, text: &[u8], hash: u64) {
        self.piece_from = self.fed;
        let is_known = self.states.contains(&hash);
        self.is_again = is_known && text.len() >= LABEL_BYTES_MIN;
        if !is_known && self.states.len() < STATES_MAX {
            self.states.insert(hash);
        }
    }

    /// Returns from where on a stray text waits: from where a value may be under way, if it is running text or ends in what
    /// was not said before and is no name, or in names that make no words together. All of a name leaves otherwise: more of
    /// them are states than pieces.
    pub(super) fn stray_from(&self, judged_to: usize) -> usize {
        let value = |from: usize| self.lane.value(&(from..self.fed)).unwrap_or_default();
        let tail = value(self.unbroken_from(judged_to));
        let waited = self.judged_to < self.piece_from;
        let is_parted = || tail.len() > self.fed - self.piece_from && rarity::bits(tail) < 0.0;
        let is_no_name = || !is_name(tail) && !is_name(value(self.piece_from));
        let begins = || tail.len() >= BEGUN_BYTES_MIN && !self.is_again && (is_no_name() || is_parted());
        if self.is_running || waited || begins() { judged_to } else { self.fed }
    }

    /// Tells whether a piece of a stray text is what was said last, and counts how often in a row it is.
    pub(super) fn repeats(&mut self, said: (usize, u64)) -> bool {
        let is_same = self.said == Some(said);
        self.repeated = if is_same { self.repeated.saturating_add(1) } else { 0 };
        is_same
    }

    /// Tells whether a piece of a stray text says no more than those before it, or counts; `is_same` tells whether it says
    /// what the last one did.
    pub(super) fn is_label(&self, text: &[u8], is_same: bool) -> bool {
        let waits = self.judged_to < self.fed;
        let is_long = text.len() >= BEGUN_BYTES_MIN;
        let is_word = !self.is_running && !waits && text.len() >= LABEL_BYTES_MIN;
        let counts = || text.iter().all(|byte| byte.is_ascii_digit() || b".:+-/".contains(byte));
        !self.is_whole && is_same && (is_long || is_word && self.repeated > REPEATED_MAX)
            || self.fed == 0 && !is_long && counts()
    }

    /// Returns from where on a joined text waits: from the last piece without white space of what is under way, for more is
    /// no value that somebody would part; and from the first one that texts of two lanes meet in, if it may be a value.
    pub(super) fn joined_from(&self, judged_to: usize) -> usize {
        let last = self.unbroken_from(judged_to);
        let from = judged_to.max(last.saturating_sub(UNBROKEN_BYTES_MAX));
        let tail = self.lane.value(&(from..last)).unwrap_or_default();
        let mut start = 0;
        for end in (0..tail.len()).filter(|at| breaks(tail, *at)).chain([tail.len()]) {
            if end - start >= BEGUN_BYTES_MIN && self.may_be_parted(from + start..from + end) {
                return from + start;
            }
            start = end + 1;
        }
        last
    }

    /// Tells whether texts of two lanes meet in a range, and not as words do.
    fn may_be_parted(&self, range: Range<usize>) -> bool {
        let is_word = |part: Range<usize>| is_prose(self.lane.value(&part).unwrap_or_default());
        !self.runs.is_of_one(&range) && !self.runs.parts(range).all(is_word)
    }

    /// Returns where the last piece without white space of what is under way begins; white space between digits is of one
    /// piece.
    pub(super) fn unbroken_from(&self, judged_to: usize) -> usize {
        let tail = self.lane.value(&(judged_to..self.fed)).unwrap_or_default();
        let looked_at = tail.len().saturating_sub(UNBROKEN_BYTES_MAX)..tail.len();
        looked_at.rev().find(|at| breaks(tail, *at)).map_or(judged_to, |at| judged_to + at + 1)
    }

    /// Takes the next piece of the text for what its begin shows. Where any text may stand, an answer in JSON shows itself
    /// by the quote behind its bracket: a link in Markdown, a footnote and a table of settings begin otherwise.
    pub(super) fn begin(&mut self, piece: &[u8]) {
        if self.inside.is_some() {
            return;
        }
        let is_text = matches!(self.kind, LaneKind::Joined | LaneKind::Messages);
        for byte in piece.iter().filter(|byte| !byte.is_ascii_whitespace()) {
            self.inside = match (self.bracket, byte) {
                (None, b'{' | b'[') if self.is_json => Some(Inside::Json),
                (None, b'{' | b'[') if !is_text => None,
                (Some(b'{' | b'['), b'"') | (Some(b'['), b'{') => Some(Inside::Json),
                _ => Some(Inside::Text),
            };
            if self.inside.is_some() {
                return;
            }
            self.bracket = Some(*byte);
        }
    }

    /// Returns what replaces parts of the next piece of the text that leaves, which lies at `place`.
    pub(super) fn edits(&mut self, place: &Range<usize>, piece: &[u8]) -> Vec<(Range<usize>, String)> {
        // What may turn out to be JSON is followed, too.
        if self.inside != Some(Inside::Text) {
            if place.start == 0 {
                self.nested = Nested::default();
            }
            return self.nested.mask(piece, place.start, self.masks.iter().map(Masked::placed));
        }
        let covered = self.masks.iter().map(|masked| {
            // The mask stands where the value began; the rest of the value just goes.
            let text = if masked.range.start >= place.start { masked.text.clone() } else { String::new() };
            (masked.range.start.max(place.start)..masked.range.end.min(place.end), text)
        });
        let covered = covered.filter(|(range, _)| !range.is_empty());
        covered.map(|(range, text)| (range.start - place.start..range.end - place.start, text)).collect()
    }

    /// Looks for placeholders in the text that is left, and notes the values that they stand for.
    pub(super) fn restore(&mut self, vault: &Vault) {
        let inside = self.inside.unwrap_or(Inside::Text);
        let found = restore::find_from(vault, &self.unrestored, (inside, self.levels), self.ended);
        let (settled_to, from) = (found.settled_to, self.restored_to);
        if inside == Inside::Json {
            self.levels.follow(self.unrestored.get(..settled_to).unwrap_or_default());
        }
        self.add(values(found, from));
        self.unrestored.drain(..settled_to);
        self.restored_to += settled_to;
    }

    /// Notes what was found in a message of the text that begins at `start` and was read alone.
    pub(super) fn note_alone(&mut self, start: usize, observations: &[Observation]) {
        if observations.is_empty() {
            return;
        }
        // Nothing is told of a text that lies farther back than a lane holds.
        let kept_from = start.saturating_sub(STREAM_HOLD_BYTES_MAX);
        self.told.retain(|(_, value)| value.end >= kept_from);
        let placed = |seen: &Observation| (seen.detector, seen.value.start + start..seen.value.end + start);
        self.told.extend(observations.iter().map(placed));
    }

    /// Leaves out the findings that were told when the text seemed to be over, in a message alone, or in the one lane that
    /// has them; one that is new, begins in what left then and changes what leaves comes too late.
    pub(super) fn news<'f>(
        &mut self,
        findings: &'f [Finding],
        enforced: &DetectorSet,
    ) -> Result<Cow<'f, [Finding]>, Unreadable> {
        let is_stray = self.kind == LaneKind::Stray;
        // What a piece says that is a value by itself is none of more pieces.
        let is_alone = |it: &Finding| {
            let is_it = |(detector, value): &(DetectorId, Range<usize>)| {
                *detector == it.detector && value.end == it.value.end
            };
            is_stray && self.told.iter().any(is_it)
        };
        let is_told = |it: &Finding| {
            self.told.contains(&(it.detector, it.value.clone()))
                || self.runs.is_of_one(&it.span)
                || is_alone(it)
        };
        let news: Cow<'f, [Finding]> = match self.told.is_empty() && self.runs.is_empty() {
            true => Cow::Borrowed(findings),
            false => findings.iter().filter(|it| !is_told(it)).cloned().collect(),
        };
        // Of a stray text the rest of such a value is taken out. Of others it is masked, where no more has left than what
        // is not held for being the begin of a value.
        let is_held = self.kind == LaneKind::Joined || self.inside == Some(Inside::Json);
        let left_max = if is_held { 0 } else { BEGUN_BYTES_MIN - 1 };
        let is_late =
            |it: &Finding| it.value.start + left_max < self.left_to && enforced.contains(it.detector);
        if !is_stray && news.iter().any(is_late) {
            return Err(Unreadable::Resumed);
        }
        if self.ended && self.resumable.is_some() {
            self.told.extend(news.iter().map(|it| (it.detector, it.value.clone())));
        }
        Ok(news)
    }

    /// Notes what is to be masked; the mask of a value of which some has left stands before what is left of it.
    pub(super) fn add(&mut self, mut masks: Vec<Masked>) {
        if self.kind != LaneKind::Stray {
            let late = masks.iter_mut().filter(|masked| masked.range.start < self.left_to);
            late.for_each(|masked| masked.range.start = self.left_to.min(masked.range.end));
        }
        if !masks.is_empty() {
            self.masks.extend(masks);
            self.masks = disjoint(std::mem::take(&mut self.masks).into()).into();
        }
    }
}

/// Tells whether a text has white space at a place, and no digit before it.
fn breaks(text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| text.get(before));
    text.get(at).is_some_and(u8::is_ascii_whitespace) && !before.is_some_and(u8::is_ascii_digit)
}

/// Tells whether words in a text are as those of prose: letters, small ones but for the first.
fn is_prose(text: &[u8]) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    let is_small = |byte: &u8| byte.is_ascii_lowercase() || !byte.is_ascii();
    text.split(|byte| !is_word(byte)).all(|word| match word {
        [] => true,
        [first, rest @ ..] => (first.is_ascii_uppercase() || is_small(first)) && rest.iter().all(is_small),
    })
}

/// Tells whether a text without white space is written as states and names are: letters, hardly one of them a capital
/// unless all are, and hardly a digit.
fn is_name(text: &[u8]) -> bool {
    let count = |is: fn(&u8) -> bool| text.iter().filter(|byte| is(byte)).count();
    let (small, large) = (count(u8::is_ascii_lowercase), count(u8::is_ascii_uppercase));
    let is_cased = small == 0 || SMALL_PER_CAPITAL * large.saturating_sub(1) <= small;
    is_cased && SMALL_PER_DIGIT * count(u8::is_ascii_digit) <= small
}

/// Returns restored values as replacements in a text that begins at `from`.
pub(super) fn values(found: restore::Found, from: usize) -> Vec<Masked> {
    let at = |range: Range<usize>| range.start + from..range.end + from;
    found.values.into_iter().map(|(range, text)| Masked::restored((at(range), text))).collect()
}
