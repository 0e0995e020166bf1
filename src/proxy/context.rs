//! Everything known about one exchange, gathered as it goes and written down once, at its end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use crate::access::a2a::chain::AgentCall;
use crate::access::a2a::chain::Grant;
use crate::access::a2a::chain::Pending;
use crate::access::budget::Reservation;
use crate::access::concurrency::Seat;
use crate::access::credential::Presented;
use crate::access::credential::Principal;
use crate::access::limit::LimitState;
use crate::access::patience::Patience;
use crate::access::scope::Scope;
use crate::govern::abtest::Enrolled;
use crate::id::Ulid;
use crate::llm::dialect::Detected;
use crate::llm::usage::Usage;
use crate::otlp::Trace;
use crate::policy::decision::Action;
use crate::policy::decision::CallerId;
use crate::policy::inspect::Observation;
use crate::policy::inspect::prompt::Prompt;
use crate::policy::inspect::shadow::Foreseen;
use crate::policy::route::Route;
use crate::policy::ruleset::Policy;
use crate::policy::ruleset::Ruleset;
use crate::proxy::gate::Reserved;
use crate::proxy::gate::Share;
use crate::proxy::reject::Rejection;
use crate::proxy::reject::UPGRADE_FAILED;
use crate::proxy::reject::UPSTREAM_TIMEOUT;
use crate::proxy::reject::UPSTREAM_UNREACHABLE;
use crate::redact::token::Vault;
use crate::scan::rule::fact::FACTS_MAX;
use crate::scan::rule::fact::FIRSTS_MAX;
use crate::scan::rule::fact::Fact;
use crate::scan::trace::Guarded;

/// The most types that a refusal names.
const NAMED_MAX: usize = 5;

/// Why a server error is the provider's: it answered with one, or was not to be had.
const ANSWERED: &str = "answered";
const PROVIDER_REASONS: [&str; 3] = [UPGRADE_FAILED, UPSTREAM_TIMEOUT, UPSTREAM_UNREACHABLE];

/// The longest request id taken over from a caller.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// The context of one exchange.
pub struct Exchange {
    /// When it began, on the monotonic clock.
    pub began: Duration,
    /// The one ruleset it is judged by, pinned for its whole life.
    pub rules: Arc<Ruleset>,
    /// Its name in answers, logs and the audit log.
    pub request_id: String,
    /// Whether the caller chose that name.
    pub is_named_by_caller: bool,
    /// Who sent it, as a keyed hash.
    pub caller: Option<CallerId>,
    /// The key it presented, on routes that take ours.
    pub presented: Option<Presented>,
    /// Whom that key stands for.
    pub principal: Option<Principal>,
    /// What it may be used for.
    pub scope: Option<Arc<Scope>>,
    /// When it was last asked whether its caller still counts, on the monotonic clock.
    pub stood_at: Duration,
    /// Its place among the requests of its caller that are under way.
    pub seat: Option<Seat>,
    /// Its place among the upgraded connections of its caller.
    pub connection: Option<Seat>,
    /// What became of the call, on routes for agents.
    pub agent: Option<AgentCall>,
    /// The tools that an agent's message calls, or their methods.
    pub tools: BTreeSet<String>,
    /// Whether the agent was kept out because nobody trusts it.
    pub is_distrusted: bool,
    /// An agent's call that waits for its body.
    pub pending: Option<Pending>,
    /// What lets an agent's call go on; nothing is forwarded without.
    pub grant: Option<Grant>,
    /// What is left of the caller's quota.
    pub limit: Option<LimitState>,
    /// Where it goes and under which policy; known after routing.
    pub passage: Option<Passage>,
    /// The forwarded path, without its query.
    pub path: String,
    /// What the request's body is made of, and the answer's.
    pub detected: Option<Detected>,
    /// The id of the JSON-RPC call that the request is, as it was written.
    pub call_id: Option<String>,
    /// The models that its path, its query or its form names.
    pub models: Vec<String>,
    /// Whether it asks no model anything: it reads or removes something, counts tokens, or brings a file.
    pub is_free: bool,
    /// Whether it has models work whose use no answer tells: a batch, a training.
    pub is_unmetered: bool,
    /// Placeholders to restore for this caller.
    pub vault: Vault,
    /// The system prompt of its request, until its answer comes.
    pub prompt: Prompt,
    /// The same, where its answer must not tell it.
    pub guarded: Option<Arc<Guarded>>,
    /// What was found in its request, without content: rules look back at it that judge the answer.
    pub asked: Vec<Fact>,
    /// The A/B test it takes part in.
    pub enrolled: Option<Enrolled>,
    /// Its place in a trace.
    pub trace: Option<Trace>,
    /// What came out of it.
    pub outcome: Outcome,
    /// What its caller may hold of the room for bodies, together with all else it has under way.
    pub share: Option<Arc<Share>>,
    /// The room its request body takes, until it has left.
    pub reserved: Option<Reserved>,
    /// What it reserved of its key's budget.
    pub reservation: Option<Reservation>,
    /// How long it has waited for what nodes know together.
    pub patience: Patience,
    /// What a socket is to reserve before it goes on.
    pub due: Option<Due>,
    /// Whether its event is on the disk already, or is only counted.
    pub is_recorded: bool,
    /// Whether its event was taken by the log, which did not say in time that it is on the disk.
    pub is_in_doubt: bool,
}

