//! What is found in harmless texts and in recorded traffic, for each ten kilobytes and category, under the default policy.
//!
//! In: texts and bodies, judged as a gateway judges them, once as what people ask and once as what models answer. Out: for each
//! source what is reported at all, and what is acted on. Not all of it is false: documentation and traffic name people,
//! addresses and keys, and some that they show are no examples.

use std::collections::BTreeMap;

use portcullis::policy::decision::Action;
use portcullis::policy::decision::Direction;
use portcullis::scan::threat::Category;
use portcullis::scan::threat::Confidence;
use serde_json::Value;
use serde_json::json;

use crate::gateway::Body;
use crate::gateway::Gateway;
use crate::gateway::Judged;
use crate::measure::Rate;
use crate::measure::Share;
use crate::report::Report;
use crate::rows::Recorded;
use crate::rows::Text;

/// What is counted.
const CATEGORIES: [Category; 4] =
    [Category::Secrets, Category::Pii, Category::Injection, Category::Exfiltration];
const DIRECTIONS: [Direction; 2] = [Direction::Request, Direction::Response];
const ALL: &str = "all";

/// What was found in the texts of one source.
#[derive(Default)]
struct Tally {
    bytes: usize,
    /// How many texts are changed or refused.
    touched: Share,
    /// How many could not be read.
    unread: usize,
    /// Findings of medium confidence or more, by category.
    found: [usize; CATEGORIES.len()],
    /// Findings that are masked or for which the text is refused, by category.
    acted_on: [usize; CATEGORIES.len()],
}

/// A direction, a kind of texts, and their source.
type Place = (&'static str, String, String);

impl Tally {
    fn note(&mut self, gateway: &Gateway, bytes: usize, judged: &Judged) {
        self.bytes += bytes;
        self.touched.note(judged.action >= Action::Redact);
        self.unread += usize::from(judged.unread);
        for observation in &judged.observations {
            let category = gateway.category(observation.detector);
            let Some(at) = CATEGORIES.iter().position(|it| Some(*it) == category) else { continue };
            self.found[at] += usize::from(observation.confidence >= Confidence::MEDIUM);
            self.acted_on[at] += usize::from(observation.action >= Action::Redact);
        }
    }

    fn rates(&self, counts: [usize; CATEGORIES.len()]) -> [Rate; CATEGORIES.len()] {
        counts.map(|count| Rate { count, bytes: self.bytes })
    }

    fn value(&self, counts: [usize; CATEGORIES.len()]) -> Value {
        let rates = self.rates(counts).map(Rate::value);
        let by_category: BTreeMap<&str, Value> =
            CATEGORIES.iter().map(|category| category.as_str()).zip(rates).collect();
        json!({ "texts": self.touched.all, "bytes": self.bytes, "unread": self.unread,
            "touched": self.touched.value(), "categories": by_category })
    }
}

/// Counts findings in long harmless texts, as requests and as answers.
pub fn long(gateway: &Gateway, long: &[Text], report: &mut Report) {
    let mut tallies: BTreeMap<Place, Tally> = BTreeMap::new();
    for row in long {
        for direction in DIRECTIONS {
            let Some(judged) = gateway.text(&row.text, direction) else { continue };
            for (kind, source) in [(row.kind.as_str(), row.source.as_str()), (ALL, ALL)] {
                let place = (direction.as_str(), kind.to_owned(), source.to_owned());
                tallies.entry(place).or_default().note(gateway, row.text.len(), &judged);
            }
        }
    }
    tables("False positives for each 10 kB of harmless text", &tallies, report);
}

/// Counts findings in what providers were sent and answered, requests and answers apart.
pub fn traffic(gateway: &Gateway, recorded: &[Recorded], report: &mut Report) {
    let mut tallies: BTreeMap<Place, Tally> = BTreeMap::new();
    for row in recorded {
        let direction = if row.is_request() { Direction::Request } else { Direction::Response };
        let Some(bytes) = row.bytes() else { continue };
        let length = bytes.len();
        let stream = row.stream && !row.is_request();
        let body = Body { direction, dialect: &row.dialect, media: &row.content_type, stream, bytes };
        let Some(judged) = gateway.body(&body) else { continue };
        for provider in [row.provider.as_str(), ALL] {
            let place = (direction.as_str(), "traffic".to_owned(), provider.to_owned());
            tallies.entry(place).or_default().note(gateway, length, &judged);
        }
    }
    tables("Findings for each 10 kB of recorded provider traffic", &tallies, report);
}

/// Writes what is found, and what is acted on.
fn tables(title: &str, tallies: &BTreeMap<Place, Tally>, report: &mut Report) {
    table(
        title,
        "Findings of medium confidence or more, by the gateway's own path, with 95 % intervals; the last column: how many of \
         the texts the default policy changes or refuses. The model reports once for each text.",
        tallies,
        |tally| tally.found,
        report,
    );
    table(
        &format!("{title}: acted on"),
        "The same, but only what the default policy masks or refuses a text for.",
        tallies,
        |tally| tally.acted_on,
        report,
    );
}

fn table(
    title: &str,
    remark: &str,
    tallies: &BTreeMap<Place, Tally>,
    counts: fn(&Tally) -> [usize; CATEGORIES.len()],
    report: &mut Report,
) {
    let line = |((direction, kind, source), tally): (&Place, &Tally)| {
        let mut line = vec![(*direction).to_owned(), kind.clone(), source.clone()];
        line.extend([tally.touched.all, tally.bytes / 1000].map(|count| count.to_string()));
        line.extend(tally.rates(counts(tally)).map(Rate::cell));
        line.push(tally.touched.cell());
        line
    };
    let lines: Vec<Vec<String>> = tallies.iter().map(line).collect();
    let value = |((direction, kind, source), tally): (&Place, &Tally)| json!({ "direction": direction, "kind": kind, "source": source, "counted": tally.value(counts(tally)) });
    let values: Vec<Value> = tallies.iter().map(value).collect();
    let columns = [
        "direction",
        "kind",
        "source",
        "n",
        "kB",
        "secrets",
        "personal data",
        "injection",
        "exfiltration",
        "changed or refused, %",
    ];
    report.table(title, remark, &columns, &lines, json!(values));
}
