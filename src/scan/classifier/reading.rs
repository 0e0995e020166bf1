//! What of a text a model gets to read: its canonical view, what is encoded in it, and its other spellings.

use std::borrow::Cow;
use std::ops::Range;

use super::Classifier;
use super::Origin;
use super::Signals;
use super::Spellings;
use super::Unjudged;
use super::Verdict;
use super::disguise::is_disguised;
use crate::scan::decode;
use crate::scan::decode::Lines;
use crate::scan::decode::RUN_BYTES_MIN;
use crate::scan::spelling;
use crate::scan::spelling::Readings;
use crate::scan::threat::Confidence;
use crate::scan::threat::Decoded;
use crate::scan::threat::Encoding;
use crate::scan::threat::Spelling;
use crate::scan::unwrapped::Unwrapped;
use crate::scan::view;
use crate::scan::view::View;

/// How many layers of encoding are undone.
const DEPTH_MAX: usize = 2;
/// The shortest text that is judged, in bytes.
pub const TEXT_BYTES_MIN: usize = 12;
/// The most decoded bytes of one text that are judged, for each byte of it.
const DECODED_PER_BYTE: usize = 2;
/// The same of its other spellings, whose number does not depend on its length.
const SPELT_PER_BYTE: usize = 8;
/// The longest text whose words may be parted by signs alone, in bytes: longer ones are data.
const SIGNED_BYTES_MAX: usize = 4096;
/// How many signs part words at least where no space does.
const SIGNS_MIN: usize = 2;
/// How many different letters and digits another spelling of a text has at least, for it to say something: what comes of
/// numbers by chance is the same few over and over.
const SPELT_SIGNS_MIN: u32 = 8;

/// Tells by a glance whether a model may have something to read in a text: words, or what is encoded.
pub fn may_say(text: &[u8]) -> bool {
    text.len() >= RUN_BYTES_MIN || text.len() >= TEXT_BYTES_MIN && is_written(text)
}

/// Tells whether a text has words as it stands, and not only something that is encoded.
fn is_written(text: &[u8]) -> bool {
    // Base64 has the other two.
    let is_sign = |byte: &&u8| byte.is_ascii_punctuation() && !matches!(**byte, b'=' | b'/');
    memchr::memchr3(b' ', b'\n', b'\t', text).is_some()
        || !text.is_ascii()
        || text.len() <= SIGNED_BYTES_MAX && text.iter().filter(is_sign).take(SIGNS_MIN).count() == SIGNS_MIN
}

/// A verdict, and what had to be undone for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The verdict; its window lies in the text as it stands.
    pub verdict: Verdict,
    /// The steps that were undone, outermost first.
    pub decoded_from: Decoded,
}

/// Judges a text in all its readings and returns the worst verdict.
///
/// # Errors
/// Some of it was not judged, and what was is not sure.
pub fn judge(
    model: &dyn Classifier,
    text: &[u8],
    origin: Origin,
    signals: &Signals,
    expired: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Told>, Unjudged> {
    let per_byte = match &signals.spellings {
        Spellings::Unread => DECODED_PER_BYTE,
        Spellings::All | Spellings::Made(_) => DECODED_PER_BYTE + SPELT_PER_BYTE,
    };
    let mut budget = text.len().saturating_mul(per_byte);
    let made = match &signals.spellings {
        Spellings::Made(readings) => Some(&**readings),
        Spellings::Unread | Spellings::All => None,
    };
    Asked { model, origin, signals, expired }.read(text, made, Depth::WHOLE, &mut budget)
}

/// A model, and what it is told of every reading of a text.
struct Asked<'a> {
    model: &'a dyn Classifier,
    origin: Origin,
    signals: &'a Signals,
    expired: &'a (dyn Fn() -> bool + Sync),
}

/// How deep a reading lies within a text.
#[derive(Clone, Copy, Debug)]
struct Depth {
    /// How many more layers may be undone.
    left: usize,
    /// What was undone last.
    undone: Option<Encoding>,
}

impl Depth {
    /// That of a text as it stands.
    const WHOLE: Self = Self { left: DEPTH_MAX, undone: None };

