//! A text that is read while it arrives: names are told once they are over, and everything before them may go.
//!
//! In: pieces of a text, cut anywhere. Out: the [`Span`]s in it, the same for every way to cut it, and up to where the
//! text can hold no more of them. A token is judged when the four behind it are known, so that this is what waits, and
//! a name under way, of [`SPAN_TOKENS_MAX`] tokens at most.

use std::collections::VecDeque;
use std::ops::Range;

use super::Tagger;
use super::chain::LAG;
use super::chain::Row;
use super::chain::START;
use super::chain::STATES;
use super::chain::Tag;
use super::chain::factors;
use super::chain::scaled;
use super::feature::BEFORE;
use super::feature::BEHIND;
use super::feature::Look;
use super::feature::Past;
use super::token::Cutter;
use super::token::Matter;
use super::token::Token;

/// A longer span is cut here, in tokens.
pub const SPAN_TOKENS_MAX: usize = 40;
/// And here, in bytes.
pub const SPAN_BYTES_MAX: usize = 512;
/// How much of a text is read before it is asked again whether there is time left, in bytes: few milliseconds' worth,
/// whatever it is made of.
pub const UNASKED_BYTES_MAX: usize = 4 << 10;

/// The time for a text is over; what was found of it is not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time for a text is over")]
pub struct Late;

/// Something that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// What it is.
    pub tag: Tag,
    /// Where it stands.
    pub range: Range<usize>,
    /// How likely it is, between 0 and 1.
    pub chance: f32,
}

/// A token that waits for what comes.
#[derive(Clone, Debug)]
struct Waiting {
    range: Range<usize>,
    matter: Matter,
    look: Look,
    /// What speaks for each state, and what is known of each from the text before.
    own: Row,
    known: Row,
}

/// A span under way.
#[derive(Clone, Debug)]
struct Open {
    tag: Tag,
    /// Its tokens so far.
    tokens: Vec<(Range<usize>, Matter)>,
    chance: f32,
}

/// A text under way.
#[derive(Clone, Debug)]
pub struct Reading {
    cutter: Cutter,
    /// Tokens that are not judged, after up to [`BEFORE`] that are.
    waiting: VecDeque<Waiting>,
    /// The number of the first token that waits, of the next one to be weighed, and of the next one to be judged.
    first: usize,
    weighed: usize,
    judged: usize,
    known: Row,
    past: Past,
    open: Option<Open>,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            cutter: Cutter::default(),
            waiting: VecDeque::new(),
            first: 0,
            weighed: 0,
            judged: 0,
            known: START,
            past: Past::default(),
            open: None,
        }
    }
}

impl Reading {
    /// Takes the next piece of the text; what is over is handed to `told`.
    pub fn push(&mut self, tagger: &Tagger, piece: &[u8], told: &mut Vec<Span>) {
        let mut cutter = std::mem::take(&mut self.cutter);
        cutter.push(piece, |token| self.take(tagger, &token, told));
        self.cutter = cutter;
    }

    /// Takes the next piece of the text, of any length, for as long as there is time.
    ///
    /// # Errors
    /// The time was over before its end.
    pub fn push_in_time(
        &mut self,
        tagger: &Tagger,
        piece: &[u8],
        told: &mut Vec<Span>,
        expired: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), Late> {
        for part in piece.chunks(UNASKED_BYTES_MAX) {
            if expired() {
                return Err(Late);
            }
            self.push(tagger, part, told);
        }
        Ok(())
    }

    /// Ends the text.
    pub fn finish(&mut self, tagger: &Tagger, told: &mut Vec<Span>) {
        let mut cutter = std::mem::take(&mut self.cutter);
        cutter.finish(|token| self.take(tagger, &token, told));
        self.cutter = cutter;
        let end = self.first + self.waiting.len();
        while self.weighed < end {
            self.weigh(tagger);
        }
        while self.judged < end {
            self.judge(tagger, told);
        }
        self.close(told);
        self.waiting.clear();
        self.first = end;
    }

    /// Tells whether escapes are undone in the text, so that what is found may have some.
    pub fn undoes_escapes(&self) -> bool {
        self.cutter.undoes_escapes()
    }

    /// Returns before which byte nothing can be found any more.
    pub fn free_to(&self) -> usize {
        let open = self.open.as_ref().and_then(|open| open.tokens.first()).map(|(range, _)| range.start);
        let mut waiting = self.waiting.iter().skip(self.judged - self.first);
        let waiting = waiting.find(|token| !token.range.is_empty()).map(|token| token.range.start);
        open.or(waiting).unwrap_or(self.cutter.told_to()).min(self.cutter.told_to())
    }

