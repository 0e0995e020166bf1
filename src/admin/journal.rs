//! What the management plane tells the audit log: who changed what, and who was turned away.

use std::sync::Arc;

use super::Office;
use super::call::Call;
use super::error::ApiError;
use crate::access::place::stranger;
use crate::access::refusals::Refusals;
use crate::govern::audit::AuditEvent;
use crate::govern::audit::Health;
use crate::govern::audit::Recorder;
use crate::policy::reload::Announcement;
use crate::policy::reload::Reloader;
use crate::policy::revision::RevisionSource;

/// Returns the event of a call that was turned away at a row with that path.
pub fn denied(actor: Option<String>, path: &str, request_id: &str, error: &ApiError) -> AuditEvent {
    AuditEvent {
        event_type: "access_denied".to_owned(),
        action: "block".to_owned(),
        actor,
        route: Some(path.to_owned()),
        request_id: Some(request_id.to_owned()),
        message: format!("{}: {error}", error.status().as_u16()),
        ..AuditEvent::default()
    }
}

impl Call {
    /// Returns the event of what this call did.
    pub fn event(&self, event_type: &str, message: String) -> AuditEvent {
        AuditEvent {
            event_type: event_type.to_owned(),
            action: "allow".to_owned(),
            actor: self.actor(),
            route: Some(self.route.to_owned()),
            request_id: Some(self.request_id.clone()),
            message,
            ..AuditEvent::default()
        }
    }

    /// Returns the event of what this call may have done, where the store failed while it did it.
    pub fn unconfirmed(&self) -> AuditEvent {
        let message = "a change was answered 503, and may be in force: the store failed";
        let mut event = self.event("change_unconfirmed", message.to_owned());
        event.entity = self.path.values().next().cloned();
        event
    }

    /// Records that somebody was not let in, and whose account it was, where there is one.
    pub fn note_failure(&self, why: &str, account: Option<String>) {
        let mut event = self.event("login_failed", why.to_owned());
        event.entity = account;
        event.action = "block".to_owned();
        self.office.record_within(&self.office.failed_logins, &stranger(self.address), event);
    }

    /// Refuses a change while it could not be recorded.
    ///
    /// # Errors
    /// The audit log cannot be written, and nobody said that changes go on without it.
    pub fn ensure_recordable(&self) -> Result<(), ApiError> {
        if self.office.records() { Ok(()) } else { Err(ApiError::Unavailable) }
    }
}

impl Office {
    /// Records that somebody was turned away, unless that happens too often: then it is only counted.
    pub fn record_refusal(&self, whom: &str, event: AuditEvent) {
        self.record_within(&self.refusals, whom, event);
    }

    fn record_within(&self, bounds: &Refusals, whom: &str, event: AuditEvent) {
        if !bounds.admit(whom, self.clock.now()) {
            return self.telemetry.metrics.refusal_unrecorded();
        }
        // A refusal that cannot be recorded is still a refusal; the recorder counts the loss.
        let _ = self.recorder.record_soon(event);
    }

    /// Tells whether what happens now can be recorded, or goes on without.
    pub fn records(&self) -> bool {
        let is_written = match self.recorder.health() {
            Health::Sound => true,
            Health::Degraded(trouble) => trouble.writable(),
        };
        is_written || self.facts.without_record
    }

    /// Tells whether what is written arrives in the stores, as far as is known.
    pub fn is_written(&self) -> bool {
        self.store.is_sound() && self.local.is_sound()
    }

    /// Records a change that was made. It stands whether or not this succeeds; a loss is counted and logged.
    pub async fn record(&self, event: AuditEvent) {
        let event_type = event.event_type.clone();
        if let Err(error) = self.recorder.record_safely(event).await {
            tracing::error!(%error, event_type, "a change could not be recorded in the audit log");
        }
    }
}

/// Returns the event of a revision that nobody brought over the network: `how` it came, and what it changed.
pub fn file_change(author: &str, revision: u64, how: &str) -> AuditEvent {
    AuditEvent {
        event_type: "config_changed".to_owned(),
        action: "allow".to_owned(),
        actor: Some(author.to_owned()),
        revision: Some(revision),
        message: format!("revision {revision} {how}"),
        ..AuditEvent::default()
    }
}

/// Returns the end of a sentence that names the sections of the configuration that changed, and the packs if they did.
pub fn changed_sections(changed: &[String], packs_changed: bool) -> String {
    let packs = packs_changed.then_some("packs");
    let named: Vec<&str> = changed.iter().map(String::as_str).chain(packs).collect();
    if named.is_empty() { String::new() } else { format!(" and changed {}", named.join(", ")) }
}

/// Records the changes that files bring, and those that were refused; calls record their own.
pub fn record_file_changes(reloader: &Arc<Reloader>, recorder: Recorder) {
    reloader.subscribe(move |announcement| {
        let event = match announcement {
            Announcement::Published(change) if change.source == RevisionSource::File => {
                let changed = changed_sections(&change.changed, change.packs_changed);
                file_change(&change.author, change.revision, &format!("came from a file{changed}"))
            }
            Announcement::Refused { source: RevisionSource::File, faults } => AuditEvent {
                event_type: "config_refused".to_owned(),
                action: "block".to_owned(),
                message: format!("a changed file has {faults} faults; nothing changed"),
                ..AuditEvent::default()
            },
            Announcement::Published(_) | Announcement::Refused { .. } => return,
        };
        if let Err(error) = recorder.record_soon(event) {
            tracing::error!(%error, "a change of files could not be recorded in the audit log");
        }
    });
}

impl Office {
    /// Counts a panic on a thread that worked for a call, and returns what the caller is told.
    pub fn panicked(&self) -> ApiError {
        self.telemetry.metrics.panicked();
        ApiError::Internal
    }
}
