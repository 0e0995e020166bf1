//! Who is meant by a name: every name that the same entity goes by.

use std::collections::BTreeSet;

use super::provider::DataProvider;
use super::spelling::equivalents;

/// An entity by all its names.
pub(super) struct Subject {
    /// Its own, the one that was asked for first.
    pub(super) names: Vec<String>,
    /// Those that it may share with others.
    pub(super) shared: BTreeSet<String>,
}

impl Subject {
    /// Asks every provider what else an entity is called, and again for each name that comes up, in each of its forms.
    pub(super) fn of(entity: &str, providers: &[Box<dyn DataProvider>]) -> Self {
        let mut subject = Self { names: vec![entity.to_owned()], shared: BTreeSet::new() };
        let mut seen = BTreeSet::from([entity.to_owned()]);
        let mut asked = 0;
        while let Some(name) = subject.names.get(asked).cloned() {
            subject.names.extend(equivalents(&name).filter(|form| seen.insert(form.clone())));
            for aliases in providers.iter().map(|provider| provider.aliases(&name)) {
                subject.names.extend(aliases.own.into_iter().filter(|own| seen.insert(own.clone())));
                subject.shared.extend(aliases.shared);
            }
            asked += 1;
        }
        subject
    }

    /// Tells whether something holds for one of its names, those it may share included.
    pub(super) fn goes_by(&self, is_it: impl Fn(&str) -> bool) -> bool {
        self.names.iter().chain(&self.shared).any(|name| is_it(name))
    }
}
