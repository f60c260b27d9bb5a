//! The hashes of all subscribers in memory, for the data path.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use call_forwarding::Rules;
use hashbrown::HashTable;
use sip_auth::{Algorithm, Credentials, NameForm};

use crate::classes::ClassTable;
use crate::names::{NameHasher, NameKey};
use crate::rules::RuleTable;

/// Parts with a lock of their own. With a million users one part holds a thousand, so that growing
/// one takes some tens of microseconds and a reader meets a writer by rare chance only.
const STRIPES: usize = 1_024;

/// Algorithms counted by [`CredentialCache::everyone_has`].
const ALGORITHMS: [Algorithm; 3] = [Algorithm::Md5, Algorithm::Sha256, Algorithm::Sha512_256];

/// Who is a local user, and the hashes of each.
///
/// Any thread reads without allocating and without waiting for the database. The store's watcher
/// keeps it as the subscriber table is, changes by other processes included, within a second.
pub struct CredentialCache {
    hasher: NameHasher,
    stripes: Box<[RwLock<HashTable<Entry>>]>,
    domains: RwLock<Domains>,
    users: AtomicUsize,
    /// Users without the hash of their bare name, by algorithm.
    lacking: [AtomicUsize; ALGORITHMS.len()],
    classes: ClassTable,
    rules: RuleTable,
}

struct Entry {
    key: NameKey,
    credentials: Credentials,
    /// Index into [`Domains::users`].
    domain: u32,
}

/// A user's place in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UserKey {
    pub(crate) name: NameKey,
    domain: NameKey,
}

/// The domains that have or had users.
#[derive(Default)]
struct Domains {
    index: HashTable<(NameKey, u32)>,
    /// Users of each domain.
    users: Vec<usize>,
}

impl Domains {
    fn find(&self, key: NameKey) -> Option<u32> {
        self.index.find(key.0, |entry| entry.0 == key).map(|entry| entry.1)
    }

    /// The number of a domain, given out if it has none yet.
    fn number(&mut self, key: NameKey) -> u32 {
        self.find(key).unwrap_or_else(|| {
            let number = u32::try_from(self.users.len()).unwrap_or(u32::MAX);
            self.users.push(0);
            self.index.insert_unique(key.0, (key, number), |entry| entry.0.0);
            number
        })
    }

    fn slot(&mut self, number: u32) -> Option<&mut usize> {
        self.users.get_mut(usize::try_from(number).ok()?)
    }
}

impl fmt::Debug for CredentialCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CredentialCache({} users)", self.len())
    }
}

impl CredentialCache {
    pub(crate) fn new(hasher: NameHasher) -> CredentialCache {
        CredentialCache {
            hasher,
            stripes: (0..STRIPES).map(|_| RwLock::new(HashTable::new())).collect(),
            domains: RwLock::default(),
            users: AtomicUsize::new(0),
            lacking: Default::default(),
            classes: ClassTable::new(),
            rules: RuleTable::new(),
        }
    }

    /// Calls `f` with the hashes of `user` at `domain` (any letter case); `None` if there is no such
    /// user. A reader's lock on one of 1,024 parts is held during the call: be quick, and ask nothing
    /// of the cache in it.
    pub fn get<R>(&self, user: &[u8], domain: &[u8], f: impl FnOnce(&Credentials) -> R) -> Option<R> {
        let key = self.hasher.key(user, domain);
        let stripe = self.stripe(key)?.read().unwrap_or_else(PoisonError::into_inner);
        stripe.find(key.0, |entry| entry.key == key).map(|entry| f(&entry.credentials))
    }

    /// Whether `user` at `domain` is a subscriber.
    pub fn is_local_user(&self, user: &[u8], domain: &[u8]) -> bool {
        self.get(user, domain, |_| ()).is_some()
    }

    /// Whether some subscriber belongs to `domain`.
    pub fn is_local_domain(&self, domain: &[u8]) -> bool {
        self.users_of(domain) != 0
    }

    /// Number of subscribers of `domain` (any letter case). Where it is less than [`len`] for a realm
    /// that is asked for whatever the domain, the others cannot prove who they are: their hashes are
    /// looked for under the realm.
    ///
    /// [`len`]: CredentialCache::len
    pub fn users_of(&self, domain: &[u8]) -> usize {
        let key = self.domain_key(domain);
        let domains = self.domains.read().unwrap_or_else(PoisonError::into_inner);
        let users = domains.find(key).and_then(|number| domains.users.get(usize::try_from(number).ok()?));
        users.copied().unwrap_or(0)
    }

