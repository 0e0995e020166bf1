//! The built-in dialects, asked as the gateway asks them.

use super::*;
use crate::llm::json::JsonLimits;
use crate::llm::json::walk;

fn dialects() -> Dialects {
    Dialects::embedded().unwrap_or_else(|faults| panic!("{faults:#?}"))
}

fn document(body: &str) -> Document {
    walk(body.as_bytes(), &JsonLimits::STRICT).unwrap()
}

/// The channel of the value that reads `text`.
fn channel(dialect: &str, body: &str, text: &str) -> Channel {
    let (dialects, doc) = (dialects(), document(body));
    let found = doc.strings.iter().find(|s| !s.key && *doc.text(body.as_bytes(), s) == *text.as_bytes());
    dialects.get(dialect).unwrap().channel(body.as_bytes(), &doc, found.unwrap())
}

/// The lanes of an event: name, parts, text.
fn lanes(dialect: &str, event: Option<&str>, body: &str) -> Vec<String> {
    let (dialects, doc) = (dialects(), document(body));
    let dialect = dialects.get(dialect).unwrap();
    let key = |string: &JsonString| {
        let lane = dialect.lane(event, body.as_bytes(), &doc, string)?;
        let parts: Vec<String> = lane
            .parts
            .iter()
            .map(|part| match part {
                LanePart::Number(number) => number.to_string(),
                LanePart::Text(text) => text.to_string(),
                LanePart::None => "-".into(),
            })
            .collect();
        let text = String::from_utf8(doc.text(body.as_bytes(), string).into_owned()).unwrap();
        Some(format!("{}({})={text}", lane.name, parts.join(",")))
    };
    doc.strings.iter().filter_map(key).collect()
}

