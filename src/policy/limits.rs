//! Every limit of inspection, by name; the values come from `[limits]` of the configuration.

/// The bounds of what is read, kept and decoded. All of them can change without a restart.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// The longest body, or one text of `/v1/scan`, that is inspected whole; past it: 413.
    pub max_inspect_bytes: usize,
    /// The longest body of any kind, binary parts of uploads included; past it: 413.
    pub max_body_bytes: usize,
    /// The bytes that all exchanges together may hold back; past it: 503.
    pub buffered_bytes_total: usize,
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
