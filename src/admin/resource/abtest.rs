//! `/api/v1/abtest/tests`: A/B tests of the third layer, made, run and read.

use serde::Deserialize;
use serde::Serialize;
use serde_json::Number;
use utoipa::ToSchema;

use super::wire::object_or_null;
use super::wire::objects;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::call::with_status;
use crate::admin::error::ApiError;
use crate::clock::rfc3339;
use crate::govern::abtest::AbTest;
use crate::govern::abtest::AbTestError;
use crate::govern::abtest::AbTests;
use crate::govern::abtest::GuardRail;
use crate::govern::abtest::Metrics;
use crate::govern::abtest::NewTest;
use crate::govern::abtest::Report;
use crate::govern::abtest::Status;
use crate::govern::abtest::Variant;
use crate::govern::abtest::evidence::INTERVAL_CONFIDENCE;

/// How a variant is compared with the first one.
const METHOD: &str = "e-process of two rates, valid at every look (Turner, Ly, Grünwald 2024)";

/// What a new test is to be.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TestRequest {
    /// Its name.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// What it is for.
    #[serde(default)]
    #[schema(max_length = 4096)]
    pub description: String,
    /// At least two; the first is what the others are compared with.
    #[serde(deserialize_with = "objects")]
    #[schema(min_items = 2, max_items = 16)]
    pub variants: Vec<VariantRequest>,
    /// When a variant is stopped; absent: past a half of 200 requests.
    #[serde(default, deserialize_with = "object_or_null")]
    pub guard_rail: Option<GuardRailForm>,
}

/// One variant of a new test.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VariantRequest {
    /// Its name, unique in the test.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// Its share of the requests, over the sum of all weights: a number, whole or not; one of them is above 0.
    #[schema(minimum = 0)]
    pub weight: f64,
    /// `default`, `off` or the name of a model; behind a model perhaps `?bias=` and log odds.
    pub model_ref: String,
}

/// When a variant is stopped.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GuardRailForm {
    /// The largest share of requests that may be blocked because of the third layer, from 0 to 1.
    #[schema(minimum = 0, maximum = 1)]
    pub max_block_rate: f64,
    /// How many live requests since the start it takes to say so.
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    pub min_requests: u64,
}

/// A test that was made.
#[derive(Serialize, ToSchema)]
pub struct CreatedTest {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `created`.
    pub status: &'static str,
    /// When it was made.
    pub created_at: String,
}

/// One variant.
#[derive(Serialize, ToSchema)]
pub struct VariantEntry {
    /// Its name.
    pub name: String,
    /// Its share of the requests, over the sum of all weights, as it was given.
    #[schema(value_type = f64)]
    pub weight: Number,
    /// What judges its requests.
    pub model_ref: String,
}

/// One test.
#[derive(Serialize, ToSchema)]
pub struct TestEntry {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What is compared.
    pub variants: Vec<VariantEntry>,
    /// When a variant is stopped.
    pub guard_rail: GuardRailForm,
    /// `created`, `started` or `stopped`.
    pub status: &'static str,
    /// Whether it routes live traffic: of the started tests the one that was started first does.
    pub routes_traffic: bool,
    /// Whether it is put away.
    pub archived: bool,
    /// When it was made.
    pub created_at: String,
    /// When its status changed last.
    pub updated_at: String,
    /// When it was started last.
    pub started_at: Option<String>,
}

/// The tests, oldest first.
#[derive(Serialize, ToSchema)]
pub struct TestList {
    /// The tests.
    pub tests: Vec<TestEntry>,
    /// How many.
    pub count: usize,
}

/// Which tests are listed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    #[serde(default)]
    archived: bool,
}

/// What became of a test.
#[derive(Serialize, ToSchema)]
pub struct Moved {
    /// `started`, `stopped`, `archived` or `deleted`.
    pub status: &'static str,
    /// Its id.
    pub test_id: String,
}

/// Which request is asked for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The request's id.
    #[schema(min_length = 1, max_length = 256)]
    pub request_id: String,
}

/// Which variant a request belongs to.
#[derive(Serialize, ToSchema)]
pub struct Assigned {
    /// The variant's name.
    pub variant: String,
    /// The test's id.
    pub test_id: String,
}

/// What came of one request.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResultRequest {
    /// The variant's name.
    pub variant_name: String,
    /// Whether something was detected.
    pub detected: bool,
    /// Whether that was wrong.
    pub false_positive: bool,
    /// How long it took, in milliseconds.
    #[schema(minimum = 0, maximum = 60_000)]
    pub latency_ms: f64,
    /// The request it is about; with it the result counts once, and only for the request's own variant. Without it the
    /// result counts in the rates, but is not compared: `significance` leaves it out.
    pub request_id: Option<String>,
}

/// A result was counted.
#[derive(Serialize, ToSchema)]
pub struct Recorded {
    /// `recorded`.
    pub status: &'static str,
}

