//! The key of a client, and how a server proves that it has read it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// What is appended to the key (RFC 6455 section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A value of Sec-WebSocket-Key: 16 bytes in base64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key([u8; 24]);

impl Key {
    /// The key of 16 bytes, which a client chooses at random for each connection.
    pub fn new(nonce: [u8; 16]) -> Key {
        Key(encode(&nonce))
    }

    /// The key that a client has sent; `None` if it does not decode to 16 bytes.
    pub fn from_field(value: &[u8]) -> Option<Key> {
        let text: [u8; 24] = value.try_into().ok()?;
        let digits = text.strip_suffix(b"==")?;
        let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        digits.iter().all(is_digit).then_some(Key(text))
    }

    /// What is sent.
    pub fn as_bytes(&self) -> &[u8; 24] {
        &self.0
    }

    /// The value of Sec-WebSocket-Accept that answers it (section 4.2.2).
    pub(crate) fn accept(&self) -> [u8; 28] {
        encode(&Sha1::new().chain_update(self.0).chain_update(GUID).finalize())
    }
}

/// Base64 of bytes that fill `N` characters.
fn encode<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut text = [0; N];
    let written = STANDARD.encode_slice(bytes, &mut text);
    debug_assert_eq!(written, Ok(N));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 6455 section 1.3 and RFC 7118 section 4.1.
    #[test]
    fn accept_value_is_that_of_the_rfc() {
        let key = Key::from_field(b"dGhlIHNhbXBsZSBub25jZQ==").expect("16 bytes");
        assert_eq!(&key.accept(), b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(Key::new(*b"the sample nonce"), key);
    }

    #[test]
    fn keys_that_are_not_16_bytes_are_refused() {
        for value in [
            &b""[..],
            b"dGhlIHNhbXBsZSBub25jZQ=",
            b"dGhlIHNhbXBsZSBub25jZQ===",
            b"dGhlIHNhbXBsZSBub25jZUE=",
            b"dGhlIHNhbXBsZSBub25jZUEh",
            b"dGhlIHNhbXBsZSBub25j====",
            b"dGhlIHNhbXBs\0SBub25jZQ==",
            b"dGhlIHNhbXBs-SBub25jZQ==",
        ] {
            assert_eq!(Key::from_field(value), None, "{}", value.escape_ascii());
        }
    }
}
