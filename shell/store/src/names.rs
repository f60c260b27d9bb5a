//! Names as keys: a keyed 128-bit hash of user and domain in place of the text.
//!
//! A cache of millions of users that held their names would mostly hold names. With a random key
//! nobody can make two names meet, and 2^64 users would be needed for two to meet by chance.

use location::in_one_piece;
use siphasher::sip128::SipHasher13;

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

    /// The key of `user` (letter case counts, the way of writing it does not) at `domain` (letter case does
    /// not).
    pub(crate) fn key(&self, user: &[u8], domain: &[u8]) -> NameKey {
        let user = &sip_auth::canonical_user(user)[..];
        let mut room = [0; 255];
        let lower = match room.get_mut(..domain.len()) {
            Some(room) => room,
            None => &mut domain.to_vec(),
        };
        lower.copy_from_slice(domain);
        lower.make_ascii_lowercase();
        // 255 cannot be in either part, so that no byte can move from one to the other.
        let hash =
            in_one_piece(&[user, &[0xff], lower], |bytes| SipHasher13::new_with_key(&self.key).hash(bytes));
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
        assert_eq!(hasher.key("j\u{f6}rg#".as_bytes(), b"a.b"), hasher.key(b"j%c3%B6rg%23", b"a.b"));
        assert_ne!(hasher.key(b"bob", b"a.b"), hasher.key(b"boba", b".b"));
        assert_ne!(hasher.key(b"bob", b"a.b"), NameHasher::new([8; 16]).key(b"bob", b"a.b"));
    }
}
