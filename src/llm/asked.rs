//! What a request asks for by name: models, and the tools that it offers, chooses or calls.
//!
//! Names are looked for wherever the known APIs have them, whichever API the request is taken for: who
//! decides about names must not be talked out of looking. A tool that has no name of its own goes by
//! its type (`web_search`), one that has neither by [`UNNAMED`]. Where its name is the caller's choice and says nothing
//! of what works there, it goes by more than its name: a provider's own tool by its type too, and a server of MCP by
//! `mcp:` and its address.

use super::json::Document;
use super::json::NodeId;
use super::json::fold;
use super::multipart;

/// What a tool is called that has no name at all.
pub const UNNAMED: &str = "(unnamed)";

/// Where a path names a model: `…/models/NAME:generateContent`, `…/model/NAME/invoke`, `…/deployments/NAME/…`.
const PATH_MARKS: [&str; 6] = ["models", "model", "deployments", "engines", "tunedModels", "endpoints"];
/// Those after whose name a colon and a verb may follow.
const VERB_MARKS: [&str; 3] = ["models", "tunedModels", "endpoints"];
/// What stands in the place of an endpoint's name where the body names the model (Vertex AI).
const OPEN_ENDPOINT: &str = "openapi";
/// Parameters of a query that name one.
const QUERY_NAMES: [&str; 3] = ["model", "modelId", "deployment"];
/// Members that name one model, or several in order of preference.
const MODEL_KEYS: [&str; 5] = ["model", "modelId", "model_id", "models", "fallbacks"];
/// Members of a message on a socket that say what a session or an answer is to be.
const MESSAGE_PARTS: [&str; 2] = ["session", "response"];
/// Members that hold requests of their own.
const NESTED: [&str; 7] = ["requests", "body", "params", "batch", "inputConfig", "input_config", "request"];
/// Members that list tools.
const TOOL_LISTS: [&[&str]; 6] = [
    &["tools"],
    &["functions"],
    &["toolConfig", "tools"],
    &["tool_choice", "tools"],
    &["tool_choice", "allowed_tools", "tools"],
    &["mcp_servers"],
];
/// Members that switch tools on by their ids.
const ID_LISTS: [&str; 2] = ["plugins", "connectors"];
/// Members that have the provider search the web.
const WEB_SEARCH: [&str; 2] = ["web_search_options", "search_parameters"];
/// Where a tool of MCP says which server is meant.
const SERVER_KEYS: [&str; 3] = ["server_url", "url", "connector_id"];
/// Types of tools whose name says all: their caller runs them.
const OWN_TYPES: [&str; 2] = ["function", "custom"];
/// What begins the type of the one tool of a provider that goes by another name than its type.
const EDITOR: &str = "text_editor_";
/// Members that choose one.
const CHOICES: [&[&str]; 3] = [&["tool_choice"], &["function_call"], &["toolConfig", "toolChoice", "tool"]];
/// Members that list the names of those that may be called.
const NAME_LISTS: [&[&str]; 2] = [
    &["toolConfig", "functionCallingConfig", "allowedFunctionNames"],
    &["tool_config", "function_calling_config", "allowed_function_names"],
];
/// Lists of function declarations within one tool.
const DECLARATIONS: [&str; 2] = ["functionDeclarations", "function_declarations"];
/// Members that stand for what was stored before: with a model of its own, or with tools only.
const STORED: [(&[&str], bool); 12] = [
    (&["inputConfig", "fileName"], true),
    (&["input_config", "file_name"], true),
    (&["input_file_id"], true),
    (&["agent_id"], true),
    (&["agent", "name"], true),
    (&["agent_reference", "name"], true),
    (&["input_files"], false),
    (&["assistant_id"], false),
    (&["prompt", "id"], false),
    (&["cachedContent"], false),
    (&["cached_content"], false),
    (&["generateContentRequest", "cachedContent"], false),
];
/// Members that are read above, by their first names.
const READ: [&str; 35] = [
    "batch",
    "inputConfig",
    "input_config",
    "request",
    "plugins",
    "connectors",
    "search_parameters",
    "agent",
    "agent_reference",
    "model",
    "modelId",
    "model_id",
    "models",
    "fallbacks",
    "requests",
    "body",
    "params",
    "tools",
    "functions",
    "toolConfig",
    "tool_config",
    "tool_choice",
    "mcp_servers",
    "function_call",
    "input",
    "web_search_options",
    "method",
    "input_file_id",
    "agent_id",
    "input_files",
    "assistant_id",
    "prompt",
    "cachedContent",
    "cached_content",
    "generateContentRequest",
];
/// Choices that name no tool.
const NO_CHOICE: [&str; 5] = ["auto", "any", "none", "required", "function"];

