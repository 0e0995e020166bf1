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
        (r#"{"model":"a","input":"x","tools":[{"type":"image_generation","model":"b"}]}"#, &["a", "b"]),
        (r#"{"model":"a","tools":[{"type":"advisor_20260301","name":"advisor","model":"b"}]}"#, &["a", "b"]),
        (r#"{"model":"a","input_audio_transcription":{"model":"b"}}"#, &["a", "b"]),
        (
            r#"{"model":"a","session":{"model":"b","audio":{"input":{"transcription":{"Model":"c"}}}}}"#,
            &["a", "b", "c"],
        ),
        (
            r#"{"data_source":{"type":"responses","model":"a","sampling_params":{"x":[{"model":"b"}]}}}"#,
            &["a", "b"],
        ),
        (r#"{"setup":{"model":"models/a"},"generateContentRequest":{"model":"b"}}"#, &["a", "b"]),
        (r#"{"model":{"id":"a","speed":"fast"},"fallback_models":["b"],"baseModel":"c"}"#, &["a", "b", "c"]),
        (r#"{"generationConfig":{"routingConfig":{"manualMode":{"modelName":"a"}}}}"#, &["a"]),
    ] {
        assert_eq!(asked(body).models, models, "{body}");
    }
    for (path, query, models) in [
        ("/v1beta/models/gemini-2.0:generateContent", None, &["gemini-2.0"][..]),
        ("/v1/projects/p/locations/l/publishers/google/models/g:predict", None, &["g"]),
        ("/model/anthropic.claude-v2:1/converse", None, &["anthropic.claude-v2:1"]),
        ("/openai/deployments/d/chat/completions", Some("api-version=1"), &["d"]),
        ("/openai/Deployments/d/chat/completions", None, &["d"]),
        ("/openai/deployments;v=1/d/chat/completions", None, &["d"]),
        ("/v1beta/MODELS/gemini-2.0:generateContent", None, &["gemini-2.0"]),
        ("/v1/realtime", Some("a=b&Model=r"), &["r"]),
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
        assert!(asked.in_form(form.as_bytes(), "b", &JsonLimits::STRICT));
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
        (
            r#"{"session":{"tools":[{"type":"function","name":"a"},{"type":"mcp","server_label":"s","server_url":"https://x"}]}}"#,
            &["a", "s", "mcp:https://x"],
        ),
        (r#"{"data_source":{"sampling_params":{"tools":[{"type":"function","name":"a"}]}}}"#, &["a"]),
        (
            r#"{"container":{"skills":[{"type":"anthropic","skill_id":"pptx"},{"type":"custom","skill_id":"x"},{}]}}"#,
            &["skill:pptx", "skill:x", UNNAMED],
        ),
        (
            r#"{"tools":[{"type":"shell","environment":{"type":"container_auto","skills":[{"skill_id":"x"}]}}]}"#,
            &["shell", "skill:x"],
        ),
        (r#"{"additionalModelRequestFields":{"tools":[{"type":"bash_20250124","name":"bash"}]}}"#, &["bash"]),
        (r#"{"setup":{"Tools":[{"googleSearch":{}}]}}"#, &["googleSearch"]),
        (r#"{"tools":["a"],"tool_config":{"mcp_servers":[{"name":"b"}]}}"#, &["a", "b"]),
    ] {
        assert_eq!(asked(body).tools, tools, "{body}");
    }
    let many: String = (0..2000).map(|n| format!(r#"{{"name":"t{n}"}},"#)).collect();
    let found = asked(&format!(r#"{{"tools":[{}]}}"#, many.trim_end_matches(',')));
    assert_eq!(found.tools.len(), 2000, "no tool hides behind others");
}

#[test]
fn what_only_reads_as_a_name_is_none() {
    for body in [
        r#"{"tools":[{"type":"function","function":{"name":"a","parameters":{"type":"object","properties":{
            "model":{"type":"string","enum":["x"],"default":"x"},"tools":{"type":"array"}},"required":["model"]}}}]}"#,
        r#"{"tools":[{"name":"a","input_schema":{"$defs":{"Model":{"title":"Model"}},"properties":{"model":{"const":"x"}}},
            "input_examples":[{"model":"x","tools":["y"]}]}]}"#,
        r#"{"tools":[{"functionDeclarations":[{"name":"a","parameters":{"properties":{"model":{"type":"STRING"}}}}]}]}"#,
        r#"{"tools":[{"name":"a"}],"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"y",
            "input":{"model":"x","tools":["y"]}}]}]}"#,
        r#"{"tools":[{"name":"a"}],"contents":[{"parts":[{"functionCall":{"name":"y","args":{"model":"x"}}}]}]}"#,
        r#"{"tools":[{"name":"a"}],"metadata":{"model":"x","tools":"y"},"response_format":{"type":"json_schema",
            "json_schema":{"name":"y","schema":{"type":"object","properties":{"model":{"type":"string"}}}}}}"#,
        r#"{"tools":[{"name":"a"}],"input":[{"type":"function_call","name":"y","arguments":"{\"model\":\"x\"}"},
            {"role":"user","content":[{"type":"input_text","text":"model"}],"provider_data":{"model":"x"}}]}"#,
        r#"{"method":"tools/call","params":{"name":"a","arguments":{"model":"x","tools":["y"]}}}"#,
        r#"{"tools":[{"name":"a"}],"toolResponse":{"functionResponses":[{"name":"y","response":{"model":"x"}}]}}"#,
        r#"{"tools":[{"name":"a"}],"context_management":{"edits":[{"exclude_tools":["y"]}]},"stream_options":{}}"#,
    ] {
        let found = asked(body);
        assert_eq!((found.models, found.tools), (Vec::new(), vec!["a".to_owned()]), "{body}");
        assert!(!found.is_disguised && !found.is_stored, "{body}");
    }
}