/// What is known of a variant.
#[derive(Serialize, ToSchema)]
pub struct VariantMetrics {
    /// Its name.
    pub variant_name: String,
    /// Live requests and results that were fed back.
    pub total_requests: u64,
    /// Requests in which the variant's model detected something.
    pub detections: u64,
    /// Detections that were wrong, as somebody fed back.
    pub false_positives: u64,
    /// How long the third layer took on average, in milliseconds.
    pub avg_latency_ms: f64,
    /// Detections over requests.
    pub detection_rate: f64,
    /// Where the true rate lies.
    pub confidence_interval: Interval,
    /// Live requests among all.
    pub live_requests: u64,
    /// Live requests that the model blocked.
    pub blocks: u64,
    /// Why the variant gets no more traffic; `null`: it gets its share.
    pub stopped: Option<StoppedVariant>,
    /// How it compares with the first variant; `null` for that itself.
    pub significance: Option<SignificanceEntry>,
}

/// An interval for a rate (Wilson's, for one look at one rate).
#[derive(Serialize, ToSchema)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The share of such intervals that hold the true rate.
    pub level: f64,
}

/// A guard rail that held.
#[derive(Serialize, ToSchema)]
pub struct StoppedVariant {
    /// When.
    pub at: String,
    /// The share of its requests that had been blocked.
    pub block_rate: f64,
}

/// How a variant compares with the first one.
#[derive(Serialize, ToSchema)]
pub struct SignificanceEntry {
    /// The first variant.
    pub compared_with: String,
    /// How many requests of both variants the p-value goes by: live ones, and results with a `request_id`.
    pub compared_requests: u64,
    /// The detection rate less that of the first variant, over the requests that the p-value goes by; `null` as long as
    /// one of the two has none of these.
    pub difference: Option<f64>,
    /// How surprising the counts would be if both detected alike, corrected for all comparisons of the test; `null` as
    /// long as there is nothing to compare.
    pub p_value: Option<f64>,
    /// Whether the difference is real: a p-value of 0.05 at most, at whatever moment one looks.
    pub is_significant: bool,
    /// How this was computed.
    pub method: &'static str,
}

/// `POST /api/v1/abtest/tests`.
pub async fn create(call: Call) -> Answer {
    let new = call.json::<TestRequest>()?.read();
    call.ensure_recordable()?;
    let (id, now) = (call.office.new_id(), call.office.clock.now());
    let shelf = call.office.reloader.handle().load().layer3.clone();
    let test = on_disk(&call, move |tests| tests.create(id, new, &shelf, now)).await?;
    record(&call, "abtest_created", &test.id, "an A/B test was made").await;
    let created = CreatedTest {
        id: test.id,
        name: test.name,
        status: test.status.as_str(),
        created_at: rfc3339(test.created_at),
    };
    with_status(http::StatusCode::CREATED, &created)
}

/// `GET /api/v1/abtest/tests`.
pub async fn list(call: Call) -> Answer {
    let Listing { archived } = call.query()?;
    let tests = call.office.abtests.list().into_iter().filter(|test| archived || !test.is_archived);
    let tests: Vec<TestEntry> = tests.map(|test| entry(&call.office.abtests, test)).collect();
    ok(&TestList { count: tests.len(), tests })
}

/// `GET /api/v1/abtest/tests/{id}`.
pub async fn read(call: Call) -> Answer {
    let (test, _) = call.office.abtests.read(call.parameter("id"))?;
    ok(&entry(&call.office.abtests, test))
}

/// `DELETE /api/v1/abtest/tests/{id}`.
pub async fn remove(call: Call) -> Answer {
    call.ensure_recordable()?;
    let id = call.parameter("id").to_owned();
    let wanted = id.clone();
    on_disk(&call, move |tests| tests.delete(&wanted)).await?;
    record(&call, "abtest_deleted", &id, "an A/B test was deleted").await;
    ok(&Moved { status: "deleted", test_id: id })
}

/// `POST /api/v1/abtest/tests/{id}/start`.
pub async fn start(call: Call) -> Answer {
    moved(call, AbTests::start, "started", ("abtest_started", "an A/B test was started")).await
}

/// `POST /api/v1/abtest/tests/{id}/stop`.
pub async fn stop(call: Call) -> Answer {
    moved(call, AbTests::stop, "stopped", ("abtest_stopped", "an A/B test was stopped")).await
}

/// `POST /api/v1/abtest/tests/{id}/archive`.
pub async fn archive(call: Call) -> Answer {
    moved(call, AbTests::archive, "archived", ("abtest_archived", "an A/B test was put away")).await
}

/// `GET /api/v1/abtest/tests/{id}/metrics`.
pub async fn metrics(call: Call) -> Answer {
    let (_, metrics) = call.office.abtests.read(call.parameter("id"))?;
    ok(&metrics.into_iter().map(VariantMetrics::from).collect::<Vec<_>>())
}

/// `POST /api/v1/abtest/tests/{id}/assign`.
pub async fn assign(call: Call) -> Answer {
    let id = call.parameter("id").to_owned();
    call.office.abtests.read(&id)?;
    let Asked { request_id } = call.json()?;
    ok(&Assigned { variant: call.office.abtests.assign(&id, &request_id)?, test_id: id })
}

