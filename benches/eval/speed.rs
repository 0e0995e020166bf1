//! Microseconds for each layer and size, on one thread, on texts that somebody wrote for people or machines.
//!
//! A request is read in every spelling, and its model reads them, too: that is what is timed, and not the search of a text as
//! it stands. The last row of a size is a whole request that brings the text, judged by the gateway's own path.

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use portcullis::policy::decision::Direction;
use portcullis::scan::classifier::Origin;
use serde_json::json;

use crate::gateway::Body;
use crate::gateway::Gateway;
use crate::layers::Layers;
use crate::measure::quantile;
use crate::report::Report;
use crate::rows::Text;

const SIZES: [usize; 3] = [1 << 10, 4 << 10, 64 << 10];
const ROUNDS: usize = 300;
/// How many texts are read before the clock counts.
const WARM_UP: usize = 20;
/// How far apart the texts begin, so that none is the one before: what is known to be clean is not read again.
const STEP_BYTES: usize = 9973;
/// What is timed: names, and how the kinds of the texts begin.
const KINDS: [(&str, &str); 3] = [("chats", "chat"), ("documentation", "docs"), ("code", "code")];
/// What is timed of each text.
const PARTS: [&str; 5] =
    ["l1, as it stands", "l1, in every spelling", "l2", "l3, in every spelling", "a whole request"];

/// Measures each layer on texts of each kind and size.
pub fn measure(layers: &Layers, gateway: &Gateway, long: &[Text], report: &mut Report) {
    let (mut lines, mut values) = (Vec::new(), Vec::new());
    for (kind, start) in KINDS {
        let of_kind = long.iter().filter(|row| row.kind.starts_with(start));
        let all: String = of_kind.map(|row| row.text.as_str()).collect();
        for bytes in SIZES {
            let mut texts = (0..ROUNDS + WARM_UP).filter_map(|at| cut(&all, at * STEP_BYTES, bytes));
            let mut taken: [Vec<f64>; PARTS.len()] = Default::default();
            texts
                .by_ref()
                .take(WARM_UP)
                .for_each(|text| time(layers, gateway, text, &mut Default::default()));
            texts.for_each(|text| time(layers, gateway, text, &mut taken));
            for (part, taken) in PARTS.iter().zip(&mut taken) {
                let (middle, late) = (quantile(taken, 0.5), quantile(taken, 0.99));
                let cells = [format!("{middle:.1}"), format!("{late:.1}")];
                let size = format!("{} KiB", bytes >> 10);
                let line = vec![kind.to_owned(), size, (*part).to_owned(), taken.len().to_string()];
                lines.push([line, cells.to_vec()].concat());
                values.push(json!({ "kind": kind, "bytes": bytes, "part": part, "n": taken.len(),
                    "p50_us": middle, "p99_us": late }));
            }
        }
    }
    report.table(
        "Microseconds by layer",
        "Of harmless texts, one thread, warm. Layer 1 reads a request in every spelling; what it would take as it stands is the \
         first row. A whole request is a body of JSON with the text as a person's words, under the default policy.",
        &["text", "size", "what", "n", "p50", "p99"],
        &lines,
        json!(values),
    );
}

/// Times one text, part by part.
fn time(layers: &Layers, gateway: &Gateway, text: &str, taken: &mut [Vec<f64>; PARTS.len()]) {
    let [plain, spelt, ruled, learned, whole] = taken;
    timed(plain, || layers.patterns(text));
    let searched = timed(spelt, || layers.spelt(text));
    let finding =
        timed(learned, || layers.learned(text, Origin::User, &searched.findings, searched.spellings.clone()));
    let findings: Vec<_> = searched.findings.into_iter().chain(finding).collect();
    timed(ruled, || layers.ruled(text, &findings));
    let message = json!({ "model": "any", "messages": [{ "role": "user", "content": text }] });
    let body = Body {
        direction: Direction::Request,
        dialect: "openai-chat",
        media: "application/json",
        stream: false,
        bytes: Bytes::from(message.to_string()),
    };
    timed(whole, || gateway.body(&body));
}

/// Returns so many bytes of a text, from a place on; it begins again at the end.
fn cut(text: &str, from: usize, bytes: usize) -> Option<&str> {
    let start =
        (from % text.len().saturating_sub(bytes).max(1)..text.len()).find(|at| text.is_char_boundary(*at))?;
    let end = (start + bytes..=text.len()).find(|at| text.is_char_boundary(*at))?;
    text.get(start..end)
}

fn timed<T>(taken: &mut Vec<f64>, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = black_box(work());
    taken.push(began.elapsed().as_secs_f64() * 1e6);
    done
}
