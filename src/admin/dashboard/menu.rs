//! The pages there are, and who sees them: the one table that the menu and the handlers read.

use crate::access::credential::Principal;
use crate::access::role::Permission;

/// One page.
#[derive(Debug)]
pub struct Entry {
    /// Its name in addresses, and of its script.
    pub id: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What it shows, in one sentence.
    pub about: &'static str,
    /// What it stands under in the menu.
    pub group: &'static str,
    /// Whoever may do one of these sees it; empty: whoever is signed in.
    pub needs: &'static [&'static str],
    /// Its picture, as the outline of an SVG path in a square of 16.
    pub icon: &'static str,
}

/// The page at `/`.
pub const HOME: &str = "overview";
/// The page at `/docs`.
pub const DOCS: &str = "docs";

/// Every page, in the order of the menu.
pub const PAGES: &[Entry] = &[
    Entry {
        id: HOME,
        title: "Overview",
        about: "What passed, what was stopped, and how the gateway is.",
        group: "Traffic",
        needs: &["analytics:read", "status:read"],
        icon: "M2 2h5v6H2zM9 2h5v4H9zM9 8h5v6H9zM2 10h5v4H2z",
    },
    Entry {
        id: "live",
        title: "Live",
        about: "Decisions as they are made, the newest first.",
        group: "Traffic",
        needs: &["audit:read"],
        icon: "M1 8h3l2-5 4 10 2-5h3",
    },
    Entry {
        id: "usage",
        title: "Usage and cost",
        about: "Tokens and money by day, model, caller and route.",
        group: "Traffic",
        needs: &["analytics:read"],
        icon: "M2 14h12M4 14V9M8 14V3M12 14V6",
    },
    Entry {
        id: "screen",
        title: "Try a text",
        about: "What the rules in force find in a text, and what a policy would do about it.",
        group: "Traffic",
        needs: &["scan:run"],
        icon: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.5 10.5 14 14",
    },
    Entry {
        id: "audit",
        title: "Audit log",
        about: "Everything that was decided and changed, each entry chained to the one before.",
        group: "Record",
        needs: &["audit:read"],
        icon: "M3 2h10v12H3zM5.5 5h5M5.5 8h5M5.5 11h3",
    },
    Entry {
        id: "compliance",
        title: "Compliance",
        about: "How the deployment stands against frameworks of controls, from live evidence.",
        group: "Record",
        needs: &["compliance:read"],
        icon: "M8 1.5 13.5 4v4c0 3.5-2.5 5.5-5.5 6.5C5 13.5 2.5 11.5 2.5 8V4zM5.5 8l2 2 3-4",
    },
    Entry {
        id: "privacy",
        title: "Holds and privacy",
        about: "Legal holds, and what data subjects may ask: to see what is kept, and its erasure.",
        group: "Record",
        needs: &["holds:read", "dsar:run"],
        icon: "M4 7V5a4 4 0 0 1 8 0v2M3 7h10v7H3zM8 10v2",
    },
    Entry {
        id: "siem",
        title: "Forwarding",
        about: "How the audit log reaches other platforms.",
        group: "Record",
        needs: &["siem:read"],
        icon: "M2 8h9M8 4.5 11.5 8 8 11.5M14 3v10",
    },
    Entry {
        id: "policies",
        title: "Policies",
        about: "What is done about what is found, on which routes, the revisions, and which one is live.",
        group: "Rules",
        needs: &["policies:read"],
        icon: "M2 4h7M12 4h2M2 8h2M7 8h7M2 12h7M12 12h2M9 2.5v3M4.5 6.5v3M9 10.5v3",
    },
    Entry {
        id: "detectors",
        title: "Detectors",
        about: "Everything the rules in force can find: patterns, rules over findings, models.",
        group: "Rules",
        needs: &["policies:read"],
        icon: "M8 8m-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0M8 8m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0",
    },
    Entry {
        id: "abtests",
        title: "A/B tests",
        about: "Models of the third layer, compared on live traffic.",
        group: "Rules",
        needs: &["abtest:read"],
        icon: "M8 14V9L3 4V2M8 9l5-5V2M1.5 3.5 3 2l1.5 1.5M11.5 3.5 13 2l1.5 1.5",
    },
    Entry {
        id: "keys",
        title: "API keys",
        about: "Who may call: roles, scopes, budgets; a key is shown once.",
        group: "Access",
        needs: &["keys:read"],
        icon: "M5.5 10.5m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0M8 8l6-6M11 5l2 2",
    },
    Entry {
        id: "people",
        title: "People",
        about: "Local users, and who is signed in.",
        group: "Access",
        needs: &["users:read", "sessions:read"],
        icon: "M6 7a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM1.5 14c0-3 2-5 4.5-5s4.5 2 4.5 5M11 7a2 2 0 1 0-1-4M12 9c1.5 .5 2.5 2.5 2.5 5",
    },
    Entry {
        id: "trust",
        title: "Agents and trust",
        about: "What agents may do, what they did, and what the gateway thinks of them.",
        group: "Access",
        needs: &["trust:read", "guardrails:read"],
        icon: "M4 6h8v7H4zM8 6V3M8 3m-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0M6.5 9v1M9.5 9v1M2 9v2M14 9v2",
    },
    Entry {
        id: "system",
        title: "System",
        about: "Nodes, state on disk, certificates, health.",
        group: "Deployment",
        needs: &["infra:read", "status:read"],
        icon: "M2 3h12v4H2zM2 9h12v4H2zM4.5 5h.01M4.5 11h.01",
    },
    Entry {
        id: "license",
        title: "Licence and SLA",
        about: "What the deployment is entitled to, and how well it serves.",
        group: "Deployment",
        needs: &["status:read"],
        icon: "M8 2a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM6 9.5 5 14l3-1.5 3 1.5-1-4.5",
    },
    Entry {
        id: DOCS,
        title: "API reference",
        about: "Every path of the management API, from the document the gateway makes of itself.",
        group: "Deployment",
        needs: &[],
        icon: "M5 4 2 8l3 4M11 4l3 4-3 4M9 3 7 13",
    },
];

