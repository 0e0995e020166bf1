//! What nodes know of agents together: how much they asked for, and what they have signed.

use std::time::Duration;

use jiff::Timestamp;
use tokio::runtime::Runtime;

use super::Deployment;
use super::eventually;
use super::limits::Redis;
use crate::a2a::BODY;
use crate::a2a::Deployment as Agents;
use crate::a2a::Headers;
use crate::a2a::SECRET;
use crate::a2a::Told;
use crate::a2a::but;
use crate::a2a::call;
use crate::a2a::sign;
use crate::upstream::Upstream;

const PATIENCE: Duration = Duration::from_secs(20);
const BURST: usize = 12;

/// Two nodes on a Redis, and an agent that both know.
struct World {
    nodes: Deployment,
    agents: Agents,
    /// Answers the agents.
    _upstream: Upstream,
}

impl World {
    fn start(redis: &Redis, when_away: &str) -> Self {
        let (agents, upstream) = (Agents::make(), Upstream::answering("application/json", "{}"));
        let more = format!(
            "[cluster]\nenabled = true\nlimits = \"redis\"\n[cluster.redis]\nurl_file = \"redis.url\"\n\
             when_away = \"{when_away}\"\n[proxy.tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n\
             [a2a]\nclient_ca = \"agents.pem\"\ncapabilities = \"capabilities.yaml\"\nreplay_window_s = 60\n\
             [a2a.tiers.community]\nrequests_per_minute = 1\nburst = {BURST}\n\
             [[routes]]\nname = \"agents\"\npath_prefix = \"/agents\"\nupstream = \"http://{}\"\n\
             strip_prefix = true\nauth = \"a2a\"\npolicy = \"default\"",
            upstream.address
        );
        let mut files = agents.files().to_vec();
        files.push(("redis.url", Redis::url_at(redis.port)));
        Self { nodes: Deployment::start_with(2, &more, &files), agents, _upstream: upstream }
    }

    fn call(&self, node: usize, headers: &Headers) -> Told {
        let planner = self.agents.authority.agent("planner");
        let at = (self.nodes.nodes[node].proxy, &self.agents.server);
        Runtime::new().expect("a runtime").block_on(call(at, Some(&planner), "h2", "/agents/x", headers))
    }
}

/// Returns a call that was signed so many seconds ago.
fn signed(ago: i64) -> Headers {
    let time = (Timestamp::now().as_second() - ago).to_string();
    let signature = sign(SECRET, &[time.as_bytes(), b".", BODY.as_bytes()]);
    [but("a2a-signature", &signature), vec![("x-a2a-timestamp", time)]].concat()
}

#[test]
fn what_an_agent_signed_counts_once_and_what_it_asks_for_at_whichever_node() {
    let redis = Redis::start();
    let world = World::start(&redis, "refuse");
    let first = signed(0);
    eventually(PATIENCE, "Redis is there", || world.call(0, &first).status == 200);
    for node in [0, 1, 1, 0] {
        let told = world.call(node, &first);
        assert_eq!((told.status, &told.body["code"]), (403, &"A2A_INTEGRITY_INVALID".into()), "{node}");
    }
    // Each is another call, none signed before the nodes began, and one of both nodes' quota.
    let passed = (1..=2 * BURST).filter(|n| world.call(n % 2, &signed(-(*n as i64))).status == 200).count();
    assert!((BURST / 2..=BURST).contains(&passed), "{passed} of a burst of {BURST}");
}

#[test]
fn without_redis_a_node_goes_by_what_it_knows_where_that_is_wanted() {
    for (when_away, told) in [("local", 200), ("refuse", 429)] {
        let mut redis = Redis::start();
        let world = World::start(&redis, when_away);
        let first = signed(0);
        eventually(PATIENCE, "Redis is there", || world.call(0, &first).status == 200);
        redis.kill();
        assert_eq!(
            world.call(1, &signed(50)).status,
            403,
            "{when_away}: it may have come before the node began"
        );
        let second = signed(-1);
        assert_eq!(world.call(1, &second).status, told, "{when_away}");
        assert_ne!(world.call(1, &second).status, 200, "{when_away}: a node knows itself what came");
    }
}
