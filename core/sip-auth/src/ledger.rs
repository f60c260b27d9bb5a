//! What a check asks of its surroundings: secrets, and the shards of the two tables.

use crate::{Algorithm, Backoff, Ha1, Minted, Name, NonceCounts, Recent};
use core::net::{IpAddr, SocketAddr};

/// Where secrets come from. A closure `FnMut(&Name, Algorithm) -> Option<Ha1>` is one.
pub trait Lookup {
    /// The hash for `user` as written; `None` if there is no such user or no such hash. Should take
    /// the same time in all cases, or strangers can tell who exists.
    fn ha1(&mut self, user: &Name, algorithm: Algorithm) -> Option<Ha1>;

    /// Whether `user` is at home at `source`: it has a live binding that was registered from there.
    /// Asked at each wrong answer, and where a network has had too many of them. The default knows nobody.
    fn familiar(&mut self, user: &Name, source: IpAddr) -> bool {
        let _ = (user, source);
        false
    }

    /// Whether `user` has a live binding that was registered from this address and port. Asked only for
    /// those who would have to wait. The default knows nobody.
    fn registered(&mut self, user: &Name, peer: SocketAddr) -> bool {
        let _ = (user, peer);
        false
    }

    /// A number that is another one when the secrets of `user` are changed, or the account is made or
    /// removed; the same for a name with the home domain and without
    /// ([`Credentials::mark`](crate::Credentials::mark)). Whoever has to wait for wrong answers to
    /// secrets that are no more is let through. Asked at each wrong answer and for whoever would have
    /// to wait, in lower case: an account with capitals has none, and waits all the same, as all do by
    /// default. Should take the same time in all cases.
    fn mark(&mut self, user: &Name) -> u32 {
        let _ = user;
        0
    }
}

impl<F: FnMut(&Name, Algorithm) -> Option<Ha1>> Lookup for F {
    fn ha1(&mut self, user: &Name, algorithm: Algorithm) -> Option<Ha1> {
        self(user, algorithm)
    }
}

/// Gives access to the shards of the two tables. `key` picks the shard: always the same one for the
/// same key, for example [`shard_of`](crate::shard_of)`(key, shards)`. Both are held only during `use_it`,
/// which is short; no call is made from within another.
pub trait Ledger {
    /// Lends the shard of nonce counts that serves `key`.
    fn nonces<R>(&mut self, key: u64, use_it: impl FnOnce(&mut NonceCounts) -> R) -> R;
    /// Lends the shard of back-off scores that serves `key`.
    fn backoff<R>(&mut self, key: u64, use_it: impl FnOnce(&mut Backoff) -> R) -> R;
    /// What the worker that checks has at hand, if it keeps any. The default keeps nothing.
    fn recent(&mut self) -> Option<&mut Recent> {
        None
    }
}

/// A ledger of one shard each, for a single thread.
#[derive(Debug)]
pub struct LocalLedger {
    /// The used nonce counts.
    pub nonces: NonceCounts,
    /// The back-off scores.
    pub backoff: Backoff,
    /// What is at hand, if anything is kept.
    pub recent: Option<Recent>,
}

impl LocalLedger {
    /// Remembers a nonce that was given out in a challenge for `realm`, if anything is kept.
    pub fn note(&mut self, realm: &[u8], minted: Minted) {
        if let Some(recent) = &mut self.recent {
            recent.note(realm, minted);
        }
    }
}

impl Ledger for LocalLedger {
    fn nonces<R>(&mut self, _key: u64, use_it: impl FnOnce(&mut NonceCounts) -> R) -> R {
        use_it(&mut self.nonces)
    }

    fn backoff<R>(&mut self, _key: u64, use_it: impl FnOnce(&mut Backoff) -> R) -> R {
        use_it(&mut self.backoff)
    }

    fn recent(&mut self) -> Option<&mut Recent> {
        self.recent.as_mut()
    }
}