/// `POST /api/v1/abtest/tests/{id}/result`.
pub async fn result(call: Call) -> Answer {
    let id = call.parameter("id").to_owned();
    call.office.abtests.read(&id)?;
    let request: ResultRequest = call.json()?;
    let report = Report {
        variant: request.variant_name,
        request_id: request.request_id,
        detected: request.detected,
        false_positive: request.false_positive,
        latency_ms: request.latency_ms,
    };
    on_disk(&call, move |tests| tests.report(&id, &report)).await?;
    ok(&Recorded { status: "recorded" })
}

impl TestRequest {
    fn read(self) -> NewTest {
        let variant = |variant: VariantRequest| (variant.name, variant.weight, variant.model_ref);
        let rail = |form: GuardRailForm| GuardRail {
            block_rate_max: form.max_block_rate,
            requests_min: form.min_requests,
        };
        NewTest {
            name: self.name,
            description: self.description,
            variants: self.variants.into_iter().map(variant).collect(),
            guard_rail: self.guard_rail.map(rail).unwrap_or_default(),
        }
    }
}

impl From<Metrics> for VariantMetrics {
    fn from(metrics: Metrics) -> Self {
        let (low, high) = metrics.detections.interval();
        Self {
            variant_name: metrics.variant,
            total_requests: metrics.detections.all,
            detections: metrics.detections.hits,
            false_positives: metrics.false_positives,
            avg_latency_ms: metrics.latency_ms_average,
            detection_rate: metrics.detections.rate(),
            confidence_interval: Interval { low, high, level: INTERVAL_CONFIDENCE },
            live_requests: metrics.live,
            blocks: metrics.blocks,
            stopped: metrics
                .trip
                .map(|trip| StoppedVariant { at: rfc3339(trip.at), block_rate: trip.block_rate }),
            significance: metrics.significance.map(|known| SignificanceEntry {
                compared_with: known.compared_with,
                compared_requests: known.compared,
                difference: known.difference,
                p_value: known.p_value,
                is_significant: known.is_significant,
                method: METHOD,
            }),
        }
    }
}

/// Moves a test from whatever state, and writes it down.
async fn moved(
    call: Call,
    change: fn(&AbTests, &str, jiff::Timestamp) -> Result<AbTest, AbTestError>,
    status: &'static str,
    (event, message): (&str, &str),
) -> Answer {
    call.ensure_recordable()?;
    let (id, now) = (call.parameter("id").to_owned(), call.office.clock.now());
    let test = on_disk(&call, move |tests| change(tests, &id, now)).await?;
    record(&call, event, &test.id, message).await;
    ok(&Moved { status, test_id: test.id })
}

/// Does what blocks for the disk on a thread that may.
async fn on_disk<T: Send + 'static>(
    call: &Call,
    work: impl FnOnce(&AbTests) -> Result<T, AbTestError> + Send + 'static,
) -> Result<T, ApiError> {
    let tests = call.office.abtests.clone();
    let done = tokio::task::spawn_blocking(move || work(&tests)).await;
    Ok(done.map_err(|_| call.office.panicked())??)
}

async fn record(call: &Call, event_type: &str, test_id: &str, message: &str) {
    let mut event = call.event(event_type, message.to_owned());
    event.entity = Some(test_id.to_owned());
    call.office.record(event).await;
}

fn entry(tests: &AbTests, test: AbTest) -> TestEntry {
    let variant = |variant: Variant| VariantEntry {
        name: variant.name,
        weight: number(variant.written_weight),
        model_ref: variant.model_ref.to_string(),
    };
    TestEntry {
        routes_traffic: test.status == Status::Started && tests.is_live(&test.id),
        id: test.id,
        name: test.name,
        description: test.description,
        variants: test.variants.into_iter().map(variant).collect(),
        guard_rail: GuardRailForm {
            max_block_rate: test.guard_rail.block_rate_max,
            min_requests: test.guard_rail.requests_min,
        },
        status: test.status.as_str(),
        archived: test.is_archived,
        created_at: rfc3339(test.created_at),
        updated_at: rfc3339(test.updated_at),
        started_at: test.started_at.map(rfc3339),
    }
}

/// Returns a number as JSON has it: a whole one without decimals.
fn number(number: f64) -> Number {
    let whole =
        (number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number)).then_some(number as u32);
    let decimal = || Number::from_f64(number).unwrap_or_else(|| Number::from(0));
    whole.map_or_else(decimal, Number::from)
}

impl From<AbTestError> for ApiError {
    fn from(error: AbTestError) -> Self {
        use AbTestError as E;
        match error {
            E::Name(_) | E::Description | E::Variants | E::RepeatedName | E::Weight | E::GuardRail => {
                Self::Invalid(error.to_string())
            }
            E::UnknownVariant | E::RequestId | E::NotAssigned | E::Latency => {
                Self::Invalid(error.to_string())
            }
            E::UnknownModel { ref known } => {
                Self::UnknownName { message: error.to_string(), key: "valid_models", known: known.clone() }
            }
            E::TooMany | E::Repeated | E::Started => Self::Conflict(error.to_string()),
            E::Unknown => Self::NotFound(error.to_string()),
            E::Store(_) => Self::Unavailable,
        }
    }
}