    /// Returns that of what a step undoes; nothing where there is no more to undo, or where letters that were moved would
    /// be moved again, which is to move them once.
    fn behind(self, step: Encoding) -> Option<Self> {
        let is_cipher = matches!(step, Encoding::Spelt(spelling) if !spelling.is_exact());
        let left = self.left.checked_sub(1)?;
        (!is_cipher || self.undone != Some(step)).then_some(Self { left, undone: Some(step) })
    }
}

impl Asked<'_> {
    /// Judges a text in all its readings; those in other spellings may have been made already.
    fn read(
        &self,
        text: &[u8],
        made: Option<&Readings>,
        depth: Depth,
        budget: &mut usize,
    ) -> Result<Option<Told>, Unjudged> {
        if text.len() < TEXT_BYTES_MIN {
            return Ok(None);
        }
        let known = made.and_then(Readings::unwrapped);
        let canonical = known.map_or_else(
            || Cow::Owned(view::canonical(text)),
            |unwrapped| Cow::Borrowed(&unwrapped.canonical),
        );
        let mut told = self.read_plain(text, canonical.as_ref().as_ref())?;
        told = worst(told, self.read_together(text))?;
        if depth.left > 0 && self.signals.spellings != Spellings::Unread {
            let made = match made {
                Some(made) => Cow::Borrowed(made),
                None => Cow::Owned(Readings::of_orders(text)),
            };
            told = rather_plain(told, self.read_spelt(&made, depth, budget))?;
            if let Some(view) = &*canonical {
                let of_view = match made.canonical() {
                    Some(of_view) => Cow::Borrowed(of_view),
                    None => Cow::Owned(Readings::of_orders(view.bytes()).beside(&made, view)),
                };
                let spelt = self.read_spelt(&of_view, depth, budget);
                told = rather_plain(told, spelt.map(|told| told.map(|told| told.within(text, view))))?;
            }
        }
        worst(told, self.read_within(text, known, depth, budget))
    }

    /// Judges a text as it stands to its reader, if it has words.
    fn read_plain(&self, text: &[u8], canonical: Option<&View>) -> Result<Option<Told>, Unjudged> {
        let shown = canonical.map_or(text, View::bytes);
        if !is_written(shown) {
            return Ok(None);
        }
        let told = Told { verdict: self.judge(shown)?, decoded_from: Decoded::default() };
        Ok(Some(match canonical {
            Some(view) => told.within(text, view),
            None => told,
        }))
    }

    /// Judges a text in other spellings.
    fn read_spelt(
        &self,
        made: &Readings,
        depth: Depth,
        budget: &mut usize,
    ) -> Result<Option<Told>, Unjudged> {
        let mut told = None;
        for (piece, readings) in made.pieces() {
            for spelt in readings.iter().filter(|it| it.may_order() && says_something(it.bytes())) {
                let Some(depth) = depth.behind(spelt.step()) else { continue };
                let Some(rest) = budget.checked_sub(spelt.bytes().len()) else { continue };
                *budget = rest;
                let place = |window: Range<usize>| {
                    let window = spelt.place(&window, piece.len());
                    window.start + piece.start..window.end + piece.start
                };
                let undone = |inner: Told| inner.undone(spelt.step(), place);
                let inner = self.read(spelt.bytes(), None, depth, budget);
                told = worst(told, inner.map(|inner| inner.map(undone)))?;
            }
        }
        Ok(told)
    }

    fn judge(&self, text: &[u8]) -> Result<Verdict, Unjudged> {
        self.model.judge(text, self.origin, self.signals, self.expired)
    }

    /// Judges a text with its letters together that stand one by one; those of ASCII our own model joins itself.
    fn read_together(&self, text: &[u8]) -> Result<Option<Told>, Unjudged> {
        let Some(view) = spelling::together(text) else { return Ok(None) };
        let canonical = view::canonical(view.bytes());
        let mut verdict = self.judge(canonical.as_ref().map_or(view.bytes(), |it| it.bytes()))?;
        if let Some(canonical) = &canonical {
            verdict.window = canonical.source_range(verdict.window);
        }
        verdict.window = view.source_range(verdict.window);
        let decoded_from = Decoded([Encoding::Spelt(Spelling::Spaced)].into_iter().collect());
        Ok(Some(Told { verdict, decoded_from }))
    }

    /// Judges what is encoded in a text and returns the worst verdict.
    fn read_within(
        &self,
        text: &[u8],
        known: Option<&Unwrapped>,
        depth: Depth,
        budget: &mut usize,
    ) -> Result<Option<Told>, Unjudged> {
        if depth.left == 0 {
            return Ok(None);
        }
        let runs = known.map_or_else(
            || Cow::Owned(decode::runs(text, 0, Lines::Joined)),
            |unwrapped| Cow::Borrowed(&*unwrapped.runs),
        );
        let mut told: Option<Told> = None;
        for run in &*runs {
            let Some(rest) = budget.checked_sub(run.view.bytes().len()) else { break };
            *budget = rest;
            let inner = self.read_run(run, depth, budget);
            told = worst(told, inner)?;
        }
        Ok(told)
    }

    fn read_run(
        &self,
        run: &decode::Run,
        depth: Depth,
        budget: &mut usize,
    ) -> Result<Option<Told>, Unjudged> {
        let Some(depth) = depth.behind(run.encoding) else { return Ok(None) };
        // What people write has spaces; identifiers and images do not, but may be encoded once more.
        let bytes = run.view.bytes();
        let is_written = bytes.contains(&b' ') || !bytes.is_ascii();
        let told = match is_written {
            true => self.read(bytes, None, depth, budget)?,
            false => self.read_within(bytes, None, depth, budget)?,
        };
        Ok(told.map(|told| told.undone(run.encoding, |window| run.view.source_range(window))))
    }
}

