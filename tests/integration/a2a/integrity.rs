//! A signature covers the bytes of a body as they came over the wire, however they were cut and whatever their coding.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::body::Frame;
use serde_json::json;
use tokio::runtime::Runtime;

use super::bodies::signed;
use super::*;
use crate::upstream::Upstream;

const INVALID: &str = "A2A_INTEGRITY_INVALID";

/// A request body as it is sent.
struct Sent {
    bytes: Vec<u8>,
    is_coded: bool,
}

impl Sent {
    fn plain() -> Self {
        Self { bytes: BODY.as_bytes().to_vec(), is_coded: false }
    }

    fn coded() -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(BODY.as_bytes()).expect("it is written");
        Self { bytes: encoder.finish().expect("it ends"), is_coded: true }
    }

    /// Returns the headers of a call that signed some bytes and sends this body.
    fn headers(&self, over: &[u8]) -> Headers {
        let coding = self.is_coded.then(|| ("content-encoding", "gzip".to_owned()));
        signed(over).into_iter().chain(coding).collect()
    }

    /// Returns it in two pieces, for every place where it can be cut; then byte by byte.
    fn cuts(&self) -> Vec<Vec<Bytes>> {
        let cut = |at: usize| {
            let (head, tail) = self.bytes.split_at(at);
            [head, tail].into_iter().filter(|piece| !piece.is_empty()).map(Bytes::copy_from_slice).collect()
        };
        let single = self.bytes.chunks(1).map(Bytes::copy_from_slice).collect();
        (0..self.bytes.len()).map(cut).chain([single]).collect()
    }
}

/// Returns a body of no declared length: each piece is a chunk, or a DATA frame.
fn in_pieces(pieces: Vec<Bytes>) -> impl Body<Data = Bytes, Error = Infallible> + Send + Unpin {
    let frames: Vec<_> = pieces.into_iter().map(|piece| Ok(Frame::data(piece))).collect();
    StreamBody::new(stream::iter(frames))
}

#[test]
fn a_signature_is_of_the_bytes_as_they_came_however_they_are_cut() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = deployment.start(upstream.address, UNPACED);
    let planner = deployment.authority.agent("planner");
    let at = (gateway.proxy, &deployment.server);
    Runtime::new().expect("a runtime").block_on(async {
        for protocol in ["http/1.1", "h2"] {
            for sent in [Sent::plain(), Sent::coded()] {
                let headers = sent.headers(&sent.bytes);
                for pieces in sent.cuts() {
                    let cut: Vec<usize> = pieces.iter().map(Bytes::len).collect();
                    let told =
                        call_with(at, Some(&planner), protocol, "/agents/x", &headers, in_pieces(pieces))
                            .await;
                    assert_eq!(told.status, 200, "{protocol} {cut:?}: {}", told.body);
                }
                let whole = Full::new(Bytes::from(sent.bytes.clone()));
                let told = call_with(at, Some(&planner), protocol, "/agents/x", &headers, whole).await;
                assert_eq!(told.status, 200, "{protocol}, of a declared length: {}", told.body);
                assert_eq!(upstream.take().len(), sent.cuts().len() + 1, "each was forwarded once");
            }
        }
    });
}

#[test]
fn a_signature_of_other_bytes_is_refused_however_they_are_cut() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = deployment.start(upstream.address, UNPACED);
    let planner = deployment.authority.agent("planner");
    let at = (gateway.proxy, &deployment.server);
    let (plain, coded) = (Sent::plain(), Sent::coded());
    let spaced = BODY.replace(':', ": ").into_bytes();
    let cases: [(&str, &Sent, &[u8]); 5] = [
        ("what a gzip body says", &coded, &plain.bytes),
        ("a gzip body that is not sent", &plain, &coded.bytes),
        ("the same JSON, written otherwise", &plain, &spaced),
        ("all but the last byte", &plain, &plain.bytes[..plain.bytes.len() - 1]),
        ("nothing", &plain, b""),
    ];
    Runtime::new().expect("a runtime").block_on(async {
        for protocol in ["http/1.1", "h2"] {
            for (what, sent, over) in cases {
                let headers = sent.headers(over);
                for size in [1, 7, sent.bytes.len()] {
                    let pieces = sent.bytes.chunks(size).map(Bytes::copy_from_slice).collect();
                    let told =
                        call_with(at, Some(&planner), protocol, "/agents/x", &headers, in_pieces(pieces))
                            .await;
                    assert_eq!(
                        (told.status, &told.body["code"]),
                        (403, &json!(INVALID)),
                        "{protocol}, {what}, in pieces of {size}"
                    );
                }
            }
        }
    });
    assert!(upstream.take().is_empty(), "a refused body travelled");
}
