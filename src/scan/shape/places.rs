//! How large a first stage is: what Hyperscan needs to compile it grows with the places it tells apart.

use super::Shape;
use super::required_prefix;
use crate::scan::detector::Detector;
use crate::scan::detector::places;

/// The most [`places`] a first stage may have: Hyperscan compiles one of thousands for seconds, and keeps megabytes of it.
pub const SHAPE_PLACES_MAX: usize = 2048;

/// Returns how many [`places`] the first stage of a detector has, where these are more than [`SHAPE_PLACES_MAX`]; none for a
/// beginning, which Hyperscan does not look for.
pub fn beyond(detector: &Detector) -> Option<usize> {
    let sought = detector.anchor.as_ref().unwrap_or(&detector.pattern);
    let is_beyond = |places: &usize| *places > SHAPE_PLACES_MAX;
    // Few have so many even before they are cut.
    Some(sought.places()).filter(is_beyond)?;
    let is_led = Shape::of(detector, &detector.pattern.hir()).lead.is_some();
    Some(places(&required_prefix(&sought.hir()))).filter(|places| !is_led && is_beyond(places))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::detector::Pattern;
    use crate::scan::fixture;

    #[test]
    fn lists_that_repeat_are_too_large_unless_something_smaller_stands_in() {
        let words = ('a'..='z').flat_map(|one| ('a'..='e').map(move |next| format!("{one}{next}words")));
        let words = words.collect::<Vec<String>>().join("|");
        let lists = format!("(?i)(?:{words}) (?:(?:{words}) ){{0,6}}end");
        let mut detector = fixture::detector("probe", &lists);
        assert!(beyond(&detector).is_some_and(|places| places > 2 * SHAPE_PLACES_MAX));
        detector.anchor = Some(Pattern::parse(&format!("(?i)(?:{words}) end")).unwrap());
        assert_eq!(beyond(&detector), None);
        detector.anchor = Some(detector.pattern.clone());
        assert!(beyond(&detector).is_some());
        // What need not be there is cut, and what begins with digits is looked for by that.
        for pattern in [
            "key-[0-9a-f]{8,4000}",
            "key-[0-9a-f]{4000}",
            r"<secret>[\s\S]{0,4000}</secret>",
            r"\b[0-9]{3}(?:[a-z][0-9]){1100}",
        ] {
            assert_eq!(beyond(&fixture::detector("probe", pattern)), None, "{pattern}");
        }
        for (pattern, places) in [("key-(?:[a-z][0-9]){1100}", 2204), ("x(?:a?b?){0,100}y", 20_002)] {
            assert_eq!(beyond(&fixture::detector("probe", pattern)), Some(places), "{pattern}");
        }
    }
}
