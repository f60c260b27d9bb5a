//! The subscribers as commands see them: add, remove, list, export.
//!
//! A command works on the database while a server may run on it; the server follows by itself (see
//! [`CredentialCache`](crate::CredentialCache)).

use std::fmt;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use call_forwarding::Rules;
use location::{Kind, Result, StoreError};
use sip_auth::Credentials;

use crate::backend::{self, SubscriberTable};
use crate::classes::check_class;
use crate::rules::{RULE_COLUMNS, rule_texts};
use crate::user::{HASH_COLUMNS, UserName, hash_password, hash_text};

/// One subscriber as listed.
#[derive(Clone, Debug)]
pub struct Subscriber {
    /// User name.
    pub username: String,
    /// Domain, which is also the realm.
    pub domain: String,
    /// The hashes known.
    pub credentials: Credentials,
    /// When the row was made and last changed, UTC, `YYYY-MM-DD HH:MM:SS`.
    pub created: String,
    /// See `created`.
    pub modified: String,
    /// What it has set for calls to it.
    pub rules: Rules,
}

/// Which subscribers are asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Those of this domain.
    pub domain: Option<&'a str>,
    /// Those whose user name contains this.
    pub text: Option<&'a str>,
    /// Those behind this one in order of name and domain.
    pub after: Option<(&'a str, &'a str)>,
}

/// What an addition did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Added {
    /// The subscriber is new.
    Created,
    /// It was there; its password changed.
    Replaced,
}

/// The subscribers in one data directory.
pub struct Subscribers {
    table: Box<dyn SubscriberTable>,
}

impl fmt::Debug for Subscribers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscribers").field("path", &self.table.path()).finish_non_exhaustive()
    }
}

impl Subscribers {
    /// Opens the data directory, making it if needed.
    pub fn open(data_dir: &Path) -> Result<Subscribers> {
        backend::open_for_command(data_dir, true).map(|table| Subscribers { table })
    }

    /// Opens the data directory if there is a database in it, for commands that only look or remove.
    pub fn open_existing(data_dir: &Path) -> Result<Subscribers> {
        backend::open_for_command(data_dir, false).map(|table| Subscribers { table })
    }

    /// Whether there is a database in the data directory.
    pub fn are_in(data_dir: &Path) -> bool {
        backend::is_there(data_dir)
    }

    /// Adds a subscriber, or gives one that exists a new password.
    pub fn add(&mut self, name: &UserName, password: &str) -> Result<Added> {
        let credentials = hash_password(name, password).map_err(|problem| self.input(name, problem))?;
        self.add_hashed(name, &credentials)
    }

    /// As [`add`](Subscribers::add) with hashes made elsewhere; hashes not given are removed.
    pub fn add_hashed(&mut self, name: &UserName, credentials: &Credentials) -> Result<Added> {
        if credentials.is_empty() {
            return Err(self.input(name, "no password and no hash is given"));
        }
        self.table.write(name, credentials)
    }

    /// Adds subscribers, or gives them new hashes, in one transaction.
    pub(crate) fn write_all(&mut self, all: &[(UserName, Credentials)]) -> Result<()> {
        self.table.write_all(all)
    }

    /// The class of a subscriber, if it has one of its own.
    pub fn class(&self, name: &UserName) -> Result<Option<String>> {
        self.table.class(name)
    }

    /// Gives a subscriber this class, or none of its own; false if there is no such subscriber. A server that
    /// runs knows it within a second.
    pub fn set_class(&mut self, name: &UserName, class: Option<&str>) -> Result<bool> {
        if let Some(problem) = class.and_then(|class| check_class(class).err()) {
            let mend = "give the name of a [[class]]";
            return Err(StoreError::new(Kind::Input, Path::new(&name.to_string()), problem, mend));
        }
        self.table.set_class(name, class)
    }

    /// What a subscriber has set for calls to it; `None`: there is no such subscriber.
    pub fn rules(&self, name: &UserName) -> Result<Option<Rules>> {
        self.table.rules(name)
    }

