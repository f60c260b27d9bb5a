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
        Sieve { at: self.entry * usize::from(worker), worker, state: State::Away, seen: 0, sieves: self }
    }
}

/// Where the program is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Nothing is to be dropped.
    Away,
    /// At all sockets of the worker.
    Attached,
    /// At none, though it was wanted: a socket did not take it. It is tried again in the next overload.
    Refused,
}

/// One worker's.
pub struct Sieve {
    sieves: Sieves,
    worker: u16,
    /// Where its entry is.
    at: usize,
    state: State,
    /// Datagrams dropped, as of the last look.
    seen: u64,
}

impl Sieve {
    /// Datagrams dropped since the last look; `None`: the kernel drops none, whatever is said.
    pub fn dropped(&mut self) -> Option<u64> {
        let all = self.sieves.dropped(self.worker);
        let since = all.wrapping_sub(self.seen);
        self.seen = all;
        (self.state == State::Attached).then_some(since)
    }

    /// Goes by these words from now on, at the worker's sockets; `None`: drops nothing.
    pub fn follow<'a>(
        &mut self,
        words: Option<&[u32]>,
        now: Time,
        sockets: impl Iterator<Item = BorrowedFd<'a>> + Clone,
    ) {
        let Some(words) = words else {
            if std::mem::replace(&mut self.state, State::Away) == State::Attached {
                self.set_until(Time::ZERO);
                detach(sockets);
            }
            return;
        };
        if self.state == State::Refused {
            return;
        }
        for (n, word) in words.iter().enumerate() {
            if let Some(place) = self.sieves.table.word(self.at + SieveProgram::WORDS + 4 * n) {
                place.store(*word, Ordering::Relaxed);
            }
        }
        self.set_until(now + VALID);
        if self.state == State::Away {
            self.state = self.attach(sockets);
        }
    }

    /// At all sockets, or at none: a machine that counts on the kernel leaves more unanswered.
    fn attach<'a>(&self, mut sockets: impl Iterator<Item = BorrowedFd<'a>> + Clone) -> State {
        let all = sockets.clone();
        let program = self.sieves.program.as_fd();
        let Some(error) = sockets.find_map(|socket| sys::attach_filter(socket, program).err()) else {
            return State::Attached;
        };
        tracing::warn!(
            worker = self.worker,
            %error,
            "the kernel drops nothing for this worker in this overload: a socket takes no filter (net.core.optmem_max \
             may be too small, or a filter of the socket be locked)"
        );
        self.set_until(Time::ZERO);
        detach(all);
        State::Refused
    }

    fn set_until(&self, until: Time) {
        if let Some(place) = self.sieves.table.long(self.at + SieveProgram::UNTIL) {
            // After the words.
            place.store(until.as_micros().saturating_mul(1_000), Ordering::Release);
        }
    }
}

fn detach<'a>(sockets: impl Iterator<Item = BorrowedFd<'a>>) {
    for socket in sockets {
        // One that has none says so.
        let _ = sys::detach_filter(socket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::net::UdpSocket;

    /// A table of one worker in a file, and something that is no program in place of the program.
    fn refused() -> Sieve {
        let path = std::env::temp_dir().join(format!("strowger-sieve-{}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(4_096).unwrap();
        let table = Mapping::new(file.as_fd(), 4_096).unwrap();
        Sieves::new(OwnedFd::from(file), table, 4_096).of(0)
    }

    /// Silence would be no help then, so the machine must not be told that the kernel drops.
    #[test]
    fn where_no_filter_can_be_attached_nothing_counts_on_it() {
        let mut sieve = refused();
        let sockets = [UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap()];
        let own = || sockets.iter().map(AsFd::as_fd);
        let until =
            |sieve: &Sieve| sieve.sieves.table.long(SieveProgram::UNTIL).unwrap().load(Ordering::Relaxed);
        for _ in 0..2 {
            assert_eq!(sieve.dropped(), None);
            sieve.follow(Some(&[1, 2]), Time::from_secs(5), own());
            assert_eq!((sieve.dropped(), sieve.state, until(&sieve)), (None, State::Refused, 0));
            sieve.follow(Some(&[3, 4]), Time::from_secs(6), own());
            assert_eq!((sieve.dropped(), until(&sieve)), (None, 0));
            sieve.follow(None, Time::from_secs(7), own());
            assert_eq!(sieve.state, State::Away);
        }
    }
}