/// What a socket is to reserve before it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing, while anything is left.
    Standing,
    /// What an answer may use that was asked for.
    Answer,
}

/// Where an exchange goes.
#[derive(Clone)]
pub struct Passage {
    rules: Arc<Ruleset>,
    at: usize,
    /// The policy that decides.
    pub policy: Arc<Policy>,
}

impl Passage {
    /// Returns the closest passage for a host (lower case, no port) and a normalised path.
    pub fn find(rules: &Arc<Ruleset>, host: Option<&str>, path: &str) -> Option<Self> {
        let (at, policy) = rules.passage(host, path)?;
        Some(Self { rules: Arc::clone(rules), at, policy })
    }

    /// Returns the route.
    pub fn route(&self) -> &Route {
        &self.rules.routes[self.at]
    }
}

/// What a provider did for an exchange, as far as it is to be paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// Nothing: it does not have the request, broke off, or answered that it failed.
    #[default]
    Nothing,
    /// It has the request, and nobody read what it made of it.
    Untold,
    /// It answered, and what was read of it is counted.
    Told,
}

impl Service {
    /// Returns the service of a provider whose answer is read: what failed stays nothing.
    pub fn told(self) -> Self {
        if self == Self::Untold { Self::Told } else { self }
    }

    /// Returns the service of a provider whose answer nobody read after all: what failed stays nothing.
    pub fn unread(self) -> Self {
        if self == Self::Told { Self::Untold } else { self }
    }
}

/// What came out of an exchange.
#[derive(Default)]
pub struct Outcome {
    /// The strictest action.
    pub action: Option<Action>,
    /// Whether the gateway refused it, whatever for.
    pub is_denied: bool,
    /// What the shadow policy would have done.
    pub shadow: Foreseen,
    /// Findings in the request.
    pub request: Vec<Observation>,
    /// Findings in the response.
    pub response: Vec<Observation>,
    /// What could not be inspected, or why it was refused.
    pub reason: Option<&'static str>,
    /// The status the caller got.
    pub status: Option<StatusCode>,
    /// What the provider did.
    pub service: Service,
    /// Token counts told by the provider.
    pub usage: Usage,
    /// What the request told: the model it asks for, and how much it lets it write.
    pub asked: Usage,
    /// Whether it was one of the gateway's own paths.
    pub is_local: bool,
    /// Whether the response was a stream.
    pub is_stream: bool,
    /// From the beginning to the moment the provider was asked.
    pub asked_after: Option<Duration>,
    /// From the request to the head of the provider's response.
    pub upstream: Option<Duration>,
    /// From the beginning to the first byte given to the caller.
    pub first_byte: Option<Duration>,
    /// From the beginning to the switch of protocols, of an upgraded connection: what it carries is no exchange.
    pub switched: Option<Duration>,
    /// Time spent scanning.
    pub scanning: Duration,
}

impl Outcome {
    /// Returns what the provider failed at, where that is why the caller got a server error: it answered with one, or
    /// was not to be had.
    pub fn provider_failure(&self) -> Option<&'static str> {
        self.status.filter(StatusCode::is_server_error)?;
        match self.reason {
            None => self.upstream.map(|_| ANSWERED),
            Some(reason) => PROVIDER_REASONS.contains(&reason).then_some(reason),
        }
    }
}