    /// Number of subscribers that are of none of `domains` (any letter case, each once), all at one moment.
    pub fn users_beyond<'d>(&self, domains: impl Iterator<Item = &'d [u8]>) -> usize {
        let keys = domains.map(|domain| self.domain_key(domain));
        let domains = self.domains.read().unwrap_or_else(PoisonError::into_inner);
        let users = |number: u32| domains.users.get(usize::try_from(number).ok()?).copied();
        let of_these: usize = keys.filter_map(|key| users(domains.find(key)?)).sum();
        domains.users.iter().sum::<usize>().saturating_sub(of_these)
    }

    /// Calls `f` with the class of `user` at `domain`; `None`: it has none of its own. As quick as
    /// [`get`](CredentialCache::get) should it be.
    pub fn class_of<R>(&self, user: &[u8], domain: &[u8], f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        if self.classes.is_empty() {
            return None;
        }
        self.classes.get(self.hasher.key(user, domain), f)
    }

    /// How many users have each class as their own.
    pub fn users_by_class(&self) -> BTreeMap<String, usize> {
        self.classes.counts()
    }

    /// Sets the class of a user; empty: it has none of its own.
    pub(crate) fn set_class(&self, user: UserKey, class: &[u8]) {
        self.classes.set(user.name, class);
    }

    /// Forgets the classes of users whose keys `keep` does not hold.
    pub(crate) fn retain_classes(&self, keep: impl FnMut(NameKey) -> bool) {
        self.classes.retain(keep);
    }

    /// Whether some subscriber has rules for calls to it.
    pub fn has_rules(&self) -> bool {
        self.rules.len() != 0
    }

    /// The rules of `user` at `domain` for calls to it; `None`: there are none, or no such user.
    pub fn rules(&self, user: &[u8], domain: &[u8]) -> Option<Arc<Rules>> {
        let key = self.hasher.key(user, domain);
        self.rules.get(key).filter(|_| self.has(key))
    }

    /// Sets the rules of a user.
    pub(crate) fn set_rules(&self, user: UserKey, rules: Rules) {
        self.rules.set(user.name, rules);
    }

    /// Removes the rules of all users whose key `keep` does not hold.
    pub(crate) fn retain_rules(&self, keep: impl FnMut(NameKey) -> bool) {
        self.rules.retain(keep);
    }

    /// Number of subscribers.
    pub fn len(&self) -> usize {
        self.users.load(Ordering::Relaxed)
    }

    /// Whether there is no subscriber.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether every subscriber has a hash by `algorithm`. Only such an algorithm can be offered in
    /// challenges: a client takes the first it knows (RFC 8760 section 2.4), and a user without that
    /// hash could not log in.
    pub fn everyone_has(&self, algorithm: Algorithm) -> bool {
        let counts = ALGORITHMS.iter().zip(&self.lacking);
        counts.filter(|(a, _)| **a == algorithm).all(|(_, lacking)| lacking.load(Ordering::Relaxed) == 0)
    }

    pub(crate) fn key(&self, user: &[u8], domain: &[u8]) -> UserKey {
        UserKey { name: self.hasher.key(user, domain), domain: self.domain_key(domain) }
    }

    /// No user has an empty name, so these keys are apart from those of users.
    fn domain_key(&self, domain: &[u8]) -> NameKey {
        self.hasher.key(b"", domain)
    }

    /// Sets what is known of a user; `None` removes it. Answers whether anything changed.
    pub(crate) fn set(&self, user: UserKey, credentials: Option<Credentials>) -> bool {
        let key = user.name;
        let Some(stripe) = self.stripe(key) else { return false };
        let mut stripe = stripe.write().unwrap_or_else(PoisonError::into_inner);
        match (stripe.find_entry(key.0, |entry| entry.key == key), credentials) {
            (Ok(found), None) => {
                self.rules.set(key, Rules::default());
                let (entry, _) = found.remove();
                self.count(&entry.credentials, false);
                self.leave_domain(entry.domain);
            }
            (Ok(mut found), Some(credentials)) => {
                if found.get().credentials == credentials {
                    return false;
                }
                self.count(&found.get().credentials, false);
                self.count(&credentials, true);
                found.get_mut().credentials = credentials;
            }
            (Err(_), Some(credentials)) => {
                self.count(&credentials, true);
                let domain = self.join_domain(user.domain);
                stripe.insert_unique(key.0, Entry { key, credentials, domain }, |entry| entry.key.0);
            }
            (Err(_), None) => return false,
        }
        true
    }

    /// Whether there is a user with this key.
    pub(crate) fn has(&self, key: NameKey) -> bool {
        let Some(stripe) = self.stripe(key) else { return false };
        let stripe = stripe.read().unwrap_or_else(PoisonError::into_inner);
        stripe.find(key.0, |entry| entry.key == key).is_some()
    }

    /// Removes all users whose key `keep` does not hold, one part after the other; answers how many.
    pub(crate) fn retain(&self, mut keep: impl FnMut(NameKey) -> bool) -> usize {
        let mut removed = 0;
        for stripe in &self.stripes {
            stripe.write().unwrap_or_else(PoisonError::into_inner).retain(|entry| {
                let kept = keep(entry.key);
                if !kept {
                    self.count(&entry.credentials, false);
                    self.leave_domain(entry.domain);
                    removed += 1;
                }
                kept
            });
        }
        removed
    }

    fn join_domain(&self, key: NameKey) -> u32 {
        let mut domains = self.domains.write().unwrap_or_else(PoisonError::into_inner);
        let number = domains.number(key);
        if let Some(users) = domains.slot(number) {
            *users += 1;
        }
        number
    }

    fn leave_domain(&self, number: u32) {
        let mut domains = self.domains.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(users) = domains.slot(number) {
            *users = users.saturating_sub(1);
        }
    }

    fn stripe(&self, key: NameKey) -> Option<&RwLock<HashTable<Entry>>> {
        // The table inside uses the other half of the key.
        usize::try_from(key.1 % STRIPES as u64).ok().and_then(|index| self.stripes.get(index))
    }

    fn count(&self, credentials: &Credentials, more: bool) {
        let step = |counter: &AtomicUsize| {
            if more {
                counter.fetch_add(1, Ordering::Relaxed)
            } else {
                counter.fetch_sub(1, Ordering::Relaxed)
            }
        };
        step(&self.users);
        for (algorithm, lacking) in ALGORITHMS.iter().zip(&self.lacking) {
            if credentials.get(NameForm::Bare, *algorithm).is_none() {
                step(lacking);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sip_auth::Ha1;

    use super::*;

    fn md5(seed: u8) -> Credentials {
        let mut credentials = Credentials::new();
        credentials.set(NameForm::Bare, Ha1::Md5([seed; 16]));
        credentials
    }

    fn bare_md5(cache: &CredentialCache, user: &[u8]) -> Option<Ha1> {
        cache.get(user, b"Example.COM", |c| c.get(NameForm::Bare, Algorithm::Md5)).flatten()
    }

    #[test]
    fn users_come_change_and_go() {
        let cache = CredentialCache::new(NameHasher::new([3; 16]));
        let key = |user: &[u8]| cache.key(user, b"example.com");
        for seed in 0..200u8 {
            assert!(cache.set(key(&[b'u', seed]), Some(md5(seed))));
        }
        assert_eq!(cache.len(), 200);
        assert_eq!(bare_md5(&cache, &[b'u', 7]), Some(Ha1::Md5([7; 16])));
        assert!(!cache.set(key(&[b'u', 7]), Some(md5(7))), "nothing changed");
        assert!(cache.set(key(&[b'u', 7]), Some(md5(99))));
        assert_eq!(bare_md5(&cache, &[b'u', 7]), Some(Ha1::Md5([99; 16])));
        assert!(cache.set(key(&[b'u', 7]), None));
        assert!(!cache.set(key(&[b'u', 7]), None));
        assert_eq!((bare_md5(&cache, &[b'u', 7]), cache.len()), (None, 199));
        let survivor = key(&[b'u', 8]).name;
        assert_eq!(cache.retain(|key| key == survivor), 198);
        assert!(cache.is_local_user(&[b'u', 8], b"example.com") && cache.len() == 1);
    }

    #[test]
    fn an_algorithm_is_everyones_or_not() {
        let cache = CredentialCache::new(NameHasher::new([3; 16]));
        assert!(cache.everyone_has(Algorithm::Sha256));
        let full = Credentials::from_password(b"a", b"d", b"d", b"p", &ALGORITHMS);
        cache.set(cache.key(b"a", b"d"), Some(full.clone()));
        assert!(cache.everyone_has(Algorithm::Sha256));
        cache.set(cache.key(b"b", b"d"), Some(md5(1)));
        assert!(cache.everyone_has(Algorithm::Md5) && !cache.everyone_has(Algorithm::Sha256));
        cache.set(cache.key(b"b", b"d"), Some(full));
        assert!(cache.everyone_has(Algorithm::Sha512_256));
    }

    #[test]
    fn a_domain_is_local_while_it_has_a_user() {
        let cache = CredentialCache::new(NameHasher::new([3; 16]));
        assert!(!cache.is_local_domain(b"one.example"));
        let keys = [&b"a"[..], b"b"].map(|user| cache.key(user, b"One.example"));
        for key in keys {
            cache.set(key, Some(md5(1)));
        }
        cache.set(cache.key(b"a", b"two.example"), Some(md5(1)));
        cache.set(keys[0], Some(md5(2)));
        cache.set(keys[0], None);
        assert!(cache.is_local_domain(b"one.EXAMPLE") && cache.is_local_domain(b"two.example"));
        assert_eq!((cache.users_of(b"ONE.example"), cache.users_of(b"two.example"), cache.len()), (1, 1, 2));
        let beyond = |domains: &[&str]| cache.users_beyond(domains.iter().map(|domain| domain.as_bytes()));
        assert_eq!(
            (beyond(&["One.example"]), beyond(&["two.example", "one.example"]), beyond(&["x"])),
            (1, 0, 2)
        );
        cache.retain(|key| key != keys[1].name);
        assert!(!cache.is_local_domain(b"one.example") && cache.is_local_domain(b"two.example"));
        assert!(!cache.is_local_user(b"", b"two.example"));
    }

    #[test]
    fn an_entry_stays_small() {
        assert!(size_of::<Entry>() <= 64);
    }
}
