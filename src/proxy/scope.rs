//! What a key's lists of models and tools allow, asked of the request before anything else reads it.
//!
//! A request that names no model, or cannot be read, is refused where the key is limited: a list that can
//! be passed by is none.

use http::HeaderName;
use pingora::proxy::Session;

use super::Gateway;
use super::context::Exchange;
use super::reject::Rejection;
use super::request::aside;
use super::request::text_header;
use crate::access::scope::Scope;
use crate::llm::asked::Asked;
use crate::llm::dialect::Dialects;
use crate::llm::json;
use crate::llm::media::Media;
use crate::llm::websocket::Message;

/// The longest name that a refusal repeats, in characters.
const SHOWN_CHARS_MAX: usize = 128;

/// The header by which endpoints of Azure Machine Learning are told which deployment answers.
const DEPLOYMENT: HeaderName = HeaderName::from_static("azureml-model-deployment");

/// What a key may not ask for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeRefusal {
    /// A model.
    #[error("this API key may not use the model `{0}`")]
    Model(String),
    /// A tool.
    #[error("this API key may not use the tool `{0}`")]
    Tool(String),
    /// The model that would answer is not named.
    #[error("this API key may use certain models only, and the request names none")]
    NoModel,
    /// What was stored before decides.
    #[error(
        "this API key may use certain models or tools only, and the request uses stored ones by reference"
    )]
    Stored,
    /// What is opened is not ours to read.
    #[error("this API key may use certain models or tools only, and what this opens goes past the gateway")]
    Past,
    /// Nobody can tell.
    #[error("this API key may use certain models or tools only, and the request cannot be read")]
    Unreadable,
    /// The connection would be carried uninspected.
    #[error("this API key may use certain models or tools only, and what is said on this socket is not read")]
    Upgrade,
}

impl Gateway {
    /// Refuses a request for what its key may not use.
    pub(super) fn check_scope(
        &self,
        session: &Session,
        exchange: &Exchange,
        body: &[u8],
        media: Option<&Media>,
    ) -> Result<(), Rejection> {
        let Some(scope) = exchange.scope.as_deref().filter(|scope| scope.reads_requests()) else {
            return Ok(());
        };
        let query = session.req_header().uri.query();
        let limits = exchange.rules.limits.json();
        let mut asked = aside(body.len(), || {
            read((&exchange.rules.dialects, &limits), (&exchange.path, query), body, media)
        });
        if let (Some(asked), Some(name)) = (&mut asked, text_header(session, DEPLOYMENT)) {
            asked.own_model(name);
        }
        check(scope, asked.as_ref(), body.is_empty()).map_err(Rejection::Scope)
    }

    /// Refuses a socket that is opened with a model that its key may not use, or with none, or of which nobody can tell
    /// what is asked on it.
    pub(super) fn check_socket_scope(
        &self,
        session: &Session,
        exchange: &Exchange,
        is_read: bool,
    ) -> Result<(), Rejection> {
        let Some(scope) = exchange.scope.as_deref().filter(|scope| scope.reads_requests()) else {
            return Ok(());
        };
        if !is_read {
            return Err(Rejection::Scope(ScopeRefusal::Upgrade));
        }
        let mut asked = Asked::default();
        asked.in_target(&exchange.path, session.req_header().uri.query());
        check(scope, Some(&asked), false).map_err(Rejection::Scope)
    }

    /// Refuses a message of a socket for what its key may not use; the model was named when the socket was opened.
    pub(super) fn check_message_scope(
        &self,
        exchange: &Exchange,
        message: &Message,
    ) -> Result<(), Rejection> {
        let Some(scope) = exchange.scope.as_deref().filter(|scope| scope.reads_requests()) else {
            return Ok(());
        };
        let asked = read_message(message, &exchange.rules.limits.json());
        check(scope, asked.as_ref(), true).map_err(Rejection::Scope)
    }
}

/// Tells whether a key may use certain models or tools only.
pub(super) fn is_limited(exchange: &Exchange) -> bool {
    exchange.scope.as_ref().is_some_and(|scope| scope.reads_requests())
}

/// Returns what a message of a socket asks for; `None` where that cannot be told.
fn read_message(message: &Message, limits: &json::JsonLimits) -> Option<Asked> {
    let mut asked = Asked::default();
    let body = &message.payload;
    if Media::may_be_json(body) {
        let document = json::walk(body, limits);
        match document {
            Ok(document) => asked.in_json(body, &document),
            // What begins so by chance is sound.
            Err(_) if message.is_text || std::str::from_utf8(body).is_ok() => return None,
            Err(_) => {}
        }
        return Some(asked);
    }
    (!message.is_text && !Media::looks_wide(body)).then_some(asked)
}

