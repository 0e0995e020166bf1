//! Microseconds for each layer and size, on one thread.

use std::hint::black_box;
use std::time::Instant;

use portcullis::scan::classifier::Origin;
use portcullis::scan::classifier::Spellings;
use serde_json::json;

use crate::layers::Layers;
use crate::measure::quantile;
use crate::report::Report;
use crate::rows::Text;

const SIZES: [usize; 3] = [1 << 10, 4 << 10, 64 << 10];
const ROUNDS: usize = 300;

/// Measures each layer on prose of each size.
pub fn measure(layers: &Layers, long: &[Text], report: &mut Report) {
    let prose: String =
        long.iter().filter(|row| row.source == "long/chat-concat").map(|row| row.text.as_str()).collect();
    let (mut lines, mut values) = (Vec::new(), Vec::new());
    for bytes in SIZES {
        let texts: Vec<&str> = (0..ROUNDS).filter_map(|at| cut(&prose, at * 997, bytes)).collect();
        let mut taken: [Vec<f64>; 3] = Default::default();
        for text in &texts {
            let patterns = timed(&mut taken[0], || layers.patterns(text));
            let learned =
                timed(&mut taken[2], || layers.learned(text, Origin::User, &patterns, Spellings::All));
            let findings: Vec<_> = patterns.into_iter().chain(learned).collect();
            timed(&mut taken[1], || layers.ruled(text, &findings));
        }
        for (layer, taken) in ["l1", "l2", "l3"].iter().zip(&mut taken) {
            let (middle, late) = (quantile(taken, 0.5), quantile(taken, 0.99));
            lines.push(vec![
                format!("{} KiB", bytes >> 10),
                (*layer).to_owned(),
                taken.len().to_string(),
                format!("{middle:.1}"),
                format!("{late:.1}"),
            ]);
            values.push(
                json!({ "bytes": bytes, "layer": layer, "n": taken.len(), "p50_us": middle, "p99_us": late }),
            );
        }
    }
    report.table(
        "Microseconds by layer",
        "English chats, one thread, warm.",
        &["text", "layer", "n", "p50", "p99"],
        &lines,
        json!(values),
    );
}

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
