//! Where somebody comes from whom no credential names.

use std::net::IpAddr;
use std::net::SocketAddr;
use std::str::FromStr;

/// A network: addresses whose first bits are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its first address, of IPv4 as IPv6 maps it.
    first: u128,
    /// How many of the last bits tell one of its addresses from another.
    free_bits: u32,
}

/// A text that is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected addresses or networks like 10.0.0.0/8, whose last bits are zero")]
pub struct InvalidNetwork;

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(it, bits)| (it, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| InvalidNetwork)?;
        let length = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(length), str::parse::<u32>).map_err(|_| InvalidNetwork)?;
        let free_bits = length.checked_sub(bits).ok_or(InvalidNetwork)?;
        let first = mapped(address);
        if first.trailing_zeros() < free_bits { Err(InvalidNetwork) } else { Ok(Self { first, free_bits }) }
    }
}

impl Network {
    /// Tells whether an address is one of it.
    pub fn contains(self, address: IpAddr) -> bool {
        let begin = |address: u128| address.checked_shr(self.free_bits).unwrap_or_default();
        begin(mapped(address)) == begin(self.first)
    }
}

fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// Returns the client behind proxies that are trusted. Each of them adds whom it was asked by to the end of what was
/// `forwarded` to it (`X-Forwarded-For`): the last who is no trusted proxy is the client. What stands before that
/// anybody may have written, and it counts for nothing; nor does any of it where the `peer` is no trusted proxy.
pub fn client<'a>(
    peer: IpAddr,
    forwarded: impl DoubleEndedIterator<Item = &'a str>,
    trusted: &[Network],
) -> IpAddr {
    let mut client = peer;
    for hop in forwarded.rev() {
        if !trusted.iter().any(|network| network.contains(client)) {
            break;
        }
        let Some(before) = hop_address(hop.trim()) else { break };
        client = before;
    }
    client
}

/// Reads an address; some proxies add the port.
fn hop_address(hop: &str) -> Option<IpAddr> {
    let with_port = || hop.parse::<SocketAddr>().ok().map(|address| address.ip());
    hop.parse().ok().or_else(with_port)
}

/// Returns what is taken for one place: an address, or the /64 of IPv6 that one customer has.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) & !u128::from(u64::MAX)).into()),
    }
}

/// Returns what those without a credential are counted under: the place they come from.
pub fn stranger(address: Option<IpAddr>) -> String {
    address.map_or_else(|| "address:unknown".to_owned(), |address| format!("address:{}", network(address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_network_has_its_addresses_and_no_others() {
        let cases = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
        ];
        for (network, address, expected) in cases {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), expected, "{network:?} {address}");
        }
        for text in ["", "10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/", "10.0.0.0/-1", "proxy", "::1/64"] {
            assert_eq!(text.parse::<Network>(), Err(InvalidNetwork), "{text}");
        }
    }

    #[test]
    fn the_client_is_whom_the_last_trusted_proxy_names() {
        let trusted = networks(&["10.0.0.0/8", "fd00::/8"]);
        let cases: &[(&str, &[&str], &str)] = &[
            ("10.0.0.1", &["203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1", &["203.0.113.9:4711"], "203.0.113.9"),
            ("fd00::1", &["[2001:db8::1]:443"], "2001:db8::1"),
            ("10.0.0.1", &["203.0.113.9", " 10.0.0.2 "], "203.0.113.9"),
            // What the client wrote itself.
            ("10.0.0.1", &["127.0.0.1", "203.0.113.9", "10.0.0.2"], "203.0.113.9"),
            ("203.0.113.9", &["127.0.0.1"], "203.0.113.9"),
            ("10.0.0.1", &["127.0.0.1", "unknown"], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.9", "", "10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["10.0.0.2"], "10.0.0.2"),
        ];
        for (peer, hops, expected) in cases {
            let found = client(peer.parse().unwrap(), hops.iter().copied(), &trusted);
            assert_eq!(found, expected.parse::<IpAddr>().unwrap(), "{peer} {hops:?}");
            assert_eq!(client(peer.parse().unwrap(), hops.iter().copied(), &[]).to_string(), *peer);
        }
    }

    #[test]
    fn one_place_is_one_stranger() {
        let of = |text: &str| stranger(Some(text.parse().unwrap()));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:ffff:ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.2"), of("10.0.0.1"));
        assert_ne!(stranger(None), of("::"));
    }
}
