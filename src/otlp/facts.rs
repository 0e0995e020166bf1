//! What is told of an exchange, as spans.
//!
//! Names are those of OpenTelemetry's semantic conventions for HTTP and for generative AI (`gen_ai.*`, development
//! status, 1.37); what they do not know is `portcullis.*`. Neither content nor credentials are among it.

use std::time::Duration;
use std::time::SystemTime;

use opentelemetry::InstrumentationScope;
use opentelemetry::KeyValue;
use opentelemetry::trace::SpanContext;
use opentelemetry::trace::SpanId;
use opentelemetry::trace::SpanKind;
use opentelemetry::trace::Status;
use opentelemetry_sdk::trace::SpanData;
use opentelemetry_sdk::trace::SpanEvents;
use opentelemetry_sdk::trace::SpanLinks;

use super::trace::Trace;

/// What the conventions call a method that is not known, and the span of one.
const OTHER_METHOD: &str = "_OTHER";
const OTHER_NAME: &str = "HTTP";
/// The longest name of a model that is told, in bytes.
const MODEL_BYTES_MAX: usize = 128;
/// From this status on an answer is the server's failure.
const SERVER_ERROR: u16 = 500;
/// From this status on an answer is an error to who asked.
const CLIENT_ERROR: u16 = 400;

/// What is known of an exchange at its end.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The method of the request; `None`: none that is known, and a text of the caller's choice.
    pub method: Option<&'a str>,
    /// The name of the route, where there is one.
    pub route: Option<&'a str>,
    /// The status the caller got; `None`: it left before.
    pub status: Option<u16>,
    /// Why it was refused, or ended early.
    pub reason: Option<&'static str>,
    /// The name of the exchange in answers and in the audit log.
    pub request_id: &'a str,
    /// The policy and its revision.
    pub decided_by: Option<String>,
    /// What was done: the strictest.
    pub action: &'static str,
    /// What was found in the request and in the answer.
    pub findings: (usize, usize),
    /// Whose model was asked, and to do what, by the names of the conventions.
    pub provider: &'a str,
    /// See `provider`; `None`: no model was asked.
    pub operation: Option<&'a str>,
    /// The model that was asked for.
    pub request_model: Option<&'a str>,
    /// The model that answered.
    pub response_model: Option<&'a str>,
    /// The tokens of the request, as the provider told.
    pub input_tokens: Option<u64>,
    /// The tokens of the answer, as the provider told.
    pub output_tokens: Option<u64>,
    /// When it ended.
    pub ended: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// When the provider was asked, from the begin of the exchange; `None`: it never was.
    pub asked_after: Option<Duration>,
    /// How long scanning took.
    pub scanning: Duration,
}

impl Facts<'_> {
    /// Returns the spans: of the exchange, and of what was asked of the provider.
    pub(super) fn spans(&self, trace: &Trace) -> Vec<SpanData> {
        let began = self.ended.checked_sub(self.took).unwrap_or(self.ended);
        let mut spans = vec![SpanData {
            parent_span_is_remote: trace.parent.is_some(),
            span_kind: SpanKind::Server,
            status: self.status_as(SERVER_ERROR),
            ..self.span((&trace.exchange, trace.parent_id()), self.name(), began, self.attributes())
        }];
        if let Some(after) = self.asked_after {
            let place = (&trace.provider, trace.exchange.span_id());
            spans.push(SpanData {
                span_kind: SpanKind::Client,
                status: self.status_as(CLIENT_ERROR),
                ..self.span(place, self.model_name(), began + after, self.model_attributes())
            });
        }
        spans
    }

    fn span(
        &self,
        (context, parent): (&SpanContext, SpanId),
        name: String,
        began: SystemTime,
        attributes: Vec<KeyValue>,
    ) -> SpanData {
        SpanData {
            span_context: context.clone(),
            parent_span_id: parent,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: name.into(),
            start_time: began,
            end_time: self.ended,
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::builder(env!("CARGO_PKG_NAME"))
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
        }
    }

    fn name(&self) -> String {
        let method = self.method.unwrap_or(OTHER_NAME);
        match self.route {
            Some(route) => format!("{method} {route}"),
            None => method.to_owned(),
        }
    }

    fn model_name(&self) -> String {
        let operation = self.operation.or(self.method).unwrap_or(OTHER_NAME);
        match self.request_model {
            Some(model) => format!("{operation} {}", shortened(model)),
            None => operation.to_owned(),
        }
    }

    fn attributes(&self) -> Vec<KeyValue> {
        let (in_request, in_response) = self.findings;
        let mut all = vec![
            KeyValue::new("http.request.method", self.method.unwrap_or(OTHER_METHOD).to_owned()),
            KeyValue::new("portcullis.request_id", self.request_id.to_owned()),
            KeyValue::new("portcullis.action", self.action),
            KeyValue::new("portcullis.findings.request", in_request as i64),
            KeyValue::new("portcullis.findings.response", in_response as i64),
            KeyValue::new("portcullis.scan.duration", self.scanning.as_secs_f64()),
        ];
        all.extend(self.route.map(|route| KeyValue::new("http.route", route.to_owned())));
        all.extend(self.status.map(|status| KeyValue::new("http.response.status_code", i64::from(status))));
        all.extend(self.decided_by.clone().map(|by| KeyValue::new("portcullis.policy", by)));
        all.extend(self.error().map(|error| KeyValue::new("error.type", error)));
        all
    }

    fn model_attributes(&self) -> Vec<KeyValue> {
        let mut all = vec![KeyValue::new("gen_ai.provider.name", self.provider.to_owned())];
        let text = |name, value: Option<&str>| value.map(|value| KeyValue::new(name, shortened(value)));
        all.extend(text("gen_ai.operation.name", self.operation));
        all.extend(text("gen_ai.request.model", self.request_model));
        all.extend(text("gen_ai.response.model", self.response_model));
        let count = |name, value: Option<u64>| value.map(|value| KeyValue::new(name, value as i64));
        all.extend(count("gen_ai.usage.input_tokens", self.input_tokens));
        all.extend(count("gen_ai.usage.output_tokens", self.output_tokens));
        all.extend(self.error().map(|error| KeyValue::new("error.type", error)));
        all
    }

    /// Returns why it is no success: our word for it, else the status.
    pub(super) fn error(&self) -> Option<String> {
        let status = || self.status.filter(|status| *status >= CLIENT_ERROR).map(|status| status.to_string());
        self.reason.map(str::to_owned).or_else(status)
    }

    fn status_as(&self, error_from: u16) -> Status {
        match self.status {
            Some(status) if status < error_from => Status::Unset,
            _ => Status::error(self.reason.unwrap_or_default()),
        }
    }
}

/// Returns the begin of a name, whole characters.
pub(super) fn shortened(name: &str) -> String {
    let mut end = name.len().min(MODEL_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or_default().to_owned()
}