/// What a request asks for; names may be there several times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The models.
    pub models: Vec<String>,
    /// The tools.
    pub tools: Vec<String>,
    /// Whether it uses what was stored before, of which neither is known.
    pub is_stored: bool,
    /// Whether what was stored decides on the model as well.
    pub is_model_stored: bool,
    /// Whether a member reads as one that names these, and is written otherwise: some providers take it for that.
    pub is_disguised: bool,
}

impl Asked {
    /// Adds what a path and a query (as it was written) name.
    pub fn in_target(&mut self, path: &str, query: Option<&str>) {
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            if PATH_MARKS.contains(&part)
                && let Some(name) = parts.peek()
            {
                let has_verb = VERB_MARKS.contains(&part);
                let name = name.split_once(':').filter(|_| has_verb).map_or(*name, |(name, _)| name);
                if name != OPEN_ENDPOINT {
                    self.model(name);
                }
            }
        }
        for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if QUERY_NAMES.contains(&&*key) {
                self.model(&value);
            }
        }
    }

    /// Adds what a JSON body names.
    pub fn in_json(&mut self, body: &[u8], document: &Document) {
        let mut search = Search { body, document, asked: self };
        match document.is_array(NodeId::ROOT) {
            true => document.children(NodeId::ROOT).for_each(|one| search.request(one)),
            false => search.request(NodeId::ROOT),
        }
    }

    /// Adds what a message of a socket names, for the session or for one answer.
    pub fn in_message(&mut self, message: &[u8], document: &Document) {
        self.in_json(message, document);
        let mut search = Search { body: message, document, asked: self };
        for member in document.children(NodeId::ROOT) {
            let Some(key) = document.key_of(message, member) else { continue };
            let folded = fold(key.as_bytes());
            match MESSAGE_PARTS.iter().find(|part| fold(part.as_bytes()) == folded) {
                Some(part) if *part == &*key && document.is_object(member) => search.request(member),
                Some(part) => search.asked.is_disguised |= *part != &*key,
                None => {}
            }
        }
    }

    /// Adds the model that a form names.
    pub fn in_form(&mut self, body: &[u8], boundary: &str) {
        let parts = multipart::parts(body, boundary, multipart::PARTS_MAX).unwrap_or_default();
        let is_model = |name: &str| name.trim().eq_ignore_ascii_case("model");
        for part in parts.iter().filter(|part| part.name.as_deref().is_some_and(is_model)) {
            if let Some(name) = body.get(part.content.clone()) {
                self.model(&String::from_utf8_lossy(name));
            }
        }
    }

    fn model(&mut self, name: &str) {
        // Gemini writes the collection before the name.
        let name = name.strip_prefix("models/").unwrap_or(name);
        if !name.is_empty() {
            self.models.push(name.to_owned());
        }
    }
}

struct Search<'a, 's> {
    body: &'a [u8],
    document: &'a Document,
    asked: &'s mut Asked,
}

