//! A/B tests of the third layer: which model judges live traffic, and how one knows that a difference is real.
//!
//! # A test
//! ```sh
//! curl -s http://127.0.0.1:9090/api/v1/abtest/tests -H "X-API-Key: $(cat state/admin.key)" -d '{
//!   "name": "stricter", "description": "Does a lower threshold find more?",
//!   "variants": [
//!     {"name": "usual",    "weight": 90, "model_ref": "default"},
//!     {"name": "stricter", "weight": 10, "model_ref": "default?bias=1"}
//!   ],
//!   "guard_rail": {"max_block_rate": 0.2, "min_requests": 500}
//! }'
//! ```
//! `model_ref` is `default`, `off` (no third layer), or the name of a model: a folder of `plugins/models`. Behind a model may
//! stand `?bias=` and a number from -8 to 8, which is added to the log odds of what it says: above zero it reports more.
//! Several folders are several models, read again when they change; a variant whose model is gone takes no part until it is back.
//!
//! `POST …/{id}/start` and the third layer of live traffic is routed by it: the variant of a request is a function of its
//! `X-Request-Id` (FNV-1a of 32 bits, modulo the sum of the weights, walked in the given order), the same that `…/{id}/assign`
//! tells, where the gateway made that id. A request that its caller named is routed by another id, which nobody is told: else
//! whoever knows the weights could choose the variant that lets a text pass. Of several started tests the one that was started first routes traffic; the list says which does.
//!
//! # What is counted
//! Requests in which the third layer had something to read, whichever variant they fell to; detections; blocks by the
//! model, whatever else would have blocked; the time it took. A request id counts once, at whichever node and however late, up to a million ids that were fed back. Callers may feed results back
//! (`…/{id}/result`): with the `request_id`, a false positive is added to a request that was counted already, if the named
//! variant judged it (who feeds back lets the gateway make the ids); without it, it is a request of its own, which counts in
//! `total_requests`, `detections` and the rates, but is never compared (see below).
//!
//! # When a difference is real
//! `significance` compares each variant with the first one. Its p-value may be looked at at any time, and the test may be stopped
//! because of it: it comes from an e-process, not from a test of fixed size (see [`evidence`](crate::govern::abtest::evidence)
//! for the papers). It presupposes that requests fall to variants by their ids, which the gateway makes, and that callers who
//! feed results back do not choose which.
//!
//! So `significance` goes by live requests and by results with a `request_id` only, that came while both variants got their
//! share. A result without a `request_id` names its variant itself: nobody knows whether chance chose it, and any difference
//! could be made up. It shows in the rates and leaves `significance` as it was. `compared_requests` says by how many requests
//! of both variants the comparison goes; as long as one of the two has none, `difference` and `p_value` are `null` and
//! `is_significant` is false, however far apart the rates are.
//!
//! # Guard rails
//! A variant whose model blocks a share of requests that passes `max_block_rate`, once it had `min_requests` since the start, gets no more
//! traffic: its requests are judged by the usual model, and the audit log has an `abtest_guard_rail`. Without a guard rail of its
//! own a test has one of a half, after 200 requests. Starting a stopped test again gives every variant another chance.
