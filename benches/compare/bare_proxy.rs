//! A Pingora proxy that does nothing but forward: the denominator of every figure in `make bench`.
//!
//! Usage: `bare_proxy LISTEN UPSTREAM`, both `ADDRESS:PORT`. It runs one worker thread, as the
//! gateway does in the comparison.

use std::error::Error;

use async_trait::async_trait;
use pingora::proxy::ProxyHttp;
use pingora::proxy::Session;
use pingora::proxy::http_proxy_service;
use pingora::server::Server;
use pingora::server::configuration::ServerConf;
use pingora::upstreams::peer::HttpPeer;

struct BareProxy {
    upstream: String,
}

#[async_trait]
impl ProxyHttp for BareProxy {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _session: &mut Session, _ctx: &mut ()) -> pingora::Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.upstream.as_str(), false, String::new())))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(listen), Some(upstream)) = (words.next(), words.next()) else {
        return Err("usage: bare_proxy LISTEN UPSTREAM".into());
    };
    let conf = ServerConf { threads: 1, upstream_keepalive_pool_size: 256, ..ServerConf::default() };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let mut service = http_proxy_service(&server.configuration, BareProxy { upstream });
    service.add_tcp(&listen);
    server.add_service(service);
    server.run_forever();
}
