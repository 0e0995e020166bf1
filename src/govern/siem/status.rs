//! How a sink stands, for whoever asks.

use jiff::Timestamp;
use parking_lot::RwLock;

use super::cursor::Cursor;

/// What a sink is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkState {
    /// It has not spoken to its platform since the process began.
    Idle,
    /// The platform took what it was sent last.
    Connected,
    /// The platform did not take what it was sent last; it is tried again.
    Retrying,
}

/// The figures of one sink.
#[derive(Debug)]
pub struct SinkStatus {
    /// The sink's name.
    pub name: String,
    /// The platform.
    pub platform: &'static str,
    told: RwLock<Told>,
}

/// What a sink tells of itself.
#[derive(Clone, Debug)]
pub struct Told {
    /// What it is doing.
    pub state: SinkState,
    /// How many entries the platform has taken, ever.
    pub forwarded: u64,
    /// How many attempts failed, ever.
    pub errors: u64,
    /// How many entries it refused for good, ever.
    pub dead: u64,
    /// When it took the last one.
    pub last_forward: Option<Timestamp>,
    /// The last entry that is done with.
    pub cursor: Option<String>,
    /// Why the last attempt failed; nothing after one that did not.
    pub trouble: Option<String>,
}

impl SinkState {
    /// Returns the name used in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Connected => "connected",
            Self::Retrying => "retrying",
        }
    }
}

impl SinkStatus {
    pub(super) fn new(name: &str, platform: &'static str) -> Self {
        let told = Told {
            state: SinkState::Idle,
            forwarded: 0,
            errors: 0,
            dead: 0,
            last_forward: None,
            cursor: None,
            trouble: None,
        };
        Self { name: name.to_owned(), platform, told: RwLock::new(told) }
    }

    /// Returns the figures as they are.
    pub fn told(&self) -> Told {
        self.told.read().clone()
    }

    pub(super) fn follow(&self, cursor: &Cursor, state: SinkState, trouble: Option<String>) {
        *self.told.write() = Told {
            state,
            forwarded: cursor.forwarded,
            errors: cursor.errors,
            dead: cursor.dead,
            last_forward: cursor.last_forward_ms.and_then(|at| Timestamp::from_millisecond(at).ok()),
            cursor: cursor.after.clone(),
            trouble,
        };
    }
}
