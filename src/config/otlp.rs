//! `[otlp]` into the configuration of its module.

use std::time::Duration;

use http::HeaderName;
use http::Uri;

use crate::document::secret::SecretPlace;
use crate::document::section::Section;
use crate::otlp::config::OtlpConfig;

const HOUR_MS: u64 = 3_600_000;

/// `None` where no collector is named.
pub(super) fn read(section: &mut Section<'_>) -> Option<OtlpConfig> {
    let endpoint =
        section.text_maybe("endpoint").filter(|text| !text.is_empty()).map(|text| endpoint(section, text));
    let secret = SecretPlace::read(section, "secret_file", "secret_env");
    let header = section.text("secret_header").parse::<HeaderName>().unwrap_or_else(|_| {
        section.invalid("secret_header", "expected the name of a header", None);
        http::header::AUTHORIZATION
    });
    let config = OtlpConfig {
        endpoint: endpoint.clone().unwrap_or_default(),
        ca_file: section.path_maybe("ca_file"),
        secret: secret.map(|place| (header, place)),
        service_name: section.text("service_name").to_owned(),
        traces: section.flag("traces"),
        metrics: section.flag("metrics"),
        sample_percent: section.number("sample_percent", 0..=100) as u8,
        trust_caller: section.flag("trust_caller"),
        interval: Duration::from_millis(section.number("interval_ms", 100..=HOUR_MS)),
    };
    section.finish();
    endpoint.map(|_| config)
}

fn endpoint(section: &mut Section<'_>, text: &str) -> Uri {
    let uri = text.parse::<Uri>().ok().filter(|uri| {
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let is_bare = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        is_http && is_bare && uri.query().is_none()
    });
    uri.unwrap_or_else(|| {
        section.invalid("endpoint", "expected http(s)://HOST:PORT, without credentials or query", None);
        Uri::default()
    })
}
