//! Which APIs are understood, and how a refusal looks to them.
//!
//! A dialect is data (`plugins/dialects`): which paths it has, where roles and texts are, which deltas belong together,
//! where usage is counted. Bodies of no dialect are read as generic JSON, NDJSON or text: every string is still seen.
//!
//! | dialect | bodies | streams |
//! |---|---|---|
//! | OpenAI | chat completions, responses, completions, embeddings, moderations; Realtime's events | SSE; WebSocket |
//! | Anthropic | messages | SSE |
//! | Gemini | generateContent, streamGenerateContent | SSE, JSON array |
//! | Ollama | chat, generate | NDJSON |
//! | Cohere | chat (v2, v1), embed, rerank | SSE, NDJSON |
//! | A2A | JSON-RPC, 0.3 and 1.0 | SSE |
//! | MCP | streamable HTTP | SSE |
//! | Bedrock | Converse, and the bodies of the models it serves | frames of Amazon's event stream |
//!
//! # Refusals
//! A refusal has the provider's own shape, so that its SDK raises its own exception with code and message filled. A block is
//! 403, because the SDKs send a 409, 429 or 5xx again, which would not help. In a stream, an error event is sent; the
//! alternative, chosen by `stream_block = "graceful"`, is a content filter's ordinary end.
//!
//! # What the gateway changes in traffic
//! - The path is forwarded in its one normal spelling; `strip_prefix` removes the route's prefix.
//! - Answers are asked for without a content coding. An encoded request travels on decoded: what was scanned is what
//!   is sent. Where the caller's signature covers the body (AWS Signature Version 4) an encoded one is refused (415).
//! - Hop-by-hop headers are not forwarded, nor the cookies of people who are signed in to the gateway itself. Cookies
//!   that HTTP/2 brought in pieces go on in one field (RFC 9113, section 8.2.3).
//!   Answers gain `X-Request-Id`, `X-Portcullis-Action`, `X-Portcullis-Policy` and
//!   the three rate-limit headers. One whose length is not known yet comes in chunks; to callers of HTTP/1.0 it ends with
//!   the connection.
//! - Bodies are untouched, except where a value is masked or restored: those bytes, and the length; of a frame, its
//!   checksums and, in an envelope, the base64 around the event.
//!
//! # What the gateway does not carry
//! `TRACE`, `CONNECT`, HTTP/1.1 without exactly one `Host`, header names with underscores, header values beyond ASCII,
//! more than one content coding, `zstd` with a window of more than 8 MiB (RFC 9659) and `br` with one of more than 16 MiB
//! (RFC 7932), transfer codings other than `chunked`, and JSON that decoders read differently: duplicate keys, lone
//! surrogates, a byte order mark, UTF-16, more than `limits.json_depth_max` levels.
