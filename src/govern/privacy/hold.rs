//! Legal holds: whose record must not be erased, and why; kept for ever, released or not.
//!
//! Whom a hold is about, why, and who issued it are stored sealed, as everything about somebody is: a hold that was
//! released does not keep the name of an entity that is erased later, nor of whoever issued it. While it is in force
//! neither is erased: a hold of which nobody knows who wanted it could not be defended.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

use super::subject::Subject;
use crate::access::keyring::Keyring;
use crate::access::name::is_label;
use crate::govern::audit::AuditEvent;
use crate::store::Record;

/// The table of holds, by number.
pub const HOLDS: &str = "legal_holds";

const PREFIX: &str = "hold_";
/// The longest name of an entity or an issuer, in bytes: it has to fit into the path of a check.
pub const NAME_BYTES_MAX: usize = 256;
/// The longest reason, in bytes.
pub const REASON_BYTES_MAX: usize = 4096;

/// The name of a hold: `hold_` and a number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HoldId(pub u64);

/// The text is no name of a hold.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected hold_ and a number")]
pub struct InvalidHoldId;

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldFault {
    /// It is empty or too long.
    #[error("{field}: expected a text of 1 to {bytes_max} bytes")]
    Length {
        /// The field.
        field: &'static str,
        /// The most bytes it may have.
        bytes_max: usize,
    },
    /// It holds control characters, or such as cannot be seen.
    #[error("{field}: expected a text without control characters and characters that cannot be seen")]
    Hidden {
        /// The field.
        field: &'static str,
    },
}

/// What a hold is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewHold {
    /// Whose record is held.
    pub entity_id: String,
    /// What the entity is, e.g. `user`.
    pub entity_type: String,
    /// Why.
    pub reason: String,
    /// Who says so.
    pub issued_by: String,
}

impl NewHold {
    /// Looks at the fields.
    ///
    /// # Errors
    /// The first that is empty, too long, or holds what cannot be seen.
    pub(super) fn check(&self) -> Result<(), FieldFault> {
        entity_fits(&self.entity_id)?;
        for (field, text) in [("entity_type", &self.entity_type), ("issued_by", &self.issued_by)] {
            label_fits(field, text)?;
        }
        let is_of_lines = self.reason.chars().all(|it| !it.is_control() || matches!(it, '\n' | '\r' | '\t'));
        match fits("reason", &self.reason, REASON_BYTES_MAX) {
            Ok(()) if !is_of_lines => Err(FieldFault::Hidden { field: "reason" }),
            fits => fits,
        }
    }
}

/// Tells whether a text can be the name of an entity, as a caller writes it.
///
/// # Errors
/// It is empty, too long, or holds what cannot be seen: whoever copied that along means another name.
pub fn entity_fits(entity_id: &str) -> Result<(), FieldFault> {
    label_fits("entity_id", entity_id)
}

fn label_fits(field: &'static str, text: &str) -> Result<(), FieldFault> {
    fits(field, text, NAME_BYTES_MAX)?;
    if is_label(text) { Ok(()) } else { Err(FieldFault::Hidden { field }) }
}

fn fits(field: &'static str, text: &str, bytes_max: usize) -> Result<(), FieldFault> {
    let is_filled = !text.trim().is_empty() && text.len() <= bytes_max;
    if is_filled { Ok(()) } else { Err(FieldFault::Length { field, bytes_max }) }
}

/// A hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Its name.
    pub id: HoldId,
    /// What it says.
    pub told: NewHold,
    /// When it was taken.
    pub created_at: Timestamp,
    /// When it was released; `None`: it is in force.
    pub released_at: Option<Timestamp>,
}

impl Hold {
    /// Returns the event of its release.
    pub fn released(&self) -> AuditEvent {
        AuditEvent {
            event_type: "hold_released".to_owned(),
            action: "allow".to_owned(),
            entity: Some(self.told.entity_id.clone()),
            message: format!("legal hold {} was released", self.id),
            ..AuditEvent::default()
        }
    }
}

/// Whom a hold in force names, as far as it can be read.
pub(super) struct Named {
    /// The names of its entity alone.
    pub(super) own: Vec<String>,
    /// Names that its entity may share with others.
    pub(super) shared: Vec<String>,
    /// Who issued it.
    pub(super) issuer: Option<String>,
}

/// A hold as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HoldRecord {
    /// A token.
    entity: String,
    /// The tokens of the entity's other names, as they were when the hold was taken.
    #[serde(default)]
    also: Vec<String>,
    /// The tokens of names that the entity may share with others, as they were when it was held, or lost them since: a
    /// key that is revoked or renamed does not tell them any more. Earlier releases did not keep them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shared: Vec<String>,
    entity_type: String,
    /// Sealed under the entity's key.
    reason: String,
    /// A token.
    issued_by: String,
    created_at: Timestamp,
    released_at: Option<Timestamp>,
}

