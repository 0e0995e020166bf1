//! Who is signed in: the sessions that an entity holds, under the name records give it or its identity provider does.

use std::sync::Arc;

use super::DataProvider;
use super::Fact;
use super::Facts;
use super::ProviderError;
use crate::access::session::Holder;
use crate::access::session::SessionRecord;
use crate::access::session::SessionStore;
use crate::clock::Clock;

const NAME: &str = "sessions";

/// The sessions as a provider. Erasing ends them.
pub struct SessionsProvider {
    /// The sessions.
    pub sessions: Arc<SessionStore>,
    /// Tells which of them have ended by themselves.
    pub clock: Arc<dyn Clock>,
}

impl SessionsProvider {
    fn of(&self, entity: &str) -> Vec<SessionRecord> {
        let is_its = |record: &SessionRecord| match &record.holder {
            Holder::Key { id, .. } | Holder::User { id, .. } => id == entity,
            Holder::Sso(identity) => {
                record.holder.id() == entity || identity.subject == entity || identity.name == entity
            }
        };
        self.sessions.list(self.clock.now()).into_iter().filter(is_its).collect()
    }
}

impl DataProvider for SessionsProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn export(&self, entity: &str) -> Result<Option<Facts>, ProviderError> {
        let sessions = self.of(entity);
        if sessions.is_empty() {
            return Ok(None);
        }
        let began = sessions.iter().map(|session| session.created_at.to_string()).collect();
        Ok(Some(Facts::from([("count", Fact::Count(sessions.len() as u64)), ("began", Fact::List(began))])))
    }

    fn erase(&self, entity: &str) -> Result<u64, ProviderError> {
        // One that has ended by itself may still be written somewhere.
        let forgotten = self.sessions.forget_ended(self.clock.now());
        forgotten.map_err(|_| ProviderError::Unavailable(NAME))?;
        let mut ended = 0;
        for session in self.of(entity) {
            let gone = self.sessions.revoke(&session.id).map_err(|_| ProviderError::Unavailable(NAME))?;
            ended += u64::from(gone);
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
        let sessions = SessionStore::open(&Store::in_memory(), NodeSecret::random(), config).unwrap();
        let identity = Identity {
            issuer: "https://id.example".to_owned(),
            subject: "u1".to_owned(),
            name: "ada@people.example".to_owned(),
            role: Role::Auditor,
            session: None,
            until: None,
        };
        let now = SystemClock.now();
        sessions.begin("a".to_owned(), Holder::Sso(identity), None, now).unwrap();
        sessions
            .begin("b".to_owned(), Holder::Key { id: "k".to_owned(), text: KeyText::default() }, None, now)
            .unwrap();
        let provider = SessionsProvider { sessions: Arc::new(sessions), clock: Arc::new(SystemClock) };
        for name in ["sso:u1", "u1", "ada@people.example"] {
            assert_eq!(provider.export(name).unwrap().unwrap()["count"], Fact::Count(1), "{name}");
        }
        assert_eq!(provider.export("bob").unwrap(), None);
        assert_eq!((provider.erase("u1").unwrap(), provider.erase("u1").unwrap()), (1, 0));
        assert_eq!(provider.export("sso:u1").unwrap(), None);
        assert!(provider.export("k").unwrap().is_some());
    }
}
