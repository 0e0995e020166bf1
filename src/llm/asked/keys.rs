//! Which members of a request name models and tools, and which hold what others wrote.

use crate::llm::json::fold;

/// What a member says about tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// Which there are.
    Tools,
    /// Which skills there are.
    Skills,
    /// Which one is to be used.
    Choice,
    /// The names of those that may be called.
    Names,
    /// The ids of those that are switched on.
    Ids,
    /// That the provider is to search the web.
    WebSearch,
}

/// Members that name the model of the request they are in, or several in order of preference.
pub(super) const OWN_MODEL: [&str; 5] = ["model", "modelId", "model_id", "models", "fallbacks"];
/// What the names of members end with that name a model, folded and without what divides words.
const MODEL_ENDINGS: [&str; 6] = ["model", "models", "modelid", "modelname", "modelarn", "modelidentifier"];
/// Other members that name models, written so too.
const MODEL_NAMES: [&str; 3] = ["fallbacks", "deploymentname", "deploymentid"];
/// Members that say something about tools, written so too.
const TOOL_NAMES: [(&str, Says); 11] = [
    ("tools", Says::Tools),
    ("functions", Says::Tools),
    ("mcpservers", Says::Tools),
    ("skills", Says::Skills),
    ("toolchoice", Says::Choice),
    ("functioncall", Says::Choice),
    ("allowedfunctionnames", Says::Names),
    ("plugins", Says::Ids),
    ("connectors", Says::Ids),
    ("websearchoptions", Says::WebSearch),
    ("searchparameters", Says::WebSearch),
];
/// Members that hold requests of their own, or what reads as one.
pub(super) const NESTED: [&str; 10] = [
    "requests",
    "body",
    "params",
    "batch",
    "inputConfig",
    "input_config",
    "request",
    "response",
    "generateContentRequest",
    "data_source",
];
/// The member that says what a session is to be.
pub(super) const SESSION: &str = "session";
/// Members that stand for what was stored before: with a model of its own, or with tools only.
pub(super) const STORED: [(&[&str], bool); 11] = [
    (&["inputConfig", "fileName"], true),
    (&["input_config", "file_name"], true),
    (&["input_file_id"], true),
    (&["agent_id"], true),
    (&["agent"], true),
    (&["agent_reference", "name"], true),
    (&["input_files"], false),
    (&["assistant_id"], false),
    (&["prompt", "id"], false),
    (&["cachedContent"], false),
    (&["cached_content"], false),
];
/// Other members that are read, by their first names.
const READ: [&str; 30] = [
    "session",
    "plugins",
    "connectors",
    "search_parameters",
    "skills",
    "container",
    "agent",
    "agent_reference",
    "model",
    "modelId",
    "model_id",
    "models",
    "fallbacks",
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
];
/// Members that hold what was said, what a tool is called with, what a schema describes or what the caller notes: no
/// provider takes it for what it is to do, and any word may be a name there.
const CONTENT: [&str; 38] = [
    // What was said.
    "messages",
    "message",
    "contents",
    "content",
    "parts",
    "history",
    "chat_history",
    "system",
    "system_instruction",
    "systemInstruction",
    "instructions",
    "documents",
    "template",
    "variables",
    "promptVariables",
    // What a tool, or one who was asked, is told or answers.
    "arguments",
    "args",
    "input_examples",
    "headers",
    "result",
    "functionResponse",
    "function_response",
    "functionResponses",
    "function_responses",
    // Schemas.
    "properties",
    "patternProperties",
    "parameter_definitions",
    "definitions",
    "$defs",
    "dependentSchemas",
    "default",
    "const",
    "enum",
    "examples",
    // Notes.
    "metadata",
    "requestMetadata",
    "client_metadata",
    "attributes",
];

/// Tells whether a member holds content. Only as it is written here: what is written otherwise is read.
pub(super) fn is_content(key: &str) -> bool {
    CONTENT.contains(&key)
}

/// Tells whether a member names models, however it is written.
pub(super) fn names_model(key: &str) -> bool {
    let plain = plain(key);
    MODEL_ENDINGS.iter().any(|ending| plain.ends_with(ending.as_bytes()))
        || MODEL_NAMES.iter().any(|name| *plain == *name.as_bytes())
}

/// Returns what a member says about tools, however it is written.
pub(super) fn says(key: &str) -> Option<Says> {
    let plain = plain(key);
    TOOL_NAMES.iter().find(|(name, _)| *plain == *name.as_bytes()).map(|(_, says)| *says)
}

/// Tells whether a member is read by its name, however it is written.
pub(super) fn is_read(key: &str) -> bool {
    let folded = fold(key.as_bytes());
    READ.iter().chain(&NESTED).any(|known| fold(known.as_bytes()) == folded)
}

/// Tells whether a member only reads as one that is read by its name.
pub(super) fn is_disguise(key: &str) -> bool {
    !READ.contains(&key) && !NESTED.contains(&key) && is_read(key)
}

/// Folds a key, and takes away what divides its words.
fn plain(key: &str) -> Vec<u8> {
    fold(key.as_bytes()).into_iter().filter(|byte| !matches!(byte, b'_' | b'-')).collect()
}