impl Search<'_, '_> {
    /// Looks at one request, and at those within it.
    fn request(&mut self, request: NodeId) {
        self.models(request);
        self.stored(request);
        self.asked.is_disguised |= self.has_disguised(request);
        for path in TOOL_LISTS {
            self.list(self.find(request, path));
        }
        for item in self.find(request, &["input"]).into_iter().flat_map(|input| self.document.children(input))
        {
            self.list(self.find(item, &["tools"]));
        }
        for path in CHOICES {
            self.choice(self.find(request, path));
        }
        for path in NAME_LISTS {
            let names = self.find(request, path);
            for name in names.into_iter().flat_map(|names| self.document.children(names)) {
                let name = self.text(name);
                self.asked.tools.extend(name);
            }
        }
        for key in ID_LISTS {
            let listed = self.find(request, &[key]);
            for one in listed.into_iter().flat_map(|listed| self.document.children(listed)) {
                let id = self.find(one, &["id"]).and_then(|id| self.text(id));
                self.asked.tools.push(id.unwrap_or_else(|| UNNAMED.to_owned()));
            }
        }
        let is_on =
            |key: &&str| self.find(request, &[key]).is_some_and(|options| self.document.is_set(options));
        if WEB_SEARCH.iter().any(is_on) {
            self.asked.tools.push("web_search".to_owned());
        }
        if self.find(request, &["method"]).and_then(|method| self.text(method)).as_deref()
            == Some("tools/call")
        {
            let name = self.find(request, &["params", "name"]).and_then(|name| self.text(name));
            self.asked.tools.push(name.unwrap_or_else(|| UNNAMED.to_owned()));
        }
        self.nested(request);
    }

    fn models(&mut self, request: NodeId) {
        for key in MODEL_KEYS {
            let Some(node) = self.find(request, &[key]) else { continue };
            let several =
                self.document.is_array(node).then(|| self.document.children(node).collect::<Vec<_>>());
            for one in several.unwrap_or_else(|| vec![node]) {
                let name = self.text(one).or_else(|| self.text(self.find(one, &["model"])?));
                name.into_iter().for_each(|name| self.asked.model(&name));
            }
        }
    }

    fn stored(&mut self, request: NodeId) {
        for (path, has_model) in STORED {
            if self.find(request, path).is_some_and(|stored| self.document.is_set(stored)) {
                self.asked.is_stored = true;
                self.asked.is_model_stored |= has_model;
            }
        }
    }

    fn has_disguised(&self, request: NodeId) -> bool {
        let is_disguise = |key: &str| {
            let folded = fold(key.as_bytes());
            !READ.contains(&key) && READ.iter().any(|known| fold(known.as_bytes()) == folded)
        };
        let mut keys =
            self.document.children(request).filter_map(|member| self.document.key_of(self.body, member));
        keys.any(|key| is_disguise(&key))
    }

    fn nested(&mut self, request: NodeId) {
        for key in NESTED {
            let Some(inner) = self.find(request, &[key]) else { continue };
            match self.document.is_array(inner) {
                true => self.document.children(inner).for_each(|one| self.request(one)),
                false if self.document.is_object(inner) => self.request(inner),
                false => {}
            }
        }
    }

    fn list(&mut self, list: Option<NodeId>) {
        for tool in list.into_iter().flat_map(|list| self.document.children(list)) {
            let declared = DECLARATIONS.iter().find_map(|key| self.find(tool, &[key]));
            match declared {
                Some(declared) => {
                    self.list(Some(declared));
                    // Beside declarations a tool of Gemini's may hold others.
                    let others = self
                        .document
                        .children(tool)
                        .filter_map(|member| self.document.key_of(self.body, member));
                    let others = others
                        .filter(|key| !DECLARATIONS.contains(&key.as_ref()))
                        .map(|key| key.into_owned());
                    self.asked.tools.extend(others.collect::<Vec<_>>());
                }
                None => {
                    let name = self.name(tool);
                    let more = self.known_by(tool, &name);
                    self.asked.tools.push(name);
                    self.asked.tools.extend(more);
                }
            }
        }
    }

    /// Returns what one tool is called.
    fn name(&self, tool: NodeId) -> String {
        let inside = ["function", "toolSpec", "custom"].into_iter().find_map(|key| self.find(tool, &[key]));
        let named = |key: &str| self.find(inside.unwrap_or(tool), &[key]).and_then(|name| self.text(name));
        let typed =
            || self.find(tool, &["type"]).and_then(|kind| self.text(kind)).filter(|kind| kind != "function");
        let only = || {
            // `{"googleSearch": {}}`: the one member is the name.
            let mut members = self.document.children(tool);
            let first = members.next().and_then(|member| self.document.key_of(self.body, member));
            first.filter(|_| members.next().is_none()).map(|key| key.into_owned())
        };
        let name = named("name").or_else(|| named("server_label")).or_else(typed);
        name.or_else(only).unwrap_or_else(|| UNNAMED.to_owned())
    }

