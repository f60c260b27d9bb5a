//! Keys from the server's secret: one for each use.

use sha2::{Digest, Sha256};

/// Bytes of a block of SHA-256.
const BLOCK: usize = 64;

/// A key for one use, from the server's secret: HKDF-Expand with SHA-256 (RFC 5869 section 2.3), where the
/// secret is the pseudorandom key and the use is the info. Nodes that share a secret have the same keys.
pub fn derive(secret: &[u8; 32], label: &str) -> [u8; 16] {
    let block = hmac(secret, &[b"strowger ", label.as_bytes(), &[1]]);
    core::array::from_fn(|at| block[at])
}

/// HMAC-SHA-256 (RFC 2104), with a key of at most one block.
fn hmac(key: &[u8], message: &[&[u8]]) -> [u8; 32] {
    assert!(key.len() <= BLOCK, "a longer key would have to be hashed");
    let padded =
        |pad: u8| -> [u8; BLOCK] { core::array::from_fn(|at| key.get(at).copied().unwrap_or(0) ^ pad) };
    let mut inner = Sha256::new_with_prefix(padded(0x36));
    message.iter().for_each(|part| inner.update(part));
    Sha256::new_with_prefix(padded(0x5c)).chain_update(inner.finalize()).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn hmac_is_that_of_rfc_4231() {
        let cases: [(&[u8], &[u8], &str); 2] = [
            (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
        ];
        for (key, message, mac) in cases {
            assert_eq!(hex(&hmac(key, &[message])), mac);
            assert_eq!(hex(&hmac(key, &[&message[..3], &message[3..]])), mac, "in two parts");
        }
    }

    #[test]
    fn keys_of_one_secret_differ_by_use_and_stay() {
        // Nodes of all versions agree on it.
        assert_eq!(hex(&derive(&[7; 32], "dialog")), "657e26d8da3070f55f4b619e6f078aca");
        assert_ne!(derive(&[7; 32], "dialog"), derive(&[7; 32], "hash"));
        assert_ne!(derive(&[7; 32], "dialog"), derive(&[8; 32], "dialog"));
    }
}
