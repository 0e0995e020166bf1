//! Servers that are reached only with proof of who calls: no row of changes that an operator may make leads around it.

use serde_json::Value;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::a2a::Deployment;
use crate::a2a::UNPACED;
use crate::a2a::call;
use crate::a2a::sound;
use crate::gateway::Gateway;
use crate::upstream::Upstream;
use crate::usage::admin;
use crate::wire::exchange;

/// Sets the routes with a key; returns the status.
fn set(gateway: &Gateway, key: &str, routes: &[Value]) -> u16 {
    let body = json!({ "routes": routes }).to_string();
    let request = format!(
        "PUT /api/v1/config HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        gateway.admin,
        body.len()
    );
    exchange(gateway.admin, request.as_bytes()).status
}

/// Returns routes in which one has another value of a key.
fn with(routes: &[Value], name: &str, key: &str, value: Value) -> Vec<Value> {
    let changed = |route: &Value| {
        let mut route = route.clone();
        if route["name"] == name {
            route[key] = value.clone();
        }
        route
    };
    routes.iter().map(changed).collect()
}

fn without(routes: &[Value], name: &str) -> Vec<Value> {
    routes.iter().filter(|route| route["name"] != name).cloned().collect()
}

#[test]
fn an_operator_opens_no_guarded_server_in_several_steps() {
    let deployment = Deployment::make();
    let servers = [(); 3].map(|()| Upstream::answering("application/json", "{}"));
    let [open, agents, keyed] = &servers;
    let route = |name: &str, auth: &str, server: &Upstream| {
        format!(
            "[[routes]]\nname = \"{name}\"\npath_prefix = \"/{name}\"\nupstream = \"http://{}\"\nauth = \"{auth}\"\n\
             policy = \"default\"\n",
            server.address
        )
    };
    let more =
        [UNPACED, &route("of-agents", "a2a", agents), &route("of-keys", "gateway_key", keyed)].concat();
    let gateway = deployment.start(open.address, &more);
    let operator = json!({ "name": "ops", "role": "operator" });
    let (_, operator) = admin(&gateway, "POST", "/api/v1/keys", &operator);
    let operator = operator["key"].as_str().expect("a key");
    let (_, config) = admin(&gateway, "GET", "/api/v1/config", &json!({}));
    let routes = config["routes"].as_array().expect("routes").clone();
    for (name, server) in [("of-agents", agents), ("of-keys", keyed)] {
        let address = format!("http://{}", server.address);
        let opened = json!({ "name": "back", "path_prefix": "/back", "upstream": address });
        let beside = |routes: &[Value]| [routes, std::slice::from_ref(&opened)].concat();
        let moved = with(&routes, name, "upstream", json!("http://127.0.0.1:9"));
        for (step, tried) in [
            ("an open route beside it", beside(&routes)),
            ("the guarded route led elsewhere", moved.clone()),
            ("both at once", beside(&moved)),
            ("the guarded route taken away", without(&routes, name)),
            ("asked for less", with(&routes, name, "auth", json!("transparent"))),
        ] {
            assert_eq!(set(&gateway, operator, &tried), 403, "{name}: {step}");
        }
        // What leaves the server guarded is an operator's business.
        let renamed = with(&routes, name, "path_prefix", json!("/elsewhere"));
        let mut second = routes.iter().find(|route| route["name"] == name).expect("it is there").clone();
        (second["name"], second["path_prefix"]) = (json!("second"), json!("/second"));
        let twice = [&routes[..], &[second]].concat();
        for allowed in [renamed, routes.clone(), twice.clone(), without(&twice, name), twice, routes.clone()]
        {
            assert_eq!(set(&gateway, operator, &allowed), 200, "{name}");
        }
    }
    let at = (gateway.proxy, &deployment.server);
    for path in ["/back", "/of-agents", "/of-keys"] {
        Runtime::new().expect("a runtime").block_on(call(at, None, "h2", path, &sound()));
    }
    assert!(agents.take().is_empty() && keyed.take().is_empty(), "somebody unknown came through");
    // An administrator decides that a server is not guarded any more.
    assert_eq!(set(&gateway, &gateway.admin_key(), &without(&routes, "of-keys")), 200);
}
