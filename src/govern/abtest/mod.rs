//! A/B tests of the third layer: which model judges a request, and what came of it.
//!
//! In: tests as an administrator makes them, outcomes of live traffic and outcomes that callers feed back. Out: the
//! variant of a request ([`assign`]), and counts with what they say ([`evidence`]). Tests and counts are kept in the
//! store by an [`AbTests`]; counts of live traffic are written once a second, so a process that is killed loses a
//! second of them; what was fed back is on the disk before it is answered. What the store refuses is kept and written
//! later.
//!
//! A live request belongs to a variant by an id that the gateway made. Where the caller named the request, that is
//! another than its request id: nobody chooses what judges them by choosing a name.
//!
//! One started test routes live traffic: the one that was started first. The others wait; they assign and count
//! what is fed back like any other. A request is an outcome of live traffic if the third layer had something to read in
//! it, whichever variant it fell to, so that variants are counted alike, `off` included.
//!
//! What is fed back is not trusted far: it needs a role, a known variant and a sane latency. With a request id it
//! counts once, for the variant of that id only, whichever node it comes to and however long ago the first time was
//! (see [`REPORTED_MAX`]); a request that live traffic counted already is not counted again, only its false positive is.
//! Which ones live traffic has counted is remembered of the last [`RECENT_MAX`] of this process; since any node may have
//! counted the others long ago, an id that a gateway made since the test was created is taken for one of them wherever
//! the test routes traffic, or has. A request id that comes again is one request.
//!
//! A variant whose model blocks too much is stopped by its guard rail: it gets no more traffic, its requests go to the
//! usual model. What that promises is a bound on the harm after the least number of requests, not a verdict.

pub mod assign;
mod book;
pub mod evidence;
mod live;
mod recent;
mod reported;
mod stored;
mod tally;
mod validate;

use jiff::Timestamp;

pub use self::book::AbTests;
pub use self::live::Enrolled;
pub use self::recent::RECENT_MAX;
pub use self::reported::REPORTED_MAX;
pub use self::tally::Metrics;
pub use self::tally::Significance;
pub use self::tally::Trip;
use crate::scan::classifier::choice::ModelRef;
use crate::store::StoreError;

/// The most tests, archived ones included.
pub const TESTS_MAX: usize = 1000;
/// The most variants of a test.
pub const VARIANTS_MAX: usize = 16;
/// The most requests that a guard rail may wait for.
pub const GUARD_REQUESTS_MAX: u64 = 1_000_000_000;
/// The longest name of a test or a variant, in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// The longest description, in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 4096;
/// The longest request id that is assigned, in bytes.
pub const REQUEST_ID_BYTES_MAX: usize = 256;
/// How many times as large as another one weight may be, where they are no whole numbers whose sum fits 32 bits.
pub const WEIGHTS_APART_MAX: u32 = 100_000_000;
/// The longest latency that is believed, in milliseconds.
pub const LATENCY_MS_MAX: f64 = 60_000.0;

/// A test.
#[derive(Clone, Debug, PartialEq)]
pub struct AbTest {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What is compared; the first is what the others are compared with.
    pub variants: Vec<Variant>,
    /// When a variant is stopped.
    pub guard_rail: GuardRail,
    /// Where it is.
    pub status: Status,
    /// Whether it is put away.
    pub is_archived: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its status changed last.
    pub updated_at: Timestamp,
    /// When it was started last.
    pub started_at: Option<Timestamp>,
}

/// One variant of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Its name, unique in the test.
    pub name: String,
    /// Its share of the requests, over the sum of all weights.
    pub weight: u32,
    /// The same as it was written: only what it is beside the others counts.
    pub written_weight: f64,
    /// What judges its requests.
    pub model_ref: ModelRef,
}

/// When a variant is stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardRail {
    /// The largest share of requests that may be blocked because of the third layer, from 0 to 1.
    pub block_rate_max: f64,
    /// How many requests since the start it takes to say so.
    pub requests_min: u64,
}

/// Where a test is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It was made.
    Created,
    /// It runs.
    Started,
    /// It does not run any more.
    Stopped,
}

/// A test to be made, as somebody wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTest {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Name, weight and model of each variant.
    pub variants: Vec<(String, f64, String)>,
    /// When a variant is stopped.
    pub guard_rail: GuardRail,
}

/// What came of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Whether the variant's model detected something.
    pub detected: bool,
    /// Whether that was wrong, where somebody knows.
    pub false_positive: bool,
    /// Whether the model blocked the request, whoever else would have.
    pub blocked: bool,
    /// How long the model took, in microseconds.
    pub latency_us: u64,
}

/// An outcome as it is fed back.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The variant.
    pub variant: String,
    /// The request it is about, where the caller says so.
    pub request_id: Option<String>,
    /// Whether something was detected.
    pub detected: bool,
    /// Whether that was wrong.
    pub false_positive: bool,
    /// How long it took.
    pub latency_ms: f64,
}

/// Why a test was not made, changed or asked.
#[derive(Debug, thiserror::Error)]
pub enum AbTestError {
    /// A name is empty or too long.
    #[error("{0}: expected 1 to {NAME_BYTES_MAX} bytes")]
    Name(&'static str),
    /// The description is too long.
    #[error("description: expected {DESCRIPTION_BYTES_MAX} bytes at most")]
    Description,
    /// There are too few variants, or too many.
    #[error("variants: expected 2 to {VARIANTS_MAX}")]
    Variants,
    /// Two variants have one name.
    #[error("variants: two have the same name")]
    RepeatedName,
    /// A weight is no share, or so small beside another that it would get nothing.
    #[error(
        "weight: expected numbers from 0 on, of which one is above 0, and none above 0 is less than a {WEIGHTS_APART_MAX}th \
         of another"
    )]
    Weight,
    /// A model is not there.
    #[error("model_ref: there is no such model")]
    UnknownModel {
        /// The models that are.
        known: Vec<String>,
    },
    /// A guard rail is out of its range.
    #[error(
        "guard_rail: expected a max_block_rate from 0 to 1 and min_requests from 1 to {GUARD_REQUESTS_MAX}"
    )]
    GuardRail,
    /// There are too many tests.
    #[error("there are {TESTS_MAX} tests already: delete some")]
    TooMany,
    /// There is no such test.
    #[error("there is no such test")]
    Unknown,
    /// There is no such variant.
    #[error("variant_name: the test has no such variant")]
    UnknownVariant,
    /// The request id cannot be one.
    #[error("request_id: expected 1 to {REQUEST_ID_BYTES_MAX} bytes")]
    RequestId,
    /// The request belongs to another variant.
    #[error("request_id: that request is assigned to another variant")]
    NotAssigned,
    /// The request was reported before.
    #[error("a result for that request was recorded before")]
    Repeated,
    /// The latency is out of its range.
    #[error("latency_ms: expected a number from 0 to {LATENCY_MS_MAX}")]
    Latency,
    /// It runs.
    #[error("the test is started: stop it first")]
    Started,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Status {
    /// Returns the name used in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Started => "started",
            Self::Stopped => "stopped",
        }
    }
}

impl Default for GuardRail {
    fn default() -> Self {
        Self { block_rate_max: 0.5, requests_min: 200 }
    }
}

#[cfg(test)]
mod tests;
