//! The full files of the log that are not in the table yet, and what the writer and the mover have to know of
//! each other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::log::Full;

/// The full files, and what the writer and the mover have to know of each other.
#[derive(Default, Debug)]
pub struct Sealed {
    /// Oldest first.
    files: Mutex<Vec<Full>>,
    /// Why they cannot be moved.
    trouble: Mutex<Option<String>>,
    /// How full the file is that is appended to, in thousandths.
    filled: AtomicU64,
    repair: Mutex<Repair>,
}

/// How far all bindings are written anew, because something of a file is lost that memory has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Repair {
    #[default]
    Unneeded,
    /// The mover asks for it.
    Wanted,
    /// The writer is at it.
    UnderWay,
    /// All that lived are in files after those that are hurt, and on the disk.
    Done,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sealed {
    /// Of the files that were found at start.
    pub(crate) fn new(files: Vec<Full>) -> Sealed {
        Sealed { files: Mutex::new(files), ..Sealed::default() }
    }

    pub(crate) fn push(&self, file: Full) {
        lock(&self.files).push(file);
    }

    /// Whether all are moved.
    pub fn is_empty(&self) -> bool {
        lock(&self.files).is_empty()
    }

    /// Of all files together.
    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.files).iter().map(|file| file.bytes).sum()
    }

    /// Why they cannot be moved.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }

    /// The files cannot be moved. Answers whether that is news.
    pub fn fail(&self, why: String) -> bool {
        lock(&self.trouble).replace(why).is_none()
    }

    /// How full the file is that is appended to.
    pub fn set_filled(&self, thousandths: u64) {
        self.filled.store(thousandths, Ordering::Relaxed);
    }

    /// Whether every binding is to be written anew; answers so once for each time.
    pub(crate) fn take_wanted(&self) -> bool {
        let mut repair = lock(&self.repair);
        let wanted = *repair == Repair::Wanted;
        if wanted {
            *repair = Repair::UnderWay;
        }
        wanted
    }

    /// Every binding was written anew. Says nothing if that is wanted once more.
    pub(crate) fn repaired(&self) {
        let mut repair = lock(&self.repair);
        if *repair == Repair::UnderWay {
            *repair = Repair::Done;
        }
    }

    /// Whether a file is hurt and stays until all bindings are written anew.
    pub fn needs_repair(&self) -> bool {
        *lock(&self.repair) != Repair::Unneeded
    }

    pub(crate) fn set_repair(&self, repair: Repair) {
        *lock(&self.repair) = repair;
    }

    /// Whether all bindings are written anew.
    pub(crate) fn is_repaired(&self) -> bool {
        *lock(&self.repair) == Repair::Done
    }

    /// All of them.
    pub(crate) fn files(&self) -> Vec<Full> {
        lock(&self.files).clone()
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        lock(&self.files).iter().any(|file| file.number == number)
    }

    pub(crate) fn remove(&self, number: u64) {
        lock(&self.files).retain(|file| file.number != number);
    }

    /// Moving goes on. Answers whether that is news.
    pub(crate) fn succeed(&self) -> bool {
        lock(&self.trouble).take().is_some()
    }

    /// How full the next file is, in thousandths.
    pub(crate) fn filled(&self) -> u64 {
        self.filled.load(Ordering::Relaxed)
    }
}