/// Returns what a request asks for; `None` where that cannot be told.
fn read(
    (dialects, limits): (&Dialects, &json::JsonLimits),
    (path, query): (&str, Option<&str>),
    body: &[u8],
    media: Option<&Media>,
) -> Option<Asked> {
    let mut asked = Asked::default();
    asked.in_target(path, query);
    asked.at_path(dialects, path, body);
    if let Some(Media::Multipart { boundary }) = media {
        return asked.in_form(body, boundary, limits).then_some(asked);
    }
    if media == Some(&Media::Form) && !Media::may_be_json(body) {
        return asked.in_fields(body, limits).then_some(asked);
    }
    if body.is_empty() || !(Media::may_be_json(body) || Media::looks_wide(body)) {
        return Some(asked);
    }
    if let Ok(document) = json::walk(body, limits) {
        asked.in_json(body, &document);
        return Some(asked);
    }
    for line in body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
        asked.in_json(line, &json::walk(line, limits).ok()?);
    }
    Some(asked)
}

fn check(scope: &Scope, asked: Option<&Asked>, is_empty: bool) -> Result<(), ScopeRefusal> {
    let Some(asked) = asked.filter(|asked| !asked.is_disguised) else { return Err(ScopeRefusal::Unreadable) };
    if let Some(name) = asked.models.iter().find(|name| !scope.allows_model(name)) {
        return Err(ScopeRefusal::Model(shown(name)));
    }
    if let Some(name) = asked.tools.iter().find(|name| !scope.allows_tool(name)) {
        return Err(ScopeRefusal::Tool(shown(name)));
    }
    if asked.goes_past {
        return Err(ScopeRefusal::Past);
    }
    let is_stored = asked.is_stored && !scope.tools.is_empty();
    if is_stored || asked.is_model_stored && !scope.models.is_empty() {
        return Err(ScopeRefusal::Stored);
    }
    // A request without a body asks no model anything.
    let is_named = asked.names_own && !asked.is_model_left;
    match !scope.models.is_empty() && !is_named && !is_empty {
        true => Err(ScopeRefusal::NoModel),
        false => Ok(()),
    }
}

