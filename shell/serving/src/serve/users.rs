//! The users of this server for the admin API.

use control::admin::{Listing, Page, User, UserFault, UserSearch, Users};
use sip_message::canonical_user;
use sip_node::call_forwarding::Rules;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use store::{SharedLocation, StoreError, Subscriber, Subscribers, UserName, Wanted, hash_password};
use worker_runtime::monotonic_now;

/// The database of users, which is opened for each request, and their bindings.
pub struct UserBook {
    /// The data directory.
    pub dir: PathBuf,
    /// The bindings.
    pub location: Arc<SharedLocation>,
}

impl UserBook {
    fn open(&self) -> Result<Subscribers, UserFault> {
        Subscribers::open_existing(&self.dir).map_err(failed)
    }

    fn show(&self, subscriber: Subscriber) -> User {
        let aor = format!("{}@{}", subscriber.username, subscriber.domain);
        let mut bindings = 0;
        let bound = bound_as(&subscriber.username, &subscriber.domain);
        self.location.lookup(&bound, monotonic_now(), |_| bindings += 1);
        let user = User {
            aor,
            created: subscriber.created,
            modified: subscriber.modified,
            bindings,
            forwarding: BTreeMap::new(),
            also_ring: Vec::new(),
            ring_time: None,
            do_not_disturb: false,
        };
        user.with_rules(&subscriber.rules)
    }
}

impl Users for UserBook {
    fn list(&self, search: &UserSearch, page: &Page) -> Result<Option<Listing<User>>, UserFault> {
        let after = match &page.after {
            None => None,
            Some(mark) => match mark.rsplit_once('@') {
                Some(after) => Some(after),
                None => return Ok(None),
            },
        };
        let wanted = Wanted { domain: search.domain.as_deref(), text: search.text.as_deref(), after };
        let mut found = self.open()?.page(&wanted, page.limit + 1).map_err(failed)?;
        let more = found.len() > page.limit;
        found.truncate(page.limit);
        let items: Vec<User> = found.into_iter().map(|subscriber| self.show(subscriber)).collect();
        let next = items.last().filter(|_| more).map(|user| user.aor.clone());
        Ok(Some(Listing { items, next }))
    }

    fn get(&self, aor: &str) -> Result<Option<User>, UserFault> {
        let found = self.open()?.find(&named(aor)?).map_err(failed)?;
        Ok(found.map(|subscriber| self.show(subscriber)))
    }

    fn write(&self, aor: &str, password: Option<&str>, rules: &Rules) -> Result<(), UserFault> {
        let name = named(aor)?;
        let mut users = self.open()?;
        if let Some(password) = password {
            let wrong = |why: &str| UserFault::Field("password".into(), format!("is wrong: {why}"));
            hash_password(&name, password).map_err(wrong)?;
            users.add(&name, password).map_err(failed)?;
        }
        match users.set_rules(&name, rules.clone()).map_err(failed)? {
            true => Ok(()),
            false => Err(UserFault::Unknown),
        }
    }

    fn remove(&self, aor: &str) -> Result<bool, UserFault> {
        self.open()?.remove(&named(aor)?).map_err(failed)
    }

    fn unbind(&self, aor: &str) -> Result<(), UserFault> {
        let name = named(aor)?;
        _ = self.location.remove(&bound_as(name.user(), name.domain()));
        Ok(())
    }
}

fn named(aor: &str) -> Result<UserName, UserFault> {
    UserName::parse(aor).map_err(|why| UserFault::Field("aor".into(), format!("is no user@domain: {why}")))
}

fn failed(error: StoreError) -> UserFault {
    UserFault::Failed(error.to_string())
}

/// The address-of-record of a user as bindings have it.
fn bound_as(user: &str, domain: &str) -> Vec<u8> {
    [&canonical_user(user.as_bytes())[..], b"@", domain.to_ascii_lowercase().as_bytes()].concat()
}
