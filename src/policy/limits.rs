//! Every limit of inspection, by name; the values come from `[limits]` of the configuration.

use crate::attachment::Bounds;
use crate::document::Problem;
use crate::document::fault::nearest;
use crate::document::section::Section;
use crate::llm::json::JsonLimits;

const GIB: u64 = 1 << 30;

/// The bounds of what is read, kept and decoded. All of them can change without a restart.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// The longest body, or one text of `/v1/scan`, that is inspected whole; past it: 413.
    pub max_inspect_bytes: usize,
    /// The longest body of any kind, binary parts of uploads included; past it: 413.
    pub max_body_bytes: usize,
    /// The bytes that all exchanges together may hold back; past it: 503.
    pub buffered_bytes_total: usize,
    /// How many of these one caller may hold, whatever it has under way; past it: 503. A caller is known by a key of ours,
    /// an agent by its name; on routes that pass credentials on, which anybody can make up, it is an address: of a balancer
    /// in front, that of all.
    pub buffered_bytes_per_caller: usize,
    /// The time one body may be scanned; past it the policy's fail mode decides.
    pub scan_ms: u64,
    /// The deepest nesting of a JSON body.
    pub json_depth_max: usize,
    /// The most strings, keys included, in a JSON body.
    pub json_strings_max: usize,
    /// The most bytes a compressed body may become.
    pub decompressed_bytes_max: usize,
    /// The most bytes one compressed byte may become, once past `decompressed_ratio_from_bytes`.
    pub decompressed_ratio_max: usize,
    /// From how many decompressed bytes on the ratio is looked at.
    pub decompressed_ratio_from_bytes: usize,
    /// The most bytes one stream may hold back before the policy's fail mode decides.
    pub stream_hold_bytes_max: usize,
    /// The longest single event of a stream.
    pub stream_event_bytes_max: usize,
    /// The most lanes (choices, blocks, tool calls) under way in one stream.
    pub stream_lanes_max: usize,
    /// The most parts of a multipart body.
    pub multipart_parts_max: usize,
    /// How much of a document is read that a body brings.
    pub documents: Bounds,
    /// The most requests that one caller may have under way; 0 for unlimited.
    pub concurrent_requests_per_caller: u32,
    /// The most upgraded connections that one caller may have open, whichever addresses they come from; 0 for as many as
    /// requests. A connection belongs to a caller only once it is upgraded: before, and between requests, nobody is
    /// known on it, and it counts for its address (`max_connections_per_address`).
    pub upgraded_connections_per_caller: u32,
    /// Requests per minute and burst of each tier.
    pub tiers: Vec<TierLimit>,
}

/// The token bucket of one tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierLimit {
    /// The tier's name, as in `community`.
    pub tier: String,
    /// The refill; `None` for unlimited.
    pub requests_per_minute: Option<u32>,
    /// The capacity; `None` for unlimited.
    pub burst: Option<u32>,
}

impl Limits {
    /// Returns the limits of one JSON body.
    pub fn json(&self) -> JsonLimits {
        let strings_max = self.json_strings_max;
        JsonLimits { depth_max: self.json_depth_max, strings_max, nodes_max: strings_max.saturating_mul(4) }
    }

    /// Reads `[limits]`.
    pub fn read(section: &mut Section<'_>) -> Self {
        let mut tiers = Vec::new();
        for (name, mut inner) in section.named("tiers") {
            tiers.push(TierLimit::read(name, &mut inner));
        }
        let limits = Self {
            max_inspect_bytes: section.count("max_inspect_bytes", 1..=GIB),
            max_body_bytes: section.count("max_body_bytes", 1..=4 * GIB),
            buffered_bytes_total: section.count("buffered_bytes_total", 1 << 20..=1024 * GIB),
            buffered_bytes_per_caller: section.count("buffered_bytes_per_caller", 1 << 20..=1024 * GIB),
            scan_ms: section.number("scan_ms", 1..=600_000),
            json_depth_max: section.count("json_depth_max", 1..=512),
            json_strings_max: section.count("json_strings_max", 1..=10_000_000),
            decompressed_bytes_max: section.count("decompressed_bytes_max", 1..=GIB),
            decompressed_ratio_max: section.count("decompressed_ratio_max", 1..=1_000_000),
            decompressed_ratio_from_bytes: section.count("decompressed_ratio_from_bytes", 0..=GIB),
            stream_hold_bytes_max: section.count("stream_hold_bytes_max", 1024..=GIB),
            stream_event_bytes_max: section.count("stream_event_bytes_max", 1024..=GIB),
            stream_lanes_max: section.count("stream_lanes_max", 1..=65_536),
            multipart_parts_max: section.count("multipart_parts_max", 1..=10_000),
            documents: read_bounds(section),
            concurrent_requests_per_caller: section.number("concurrent_requests_per_caller", 0..=1_000_000)
                as u32,
            upgraded_connections_per_caller: section.number("upgraded_connections_per_caller", 0..=1_000_000)
                as u32,
            tiers,
        };
        if limits.max_body_bytes < limits.max_inspect_bytes {
            section.invalid("max_body_bytes", "expected no less than max_inspect_bytes", None);
        }
        section.finish();
        limits
    }
}

fn read_bounds(section: &mut Section<'_>) -> Bounds {
    Bounds {
        text_bytes_max: section.count("document_text_bytes_max", 1024..=GIB),
        expanded_bytes_max: section.count("document_expanded_bytes_max", 1024..=GIB),
        entries_max: section.count("document_entries_max", 1..=1_000_000),
        objects_max: section.count("document_objects_max", 1..=10_000_000),
        depth_max: section.count("document_depth_max", 1..=8),
    }
}

impl TierLimit {
    /// Reads `[limits.tiers.NAME]` or `[a2a.tiers.NAME]`; 0 stands for unlimited.
    pub(super) fn read(name: &str, section: &mut Section<'_>) -> Self {
        const TIERS: [&str; 4] = ["community", "developer", "professional", "enterprise"];
        if !TIERS.contains(&name) {
            let suggestion = nearest(name, TIERS);
            section.fault("", Problem::Unknown { what: "tier", suggestion });
        }
        let mut number = |key| {
            let number = section.number(key, 0..=u64::from(u32::MAX));
            u32::try_from(number).ok().filter(|number| *number > 0)
        };
        let (requests_per_minute, burst) = (number("requests_per_minute"), number("burst"));
        section.finish();
        Self { tier: name.to_owned(), requests_per_minute, burst }
    }
}
