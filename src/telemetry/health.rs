//! What the gateway depends on, and whether it is there.

use std::collections::BTreeMap;

use parking_lot::RwLock;

/// Something without which the gateway is degraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dependency {
    /// Agent-to-agent guardrails; up while no route asks for them.
    A2a,
    /// TLS certificates; up while every configured one can be served.
    Certificates,
    /// The licence; up without one, because the community tier needs none.
    License,
    /// The store and the audit log.
    Persistence,
    /// The data plane's listener.
    Proxy,
    /// The scanner and its packs.
    Scanner,
}

/// Why each dependency that is down is down.
#[derive(Debug, Default)]
pub struct Health {
    down: RwLock<BTreeMap<Dependency, String>>,
}

impl Dependency {
    /// Every dependency.
    pub const ALL: [Self; 6] =
        [Self::A2a, Self::Certificates, Self::License, Self::Persistence, Self::Proxy, Self::Scanner];

    /// Returns the name used in health reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::A2a => "a2a",
            Self::Certificates => "certificates",
            Self::License => "license",
            Self::Persistence => "persistence",
            Self::Proxy => "proxy",
            Self::Scanner => "scanner",
        }
    }
}

impl Health {
    /// Notes that a dependency is down, and why in a few words for the log.
    pub fn down(&self, dependency: Dependency, reason: impl Into<String>) {
        self.down.write().insert(dependency, reason.into());
    }

    /// Notes that a dependency is up.
    pub fn up(&self, dependency: Dependency) {
        if self.down.read().contains_key(&dependency) {
            self.down.write().remove(&dependency);
        }
    }

    /// Tells whether a dependency is up.
    pub fn is_up(&self, dependency: Dependency) -> bool {
        !self.down.read().contains_key(&dependency)
    }

    /// Tells whether everything is up.
    pub fn is_healthy(&self) -> bool {
        self.down.read().is_empty()
    }

    /// Returns why a dependency is down.
    pub fn reason(&self, dependency: Dependency) -> Option<String> {
        self.down.read().get(&dependency).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_down_is_degraded_until_it_is_up() {
        let health = Health::default();
        assert!(health.is_healthy());
        health.down(Dependency::Persistence, "disk full");
        assert!(!health.is_healthy() && health.is_up(Dependency::Proxy));
        assert_eq!(health.reason(Dependency::Persistence).as_deref(), Some("disk full"));
        health.up(Dependency::Persistence);
        assert!(health.is_healthy());
    }
}
