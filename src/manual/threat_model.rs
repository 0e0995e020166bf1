//! Whom the gateway stops, whom it does not, and how others failed at it.
//!
//! # Who is who
//! *Callers* are applications with a provider's credential of their own; they may be mistaken, or speak for somebody
//! hostile whose text they carry. *Providers* are trusted to receive what was cleared, not to answer harmlessly.
//! *Operators* write configuration and packs; both are read with care, because a typing error is a hole too. Whoever
//! reads the state directory is inside: it holds the node's secret.
//!
//! # What is promised
//! 1. No byte of a body leaves but as [`Cleared`](crate::policy::decision::Cleared), in both directions.
//! 2. Every string of a JSON body is scanned, keys and unknown fields too; knowing a provider's schema only adds
//!    roles, lanes and the shape of a refusal.
//! 3. A body that two decoders could read differently is not guessed at: it meets the policy's fail mode, which is
//!    closed by default.
//! 4. Bytes nobody changed leave as they came.
//! 5. One exchange is decided by one ruleset, whose policy and revision its answer and its record name.
//! 6. Work is bounded by limits that have names and keys: see `[limits]` and `[proxy]` of `conf/gateway.toml`.
//!
//! # How others failed, and what prevents it here
//! Tests are named by their file and function: those of the API are in `tests/api`, those of the program in
//! `tests/integration`, and the others beside the module they name.
//!
//! | failure seen elsewhere | here | test |
//! |---|---|---|
//! | a crafted `Host` (`localhost:4000/#@x`) bypassed a gateway's admin authentication (CVE-2026-49468) | [`admin::head`](crate::admin::head) refuses a Host that is not `host[:port]`; the management API never decides by Host, and answers only to names it knows | `vectors`, `admin::guard::only_own_names_are_answered` |
//! | SQL injection in the check of API keys (CVE-2026-42208) | keys are looked up by a hash in a key-value table; there is no query language ([`access::key`](crate::access::key)) | by construction |
//! | a package of a gateway was replaced by malware | releases build from `Cargo.lock`; `.deny.toml` names the licences and the sources that may be used, and which advisories are lived with, and why | `cargo deny`, in `make test`, with advisories in `make audit` |
//! | an admin interface without protection from forged and excessive requests | the management plane has its own listener and thread, a credential on every call, limits of its own | `quotas::one_caller_takes_no_more_than_its_share`, `bounds` |
//! | one default in code failed open, another failed closed | [`FailMode`](crate::policy::decision::FailMode) has one default, [`FAIL_MODE_DEFAULT`](crate::policy::FAIL_MODE_DEFAULT) | `inspection::refused` |
//! | an overlap window of 256 bytes between chunks was taken to be enough | the hold-back is derived from the patterns ([`scan::hold`](crate::scan::hold)); see [`streaming`](super::streaming) | `inspection::chunking`, `scan::hold` |
//! | 40 KB of brackets overflowed a JSON parser's stack and ended the process | [`llm::json::walk`](crate::llm::json) is iterative and counts its depth | `llm::json::tests::limits_hold_exactly` |
//! | duplicate keys, lone surrogates, BOMs: one decoder reads what was judged, another what was meant | the JSON gate accepts what all decoders read alike | `llm::json::tests::what_decoders_read_differently_is_refused` |
//! | bodies were rebuilt from parsed values: numbers and signatures broke | [`redact::splice`](mod@crate::redact::splice) edits bytes in place | `redact::splice`, `inspection::canary::only_the_bytes_of_the_value_change` |
//! | two lengths, a list of codings, bare line feeds: request smuggling | [`admin::head`](crate::admin::head) refuses; nothing is repaired | `vectors::nothing_ambiguous_reaches_the_upstream`, and `vectors::the_management_plane_refuses_the_same_heads` |
//! | 93 bytes of brotli unfolded to 100 MiB | [`proxy::coding`](crate::proxy::coding) limits size and ratio while unfolding | `proxy::coding::bombs_and_broken_bodies_are_refused` |
//! | many bodies at once, each just below those limits, unfolded to more memory than there is | room is asked for before it is taken, decoders' windows included ([`proxy::gate`](crate::proxy::gate)); windows are those of RFC 7932 and RFC 9659 | `bounds::bodies_that_unfold_at_once_take_no_more_than_the_room_of_all` |
//! | a percent-encoded path reached another route than the one that was checked | routes are chosen, and requests forwarded, on one spelling ([`proxy::path`](crate::proxy::path)) | `proxy::path` |
//! | a stream that merely stops looks like success to every SDK | a block ends it with the provider's error event ([`llm::refusal`](crate::llm::refusal)) | `inspection::endings` |
//! | any client certificate finished a handshake and was taken for an identity; "presented" was read as "verified" | a handshake authenticates nobody: [`PeerIdentity::verified`](crate::tls::peer::PeerIdentity::verified) is the one place that names a caller, asked at each request against the authority and the time of that moment (`tests/integration/a2a`: one test for each bad certificate) | `a2a::chain::each_bad_certificate_is_told_in_json_on_an_established_connection` |
//! | a caller wrote the header in which a proxy tells its upstream who calls | `X-A2A-*`, `A2A-Capability`, `A2A-Signature` and `X-Portcullis-*` are taken from every request and every answer on every route; on routes for agents the gateway writes its own ([`access::a2a::claims`](crate::access::a2a::claims)) | `a2a::chain::the_upstream_hears_of_agents_from_the_gateway_alone` |
//! | of two equal headers one check read the first and another the last | a claim that is repeated, too long or no visible ASCII does not count, whatever it says | `a2a::chain::each_code_behind_the_certificate_has_its_cause`, `access::a2a::claims` |
//! | a signed request was recorded and sent again | with `a2a.replay_window_s` a signature counts once and only near its time; the time is part of what is signed then, unless `signed_timestamp = false` says otherwise | `access::a2a::chain::a_recorded_request_is_taken_once` |
//! | a capability map with a typing error granted too much, or nothing to anybody | a map counts whole or not at all: faults name their line, the one before stays, `/api/v1/health` shows `a2a` down, the audit log has `capabilities_refused` (and `capabilities_changed` for each that counts); YAML anchors, aliases and tags are refused ([`document::yaml`](crate::document::yaml)) | `a2a::files::without_a_map_agents_wait_and_with_a_broken_one_the_old_counts` |
//! | whoever may edit the configuration over the network made himself an agent | the authority and the map are named in files alone; the API refuses to change where they lie | `policy::reload::only_some_lead_a_providers_key_elsewhere`, `keys::a_providers_key_is_exchanged_while_the_gateway_runs` |
//! | orders hidden in a tool's result or description, in another agent's words, or in the server's own instructions | between agents both ways are judged as input of a model: dialects `a2a` and `mcp` tell whose words a string is, whole and in a stream; tools are pinned by what `tools/list` says first | `a2a::talk`, `a2a::bodies::what_a_granted_call_says_and_hears_is_read_and_counts_against_who_says_it` |
//! | an `alg` of `none`, or HS256 with the provider's public key, made an ID token | [`jose::jwks`](crate::access::jose::jwks) verifies with published asymmetric keys of the kind that the algorithm needs; keys in a token's header are never looked at | `sso::tokens_that_nobody_signed_open_nothing`, `access::jose::jwks` |
//! | an ID token of another client, issuer or sign-in opened a session | [`sso::claims`](crate::access::sso::claims) judges issuer, audience, party, times and nonce | `sso::tokens_that_lie_open_nothing` |
//! | an authorization code, or a link with one, was brought to another browser | state, nonce and PKCE verifier follow from a seed in the browser's own sealed cookie, which counts once ([`sso::attempt`](crate::access::sso::attempt)) | `sso::an_answer_belongs_to_one_browser_and_counts_once` |
//! | a signed assertion was wrapped: what was verified was one element, what was read another (XSW) | [`sso::saml`](crate::access::sso::saml) takes one shape: each element where the schema has it, and a signature counts for the element it stands in (`tests/api/saml`: the eight wrappings and eight more, and bytes changed at random) | `saml::a_signature_wrapped_around_somebody_elses_words_is_refused` |
//! | a comment cut a name short, a document type or an id twice made two readers differ | such a message is refused before it is looked into ([`saml::document`](crate::access::sso::saml::document)) | `saml::tests::what_two_readers_could_take_differently_is_refused` |
//! | SHA-1, HMAC with the public key, or a key that came along in the message vouched for an assertion | five algorithms, each with its own kind of key, and the keys of the provider's metadata file alone ([`saml::key`](crate::access::sso::saml::key)) | `saml::tests::a_key_fits_its_own_certificate_and_algorithm_alone` |
//! | an assertion of another gateway, another sign-in, or from yesterday opened a session; or one nobody had asked for | audience, recipient, destination, `InResponseTo` of this browser's own attempt, times within a minute; each assertion and each attempt counts once ([`saml::response`](crate::access::sso::saml::response)) | `saml::what_is_signed_has_to_be_meant_for_us_and_now`, `saml::an_answer_belongs_to_one_browser_and_counts_once` |
//! | a logout message that nobody had signed, or an old one, ended somebody's sessions | only signed ones of the last five minutes are taken, for the sessions they name ([`saml::logout`](crate::access::sso::saml::logout)) | `saml::a_provider_ends_its_own_sessions` |
//! | an ID token, an old or a repeated token was sent as a logout token | its event, its age and its id are asked for, and a nonce makes it none ([`sso::logout_token`](crate::access::sso::logout_token)) | `sso::a_logout_token_ends_what_it_names_once` |
//! | a `Host` header chose where the identity provider sent the code | the address to come back to is configured, or follows from `public_url` | `sso::the_way_there_and_back` |
//! | `next=//evil.example` led people elsewhere after they had signed in | [`safe_next`](crate::access::url::safe_next) takes paths of ours alone | `url::nobody_is_sent_elsewhere`, `sessions::whoever_signs_in_goes_where_they_were_going_here` |
//! | a session id was planted before the sign-in, or from a sibling domain | every sign-in makes a new one; over HTTPS its cookie is a `__Host-` one ([`access::cookie`](crate::access::cookie)) | `sessions::the_cookie_is_out_of_reach_and_new_at_every_sign_in` |
//! | a page elsewhere changed something with a visitor's session | changing calls with a session need `Sec-Fetch-Site: same-origin`, or else our own `Origin`; forms carry a token too ([`admin::sign_in`](crate::admin::sign_in)) | `sessions::a_call_that_changes_something_has_to_come_from_a_page_of_ours` |
//! | a link elsewhere signed people out, `GET /auth/logout` being what it is | what did not begin on a page of ours is asked about first | `sessions::leaving_takes_a_page_of_ours_or_an_answer` |
//! | a stolen copy of the store opened sessions | it holds keyed hashes; the key is in another file, and no token of an identity provider is in either | `session::sessions_outlive_the_process_and_their_secrets_are_nowhere` |
//! | sessions outlived the key, or the user, that began them | a session is worth what its key is worth when it is used | `sessions::what_was_begun_with_a_text_of_a_key_ends_with_that_text` |
//! | a page that a provider answered with called the API with its reader's session | sessions count on the management plane alone, and a page of the data plane is of another origin | `sessions::a_session_opens_nothing_on_the_data_plane` |
//! | a browser sent the console's cookie to every port of the host, and a proxy passed it on to a provider | [`proxy::upstream`](crate::proxy::upstream) takes our cookies out | `cookie::ours_are_taken_out_and_others_left` |
//! | a provider's answer set the console's cookie, which browsers keep for every port of the host, or had it forgotten | `Set-Cookie` of ours and `Clear-Site-Data` are taken off answers | `answers::a_provider_plants_no_session_of_ours_and_ends_none` |
//! | a provider's huge document, redirect or script address did harm | what a provider says is bounded to 256 KiB and 10 s, no redirect is followed, and its addresses are HTTPS ([`sso::fetch`](crate::access::sso::fetch)) | `sso::a_provider_that_misbehaves_is_told_and_bounded` |
//! | an audit sink that hung stopped all traffic, or was dropped in silence | a bounded queue and a time limit; what cannot be recorded is refused or alarmed about, as configured | `siem` |
//! | an agent buys trust by a burst of harmless calls, or drowns an incident in them | five calls an hour count for an agent, bad news count at once ([`govern::trust`](crate::govern::trust)) | `govern::trust::a_new_agent_is_neutral_and_never_trusted`, `incidents_count_by_severity_and_fade` |
//! | an agent's score is lowered by calls in its name | only calls whose certificate vouches for the agent are looked at | `a2a::trust::an_agent_that_probes_is_kept_out_and_that_is_attested` |
//! | an A/B test is poisoned: results invented, repeated, for another variant, with absurd figures | a role, a known variant, a bound on latencies; with a request id it counts once and for its own variant only; guard rails go by live traffic alone ([`govern::abtest`](crate::govern::abtest)) | `govern::abtest::nobody_counts_twice_or_for_another` |
//! | who looks at an experiment every day finds a difference that is none | the p-value is valid at every look ([`govern::abtest::evidence`](crate::govern::abtest::evidence)) | `govern::abtest::who_peeks_at_equal_variants_is_rarely_fooled` |
//! | a copy of the store signs tokens and attestations | signing keys are sealed with the node's secret ([`access::signing`](crate::access::signing)) | `access::signing` |
//!
//! # Attacks on who may call
//! | attack | what happens | test |
//! |---|---|---|
//! | a token with `alg` `none`, `HS256` over the public key, `RS256`, a key of its own in the head (`jwk`, `kid`), changed claims | 401: only EdDSA by a key of the ring is taken, and heads choose nothing | `matrix::every_credential_has_its_answer_at_every_endpoint` |
//! | a licence, or a token of another deployment, as a bearer token | 401: its own audience, issuer and keys are asked for | `access::token::tests`, the same matrix |
//! | a token that was revoked, or whose user was changed, disabled or deleted | 401 at once, also after a restart; open audit streams end | `transcripts::users`, `access::token::tests` |
//! | a key that is revoked, expires, is erased or loses the route, or an agent that leaves the map, while its answer or its WebSocket is open | asked every second: the stream ends in an error, the connection is closed, the provider's too | `standing`, `a2a::files::an_agent_that_leaves_the_map_loses_the_stream_it_reads` |
//! | a SAML answer brought a second time, to another node or after a restart | what was used is in the store, which all nodes share | `saml::an_answer_belongs_to_one_browser_and_counts_once`, `access::spent` |
//! | a recorded request of an agent sent again after a restart, or after a crash | what was signed is handed on to the next process; one that cannot know takes nothing that was signed before it began | `a2a::files::a_recorded_request_is_taken_once` |
//! | a node that cannot reach the database takes a name that it cannot read for erased, and writes that back | what cannot be read is not there until it can be | `keyring::sealed::what_cannot_be_read_yet_is_not_taken_for_erased` |
//! | strangers who make up credentials let everybody wait for the database | whoever serves traffic takes what is at hand; new names get their keys by a task, all that wait together | `cluster::newcomers::callers_whom_nobody_knew_let_nobody_else_wait_for_the_database` |
//! | a database that fell back behind its last commits: a key that was revoked since counts at some nodes for good | a table at a mark that what is known cannot have led to is read anew | `cluster::losses::what_a_database_lost_no_node_goes_on_with`, `store::followed` |
//! | the store is copied | keys and passwords are keyed hashes (Argon2id with a pepper), signing keys are sealed: without `node.secret` nothing of it opens anything | `access::signing`, `access::password` |
//! | guessing passwords | the sixth failure of a name and the twenty-first of an address (a /64) lock for a second, each after that for twice as long, up to 15 minutes; many tries at once count when they begin | `access::throttle` |
//! | locking somebody out by failing in their name, or everybody behind one proxy by failing there | an address from which they have logged in counts for itself: neither their name's count nor the address's is theirs there | `throttle::strangers_lock_nobody_out_of_where_they_live`, `throttle::strangers_behind_the_same_proxy_lock_nobody_out_who_lives_there` |
//! | finding out who has an account, by answers or by time | one answer, the same hashes for nobody (one of each cost that any user's has), the same locks for names that are not there; a disabled user looks like a wrong password | `user::guessing_waits_for_known_and_unknown_names_alike`, `user::a_login_takes_the_same_work_whether_there_is_a_user_and_since_when`, `transcripts::users` |
//! | finding out why a credential does not count | every 401 has one body | the matrix |
//! | starving the process with logins | two passwords are hashed at once, sixty-four wait, the rest is 503; who leaves meanwhile makes no room; changes that hash nothing do not queue | `user::a_flood_of_logins_waits_in_a_bounded_queue` |
//! | timing the comparison of keys and passwords | keys are found by a keyed hash, hashes are compared in constant time, names are found and missed alike | by construction |
//! | names that look like another's (`аdmin` in Cyrillic, full-width letters, invisible or turning characters) | one spelling (NFKC, lower case), one script, one user for each skeleton of UTS 39; names of keys show all they are | `access::name`, `transcripts::users` |
//! | two credentials in one request, so that one is checked and the other used | 400 on both planes and on every kind of route, in headers and in the query; empty ones are none, wherever they stand | `credential::one_credential_wherever_it_is`, `credential::a_provider_gets_one_credential_too`, `keys::whoever_has_no_right_to_a_route_is_told_in_its_sdks_words` |
//! | being a new caller with each request of a transparent route: junk beside the credential that counts (that of a WebSocket's subprotocol too), another spelling of `Bearer`, or a signature, no two of which are alike | 400, 401; one credential is one caller, wherever and however it is written; of a signature (AWS) the key's id is the caller | `keys::nobody_is_a_new_caller_with_each_request`, `credential::a_provider_gets_one_credential_too` |
//! | a credential in the query, which ends in logs, however its name is escaped, or under a name that nobody knows | 400, wherever one of ours is asked for; what is written as one of ours is known by its form, under whatever name, on transparent routes and on those of agents too | `credential::none_in_the_query`, `credential::a_key_of_ours_is_known_in_the_query_under_whatever_name`, `a2a::chain::our_keys_reach_no_agent`, `keys::whoever_has_no_right_to_a_route_is_told_in_its_sdks_words` |
//! | using the route's provider key for another account (`OpenAI-Organization`, `x-goog-user-project`), or another credential beside it where the provider looks first (`Ocp-Apim-Subscription-Key`) | none of these goes on beside the route's key | `proxy::provider_key` |
//! | spending past a budget: a secret for clients, a call of WebRTC or SIP, whose use the gateway never sees | 403 for keys with a budget, as for batches | `budgets::work_whose_use_nobody_sees_is_not_for_keys_with_a_budget` |
//! | going on as administrator in another browser after one's provider took the role away | the next sign-in, wherever it is, ends all sessions of theirs with another role; one that leads to none ends all | `sso::what_a_provider_said_last_of_somebody_counts_in_all_their_sessions` |
//! | a provider repeats the route's key to the caller: in an error, a field or a stream | each of its bytes is a `*`, whatever the policy | `keys::no_answer_shows_a_providers_key`, `proxy::hidden` |
//! | an operator leads a route that holds a provider's key to an address, or to an authority, of their own, or back to an earlier one | 403: that takes an administrator, by change and by rollback | `keys::an_operator_cannot_lead_a_providers_key_elsewhere`, `policy::reload::only_some_lead_a_providers_key_elsewhere` |
//! | an operator takes the guardrails, or the keys, off a route, or adds an open one to the same server, at once or in several steps | 403: less than every route to a host and port asks for takes an administrator, or the file, and so does taking away the last route to one that each asks for proof: it would be forgotten that it was guarded; another name of that host is another host: let agents take calls from the gateway alone | `policy::reload::tests::only_some_ask_less_of_those_who_call_an_upstream`, `guarded::an_operator_opens_no_guarded_server_in_several_steps` |
//! | an operator makes themselves an administrator | keys, users and signing keys are the administrator's | `matrix::everybody_gets_what_the_contract_says` |
//! | a key that is limited to models or tools asks for others: in the path, the query (however it is escaped), a form and the JSON in its fields, a batch, a fallback list, a tool that has a model of its own, a session (also beside an allowed decoy), its transcription, an evaluation, another name for a model (Ollama), a tool choice, a hosted tool without a name or under an allowed one, a server of MCP under an allowed label, a plugin, a skill, a header, behind a duplicate key | 403 that names it: names are read in all of a request but its content (what was said, arguments, schemas, metadata); what does not name the model that answers, or cannot be read, is refused too; on a socket every message is asked, and one that nobody reads is refused; so are a stored evaluation to a key with models, whose graders have models of their own, and calls of WebRTC and secrets for clients (`/realtime/calls`, `/client_secrets`, `/sessions`, Gemini's `/auth_tokens`): what these open goes past the gateway | `llm::asked`, `proxy::scope`, `keys::a_limited_key_is_told_what_it_may_not_use`, `sockets::paying::a_limited_key_opens_a_session_with_its_model_and_asks_for_its_tools` |
//! | `X-Portcullis-…` from a caller or a provider | counts for nothing, and is taken off in both directions | `quotas::one_caller_takes_no_more_than_its_share` |
//! | oversized and repeated headers, two hosts, two lengths, bare line feeds, underscores that another parser reads as hyphens | 431, 400, on both planes: see `admin::head`; a token past 16 KiB is none | `bounds`, `vectors`, `wire`, the matrix |
//! | `Connection` nominates a header that we add, so that the next hop drops it | what a caller nominates is taken off before ours are added | `vectors` (`hop_auth`, `hop_authz`), `a2a::chain::the_upstream_hears_of_agents_from_the_gateway_alone` |
//! | filling the audit log with anonymous refusals until retention deletes the evidence | on each plane one address or caller has a burst of a hundred entries, all together a thousand; the others are counted | `quotas::knocking_at_the_data_plane_does_not_fill_the_log`, `quota::whoever_knocks_does_not_fill_the_log_whatever_the_tier` |
//! | coming back from a sign-in that never was, until nobody can sign in; asking the identity provider with junk codes through us | only who is let in is remembered; strangers have a finite quota at every door, whatever the tier | `sso::attempt::who_is_not_let_in_leaves_nothing_behind`, `quota::strangers_knock_so_often_whatever_the_tier` |
//! | making us fetch the provider's keys without end, with tokens of unknown keys | they are fetched again once for all who wait, and not again soon | `sso::keys_are_exchanged_without_a_herd` |
//! | revoking one's own tokens until no more can be remembered, and nobody can revoke | a thousand at once, and one a minute more | `access::token::nobody_alone_fills_what_is_remembered` |
//! | going on with what a licence paid for after its end | every call asks the licence anew | `a2a::expiry::a_licence_ends_on_every_socket_at_once`, `quota::a_licence_ends_while_the_gateway_runs` |
//! | making an agent look odd with calls that nobody read; being forgotten as blocked, and new again | sizes count where a body was read; who is blocked is forgotten last | `govern::trust::what_nobody_read_is_not_odd`, `an_agent_that_is_blocked_is_not_forgotten_before_others` |
//! | a million made-up callers to use up the places of names | strangers have a share of their own, of which each day gets a part, and names age out | `keyring::standing_tests::whoever_makes_up_callers_takes_the_place_of_nobody_else` |
//! | a million names to wash out a used-up quota | a bucket that is not full is never forgotten; without room newcomers share one | `limit::a_million_callers_neither_fill_the_memory_nor_refill_anybody` |
//! | forcing a restart to refill quotas | levels are kept when the process ends, agents' too; a killed one gives each caller one burst at most | `quotas::one_caller_takes_no_more_than_its_share`, `a2a::chain::a_restart_refills_no_agent` |
//! | holding requests or connections | at most `limits.concurrent_requests_per_caller` under way, agents included, `limits.upgraded_connections_per_caller` of them upgraded, `admin.max_streams_per_caller` audit streams, `max_connections_per_address` of each plane, counted from before a TLS handshake, which has `header_ms` | the same test, `tls::connections_count_and_are_timed_before_their_handshake`, `stream::one_reader_does_not_take_the_streams_of_all`, `a2a::seats`, `standing::an_upgraded_connection_ends_with_its_key_and_each_caller_has_so_many`, `bounds` |
//! | announcing long bodies, and sending none of them or nearly all, until there is no room for others | a body has room for what of it came; one that finds none is refused, and gives back what it had; one caller has `limits.buffered_bytes_per_caller` of it, whatever it has under way | `bounds::room_is_taken_as_bytes_come`, `bounds::one_caller_has_no_more_than_its_share_of_the_room` |
//! | using a model and leaving before its answer, so that nothing is charged; one that answers under a name without a price; asking it by a `GET` that a header makes a `POST` | the budget pays what was reserved; what was asked for; nothing is a mere reading whose method a header overrides | `budgets::what_a_provider_was_asked_is_paid_though_nobody_read_its_answer`, `budgets::whoever_overrides_the_method_pays_each_time` |
//! | saying to be another address in `X-Forwarded-For`, to knock without a limit or in another's name | it counts from the networks of `admin.trusted_proxies` alone, and of it what the last of them added; an IPv6 customer's /64 is one address | `quota::whom_a_trusted_proxy_names_pays_and_nobody_else_is_believed`, `quota::a_network_knocks_as_one_and_does_not_hide_failed_logins` |
//! | choosing a request id whose variant of an A/B test lets a text pass | a request that its caller named is drawn by an id that it does not know | `abtest::nobody_chooses_what_judges_a_request_by_its_name` |
//! | an operator leads the audit log elsewhere, or silences a sink | where it goes is said in files alone; which entries a sink gets takes an administrator | `siem::following::where_entries_go_is_said_in_files_alone`, `policy::reload::tests::where_the_log_goes_is_for_files_and_what_of_it_for_administrators` |
//! | deleting a node's rows, and that there ever were any, from the shared database | a checkpoint that names it misses it | `cluster::audit::every_node_shows_and_proves_the_log_of_all`, `govern::audit::shipping` |
//! | taking away the last admin key that lasts a week | 409, by deleting and by changing; where the last one has expired, a start writes a new `admin.key` | `transcripts::keys`, `access::key::tests` |
//!
//! # What is not promised
//! - Where a provider asks for no credential (Ollama, vLLM), whoever sends another one with each request is another caller
//!   each time, without a limit of its own: use `auth = "gateway_key"`, or keep such a route to known networks.
//! - On transparent routes a caller of AWS is known by the id of its key, which is no secret, and its signature is the
//!   provider's to verify: whoever knows the id can spend that caller's quota there. Use `auth = "gateway_key"` with
//!   `aws_region` where that matters.
//! - On transparent routes a provider's credential may be in the query, where Gemini's SDKs of old have put it: it is the
//!   provider's, and goes on. On routes of agents nothing in the query is a credential but what is written as one of ours,
//!   which is refused, as it is in `Basic` credentials; elsewhere in the head it is taken away. Public paths of our own ask
//!   for no credential, and do not look for one in the query.
//! - Limits of connections are those of an address: nobody is known before their first request, nor between two. Behind a
//!   proxy they are the proxy's, `admin.trusted_proxies` or not. A caller has limits of its requests under way, open streams
//!   included, and of its upgraded connections, which are its own.
//! - An answer that is open ends up to a second after the key it was asked for with. On transparent routes it does not: whom
//!   the provider's own credential vouches for is the provider's to turn away.
//! - A licence that an agent presents is verified before its rate is asked about, as the contract orders the steps: an
//!   Ed25519 verification of at most 16 KiB, paid by nobody. One that names no agent serves every agent that has it.
//! - A defect after the answer has left (in records, metrics or trust) ends that exchange's task and nothing else.
//! - An identity provider that is configured is believed: whom it names, and with which groups, they are here, until
//!   their session ends. A group that is taken away there is taken away here with their next sign-in, wherever that is: all
//!   their sessions with another role end then, and all where they have none any more.
//! - Text in images, audio and other binary parts is not read; that of PDFs, office files and archives is, within
//!   `limits.document_*` (see `documents` of a policy for what becomes of those that cannot be read). What is not read passes only where its declared
//!   type says so (of a file in a form, or at a path of `files` in a dialect: where it does not say that it is text) and its bytes are those of no text;
//!   other bytes that are not UTF-8 meet the fail mode. Of an answer the first 512 bytes tell. Amazon's event stream is read in answers; a request in it meets the fail mode.
//! - Addresses that a provider tells its caller to go on at (`x-goog-upload-url`, `operation-location`, and where it redirects to) are told anew as ones of
//!   the gateway where they lead to a target of the route and a route takes them; in the first two fields another one is
//!   refused, and so is a 307 or 308 that would have a body sent again elsewhere. Where any other redirection leads
//!   elsewhere, and every link in an answer, is to be closed in the network, as every
//!   other way past the gateway.
//! - A file that comes in several requests is read request by request, and over the border of any two of its parts
//!   ([`policy::parted`](crate::policy::parted)): by one node, for an hour after the last part, 8 KiB of a value on
//!   each side. What has left cannot be masked, so the other part is refused. A value over three parts is not found.
//! - A body that its caller signed (AWS Signature Version 4) and that a policy redacts is refused. Only a route with
//!   `aws_region` signs it anew, with credentials of its own, for callers who present a key of ours: a caller's own
//!   signature is never verified here, so it never earns one of ours.
//! - Headers, paths and query strings are checked for form, not for content.
//! - A value that is spread over several strings of a body (a letter in each message) is not put together again;
//!   neither is one that the caller enciphers, or encodes otherwise than the views know: percent, HTML entities,
//!   JSON escapes, base64, hexadecimal, look-alikes and invisible characters, three layers deep; in requests escapes
//!   four times over, base32, ASCII85, quoted-printable, gzip, Caesar's cipher and other spellings too.
//! - Patterns know forms. An injection in words of its own, or a secret without a form, is not found by this layer.
//! - A signature over the body alone (`signed_timestamp = false`, or no window) does not cover the headers: the time beside it
//!   keeps a recorded request away for as long as the replay window, not for ever; and a process that was
//!   killed takes its memory with it: then the time, which nobody signed, is all that keeps such a request away.
//! - X.509 certificates of version 1, and certificates whose key the caller does not hold, end in a failed
//!   handshake, not in an answer. Whether one was revoked is asked where `a2a.client_crl` is set (never by OCSP), in lists
//!   of version 2: else take the agent out of the map. Where no list that is in date covers a certificate, its agent is
//!   refused, and `a2a` is down; a list that cannot be read changes nothing. A certificate without an extended key usage is for every purpose (RFC 5280), clients included.
//! - An artifact that an agent streams in pieces is read across them, by the model of the third layer in windows
//!   as it grows. So are its messages, those of its status among them, beside each of them alone: all of a stream are one
//!   text. So are, for patterns, all artifacts of a stream, whatever ids they have, and all artifacts and messages in
//!   their order: a value may be parted over any of them. Where a message ends in what may be the begin of a value, it
//!   waits for the next one or for the end; another text lets it go if it ends in words, or in fewer than eight bytes
//!   that may be more, or once 64 KiB wait. A value that is parted by more than that ends the stream once it is seen,
//!   when its begin has left. Not put together are pieces with other texts between them of which one is in a message
//!   and the other in an artifact, or that are in artifacts of two ids with another artifact between.
//!   JSON-RPC batches are known for such by the path or the route alone: elsewhere nobody knows whose words their strings are.
//! - In streams of MCP and on sockets nothing waits for the next message where no dialect joins them, for the other end may
//!   wait for an answer: of a value that is cut over two messages the begin may leave. Its rest is masked or refused.
//! - WebSockets are refused, unless a route carries them (`websocket = true`): then each message of the caller is judged
//!   as a whole body, and the provider's run in lanes, as a stream does; `websocket_uninspected = true` reads nothing.
//!   The messages of a caller, and those of a provider whose API is not known, are judged one by one: a value that is
//!   spread over several is not put together again.
//!   A message may be as long as
//!   `limits.stream_event_bytes_max`, and come in 1,024 frames. Sound in base64, where Realtime has it, passes and is
//!   counted; so are binary messages that hold no text.
//! - Several gateways share no limits and no state without `[cluster]`; replay memory only with its Redis, trust and pins
//!   never.
//! - Lock-outs, and where somebody has logged in from, end with the process: who can restart the gateway is inside.
//! - A botnet can keep the two places for hashing passwords busy. Keys and tokens do not need them, nor does disabling
//!   a user.
//!
//! # Known exceptions
//! - What is no HTTP, and `CONNECT`, is answered by Pingora before any code of ours: an empty 400 or 405, without the
//!   headers that all other answers carry; on HTTP/2 so is a request without an authority, or with a `Host` that differs
//!   from it, and what is malformed there ends its stream. So is the 503 for one connection too many: it comes before any request.
