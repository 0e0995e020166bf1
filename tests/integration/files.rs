//! Files that callers bring: by the paths that take them, whatever SDKs call what they send, and in parts of a form.

use crate::answers::send;
use crate::framing::POLICY;
use crate::framing::secret;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::upstream::Upstream;

const JSON: &str = "content-type: application/json\r\n";

fn in_front_of(upstream: &Upstream) -> Gateway {
    Gateway::start(&format!(
        "[[routes]]\nname = \"all\"\nupstream = \"http://{}\"\npolicy = \"default\"\n{UNLIMITED}{POLICY}",
        upstream.address
    ))
}

/// The SDKs of Gemini and Ollama send the bytes of files as `application/json`.
#[test]
fn a_path_that_takes_files_takes_any_and_reads_those_that_are_text() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = in_front_of(&upstream);
    let weights = [&b"GGUF\x03\0\0\0"[..], &[0xff, 0xfe, 7, 0, 1].repeat(300)].concat();
    let lines = b"{\"contents\":\"one\"}\n{\"contents\":\"two\"}\n";
    let paths = ["/upload/v1beta/files?upload_id=1", "/api/blobs/sha256:0123456789abcdef"];
    for path in paths {
        for file in [&weights[..], lines, b"plain words", b"[not all that begins so is JSON"] {
            let answer = send(gateway.proxy, path, JSON, file);
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            assert!(upstream.take()[0].bytes.ends_with(file), "{path}: the file was changed");
        }
        for written in
            [format!("use {}", secret()), format!("{{\"a\":\"one\"}}\n{{\"a\":\"{}\"}}\n", secret())]
        {
            assert_eq!(send(gateway.proxy, path, JSON, written.as_bytes()).status, 403, "{path}");
        }
        let wide: Vec<u8> = format!("use {}", secret()).encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(send(gateway.proxy, path, JSON, &wide).status, 400, "{path}");
    }
    for path in ["/v1beta/models/m:generateContent", "/api/chat", "/upload/v1beta/files/x"] {
        assert_eq!(send(gateway.proxy, path, JSON, &weights).status, 400, "{path}");
    }
    assert!(upstream.take().is_empty(), "what is refused reached the provider");
}

/// To readers of RFC 2183 a backslash in a file's name is none, to browsers it is one.
#[test]
fn the_name_of_a_file_is_read_with_its_quoted_pairs_and_without() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = in_front_of(&upstream);
    let form = "content-type: multipart/form-data; boundary=XyZ\r\n";
    let named = |name: &str| {
        format!(
            "--XyZ\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\nhi\r\n--XyZ--\r\n"
        )
    };
    let paired: String = secret().chars().map(|sign| format!("\\{sign}")).collect();
    let beside = format!("C:\\{}", secret());
    for name in [secret(), paired, beside] {
        assert_eq!(send(gateway.proxy, "/v1/files", form, named(&name).as_bytes()).status, 403, "{name}");
    }
    assert!(upstream.take().is_empty(), "a refused file reached the provider");
    let clean = named("C:\\texts\\report.txt");
    assert_eq!(send(gateway.proxy, "/v1/files", form, clean.as_bytes()).status, 200);
    assert!(upstream.take()[0].bytes.ends_with(clean.as_bytes()), "the upload was changed");
}
