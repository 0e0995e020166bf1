//! What was used: tokens, cost, errors and time, by caller, model and route, hour by hour and day by day.
//!
//! In: one [`Use`] for each exchange, after its answer has left ([`Meter::note`]). Out: reports over a
//! [`Period`], and what is out of the ordinary ([`anomaly`]). Hours and days are those of UTC. Each exchange counts in the hour in which it ended, and
//! its cost is that of the prices in force then ([`price`]): a later change of prices changes no past.
//!
//! Memory is bounded: an hour names at most [`figures::NAMES_MAX`] callers, models and routes, those that
//! used most among them; the others are added up as `other`, with how many they were. Figures are written every
//! [`meter::FLUSH`] and survive the death of the process but for what came since the last write.
//!
//! Callers are stored under tokens of the [keyring](crate::access::keyring): who is erased is named nowhere, and what it
//! used belongs to the others.
//!
//! What it does not promise: tokens that no provider told are estimated from the text, and marked so; a
//! model without a price costs nothing here, and its tokens are counted as unpriced.

pub mod anomaly;
pub mod config;
pub mod figures;
pub mod meter;
pub mod period;
pub mod price;
mod stored;

pub use self::figures::Finding;
pub use self::figures::Tokens;
pub use self::figures::Use;
pub use self::figures::Verdict;
pub use self::meter::Meter;
pub use self::period::Period;
pub use self::price::Cost;
