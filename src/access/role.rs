//! Roles and what each may do: one table.

use std::fmt;
use std::str::FromStr;

use crate::scan::threat::UnknownName;

/// What a credential stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// May do everything.
    Admin,
    /// Runs the gateway.
    Operator,
    /// Reads the records.
    Auditor,
    /// Scans, and reads figures.
    Analyst,
    /// A program that sends traffic.
    Service,
    /// An agent on agent-to-agent routes.
    Agent,
}

/// Declares every permission with its `resource:action` name and the roles that have it beside admin.
macro_rules! permissions {
    ($($(#[$doc:meta])* $member:ident = $text:literal: [$($role:ident),*],)+) => {
        /// Something that may be done.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Permission { $($(#[$doc])* $member,)+ }

        impl Permission {
            /// Every permission.
            pub const ALL: &'static [Self] = &[$(Self::$member),+];

            /// Returns the name, `resource:action`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$member => $text,)+ }
            }

            /// Returns the roles that have it beside [`Role::Admin`].
            fn roles(self) -> &'static [Role] {
                match self { $(Self::$member => &[$(Role::$role),*],)+ }
            }
        }
    };
}

permissions! {
    /// Send traffic to a provider.
    ProxyCall = "proxy:call": [Operator, Analyst, Service],
    /// Call an agent-to-agent route.
    A2aCall = "a2a:call": [Agent],
    /// Scan and screen texts.
    ScanRun = "scan:run": [Operator, Analyst, Service],
    /// Read today's statistics.
    StatsRead = "stats:read": [Operator, Auditor, Analyst],
    /// Read the metrics.
    MetricsRead = "metrics:read": [Operator, Auditor, Analyst],
    /// Read how the gateway is.
    StatusRead = "status:read": [Operator, Auditor, Analyst, Service],
    /// Read licence, tier and SLA.
    LicenseRead = "license:read": [Operator, Auditor, Analyst],
    /// Read configuration, profiles, policies and guardrails.
    ConfigRead = "config:read": [Operator],
    /// Change configuration, profiles and policies.
    ConfigWrite = "config:write": [Operator],
    /// List keys; an operator sees those of lower roles.
    KeysRead = "keys:read": [Operator],
    /// Create and revoke keys.
    KeysWrite = "keys:write": [],
    /// Query and follow the audit log.
    AuditRead = "audit:read": [Auditor],
    /// Read compliance reports.
    ComplianceRead = "compliance:read": [Auditor],
    /// Export and erase a person's data.
    DsarWrite = "dsar:write": [],
    /// Read legal holds.
    HoldsRead = "holds:read": [Operator, Auditor],
    /// Place and release legal holds.
    HoldsWrite = "holds:write": [Operator],
    /// Read A/B tests and their figures.
    AbtestRead = "abtest:read": [Operator],
    /// Start and stop A/B tests.
    AbtestWrite = "abtest:write": [Operator],
    /// Create A/B tests.
    AbtestCreate = "abtest:create": [],
    /// Ask for a variant and report results.
    AbtestReport = "abtest:report": [Operator, Service],
    /// Read trust scores, sessions and attestations.
    TrustRead = "trust:read": [Auditor],
    /// Read the state of SIEM forwarding.
    SiemRead = "siem:read": [Auditor],
    /// Read usage, cost and anomalies.
    AnalyticsRead = "analytics:read": [Auditor, Analyst],
    /// Read persistence, certificates and cluster.
    InfraRead = "infra:read": [Auditor],
}

impl Role {
    /// Every role, the mightiest first.
    pub const ALL: [Self; 6] =
        [Self::Admin, Self::Operator, Self::Auditor, Self::Analyst, Self::Service, Self::Agent];

    /// Returns the name used in answers and stored with keys.
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

    /// Tells whether the role has a permission.
    pub fn may(self, permission: Permission) -> bool {
        self == Self::Admin || permission.roles().contains(&self)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let expected = "admin, operator, auditor, analyst, service, agent";
        Self::ALL.into_iter().find(|known| known.as_str() == text).ok_or(UnknownName { expected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(role: Role) -> Vec<&'static str> {
        let held = Permission::ALL.iter().filter(|permission| role.may(**permission));
        held.map(|permission| permission.as_str()).collect()
    }

    #[test]
    fn roles_hold_what_they_should_and_no_more() {
        assert_eq!(names(Role::Admin).len(), Permission::ALL.len());
        assert_eq!(names(Role::Agent), ["a2a:call"]);
        assert_eq!(names(Role::Service), ["proxy:call", "scan:run", "status:read", "abtest:report"]);
        assert!(names(Role::Auditor).iter().all(|name| name.ends_with(":read")));
        assert!(!Role::Operator.may(Permission::AuditRead) && !Role::Operator.may(Permission::KeysWrite));
        assert!(!Role::Auditor.may(Permission::ConfigRead) && !Role::Operator.may(Permission::DsarWrite));
    }

    #[test]
    fn permission_names_are_unique_and_well_formed() {
        let mut names = names(Role::Admin);
        assert!(names.iter().all(|name| name.split(':').count() == 2));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(Role::ALL.into_iter().all(|role| role.as_str().parse() == Ok(role)));
    }
}
