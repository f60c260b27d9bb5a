//! Masking.

/// Masks or unmasks a payload where it is (RFC 6455 section 5.3): both are the same operation.
#[inline]
pub fn mask(payload: &mut [u8], key: [u8; 4]) {
    let [a, b, c, d] = key;
    let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = payload.as_chunks_mut::<8>();
    for bytes in words {
        *bytes = (u64::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// As section 5.3 has it: octet i is combined with octet i modulo 4 of the key.
        #[test]
        fn each_octet_is_combined_with_its_octet_of_the_key(
            bytes in proptest::collection::vec(any::<u8>(), 0..70),
            key in any::<[u8; 4]>(),
        ) {
            let wanted: Vec<u8> = bytes.iter().enumerate().map(|(at, byte)| byte ^ key[at % 4]).collect();
            let mut masked = bytes.clone();
            mask(&mut masked, key);
            prop_assert_eq!(&masked, &wanted);
            mask(&mut masked, key);
            prop_assert_eq!(masked, bytes);
        }
    }
}
