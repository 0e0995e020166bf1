//! A/B tests of the third layer.

use super::Route;
use super::by;
use super::delete;
use super::get;
use super::post;
use crate::admin::openapi::list;
use crate::admin::openapi::schema;
use crate::admin::resource::abtest;

const TESTS: &str = "/api/v1/abtest/tests";
const ONE: &str = "/api/v1/abtest/tests/{id}";

pub(super) fn rows() -> Vec<Route> {
    let moved = |path, handler, summary| {
        post(path, "abtest:write", handler, summary).gives(schema::<abtest::Moved>())
    };
    vec![
        post(TESTS, "abtest:create", by!(abtest::create), "Makes an A/B test of the third layer")
            .created()
            .takes(schema::<abtest::TestRequest>())
            .gives(schema::<abtest::CreatedTest>()),
        get(TESTS, "abtest:read", by!(abtest::list), "Lists the A/B tests, oldest first")
            .query(&["archived"])
            .gives(schema::<abtest::TestList>()),
        get(ONE, "abtest:read", by!(abtest::read), "Describes one A/B test")
            .gives(schema::<abtest::TestEntry>()),
        delete(ONE, "abtest:delete", by!(abtest::remove), "Deletes an A/B test that does not run")
            .gives(schema::<abtest::Moved>()),
        moved("/api/v1/abtest/tests/{id}/start", by!(abtest::start), "Starts an A/B test, from any state"),
        moved("/api/v1/abtest/tests/{id}/stop", by!(abtest::stop), "Stops an A/B test, from any state"),
        moved(
            "/api/v1/abtest/tests/{id}/archive",
            by!(abtest::archive),
            "Stops an A/B test and puts it away",
        ),
        get(
            "/api/v1/abtest/tests/{id}/metrics",
            "abtest:read",
            by!(abtest::metrics),
            "Gives the counts of every variant, and what they say",
        )
        .gives(list::<abtest::VariantMetrics>()),
        post(
            "/api/v1/abtest/tests/{id}/assign",
            "abtest:result",
            by!(abtest::assign),
            "Tells which variant a request belongs to",
        )
        .takes(schema::<abtest::Asked>())
        .gives(schema::<abtest::Assigned>()),
        post("/api/v1/abtest/tests/{id}/result", "abtest:result", by!(abtest::result), "Counts a result")
            .takes(schema::<abtest::ResultRequest>())
            .gives(schema::<abtest::Recorded>()),
    ]
}