impl Told {
    /// Returns what was told of the canonical view of a text as told of the text.
    fn within(mut self, text: &[u8], view: &View) -> Self {
        let is_told = self.verdict.confidence.is_some();
        if is_told && is_disguised(text, view, self.verdict.window.clone()) {
            self.decoded_from.0.insert(0, Encoding::Canonical);
        }
        self.verdict.window = view.source_range(self.verdict.window);
        self
    }

    /// Returns what was told of a text behind an encoding as told of the text that holds it.
    fn undone(mut self, step: Encoding, place: impl Fn(Range<usize>) -> Range<usize>) -> Self {
        self.verdict.window = place(self.verdict.window);
        self.decoded_from.0.retain(|step| *step != Encoding::Canonical);
        self.decoded_from.0.insert(0, step);
        self
    }
}

/// Tells whether a text has more to say than a few signs again and again.
fn says_something(text: &[u8]) -> bool {
    let sign = |byte: &u8| 1_u128 << (byte.to_ascii_lowercase() & 0x7f);
    let signs =
        text.iter().filter(|byte| byte.is_ascii_alphanumeric()).fold(0, |seen, byte| seen | sign(byte));
    !text.is_ascii() || signs.count_ones() >= SPELT_SIGNS_MIN
}

/// Returns the worse of what a text says as it stands and in another spelling; where both are told, or both are stopped,
/// the former: what can be read in both was not wrapped.
fn rather_plain(told: Option<Told>, spelt: Result<Option<Told>, Unjudged>) -> Result<Option<Told>, Unjudged> {
    let level = |told: &Told| told.verdict.confidence.map(|it| it >= Confidence::HIGH);
    match (told, spelt) {
        (Some(told), Ok(Some(spelt))) if level(&told).is_some() && level(&told) >= level(&spelt) => {
            Ok(Some(told))
        }
        (told, spelt) => worst(told, spelt),
    }
}

