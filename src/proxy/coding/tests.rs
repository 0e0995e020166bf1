//! Whole bodies and pieces of them, sound, broken, cut, and far larger than they look.

use http::HeaderValue;

use super::*;
use crate::proxy::gate::ByteBudget;

const LIMITS: CodingLimits =
    CodingLimits { decoded_bytes_max: 4 << 20, ratio_max: 100, ratio_from_bytes: 1 << 20 };
const CODINGS: [Coding; 4] = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];

fn encode(coding: Coding, body: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::default();
    match coding {
        Coding::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(body).unwrap();
            encoder.finish().unwrap()
        }
        Coding::Deflate => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(body).unwrap();
            encoder.finish().unwrap()
        }
        Coding::Brotli => {
            let mut encoded = Vec::new();
            brotli::CompressorWriter::new(&mut encoded, 4096, 5, 20).write_all(body).unwrap();
            encoded
        }
        Coding::Zstd => zstd::stream::encode_all(body, 3).unwrap(),
    }
}

/// Decodes where there is room for anything.
fn decode(coding: Coding, encoded: &[u8]) -> Result<Bytes, CodingFault> {
    coding.decode(encoded, LIMITS, &mut Reserved::none(&ByteBudget::new(usize::MAX)))
}

#[test]
fn whole_and_piecewise_agree() {
    let body = b"{\"messages\":[]} ".repeat(500);
    for coding in CODINGS {
        let encoded = encode(coding, &body);
        assert_eq!(decode(coding, &encoded).unwrap(), body, "{coding:?}");
        for cut in [1, 2, 7, encoded.len()] {
            let mut decoder = StreamDecoder::new(coding, LIMITS).unwrap();
            let pieces = encoded.chunks(cut).map(|piece| decoder.push(piece).unwrap());
            let decoded: Vec<u8> = pieces.flat_map(|piece| piece.to_vec()).collect();
            assert_eq!(decoded, body, "{coding:?} cut at {cut}");
            assert!(decoder.finish().is_ok(), "{coding:?} cut at {cut}");
        }
    }
}

#[test]
fn a_stream_that_breaks_off_is_broken_wherever_it_does() {
    let body = b"{\"messages\":[]} and some text beside it";
    for coding in CODINGS {
        let encoded = encode(coding, body);
        for length in 1..encoded.len() {
            let mut decoder = StreamDecoder::new(coding, LIMITS).unwrap();
            decoder.push(&encoded[..length]).unwrap();
            assert!(matches!(decoder.finish(), Err(CodingFault::Broken)), "{coding:?} cut at {length}");
        }
        assert!(StreamDecoder::new(coding, LIMITS).unwrap().finish().is_ok(), "{coding:?}, empty");
    }
}

#[test]
fn what_stands_behind_the_end_of_a_coding_is_refused() {
    let body = b"{\"messages\":[]} ".repeat(500);
    let bare = {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&body).unwrap();
        (Coding::Deflate, encoder.finish().unwrap())
    };
    for (coding, encoded) in CODINGS.map(|coding| (coding, encode(coding, &body))).into_iter().chain([bare]) {
        assert_eq!(decode(coding, &encoded).unwrap(), body, "{coding:?}");
        // Up to what a decoder reads at once, and past it.
        for more in [1, BROTLI_BUFFER_BYTES - encoded.len(), BROTLI_BUFFER_BYTES + 1, 100_000] {
            let longer = [encoded.as_slice(), &vec![b'x'; more]].concat();
            let read = decode(coding, &longer);
            assert!(matches!(read, Err(CodingFault::Broken)), "{coding:?} and {more} bytes");
            let mut decoder = StreamDecoder::new(coding, LIMITS).unwrap();
            let piecewise = decoder.push(&longer).and_then(|_| decoder.finish());
            assert!(matches!(piecewise, Err(CodingFault::Broken)), "{coding:?} and {more} bytes, piecewise");
        }
    }
}

#[test]
fn an_empty_body_is_of_any_coding() {
    for coding in CODINGS {
        assert_eq!(decode(coding, b"").unwrap(), "", "{coding:?}");
    }
}

