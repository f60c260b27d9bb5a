//! The interface of a database to the store, and the one place where a database is opened.
//!
//! Another database is a folder beside `sqlite/` with [`SubscriberTable`] for commands, and [`ServerTable`]
//! and [`SubscriberSource`] for a server. The functions at the end then choose one.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use call_forwarding::Rules;
use location::{BindingTable, Result, TableCheck};
use sip_auth::Credentials;

use crate::source::SubscriberSource;
use crate::sqlite;
use crate::subscribers::{Added, Subscriber, Wanted};
use crate::user::UserName;

/// The subscribers, as commands see them while a server may run.
pub(crate) trait SubscriberTable: Send {
    /// The path of the database, for errors.
    fn path(&self) -> &Path;

    /// Adds a subscriber, or gives it new hashes; hashes not given are removed.
    fn write(&mut self, name: &UserName, credentials: &Credentials) -> Result<Added>;

    /// The same for several: all of them or none.
    fn write_all(&mut self, all: &[(UserName, Credentials)]) -> Result<()>;

    /// The class of a subscriber, if it has one of its own.
    fn class(&self, name: &UserName) -> Result<Option<String>>;

    /// Gives a subscriber this class, or none of its own; false if there is no such subscriber.
    fn set_class(&mut self, name: &UserName, class: Option<&str>) -> Result<bool>;

    /// What a subscriber has set for calls to it; `None`: there is no such subscriber.
    fn rules(&self, name: &UserName) -> Result<Option<Rules>>;

    /// Sets that for several: all of them or none. Whether there are such subscribers is not looked at.
    fn write_rules(&mut self, all: &[(UserName, Rules)]) -> Result<()>;

    /// Removes a subscriber with its bindings; false if there was none.
    fn remove(&mut self, name: &UserName) -> Result<bool>;

    /// How many there are.
    fn count(&self) -> Result<u64>;

    /// Writes the whole database, as it is at one moment, to a file that does not exist.
    fn copy_to(&self, path: &Path) -> Result<()>;

    /// At most `most` subscribers that are asked for, in order of name and domain.
    fn page(&self, wanted: &Wanted<'_>, most: usize) -> Result<Vec<Subscriber>>;

    /// One subscriber.
    fn find(&self, name: &UserName) -> Result<Option<Subscriber>>;

    /// Calls `f` with every subscriber (of `domain`, if given) in order of name and domain, until `f` breaks.
    fn list(&self, domain: Option<&str>, f: &mut dyn FnMut(Subscriber) -> ControlFlow<()>) -> Result<()>;
}

/// The bindings, for a server.
pub(crate) trait ServerTable: BindingTable {
    /// Notes where the table is now, and looks for it there from another thread.
    fn watcher(&mut self) -> Result<TableCheck>;
}

/// A database that a server has opened.
pub(crate) struct Opened {
    /// Its path, for errors and for display.
    pub(crate) path: PathBuf,
    pub(crate) table: Box<dyn ServerTable>,
    pub(crate) source: Box<dyn SubscriberSource>,
}

/// Opens the database of a data directory for a server; creates it if there is none.
pub(crate) fn open_for_server(data_dir: &Path) -> Result<Opened> {
    sqlite::open_for_server(data_dir)
}

/// Opens the database for a command. `make`: creates it if there is none.
pub(crate) fn open_for_command(data_dir: &Path, make: bool) -> Result<Box<dyn SubscriberTable>> {
    sqlite::open_for_command(data_dir, make)
}

/// Looks whether this file is a whole database that this program reads; how many subscribers it has.
pub(crate) fn check_copy(path: &Path) -> Result<u64> {
    sqlite::check_copy(path)
}

/// Whether a data directory has a database.
pub(crate) fn is_there(data_dir: &Path) -> bool {
    sqlite::is_there(data_dir)
}
