//! Files that callers bring: by the paths that take them, whatever SDKs call what they send, and in parts of a form.

use crate::answers::send;
use crate::framing::POLICY;
use crate::framing::secret;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::upstream::Step;
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

/// Google's clients bring a file and what is said of it in one request.
#[test]
fn related_parts_are_read() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = in_front_of(&upstream);
    let form = "content-type: multipart/related; boundary=XyZ\r\n";
    let brought = |text: &str| {
        format!(
            "--XyZ\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{{\"file\":{{\"displayName\":\"a\"}}}}\r\n\
             --XyZ\r\nContent-Type: text/plain\r\n\r\n{text}\r\n--XyZ--\r\n"
        )
    };
    let path = "/upload/v1beta/files?uploadType=multipart";
    let clean = brought("plain words");
    assert_eq!(send(gateway.proxy, path, form, clean.as_bytes()).status, 200);
    assert!(upstream.take()[0].bytes.ends_with(clean.as_bytes()), "the upload was changed");
    assert_eq!(send(gateway.proxy, path, form, brought(&secret()).as_bytes()).status, 403);
    assert!(upstream.take().is_empty(), "a refused file reached the provider");
}

/// An upstream that tells in a field of its answers where to go on, in terms of its own address.
fn leading(field: &'static str, path: &'static str, elsewhere: Option<&'static str>) -> Upstream {
    Upstream::start_knowing(|address| {
        let address = elsewhere.map_or_else(|| address.to_string(), str::to_owned);
        let scheme = if address.starts_with('/') || address.is_empty() { "" } else { "http://" };
        let head =
            format!("HTTP/1.1 201 Created\r\n{field}: {scheme}{address}{path}\r\ncontent-length: 0\r\n\r\n");
        vec![Step::Send(head.into_bytes())]
    })
}

/// SDKs send the bytes of a file to the address that the answer to its begin tells: past the gateway, if that is the
/// provider's.
#[test]
fn where_a_provider_tells_its_caller_to_go_on_leads_through_the_gateway() {
    let told = "/base/upload/v1beta/files?upload_id=a%2Fb&upload_protocol=resumable";
    let own = "/upload/v1beta/files?upload_id=a%2Fb&upload_protocol=resumable";
    let elsewhere = Some("storage.test:80");
    let cases = [
        ("x-goog-upload-url", told, None, Some(own)),
        ("operation-location", told, None, Some(own)),
        ("location", told, None, Some(own)),
        // Not behind the path that the route leads to; a redirection is left as it is.
        ("x-goog-upload-url", "/files", None, None),
        ("x-goog-upload-url", told, elsewhere, None),
        ("location", told, elsewhere, Some("http://storage.test:80")),
        // Two slashes begin the name of a host.
        ("x-goog-upload-url", told, Some("//storage.test"), None),
        ("location", told, Some("//storage.test"), Some("//storage.test")),
        // Without one it is of whoever was asked.
        ("x-goog-upload-url", told, Some(""), Some(own)),
        ("location", told, Some(""), Some(own)),
        ("x-goog-upload-url", "/files", Some(""), None),
        ("x-goog-upload-url", "/base//storage.test/files", Some(""), None),
    ];
    for (field, path, elsewhere, expected) in cases {
        let upstream = leading(field, path, elsewhere);
        let route = |name: &str, more: &str| {
            format!(
                "[[routes]]\nname = \"{name}\"\nupstream = \"http://{}/base\"\npolicy = \"default\"\n{more}\n",
                upstream.address
            )
        };
        let routes = [route("all", ""), route("own", "path_prefix = \"/own\"\nstrip_prefix = true")];
        let gateway = Gateway::start(&format!("{}{UNLIMITED}{POLICY}", routes.concat()));
        for (prefix, forwarded) in [("", ""), ("/own", "x-forwarded-proto: https\r\n")] {
            let begun = send(
                gateway.proxy,
                &format!("{prefix}/upload/v1beta/files"),
                &format!("{JSON}{forwarded}"),
                b"{\"file\":{}}",
            );
            let scheme = if forwarded.is_empty() { "http" } else { "https" };
            match expected {
                Some(kept) if kept.starts_with("http") || kept.starts_with("//") => {
                    assert_eq!((begun.status, begun.header(field)), (201, Some(&*format!("{kept}{path}"))));
                }
                Some(own) => {
                    let origin = format!("{scheme}://gateway.test");
                    let own = format!("{}{prefix}{own}", if elsewhere.is_some() { "" } else { &origin });
                    assert_eq!((begun.status, begun.header(field)), (201, Some(&*own)), "{field}");
                }
                None => assert_eq!((begun.status, begun.header(field)), (502, None), "{field} {path}"),
            }
        }
    }
}

