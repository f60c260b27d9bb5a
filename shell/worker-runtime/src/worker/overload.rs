//! What a worker does in an overload: it looks at what waits in the kernel, and has the kernel drop what its
//! machine would leave unanswered.

use super::pressure::Backlog;
use crate::shared::Shared;
use crate::sieve::Sieve;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use wire::{Load, Time};

/// One worker's view of the kernel in an overload.
pub(super) struct Overload {
    backlog: Backlog,
    /// What has the kernel drop datagrams.
    sieve: Option<Sieve>,
    /// How long the sender of a message repeats it.
    patience: Duration,
}

impl Overload {
    /// None yet, where the sender of a message repeats it for that long.
    pub fn new(patience: Duration) -> Overload {
        Overload { backlog: Backlog::default(), sieve: None, patience }
    }

    /// Adds to the load of worker `me` what the kernel says of its sockets.
    pub fn measure<'a, N>(
        &mut self,
        load: &mut Load,
        shared: &Shared<N>,
        me: u16,
        sockets: impl ExactSizeIterator<Item = BorrowedFd<'a>>,
    ) {
        // It is loaded while the workers run.
        if self.sieve.is_none() {
            self.sieve = shared.sieves.get().map(|sieves| sieves.clone().of(me, self.patience));
        }
        load.sieved = self.sieve.as_mut().and_then(Sieve::dropped);
        load.waiting = self.backlog.look(load, sockets);
    }

    /// Has the kernel drop what the machine wants dropped, if it can.
    pub fn follow<'a>(
        &mut self,
        wanted: impl FnOnce() -> Option<wire::Sieve<'a>>,
        now: Time,
        sockets: impl Iterator<Item = BorrowedFd<'a>> + Clone,
    ) {
        if let Some(sieve) = &mut self.sieve {
            sieve.follow(wanted(), now, sockets);
        }
    }
}