    fn take(&mut self, tagger: &Tagger, token: &Token, told: &mut Vec<Span>) {
        let look = Look::of(token, &tagger.words);
        let (range, matter) = (token.range.clone(), token.matter);
        self.waiting.push_back(Waiting { range, matter, look, own: START, known: START });
        let end = self.first + self.waiting.len();
        while self.weighed + BEHIND < end {
            self.weigh(tagger);
        }
        while self.judged + LAG < self.weighed {
            self.judge(tagger, told);
        }
        let kept = self.judged.min(self.weighed.saturating_sub(BEFORE));
        while self.first < kept {
            self.waiting.pop_front();
            self.first += 1;
        }
    }

    /// Weighs the next token: its neighbours are known.
    fn weigh(&mut self, tagger: &Tagger) {
        let at = self.weighed - self.first;
        let look = |offset: usize| {
            let place = (at + offset).checked_sub(BEFORE)?;
            self.waiting.get(place).map(|token| token.look)
        };
        let looks = std::array::from_fn(|offset| look(offset).unwrap_or_default());
        let own = if Look::is_surely_outside(&looks) {
            self.known = START;
            START
        } else {
            let own = factors(&tagger.odds(&looks, &self.past));
            self.known = tagger.steps.forward(&self.known, &own);
            own
        };
        self.past.pass(&looks[BEFORE]);
        if let Some(token) = self.waiting.get_mut(at) {
            (token.own, token.known) = (own, self.known);
        }
        self.weighed += 1;
    }

    /// Judges the next token: enough of what stands behind it is known.
    fn judge(&mut self, tagger: &Tagger, told: &mut Vec<Span>) {
        let at = self.judged - self.first;
        self.judged += 1;
        let Some(token) = self.waiting.get(at) else { return };
        if token.own == START {
            self.close(told);
            return;
        }
        let mut behind: Row = [1.0; STATES];
        for later in (1..=LAG).rev().filter_map(|offset| self.waiting.get(at + offset)) {
            behind = tagger.steps.backward(&later.own, &behind);
        }
        let mut chances = token.known;
        chances.iter_mut().zip(behind).for_each(|(chance, behind)| *chance *= behind);
        let chances = scaled(chances);
        let (range, matter) = (token.range.clone(), token.matter);
        self.decide(tagger, &chances, (range, matter), told);
    }

    /// Makes a token part of a span, or of none.
    fn decide(
        &mut self,
        tagger: &Tagger,
        chances: &Row,
        token: (Range<usize>, Matter),
        told: &mut Vec<Span>,
    ) {
        let of = |tag: Tag| {
            let (first, further) = (1 + 2 * tag.index(), 2 + 2 * tag.index());
            (chances[first], chances[further])
        };
        let sum = |tag: Tag| of(tag).0 + of(tag).1;
        let best = Tag::ALL.into_iter().max_by(|one, other| sum(*one).total_cmp(&sum(*other)));
        let Some(tag) = best.filter(|tag| sum(*tag) >= tagger.least[tag.index()]) else {
            self.close(told);
            return;
        };
        let (first, further) = of(tag);
        let goes_on = |open: &Open| {
            let bytes = open.tokens.first().map_or(0, |(start, _)| token.0.end - start.start);
            let is_short = open.tokens.len() < SPAN_TOKENS_MAX && bytes <= SPAN_BYTES_MAX;
            open.tag == tag && further >= first && is_short
        };
        match &mut self.open {
            Some(open) if goes_on(open) => {
                open.tokens.push(token);
                open.chance += first + further;
            }
            _ => {
                self.close(told);
                self.open = Some(Open { tag, tokens: vec![token], chance: first + further });
            }
        }
    }

    /// Tells the span under way: it is over.
    fn close(&mut self, told: &mut Vec<Span>) {
        let Some(Open { tag, mut tokens, chance }) = self.open.take() else { return };
        let chance = chance / tokens.len() as f32;
        let is_mark = |(_, matter): &(Range<usize>, Matter)| *matter == Matter::Mark;
        while tokens.last().is_some_and(is_mark) {
            tokens.pop();
        }
        let from = tokens.iter().position(|token| !is_mark(token)).unwrap_or(tokens.len());
        if let (Some((first, _)), Some((last, _))) = (tokens.get(from), tokens.last()) {
            told.push(Span { tag, range: first.start..last.end, chance });
        }
    }
}