#[test]
fn exchanges_are_told_by_path_then_by_body() {
    let cases = [
        ("/v1/chat/completions", "{}", "openai", Wire::OpenAiChat),
        ("/openai/deployments/x/chat/completions", "{}", "openai", Wire::OpenAiChat),
        ("/v1/completions", "{}", "openai", Wire::OpenAiCompletions),
        ("/v1/responses", "{}", "openai", Wire::OpenAiResponses),
        ("/v1/messages", r#"{"model":"m","messages":[]}"#, "anthropic", Wire::Anthropic),
        ("/v1/projects/p/publishers/anthropic/models/c:rawPredict", "{}", "anthropic", Wire::Anthropic),
        ("/v1/projects/p/publishers/anthropic/models/c:streamRawPredict", "{}", "anthropic", Wire::Anthropic),
        ("/v1beta/models/g:streamGenerateContent", "{}", "gemini", Wire::Gemini),
        ("/model/a.b-v1:0/converse", "{}", "bedrock", Wire::Bedrock),
        ("/x/model/a/invoke", r#"{"anthropic_version":"v"}"#, "bedrock", Wire::Bedrock),
        ("/v2/chat", "{}", "cohere", Wire::Cohere),
        ("/cohere/v1/chat", r#"{"message":"m","model":"c"}"#, "cohere", Wire::Cohere),
        ("/x", r#"{"id":"i","finish_reason":"COMPLETE","message":{}}"#, "cohere", Wire::Cohere),
        ("/api/chat", "{}", "ollama", Wire::OllamaChat),
        ("/api/generate", "{}", "ollama", Wire::OllamaGenerate),
        ("/x", r#"{"contents":[]}"#, "gemini", Wire::Gemini),
        ("/x", r#"{"model":"m","messages":[]}"#, "openai", Wire::OpenAiChat),
        ("/x", r#"{"model":"m","messages":[],"max_tokens":1,"system":""}"#, "anthropic", Wire::Anthropic),
        ("/x", r#"{"object":"response"}"#, "openai", Wire::OpenAiResponses),
        ("/x", r#"{"query":"q"}"#, "generic", Wire::Generic),
        ("/x", r#"{"jsonrpc":"2.0","id":1,"method":"message/send"}"#, "a2a", Wire::JsonRpc),
        ("/x", r#"{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage"}"#, "a2a", Wire::JsonRpc),
        ("/x", r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, "mcp", Wire::JsonRpc),
        ("/a/mcp", "{}", "mcp", Wire::JsonRpc),
        ("/.well-known/agent-card.json", "{}", "a2a", Wire::JsonRpc),
        ("/agent/v1/message:stream", "{}", "a2a", Wire::Generic),
    ];
    let dialects = dialects();
    for (path, body, name, wire) in cases {
        let doc = document(body);
        let detected = dialects.detect(path, Some((body.as_bytes(), &doc)));
        assert_eq!((detected.dialect.name(), detected.wire), (name, wire), "{path} {body}");
    }
    assert_eq!(dialects.detect("/x", None).dialect.kind(), DialectKind::Generic);
}

#[test]
fn strings_have_the_channel_of_their_speaker() {
    let openai = r#"{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"U"}]},
        {"role":"assistant","content":"A","reasoning_content":"R","tool_calls":[{"function":{"name":"f","arguments":"C"}}]},
        {"role":"tool","content":"T"},{"role":"odd","content":"O"}],"tools":[{"function":{"description":"D"}}],"user":"me"}"#;
    let anthropic = r#"{"system":[{"type":"text","text":"S"}],"messages":[{"role":"user","content":"U"},{"role":"assistant",
        "content":[{"type":"thinking","thinking":"R"},{"type":"text","text":"A"},{"type":"tool_use","input":{"q":["C"]}}]},
        {"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"T"}]}]}],"tools":[{"description":"D"}]}"#;
    let gemini = r#"{"systemInstruction":{"parts":[{"text":"S"}]},"contents":[{"role":"user","parts":[{"text":"U"}]},
        {"role":"model","parts":[{"text":"A"},{"functionCall":{"args":{"q":"C"}}}]},{"parts":[{"functionResponse":{"response":{"x":"T"}}}]}],
        "tools":[{"functionDeclarations":[{"description":"D"}]}]}"#;
    let responses = r#"{"instructions":"S","input":[{"role":"user","content":[{"text":"U"}]},{"role":"assistant","content":"A"},
        {"type":"reasoning","summary":[{"text":"R"}]},{"type":"function_call","arguments":"C"},{"type":"function_call_output","output":"T"}],
        "tools":[{"description":"D"}]}"#;
    let own_tools = r#"{"input":[{"type":"mcp_call","arguments":"C","output":"T"},{"type":"mcp_list_tools","tools":[{"description":"D"}]}]}"#;
    let shell = r#"{"output":[{"type":"shell_call","action":{"commands":["C"]}},{"type":"shell_call_output","output":[{"stdout":"T"}]}]}"#;
    let search =
        r#"{"response":{"output":[{"type":"file_search_call","queries":["C"],"results":[{"text":"T"}]}]}}"#;
    let code =
        r#"{"item":{"type":"code_interpreter_call","code":"C","outputs":[{"type":"logs","logs":"T"}]}}"#;
    let memory = r#"{"messages":[{"role":"assistant","content":[{"type":"memory_tool_use","input":{"q":"C"}},
        {"type":"memory_tool_result","content":[{"text":"T"}]}]}]}"#;
    let run = r#"{"contents":[{"role":"model","parts":[{"executable_code":{"code":"C"}},{"code_execution_result":{"output":"T"}}]}]}"#;
    let screens = r#"{"messages":[{"role":"assistant","parts":[{"type":"tool-f","input":{"q":"C"},"output":{"x":"T"}},{"type":"text","text":"A"}]}]}"#;
    let all = [
        ("S", Channel::System),
        ("U", Channel::User),
        ("A", Channel::Assistant),
        ("R", Channel::Reasoning),
        ("C", Channel::ToolCall),
        ("T", Channel::ToolResult),
        ("D", Channel::ToolDefinition),
    ];
    for (dialect, body) in [
        ("openai", openai),
        ("anthropic", anthropic),
        ("gemini", gemini),
        ("openai", responses),
        ("openai", own_tools),
        ("openai", shell),
        ("openai", search),
        ("openai", code),
        ("anthropic", memory),
        ("gemini", run),
        ("generic", screens),
    ] {
        for (text, expected) in all.iter().filter(|(text, _)| body.contains(&format!("\"{text}\""))) {
            assert_eq!(channel(dialect, body, text), *expected, "{dialect} {text}");
        }
    }
    assert_eq!(channel("openai", openai, "me"), Channel::Metadata);
    assert_eq!(channel("openai", openai, "O"), Channel::Metadata);
    assert_eq!(channel("openai", r#"{"input":"U"}"#, "U"), Channel::User);
    assert_eq!(channel("ollama", r#"{"message":{"content":"A"}}"#, "A"), Channel::Assistant);
}

#[test]
fn what_peers_say_has_the_channel_of_who_reads_it() {
    let cases = [
        ("a2a", r#"{"params":{"message":{"role":"user","parts":[{"kind":"text","text":"U"}]}}}"#),
        ("a2a", r#"{"params":{"message":{"role":"ROLE_USER","parts":[{"data":{"a":["U"]}}]}}}"#),
        ("a2a", r#"{"result":{"role":"agent","parts":[{"text":"T"}]}}"#),
        ("a2a", r#"{"result":{"task":{"status":{"message":{"role":"ROLE_AGENT","parts":[{"text":"T"}]}}}}}"#),
        (
            "a2a",
            r#"{"result":{"artifacts":[{"parts":[{"text":"T"}]}],"history":[{"role":"user","parts":[{"text":"U"}]}]}}"#,
        ),
        ("a2a", r#"{"result":{"artifactUpdate":{"artifact":{"parts":[{"text":"T"}]}}}}"#),
        ("a2a", r#"{"skills":[{"examples":["D"]}]}"#),
        ("a2a", r#"{"message":{"role":"ROLE_USER","parts":[{"text":"U"}]}}"#),
        ("a2a", r#"{"task":{"artifacts":[{"parts":[{"text":"T"}]}]}}"#),
        ("mcp", r#"[{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"T"}]}}]"#),
        ("mcp", r#"{"method":"tools/call","params":{"name":"x","arguments":{"q":["C"]}}}"#),
        ("mcp", r#"{"result":{"content":[{"type":"text","text":"T"}],"isError":false}}"#),
        ("mcp", r#"{"result":{"contents":[{"uri":"x","text":"T"}]}}"#),
        ("mcp", r#"{"result":{"messages":[{"role":"user","content":{"type":"text","text":"T"}}]}}"#),
        (
            "mcp",
            r#"{"result":{"tools":[{"name":"x","description":"D","inputSchema":{"properties":{"a":{"description":"D"}}}}]}}"#,
        ),
        ("mcp", r#"{"result":{"instructions":"D"}}"#),
        ("mcp", r#"{"method":"sampling/createMessage","params":{"systemPrompt":"T"}}"#),
        ("mcp", r#"{"result":{"role":"assistant","content":{"type":"text","text":"A"}}}"#),
        ("mcp", r#"{"error":{"code":-1,"message":"T"}}"#),
        (
            "mcp",
            r#"{"method":"elicitation/create","params":{"message":"T","requestedSchema":{"properties":{"a":{"title":"D"}}}}}"#,
        ),
    ];
    let all = [
        ("U", Channel::User),
        ("A", Channel::Assistant),
        ("C", Channel::ToolCall),
        ("T", Channel::ToolResult),
        ("D", Channel::ToolDefinition),
    ];
    for (dialect, body) in cases {
        for (text, expected) in all.iter().filter(|(text, _)| body.contains(&format!("\"{text}\""))) {
            assert_eq!(channel(dialect, body, text), *expected, "{dialect} {body}");
        }
    }
    let piece = r#"{"result":{"artifact":{"artifactId":"a1","parts":[{"text":"x"}]},"append":true}}"#;
    assert_eq!(lanes("a2a", None, piece), ["artifact(a1,0)=x"]);
    for message in [
        r#"{"result":{"kind":"message","messageId":"m","parts":[{"kind":"text","text":"x"},{"text":"y"}]}}"#,
        r#"{"result":{"message":{"messageId":"m","parts":[{"text":"x"},{"text":"y"}]}}}"#,
        r#"{"result":{"kind":"status-update","taskId":"t","status":{"message":{"parts":[{"text":"x"},{"text":"y"}]}}}}"#,
        r#"{"result":{"task":{"id":"t","status":{"message":{"parts":[{"text":"x"},{"text":"y"}]}}}}}"#,
        r#"{"result":{"statusUpdate":{"taskId":"t","status":{"message":{"parts":[{"text":"x"},{"text":"y"}]}}}}}"#,
    ] {
        assert_eq!(lanes("a2a", None, message), ["said()=x", "said()=y"], "{message}");
    }
}

#[test]
fn what_agents_say_in_artifacts_and_messages_is_one_text_too() {
    let dialects = dialects();
    for (dialect, lane, expected) in [
        ("a2a", "said", &["told"][..]),
        ("a2a", "artifact", &["artifacts", "told"]),
        ("openai", "content", &[]),
    ] {
        let (name, channel) = (lane.to_owned(), Channel::ToolResult);
        let parts = [LanePart::Text("a1".into())].into_iter().collect();
        let key = LaneKey { name, channel, parts, kind: LaneKind::Pieces, is_json: false };
        let joined = dialects.get(dialect).unwrap().joined(&key);
        assert!(joined.iter().all(|text| text.kind == LaneKind::Joined && text.parts.is_empty()));
        let names: Vec<&str> = joined.iter().map(|text| text.name.as_str()).collect();
        assert_eq!(names, expected, "{dialect} {lane}");
    }
}

#[test]
fn deltas_join_by_what_the_provider_says() {
    // (dialect, event, body, lanes)
    type Case<'a> = (&'a str, Option<&'a str>, &'a str, &'a [&'a str]);
    let cases: &[Case] = &[
        (
            "openai",
            None,
            r#"{"choices":[{"index":1,"delta":{"role":"assistant","content":"a"}}],"id":"x"}"#,
            &["content(1)=a"],
        ),
        (
            "openai",
            None,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":3,"function":{"name":"f","arguments":"b"}}]}}]}"#,
            &["arguments(0,3)=b"],
        ),
        (
            "openai",
            None,
            r#"{"choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"c"}]}]}}]}"#,
            &["reasoning(0)=c"],
        ),
        (
            "openai",
            None,
            r#"{"choices":[{"index":0,"logprobs":{"content":[{"token":"a"},{"token":"b"}]}}]}"#,
            &["tokens(0)=a", "tokens(0)=b"],
        ),
        ("openai", None, r#"{"choices":[{"text":"t","index":0}]}"#, &["text(0)=t"]),
        (
            "openai",
            None,
            r#"{"type":"response.output_audio_transcript.delta","response_id":"r","output_index":1,"content_index":0,"delta":"d"}"#,
            &["audio_transcript(r,1,0)=d"],
        ),
        (
            "openai",
            Some("response.output_text.delta"),
            r#"{"type":"response.output_text.delta","delta":"d","output_index":1,"content_index":0,"item_id":"i","obfuscation":"xx"}"#,
            &["output_text(-,1,0)=d"],
        ),
        (
            "openai",
            None,
            r#"{"type":"response.function_call_arguments.delta","delta":"d","output_index":1,"item_id":"i"}"#,
            &["call_arguments(-,1)=d"],
        ),
        (
            "openai",
            None,
            r#"{"type":"response.novel.delta","delta":"d","output_index":1}"#,
            &["delta(-,1,response.novel.delta,-)=d"],
        ),
        ("cohere", None, r#"{"is_finished":false,"event_type":"text-generation","text":"d"}"#, &["text()=d"]),
        (
            "anthropic",
            Some("content_block_delta"),
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"e"}}"#,
            &["text(2)=e"],
        ),
        (
            "anthropic",
            None,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"f"}}"#,
            &["partial_json(2)=f"],
        ),
        (
            "anthropic",
            None,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"g"}}"#,
            &["text(2)=g"],
        ),
        (
            "gemini",
            None,
            r#"{"candidates":[{"content":{"parts":[{"text":"h"},{"text":"i"}],"role":"model"}}]}"#,
            &["text(0)=h", "text(0)=i"],
        ),
        (
            "ollama",
            None,
            r#"{"model":"m","message":{"role":"assistant","content":"j","thinking":"k"}}"#,
            &["content()=j", "thinking()=k"],
        ),
        ("ollama", None, r#"{"response":"l"}"#, &["response()=l"]),
        (
            "cohere",
            None,
            r#"{"type":"content-delta","index":1,"delta":{"message":{"content":{"text":"m"}}}}"#,
            &["content(1)=m"],
        ),
        (
            "cohere",
            None,
            r#"{"type":"tool-call-delta","index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":"n"}}}}}"#,
            &["arguments(0)=n"],
        ),
        (
            "generic",
            None,
            r#"{"event":{"token":"m","n":[{"index":4,"text":"o"}]},"id":"p"}"#,
            &["event.token()=m", "event.n.text(4)=o"],
        ),
    ];
    for (dialect, event, body, expected) in cases {
        assert_eq!(lanes(dialect, *event, body), *expected, "{body}");
    }
}

#[test]
fn texts_end_where_the_provider_says() {
    let cases: [(&str, &str, &str, bool); 10] = [
        (
            "openai",
            r#"{"choices":[{"index":1,"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}"#,
            true,
        ),
        (
            "openai",
            r#"{"choices":[{"index":1,"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
            false,
        ),
        (
            "openai",
            r#"{"choices":[{"index":1,"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"index":1,"delta":{},"finish_reason":null}]}"#,
            false,
        ),
        (
            "openai",
            r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"a"}"#,
            r#"{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"a"}"#,
            true,
        ),
        (
            "anthropic",
            r#"{"type":"content_block_delta","index":1,"delta":{"text":"a"}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            true,
        ),
        (
            "anthropic",
            r#"{"type":"content_block_delta","index":1,"delta":{"text":"a"}}"#,
            r#"{"type":"content_block_stop","index":2}"#,
            false,
        ),
        (
            "cohere",
            r#"{"type":"content-delta","index":1,"delta":{"message":{"content":{"text":"a"}}}}"#,
            r#"{"type":"content-end","index":1}"#,
            true,
        ),
        (
            "cohere",
            r#"{"type":"content-delta","index":1,"delta":{"message":{"content":{"text":"a"}}}}"#,
            r#"{"type":"content-end","index":0}"#,
            false,
        ),
        (
            "ollama",
            r#"{"message":{"content":"a"},"done":false}"#,
            r#"{"message":{"content":""},"done":true}"#,
            true,
        ),
        (
            "ollama",
            r#"{"message":{"content":"a"},"done":false}"#,
            r#"{"message":{"content":""},"done":false}"#,
            false,
        ),
    ];
    for (dialect, delta, end, expected) in cases {
        let dialects = dialects();
        let dialect = dialects.get(dialect).unwrap();
        let doc = document(delta);
        let lane = doc.strings.iter().find_map(|s| dialect.lane(None, delta.as_bytes(), &doc, s)).unwrap();
        let ends = dialect.lane_ends(None, end.as_bytes(), &document(end));
        assert_eq!(ends.iter().any(|end| end.covers(&lane)), expected, "{delta} {end}");
    }
}

#[test]
fn a_disguised_key_is_a_fault_only_where_the_key_is_read() {
    let cases = [
        (r#"{"MESSAGES":[]}"#, true),
        (r#"{"me\u017f\u017fages":[]}"#, true),
        (r#"{"messages":[{"Role":"system"}]}"#, true),
        (r#"{"messages":[{"role":"system","content":"x"}]}"#, false),
        (r#"{"tools":[{"function":{"parameters":{"properties":{"Messages":{},"Model":{}}}}}]}"#, false),
    ];
    let dialects = dialects();
    for (body, disguised) in cases {
        let found = dialects.get("openai").unwrap().check_keys(body.as_bytes(), &document(body));
        assert_eq!(found.is_err(), disguised, "{body}");
    }
}

#[test]
fn streams_are_told_by_media_type() {
    let dialects = dialects();
    let format = |name: &str, media, path| dialects.get(name).unwrap().stream_format(media, path);
    assert_eq!(format("openai", "text/event-stream; charset=utf-8", "/"), Some(StreamFormat::Sse));
    assert_eq!(format("openai", "application/json", "/"), None);
    assert_eq!(
        format("gemini", "application/json; charset=UTF-8", "/m:streamGenerateContent"),
        Some(StreamFormat::JsonArray)
    );
    assert_eq!(format("gemini", "application/json", "/m:generateContent"), None);
    assert_eq!(format("ollama", "application/x-ndjson", "/api/chat"), Some(StreamFormat::Ndjson));
    assert!(dialects.get("openai").unwrap().is_terminator(b"[DONE]"));
}

#[test]
fn every_fault_of_a_file_is_told_with_its_line() {
    let header = "[dialect]\nname = \"x\"\nkind = \"openai\"\nwire = \"openai_chat\"\nrank = 1\n";
    let broken = format!(
        "{header}[[text]]\ntext = \"a..b\"\n[[lane]]\nname = \"l\"\nchannel = \"user\"\npath = \"a[\"\n"
    );
    let below = format!("{header}[[text]]\nat = \"a.**\"\ntext = \"b\"\nchannel = \"user\"\n");
    let unknown = format!("{header}colour = \"red\"\n");
    let files = [("b.toml", broken), ("d.toml", below), ("u.toml", unknown)];
    let faults = Dialects::overlaid(&files.map(|(file, text)| (file.into(), text))).unwrap_err();
    let places: Vec<(&str, Option<usize>)> = faults.iter().map(|fault| (&*fault.file, fault.line)).collect();
    let lines = [("b.toml", 7), ("b.toml", 7), ("b.toml", 11), ("d.toml", 7), ("u.toml", 6)];
    assert_eq!(places, lines.map(|(file, line)| (file, Some(line))));
    assert!(
        faults[1].to_string().starts_with("b.toml:7: rule by role")
            || faults[0].to_string().contains("rule by role")
    );
}

#[test]
fn sound_is_told_from_what_only_says_that_it_is() {
    let dialects = dialects();
    let openai = dialects.get("openai").unwrap();
    let is_sound = |kind: &str, key: &str, value: &str| {
        let body = format!(r#"{{"type":"{kind}","{key}":"{value}"}}"#);
        let doc = document(&body);
        let string = doc.strings.last().unwrap();
        openai.is_sound(None, body.as_bytes(), &doc, string)
    };
    let (append, delta) = ("input_audio_buffer.append", "response.output_audio.delta");
    assert!(is_sound(append, "audio", "AP8DgAcAAMg=") && is_sound(delta, "delta", "AP8DgAcAAMg="));
    for (kind, key, value) in [
        // Elsewhere it is a string like any other; so is text in base64, and what is no base64.
        ("response.output_text.delta", "delta", "AP8DgAcAAMg="),
        (append, "text", "AP8DgAcAAMg="),
        (delta, "delta", "dGV4dCBpbiBiYXNlNjQ="),
        (delta, "delta", "aABpAGQAZABlAG4A"),
        (delta, "delta", "in the clear"),
        (delta, "delta", ""),
    ] {
        assert!(!is_sound(kind, key, value), "{kind} {key} {value}");
    }
}