impl Entry {
    /// Returns where it is.
    pub fn address(&self) -> String {
        match self.id {
            HOME => "/".to_owned(),
            DOCS => "/docs".to_owned(),
            id => format!("/ui/{id}"),
        }
    }

    /// Tells whether somebody sees it.
    pub fn is_for(&self, principal: &Principal) -> bool {
        self.needs.is_empty() || self.needs.iter().any(|need| principal.may(Permission(need)))
    }
}

/// Returns the page of a name.
pub fn find(id: &str) -> Option<&'static Entry> {
    PAGES.iter().find(|page| page.id == id)
}

/// Returns the pages that somebody sees, by what they stand under.
pub fn groups(principal: &Principal) -> Vec<(&'static str, Vec<&'static Entry>)> {
    let mut groups: Vec<(&'static str, Vec<&'static Entry>)> = Vec::new();
    for page in PAGES.iter().filter(|page| page.is_for(principal)) {
        match groups.last_mut() {
            Some((group, pages)) if *group == page.group => pages.push(page),
            _ => groups.push((page.group, vec![page])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::routes::Access;
    use crate::admin::routes::routes;

    #[test]
    fn pages_need_what_routes_need() {
        let known: Vec<&str> = routes()
            .iter()
            .filter_map(|route| match route.access {
                Access::Permission(permission) | Access::Figures(permission) => Some(permission.0),
                Access::Public | Access::Credential => None,
            })
            .collect();
        for page in PAGES {
            assert!(page.needs.iter().all(|need| known.contains(need)), "{page:?}");
            assert!(page.about.ends_with('.') && page.address().starts_with('/'), "{page:?}");
        }
    }
}
