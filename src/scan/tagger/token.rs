//! A text as tokens: words, numbers and single marks, cut while it arrives.
//!
//! In: bytes, cut anywhere. Out: tokens, each with its place and what stands before it, the same for every way to cut
//! the bytes. The escapes of a text that is JSON are undone on the way ([`Escapes`]); places are always those of the bytes. A letter of Chinese, or of Japanese hiragana, is a token of its own; a word of another script ends where its
//! letters and digits do, or is cut at [`TOKEN_BYTES_MAX`].

use std::ops::Range;

use smallvec::SmallVec;

use super::escape::Escapes;
use super::escape::Meaning;

/// Longer words are cut here, in bytes.
pub const TOKEN_BYTES_MAX: usize = 48;

/// So much white space ends what was said before, in bytes: nobody waits for what stands behind it.
pub const GAP_BYTES_MAX: usize = 64;

/// How many empty tokens stand for such a gap: as many as a token waits for, and one that ends it.
const GAP_TOKENS: usize = 5;

/// What stands between a token and the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gap {
    /// Nothing.
    Glued,
    /// White space.
    Space,
    /// The end of a line.
    Line,
    /// An empty line, or nothing: the text begins.
    #[default]
    Blank,
}

/// What a token is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matter {
    /// Letters, and digits among them.
    Word,
    /// A letter that is a word of its own.
    Sign,
    /// Anything else: one character.
    Mark,
}

/// A token and its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its bytes, escapes undone.
    pub bytes: SmallVec<[u8; 24]>,
    /// Its place in the text.
    pub range: Range<usize>,
    /// What it is made of.
    pub matter: Matter,
    /// What stands before it.
    pub gap: Gap,
}

/// Cuts a text into tokens.
#[derive(Clone, Debug, Default)]
pub struct Cutter {
    escapes: Escapes,
    /// How much of the text was read, without an escape that is not complete yet.
    end: usize,
    /// The first bytes of a character.
    partial: SmallVec<[u8; 4]>,
    /// A word that may go on, and where it begins.
    word: SmallVec<[u8; 24]>,
    word_start: usize,
    gap: Gap,
    gap_bytes: usize,
}

/// What a character does to the token under way.
enum Role {
    Space,
    Line,
    Letter,
    /// It belongs to a word if there is one before it.
    Follower,
    Sign,
    Mark,
}

impl Cutter {
    /// Returns before which byte everything was handed out.
    pub fn told_to(&self) -> usize {
        if self.word.is_empty() { self.end - self.partial.len() } else { self.word_start }
    }

    /// Tells whether escapes are undone in the text.
    pub fn undoes_escapes(&self) -> bool {
        self.escapes.is_json()
    }

    /// Takes the next bytes and hands out the tokens they end.
    pub fn push(&mut self, bytes: &[u8], mut emit: impl FnMut(Token)) {
        let mut escapes = std::mem::take(&mut self.escapes);
        for byte in bytes {
            escapes.take(*byte, &mut |meaning| self.read(meaning, &mut emit));
        }
        self.escapes = escapes;
    }

    /// Ends the text.
    pub fn finish(&mut self, mut emit: impl FnMut(Token)) {
        let mut escapes = std::mem::take(&mut self.escapes);
        escapes.finish(&mut |meaning| self.read(meaning, &mut emit));
        if !self.partial.is_empty() {
            self.broken(&mut emit);
        }
        self.end_word(self.end, &mut emit);
    }

    fn read(&mut self, meaning: Meaning, emit: &mut impl FnMut(Token)) {
        match meaning {
            Meaning::Byte(byte) => self.byte(byte, emit),
            Meaning::Letter { letter, taken } => {
                if !self.partial.is_empty() {
                    self.broken(emit);
                }
                self.end += taken;
                self.take(letter, letter.encode_utf8(&mut [0; 4]).as_bytes(), taken, emit);
            }
        }
    }

