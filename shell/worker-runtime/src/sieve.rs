//! Having the kernel drop what an overloaded worker's machine would leave unanswered.
//!
//! The program is loaded once, at the start, and stays away from the sockets: a worker attaches it to its own
//! when its machine has something to be dropped, and takes it away when that is over. So a worker that keeps
//! up has none, and pays nothing for it. What it goes by is written at most every [`wire::Load::WINDOW`],
//! into memory that is shared with the kernel; no system call is made for it.

use crate::sys::{self, Mapping};
use kernel_programs::SieveProgram;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::Time;

/// How long a generation of dropped calls takes new entries, of the time for which a client repeats a
/// request. It is a little longer than a client's longest wait between two repetitions, which is half of that
/// time. A call that is dropped again is remembered anew.
const DROPPED_FOR: (u32, u32) = (17, 32);

/// How long the kernel goes by what a worker has written: some of its windows, for a worker that shares its
/// processor with others has to wait for it now and then.
const VALID: Duration = Duration::from_millis(500);

/// The program and its table, for all workers.
#[derive(Clone)]
pub struct Sieves {
    program: Arc<OwnedFd>,
    table: Arc<Mapping>,
    /// Bytes of a worker's entry.
    entry: usize,
    memory: Arc<Mapping>,
    /// Bytes of a generation.
    generation: usize,
}

impl Sieves {
    /// `table` with an entry of so many bytes for each worker, `memory` with [`SieveProgram::GENERATIONS`] of
    /// so many.
    pub fn new(
        program: OwnedFd,
        (table, entry): (Mapping, usize),
        (memory, generation): (Mapping, usize),
    ) -> Sieves {
        let (table, memory) = (Arc::new(table), Arc::new(memory));
        Sieves { program: Arc::new(program), table, entry, memory, generation }
    }

