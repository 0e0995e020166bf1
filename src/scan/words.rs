//! Where the words stand without which some detectors find nothing.
//!
//! Many numbers have the form of some country's identity number; only the words before them tell. One pass over a
//! text finds the words of all detectors that need some, so that candidates without them cost nothing. What is found
//! here is a necessary condition; whether a word speaks for a match is still for [`ContextWords::found`] to say.
//!
//! [`ContextWords::found`]: crate::scan::detector::ContextWords::found

use std::collections::BTreeMap;

use crate::scan::detector::ContextWords;
use crate::scan::detector::Detector;
use crate::scan::engine::Engine;
use crate::scan::engine::EngineFault;
use crate::scan::engine::Run;
use crate::scan::shape::Shape;

/// The words of all detectors that need one.
pub struct WordIndex {
    engine: Engine,
    /// By shape: the detector whose word it is.
    owners: Vec<u32>,
    /// By detector: whether it needs a word.
    needy: Vec<bool>,
}

/// Where words end in a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WordEnds(BTreeMap<u32, Vec<usize>>);

impl WordIndex {
    /// Compiles the words of detectors, which are named by their places in the list.
    ///
    /// # Errors
    /// The words do not compile.
    pub fn compile(detectors: &[Detector]) -> Result<Self, EngineFault> {
        let required = |detector: &Detector| detector.context.as_ref().is_some_and(ContextWords::required);
        let needy: Vec<bool> = detectors.iter().map(required).collect();
        let (mut shapes, mut owners) = (Vec::new(), Vec::new());
        for (at, detector) in detectors.iter().enumerate().filter(|(_, it)| required(it)) {
            for word in detector.context.iter().flat_map(ContextWords::words) {
                shapes.push(Shape::caseless(word));
                owners.push(at as u32);
            }
        }
        let first = |faults: Vec<(Option<usize>, EngineFault)>| faults.into_iter().map(|(_, it)| it).next();
        match Engine::compile(&shapes).map_err(first) {
            Ok(engine) => Ok(Self { engine, owners, needy }),
            Err(fault) => Err(fault.unwrap_or(EngineFault::TooLong)),
        }
    }

    /// Tells whether a detector finds nothing without one of its words.
    pub fn is_needy(&self, detector: u32) -> bool {
        self.needy.get(detector as usize).copied().unwrap_or(false)
    }

    /// Finds the words of the `wanted` detectors.
    ///
    /// # Errors
    /// The text could not be searched.
    pub fn ends(&self, text: &[u8], wanted: impl Fn(u32) -> bool) -> Result<WordEnds, EngineFault> {
        let owner = |shape: u32| self.owners.get(shape as usize).copied();
        let is_wanted = |shape: u32| owner(shape).is_some_and(&wanted);
        self.engine.scan(text, is_wanted, |runs| {
            let mut ends: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
            for Run { group, first, last } in runs {
                for detector in self.engine.shapes(*group).iter().filter_map(|shape| owner(*shape)) {
                    ends.entry(detector).or_default().extend(*first..=*last);
                }
            }
            ends.values_mut().for_each(|ends| ends.sort_unstable());
            WordEnds(ends)
        })
    }
}

impl WordEnds {
    /// Returns where the words of a detector end, in ascending order.
    pub fn of(&self, detector: u32) -> &[usize] {
        self.0.get(&detector).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::fixture;

    #[test]
    fn words_are_found_whatever_their_case() {
        let needing = |words: &[&str], required: bool| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Detector {
                context: Some(ContextWords::new(&words, required)),
                ..fixture::detector("needy", "[0-9]{4}")
            }
        };
        let detectors =
            [needing(&["PIN", "código"], true), needing(&["pin"], false), needing(&["pin"], true)];
        let index = WordIndex::compile(&detectors).unwrap();
        assert_eq!([0, 1, 2, 3].map(|at| index.is_needy(at)), [true, false, true, false]);
        let ends = index.ends("Pin, my código, spinning".as_bytes(), |_| true).unwrap();
        assert_eq!((ends.of(0), ends.of(1), ends.of(2)), (&[3, 15, 21][..], &[][..], &[3, 21][..]));
        let ends = index.ends(b"pin", |detector| detector == 7).unwrap();
        assert_eq!(ends, WordEnds::default());
    }
}
