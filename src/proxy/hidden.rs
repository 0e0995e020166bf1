//! The provider's own key in what the provider answers: no caller is shown it, whatever a policy says.
//!
//! A provider that refuses a key likes to repeat it, in the error, in a header or in an event of a stream. The gateway knows
//! the key of the exchange, so that no pattern has to: each of its bytes is a `*`, which changes no length and breaks no
//! JSON. Of a piece that ends as the key begins the end waits for the next one. A body in a coding that nobody asked for is
//! searched as it comes.

use bytes::Bytes;
use http::HeaderValue;
use memchr::memmem;

/// A shorter key is no key: texts would be full of it.
const KEY_BYTES_MIN: usize = 8;

/// A key, and what of the body is held back because it may begin with it.
pub(super) struct Hidden {
    key: memmem::Finder<'static>,
    held: Vec<u8>,
    is_over: bool,
}

impl Hidden {
    /// Hides a key, if it is long enough to be told from other text.
    pub(super) fn new(key: &HeaderValue) -> Option<Self> {
        let finder = || memmem::Finder::new(key.as_bytes()).into_owned();
        (key.len() >= KEY_BYTES_MIN).then(|| Self { key: finder(), held: Vec::new(), is_over: false })
    }

    /// Takes the next piece of the body, and returns what may be shown by then.
    pub(super) fn piece(&mut self, piece: Bytes) -> Bytes {
        let is_clean = self.held.is_empty() && self.key.find(&piece).is_none();
        let begun = if is_clean { self.begun(&piece) } else { 0 };
        if is_clean && begun == 0 {
            return piece;
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(&piece);
        self.cover(&mut text);
        self.held = text.split_off(text.len() - self.begun(&text));
        text.into()
    }

    /// Returns what is left at the end of the body, if anything.
    pub(super) fn rest(&mut self) -> Option<Bytes> {
        self.is_over = true;
        Some(Bytes::from(std::mem::take(&mut self.held))).filter(|rest| !rest.is_empty())
    }

    /// Tells whether the body has ended: behind its rest there is nothing to read.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns a field of the head as it may be shown.
    pub(super) fn field(&self, value: &HeaderValue) -> HeaderValue {
        let mut text = value.as_bytes().to_vec();
        self.cover(&mut text);
        HeaderValue::from_bytes(&text).unwrap_or_else(|_| value.clone())
    }

    fn cover(&self, text: &mut [u8]) {
        let mut from = 0;
        while let Some(at) = text.get(from..).and_then(|rest| self.key.find(rest)) {
            let place = from + at..from + at + self.key.needle().len();
            text[place.clone()].fill(b'*');
            from = place.end;
        }
    }

    /// Returns how many bytes at the end of a text the key may begin with.
    fn begun(&self, text: &[u8]) -> usize {
        let key = self.key.needle();
        let most = text.len().min(key.len() - 1);
        let begins = |bytes: &usize| text.ends_with(&key[..*bytes]);
        (1..=most).rev().find(begins).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "aab-aab-aac";

    fn shown(pieces: &[&[u8]]) -> Vec<u8> {
        let mut hidden = Hidden::new(&HeaderValue::from_static(KEY)).unwrap();
        let mut out: Vec<u8> =
            pieces.iter().flat_map(|it| hidden.piece(Bytes::copy_from_slice(it))).collect();
        out.extend(hidden.rest().into_iter().flatten());
        out
    }

    #[test]
    fn a_key_is_hidden_however_it_is_cut() {
        let text = format!("bad key: aab-{KEY}. {KEY}{KEY} aab-aab-aa");
        let expected = text.replace(KEY, "***********");
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let bytes = text.as_bytes();
                let cut = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(String::from_utf8(shown(&cut)).unwrap(), expected, "{first} {second}");
            }
        }
    }

    #[test]
    fn what_is_no_begin_of_it_waits_for_nothing() {
        let mut hidden = Hidden::new(&HeaderValue::from_static(KEY)).unwrap();
        assert_eq!(hidden.piece(Bytes::from_static(b"data: no key here\n\n")), "data: no key here\n\n");
        assert_eq!(hidden.piece(Bytes::from_static(b"it ends in aab-a")), "it ends in ");
        assert_eq!(hidden.piece(Bytes::from_static(b"nd goes on")), "aab-and goes on");
        assert!(Hidden::new(&HeaderValue::from_static("short")).is_none());
        let field = HeaderValue::from_static("Bearer error=\"aab-aab-aac is unknown\"");
        assert_eq!(hidden.field(&field), "Bearer error=\"*********** is unknown\"");
    }
}
