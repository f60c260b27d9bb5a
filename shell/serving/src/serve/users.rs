//! The users of this server for the admin API.

use super::admin::Control;
use control::admin::{Listing, Page, User, UserChange, UserFault, UserSearch, Users};
use sip_message::canonical_user;
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

    fn show(&self, users: &Subscribers, subscriber: Subscriber) -> Result<User, UserFault> {
        let name = UserName::new(&subscriber.username, &subscriber.domain);
        // A name written by hand may be none, and has no class.
        let class = name.ok().map(|name| users.class(&name)).transpose().map_err(failed)?;
        let aor = format!("{}@{}", subscriber.username, subscriber.domain);
        let mut bindings = 0;
        let bound = bound_as(&subscriber.username, &subscriber.domain);
        self.location.lookup(&bound, monotonic_now(), |_| bindings += 1);
        let user = User {
            aor,
            created: subscriber.created,
            modified: subscriber.modified,
            bindings,
            class: class.flatten(),
            forwarding: BTreeMap::new(),
            also_ring: Vec::new(),
            ring_time: None,
            do_not_disturb: false,
        };
        Ok(user.with_rules(&subscriber.rules))
    }

    fn list(&self, search: &UserSearch, page: &Page) -> Result<Option<Listing<User>>, UserFault> {
        let after = match &page.after {
            None => None,
            Some(mark) => match mark.rsplit_once('@') {
                Some(after) => Some(after),
                None => return Ok(None),
            },
        };
        let wanted = Wanted { domain: search.domain.as_deref(), text: search.text.as_deref(), after };
        let users = self.open()?;
        let mut found = users.page(&wanted, page.limit + 1).map_err(failed)?;
        let more = found.len() > page.limit;
        found.truncate(page.limit);
        let items = found.into_iter().map(|subscriber| self.show(&users, subscriber));
        let items: Vec<User> = items.collect::<Result<_, _>>()?;
        let next = items.last().filter(|_| more).map(|user| user.aor.clone());
        Ok(Some(Listing { items, next }))
    }

    fn get(&self, aor: &str) -> Result<Option<User>, UserFault> {
        let users = self.open()?;
        let found = users.find(&named(aor)?).map_err(failed)?;
        found.map(|subscriber| self.show(&users, subscriber)).transpose()
    }

    fn write(&self, aor: &str, change: &UserChange) -> Result<(), UserFault> {
        let name = named(aor)?;
        let mut users = self.open()?;
        if let Some(password) = &change.password {
            let wrong = |why: &str| UserFault::Field("password".into(), format!("is wrong: {why}"));
            hash_password(&name, password).map_err(wrong)?;
            users.add(&name, password).map_err(failed)?;
        }
        if !users.set_rules(&name, change.rules.clone()).map_err(failed)? {
            return Err(UserFault::Unknown);
        }
        if let Some(class) = &change.class {
            users.set_class(&name, class.as_deref()).map_err(failed)?;
        }
        Ok(())
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

impl Users for Control {
    fn list(&self, search: &UserSearch, page: &Page) -> Result<Option<Listing<User>>, UserFault> {
        self.user_book().list(search, page)
    }

    fn get(&self, aor: &str) -> Result<Option<User>, UserFault> {
        self.user_book().get(aor)
    }

    fn write(&self, aor: &str, change: &UserChange) -> Result<(), UserFault> {
        // Calls of a user with a class that the configuration does not have would not leave.
        let config = self.config();
        let is_known = |class: &String| config.classes.iter().any(|known| known.name == *class);
        if change.class.iter().flatten().any(|class| !is_known(class)) {
            return Err(UserFault::Field("class".into(), "is no [[class]] of the configuration".into()));
        }
        self.user_book().write(aor, change)
    }

    fn remove(&self, aor: &str) -> Result<bool, UserFault> {
        self.user_book().remove(aor)
    }

    fn unbind(&self, aor: &str) -> Result<(), UserFault> {
        self.user_book().unbind(aor)
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
