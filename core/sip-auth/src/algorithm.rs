//! The digest algorithms and the hash of a user's secret.

use crate::hash::{Gather, Hash};
use crate::hex;
use crate::md5::Md5;
use core::fmt;
use sha2::{Sha256, Sha512_256};

/// A digest algorithm (RFC 7616 section 6.1, RFC 8760 section 2.1). The `-sess` variants are not
/// offered and not accepted: they exist for third-party authentication servers, which we are not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// MD5, the only one every SIP device knows.
    Md5,
    /// SHA-256.
    Sha256,
    /// SHA-512/256.
    Sha512_256,
}

impl Algorithm {
    /// The name in the `algorithm` parameter.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Md5 => "MD5",
            Algorithm::Sha256 => "SHA-256",
            Algorithm::Sha512_256 => "SHA-512-256",
        }
    }

    /// Reads a name in any case; `None` for one we do not offer, `-sess` variants included.
    pub fn from_name(name: &[u8]) -> Option<Algorithm> {
        const ALL: [Algorithm; 3] = [Algorithm::Md5, Algorithm::Sha256, Algorithm::Sha512_256];
        ALL.into_iter().find(|a| a.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// Length of a digest in bytes.
    pub const fn digest_len(self) -> usize {
        match self {
            Algorithm::Md5 => 16,
            Algorithm::Sha256 | Algorithm::Sha512_256 => 32,
        }
    }
}

/// H(A1): the hash of `user:realm:password`, all that a server needs to know of a password
/// (RFC 7616 section 3.4.2). It is as good as the password within its realm, so `Debug` hides it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ha1 {
    /// By MD5.
    Md5([u8; 16]),
    /// By SHA-256.
    Sha256([u8; 32]),
    /// By SHA-512/256.
    Sha512_256([u8; 32]),
}

impl Ha1 {
    /// Which algorithm made it.
    pub const fn algorithm(&self) -> Algorithm {
        match self {
            Ha1::Md5(_) => Algorithm::Md5,
            Ha1::Sha256(_) => Algorithm::Sha256,
            Ha1::Sha512_256(_) => Algorithm::Sha512_256,
        }
    }

    /// The digest, 16 or 32 bytes.
    pub const fn as_bytes(&self) -> &[u8] {
        match self {
            Ha1::Md5(b) => b,
            Ha1::Sha256(b) | Ha1::Sha512_256(b) => b,
        }
    }

    /// From the bytes of a digest; `None` if the length is not the algorithm's.
    pub fn from_bytes(algorithm: Algorithm, bytes: &[u8]) -> Option<Ha1> {
        Some(match algorithm {
            Algorithm::Md5 => Ha1::Md5(bytes.try_into().ok()?),
            Algorithm::Sha256 => Ha1::Sha256(bytes.try_into().ok()?),
            Algorithm::Sha512_256 => Ha1::Sha512_256(bytes.try_into().ok()?),
        })
    }

    /// From hexadecimal text of either case, as subscriber tables hold it.
    pub fn from_hex(algorithm: Algorithm, text: &[u8]) -> Option<Ha1> {
        let mut bytes = [0; 32];
        let bytes = bytes.get_mut(..algorithm.digest_len())?;
        if hex::decode(text, bytes) { Ha1::from_bytes(algorithm, bytes) } else { None }
    }
}

impl fmt::Debug for Ha1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ha1({}, hidden)", self.algorithm().name())
    }
}

/// The hash of `user:realm:password` by `algorithm`.
///
/// `user` is the text a client puts in `username`, so a table that serves clients of both habits
/// keeps one hash for `alice` and one for `alice@example.com`.
pub fn ha1(algorithm: Algorithm, user: &[u8], realm: &[u8], password: &[u8]) -> Ha1 {
    match algorithm {
        Algorithm::Md5 => Ha1::Md5(a1::<Md5>(user, realm, password)),
        Algorithm::Sha256 => Ha1::Sha256(a1::<Sha256>(user, realm, password)),
        Algorithm::Sha512_256 => Ha1::Sha512_256(a1::<Sha512_256>(user, realm, password)),
    }
}

/// The hash of `user:realm:password` (RFC 7616 section 3.4.2).
fn a1<H: Hash>(user: &[u8], realm: &[u8], password: &[u8]) -> H::Sum {
    let mut a1 = Gather::<H>::new();
    a1.add_part(user);
    a1.add_part(realm);
    a1.add(password);
    a1.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_case_and_sessions_are_not_ours() {
        assert_eq!(Algorithm::from_name(b"md5"), Some(Algorithm::Md5));
        assert_eq!(Algorithm::from_name(b"sha-512-256"), Some(Algorithm::Sha512_256));
        for foreign in [&b"MD5-sess"[..], b"SHA-256-sess", b"SHA-1", b"", b"MD5 "] {
            assert_eq!(Algorithm::from_name(foreign), None);
        }
    }

    #[test]
    fn table_text_is_read_and_debug_hides_it() {
        // The value that RFC 2617 section 5 computes for its example user.
        let made = ha1(Algorithm::Md5, b"Mufasa", b"testrealm@host.com", b"Circle Of Life");
        assert_eq!(Ha1::from_hex(Algorithm::Md5, b"939e7578ed9e3c518a452acee763bce9"), Some(made));
        assert_eq!(Ha1::from_hex(Algorithm::Sha256, b"939e7578ed9e3c518a452acee763bce9"), None);
        assert!(!format!("{made:?}").contains("93"));
    }
}
