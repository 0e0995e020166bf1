//! Trust in agents, and attestations: what moves a score, what a score does, how somebody else verifies one.
//!
//! # What is looked at
//! Calls of agents on routes with `auth = "a2a"`, whose client certificate vouches for the agent: nothing that an
//! agent says of itself, nothing that somebody else says in its name. Each call is an act: the capability it asked for,
//! whether and with which code it was denied, the sizes of request and answer, and what was found in the request. What
//! stands in the answer is not the agent's doing.
//!
//! | factor | share | 1 means | what lowers it |
//! |---|---|---|---|
//! | `contract_compliance` | 40 % | every call was granted | denials, each by its code: a wrong signature weighs 5, a capability of others 3, a rate limit 0.25, a timestamp that is missing or outside the replay window 0.25; what the gateway itself cannot tell, such as whether a request came before that was signed before it began to remember, weighs nothing; half-life 7 days |
//! | `behavioral_anomaly` | 30 % | it behaves as ever | sizes, calls an hour, hours of the day far from its own median (robust z-score over 3.5); moving average of about 20 calls |
//! | `historical_incidents` | 20 % | its requests were harmless | what was blocked, by severity; what was redacted, half, personal data excepted; half-life 14 days |
//! | `capability_drift` | 10 % | it uses what it always used | the Jensen–Shannon divergence of the capabilities of a day from those of a month |
//!
//! A new agent has 0.6 in each, which is a score of 60: `SUSPICIOUS`, never `TRUSTED`. Bad news count at once. Good ones count
//! as far as the agent is known, and at most five calls an hour make it known better: it takes several hours of
//! ordinary work to be `TRUSTED` (75 and more). The baseline learns from the same calls only, so it is not taught quickly either.
//!
//! `GET /api/v1/trust/score?agent=…&explain=true` says for every factor what it adds to the score and what moved it.
//! Session scores (`?session=…`) begin where the agent stood when the session began, and show what happened since.
//!
//! # What a score does
//! Nothing, unless `[a2a] trust = "enforce"`: then an agent that is `BLOCKED` (below 50) gets `A2A_CAP_DENIED`. Calls that
//! are refused for that reason alone are not held against it, so that it recovers as its denials and incidents fade.
//!
//! Verdicts that turn are recorded in the audit log (`trust_verdict`). What is known of agents is written once a second and
//! outlives the process; a process that is killed loses the last second. 10,000 agents are known at most; past it the one that was
//! silent longest is forgotten, with what was attested of it; one that is blocked is the last to be.
//!
//! # Attestations
//! An agent is attested when its verdict turns, and every `trust.attest_every_s` while it calls. An attestation counts for
//! `trust.attestation_life_s`. Its `signature` is a DSSE envelope: verify it with the key named by `keyid` in
//! `/.well-known/jwks.json`, over `DSSEv1 LENGTH TYPE LENGTH PAYLOAD`, and believe what stands in the payload. Times are of
//! whole milliseconds, and stand beside the envelope as they were signed.
//! `tests/clients/verify_attestation.py` does that in Python, and shares no code with the gateway.
//!
//! Keys are changed every `signing.rotate_days`; the old one stays in the set for `signing.overlap_days`, so that what it signed
//! counts to its end. `POST /api/v1/signing/rotate` changes it now: with `{"withdraw": false}` what was signed counts on; with
//! `{"withdraw": true}` everything that was signed before counts no more: for a key that may have leaked; agents are attested
//! anew at once, on other nodes within a second or so. Private keys lie in
//! the store sealed with `node.secret`: a copy of the store alone signs nothing, and a store without its secret does not start.
//!
//! Scores, sessions and attestations need the tier professional or above, and the permission `trust:read`.
