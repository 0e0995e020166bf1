//! How far a long scan has come, told in one line that is written over: only to somebody who watches.

use std::cell::Cell;
use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::clock::Clock;
use crate::clock::SystemClock;

/// How long nothing is told.
const PAUSE: Duration = Duration::from_millis(500);
/// Goes to the begin of the line and empties it.
const OVER: &str = "\r\x1b[2K";

/// Tells on a terminal, each half second or so, how much of an input was scanned.
pub(super) struct Progress {
    is_watched: bool,
    told_at: Duration,
    is_shown: Cell<bool>,
}

impl Progress {
    /// Returns the progress of a scan that begins now.
    pub(super) fn begin() -> Self {
        Self {
            is_watched: io::stderr().is_terminal(),
            told_at: SystemClock.monotonic(),
            is_shown: Cell::new(false),
        }
    }

    /// Tells how much of an input was scanned, and of how much where that is known, if it is time to.
    pub(super) fn tell(&mut self, file: &Path, scanned: u64, length: Option<u64>) {
        if self.is_watched && self.is_due(SystemClock.monotonic()) {
            write_over(&line(file, scanned, length));
            self.is_shown.set(true);
        }
    }

    /// Takes the line away, before anything else is told.
    pub(super) fn clear(&self) {
        if self.is_shown.replace(false) {
            write_over("");
        }
    }

    fn is_due(&mut self, now: Duration) -> bool {
        let is_due = now.saturating_sub(self.told_at) >= PAUSE;
        if is_due {
            self.told_at = now;
        }
        is_due
    }
}

/// Writes a line for people over the one before; nothing depends on whether they see it.
fn write_over(line: &str) {
    let mut terminal = io::stderr().lock();
    let _ = write!(terminal, "{OVER}{line}");
    let _ = terminal.flush();
}

fn line(file: &Path, scanned: u64, length: Option<u64>) -> String {
    let (name, mib) = (file.display(), scanned >> 20);
    match length.filter(|length| *length > 0) {
        // A file may grow while it is read.
        Some(length) => {
            let percent = scanned.min(length).saturating_mul(100) / length;
            format!("{name}: {mib} of {} MiB scanned ({percent} %)", length >> 20)
        }
        None => format!("{name}: {mib} MiB scanned"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_by_time_however_much_is_read() {
        let begun = Duration::from_secs(7);
        let mut progress = Progress { is_watched: true, told_at: begun, is_shown: Cell::new(false) };
        let due = [0, 499, 500, 501, 999, 1000, 9000, 9001]
            .map(|ms| progress.is_due(begun + Duration::from_millis(ms)));
        assert_eq!(due, [false, false, true, false, false, true, true, false]);
    }

    #[test]
    fn a_share_is_told_where_the_length_is_known() {
        let told = |scanned: u64, length| line(Path::new("a.log"), scanned << 20, length);
        assert_eq!(told(24, Some(96 << 20)), "a.log: 24 of 96 MiB scanned (25 %)");
        assert_eq!(told(24, Some(8 << 20)), "a.log: 24 of 8 MiB scanned (100 %)", "it grew");
        for unknown in [None, Some(0)] {
            assert_eq!(told(24, unknown), "a.log: 24 MiB scanned");
        }
    }
}
