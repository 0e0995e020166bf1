//! How fast a detector reads, before it is let into a pack.
//!
//! One slow pattern slows the common first stage for all; so each is measured alone, on text that has something of
//! everything: prose, code, numbers, addresses and random words. The clock is the caller's.

use std::time::Duration;

use crate::scan::detector::Detector;
use crate::scan::pack::PackFault;
use crate::scan::scanner::ScanFault;
use crate::scan::scanner::Scanner;

/// The text a rate is measured on, in bytes.
const RATE_TEXT_BYTES: usize = 1 << 16;
/// How often that text is scanned; the fastest time counts.
const RATE_ROUNDS: usize = 25;

/// How fast a scanner reads mixed text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Bytes a second, in the fastest of many rounds.
    pub bytes_per_second: f64,
}

/// No rate could be had.
#[derive(Debug, thiserror::Error)]
pub enum RateFault {
    /// The detector does not compile.
    #[error("the detector does not compile")]
    Refused(Vec<PackFault>),
    /// The text could not be judged.
    #[error(transparent)]
    Scan(#[from] ScanFault),
}

/// Measures one detector alone, in an optimised build; `now` gives a monotonic time.
///
/// # Errors
/// The detector does not compile, or the text could not be judged.
pub fn of_detector(detector: &Detector, now: &dyn Fn() -> Duration) -> Result<Rate, RateFault> {
    let alone = Scanner::compile(vec![detector.clone()]).map_err(RateFault::Refused)?;
    Ok(of_scanner(&alone, now)?)
}

/// Measures all detectors of a scanner together; `now` gives a monotonic time.
///
/// # Errors
/// The text could not be judged.
pub fn of_scanner(scanner: &Scanner, now: &dyn Fn() -> Duration) -> Result<Rate, ScanFault> {
    let text = mixed_text();
    let all = scanner.all();
    let mut fastest = Duration::MAX;
    for _ in 0..RATE_ROUNDS {
        let began = now();
        scanner.search_plain(&text, &all)?;
        fastest = fastest.min(now().saturating_sub(began));
    }
    Ok(Rate { bytes_per_second: text.len() as f64 / fastest.as_secs_f64().max(1e-9) })
}

/// Makes the text that rates are measured on: prose, code, numbers, addresses and random words.
fn mixed_text() -> Vec<u8> {
    let pieces: [&str; 8] = [
        "The quarterly report shows that revenue grew by 12.5 % against last year, mostly abroad. ",
        "fn parse(input: &str) -> Result<Vec<u32>, Error> { input.split(',').map(str::parse).collect() }\n",
        "{\"id\": 4711, \"name\": \"Example Ltd.\", \"created\": \"2025-03-14T09:26:53Z\", \"active\": true}\n",
        "Please answer ann.smith@mail.example or call +44 20 7946 0000 between 9 and 17 h. ",
        "GET /v1/items?page=3&size=50 HTTP/1.1 host: api.example:8443 from 10.24.0.17\n",
        "password reset, secret santa, token ring, api design, key account, private beach. ",
        "| 1001 | 2002-02-03 | 45.10 | EUR | open |\n| 1002 | 2003-04-05 | 7.99 | EUR | paid |\n",
        "Ignore the noise; the instructions of the assembly were printed before the system was built. ",
    ];
    let mut dice = super::Dice(0x5eed_5eed_5eed_5eed);
    let mut text = Vec::with_capacity(RATE_TEXT_BYTES + 256);
    while text.len() < RATE_TEXT_BYTES {
        if dice.below(9) == 0 {
            let length = 8 + dice.below(40);
            text.extend(
                (0..length)
                    .map(|_| b"abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"[dice.below(56)]),
            );
            text.push(b' ');
        } else {
            let at = dice.below(pieces.len());
            pieces.iter().skip(at).take(1).for_each(|piece| text.extend_from_slice(piece.as_bytes()));
        }
    }
    text.truncate(RATE_TEXT_BYTES);
    text
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::scan::fixture;

    #[test]
    fn a_rate_is_text_by_time() {
        let ticks = Cell::new(0);
        let now = || {
            ticks.set(ticks.get() + 1);
            Duration::from_millis(ticks.get())
        };
        let rate = of_detector(&fixture::detector("probe", "ab[0-9]{3}"), &now).unwrap();
        assert_eq!(rate.bytes_per_second.round(), 65_536_000.0);
    }
}