    /// Returns what else one tool goes by than its name.
    fn known_by(&self, tool: NodeId, name: &str) -> Option<String> {
        let text = |key: &&str| self.find(tool, &[key]).and_then(|value| self.text(value));
        let kind = text(&"type")?;
        if matches!(kind.as_str(), "mcp" | "url") {
            return SERVER_KEYS.iter().find_map(text).map(|server| format!("mcp:{server}"));
        }
        let says_all =
            OWN_TYPES.contains(&kind.as_str()) || kind.starts_with(name) || kind.starts_with(EDITOR);
        (!says_all).then_some(kind)
    }

    fn choice(&mut self, choice: Option<NodeId>) {
        let Some(choice) = choice.filter(|choice| self.document.is_set(*choice)) else { return };
        let name = match self.text(choice) {
            Some(word) => word,
            None if self.document.is_object(choice) => self.name(choice),
            None => return,
        };
        let is_list =
            self.find(choice, &["tools"]).or_else(|| self.find(choice, &["allowed_tools"])).is_some();
        if !is_list && !NO_CHOICE.contains(&name.as_str()) {
            self.asked.tools.push(name);
        }
    }

    fn find(&self, from: NodeId, path: &[&str]) -> Option<NodeId> {
        path.iter().try_fold(from, |node, step| self.document.child(self.body, node, step))
    }

