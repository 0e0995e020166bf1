//! What is exported for auditors' programs is what the model says: NIST's OSCAL, as compliance-trestle reads it.

use std::process::Command;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use portcullis::access::tier::Tier;

use crate::world::World;

const FRAMEWORKS: [&str; 8] =
    ["soc2", "hipaa", "pci_dss", "eu_ai_act", "nist_ai_rmf", "owasp_llm", "iso_27001", "mitre_atlas"];

#[tokio::test]
async fn oscal_assessment_results_are_valid() {
    let world = World::start(Tier::Professional);
    let folder = tempfile::tempdir().unwrap();
    for framework in FRAMEWORKS {
        let path = format!("/api/v1/compliance?framework={framework}&format=oscal");
        let request =
            Request::get(path).header("host", "localhost").header("x-api-key", world.key("auditor"));
        let response = world.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), 200, "{framework}");
        let document = response.into_body().collect().await.unwrap().to_bytes();
        std::fs::write(folder.path().join(format!("{framework}.json")), document).unwrap();
    }
    let validated = Command::new("tests/clients/oscal.sh").arg(folder.path()).output().unwrap();
    let told = String::from_utf8_lossy(&validated.stdout);
    let wrong = String::from_utf8_lossy(&validated.stderr);
    assert!(validated.status.success() && told.trim_end().ends_with("8 valid"), "{told}{wrong}");
}
