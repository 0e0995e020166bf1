//! What is used, what it costs, what keys may use, and what reports of compliance are worth.
//!
//! # Tokens
//! The provider's own counts are taken, from bodies and streams: cached tokens, thinking and sound are kept beside the
//! whole they are part of. Where a provider tells nothing (an OpenAI stream without `stream_options.include_usage`, a
//! stream that was cut), tokens are estimated from the text, four bytes a token (two in requests of what is
//! written without spaces), and counted as `estimated_tokens`. So is what a model read, where the caller left before it spoke. Counting tokens (`count_tokens`, `countTokens`) uses
//! none. On a WebSocket whose API is known each answer counts as a request of its own, and so does the socket; on others
//! what is used is not known.
//!
//! Figures are kept by hour for 62 days and by day for 800, in UTC; an hour names up to 200 callers, models and routes
//! and adds the others up as `other`. They are written every second: a process that is killed loses 1.5 s of them at
//! most, and the exchanges under way.
//!
//! # Prices
//! `conf/prices.toml` is built in: list prices of the providers' standard service, each with its page and the day it was
//! read. `analytics.prices` names a file that lies over it, and is read again when it changes. A model without a price
//! costs nothing and counts as unpriced; what was counted keeps the cost it had. Batch, priority and regional rates and
//! discounts of your own are not known: write your own prices.
//!
//! # Anomalies
//! An hour is compared with the same hour of the days before (of 28 at most), or, before a week is known, with all hours
//! before. It is one when it lies five ordinary variations or more from their median; each tells the figures it rests on.
//!
//! # Budgets
//! A key's budget (`budget` of `POST /api/v1/keys`, or `PUT /api/v1/keys/{id}/budget`) limits tokens and money, by day and
//! by month of UTC, on routes with `auth = "gateway_key"`. Each exchange reserves what it is likely to use before it leaves,
//! and is settled by what the provider told. Where a provider has the request and nobody read its answer (the caller left or
//! the provider took too long before it was there; it is sound, or no JSON), the exchange is settled at what it reserved; what the
//! provider refused, or broke off before its answer, costs nothing. Used up: 429 `budget_exceeded`, `Retry-After` to the end of the period and
//! `x-should-retry: false`. What is left being reserved: 429 `budget_reserved`, to be tried again in a second. A budget can be
//! overshot only by what exchanges under way use beyond their reservation: the request's text, and `max_tokens` for each
//! answer, or 4,096 where the request sets no limit; the last one, when it is alone, passes while anything is left. A
//! key with a budget of money cannot ask for models without a price (403 `model_unpriced`). A WebSocket reserves one answer
//! at a time, from when it is asked for; one that ends while an answer is awaited or under way pays what was reserved. The model is the one in the body, in a form, or in the path (`…/models/NAME:…`, `…/deployments/NAME/…`); an
//! answer under a name without a price costs what the one asked for does. Reading, deleting, and what dialects call `free`
//! (counting tokens, bringing files) asks no model, and costs nothing unless the provider tells what it used. What dialects
//! call `unmetered` (batches, training) has models work later, of whose use no answer tells, as have secrets for clients
//! and calls that go past the gateway: a key with a budget is refused it (403 `use_unmetered`), and of others it counts
//! nothing.
//!
//! # Compliance
//! Reports judge frameworks of controls by what the gateway sees of itself: its configuration, its record, its keys and
//! certificates. A control whose checks cannot be answered is `not_assessed`, and counts neither way; `coverage` says how
//! much was assessed. A control that passes is not fulfilled by that: it says that the gateway does its part. A category
//! counts as stopped where each of its detectors is, at its surest; where a policy records a part of it only, the check
//! is `partial`, the control too, and the detectors are named. Figures come with the calls that show them again, all of
//! them open to auditors: `/api/v1/compliance/evidence?check=…` shows what a check goes by of policies, keys, users and
//! the configuration. The chain of the audit log is verified every quarter of an hour. Keys and users that nobody used
//! for 90 days fail `access_in_use`. Frameworks are files (`plugins/frameworks`), yours lie over them; `portcullis
//! check` proves them.
