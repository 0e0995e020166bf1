//! The closed sets that dialect files choose from.

/// Whose words a string is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// The operator's instructions to the model.
    System,
    /// The person's words.
    User,
    /// The model's answer.
    Assistant,
    /// The model's thinking.
    Reasoning,
    /// What a tool is said to do.
    ToolDefinition,
    /// What the model hands to a tool.
    ToolCall,
    /// What a tool gave back.
    ToolResult,
    /// A key or a token where the API takes one, or hands one out: no model reads it.
    Credential,
    /// Everything else: names, ids, settings.
    Metadata,
}

impl Channel {
    /// Returns the name used in rules, policies and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Reasoning => "reasoning",
            Self::ToolDefinition => "tool_definition",
            Self::ToolCall => "tool_call",
            Self::ToolResult => "tool_result",
            Self::Credential => "credential",
            Self::Metadata => "metadata",
        }
    }
}

/// The provider whose SDK is on the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialectKind {
    /// `OpenAI` and all who speak like it.
    #[serde(rename = "openai")]
    OpenAi,
    /// Anthropic's Messages.
    Anthropic,
    /// Gemini, on Google's API or Vertex.
    Gemini,
    /// Cohere's own API.
    Cohere,
    /// Amazon Bedrock: Converse, and the models' own bodies.
    Bedrock,
    /// Ollama's own API.
    Ollama,
    /// Agents among each other.
    A2a,
    /// Tools, and whatever else speaks JSON-RPC.
    Mcp,
    /// Anything else that speaks JSON.
    Generic,
}

/// The shape of one API of a provider: what answers, errors and ends look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// `/v1/chat/completions`.
    #[serde(rename = "openai_chat")]
    OpenAiChat,
    /// `/v1/completions`.
    #[serde(rename = "openai_completions")]
    OpenAiCompletions,
    /// `/v1/responses`.
    #[serde(rename = "openai_responses")]
    OpenAiResponses,
    /// `/v1/messages`.
    Anthropic,
    /// `:generateContent`, `:streamGenerateContent`.
    Gemini,
    /// Cohere's `/v2/chat`.
    Cohere,
    /// Bedrock's `/model/…`.
    Bedrock,
    /// `/api/chat`.
    OllamaChat,
    /// `/api/generate`.
    OllamaGenerate,
    /// JSON-RPC 2.0: A2A, MCP.
    JsonRpc,
    /// No known shape.
    Generic,
}
