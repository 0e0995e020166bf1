//! Who is signed in: the sessions that an entity holds, under the name records give it or its identity provider does.

use std::sync::Arc;

use super::Aliases;
use super::DataProvider;
use super::Fact;
use super::Facts;
use super::ProviderError;
use crate::access::keyring::Keyring;
use crate::access::patience::Patience;
use crate::access::session::Holder;
use crate::access::session::SSO_PREFIX;
use crate::access::session::SessionRecord;
use crate::access::session::SessionStore;
use crate::clock::Clock;
use crate::clock::rfc3339;

const NAME: &str = "sessions";

/// The sessions as a provider. Erasing ends them.
pub struct SessionsProvider {
    /// The sessions.
    pub sessions: Arc<SessionStore>,
    /// Tells which of them have ended by themselves.
    pub clock: Arc<dyn Clock>,
    /// Tells who was recorded, for those whose sessions have all ended.
    pub keyring: Arc<Keyring>,
}

impl SessionsProvider {
    fn of(&self, names: &[String]) -> Vec<SessionRecord> {
        let is_its = |record: &SessionRecord| {
            let told = match &record.holder {
                Holder::Key { .. } | Holder::User { .. } => None,
                Holder::Sso(identity) => Some((&identity.subject, &identity.name)),
            };
            names.contains(&record.holder.id())
                || told.is_some_and(|(subject, name)| names.contains(subject) || names.contains(name))
        };
        self.sessions.kept().into_iter().filter(is_its).collect()
    }
}

impl DataProvider for SessionsProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Records name whoever signed in elsewhere by the name there, which never changes; the name for people may be
    /// that of several.
    fn aliases(&self, entity: &str) -> Aliases {
        let mut aliases = Aliases::default();
        for record in self.of(&[entity.to_owned()]) {
            if let Holder::Sso(identity) = &record.holder {
                aliases.own.push(record.holder.id());
                aliases.shared.extend([identity.subject.clone(), identity.name.clone()]);
            }
        }
        let recorded = format!("{SSO_PREFIX}{entity}");
        let is_told = aliases.own.contains(&recorded);
        aliases.own.extend(Some(recorded).filter(|name| !is_told && self.keyring.known(name).is_some()));
        aliases.shared.extend(entity.strip_prefix(SSO_PREFIX).map(str::to_owned));
        aliases
    }

    fn export(&self, names: &[String]) -> Result<Option<Facts>, ProviderError> {
        let sessions = self.of(names);
        if sessions.is_empty() {
            return Ok(None);
        }
        let began = sessions.iter().map(|session| rfc3339(session.created_at)).collect();
        Ok(Some(Facts::from([("count", Fact::Count(sessions.len() as u64)), ("began", Fact::List(began))])))
    }

    fn erase(&self, names: &[String]) -> Result<u64, ProviderError> {
        // One that has ended by itself may still be written somewhere.
        // One request, however many they are.
        let patience = Patience::default();
        let forgotten = self.sessions.forget_ended(self.clock.now(), &patience);
        forgotten.map_err(|_| ProviderError::Unavailable(NAME))?;
        let mut ended = 0;
        for session in self.of(names) {
            let gone = self.sessions.revoke(&session.id, &patience);
            ended += u64::from(gone.map_err(|_| ProviderError::Unavailable(NAME))?);
        }
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::access::key::KeyText;
    use crate::access::role::Role;
    use crate::access::secret::NodeSecret;
    use crate::access::session::Identity;
    use crate::access::session::SessionConfig;
    use crate::clock::SystemClock;
    use crate::store::Store;

    #[test]
    fn what_a_provider_told_goes_with_the_session() {
        let config = SessionConfig {
            idle: Duration::from_secs(60),
            lifetime: Duration::from_secs(60),
            sessions_max: 9,
        };
        let folder = tempfile::tempdir().unwrap();
        let keyring = Arc::new(Keyring::open(&folder.path().join("keys")).unwrap());
        let (store, secret) = (Store::in_memory(), NodeSecret::random());
        let sessions = SessionStore::open(&store, secret, keyring.clone(), config).unwrap();
        let identity = Identity {
            mapped_by: String::new(),
            issuer: "https://id.example".to_owned(),
            subject: "u1".to_owned(),
            name: "ada@people.example".to_owned(),
            role: Role::Auditor,
            session: None,
            until: None,
        };
        let now = SystemClock.now();
        sessions.begin("a".to_owned(), Holder::Sso(identity), None, now, &Patience::default()).unwrap();
        let key = Holder::Key { id: "k".to_owned(), text: KeyText::default() };
        sessions.begin("b".to_owned(), key, None, now, &Patience::default()).unwrap();
        let (sessions, clock) = (Arc::new(sessions), Arc::new(SystemClock));
        let provider = SessionsProvider { sessions, clock, keyring: keyring.clone() };
        let named = |name: &str| [name.to_owned()];
        for name in ["sso:u1", "u1", "ada@people.example"] {
            assert_eq!(provider.export(&named(name)).unwrap().unwrap()["count"], Fact::Count(1), "{name}");
            assert_eq!(provider.aliases(name).own, ["sso:u1"], "{name}");
        }
        assert_eq!(provider.export(&named("bob")).unwrap(), None);
        assert_eq!((provider.erase(&named("u1")).unwrap(), provider.erase(&named("u1")).unwrap()), (1, 0));
        assert_eq!(provider.export(&named("sso:u1")).unwrap(), None);
        assert!(provider.export(&named("k")).unwrap().is_some());
        // Whose sessions have ended is known as long as records name them.
        assert_eq!(provider.aliases("u1").own, ["sso:u1"]);
        assert!(keyring.destroy("sso:u1").unwrap());
        assert_eq!(provider.aliases("u1"), Aliases::default());
        keyring.seal("sso:u1");
        assert_eq!(provider.aliases("u1").own, ["sso:u1"]);
    }
}
