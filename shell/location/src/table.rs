//! The table of a database that full files of the log are moved into.

use crate::clock::ClockPair;
use crate::error::Result;
use crate::key::Key;
use crate::load::Filling;
use crate::log::record::Put;

/// Tells whether the table is where the next start looks for it.
pub type TableCheck = Box<dyn Fn() -> Result<()> + Send>;

/// A table of bindings, each under its [`Key`]. What a call has written is on the disk when it returns, as a
/// whole.
pub trait BindingTable: Send {
    /// Whether the table is where the next start looks for it.
    ///
    /// # Errors
    /// It was taken away or replaced.
    fn check(&self) -> Result<()>;

    /// Puts all rows into memory, at a start, with as many threads as it likes. Ends early where
    /// [`Filling::is_stopped`].
    ///
    /// # Errors
    /// Some rows cannot be read.
    fn read(&mut self, to: &Filling<'_>) -> Result<TableRead>;

    /// Writes the latest words about some bindings in one transaction.
    ///
    /// # Errors
    /// None of them is written.
    fn write<'w>(&mut self, words: &mut dyn Iterator<Item = Word<'w>>) -> Result<()>;

    /// Sets the end of rows that were written later than now: what was granted then is granted from now on.
    ///
    /// # Errors
    /// They are as they were.
    fn pull_back(&mut self, clock: ClockPair) -> Result<()>;

    /// Has [`BindingTable::purge`] begin with the first row.
    fn begin_purge(&mut self);

    /// Looks at the next rows and deletes those that are gone; answers whether there may be more.
    ///
    /// # Errors
    /// None of them is deleted; the next call looks at them again.
    fn purge(&mut self, is_gone: &mut dyn FnMut(&RowSeen<'_>) -> bool) -> Result<bool>;
}

/// What reading a table found, besides what it put into memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TableRead {
    /// Rows that make no sense or found no room.
    pub bad: u64,
    /// Whether some row was written later than now.
    pub ahead: bool,
}

/// A word about a binding.
#[derive(Clone, Copy, Debug)]
pub enum Word<'a> {
    /// It is like this; with the name of its listener.
    Put(Put<'a>, &'a [u8]),
    /// It is gone.
    Delete(Key<'a>),
}

/// A row, as far as its end goes.
#[derive(Clone, Copy, Debug)]
pub struct RowSeen<'a> {
    /// The user of its address of record.
    pub user: &'a [u8],
    /// The domain of that.
    pub domain: &'a [u8],
    /// Its Contact.
    pub contact: &'a [u8],
    /// See [`Key::instance`].
    pub instance: &'a [u8],
    /// See [`Key::reg_id`]; `None`: no such number stands there.
    pub reg_id: Option<u32>,
    /// When it was written, in seconds since 1970.
    pub written: i64,
    /// When it ends.
    pub expires: i64,
}
