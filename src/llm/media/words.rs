//! The words among bytes that are no text: descriptions of pictures, profiles of colours, notes of cameras.

use super::Media;

/// From how many printable signs of ASCII side by side on bytes read as text: compressed ones have no such stretch.
const WORDS_BYTES_MIN: usize = 32;

impl Media {
    /// Tells whether some stretch of bytes reads as text, whatever stands around it: a file of words with one byte among
    /// them that is none is no image.
    pub fn has_words(bytes: &[u8]) -> bool {
        first_words(bytes).is_some()
    }

    /// Returns the stretches of bytes that read as text, each on a line, of so many bytes in all.
    pub fn words(bytes: &[u8], most: usize) -> String {
        let (mut words, mut rest) = (String::new(), bytes);
        while let Some(begin) = first_words(rest).filter(|_| words.len() < most) {
            rest = rest.get(begin..).unwrap_or_default();
            let (stretch, behind) =
                rest.split_at(rest.iter().position(|byte| !is_of_words(*byte)).unwrap_or(rest.len()));
            let fits = stretch.get(..most - words.len()).unwrap_or(stretch);
            words.extend(fits.iter().map(|byte| char::from(*byte)));
            words.push('\n');
            rest = behind;
        }
        words
    }
}

/// Returns where the first stretch of bytes that reads as text begins.
fn first_words(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    // What lies before the last other byte of a window is too short a stretch, whatever it is.
    while let Some(window) = bytes.get(at..at + WORDS_BYTES_MIN) {
        let Some(last) = window.iter().rposition(|byte| !is_of_words(*byte)) else { return Some(at) };
        at += last + 1;
    }
    None
}

fn is_of_words(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_of_words_is_seen_wherever_it_lies() {
        let words = [b'w'; WORDS_BYTES_MIN];
        for before in 0..=2 * WORDS_BYTES_MIN {
            for other in [0x80, 0, 0x7f] {
                let noise: Vec<u8> = (0..before).map(|at| if at % 7 == 3 { other } else { b'n' }).collect();
                let bytes = [&noise[..], &[other], &words, &[other; 3]].concat();
                assert!(Media::has_words(&bytes), "{before} bytes before");
                assert!(!Media::has_words(&[&noise[..], &[other], &words[1..], &[other; 40]].concat()));
            }
        }
    }

    #[test]
    fn words_are_each_stretch_as_far_as_there_is_room() {
        let (one, two) = ("w".repeat(WORDS_BYTES_MIN), "x".repeat(WORDS_BYTES_MIN + 8));
        let bytes = [one.as_bytes(), b"\x00short\xff", two.as_bytes(), b"\x80"].concat();
        assert_eq!(Media::words(&bytes, 999), format!("{one}\n{two}\n"));
        assert_eq!(Media::words(&bytes, 40), format!("{one}\n{}\n", &two[..7]));
        assert_eq!(Media::words(b"short \x00 ones", 999), "");
    }
}