#[test]
fn a_model_of_its_own_is_told_from_one_that_is_only_used() {
    for (path, body, names_own, is_left) in [
        ("/v1/responses", r#"{"model":"a"}"#, true, false),
        ("/v1/responses", r#"{"tools":[{"type":"image_generation","model":"a"}]}"#, false, false),
        ("/v1/responses", r#"{"model":"models/"}"#, false, false),
        ("/v1/responses", r#"{"model":{"id":"a"}}"#, true, false),
        ("/v1/chat/completions", r#"{"fallbacks":[{"model":"a"}]}"#, true, false),
        ("/v1/realtime/client_secrets", r#"{"session":{"model":"a"}}"#, true, false),
        ("/v1/realtime/client_secrets", r#"{"model":"a","session":{"type":"realtime"}}"#, true, true),
        (
            "/v1/realtime/client_secrets",
            r#"{"session":{"type":"realtime","audio":{"input":{"transcription":{"model":"a"}}}}}"#,
            false,
            true,
        ),
        (
            "/v1/realtime/client_secrets",
            r#"{"session":{"type":"transcription","audio":{"input":{"transcription":{"model":"a"}}}}}"#,
            true,
            false,
        ),
        ("/v1/realtime/sessions", r#"{"input_audio_transcription":{"model":"a"}}"#, false, false),
        (
            "/v1/realtime/transcription_sessions",
            r#"{"input_audio_transcription":{"model":"a"}}"#,
            true,
            false,
        ),
        ("/v1/evals/e/runs", r#"{"data_source":{"type":"responses","model":"a"}}"#, true, false),
    ] {
        let document = walk(body.as_bytes(), &JsonLimits::STRICT).unwrap();
        let mut asked = Asked::default();
        asked.in_target(path, None);
        asked.in_json(body.as_bytes(), &document);
        assert_eq!((asked.names_own, asked.is_model_left), (names_own, is_left), "{path} {body}");
    }
}

/// Returns a form of fields and of files, each with its content.
fn form(parts: &[(&str, &str)]) -> String {
    let parts = parts.iter().map(|(disposition, content)| {
        format!("--b\r\nContent-Disposition: form-data; {disposition}\r\n\r\n{content}\r\n")
    });
    format!("{}--b--\r\n", parts.collect::<String>())
}

#[test]
fn the_fields_of_a_form_are_members_of_a_request() {
    let session = r#"{"type":"realtime","model":"m","tools":[{"type":"function","name":"rm"}]}"#;
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a [&'a str]);
    let cases: &[Case<'_>] = &[
        (&[("name=\"session\"", session), ("name=\"sdp\"", "v=0")], &["m"], &["rm"]),
        (&[("name=\"session\"; filename=\"blob\"", session)], &["m"], &["rm"]),
        (&[("name=\"tools\"", r#"[{"type":"web_search"}]"#)], &[], &["web_search"]),
        (&[("name=\"session[model]\"", "m"), ("name=\"tools[][name]\"", "rm")], &["m"], &["rm"]),
        (&[("name=\"audio[input][transcription][model]\"", "m")], &["m"], &[]),
        (&[("name=\"prompt\"", "[model] {x}"), ("name=\"model\"", "m")], &["m"], &[]),
        (
            &[("name=\"prompt\"", "a \"quoted\" text"), ("name=\"timestamp_granularities[]\"", "word")],
            &[],
            &[],
        ),
        (&[("name=\"file\"; filename=\"a.jsonl\"", session), ("name=\"purpose\"", "batch")], &[], &[]),
        (&[("name=\"metadata\"", r#"{"model":"m"}"#), ("name=\"metadata[model]\"", "m")], &[], &[]),
        (&[("name=\"x\"", r#"{},"model":"m","x":{}"#)], &[], &[]),
    ];
    for (parts, models, tools) in cases {
        let mut asked = Asked::default();
        let is_read = asked.in_form(form(parts).as_bytes(), "b", &JsonLimits::STRICT);
        assert_eq!(
            (is_read, &*asked.models, &*asked.tools),
            (true, &owned(models)[..], &owned(tools)[..]),
            "{parts:?}"
        );
    }
    let fields = "model=m&tools=%5B%7B%22name%22%3A%22rm%22%7D%5D&prompt=x+y";
    let mut asked = Asked::default();
    assert!(asked.in_fields(fields.as_bytes(), &JsonLimits::STRICT) && asked.names_own);
    assert_eq!((asked.models, asked.tools), (vec!["m".to_owned()], vec!["rm".to_owned()]));
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_form_that_cannot_be_read_is_told_from_one_that_names_nothing() {
    for (parts, is_read) in [
        (("name=\"session\"", "{\"model\":"), false),
        (("name=\"session\"", "\u{feff}{\"model\":\"m\"}"), false),
        (("name=\"session\"", "{\"model\":\"m\",\"model\":\"n\"}"), false),
        (("name=\"tools\"; filename=\"t.json\"", "[{]"), false),
        (("name=\"text\"", "{not a structure"), true),
        (("name=\"file\"; filename=\"f.json\"", "{not a structure"), true),
    ] {
        let mut asked = Asked::default();
        assert_eq!(asked.in_form(form(&[parts]).as_bytes(), "b", &JsonLimits::STRICT), is_read, "{parts:?}");
    }
    let mut asked = Asked::default();
    assert!(!asked.in_form(b"--c--", "b", &JsonLimits::STRICT));
    assert!(asked.in_form(form(&[("name=\"Session\"", "{}")]).as_bytes(), "b", &JsonLimits::STRICT));
    assert!(asked.is_disguised);
}
