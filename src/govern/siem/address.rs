//! From a configured name to an address that may be connected to.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;

use tokio::net::lookup_host;

use super::config::Peer;
use super::sink::Trouble;

/// Returns the addresses of a peer that may be used. What is looked up is what is connected to: the caller
/// takes one of these and never asks for the name again.
///
/// # Errors
/// The name leads nowhere, or only where it must not.
pub(super) async fn resolve(peer: &Peer) -> Result<Vec<SocketAddr>, Trouble> {
    let found = lookup_host((peer.host.as_str(), peer.port)).await.map_err(Trouble::unreachable)?;
    let found: Vec<SocketAddr> = found.collect();
    let usable: Vec<SocketAddr> =
        found.iter().copied().filter(|at| peer.allow_private || is_public(at.ip())).collect();
    match (found.is_empty(), usable.is_empty()) {
        (true, _) => Err(Trouble::Unreachable(ErrorKind::NotFound)),
        (false, true) => Err(Trouble::Private),
        (false, false) => Ok(usable),
    }
}

/// Tells whether a host is an address, not a name, and none of the internet at large: a sink needs `allow_private` to
/// send there.
pub fn is_private_address(host: &str) -> bool {
    host.parse().is_ok_and(|address| !is_public(address))
}

/// Tells whether an address is one of the internet at large (IANA special-purpose registries).
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19)))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    let segments = address.segments();
    let low = Ipv4Addr::from((u32::from(segments[6]) << 16) | u32::from(segments[7]));
    match segments {
        // NAT64 carries an IPv4 address, and so does 6to4.
        [0x64, 0xff9b, ..] => is_public_v4(low),
        [0x2002, high, rest, ..] => is_public_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(rest))),
        // What is given out to the world is 2000::/3, but for what documents use.
        [0x2001, 0xdb8, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_must_not_be_reached_is_told_by_the_switch_that_allows_it() {
        let peer = |host: &str, allow_private| {
            let host = host.to_owned();
            Peer { host, port: 514, tls: false, ca: None, allow_private }
        };
        for host in ["127.0.0.1", "::ffff:127.0.0.1", "localhost"] {
            let trouble = resolve(&peer(host, false)).await.unwrap_err();
            assert_eq!(trouble, Trouble::Private, "{host}");
            assert!(trouble.to_string().contains("allow_private"), "{trouble}");
            assert!(resolve(&peer(host, true)).await.is_ok_and(|found| !found.is_empty()), "{host}");
        }
        assert!(is_private_address("::1") && !is_private_address("1.1.1.1"));
        assert!(!is_private_address("localhost"), "where a name leads is not known before it is looked up");
    }

    #[test]
    fn private_networks_are_told_from_the_internet() {
        for text in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2001:db8::1",
        ] {
            assert!(!is_public(text.parse().expect("an address")), "{text}");
        }
        for text in ["93.184.216.34", "1.1.1.1", "2606:4700:4700::1111", "64:ff9b::101:101"] {
            assert!(is_public(text.parse().expect("an address")), "{text}");
        }
    }
}