fn shown(name: &str) -> String {
    name.chars().filter(|it| !it.is_control()).take(SHOWN_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::llm::json::JsonLimits;

    static DIALECTS: LazyLock<Dialects> =
        LazyLock::new(|| Dialects::embedded().expect("the built-in dialects"));

    fn judged(path: &str, body: &str) -> Result<(), ScopeRefusal> {
        let scope = Scope {
            models: vec!["gpt-4o*".to_owned()],
            tools: vec!["search".to_owned(), "read_*".to_owned()],
            ..Scope::default()
        };
        let asked = read((&DIALECTS, &JsonLimits::STRICT), (path, None), body.as_bytes(), Some(&Media::Json));
        check(&scope, asked.as_ref(), body.is_empty())
    }

    #[test]
    fn a_limited_key_gets_what_is_on_its_lists() {
        let model = |name: &str| Err(ScopeRefusal::Model(name.to_owned()));
        let tool = |name: &str| Err(ScopeRefusal::Tool(name.to_owned()));
        for (path, body, expected) in [
            ("/v1/chat/completions", r#"{"model":"gpt-4o-mini","tools":[{"name":"read_file"}]}"#, Ok(())),
            ("/v1/chat/completions", r#"{"model":"gpt-5"}"#, model("gpt-5")),
            ("/v1/chat/completions", r#"{"model":"gpt-4o","models":["gpt-5"]}"#, model("gpt-5")),
            ("/v1/chat/completions", r#"{"model":"gpt-4o","tools":[{"name":"rm"}]}"#, tool("rm")),
            (
                "/v1/chat/completions",
                r#"{"model":"gpt-4o","tools":[{"type":"web_search"}]}"#,
                tool("web_search"),
            ),
            ("/v1/chat/completions", r#"{"model":"gpt-4o","tool_choice":{"name":"rm"}}"#, tool("rm")),
            ("/v1/chat/completions", r#"{"messages":[]}"#, Err(ScopeRefusal::NoModel)),
            ("/v1/chat/completions", r#"{"model":"gpt-4o","model":"gpt-5"}"#, Err(ScopeRefusal::Unreadable)),
            ("/v1beta/models/gpt-5:generateContent", r#"{"contents":[]}"#, model("gpt-5")),
            ("/v1/batches", "{\"model\":\"gpt-4o\"}\n{\"model\":\"gpt-5\"}\n", model("gpt-5")),
            ("/v1/batches", r#"{"input_file_id":"file-1","model":"gpt-4o"}"#, Err(ScopeRefusal::Stored)),
            ("/v1/responses", r#"{"model":"gpt-4o","prompt":{"id":"pmpt_1"}}"#, Err(ScopeRefusal::Stored)),
            ("/v1/responses", r#"{"model":"gpt-4o","prompt":"Hello","cachedContent":null}"#, Ok(())),
            ("/v1/engines/gpt-5/completions", r#"{"model":"gpt-4o"}"#, model("gpt-5")),
            ("/v1beta/tunedModels/gpt-5:generateContent", r#"{"model":"gpt-4o"}"#, model("gpt-5")),
            (
                "/v1/projects/p/locations/l/endpoints/openapi/chat/completions",
                r#"{"model":"gpt-4o"}"#,
                Ok(()),
            ),
            ("/v1/projects/p/locations/l/endpoints/7:predict", r#"{"model":"gpt-4o"}"#, model("7")),
            (
                "/v1/responses",
                r#"{"model":"gpt-4o","tools":[{"type":"mcp","server_label":"search","server_url":"https://evil"}]}"#,
                tool("mcp:https://evil"),
            ),
            ("/v1/responses", r#"{"model":"gpt-4o","agent":{"name":"a"}}"#, Err(ScopeRefusal::Stored)),
            (
                "/v1beta/models/gpt-4o:batchGenerateContent",
                r#"{"batch":{"inputConfig":{"fileName":"files/f"}}}"#,
                Err(ScopeRefusal::Stored),
            ),
            (
                "/v1beta/models/gpt-4o:batchGenerateContent",
                r#"{"batch":{"inputConfig":{"requests":{"requests":[{"request":{"tools":[{"codeExecution":{}}]}}]}}}}"#,
                tool("codeExecution"),
            ),
            ("/v1/x", r#"{"Model":"gpt-5","model":"gpt-4o"}"#, Err(ScopeRefusal::Unreadable)),
            ("/v1/x", r#"{"Model":"gpt-5","modelId":"gpt-4o"}"#, Err(ScopeRefusal::Unreadable)),
            ("/v1/x", r#"{"model":"gpt-4o","tool\u017f":[{"name":"rm"}]}"#, Err(ScopeRefusal::Unreadable)),
            ("/v1/x", r#"{"model":"gpt-4o","messages":[{"Model":"gpt-5"}]}"#, Ok(())),
            (
                "/v1/responses",
                r#"{"model":"gpt-4o","tools":[{"type":"image_generation","model":"gpt-image-1"}]}"#,
                model("gpt-image-1"),
            ),
            (
                "/v1/messages",
                r#"{"model":"gpt-4o","tools":[{"type":"advisor_20260301","name":"search","model":"claude"}]}"#,
                model("claude"),
            ),
            (
                "/v1/realtime/sessions",
                r#"{"model":"gpt-4o","input_audio_transcription":{"model":"whisper-1"}}"#,
                model("whisper-1"),
            ),
            (
                "/v1/realtime/calls/c/accept",
                r#"{"type":"realtime","model":"gpt-4o","tools":[{"type":"function","name":"search"}]}"#,
                Ok(()),
            ),
            ("/v1/x", r#"{"session":{"model":"gpt-4o-mini"}}"#, Ok(())),
            ("/v1/x", r#"{"model":"gpt-4o","session":{"model":"gpt-realtime"}}"#, model("gpt-realtime")),
            ("/v1/x", r#"{"model":"gpt-4o","session":{"type":"realtime"}}"#, Err(ScopeRefusal::NoModel)),
            (
                "/v1/x",
                r#"{"session":{"model":"gpt-4o","tools":[{"type":"function","name":"rm"}]}}"#,
                tool("rm"),
            ),
            (
                "/v1/responses",
                r#"{"tools":[{"type":"function","name":"search","model":"gpt-4o"}]}"#,
                Err(ScopeRefusal::NoModel),
            ),
            (
                "/v1/evals/e/runs",
                r#"{"data_source":{"model":"gpt-4o","sampling_params":{"tools":[{"name":"rm"}]}}}"#,
                tool("rm"),
            ),
            (
                "/v1/messages",
                r#"{"model":"gpt-4o","container":{"skills":[{"type":"custom","skill_id":"x"}]}}"#,
                tool("skill:x"),
            ),
            (
                "/v1/evals/e/runs",
                r#"{"data_source":{"type":"responses","model":"gpt-4o"}}"#,
                Err(ScopeRefusal::Stored),
            ),
            ("/v1/evals/e/runs/", r#"{"data_source":{"type":"jsonl"}}"#, Err(ScopeRefusal::Stored)),
            ("/v1/evals/e/runs", "", Ok(())),
            ("/v1/evals/e/runs/r", "", Ok(())),
            ("/v1/evals", r#"{"testing_criteria":[{"type":"score_model","model":"gpt-5"}]}"#, model("gpt-5")),
            ("/api/create", r#"{"model":"gpt-4o","from":"llama3"}"#, model("llama3")),
            ("/api/copy", r#"{"source":"gpt-4o","destination":"gpt-4o-x"}"#, Ok(())),
            ("/api/copy", r#"{"source":"llama3","destination":"gpt-4o"}"#, model("llama3")),
            ("/api/chat", r#"{"model":"gpt-4o","from":"llama3"}"#, Ok(())),
            ("/v1/models", "", Ok(())),
            ("/v1/models/gpt-5", "", model("gpt-5")),
            ("/v1/x", "\u{feff}{\"model\":\"gpt-5\"}", Err(ScopeRefusal::Unreadable)),
        ] {
            assert_eq!(judged(path, body), expected, "{path} {body}");
        }
    }

    /// What is said on such a call, or with such a secret, nobody here reads: a session is told anew what its tools are.
    #[test]
    fn a_limited_key_opens_nothing_that_goes_past_the_gateway() {
        let of_tools = Scope { tools: vec!["*".to_owned()], ..Scope::default() };
        let of_models = Scope { models: vec!["*".to_owned()], ..Scope::default() };
        let session = r#"{"session":{"type":"realtime","model":"gpt-realtime"}}"#;
        let offer = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\n";
        for (path, body, is_past) in [
            ("/v1/realtime/calls", offer, true),
            ("/openai/v1/realtime/calls/", offer, true),
            ("/v1/realtime/client_secrets", session, true),
            ("/v1/realtime/client_secrets", "", true),
            ("/v1/realtime/client_secrets;v=1", session, true),
            ("/openai/v1/Realtime/Client_Secrets/", session, true),
            ("/v1/realtime/translations/client_secrets", session, true),
            ("/v1/organization/projects/p/service_accounts", r#"{"name":"x"}"#, true),
            ("/v1/realtime/sessions", r#"{"model":"gpt-realtime"}"#, true),
            ("/v1/realtime/transcription_sessions", "{}", true),
            ("/openai/realtimeapi/sessions", r#"{"model":"gpt-realtime"}"#, true),
            ("/v1alpha/auth_tokens", r#"{"uses":1}"#, true),
            ("/v1/chatkit/sessions", r#"{"workflow":{"id":"wf_1"}}"#, true),
            ("/v1/realtime", offer, true),
            ("/v1/realtime", "", false),
            ("/v1/realtime/calls/c/accept", r#"{"model":"gpt-realtime"}"#, false),
            ("/v1/realtime/calls/c/hangup", "", false),
        ] {
            for scope in [&of_tools, &of_models] {
                let query = Some("model=gpt-realtime");
                let asked = read((&DIALECTS, &JsonLimits::STRICT), (path, query), body.as_bytes(), None);
                let judged = check(scope, asked.as_ref(), body.is_empty());
                let expected = if is_past { Err(ScopeRefusal::Past) } else { Ok(()) };
                assert_eq!(judged, expected, "{path} {body}");
            }
        }
    }

    #[test]
    fn a_limited_key_gets_no_more_by_a_form() {
        let scope = Scope { tools: vec!["ok_*".to_owned()], ..Scope::default() };
        let judged = |media: &Media, body: &str| {
            let path = "/v1/x";
            let asked = read((&DIALECTS, &JsonLimits::STRICT), (path, None), body.as_bytes(), Some(media));
            check(&scope, asked.as_ref(), body.is_empty())
        };
        let parts = Media::Multipart { boundary: "b".to_owned() };
        let form = |name: &str, content: &str| {
            format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{content}\r\n--b--\r\n")
        };
        let session =
            |tool: &str| format!(r#"{{"model":"m","tools":[{{"type":"function","name":"{tool}"}}]}}"#);
        let rm = Err(ScopeRefusal::Tool("rm".to_owned()));
        assert_eq!(judged(&parts, &form("session", &session("ok_a"))), Ok(()));
        assert_eq!(judged(&parts, &form("session", &session("rm"))), rm);
        assert_eq!(judged(&parts, &form("session", "{\"tools\":[")), Err(ScopeRefusal::Unreadable));
        assert_eq!(judged(&parts, "--b\r\nno form"), Err(ScopeRefusal::Unreadable));
        assert_eq!(judged(&parts, &form("sdp", "v=0")), Ok(()));
        assert_eq!(judged(&Media::Form, "tools=%5B%7B%22name%22%3A%22rm%22%7D%5D"), rm);
        assert_eq!(judged(&Media::Form, "prompt=rm"), Ok(()));
    }
}
