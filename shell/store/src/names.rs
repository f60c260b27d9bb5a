//! Names as keys: a keyed 128-bit hash of user and domain in place of the text.
//!
//! A cache of millions of users that held their names would mostly hold names. With a random key
//! nobody can make two names meet, and 2^64 users would be needed for two to meet by chance.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

/// Makes [`NameKey`]s. Each value has its own random key.
#[derive(Clone, Debug)]
pub(crate) struct NameHasher {
    key: [u8; 16],
}

/// What stands for a user and a domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct NameKey(pub(crate) u64, pub(crate) u64);

impl NameHasher {
    pub(crate) fn new(key: [u8; 16]) -> NameHasher {
        NameHasher { key }
    }

    /// With a key from the system; `None` if it gives no random bytes.
    pub(crate) fn random() -> Option<NameHasher> {
        let mut key = [0; 16];
        getrandom::fill(&mut key).ok()?;
        Some(NameHasher::new(key))
    }

    /// The key of `user` (letter case counts) at `domain` (letter case does not).
    pub(crate) fn key(&self, user: &[u8], domain: &[u8]) -> NameKey {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(user);
        // Cannot be in either part, so that no byte can move from one to the other.
        hasher.write_u8(0xff);
        let mut lower = [0u8; 32];
        for chunk in domain.chunks(lower.len()) {
            if let Some(part) = lower.get_mut(..chunk.len()) {
                part.copy_from_slice(chunk);
                part.make_ascii_lowercase();
                hasher.write(part);
            }
        }
        let hash = hasher.finish128();
        NameKey(hash.h1, hash.h2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_fold_case_and_users_do_not() {
        let hasher = NameHasher::new([7; 16]);
        let long = b"a.very.long.DOMAIN.name.of.more.than.one.chunk.example.com";
        assert_eq!(hasher.key(b"bob", long), hasher.key(b"bob", &long.to_ascii_lowercase()));
        assert_ne!(hasher.key(b"bob", b"a.b"), hasher.key(b"Bob", b"a.b"));
        assert_ne!(hasher.key(b"bob", b"a.b"), hasher.key(b"boba", b".b"));
        assert_ne!(hasher.key(b"bob", b"a.b"), NameHasher::new([8; 16]).key(b"bob", b"a.b"));
    }
}