    /// Sets what a subscriber has set for calls to it; false: there is no such subscriber.
    pub fn set_rules(&mut self, name: &UserName, rules: Rules) -> Result<bool> {
        if self.table.rules(name)?.is_none() {
            return Ok(false);
        }
        self.table.write_rules(&[(name.clone(), rules)])?;
        Ok(true)
    }

    /// Sets that for several that are there, in one transaction.
    pub(crate) fn write_rules(&mut self, all: &[(UserName, Rules)]) -> Result<()> {
        self.table.write_rules(all)
    }

    /// Where they are.
    pub(crate) fn path(&self) -> &Path {
        self.table.path()
    }

    /// Removes a subscriber; false if there was none. The bindings go too: a server that runs sees to it
    /// by itself, one that starts later would find them and call the user still.
    pub fn remove(&mut self, name: &UserName) -> Result<bool> {
        self.table.remove(name)
    }

    /// How many subscribers there are.
    pub fn count(&self) -> Result<u64> {
        self.table.count()
    }

    /// At most `most` subscribers that are asked for, in order of name and domain.
    pub fn page(&self, wanted: &Wanted<'_>, most: usize) -> Result<Vec<Subscriber>> {
        self.table.page(wanted, most)
    }

    /// One subscriber.
    pub fn find(&self, name: &UserName) -> Result<Option<Subscriber>> {
        self.table.find(name)
    }

    /// Calls `f` with every subscriber (of `domain`, if given) in order of name and domain, one at a
    /// time, until it breaks.
    pub fn list(&self, domain: Option<&str>, mut f: impl FnMut(Subscriber) -> ControlFlow<()>) -> Result<()> {
        self.table.list(domain, &mut f)
    }