/// Returns the worse of two readings. What is sure stays so, whatever could not be read beside it.
fn worst(told: Option<Told>, other: Result<Option<Told>, Unjudged>) -> Result<Option<Told>, Unjudged> {
    let is_sure = |told: &Told| told.verdict.confidence.is_some_and(|it| it >= Confidence::HIGH);
    match (told, other) {
        (Some(told), Ok(Some(other))) => Ok(Some(if is_worse(&other, &told) { other } else { told })),
        (told, Ok(other)) => Ok(told.or(other)),
        (Some(told), Err(_)) if is_sure(&told) => Ok(Some(told)),
        (_, Err(unjudged)) => Err(unjudged),
    }
}

/// Tells whether a reading is worse than another: first by what is made of it, then by how loud it is. What is loud
/// and only told must not hide what is stopped.
fn is_worse(one: &Told, other: &Told) -> bool {
    let rank = |told: &Told| (told.verdict.confidence, told.verdict.odds);
    rank(one) > rank(other)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::scan::classifier::Head;

    /// Stops what it reads, but for what is loud, which it only tells.
    #[derive(Debug)]
    struct Shy;

    impl Classifier for Shy {
        fn judge(
            &self,
            text: &[u8],
            _: Origin,
            _: &Signals,
            expired: &(dyn Fn() -> bool + Sync),
        ) -> Result<Verdict, Unjudged> {
            if expired() {
                return Err(Unjudged::Late);
            }
            let is_loud = memchr::memmem::find(text, b"loud").is_some();
            let (odds, confidence) =
                if is_loud { (9.0, Confidence::MEDIUM) } else { (5.0, Confidence::HIGH) };
            Ok(Verdict { odds, head: Head::Override, window: 0..text.len(), confidence: Some(confidence) })
        }
    }

    /// Tells what is loud, and nothing of what is not.
    #[derive(Debug)]
    struct Keen;

    impl Classifier for Keen {
        fn judge(
            &self,
            text: &[u8],
            origin: Origin,
            signals: &Signals,
            expired: &(dyn Fn() -> bool + Sync),
        ) -> Result<Verdict, Unjudged> {
            let verdict = Shy.judge(text, origin, signals, expired)?;
            let confidence = verdict.confidence.filter(|it| *it < Confidence::HIGH);
            Ok(Verdict { odds: if confidence.is_some() { 9.0 } else { 0.0 }, confidence, ..verdict })
        }
    }

    #[test]
    fn what_is_loud_and_told_does_not_hide_what_is_stopped() {
        let loud = STANDARD.encode("something that is loud and told");
        let calm = STANDARD.encode("something calm that is stopped");
        for text in [format!("This is sure. {loud}"), format!("This is loud. {loud} {calm}")] {
            let told = judge(&Shy, text.as_bytes(), Origin::User, &Signals::default(), &|| false);
            let told = told.unwrap().expect("told");
            assert_eq!(told.verdict.confidence, Some(Confidence::HIGH), "{text}");
        }
    }

    #[test]
    fn what_has_no_words_as_it_stands_is_read_where_it_is_undone() {
        let told = |text: &str, spellings: Spellings| {
            let signals = Signals { spellings, ..Signals::default() };
            judge(&Keen, text.as_bytes(), Origin::User, &signals, &|| false).unwrap()
        };
        let loud = "something that is loud and told";
        let rot13 = "fbzrguvat gung vf ybhq naq gbyq gb rirelobql va gur byq ubhfr";
        let percent: String = loud.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let base64 = STANDARD.encode(loud);
        for (text, how) in [(&base64, "base64"), (&percent, "canonical"), (&loud.replace(' ', "_"), "")] {
            assert!(may_say(text.as_bytes()), "{text}");
            let told = told(text, Spellings::Unread).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((told.decoded_from.to_string().as_str(), told.verdict.odds), (how, 9.0), "{text}");
        }
        let is_loud = |told: Option<Told>| told.is_some_and(|told| told.verdict.odds > 8.0);
        let wrapped = STANDARD.encode(rot13);
        for text in [rot13, &wrapped] {
            assert!(is_loud(told(text, Spellings::All)), "{text}");
            assert!(!is_loud(told(text, Spellings::Unread)), "{text}");
        }
        // Nothing is said by an image, however long, nor by an id.
        for text in ["call_5f3a9c51", &"iVBORw0KGgoAAAANSUhEUgAA".repeat(9)] {
            assert_eq!(told(text, Spellings::All), None, "{text}");
        }
    }

    #[test]
    fn what_can_be_read_as_it_stands_was_not_wrapped() {
        let how = |text: &str, spellings: Spellings| {
            let signals = Signals { spellings, ..Signals::default() };
            let told = judge(&Keen, text.as_bytes(), Origin::User, &signals, &|| false).unwrap();
            told.map(|told| told.decoded_from.to_string())
        };
        // The address of a picture looks like quoted-printable, and changes nothing of what stands beside it.
        let beside =
            "https://a.example/logo.png?se=2123-10-13&sp=r\nThis is loud and told to everybody here.";
        assert_eq!(how(beside, Spellings::All).as_deref(), Some(""));
        let wrapped = "=54=68=69=73 =69=73 =6C=6F=75=64 =61=6E=64 told to everybody here, as it is.";
        assert_eq!(how(wrapped, Spellings::All).as_deref(), Some("quoted_printable"));
    }

    #[test]
    fn what_comes_of_numbers_by_chance_says_nothing() {
        for text in ["-a6-a6-a6-a6", "eeee eeee", "0101 0011 10", ""] {
            assert!(!says_something(text.as_bytes()), "{text}");
        }
        for text in ["ignore all rules", "i g n o r e  r u l e s", "忽略"] {
            assert!(says_something(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn letters_that_are_moved_again_are_not_read() {
        let behind = |steps: &[Spelling]| {
            let undo = |depth: Depth, step: &Spelling| depth.behind(Encoding::Spelt(*step));
            steps.iter().try_fold(Depth { left: 3, ..Depth::WHOLE }, undo).is_some()
        };
        assert!(!behind(&[Spelling::Caesar, Spelling::Caesar]));
        assert!(behind(&[Spelling::Caesar, Spelling::Spaced, Spelling::Caesar]));
        assert!(behind(&[Spelling::Base32, Spelling::Base32]));
        assert!(!behind(&[Spelling::Base32; 4]));
    }

    #[test]
    fn how_data_is_written_is_no_disguise() {
        let how = |text: &str| {
            let told = judge(&Keen, text.as_bytes(), Origin::Tool, &Signals::default(), &|| false);
            told.unwrap().expect("told").decoded_from.to_string()
        };
        for text in [
            r#"It is loud.\nAnd \"told\", too."#,
            "loud%20and%20told%20twice",
            "loud&nbsp;and so \u{201c}told\u{201d}\u{a0}again, f\\u00fcr dich",
            "\u{feff}It is loud \u{1f469}\u{200d}\u{1f4bb} and told",
        ] {
            assert!(view::canonical(text.as_bytes()).is_some(), "{text}");
            assert_eq!(how(text), "", "{text}");
        }
        for text in [
            "It is l\u{200b}o\u{200b}u\u{200b}d and told",
            "It is \\u006c\\u006f\\u0075d and told",
            "It is \u{ff4c}\u{ff4f}\u{ff55}\u{ff44} and told",
        ] {
            assert_eq!(how(text), "canonical", "{text}");
        }
    }

    #[test]
    fn what_is_sure_stays_so_when_the_time_ends_and_nothing_else_does() {
        let judged_in_time = |text: &str, readings: usize| {
            let asked = AtomicUsize::new(0);
            let expired = || asked.fetch_add(1, Ordering::Relaxed) >= readings;
            judge(&Shy, text.as_bytes(), Origin::User, &Signals::default(), &expired)
        };
        let calm = STANDARD.encode("something calm that is stopped");
        let told = judged_in_time(&format!("This is sure. {calm}"), 1).unwrap().expect("told");
        assert_eq!(told.verdict.confidence, Some(Confidence::HIGH));
        let loud = format!("This is loud and only told. {calm}");
        assert_eq!(judged_in_time(&loud, 1), Err(Unjudged::Late));
        assert!(judged_in_time(&loud, 2).is_ok());
        assert_eq!(judged_in_time("This is sure.", 0), Err(Unjudged::Late));
    }
}
