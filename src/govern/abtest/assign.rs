//! Which variant a request belongs to: a function of its id and the weights, so that everybody who asks is told
//! the same, on every node and after every restart.

const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

/// Returns the FNV-1a hash of 32 bits (Fowler, Noll, Vo: isthe.com/chongo/tech/comp/fnv).
pub fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(PRIME))
}

/// Returns the place of the variant of a request: the hash of its id, modulo the sum of the weights, walked along
/// the weights as they are given. `None` where the weights are all zero.
pub fn variant(request_id: &str, weights: impl Iterator<Item = u32> + Clone) -> Option<usize> {
    let sum: u64 = weights.clone().map(u64::from).sum();
    let mut point = u64::from(fnv1a(request_id.as_bytes())).checked_rem(sum)?;
    for (at, weight) in weights.enumerate() {
        match point.checked_sub(u64::from(weight)) {
            None => return Some(at),
            Some(rest) => point = rest,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        // From the test vectors of the authors, for fnv1a_32.
        let vectors: [(&[u8], u32); 14] = [
            (b"", 0x811c_9dc5),
            (b"a", 0xe40c_292c),
            (b"b", 0xe70c_2de5),
            (b"c", 0xe60c_2c52),
            (b"d", 0xe10c_2473),
            (b"e", 0xe00c_22e0),
            (b"f", 0xe30c_2799),
            (b"fo", 0x6222_e842),
            (b"foo", 0xa9f3_7ed7),
            (b"foob", 0x3f50_76ef),
            (b"fooba", 0x39aa_a18a),
            (b"foobar", 0xbf9c_f968),
            (b"\0", 0x050c_5d1f),
            (b"chongo was here!\n", 0xd499_30d5),
        ];
        for (text, hash) in vectors {
            assert_eq!(fnv1a(text), hash, "{text:?}");
        }
    }

    #[test]
    fn the_walk_is_cumulative_in_the_given_order() {
        // 0xbf9cf968 is 3214735720: modulo 100 it is 20.
        for (weights, at) in [([20, 80], 1), ([21, 79], 0), ([0, 100], 1), ([100, 0], 0)] {
            assert_eq!(variant("foobar", weights.into_iter()), Some(at), "{weights:?}");
        }
        assert_eq!(variant("foobar", [10, 10, 1, 79].into_iter()), Some(2));
        assert_eq!(variant("foobar", [0, 0].into_iter()), None);
        assert_eq!(variant("foobar", std::iter::empty()), None);
        assert_eq!(variant("foobar", [u32::MAX, u32::MAX].into_iter()), Some(0));
    }

    #[test]
    fn requests_are_shared_out_by_weight() {
        let count = (0..10_000)
            .filter(|id| variant(&format!("request-{id}"), [90, 10].into_iter()) == Some(1))
            .count();
        assert!((900..1100).contains(&count), "{count}");
    }
}
