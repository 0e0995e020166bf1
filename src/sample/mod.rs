//! A small provider that answers without a model, so that a gateway can be tried and tested with
//! no account, no key and no network.
//!
//! It speaks OpenAI (chat completions, responses, completions, embeddings, moderations, models),
//! Anthropic (messages), Gemini (`generateContent`, `streamGenerateContent` as SSE and as a JSON
//! array) and Ollama (chat, generate), streamed and not. What it says depends on the last user
//! message alone: see `answer`. It never checks credentials, keeps nothing between requests and
//! does not promise sensible figures beyond what clients need to parse an answer.

mod answer;
mod anthropic;
mod gemini;
mod ollama;
mod openai;
mod responses;
mod wire;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::http::Uri;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::get;
use axum::routing::post;
use hyper_util::rt::TokioExecutor;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Largest request body that is read, in bytes.
const BODY_BYTES_MAX: usize = 32 << 20;
/// Most connections served at once; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 4096;
/// Time within which a request's head must have arrived.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept (most likely no file descriptors are left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Returns the sample provider as a service of all its routes.
pub fn router() -> Router {
    Router::new()
        .route("/v1/models", get(openai::models))
        .route("/v1/models/{model}", get(openai::model).post(gemini::generate))
        .route("/v1/chat/completions", post(openai::chat))
        .route("/v1/completions", post(openai::completions))
        .route("/v1/embeddings", post(openai::embeddings))
        .route("/v1/moderations", post(openai::moderations))
        .route("/v1/responses", post(responses::responses))
        .route("/v1/messages", post(anthropic::messages))
        .route("/v1/messages/count_tokens", post(anthropic::count_tokens))
        .route("/v1beta/models", get(gemini::models))
        .route("/v1beta/models/{model}", post(gemini::generate))
        .route("/api/chat", post(ollama::chat))
        .route("/api/generate", post(ollama::generate))
        .route("/api/tags", get(ollama::tags))
        .route("/api/version", get(ollama::version))
        .fallback(no_route)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
}

/// Serves on a listener that was bound before there was a runtime; see [`serve`].
pub async fn serve_std(listener: std::net::TcpListener, shutdown: impl Future<Output = ()>) {
    let listener = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
    match listener {
        Ok(listener) => serve(listener, shutdown).await,
        Err(error) => tracing::error!(%error, "the sample provider cannot listen"),
    }
}

/// Serves the sample provider over HTTP/1.1 and HTTP/2 (by prior knowledge) until `shutdown` is
/// ready; answers still under way are then cut.
pub async fn serve(listener: TcpListener, shutdown: impl Future<Output = ()>) {
    let service = TowerToHyperService::new(router());
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return,
            accepted = accept(&listener, &places) => match accepted {
                Ok((stream, place)) => {
                    let service = service.clone();
                    connections.spawn(async move {
                        serve_connection(stream, service).await;
                        drop(place);
                    });
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Waits for a free place, then for a client to take it.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.expect("the semaphore is never closed");
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

async fn serve_connection(stream: TcpStream, service: TowerToHyperService<Router>) {
    // Events are small: without this, the kernel may hold one back until the last is acknowledged.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder.http2().timer(TokioTimer::new());
    // A client that goes away in mid-answer is ordinary and concerns nobody else.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

async fn no_route(uri: Uri) -> Response {
    let message = format!("the sample provider has no route {}", uri.path());
    let body = json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": "unknown_url"}});
    wire::whole(StatusCode::NOT_FOUND, &body).into_response()
}

#[cfg(test)]
mod tests;
