//! How the audit log is written and how long it is kept.

use crate::error::UnknownSetting;

/// The audit log's configuration; a change needs a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    /// When an exchange may go on.
    pub durability: AuditDurability,
    /// What happens to traffic while the log cannot be written.
    pub on_failure: AuditFailure,
    /// The size at which a new segment is begun.
    pub segment_bytes: u64,
    /// The most events waiting for the writer.
    pub queue: usize,
    /// How long events are kept.
    pub retention_days: u32,
    /// The most bytes of segments that are kept; the oldest go first.
    pub retention_bytes: u64,
    /// The bytes set aside, to be given back when the disk is full.
    pub reserve_bytes: u64,
    /// The free bytes of the disk below which the log counts as failing.
    pub low_water_bytes: u64,
}

/// When an exchange may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditDurability {
    /// Once its event is on the disk: the end of its answer leaves only then, and before the first byte of a stream
    /// an entry says that it begins.
    Wait,
    /// Once its event is in the writer's queue.
    Buffer,
}

/// What happens to traffic while the audit log cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditFailure {
    /// It is refused.
    Refuse,
    /// It goes on, health is degraded, and the metrics say so.
    AllowAndAlarm,
}

impl std::str::FromStr for AuditDurability {
    type Err = UnknownSetting;

    fn from_str(text: &str) -> Result<Self, UnknownSetting> {
        match text {
            "wait" => Ok(Self::Wait),
            "buffer" => Ok(Self::Buffer),
            _ => Err(UnknownSetting { expected: "wait, buffer" }),
        }
    }
}

impl std::str::FromStr for AuditFailure {
    type Err = UnknownSetting;

    fn from_str(text: &str) -> Result<Self, UnknownSetting> {
        match text {
            "refuse" => Ok(Self::Refuse),
            "allow_and_alarm" => Ok(Self::AllowAndAlarm),
            _ => Err(UnknownSetting { expected: "refuse, allow_and_alarm" }),
        }
    }
}