impl Record for HoldRecord {
    const VERSION: u32 = 1;
}

impl HoldRecord {
    /// Returns what is stored of a hold on an entity. The keyring has to be flushed before it is.
    pub(super) fn seal(hold: &Hold, subject: &Subject, keyring: &Keyring) -> Self {
        let NewHold { entity_id, entity_type, reason, issued_by } = &hold.told;
        let others = subject.names.iter().filter(|name| *name != entity_id);
        Self {
            entity: keyring.keep(entity_id).as_ref().to_owned(),
            also: others.map(|name| keyring.keep(name).as_ref().to_owned()).collect(),
            shared: subject.shared.iter().map(|name| keyring.keep(name).as_ref().to_owned()).collect(),
            entity_type: entity_type.clone(),
            reason: keyring.wrap_text(entity_id, reason),
            issued_by: keyring.keep(issued_by).as_ref().to_owned(),
            created_at: hold.created_at,
            released_at: hold.released_at,
        }
    }

    /// Returns the hold, with the names whose keys still exist.
    pub(super) fn open(&self, id: HoldId, keyring: &Keyring) -> Hold {
        let told = NewHold {
            entity_id: keyring.shown(&self.entity),
            entity_type: self.entity_type.clone(),
            reason: keyring.unwrap_text(&self.reason),
            issued_by: keyring.shown(&self.issued_by),
        };
        Hold { id, told, created_at: self.created_at, released_at: self.released_at }
    }

    /// Returns the record of the hold once it is released.
    pub(super) fn released(self, at: Timestamp) -> Self {
        Self { released_at: self.released_at.or(Some(at)), ..self }
    }

    /// Returns the record with more names that the entity may share with others; `None`: it has all of them. The keyring
    /// has to be flushed before it is stored.
    pub(super) fn with_shared(mut self, names: &BTreeSet<String>, keyring: &Keyring) -> Option<Self> {
        let known: Vec<String> = read(&self.shared, keyring);
        let fresh: Vec<String> = names.iter().filter(|name| !known.contains(name)).cloned().collect();
        self.shared.extend(fresh.iter().map(|name| keyring.keep(name).as_ref().to_owned()));
        (!fresh.is_empty()).then_some(self)
    }

    /// Returns how many names it has while it is in force; zero once it is released.
    pub(super) fn count(&self) -> usize {
        if self.released_at.is_none() { 2 + self.also.len() + self.shared.len() } else { 0 }
    }

    /// Returns whom it names; nobody once it is released.
    pub(super) fn named(&self, keyring: &Keyring) -> Named {
        if self.released_at.is_some() {
            return Named { own: Vec::new(), shared: Vec::new(), issuer: None };
        }
        Named {
            own: self.own(keyring),
            shared: read(&self.shared, keyring),
            issuer: keyring.name_of(&self.issued_by),
        }
    }

    /// Tells whether it is about somebody of these names, released or not.
    pub(super) fn is_about(&self, names: &[String], keyring: &Keyring) -> bool {
        self.own(keyring).iter().any(|own| names.contains(own))
    }

    /// Tells whether somebody of these names issued it.
    pub(super) fn is_issued_by(&self, names: &[String], keyring: &Keyring) -> bool {
        keyring.name_of(&self.issued_by).is_some_and(|issuer| names.contains(&issuer))
    }

    fn own(&self, keyring: &Keyring) -> Vec<String> {
        let tokens = std::iter::once(&self.entity).chain(&self.also);
        tokens.filter_map(|token| keyring.name_of(token)).collect()
    }
}

impl Named {
    /// Returns how many names could be read.
    pub(super) fn count(&self) -> usize {
        self.own.len() + self.shared.len() + usize::from(self.issuer.is_some())
    }
}

fn read(tokens: &[String], keyring: &Keyring) -> Vec<String> {
    tokens.iter().filter_map(|token| keyring.name_of(token)).collect()
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

impl FromStr for HoldId {
    type Err = InvalidHoldId;

    fn from_str(text: &str) -> Result<Self, InvalidHoldId> {
        let digits = text.strip_prefix(PREFIX).ok_or(InvalidHoldId)?;
        let number = digits.parse().map_err(|_| InvalidHoldId)?;
        let id = Self(number);
        if id.to_string() == text { Ok(id) } else { Err(InvalidHoldId) }
    }
}