    fn text(&self, node: NodeId) -> Option<String> {
        self.document.str_of(self.body, node).map(|text| text.into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::json::JsonLimits;
    use crate::llm::json::walk;

    fn asked(body: &str) -> Asked {
        let document = walk(body.as_bytes(), &JsonLimits::STRICT).unwrap();
        let mut asked = Asked::default();
        asked.in_json(body.as_bytes(), &document);
        asked
    }

    #[test]
    fn models_are_found_wherever_they_are_named() {
        for (body, models) in [
            (r#"{"model":"gpt-4o"}"#, &["gpt-4o"][..]),
            (r#"{"mod\u0065l":"gpt-4o"}"#, &["gpt-4o"]),
            (r#"{"model":"a","models":["b","c"],"fallbacks":[{"model":"d"}]}"#, &["a", "b", "c", "d"]),
            (r#"{"requests":[{"model":"models/g"},{"custom_id":"1","params":{"model":"h"}}]}"#, &["g", "h"]),
            (r#"[{"model":"a"},{"model":"b"}]"#, &["a", "b"]),
            (
                r#"{"batch":{"model":"models/g","inputConfig":{"requests":{"requests":[{"request":{"model":"h"}}]}}}}"#,
                &["g", "h"],
            ),
            (r#"{"messages":[{"model":"x"}],"model":3}"#, &[]),
        ] {
            assert_eq!(asked(body).models, models, "{body}");
        }
        for (path, query, models) in [
            ("/v1beta/models/gemini-2.0:generateContent", None, &["gemini-2.0"][..]),
            ("/v1/projects/p/locations/l/publishers/google/models/g:predict", None, &["g"]),
            ("/model/anthropic.claude-v2:1/converse", None, &["anthropic.claude-v2:1"]),
            ("/openai/deployments/d/chat/completions", Some("api-version=1"), &["d"]),
            ("/v1/realtime", Some("a=b&model=r"), &["r"]),
            ("/v1/realtime", Some("mod%65l=gpt%2D5&model=r"), &["gpt-5", "r"]),
            ("/v1/chat/completions", None, &[]),
            ("/v1/models", None, &[]),
        ] {
            let mut asked = Asked::default();
            asked.in_target(path, query);
            assert_eq!(asked.models, models, "{path}");
        }
        for field in ["name=\"model\"", "Name=\"model\"", "name = model", "NAME =\"Model\""] {
            let form = format!(
                "--b\r\nContent-Disposition: form-data; {field}\r\n\r\nwhisper-1\r\n--b\r\n\
                 Content-Disposition: form-data; name=\"file\"; filename=\"model\"\r\n\r\nxx\r\n--b--\r\n"
            );
            let mut asked = Asked::default();
            asked.in_form(form.as_bytes(), "b");
            assert_eq!(asked.models, ["whisper-1"], "{field}");
        }
    }

    #[test]
    fn tools_are_found_wherever_they_are_offered_chosen_or_called() {
        for (body, tools) in [
            (
                r#"{"tools":[{"type":"function","function":{"name":"a"}},{"type":"web_search"}]}"#,
                &["a", "web_search"][..],
            ),
            (
                r#"{"tools":[{"name":"a","input_schema":{}},{"type":"bash_20250124","name":"bash"}]}"#,
                &["a", "bash"],
            ),
            (
                r#"{"tools":[{"functionDeclarations":[{"name":"a"}],"codeExecution":{}},{"googleSearch":{}}]}"#,
                &["a", "codeExecution", "googleSearch"],
            ),
            (
                r#"{"toolConfig":{"tools":[{"toolSpec":{"name":"a"}}],"toolChoice":{"tool":{"name":"b"}}}}"#,
                &["a", "b"],
            ),
            (r#"{"functions":[{"name":"a"}],"function_call":{"name":"b"}}"#, &["a", "b"]),
            (
                r#"{"tools":[{"type":"mcp","server_label":"s"}],"mcp_servers":[{"type":"url","name":"m"}]}"#,
                &["s", "m"],
            ),
            (
                r#"{"tools":[{"type":"mcp","server_label":"s","server_url":"https://x.example/sse"}]}"#,
                &["s", "mcp:https://x.example/sse"],
            ),
            (
                r#"{"tools":[{"type":"mcp","server_label":"s","connector_id":"connector_dropbox"}]}"#,
                &["s", "mcp:connector_dropbox"],
            ),
            (
                r#"{"mcp_servers":[{"type":"url","name":"m","url":"https://x.example"}]}"#,
                &["m", "mcp:https://x.example"],
            ),
            (r#"{"tools":[{"type":"web_search_preview","name":"a"}]}"#, &["a", "web_search_preview"]),
            (r#"{"tools":[{"type":"web_search_20250305","name":"web_search"}]}"#, &["web_search"]),
            (
                r#"{"tools":[{"type":"text_editor_20250728","name":"str_replace_based_edit_tool"}]}"#,
                &["str_replace_based_edit_tool"],
            ),
            (r#"{"tools":[{"type":"custom","name":"a"}]}"#, &["a"]),
            (r#"{"plugins":[{"id":"web"},{}],"connectors":[{"id":"c"}]}"#, &["web", UNNAMED, "c"]),
            (r#"{"search_parameters":{"mode":"on"}}"#, &["web_search"]),
            (r#"{"input":[{"type":"mcp_list_tools","tools":[{"name":"a"}]}]}"#, &["a"]),
            (r#"{"tool_choice":"auto"}"#, &[]),
            (r#"{"tool_choice":null,"function_call":"none"}"#, &[]),
            (r#"{"tool_choice":{"type":"function","function":{"name":"a"}}}"#, &["a"]),
            (r#"{"tool_choice":{"type":"tool","name":"a"}}"#, &["a"]),
            (r#"{"tool_choice":{"type":"any"}}"#, &[]),
            (r#"{"tool_choice":{"type":"allowed_tools","tools":[{"type":"function","name":"a"}]}}"#, &["a"]),
            (r#"{"toolConfig":{"functionCallingConfig":{"allowedFunctionNames":["a"]}}}"#, &["a"]),
            (r#"{"web_search_options":{}}"#, &["web_search"]),
            (r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"}}"#, &["a"]),
            (r#"{"method":"tools/call","params":{}}"#, &[UNNAMED]),
            (r#"{"tools":[{},{"function":{}}]}"#, &[UNNAMED, "function"]),
            (r#"{"requests":[{"tools":[{"name":"a"}]}]}"#, &["a"]),
            (r#"{"messages":[{"content":"tools"}]}"#, &[]),
        ] {
            assert_eq!(asked(body).tools, tools, "{body}");
        }
        let many: String = (0..2000).map(|n| format!(r#"{{"name":"t{n}"}},"#)).collect();
        let found = asked(&format!(r#"{{"tools":[{}]}}"#, many.trim_end_matches(',')));
        assert_eq!(found.tools.len(), 2000, "no tool hides behind others");
    }
}
