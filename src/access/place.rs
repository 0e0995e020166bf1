//! Where somebody comes from whom no credential names.

use std::net::IpAddr;

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
