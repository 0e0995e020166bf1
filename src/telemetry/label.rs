//! The closed sets that label metrics; nothing a caller sends becomes a label.

/// Declares a closed set of label values, in the order of their declaration.
macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($(#[$member_doc:meta])* $member:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$member_doc])* $member,)+ }

        impl $name {
            /// Every member, in order.
            pub const ALL: &'static [Self] = &[$(Self::$member),+];

            /// Returns the label's text.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$member => $text,)+ }
            }
        }
    };
}

labels! {
    /// Which plane a request came in by.
    Listener {
        /// The data plane.
        Proxy = "proxy",
        /// The management plane.
        Admin = "admin",
    }
}

labels! {
    /// What was done about a finding.
    MetricAction {
        /// Nothing.
        Allow = "allow",
        /// It was noted.
        Monitor = "monitor",
        /// It was masked.
        Redact = "redact",
        /// The body was refused.
        Block = "block",
    }
}

labels! {
    /// The layer of a scan that was timed.
    MetricLayer {
        /// Patterns and checks.
        L1Regex = "l1_regex",
        /// Rules over findings.
        L2Rules = "l2_rules",
        /// The trained model.
        L3Ml = "l3_ml",
    }
}

labels! {
    /// Which side of an exchange tokens were counted on.
    TokenType {
        /// What was sent to the model.
        Prompt = "prompt",
        /// What the model answered.
        Completion = "completion",
    }
}

labels! {
    /// What became of an audit event.
    AuditResult {
        /// It was written, or queued where that is enough.
        Recorded = "recorded",
        /// It was refused; the fail mode decided about the traffic.
        Lost = "lost",
    }
}

labels! {
    /// Why a body could not be read.
    Unreadable {
        /// An unknown or broken content encoding.
        Encoding = "encoding",
        /// Not strict JSON.
        Json = "json",
        /// Past the size limit.
        TooLarge = "too_large",
        /// Not scanned within its time.
        Timeout = "timeout",
        /// A media type nobody reads.
        MediaType = "media_type",
        /// A broken event stream.
        Stream = "stream",
    }
}
