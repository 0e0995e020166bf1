//! Where a view may hold what the text it was made from does not.

use std::ops::Range;

use crate::scan::detector::CONTEXT_BYTES;
use crate::scan::shape::WIDE_BYTES;

/// Returns which of the `starts` of matches in a part of a view, from `from` on, are so near one of the view's changes that
/// a match that is not wide may be new; ascending and disjoint, in offsets of the part.
///
/// A change matters within a match or beside it, and as far before one as its context goes.
pub(super) fn near_changes(
    changes: &[Range<usize>],
    from: usize,
    starts: &Range<usize>,
) -> Vec<Range<usize>> {
    let mut near: Vec<Range<usize>> = Vec::new();
    let nearest = changes.partition_point(|change| change.end + CONTEXT_BYTES + 2 <= from + starts.start);
    for change in changes.get(nearest..).unwrap_or_default() {
        let first = change.start.saturating_sub(from + WIDE_BYTES + 1).max(starts.start);
        if first >= starts.end {
            break;
        }
        let behind = (change.end + CONTEXT_BYTES + 2).saturating_sub(from).min(starts.end);
        match near.last_mut() {
            Some(last) if first <= last.end => last.end = last.end.max(behind),
            _ if first < behind => near.push(first..behind),
            _ => {}
        }
    }
    near
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scan::pack;
    use crate::scan::proof::PLACEHOLDER;
    use crate::scan::proof::valid_value;
    use crate::scan::scanner::Scanner;
    use crate::scan::view;

    #[test]
    fn what_is_near_changes_is_disjoint_and_within_the_starts() {
        let near = |changes: &[(usize, usize)], from, (first, behind): (usize, usize)| {
            let changes: Vec<Range<usize>> = changes.iter().map(|(start, end)| *start..*end).collect();
            let near = near_changes(&changes, from, &(first..behind));
            near.into_iter().map(|near| (near.start, near.end)).collect::<Vec<_>>()
        };
        assert_eq!(near(&[], 0, (0, 9000)), []);
        assert_eq!(near(&[(5000, 5001)], 0, (0, 9000)), [(3975, 5099)]);
        assert_eq!(near(&[(5000, 5001)], 1000, (0, 9000)), [(2975, 4099)]);
        assert_eq!(near(&[(10, 10), (500, 510), (5000, 5001)], 0, (0, 9000)), [(0, 608), (3975, 5099)]);
        assert_eq!(near(&[(10, 10), (8950, 8960)], 0, (100, 9000)), [(100, 108), (7925, 9000)]);
        assert_eq!(near(&[(10, 10), (9000, 9001)], 5000, (0, 900)), []);
    }

    /// Writes some letters of a text as others that are read alike.
    fn disguised(text: &str, step: usize, offset: usize) -> String {
        let wide = |sign: char| char::from_u32(u32::from(sign) + 0xfee0).unwrap_or(sign);
        let disguise = |(at, sign): (usize, char)| match sign {
            '!'..='~' if at % step == offset % step => wide(sign),
            _ => sign,
        };
        text.chars().enumerate().map(disguise).collect()
    }

    #[test]
    fn whatever_a_view_shows_where_it_differs_is_found() {
        let detectors = pack::builtin().unwrap();
        let mut pieces: Vec<String> = vec!["and some words between them, ".repeat(60)];
        for detector in &detectors {
            let needed = detector.finds.iter().any(|written| written.contains(PLACEHOLDER));
            let value = needed.then(|| valid_value(detector, 7)).flatten().unwrap_or_default();
            let value = String::from_utf8_lossy(&value);
            pieces.extend(detector.finds.iter().map(|written| written.replace(PLACEHOLDER, &value)));
        }
        let scanner = Scanner::compile(detectors).unwrap();
        let all = scanner.all();
        let piece = (0..pieces.len(), prop_oneof![Just(1000), 1..90_usize], 0..90_usize, any::<bool>());
        let config = proptest::test_runner::Config { cases: 24, ..Default::default() };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        runner
            .run(&proptest::collection::vec(piece, 1..12), |chosen| {
                let mut text = String::new();
                for (at, step, offset, is_far) in chosen {
                    text.push_str(&disguised(&pieces[at], step, offset));
                    text.push_str(if is_far { &pieces[0] } else { "\n" });
                }
                let Some(view) = view::canonical(text.as_bytes()) else { return Ok(()) };
                let found = scanner.scan(text.as_bytes(), &all).unwrap();
                for shown in scanner.search_plain(view.bytes(), &all).unwrap() {
                    let place = view.source_range(shown.span.clone());
                    let is_told = found.iter().any(|it| {
                        it.detector == shown.detector
                            && it.span.start < place.end
                            && place.start < it.span.end
                    });
                    prop_assert!(
                        is_told,
                        "{:?} in {text}",
                        scanner.detector(shown.detector).map(|detector| &detector.name)
                    );
                }
                Ok(())
            })
            .unwrap();
    }
}