    fn byte(&mut self, byte: u8, emit: &mut impl FnMut(Token)) {
        let is_inner = byte & 0xc0 == 0x80;
        if !self.partial.is_empty() && !is_inner {
            self.broken(emit);
        }
        self.partial.push(byte);
        self.end += 1;
        let length = match self.partial[0] {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        if self.partial.len() == length {
            let whole = std::mem::take(&mut self.partial);
            match std::str::from_utf8(&whole).ok().and_then(|text| text.chars().next()) {
                Some(letter) => self.take(letter, &whole, whole.len(), emit),
                None => self.mark(&whole, whole.len(), emit),
            }
        }
    }

    /// Hands out bytes that are no character.
    fn broken(&mut self, emit: &mut impl FnMut(Token)) {
        let bytes = std::mem::take(&mut self.partial);
        self.mark(&bytes, bytes.len(), emit);
    }

    /// Takes a character that `taken` bytes of the text stand for, which were read last.
    fn take(&mut self, letter: char, bytes: &[u8], taken: usize, emit: &mut impl FnMut(Token)) {
        let before = self.end - taken;
        match role(letter) {
            Role::Letter => self.grow(before, bytes, emit),
            Role::Follower if !self.word.is_empty() => self.grow(before, bytes, emit),
            Role::Space => {
                self.space(before, bytes.len(), emit);
                self.gap = self.gap.max(Gap::Space);
            }
            Role::Line => {
                self.space(before, bytes.len(), emit);
                self.gap = if self.gap >= Gap::Line { Gap::Blank } else { Gap::Line };
            }
            Role::Sign => {
                self.end_word(before, emit);
                self.hand_out(bytes.into(), before..self.end, Matter::Sign, emit);
            }
            Role::Mark | Role::Follower => self.mark(bytes, taken, emit),
        }
    }

    /// Takes white space.
    fn space(&mut self, before: usize, bytes: usize, emit: &mut impl FnMut(Token)) {
        self.end_word(before, emit);
        let known = self.gap_bytes;
        self.gap_bytes += bytes;
        if known < GAP_BYTES_MAX && self.gap_bytes >= GAP_BYTES_MAX {
            for _ in 0..GAP_TOKENS {
                let bytes = SmallVec::new();
                emit(Token { bytes, range: before..before, matter: Matter::Mark, gap: Gap::Blank });
            }
        }
    }

    /// Takes a letter for the word under way.
    fn grow(&mut self, before: usize, bytes: &[u8], emit: &mut impl FnMut(Token)) {
        if self.word.len() + bytes.len() > TOKEN_BYTES_MAX {
            self.end_word(before, emit);
        }
        if self.word.is_empty() {
            self.word_start = before;
        }
        self.word.extend_from_slice(bytes);
    }

    /// Hands out a mark that `taken` bytes of the text stand for, which were read last.
    fn mark(&mut self, bytes: &[u8], taken: usize, emit: &mut impl FnMut(Token)) {
        let end = self.end - self.partial.len();
        let range = end - taken..end;
        self.end_word(range.start, emit);
        self.hand_out(bytes.into(), range, Matter::Mark, emit);
    }

    /// Hands out the word that ends at `end`, if there is one.
    fn end_word(&mut self, end: usize, emit: &mut impl FnMut(Token)) {
        if !self.word.is_empty() {
            let word = std::mem::take(&mut self.word);
            self.hand_out(word, self.word_start..end, Matter::Word, emit);
        }
    }

    fn hand_out(
        &mut self,
        bytes: SmallVec<[u8; 24]>,
        range: Range<usize>,
        matter: Matter,
        emit: &mut impl FnMut(Token),
    ) {
        let gap = std::mem::replace(&mut self.gap, Gap::Glued);
        self.gap_bytes = 0;
        emit(Token { bytes, range, matter, gap });
    }
}

fn role(letter: char) -> Role {
    match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' => Role::Letter,
        '\n' => Role::Line,
        '\0'..='\x7f' if letter.is_ascii_whitespace() || letter == '\x0b' => Role::Space,
        '\0'..='\x7f' => Role::Mark,
        // Hiragana, and the letters of Chinese.
        '\u{3041}'..='\u{309f}' | '\u{3005}'..='\u{3007}' => Role::Sign,
        '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}' => Role::Sign,
        // The marks of Indic and South East Asian scripts are not all letters, and stand within words.
        '\u{900}'..='\u{dff}' if !matches!(letter, '\u{964}' | '\u{965}') => Role::Letter,
        '\u{e00}'..='\u{eff}' | '\u{30fc}' => Role::Letter,
        '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5c7}' => Role::Follower,
        '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}' => Role::Follower,
        '\u{200b}'..='\u{200f}' | '\u{ad}' | '\u{2060}' | '\u{feff}' => Role::Follower,
        _ if letter.is_whitespace() => Role::Space,
        _ if letter.is_alphanumeric() => Role::Letter,
        _ => Role::Mark,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(pieces: &[&[u8]]) -> Vec<Token> {
        let (mut cutter, mut tokens) = (Cutter::default(), Vec::new());
        pieces.iter().for_each(|piece| cutter.push(piece, |token| tokens.push(token)));
        cutter.finish(|token| tokens.push(token));
        assert_eq!(cutter.told_to(), pieces.iter().map(|piece| piece.len()).sum::<usize>());
        tokens
    }

    #[test]
    fn words_numbers_and_marks_are_told_apart() {
        let told = |text: &str| {
            let show = |token: &Token| String::from_utf8_lossy(&token.bytes).into_owned();
            cut(&[text.as_bytes()]).iter().map(show).collect::<Vec<_>>().join("|")
        };
        assert_eq!(told("Ann O'Neil,  12b Rue"), "Ann|O|'|Neil|,|12b|Rue");
        assert_eq!(told("李健。マイケルさん"), "李|健|。|マイケル|さ|ん");
        assert_eq!(told("भारत कौलजी"), "भारत|कौलजी");
        assert_eq!(told(&"a".repeat(100)), ["a".repeat(48), "a".repeat(48), "a".repeat(4)].join("|"));
    }

    #[test]
    fn what_stands_between_is_known() {
        let gaps: Vec<Gap> = cut(&[b"a b-c\nd\r\ne\n \nf"]).iter().map(|token| token.gap).collect();
        let (glued, space, line, blank) = (Gap::Glued, Gap::Space, Gap::Line, Gap::Blank);
        assert_eq!(gaps, [blank, space, glued, glued, line, line, blank]);
    }

    #[test]
    fn a_long_gap_ends_what_was_said() {
        for space in [" ", "\n", "\u{3000}", "\u{2003}\t"] {
            let text = format!("a{}b", space.repeat(100));
            let tokens = cut(&[text.as_bytes()]);
            let empty = tokens.iter().filter(|token| token.bytes.is_empty()).count();
            assert_eq!((empty, tokens.len()), (GAP_TOKENS, GAP_TOKENS + 2), "{space:?}");
        }
        assert_eq!(cut(&[b"a   b"]).len(), 2);
    }

    #[test]
    fn escapes_of_json_are_undone_and_places_stay_those_of_the_text() {
        let text = r#"{"a\n":"Jos\u00e9 \u674e\u5065\tx", "p": "C:\q"}"#;
        let tokens = cut(&[text.as_bytes()]);
        let told = |from: usize| {
            let token = &tokens[from];
            (String::from_utf8_lossy(&token.bytes).into_owned(), &text[token.range.clone()], token.gap)
        };
        assert_eq!(told(2), ("a".to_owned(), "a", Gap::Glued));
        assert_eq!(told(6), ("José".to_owned(), r"Jos\u00e9", Gap::Glued));
        assert_eq!(told(7), ("李".to_owned(), r"\u674e", Gap::Space));
        assert_eq!(told(9), ("x".to_owned(), "x", Gap::Space));
        assert_eq!(cut(&[br"Jos\u00e9"]).len(), 3, "a text that is no JSON means what it says");
    }

    #[test]
    fn how_a_text_is_cut_tells_nothing() {
        let text = "Zoë 李健さん, it\u{301}s 12b.\n\n😀 x".as_bytes();
        let damaged = [text, &[0xff, b'a', 0xe6, 0x9d, b'b', 0xf0, 0x9f]].concat();
        let json = [br#"[{"\u00e9\n\\":"#, text, br#""\ud83d\ude00 \ud83d\n \udc00\u12"x\"#].concat();
        let broken = [br#"{" "#, &damaged[..], br"\u00e9\ud83d"].concat();
        for text in [text, &damaged, &json, &broken] {
            let whole = cut(&[text]);
            for step in 1..7 {
                assert_eq!(cut(&text.chunks(step).collect::<Vec<_>>()), whole);
            }
        }
    }
}
