//! Keys whose bytes sort as the keys do.

use crate::id::Ulid;

use super::KeyRange;

/// A key that can be written so that byte order is key order.
pub trait Key: Sized {
    /// Returns the bytes the key is stored under.
    fn to_bytes(&self) -> Vec<u8>;

    /// Returns the key stored as `bytes`, or `None` when these are not a key.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

/// Returns the range of the keys whose first half is `first`.
pub fn prefix_range(first: &str) -> KeyRange {
    KeyRange::prefix(&terminated(first))
}

impl Key for u64 {
    fn to_bytes(&self) -> Vec<u8> {
        self.to_be_bytes().to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::from_be_bytes)
    }
}

impl Key for Ulid {
    fn to_bytes(&self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Self(u128::from_be_bytes(bytes)))
    }
}

impl Key for String {
    fn to_bytes(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::from_utf8(bytes.to_vec()).ok()
    }
}

impl Key for (String, Ulid) {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = terminated(&self.0);
        bytes.extend_from_slice(&self.1.0.to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (text, id) = bytes.split_at_checked(bytes.len().checked_sub(16)?)?;
        let text = text.strip_suffix(&[0, 0])?;
        let mut plain = Vec::with_capacity(text.len());
        let mut rest = text.iter();
        while let Some(byte) = rest.next() {
            if *byte == 0 && rest.next() != Some(&1) {
                return None;
            }
            plain.push(*byte);
        }
        Some((String::from_utf8(plain).ok()?, Ulid::from_bytes(id)?))
    }
}

/// Returns text with an end that sorts before any longer text: NUL becomes `0 1`, the end is `0 0`.
fn terminated(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() + 2);
    for byte in text.bytes() {
        bytes.push(byte);
        if byte == 0 {
            bytes.push(1);
        }
    }
    bytes.extend_from_slice(&[0, 0]);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn byte_order_is_key_order(a in "[\\x00-\\x02a]{0,6}", b in "[\\x00-\\x02a]{0,6}", x: u128, y: u128) {
            let (one, two) = ((a, Ulid(x)), (b, Ulid(y)));
            prop_assert_eq!(one.cmp(&two), one.to_bytes().cmp(&two.to_bytes()));
            prop_assert_eq!(<(String, Ulid)>::from_bytes(&one.to_bytes()), Some(one));
        }

        #[test]
        fn numbers_sort(a: u64, b: u64) {
            prop_assert_eq!(a.cmp(&b), a.to_bytes().cmp(&b.to_bytes()));
        }
    }

    #[test]
    fn a_prefix_holds_its_own_keys_only() {
        let range = prefix_range("ab");
        let inside = |text: &str| {
            let key = (text.to_owned(), Ulid(7)).to_bytes();
            key >= range.start && range.end.as_ref().is_none_or(|end| key < *end)
        };
        assert!(inside("ab") && !inside("a") && !inside("abc") && !inside("ab\0"));
    }
}
