//! Roles, and the one table of what each may do.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::Serialize;

/// What a credential stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Everything.
    Admin,
    /// Runs the gateway day by day.
    Operator,
    /// Reads the record.
    Auditor,
    /// Looks into content and figures.
    Analyst,
    /// A program that scans.
    Service,
    /// An agent on A2A routes.
    Agent,
}

/// Something that a role may be allowed, written `resource:action`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Permission(pub &'static str);

/// The text names no role.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected one of admin, operator, auditor, analyst, service, agent")]
pub struct UnknownRole;

/// What each role may do; [`Role::Admin`] may do everything and needs no row.
const GRANTS: &[(Role, &[&str])] = &[
    (
        Role::Operator,
        &[
            "abtest:read",
            "abtest:result",
            "abtest:write",
            "config:read",
            "config:write",
            "guardrails:read",
            "holds:read",
            "holds:write",
            "keys:read",
            "metrics:read",
            "policies:read",
            "routes:use",
            "scan:run",
            "stats:read",
            "status:read",
        ],
    ),
    (
        Role::Auditor,
        &[
            "analytics:read",
            "audit:read",
            "compliance:read",
            "guardrails:read",
            "holds:read",
            "infra:read",
            "siem:read",
            "status:read",
            "trust:read",
        ],
    ),
    (Role::Analyst, &["analytics:read", "scan:run", "stats:read", "status:read"]),
    (Role::Service, &["abtest:result", "routes:use", "scan:run"]),
    (Role::Agent, &[]),
];

impl Role {
    /// Every role.
    pub const ALL: [Self; 6] =
        [Self::Admin, Self::Operator, Self::Auditor, Self::Analyst, Self::Service, Self::Agent];

    /// Returns the name used in keys and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Operator => "operator",
            Self::Auditor => "auditor",
            Self::Analyst => "analyst",
            Self::Service => "service",
            Self::Agent => "agent",
        }
    }

    /// Returns what the role may do, as `resource:action`; `*` is everything.
    pub fn granted(self) -> &'static [&'static str] {
        let row = GRANTS.iter().find(|(role, _)| *role == self).map(|(_, granted)| *granted);
        match self {
            Self::Admin => &["*"],
            _ => row.unwrap_or_default(),
        }
    }

    /// Tells whether the role may do something.
    pub fn may(self, permission: Permission) -> bool {
        self == Self::Admin
            || GRANTS.iter().any(|(role, granted)| *role == self && granted.contains(&permission.0))
    }
}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or(UnknownRole)
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_admin_may_what_nobody_was_granted() {
        let keys = Permission("keys:write");
        let allowed: Vec<Role> = Role::ALL.into_iter().filter(|role| role.may(keys)).collect();
        assert_eq!(allowed, [Role::Admin]);
        assert!(Role::Service.may(Permission("scan:run")) && !Role::Agent.may(Permission("scan:run")));
        assert!(!Role::Auditor.may(Permission("config:read")));
        for record in ["analytics:read", "audit:read", "infra:read"].map(Permission) {
            assert!(!Role::Operator.may(record) && Role::Auditor.may(record), "{record}");
        }
    }

    #[test]
    fn names_are_read_back() {
        assert!(Role::ALL.into_iter().all(|role| role.as_str().parse() == Ok(role)));
        assert_eq!("root".parse::<Role>(), Err(UnknownRole));
    }
}
