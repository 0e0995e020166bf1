//! HTTP to the collector: TLS by the system's certificates and the operator's, on the runtime of the exporting task.

use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use hyper_rustls::HttpsConnector;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry_http::Bytes;
use opentelemetry_http::HttpClient;
use opentelemetry_http::HttpError;
use opentelemetry_http::Request;
use opentelemetry_http::Response;
use opentelemetry_http::hyper::HyperClient;
use tokio::runtime::Handle;

use crate::tls::client::TlsClient;

/// Why a collector cannot be asked yet.
#[derive(Debug, thiserror::Error)]
#[error("nothing is exported before the process serves")]
struct NotYet;

/// A client that any thread may use: the metrics are sent from one of their own.
#[derive(Clone, Debug)]
pub(super) struct CollectorClient {
    inner: HyperClient<HttpsConnector<HttpConnector>>,
    runtime: Arc<OnceLock<Handle>>,
}

impl CollectorClient {
    pub(super) fn new(tls: &TlsClient, timeout: Duration) -> Self {
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls.config()).https_or_http().enable_http1().build();
        Self { inner: HyperClient::new(connector, timeout, None), runtime: Arc::default() }
    }

    /// Sends on the runtime of the caller from now on.
    pub(super) fn settle(&self) {
        self.runtime.get_or_init(Handle::current);
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let runtime = self.runtime.get().ok_or(NotYet)?;
        let inner = self.inner.clone();
        runtime.spawn(async move { inner.send_bytes(request).await }).await?
    }
}