#[test]
fn bombs_and_broken_bodies_are_refused() {
    let zeros = vec![0u8; 32 << 20];
    for coding in CODINGS {
        let bomb = encode(coding, &zeros);
        assert!(matches!(decode(coding, &bomb), Err(CodingFault::Bomb)), "{coding:?}");
        let piecewise = StreamDecoder::new(coding, LIMITS).unwrap().push(&bomb);
        assert!(matches!(piecewise, Err(CodingFault::Bomb)), "{coding:?}");
        let whole = encode(coding, b"some text that is long enough to be cut in half");
        let half = decode(coding, &whole[..whole.len() / 2]);
        assert!(matches!(half, Err(CodingFault::Broken)), "{coding:?}");
    }
}

#[test]
fn what_a_body_unfolds_to_is_of_the_room_of_all() {
    let body: Vec<u8> = (0..400_000).flat_map(|count: u32| count.to_string().into_bytes()).collect();
    for coding in CODINGS {
        let encoded = encode(coding, &body);
        let budget = ByteBudget::new(body.len());
        let mut reserved = Reserved::none(&budget);
        reserved.grow(encoded.len()).unwrap();
        let refused = coding.decode(&encoded, LIMITS, &mut reserved);
        assert!(matches!(refused, Err(CodingFault::Room(GateFault::Overloaded))), "{coding:?}");
        assert_eq!(budget.used(), encoded.len(), "{coding:?}: what was taken is given back");
        budget.resize(4 * body.len());
        assert_eq!(coding.decode(&encoded, LIMITS, &mut reserved).unwrap(), body, "{coding:?}");
        assert_eq!(budget.used(), encoded.len() + body.len(), "{coding:?}");
    }
}

#[test]
fn windows_are_no_larger_than_a_content_coding_may_have() {
    let body = b"{\"messages\":[]} ".repeat(500);
    let piecewise = |coding, encoded: &[u8]| StreamDecoder::new(coding, LIMITS).unwrap().push(encoded);
    for (window_log, is_read) in [(ZSTD_WINDOW_LOG, true), (ZSTD_WINDOW_LOG + 1, false)] {
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(window_log).unwrap();
        encoder.write_all(&body).unwrap();
        let encoded = encoder.finish().unwrap();
        assert_eq!(decode(Coding::Zstd, &encoded).is_ok(), is_read, "{window_log}");
        assert_eq!(piecewise(Coding::Zstd, &encoded).is_ok(), is_read, "{window_log}, piecewise");
    }
    let parameters = brotli::enc::BrotliEncoderParams {
        large_window: true,
        quality: 5,
        ..brotli::enc::BrotliEncoderParams::default()
    };
    let mut encoded = Vec::new();
    brotli::BrotliCompress(&mut &body[..], &mut encoded, &parameters).unwrap();
    assert!(matches!(decode(Coding::Brotli, &encoded), Err(CodingFault::Broken)));
    assert!(matches!(piecewise(Coding::Brotli, &encoded), Err(CodingFault::Broken)), "piecewise");
}

#[test]
fn all_fields_of_a_head_are_one_list() {
    let told = |values: &[&str]| {
        let value = |value: &&str| (header::CONTENT_ENCODING, HeaderValue::from_str(value).unwrap());
        Coding::of(&values.iter().map(value).collect())
    };
    let none: [&[&str]; 5] = [&[], &["Identity"], &[""], &["identity, "], &["", "identity"]];
    for values in none {
        assert_eq!(told(values).unwrap(), None, "{values:?}");
    }
    let one: [&[&str]; 4] = [&["gzip"], &["identity, X-GZip"], &["", "gzip"], &["gzip", "identity"]];
    for values in one {
        assert_eq!(told(values).unwrap(), Some(Coding::Gzip), "{values:?}");
    }
    let others: [&[&str]; 4] = [&["gzip, br"], &["gzip", "gzip"], &["identity", "lzw"], &["\u{e9}"]];
    for values in others {
        assert!(matches!(told(values), Err(CodingFault::Unknown)), "{values:?}");
    }
}
