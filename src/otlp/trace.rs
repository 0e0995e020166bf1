//! Where an exchange stands in a trace (W3C Trace Context, <https://www.w3.org/TR/trace-context/>).

use http::HeaderMap;
use http::HeaderName;
use opentelemetry::Context;
use opentelemetry::TraceFlags;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::SpanContext;
use opentelemetry::trace::SpanId;
use opentelemetry::trace::TraceContextExt;
use opentelemetry::trace::TraceId;
use opentelemetry::trace::TraceState;
use opentelemetry_http::HeaderExtractor;
use opentelemetry_http::HeaderInjector;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::IdGenerator;
use opentelemetry_sdk::trace::RandomIdGenerator;

const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";
/// The longest `tracestate` that is passed on: as much as everybody has to (section 3.3.1.5), and no more.
const STATE_BYTES_MAX: usize = 512;
/// The most members of a `tracestate` (section 3.3.1.1).
const STATE_MEMBERS_MAX: usize = 32;
/// How long the version, the trace, the span and the flags are in a `traceparent` (section 3.2.2), in hexadecimal.
const PARENT_PARTS: [usize; 4] = [2, 32, 16, 2];

/// The place of one exchange in a trace.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The span of the caller, where there is one.
    pub(super) parent: Option<SpanContext>,
    /// The span of the exchange.
    pub(super) exchange: SpanContext,
    /// The span of what is asked of the provider.
    pub(super) provider: SpanContext,
}

/// Which traces are sent.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// Whether the trace of a caller is followed.
    pub trust_caller: bool,
    /// Of a hundred traces that begin here, how many are sent.
    pub percent: u8,
}

impl Trace {
    /// Returns the place of an exchange whose request has these headers.
    pub fn begin(headers: &HeaderMap, sampling: Sampling) -> Self {
        let parent = sampling.trust_caller.then(|| told(headers)).flatten();
        let ids = RandomIdGenerator::default();
        let (trace, flags, state) = match &parent {
            Some(parent) => (parent.trace_id(), parent.trace_flags(), parent.trace_state().clone()),
            None => {
                let trace = ids.new_trace_id();
                (trace, sampling.flags(trace), TraceState::default())
            }
        };
        let span = || SpanContext::new(trace, ids.new_span_id(), flags, false, state.clone());
        Self { exchange: span(), provider: span(), parent }
    }

    /// Tells whether its spans are to be sent.
    pub fn is_sampled(&self) -> bool {
        self.exchange.is_sampled()
    }

    /// Returns the id of the trace, where its spans are to be sent.
    pub fn sampled(&self) -> Option<u128> {
        self.is_sampled().then(|| u128::from_be_bytes(self.exchange.trace_id().to_bytes()))
    }

    /// Tells the provider where it stands, in `traceparent` and `tracestate`.
    pub fn tell(&self, headers: &mut HeaderMap) {
        let context = Context::new().with_remote_span_context(self.provider.clone());
        let is_stateless = self.provider.trace_state().header().is_empty();
        TraceContextPropagator::new().inject_context(&context, &mut HeaderInjector(headers));
        if is_stateless {
            headers.remove(STATE);
        }
    }

    pub(super) fn parent_id(&self) -> SpanId {
        self.parent.as_ref().map_or(SpanId::INVALID, SpanContext::span_id)
    }
}

impl Sampling {
    /// Decides by the trace's own id, of which every part of a deployment knows the same.
    fn flags(self, trace: TraceId) -> TraceFlags {
        let [.., a, b, c, d] = trace.to_bytes();
        let is_sampled = u32::from_be_bytes([a, b, c, d]) % 100 < u32::from(self.percent);
        if is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() }
    }
}

/// Returns what a caller tells, if it can be read and means one thing: of two places in traces nobody knows which counts.
fn told(headers: &HeaderMap) -> Option<SpanContext> {
    let mut parents = headers.get_all(PARENT).iter();
    let (parent, None) = (parents.next()?, parents.next()) else { return None };
    if !is_parent(parent.as_bytes().trim_ascii()) {
        return None;
    }
    let told = HeaderMap::from_iter([(HeaderName::from_static(PARENT), parent.clone())]);
    let context =
        TraceContextPropagator::new().extract_with_context(&Context::new(), &HeaderExtractor(&told));
    let told = context.span().span_context().clone();
    // What cannot be read of the state changes nothing about the parent (section 3.3).
    let state = state(headers).unwrap_or_default();
    let (trace, span, flags) = (told.trace_id(), told.span_id(), told.trace_flags());
    told.is_valid().then(|| SpanContext::new(trace, span, flags, told.is_remote(), state))
}

