//! Where subscribers come from, and what a server knows of them.

use std::sync::Arc;

use call_forwarding::Rules;
use location::{Removals, Result, SharedLocation, split_aor};
use sip_auth::Credentials;

use crate::cache::{CredentialCache, UserKey};
use crate::names::NameKey;

/// Looks, of four a second, after which users that were not in a table read as a whole, and did not come
/// back, are taken to be removed: the table may just be filled again.
pub(crate) const SECOND_LOOK: u32 = 20;

/// Where subscribers come from: the table of a database.
pub(crate) trait SubscriberSource: Send {
    /// Reads all subscribers.
    fn load(&mut self, to: &mut Known) -> Result<()>;

    /// Applies what has changed since the last call of either function.
    fn changes(&mut self, to: &mut Known) -> Result<()>;

    /// The number of the last change whose effects are in force; a removed subscriber's bindings have been
    /// removed by then. Changes after the one whose effects are durable are not forgotten.
    fn removals(&self) -> Removals;

    /// The number of the last change of a subscriber.
    fn newest_change(&self) -> Result<i64>;

    /// The addresses of record of subscribers removed after change number `since`; `newest` is the last one.
    fn removed_after(&self, since: i64, newest: i64) -> Result<Vec<Vec<u8>>>;
}

/// Removes the bindings of subscribers removed after change number `seen` of the log: while no
/// server ran, or so shortly before the last one ended that the log does not know of it. Or, without a log,
/// after `newest`, when the loading began.
pub(crate) fn forget_removed(
    source: &dyn SubscriberSource,
    location: &SharedLocation,
    seen: Option<i64>,
    newest: i64,
) -> Result<()> {
    let since = match seen {
        // The numbers have begun again: any of them may be news.
        Some(seen) if seen > newest => i64::MIN,
        Some(seen) => seen,
        None => newest,
    };
    let removed = source.removed_after(since, newest)?;
    removed.iter().for_each(|aor| _ = location.remove(aor));
    Ok(())
}

/// Subscribers that were removed.
pub(crate) enum Gone<'a> {
    /// The one with this address of record.
    One(&'a [u8]),
    /// All of whose address of record this is true.
    Those(&'a dyn Fn(&[u8]) -> bool),
}

/// Called with subscribers that were removed.
pub(crate) type Removed = Box<dyn Fn(Gone<'_>) + Send>;

/// The subscribers that a server knows, and what is called for those that are removed.
pub(crate) struct Known {
    cache: Arc<CredentialCache>,
    removed: Removed,
    /// Users that were not there when all of the table was read, and that the source does not mention, in
    /// order. Their bindings stay for now.
    missing: Vec<NameKey>,
    /// Looks since, or since one of them came back.
    looks: u32,
}

impl Known {
    /// The users in `cache`.
    pub(crate) fn new(cache: Arc<CredentialCache>, removed: Removed) -> Known {
        Known { cache, removed, missing: Vec::new(), looks: 0 }
    }

    /// What stands for a user.
    pub(crate) fn key(&self, user: &[u8], domain: &[u8]) -> UserKey {
        self.cache.key(user, domain)
    }

    /// A user has these credentials.
    pub(crate) fn set(&self, user: UserKey, credentials: Credentials) {
        self.cache.set(user, Some(credentials));
    }

    /// A user has this class; empty: none of its own.
    pub(crate) fn set_class(&self, user: UserKey, class: &[u8]) {
        self.cache.set_class(user, class);
    }

    /// Forgets the classes of all users but these, whose keys are in order.
    pub(crate) fn forget_classes_of_all_but(&self, keys: &[NameKey]) {
        self.cache.retain_classes(|key| keys.binary_search(&key).is_ok());
    }

    /// A user has these rules for calls to it.
    pub(crate) fn set_rules(&self, user: UserKey, rules: Rules) {
        self.cache.set_rules(user, rules);
    }

    /// Users whose keys are not among these, which are in order, have no rules.
    pub(crate) fn forget_rules_of_all_but(&self, keys: &[NameKey]) {
        self.cache.retain_rules(|key| keys.binary_search(&key).is_ok());
    }

    /// A user is gone, or was gone and is there again: so are its bindings.
    pub(crate) fn remove(&self, user: UserKey, aor: &[u8]) {
        self.cache.set(user, None);
        (self.removed)(Gone::One(aor));
    }

    /// A user is gone; so are its bindings if it may have any.
    pub(crate) fn forget(&self, user: UserKey, aor: &[u8]) {
        if self.cache.set(user, None) || self.missing.binary_search(&user.name).is_ok() {
            (self.removed)(Gone::One(aor));
        }
    }

    /// Forgets users whose keys are not among these, which are in order. What they have registered stays
    /// until [a second look](Known::look_again).
    pub(crate) fn forget_all_but(&mut self, keys: &[NameKey]) {
        let gone = &mut self.missing;
        self.cache.retain(|key| {
            let kept = keys.binary_search(&key).is_ok();
            if !kept {
                gone.push(key);
            }
            kept
        });
        gone.sort_unstable();
        gone.dedup();
        self.looks = 0;
    }

    /// Removes the bindings of users that were missing some seconds ago and are still, none of them having
    /// come back meanwhile. A source without any user is one that is being filled, and so may be one that
    /// is being written.
    pub(crate) fn look_again<E>(
        &mut self,
        is_being_written: impl FnOnce() -> std::result::Result<bool, E>,
    ) -> std::result::Result<(), E> {
        if self.missing.is_empty() {
            return Ok(());
        }
        self.looks += 1;
        if self.looks < SECOND_LOOK || is_being_written()? {
            return Ok(());
        }
        self.looks = 0;
        let before = self.missing.len();
        self.missing.retain(|key| !self.cache.has(*key));
        if self.missing.is_empty() || self.cache.is_empty() || self.missing.len() != before {
            return Ok(());
        }
        let gone = std::mem::take(&mut self.missing);
        // The cache has no names: all that have bindings are asked.
        (self.removed)(Gone::Those(&|aor| {
            let (user, domain) = split_aor(aor);
            gone.binary_search(&self.cache.key(user, domain).name).is_ok()
        }));
        Ok(())
    }
}