    /// Datagrams that the kernel has dropped for a worker since the start.
    pub fn dropped(&self, worker: u16) -> u64 {
        let at = self.entry * usize::from(worker) + SieveProgram::DROPPED;
        self.table.long(at).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Where a generation of a worker's memory begins.
    fn place(&self, worker: u16, generation: usize) -> usize {
        (SieveProgram::GENERATIONS * usize::from(worker) + generation) * self.generation
    }

    fn clear(&self, worker: u16, generation: usize) {
        let from = self.place(worker, generation);
        for at in (from..from + self.generation).step_by(8) {
            if let Some(place) = self.memory.long(at) {
                place.store(0, Ordering::Relaxed);
            }
        }
    }

    /// A worker's own; `patience` is how long clients repeat an unanswered request.
    pub fn of(self, worker: u16, patience: Duration) -> Sieve {
        let (part, whole) = DROPPED_FOR;
        Sieve {
            at: self.entry * usize::from(worker),
            worker,
            state: State::Away,
            seen: 0,
            dropped: Ages { first: 0, life: patience * part / whole, young: 0, since: Time::ZERO },
            known: Ages { first: SieveProgram::KNOWN, life: patience, young: 0, since: Time::ZERO },
            sieves: self,
        }
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

/// Two generations of memory, from number `first` on.
struct Ages {
    first: usize,
    /// How long one takes what comes.
    life: Duration,
    /// Which of the two is the young one, and since when.
    young: usize,
    since: Time,
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
    /// What the program remembers as dropped.
    dropped: Ages,
    /// What passes whatever its share.
    known: Ages,
}

impl Sieve {
    /// Datagrams dropped since the last look; `None`: the kernel drops none, whatever is said.
    pub fn dropped(&mut self) -> Option<u64> {
        let all = self.sieves.dropped(self.worker);
        let since = all.wrapping_sub(self.seen);
        self.seen = all;
        (self.state == State::Attached).then_some(since)
    }

    /// Goes by this from now on, at the worker's sockets; `None`: drops nothing.
    pub fn follow<'a>(
        &mut self,
        wanted: Option<wire::Sieve<'_>>,
        now: Time,
        sockets: impl Iterator<Item = BorrowedFd<'a>> + Clone,
    ) {
        let Some(wanted) = wanted else {
            if std::mem::replace(&mut self.state, State::Away) == State::Attached {
                self.set_until(Time::ZERO);
                detach(sockets);
            }
            return;
        };
        if self.state == State::Refused {
            return;
        }
        self.age(now);
        wanted.known.iter().for_each(|bit| self.know(*bit));
        for (n, word) in wanted.words.iter().enumerate() {
            self.sieves.table.set_word(self.at + SieveProgram::WORDS + 4 * n, *word);
        }
        self.set_until(now + VALID);
        if self.state == State::Away {
            self.state = self.attach(sockets);
        }
    }

    /// Clears what is too old: all of it before the program is attached, and then one generation after the
    /// other.
    fn age(&mut self, now: Time) {
        let Sieve { sieves, worker, state, dropped, known, .. } = self;
        for ages in [&mut *dropped, known] {
            let fresh = *state == State::Away;
            if !fresh && now.since(ages.since) < ages.life {
                continue;
            }
            let old = if fresh { 2 } else { 1 };
            for _ in 0..old {
                ages.young = 1 - ages.young;
                sieves.clear(*worker, ages.first + ages.young);
            }
            ages.since = now;
        }
        if let Some(place) = sieves.table.long(self.at + SieveProgram::YOUNG) {
            place.store(dropped.young as u64, Ordering::Relaxed);
        }
    }

    /// What has this bit passes from now on.
    fn know(&self, bit: u32) {
        let from = self.sieves.place(self.worker, self.known.first + self.known.young);
        let word = bit as usize / 64;
        if 8 * word < self.sieves.generation
            && let Some(place) = self.sieves.memory.long(from + 8 * word)
        {
            place.fetch_or(1 << (bit % 64), Ordering::Relaxed);
        }
    }

    /// At all sockets, or at none: a machine that counts on the kernel leaves more unanswered.
    fn attach<'a>(&self, mut sockets: impl Iterator<Item = BorrowedFd<'a>> + Clone) -> State {
        let all = sockets.clone();
        let program = self.sieves.program.as_fd();
        let Some(error) = sockets.find_map(|socket| sys::attach_filter(socket, program).err()) else {
            return State::Attached;
        };
        log_events::workers::sieve_refused(self.worker, &error);
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

    /// Table and memory of two workers in files, and something that is no program in place of the program.
    fn sieves() -> Sieves {
        let shared = |bytes: usize| {
            let name =
                format!("strowger-sieve-{}-{:?}-{bytes}", std::process::id(), std::thread::current().id());
            let path = std::env::temp_dir().join(name);
            let file =
                OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            file.set_len(bytes as u64).unwrap();
            (Mapping::new(file.as_fd(), bytes).unwrap(), OwnedFd::from(file))
        };
        let ((table, _), (memory, file)) = (shared(2 * 4_096), shared(2 * 4 * 64));
        Sieves::new(file, (table, 4_096), (memory, 64))
    }

    /// Silence would be no help then, so the machine must not be told that the kernel drops.
    #[test]
    fn where_no_filter_can_be_attached_nothing_counts_on_it() {
        let mut sieve = sieves().of(0, Duration::from_secs(32));
        let sockets = [UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap()];
        let own = || sockets.iter().map(AsFd::as_fd);
        let until =
            |sieve: &Sieve| sieve.sieves.table.long(SieveProgram::UNTIL).unwrap().load(Ordering::Relaxed);
        for _ in 0..2 {
            assert_eq!(sieve.dropped(), None);
            sieve.follow(Some(wire::Sieve { words: &[1, 2], known: &[] }), Time::from_secs(5), own());
            assert_eq!((sieve.dropped(), sieve.state, until(&sieve)), (None, State::Refused, 0));
            sieve.follow(Some(wire::Sieve { words: &[3, 4], known: &[] }), Time::from_secs(6), own());
            assert_eq!((sieve.dropped(), until(&sieve)), (None, 0));
            sieve.follow(None, Time::from_secs(7), own());
            assert_eq!(sieve.state, State::Away);
        }
    }

    #[test]
    fn times_of_the_sieve_follow_the_patience_of_clients() {
        for patience in [16, 32, 128] {
            let mut sieve = sieves().of(0, Duration::from_secs(patience));
            let has = |sieve: &Sieve, from: usize| {
                (from..from + 2).any(|generation| {
                    let at = sieve.sieves.place(0, generation);
                    sieve.sieves.memory.long(at).unwrap().load(Ordering::Relaxed) >> 9 & 1 == 1
                })
            };
            let mut look = |second: u64, bits: &[u32]| {
                let wanted = wire::Sieve { words: &[], known: bits };
                sieve.follow(Some(wanted), Time::from_secs(second), std::iter::empty());
                has(&sieve, SieveProgram::KNOWN)
            };
            assert!(look(1, &[9]) && look(patience, &[]) && look(2 + patience, &[]), "{patience}");
            assert!(look(2 * patience, &[]) && !look(3 + 2 * patience, &[]), "{patience}");
            let (part, whole) = DROPPED_FOR;
            assert_eq!(sieve.dropped.life * whole, Duration::from_secs(patience) * part);
        }
    }

    /// What passes whatever its share is known for as long as it may be repeated, and then forgotten; the
    /// other worker's memory stays as it is.
    #[test]
    fn what_the_machine_knows_is_kept_for_its_time() {
        let mut sieve = sieves().of(1, Duration::from_secs(32));
        let has = |sieve: &Sieve, from: usize, bit: usize| {
            (from..from + 2).any(|generation| {
                let at = sieve.sieves.place(1, generation) + bit / 64 * 8;
                sieve.sieves.memory.long(at).unwrap().load(Ordering::Relaxed) >> (bit % 64) & 1 == 1
            })
        };
        let tell = |sieve: &mut Sieve, second: u64, bits: &[u32]| {
            sieve.follow(
                Some(wire::Sieve { words: &[], known: bits }),
                Time::from_secs(second),
                std::iter::empty(),
            );
        };
        sieve.sieves.memory.long(0).unwrap().store(u64::MAX, Ordering::Relaxed);
        // Left from before.
        sieve.sieves.memory.long(sieve.sieves.place(1, 0)).unwrap().store(8, Ordering::Relaxed);
        sieve.sieves.memory.long(sieve.sieves.place(1, 3)).unwrap().store(8, Ordering::Relaxed);
        tell(&mut sieve, 1, &[0, 70, 511, 512, u32::MAX]);
        assert_eq!(sieve.state, State::Attached, "there are no sockets");
        assert!(!has(&sieve, 0, 3) && !has(&sieve, 2, 3));
        for (second, first, second_bit) in
            [(20, true, false), (34, true, true), (60, true, true), (67, false, true)]
        {
            tell(&mut sieve, second, if second == 34 { &[9] } else { &[] });
            assert_eq!((has(&sieve, 2, 70), has(&sieve, 2, 9)), (first, second_bit), "{second}");
            assert_eq!(has(&sieve, 2, 511), first);
        }
        // What the program wrote.
        let young = |sieve: &Sieve| {
            sieve.sieves.table.long(4_096 + SieveProgram::YOUNG).unwrap().load(Ordering::Relaxed)
        };
        let now = young(&sieve) as usize;
        sieve.sieves.memory.long(sieve.sieves.place(1, now)).unwrap().store(32, Ordering::Relaxed);
        for (second, remembered) in [(80, true), (90, true), (108, false)] {
            tell(&mut sieve, second, &[]);
            assert_eq!(has(&sieve, 0, 5), remembered, "{second}");
        }
        assert_eq!(sieve.sieves.memory.long(0).unwrap().load(Ordering::Relaxed), u64::MAX);
    }
}