impl Exchange {
    /// Returns the context of an exchange that begins now.
    pub fn new(began: Duration, rules: Arc<Ruleset>, vault: Vault) -> Self {
        Self {
            began,
            rules,
            request_id: String::new(),
            is_named_by_caller: false,
            caller: None,
            presented: None,
            principal: None,
            scope: None,
            stood_at: began,
            seat: None,
            connection: None,
            agent: None,
            tools: BTreeSet::new(),
            is_distrusted: false,
            pending: None,
            grant: None,
            limit: None,
            passage: None,
            path: String::new(),
            detected: None,
            call_id: None,
            models: Vec::new(),
            is_free: false,
            is_unmetered: false,
            vault,
            prompt: Prompt::default(),
            guarded: None,
            asked: Vec::new(),
            enrolled: None,
            trace: None,
            outcome: Outcome::default(),
            share: None,
            reserved: None,
            reservation: None,
            patience: Patience::default(),
            due: None,
            is_recorded: false,
            is_in_doubt: false,
        }
    }

    /// Keeps of the system prompt what tells it in an answer, now that there is one, and of what is tainted what tells it in a
    /// call.
    pub fn guard_prompt(&mut self) {
        let (guarded, prompt) = self.take_guarded();
        self.guarded = match (guarded, prompt.tainted()) {
            (Some(prompt), Some(tainted)) => Some(Arc::new(Guarded::several(vec![prompt, tainted]))),
            (prompt, tainted) => prompt.or(tainted),
        };
    }

    /// Takes the system prompt, with its fingerprints.
    pub fn take_guarded(&mut self) -> (Option<Arc<Guarded>>, Prompt) {
        let prompt = std::mem::take(&mut self.prompt);
        let caller = self.caller.as_ref().map_or("", CallerId::as_str);
        (self.rules.prompts.guarded(&self.rules.memo, caller, &prompt), prompt)
    }

    /// Notes what was found in what the caller asks; of more than rules look at in a body, the latest counts.
    pub fn note_asked(&mut self, found: Vec<Fact>) {
        self.asked.extend(found);
        let before = self.asked.len().saturating_sub(FACTS_MAX + FIRSTS_MAX);
        self.asked.drain(..before);
    }

    /// Takes over the caller's request id if it is sane: 1 to 128 visible ASCII characters.
    pub fn name(&mut self, offered: Option<&[u8]>, fresh: impl FnOnce() -> Ulid) {
        let sane = |id: &&[u8]| {
            (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
        };
        let taken = offered.filter(sane).and_then(|id| std::str::from_utf8(id).ok());
        self.is_named_by_caller = taken.is_some();
        self.request_id = taken.map_or_else(|| fresh().to_string(), str::to_owned);
    }

    /// Notes an action; the strictest one counts.
    pub fn acted(&mut self, action: Action) {
        self.outcome.action = self.outcome.action.max(Some(action));
    }

    /// Notes that it was refused, where that is a policy's doing. Of what nobody can read, a shadow goes by a fail mode of
    /// its own.
    pub fn refused(&mut self, rejection: &Rejection) {
        if !rejection.is_block() {
            return;
        }
        self.acted(Action::Block);
        let is_unread =
            matches!(rejection, Rejection::UnreadableRequest(_) | Rejection::UnreadableResponse(_));
        let policy = self.passage.as_ref().filter(|_| is_unread).map(|passage| &passage.policy);
        if let Some(shadow) = policy.and_then(|policy| self.rules.shadow_of(policy)) {
            self.outcome.shadow.act(shadow.fail_mode.action());
        }
    }

    /// Returns the types of what the exchange was blocked for, at most `NAMED_MAX` of them.
    pub fn blocked_for(&self) -> Vec<&str> {
        let seen = self.outcome.request.iter().chain(&self.outcome.response);
        let mut names = Vec::new();
        for observation in seen.filter(|observation| observation.action == Action::Block) {
            let Some(kind) = self.rules.kind(observation.detector) else { continue };
            if names.len() < NAMED_MAX && !names.contains(&kind.name) {
                names.push(kind.name);
            }
        }
        names
    }

    /// Returns `policy@revision`, once a policy is known.
    pub fn decided_by(&self) -> Option<String> {
        let passage = self.passage.as_ref()?;
        Some(format!("{}@{}", passage.policy.id.as_str(), self.rules.revision))
    }
}