/// Returns what other systems tell of a trace, if all of it has its form, and it is not too long: each span carries it. A
/// part of it is passed on to nobody, for where one member is malformed, another may be what is left of it.
fn state(headers: &HeaderMap) -> Option<TraceState> {
    let mut members: Vec<(&str, &str)> = Vec::new();
    // A list may be told in several fields, and a member may be empty.
    for field in headers.get_all(STATE) {
        let told = str::from_utf8(field.as_bytes()).ok()?.split(',');
        for member in told.map(|member| member.trim_matches([' ', '\t'])).filter(|member| !member.is_empty())
        {
            let (key, value) = member.split_once('=')?;
            let is_value = !value.is_empty() && value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
            if key.is_empty() || !is_value || members.len() == STATE_MEMBERS_MAX {
                return None;
            }
            // Of two that a key has, the first was told last.
            if members.iter().all(|(earlier, _)| *earlier != key) {
                members.push((key, value));
            }
        }
    }
    let state = TraceState::from_key_value(members).ok()?;
    (state.header().len() <= STATE_BYTES_MAX).then_some(state)
}

/// Tells whether a `traceparent` has the form of its version; later ones than ours may say more. A short number is another
/// one to whoever fills it up at its other end.
fn is_parent(text: &[u8]) -> bool {
    let parts: Vec<&[u8]> = text.split(|byte| *byte == b'-').collect();
    let is_whole = match parts.len().checked_sub(PARENT_PARTS.len()) {
        None => false,
        Some(0) => true,
        Some(_) => parts.first().is_some_and(|version| *version != b"00"),
    };
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let fits = |(part, length): (&&[u8], usize)| part.len() == length && part.iter().all(is_hex);
    is_whole && parts.iter().zip(PARENT_PARTS).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn headers(parent: &str) -> HeaderMap {
        HeaderMap::from_iter([("traceparent".parse().expect("a name"), parent.parse().expect("a value"))])
    }

    fn sampling(trust_caller: bool, percent: u8) -> Sampling {
        Sampling { trust_caller, percent }
    }

    #[test]
    fn a_provider_is_told_the_callers_trace_and_our_span() {
        let mut headers = headers(CALLER);
        headers.insert("tracestate", "vendor=1".parse().expect("a value"));
        let trace = Trace::begin(&headers, sampling(true, 0));
        trace.tell(&mut headers);
        let told = headers["traceparent"].to_str().expect("text").to_owned();
        assert!(told.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && told.ends_with("-01"), "{told}");
        assert_ne!(told, CALLER);
        assert_eq!(headers["tracestate"], "vendor=1");
        assert!(trace.is_sampled());
    }

    #[test]
    fn what_cannot_be_read_or_is_not_trusted_begins_a_trace() {
        let unsampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
        assert!(!Trace::begin(&headers(unsampled), sampling(true, 100)).is_sampled());
        let (short, signed) = (CALLER.replace("-4bf9", "-"), CALLER.replace("-4", "-+"));
        let (more, last) = (format!("{CALLER}-0"), format!("{CALLER}-"));
        let unread = ["00-zz-00-01", "", "00-0-0-0", "00-1-1-01", &short, &signed, &more, &last];
        for (parent, trust) in unread.map(|parent| (parent, true)).into_iter().chain([(CALLER, false)]) {
            let trace = Trace::begin(&headers(parent), sampling(trust, 100));
            assert!(trace.parent.is_none() && trace.is_sampled(), "{parent}");
            assert!(!Trace::begin(&headers(parent), sampling(trust, 0)).is_sampled());
        }
    }

    #[test]
    fn a_later_version_may_say_more() {
        for parent in [CALLER.replacen("00", "cc", 1), CALLER.replacen("00", "cc", 1) + "-what"] {
            assert!(Trace::begin(&headers(&parent), sampling(true, 0)).parent.is_some(), "{parent}");
        }
    }

    #[test]
    fn a_state_in_several_fields_is_one_and_two_parents_are_none() {
        let mut headers = headers(CALLER);
        for state in ["one=1,two=2", "", "three=3"] {
            headers.append(STATE, state.parse().expect("a value"));
        }
        let mut told = HeaderMap::new();
        Trace::begin(&headers, sampling(true, 0)).tell(&mut told);
        assert_eq!(told[STATE], "one=1,two=2,three=3");
        headers.append(PARENT, CALLER.replace("4bf9", "5ca1").parse().expect("a value"));
        let trace = Trace::begin(&headers, sampling(true, 100));
        assert!(trace.parent.is_none() && trace.is_sampled(), "{trace:?}");
    }

    #[test]
    fn a_state_that_is_too_long_is_passed_on_to_nobody() {
        for (bytes, is_told) in [(STATE_BYTES_MAX, true), (STATE_BYTES_MAX + 1, false)] {
            // Pairs of thirty bytes with the comma, as many as it takes; the last fills up.
            let mut state: String = (0..16).map(|n| format!("k{n:02}={},", "v".repeat(25))).collect();
            state.push_str("last=");
            state.extend(std::iter::repeat_n('v', bytes - state.len()));
            let mut headers = headers(CALLER);
            headers.insert("tracestate", state.parse().expect("a value"));
            let trace = Trace::begin(&headers, sampling(true, 0));
            assert!(trace.is_sampled(), "the caller's trace is followed all the same");
            trace.tell(&mut headers);
            assert_eq!(headers.contains_key("tracestate"), is_told, "{bytes}");
        }
    }

    #[test]
    fn a_state_is_passed_on_as_it_was_told_or_not_at_all() {
        let told = |state: &[u8]| {
            let mut headers = headers(CALLER);
            headers.insert(STATE, http::HeaderValue::from_bytes(state).expect("a value"));
            let trace = Trace::begin(&headers, sampling(true, 0));
            assert!(trace.parent.is_some() && trace.is_sampled(), "the parent counts all the same");
            trace.tell(&mut headers);
            headers.remove(STATE).map(|state| state.to_str().expect("text").to_owned())
        };
        for (state, passed_on) in [
            ("one=1", "one=1"),
            ("1one=1", "1one=1"),
            (" one=1 ,\ttwo=2\t", "one=1,two=2"),
            (",one=1,,two=2,", "one=1,two=2"),
            ("tenant@one=1", "tenant@one=1"),
            ("one= 1:;!\"~ 2", "one= 1:;!\"~ 2"),
            ("one=1,two=2,one=3", "one=1,two=2"),
        ] {
            assert_eq!(told(state.as_bytes()).as_deref(), Some(passed_on), "{state}");
        }
        for state in [
            "=1,one=2",
            "one=2,=1",
            "=",
            "one",
            "one,two=2",
            "one=,two=2",
            "one= ,two=2",
            "one=1=2",
            "one==1",
            "one =1",
            "One=1",
            "_one=1",
            "one=1\t2",
            "one=\u{fc}",
            "@one=1",
            "one;two=2",
            ",",
        ] {
            assert_eq!(told(state.as_bytes()), None, "{state}");
        }
        assert_eq!(told(b"one=\xff"), None);
        let long = |key: usize, value: usize| format!("{}={}", "k".repeat(key), "v".repeat(value));
        assert!(told(long(256, 255).as_bytes()).is_some() && told(long(255, 256).as_bytes()).is_some());
        assert_eq!((told(long(257, 1).as_bytes()), told(long(1, 257).as_bytes())), (None, None));
        let many = |members: usize| (0..members).map(|n| format!("k{n}=1,")).collect::<String>();
        assert_eq!(told(many(32).as_bytes()).as_deref(), many(32).strip_suffix(','));
        assert_eq!(told(many(33).as_bytes()), None);
    }

    #[test]
    fn about_as_many_are_sampled_as_is_said() {
        let sampled = (0..2_000).filter(|_| Trace::begin(&HeaderMap::new(), sampling(true, 25)).is_sampled());
        // Twelve deviations of a fair draw.
        let count = sampled.count();
        assert!((270..=730).contains(&count), "{count}");
    }
}