/// SDKs follow a redirection, and send what was read here once more where it leads: unread, if that is past the gateway.
#[test]
fn what_was_read_is_not_sent_again_past_the_gateway() {
    let cases = [
        ("307 Temporary Redirect", "http://elsewhere.test/x", 502),
        ("308 Permanent Redirect", "//elsewhere.test/x", 502),
        ("308 Permanent Redirect", "https://elsewhere.test/v1/files", 502),
        ("307 Temporary Redirect", "/v1/other", 307),
        // Whoever follows these asks for an answer, and brings nothing.
        ("302 Found", "http://elsewhere.test/x", 302),
        ("303 See Other", "http://elsewhere.test/x", 303),
    ];
    for (status, address, expected) in cases {
        let head = format!("HTTP/1.1 {status}\r\nlocation: {address}\r\ncontent-length: 0\r\n\r\n");
        let upstream = Upstream::start(vec![Step::Send(head.into_bytes())]);
        let gateway = in_front_of(&upstream);
        let answer = send(gateway.proxy, "/v1/files", JSON, b"{\"text\":\"read\"}");
        assert_eq!(answer.status, expected, "{status} {address}");
        assert_eq!(answer.header("location").is_some(), expected < 400, "{status} {address}");
    }
}

/// Each part of a file was read for itself, so that a secret on the border of two of them left.
#[test]
fn a_secret_on_the_border_of_two_parts_of_a_file_does_not_leave_whole() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = Gateway::start(&format!(
        "[[routes]]\nname = \"all\"\nupstream = \"http://{}\"\npolicy = \"default\"\n{UNLIMITED}{POLICY}\
         [policies.default.categories.pii]\nmode = \"redact\"\n",
        upstream.address
    ));
    let form = "content-type: multipart/form-data; boundary=XyZ\r\n";
    let bring = |path: &str, text: &str| {
        let part = format!(
            "--XyZ\r\nContent-Disposition: form-data; name=\"data\"; filename=\"upload\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n{text}\r\n--XyZ--\r\n"
        );
        let (fields, body) = if path.ends_with("/parts") { (form, part) } else { (JSON, text.to_owned()) };
        let status = send(gateway.proxy, path, fields, body.as_bytes()).status;
        let arrived = upstream.take().iter().any(|it| it.bytes.ends_with(body.as_bytes()));
        assert_eq!(arrived, status == 200, "{path} {text}");
        status
    };
    let files: [fn(&str) -> String; 3] = [
        |id| format!("/v1/uploads/upload_{id}/parts"),
        |id| format!("/upload/v1beta/files?upload_id={id}&upload_protocol=resumable"),
        |id| format!("/upload/v1beta/fileSearchStores/s:uploadToFileSearchStore?upload_id={id}"),
    ];
    let before = "Some lines of notes that are of no interest.\n".repeat(40);
    for (number, file) in files.iter().enumerate() {
        for (at, value) in [secret(), "4111 1111 1111 1111".to_owned()].iter().enumerate() {
            let text = format!("{before}for {value} it is {before}");
            let (first, last) = text.split_at(before.len() + 12);
            let path = |way: &str| file(&format!("{way}{at}{number}"));
            assert_eq!((bring(&path("a"), first), bring(&path("a"), last)), (200, 403), "{value}");
            assert_eq!((bring(&path("a"), first), bring(&path("a"), last)), (200, 403), "{value} again");
            // A provider may be told to put parts together in another order, and others may come between.
            assert_eq!((bring(&path("b"), last), bring(&path("b"), &before)), (200, 200), "{value}");
            assert_eq!(bring(&path("b"), first), 403, "{value}");
            // Parts of other files are no parts of this one.
            assert_eq!((bring(&path("c"), first), bring(&path("d"), last)), (200, 200), "{value}");
        }
    }
    // What comes whole is no part of anything.
    let text = format!("for {} it is", secret());
    for piece in [&text[..12], &text[12..]] {
        assert_eq!(bring("/upload/v1beta/files", piece), 200, "{piece}");
    }
}
