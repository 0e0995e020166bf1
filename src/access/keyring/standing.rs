//! Who has a claim to a place among the names, and how many places there are for whom.
//!
//! Anybody who reaches the proxy can make up credentials, and each of them is another caller. So there are shares: what
//! strangers use up is theirs alone. Of theirs and of that of other callers the newcomers of one day get no more than a part
//! of the places that are left, so that a flood leaves some for whoever comes later; and places come back once nothing names
//! their holders any more ([`Keyring::age_out`](super::Keyring::age_out)).

use crate::access::identity;

/// Of the places that are left of a share in the morning, the newcomers of that day get this part.
const NEWCOMERS_PART: usize = 8;

/// How well a name is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// A caller by a credential that only its provider could know, and was not seen to take.
    Stranger,
    /// A caller whose credential its provider took.
    Caller,
    /// Whoever the gateway let in, and what it made up names for, as sessions: what is named in journals alone.
    Recorded,
    /// Whoever is named in a record that is kept, as keys, users and legal holds are. It never ages out.
    Known,
}

/// The shares of all.
#[derive(Clone, Copy)]
pub(super) struct Shares([Share; Standing::ALL.len()]);

#[derive(Clone, Copy)]
struct Share {
    names_max: usize,
    names: usize,
    /// The day for which it is known how many newcomers still get a place.
    day: Option<u32>,
    newcomers_left: usize,
}

impl Standing {
    /// Every standing, the lowest first.
    pub const ALL: [Self; 4] = [Self::Stranger, Self::Caller, Self::Recorded, Self::Known];

    /// Returns what a name alone tells.
    pub fn of(name: &str) -> Self {
        if identity::is_caller_id(name) { Self::Stranger } else { Self::Recorded }
    }

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stranger => "stranger",
            Self::Caller => "caller",
            Self::Recorded => "recorded",
            Self::Known => "known",
        }
    }

    /// Returns how many names of this standing may have keys.
    pub const fn names_max(self) -> usize {
        match self {
            Self::Stranger => 1 << 18,
            Self::Caller | Self::Recorded => 1 << 19,
            Self::Known => 1 << 20,
        }
    }

    /// Returns how it is stored.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Stranger => 1,
            Self::Caller => 2,
            Self::Recorded => 3,
            Self::Known => 4,
        }
    }

    /// Reads it as it is stored. Keys from before there were standings have none: whose they are is not known, so
    /// they count as known.
    pub(super) fn of_code(code: u8) -> Self {
        match code {
            1 => Self::Stranger,
            2 => Self::Caller,
            3 => Self::Recorded,
            _ => Self::Known,
        }
    }

    /// Returns its place in [`Standing::ALL`].
    pub(super) fn place(self) -> usize {
        usize::from(self.code()) - 1
    }
}

impl Default for Shares {
    fn default() -> Self {
        let share = |standing: Standing| Share {
            names_max: standing.names_max(),
            names: 0,
            day: None,
            newcomers_left: 0,
        };
        Self(Standing::ALL.map(share))
    }
}

impl Shares {
    /// Returns how many names there are.
    pub(super) fn names(&self, standing: Standing) -> usize {
        self.of(standing).names
    }

    /// Tells whether there is a place for a newcomer.
    pub(super) fn admits(&mut self, standing: Standing, today: u32) -> bool {
        let share = self.of_mut(standing);
        let left = share.names_max.saturating_sub(share.names);
        if standing >= Standing::Recorded {
            return left > 0;
        }
        if share.day.replace(today) != Some(today) {
            share.newcomers_left = left.div_ceil(NEWCOMERS_PART);
        }
        left > 0 && share.newcomers_left > 0
    }

    /// Notes that a newcomer took a place.
    pub(super) fn note_newcomer(&mut self, standing: Standing) {
        let share = self.of_mut(standing);
        share.newcomers_left = share.newcomers_left.saturating_sub(1);
    }

    /// Notes that there is one name more.
    pub(super) fn add(&mut self, standing: Standing) {
        self.of_mut(standing).names += 1;
    }

    /// Notes that there is one name less.
    pub(super) fn take(&mut self, standing: Standing) {
        let share = self.of_mut(standing);
        share.names = share.names.saturating_sub(1);
    }

    /// Lets a share be full early, and its day begin anew.
    #[cfg(test)]
    pub(super) fn fill_at(&mut self, standing: Standing, names_max: usize) {
        let share = self.of_mut(standing);
        (share.names_max, share.day) = (names_max, None);
    }

    fn of(&self, standing: Standing) -> &Share {
        &self.0[standing.place()]
    }

    fn of_mut(&mut self, standing: Standing) -> &mut Share {
        &mut self.0[standing.place()]
    }
}
