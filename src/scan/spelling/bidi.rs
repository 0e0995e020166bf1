//! What stands behind an override of its direction (UAX #9): readers see it from its other end.

use memchr::memchr;
use memchr::memmem;

use super::Spelt;
use super::marks::turned;
use crate::scan::view::View;

/// RIGHT-TO-LEFT OVERRIDE.
const OVERRIDE: &str = "\u{202e}";
/// POP DIRECTIONAL FORMATTING, which ends it; so does the line.
const END: &str = "\u{202c}";

/// Returns a text's stretches behind overrides as they are seen, if it has any.
pub(super) fn read(text: &[u8]) -> Option<Spelt> {
    let stretches = stretches(text)?;
    Some(Spelt { is_bare: true, ..turned(stretches) })
}

/// Tells whether a text may have any.
pub(super) fn is_in(text: &[u8]) -> bool {
    memmem::find(text, OVERRIDE.as_bytes()).is_some()
}

/// Returns these stretches, with what is in no value between them.
fn stretches(text: &[u8]) -> Option<View> {
    let (mut view, mut at, mut line_end) = (View::default(), 0, 0);
    while let Some(found) = memmem::find(text.get(at..)?, OVERRIDE.as_bytes()) {
        let start = at + found + OVERRIDE.len();
        if start > line_end {
            let rest = text.get(start..)?;
            line_end = start + memchr(b'\n', rest).unwrap_or(rest.len());
        }
        let line = text.get(start..line_end)?;
        at = start + memmem::find(line, END.as_bytes()).unwrap_or(line.len());
        view.append(text.get(start..at)?, start, 1, 1);
        view.append(b"\0", at, 1, 1);
    }
    (!view.bytes().is_empty()).then_some(view)
}
