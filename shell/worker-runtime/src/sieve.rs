//! Having the kernel drop what an overloaded worker's machine would leave unanswered.
//!
//! The program is loaded once, at the start, and stays away from the sockets: a worker attaches it to its own when its
//! machine has something to be dropped, and takes it away when that is over. So a worker that keeps up has none, and
//! pays nothing for it. What it goes by is written at most every [`wire::Load::WINDOW`], into memory that is shared with
//! the kernel; no system call is made for it.

use crate::sys::{self, Mapping};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::{SieveProgram, Time};

/// How long the kernel goes by what a worker has written: some of its windows, for a worker that shares its processor
/// with others has to wait for it now and then.
const VALID: Duration = Duration::from_millis(500);

/// The program and its table, for all workers.
#[derive(Clone)]
pub struct Sieves {
    program: Arc<OwnedFd>,
    table: Arc<Mapping>,
    /// Bytes of a worker's entry.
    entry: usize,
}

impl Sieves {
    pub fn new(program: OwnedFd, table: Mapping, entry: usize) -> Sieves {
        Sieves { program: Arc::new(program), table: Arc::new(table), entry }
    }

    /// Datagrams that the kernel has dropped for a worker since the start.
    pub fn dropped(&self, worker: u16) -> u64 {
        let at = self.entry * usize::from(worker) + SieveProgram::DROPPED;
        self.table.long(at).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// A worker's own.
    pub fn of(self, worker: u16) -> Sieve {
        Sieve { at: self.entry * usize::from(worker), worker, attached: false, seen: 0, sieves: self }
    }
}

/// One worker's.
pub struct Sieve {
    sieves: Sieves,
    worker: u16,
    /// Where its entry is.
    at: usize,
    attached: bool,
    /// Datagrams dropped, as of the last look.
    seen: u64,
}

impl Sieve {
    /// Datagrams dropped since the last look.
    pub fn dropped(&mut self) -> u64 {
        let all = self.sieves.dropped(self.worker);
        let since = all.wrapping_sub(self.seen);
        self.seen = all;
        since
    }

    /// Goes by these words from now on, at the worker's sockets; `None`: drops nothing.
    pub fn follow<'a>(
        &mut self,
        words: Option<&[u32]>,
        now: Time,
        sockets: impl Iterator<Item = BorrowedFd<'a>>,
    ) {
        let Some(words) = words else {
            if std::mem::take(&mut self.attached) {
                self.set_until(Time::ZERO);
                for socket in sockets {
                    // One that has none says so.
                    let _ = sys::detach_filter(socket);
                }
            }
            return;
        };
        for (n, word) in words.iter().enumerate() {
            if let Some(place) = self.sieves.table.word(self.at + SieveProgram::WORDS + 4 * n) {
                place.store(*word, Ordering::Relaxed);
            }
        }
        self.set_until(now + VALID);
        if !std::mem::replace(&mut self.attached, true) {
            for socket in sockets {
                if let Err(error) = sys::attach_filter(socket, self.sieves.program.as_fd()) {
                    tracing::warn!(worker = self.worker, %error, "the kernel drops nothing for this socket in the overload");
                }
            }
        }
    }

    fn set_until(&self, until: Time) {
        if let Some(place) = self.sieves.table.long(self.at + SieveProgram::UNTIL) {
            // After the words.
            place.store(until.as_micros().saturating_mul(1_000), Ordering::Release);
        }
    }
}
