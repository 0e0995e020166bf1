//! What the audit log knows: the entries that are about an entity, or that it made. Where other nodes have entries of the
//! first release, which are not counted, it names these nodes.

use std::collections::BTreeSet;

use super::DataProvider;
use super::Fact;
use super::Facts;
use super::NamedCallers;
use super::ProviderError;
use crate::clock::rfc3339;
use crate::govern::audit::About;
use crate::govern::audit::AuditLog;

const NAME: &str = "audit";

/// The audit log as a provider. Erasing changes no entry: they hold tokens, whose keys go. An entry under two
/// names of an entity counts twice.
pub struct AuditProvider(pub AuditLog);

impl AuditProvider {
    /// Returns what is known under each name of which something is.
    fn about(&self, names: &[String]) -> Result<Vec<About>, ProviderError> {
        let about = names.iter().filter_map(|name| self.0.about(name).transpose());
        about.collect::<Result<_, _>>().map_err(|_| ProviderError::Unavailable(NAME))
    }
}

impl DataProvider for AuditProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn callers(&self) -> Result<NamedCallers, ProviderError> {
        let since = self.0.oldest().map_err(|_| ProviderError::Unavailable(NAME))?;
        Ok(NamedCallers { since, ..NamedCallers::default() })
    }

    fn export(&self, names: &[String]) -> Result<Option<Facts>, ProviderError> {
        let about = self.about(names)?;
        Ok(facts(about))
    }

    fn erase(&self, names: &[String]) -> Result<u64, ProviderError> {
        Ok(self.about(names)?.iter().map(|about| about.events).sum())
    }
}

fn facts(about: Vec<About>) -> Option<Facts> {
    let recorded = || about.iter().filter_map(|about| about.recorded);
    let (first, last) = (recorded().map(|(first, _)| first).min(), recorded().map(|(_, last)| last).max());
    let mut facts = Facts::new();
    if let (Some(first), Some(last)) = (first, last) {
        facts.insert("events", Fact::Count(about.iter().map(|about| about.events).sum()));
        facts.insert("date_range", Fact::Text(format!("{} to {}", rfc3339(first), rfc3339(last))));
    }
    let unasked: BTreeSet<String> = about.into_iter().flat_map(|about| about.unasked).collect();
    if !unasked.is_empty() {
        facts.insert("not_counted_of_nodes", Fact::List(unasked.into_iter().collect()));
    }
    (!facts.is_empty()).then_some(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_a_node_was_not_asked_is_told_of_whoever_is_not_known_here() {
        let moment = |second| jiff::Timestamp::from_second(second).unwrap();
        let about = |recorded: Option<(i64, i64)>, unasked: &[&str]| About {
            events: u64::from(recorded.is_some()),
            with_findings: 0,
            recorded: recorded.map(|(first, last)| (moment(first), moment(last))),
            unasked: unasked.iter().map(|node| (*node).to_owned()).collect(),
        };
        assert_eq!(facts(Vec::new()), None);
        let not_counted = || ("not_counted_of_nodes", Fact::List(vec!["one".to_owned(), "two".to_owned()]));
        let unknown = vec![about(None, &["two"]), about(None, &["one", "two"])];
        assert_eq!(facts(unknown), Some(Facts::from([not_counted()])));
        let range = Fact::Text("1970-01-01T00:00:01.000Z to 1970-01-01T00:00:04.000Z".to_owned());
        let known = Facts::from([not_counted(), ("events", Fact::Count(2)), ("date_range", range)]);
        let names = vec![about(Some((2, 4)), &["one"]), about(Some((1, 3)), &["two"])];
        assert_eq!(facts(names), Some(known));
    }
}
