//! Sessions of browsers that call several nodes, whose ends all nodes know in a real Redis.

use std::time::Duration;

use super::Deployment;
use super::eventually;
use super::limits::Redis;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::wire::Response;
use crate::wire::exchange;

const PATIENCE: Duration = Duration::from_secs(20);

fn start(redis: &Redis, when_away: &str) -> Deployment {
    let more = format!(
        "[cluster]\nenabled = true\nlimits = \"redis\"\n[cluster.redis]\nurl_file = \"redis.url\"\n\
         when_away = \"{when_away}\"\n{UNLIMITED}"
    );
    Deployment::start_with(2, &more, &[("redis.url", Redis::url_at(redis.port))])
}

/// Calls a node as a browser does; returns the status, and the cookie that is set.
fn browse(node: &Gateway, method: &str, path: &str, cookie: &str, form: &str) -> (u16, Option<String>) {
    let answer = browsed(node, method, path, cookie, form);
    let cookie = answer.header("set-cookie").and_then(|set| set.split(';').next()).map(str::to_owned);
    (answer.status, cookie)
}

/// Calls a node as a browser does.
fn browsed(node: &Gateway, method: &str, path: &str, cookie: &str, form: &str) -> Response {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {}\r\nsec-fetch-site: same-origin\r\ncookie: {cookie}\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{form}",
        node.admin,
        form.len()
    );
    exchange(node.admin, request.as_bytes())
}

/// Signs in at the first node; returns the cookie, with which somebody is known at both.
fn signed_in(world: &Deployment) -> String {
    let form = format!("key={}", world.admin);
    let (_, cookie) = browse(&world.nodes[0], "POST", "/login", "none=", &form);
    let cookie = cookie.expect("a session");
    eventually(PATIENCE, "the session counts at both nodes", || {
        (0..2).all(|node| status(world, node, &cookie) == 200)
    });
    cookie
}

fn status(world: &Deployment, node: usize, cookie: &str) -> u16 {
    browse(&world.nodes[node], "GET", "/api/v1/sessions", cookie, "").0
}

#[test]
fn who_signed_out_at_one_node_is_signed_out_at_all_whatever_the_database_tells() {
    let mut redis = Redis::start();
    let world = start(&redis, "refuse");
    let [first, second, third] = [(); 3].map(|()| signed_in(&world));
    // The second node hears nothing from the database any more.
    world.relays[1].cut();
    assert_eq!(status(&world, 1, &first), 200);
    assert_eq!(browse(&world.nodes[0], "GET", "/auth/logout", &first, "").0, 303);
    assert_eq!([1, 0].map(|node| status(&world, node, &first)), [401, 401]);
    assert_eq!(status(&world, 1, &second), 200, "the other one goes on");
    world.relays[1].mend();
    // Whether it has ended nobody can tell then: who may be signed in is neither refused nor sent to sign in again.
    redis.kill();
    assert_eq!(status(&world, 1, &second), 503);
    for page in ["/api/v1/sessions", "/", "/ui/keys"] {
        let answer = browsed(&world.nodes[0], "GET", page, &second, "");
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{page}");
    }
    for (page, status) in [("/api/v1/sessions", 401), ("/ui/keys", 303)] {
        assert_eq!(browse(&world.nodes[0], "GET", page, "none=", "").0, status, "who has none: {page}");
    }
    // Who signs out has signed out all the same.
    assert_eq!(browse(&world.nodes[0], "GET", "/auth/logout", &third, "").0, 303);
    redis.restart();
    eventually(PATIENCE, "it counts again", || (0..2).all(|node| status(&world, node, &second) == 200));
    assert_eq!(status(&world, 0, &third), 401);
    eventually(PATIENCE, "the other node hears it from the database", || status(&world, 1, &third) == 401);
}

#[test]
fn without_redis_a_node_goes_by_what_it_heard_where_that_is_wanted() {
    let mut redis = Redis::start();
    let world = start(&redis, "local");
    let cookie = signed_in(&world);
    redis.kill();
    assert_eq!([0, 1].map(|node| status(&world, node, &cookie)), [200, 200]);
    assert_eq!(browse(&world.nodes[0], "GET", "/auth/logout", &cookie, "").0, 303);
    eventually(PATIENCE, "the other node hears it from the database", || status(&world, 1, &cookie) == 401);
}