    /// Writes all subscribers as CSV that [`import`](Subscribers::import) reads back; returns how many.
    pub fn export(&self, output: impl Write) -> Result<u64> {
        let mut writer = csv::Writer::from_writer(output);
        let mut outcome = writer.write_record(
            ["username", "domain"].into_iter().chain(HASH_COLUMNS.map(|c| c.0)).chain(RULE_COLUMNS),
        );
        let mut count = 0;
        self.list(None, |subscriber| {
            if outcome.is_ok() {
                outcome = writer.write_record(export_fields(&subscriber));
                count += 1;
            }
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        match outcome.map_err(std::io::Error::other).and_then(|()| writer.flush()) {
            Ok(()) => Ok(count),
            Err(error) => Err(StoreError::io(Path::new("export"), "write it", &error)),
        }
    }

    fn input(&self, name: &UserName, problem: &str) -> StoreError {
        StoreError::new(Kind::Input, Path::new(&name.to_string()), problem, "give a password")
    }
}

fn export_fields(subscriber: &Subscriber) -> impl Iterator<Item = String> {
    let hashes = HASH_COLUMNS.map(|(_, form, algorithm)| hash_text(&subscriber.credentials, form, algorithm));
    let names = [subscriber.username.clone(), subscriber.domain.clone()];
    names.into_iter().chain(hashes).chain(rule_texts(&subscriber.rules))
}

#[cfg(test)]
mod tests {
    use sip_auth::{Algorithm, NameForm};

    use super::*;
    use location::testing::TempDir;

    fn name(text: &str) -> UserName {
        UserName::parse(text).unwrap()
    }

    fn all(subscribers: &Subscribers) -> Vec<Subscriber> {
        let mut list = Vec::new();
        subscribers
            .list(None, |subscriber| {
                list.push(subscriber);
                ControlFlow::Continue(())
            })
            .unwrap();
        list
    }

    #[test]
    fn add_replace_list_remove() {
        let temp = TempDir::new();
        let mut subscribers = Subscribers::open(temp.path()).unwrap();
        assert_eq!(subscribers.add(&name("bob@Example.com"), "one").unwrap(), Added::Created);
        assert_eq!(subscribers.add(&name("alice@example.com"), "x").unwrap(), Added::Created);
        assert_eq!(subscribers.add(&name("bob@example.com"), "two").unwrap(), Added::Replaced);
        let list = all(&subscribers);
        let names: Vec<_> = list.iter().map(|s| (s.username.as_str(), s.domain.as_str())).collect();
        assert_eq!(names, [("alice", "example.com"), ("bob", "example.com")]);
        assert_eq!(list[1].credentials, hash_password(&name("bob@example.com"), "two").unwrap());
        assert!(subscribers.remove(&name("bob@EXAMPLE.com")).unwrap());
        assert!(!subscribers.remove(&name("bob@example.com")).unwrap());
        assert_eq!(subscribers.count().unwrap(), 1);
    }

    #[test]
    fn class_is_set_changed_and_removed_with_its_user() {
        let temp = TempDir::new();
        let mut subscribers = Subscribers::open(temp.path()).unwrap();
        let alice = name("alice@example.com");
        assert!(!subscribers.set_class(&alice, Some("staff")).unwrap(), "there is no such user");
        subscribers.add(&alice, "x").unwrap();
        assert_eq!(subscribers.class(&alice).unwrap(), None);
        for class in ["staff", "guest"] {
            assert!(subscribers.set_class(&name("alice@EXAMPLE.com"), Some(class)).unwrap());
            assert_eq!(subscribers.class(&alice).unwrap().as_deref(), Some(class));
        }
        subscribers.add(&alice, "y").unwrap();
        assert_eq!(subscribers.class(&alice).unwrap().as_deref(), Some("guest"), "a new password keeps it");
        assert_eq!(subscribers.set_class(&alice, Some("a b")).unwrap_err().kind, Kind::Input);
        assert!(subscribers.remove(&alice).unwrap());
        subscribers.add(&alice, "x").unwrap();
        assert_eq!(subscribers.class(&alice).unwrap(), None);
        subscribers.set_class(&alice, Some("staff")).unwrap();
        assert!(subscribers.set_class(&alice, None).unwrap());
        assert_eq!(subscribers.class(&alice).unwrap(), None);
    }

    #[test]
    fn no_clear_password_reaches_the_disk() {
        let temp = TempDir::new();
        let mut subscribers = Subscribers::open(temp.path()).unwrap();
        subscribers.add(&name("alice@example.com"), "correct-horse-battery").unwrap();
        for entry in std::fs::read_dir(temp.path()).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            assert!(!bytes.windows(21).any(|window| window == b"correct-horse-battery"));
        }
    }

    #[test]
    fn a_new_ha1_drops_the_hashes_of_the_old_password() {
        let temp = TempDir::new();
        let mut subscribers = Subscribers::open(temp.path()).unwrap();
        let alice = name("alice@example.com");
        subscribers.add(&alice, "old").unwrap();
        let mut only = Credentials::new();
        only.set(NameForm::Bare, sip_auth::ha1(Algorithm::Md5, b"alice", b"example.com", b"new"));
        subscribers.add_hashed(&alice, &only).unwrap();
        assert_eq!(all(&subscribers)[0].credentials, only);
        assert_eq!(subscribers.add_hashed(&alice, &Credentials::new()).unwrap_err().kind, Kind::Input);
    }

    #[test]
    fn sql_in_names_and_passwords_is_text() {
        let temp = TempDir::new();
        let mut subscribers = Subscribers::open(temp.path()).unwrap();
        let evil = name("x');DROP/**/TABLE/**/subscriber;--@example.com");
        subscribers.add(&evil, "'); DELETE FROM subscriber; --").unwrap();
        subscribers.add(&name("'or'1'='1@example.com"), "p").unwrap();
        assert_eq!(subscribers.count().unwrap(), 2);
        assert!(!subscribers.remove(&name("'or'2'='2@example.com")).unwrap());
        subscribers.list(Some("' OR 1=1 --"), |_| panic!("no such domain")).unwrap();
        assert!(subscribers.remove(&evil).unwrap());
        assert_eq!(subscribers.count().unwrap(), 1);
    }

    #[test]
    fn the_listing_stops_when_asked() {
        let temp = TempDir::new();
        let mut subscribers = Subscribers::open(temp.path()).unwrap();
        for user in ["a", "b", "c"] {
            subscribers.add(&name(&format!("{user}@example.com")), "p").unwrap();
        }
        let mut seen = 0;
        subscribers
            .list(Some("EXAMPLE.com"), |_| {
                seen += 1;
                if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
        assert_eq!(seen, 2);
    }
}
