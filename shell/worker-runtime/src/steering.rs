//! Steering: having the kernel give each datagram to the worker that owns it.

use crate::listen::Bound;
use crate::sieve::Sieves;
use crate::sys::{self, Mapping, Use, errno};
use kernel_programs::{SieveProgram, SteeringProgram};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use wire::ListenerId;

/// The instruction that loads a map: its operation, and the source that says so.
const LOAD_MAP: u64 = 0x1018;
/// Where the number of the map is.
const IMMEDIATE: u32 = 32;
/// Operation and source of an instruction.
const OPERATION: u64 = 0xf0ff;
/// The rest of a load of 64 bits, which is one instruction more.
const LOAD_WIDE: u64 = 0x18;
/// What is kept of the kernel's reasons for refusing a program, in bytes.
const REASONS: usize = 1 << 20;

/// Why the kernel does not steer.
#[derive(Debug)]
pub struct SteerError {
    /// What was being done.
    pub what: &'static str,
    /// What the system said.
    pub error: io::Error,
    /// What the kernel's check of the program said last, if it got that far.
    pub reason: Option<String>,
}

impl SteerError {
    /// Whether the process lacks a privilege, which is no fault of the kernel or the program. Without
    /// CAP_PERFMON the kernel allows no arithmetic with addresses, and says so when it checks the program.
    pub fn is_permission(&self) -> bool {
        match errno(&self.error) {
            libc::EPERM | libc::ENOSYS => true,
            libc::EACCES => self.reason.as_ref().is_none_or(|reason| reason.contains("!root")),
            _ => false,
        }
    }

    /// What a person can do about it.
    pub fn mend(&self) -> &'static str {
        match errno(&self.error) {
            libc::ENOSYS => "this kernel was built without bpf(2), or a seccomp filter forbids it",
            _ if self.is_permission() => {
                "the process may not load programs into the kernel: give it CAP_BPF and CAP_PERFMON (`setcap \
                 cap_bpf,cap_perfmon+ep` on the binary, AmbientCapabilities= in a systemd unit, `docker run --cap-add \
                 BPF --cap-add PERFMON`)"
            }
            _ => "this kernel cannot run the program; Linux 6.1 and later should",
        }
    }
}

impl fmt::Display for SteerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.what, self.error)?;
        self.reason.iter().try_for_each(|reason| write!(f, " ({reason})"))
    }
}

impl std::error::Error for SteerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl Bound {
    /// Has the kernel run `program` for each datagram to an address that all workers serve, all or none, and
    /// answers for how many addresses it does. To be called before anything is received, with a program that
    /// agrees with the machines' [`owner`](wire::Machine::owner). Addresses of one worker alone need none.
    /// The program goes when the sockets do.
    ///
    /// # Errors
    /// What the kernel refused. The workers serve all the same, and hand over what is not theirs.
    pub fn steer(&mut self, program: &SteeringProgram) -> Result<usize, SteerError> {
        let groups = self.shared_sockets();
        let programs: Vec<OwnedFd> =
            groups.iter().map(|group| load(program, group)).collect::<Result<_, _>>()?;
        for (group, program) in groups.iter().zip(&programs) {
            let Some(first) = group.first() else { continue };
            if let Err(error) = sys::attach_reuseport_program(*first, program.as_fd()) {
                for socket in groups.iter().filter_map(|group| group.first()) {
                    // Those that have none say so.
                    let _ = sys::detach_reuseport_program(*socket);
                }
                return Err(SteerError { what: "attach the program to a port", error, reason: None });
            }
        }
        let count = groups.len();
        self.steered = count > 0;
        Ok(count)
    }

    /// To have the kernel drop for each worker what its machine tells it to ([`wire::Machine::sieve`]).
    pub fn sifter(&self) -> Sifter {
        Sifter {
            sieves: Arc::clone(&self.sieves),
            workers: self.sockets.len(),
            // Where the kernel joins datagrams it would judge several by the first.
            sockets: match self.config.generator.together {
                true => 0,
                false => self.sockets.iter().map(|worker| worker.udp.len()).sum(),
            },
        }
    }

    /// The datagram sockets of each address that all workers serve, in the order of the workers.
    fn shared_sockets(&self) -> Vec<Vec<BorrowedFd<'_>>> {
        let shared = self.listeners.len().min(self.config.own_from);
        let of = |id: ListenerId| -> Vec<BorrowedFd<'_>> {
            let sockets = self.sockets.iter().flat_map(|worker| &worker.udp);
            sockets.filter(|socket| socket.id == id && socket.peer.is_none()).map(|s| s.fd.as_fd()).collect()
        };
        // Another transport has no datagram sockets, and one worker nobody to choose among.
        (0..shared as u16).map(|id| of(ListenerId(id))).filter(|sockets| sockets.len() > 1).collect()
    }
}

/// Makes the kernel ready to drop what overloaded workers would leave unanswered.
pub struct Sifter {
    sieves: Arc<OnceLock<Sieves>>,
    workers: usize,
    sockets: usize,
}

impl Sifter {
    /// Loads this program, and answers for how many sockets it may drop. The kernel's check takes some tenths
    /// of a second; the workers may run meanwhile, and use it from then on. Nothing is dropped before a
    /// machine says so. None is loaded where the kernel joins datagrams
    /// ([`RuntimeConfig::together`](crate::GeneratorOptions::together)).
    ///
    /// # Errors
    /// What the kernel refused. The workers serve all the same, and take each datagram to leave it
    /// unanswered.
    pub fn load(self, program: &SieveProgram) -> Result<usize, SteerError> {
        if self.sockets == 0 {
            return Ok(0);
        }
        let refused = |what| move |error| SteerError { what, error, reason: None };
        let (entry, workers) = (program.entry(), self.workers);
        let scratch =
            sys::scratch_map(program.scratch).map_err(refused("make a map for the overload program"))?;
        let table = sys::table_map(entry as u32, workers as u32)
            .map_err(refused("make a map for the workers' load"))?;
        let generation = program.memory as usize;
        let each = SieveProgram::GENERATIONS * generation;
        let memory = sys::table_map(each as u32, workers as u32)
            .map_err(refused("make a map for what the overload program remembers"))?;
        let shared = |map: &OwnedFd, bytes| {
            Mapping::new(map.as_fd(), bytes).map_err(refused("share a map with the kernel"))
        };
        let table_mapping = shared(&table, entry * workers)?;
        let memory_mapping = shared(&memory, each * workers)?;
        let code = link(&program.code, |map| match map {
            SieveProgram::TABLE => table.as_fd(),
            SieveProgram::MEMORY => memory.as_fd(),
            _ => scratch.as_fd(),
        });
        let program = checked(Use::Filter, &code, "load the overload program")?;
        // There is one sifter for these workers, or they have one already, which is as good.
        let _ = self.sieves.set(Sieves::new(program, (table_mapping, entry), (memory_mapping, generation)));
        Ok(self.sockets)
    }
}

/// A program of its own for these sockets, because their map is part of it. What it needs, the kernel keeps
/// with it.
fn load(program: &SteeringProgram, sockets: &[BorrowedFd<'_>]) -> Result<OwnedFd, SteerError> {
    let refused = |what| move |error| SteerError { what, error, reason: None };
    let scratch =
        sys::scratch_map(program.scratch).map_err(refused("make a map for the steering program"))?;
    let map = sys::socket_map(sockets).map_err(refused("put the sockets into a map"))?;
    let code = link(&program.code, |number| match number {
        SteeringProgram::SOCKETS => map.as_fd(),
        _ => scratch.as_fd(),
    });
    checked(Use::Choose, &code, "load the steering program")
}

/// A program that the kernel has checked.
fn checked(purpose: Use, code: &[u64], what: &'static str) -> Result<OwnedFd, SteerError> {
    sys::load_program(purpose, code, None).or_else(|error| {
        // Once more, for the reason; or it was a signal that the check did not wait for.
        let mut log = vec![0; REASONS];
        let again = sys::load_program(purpose, code, Some(&mut log));
        again.map_err(|_| SteerError { what, error, reason: last_words(&log) })
    })
}

/// The code with the descriptors of the maps in place of their numbers.
fn link<'a>(code: &[u64], map_of: impl Fn(i32) -> BorrowedFd<'a>) -> Vec<u64> {
    use std::os::fd::AsRawFd;
    let mut linked = code.to_vec();
    let mut at = 0;
    while let Some(instruction) = linked.get_mut(at) {
        if *instruction & OPERATION == LOAD_MAP {
            let map = map_of((*instruction >> IMMEDIATE) as i32);
            *instruction = *instruction & u64::from(u32::MAX) | (map.as_raw_fd() as u64) << IMMEDIATE;
        }
        at += if *instruction & 0xff == LOAD_WIDE { 2 } else { 1 };
    }
    linked
}

/// The last line of the kernel's log that says why, before its statistics.
fn last_words(log: &[u8]) -> Option<String> {
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(log.get(..end)?);
    let line = text.lines().rfind(|line| !line.starts_with("processed ") && !line.is_empty())?;
    Some(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Listener, RuntimeConfig};
    use std::os::fd::AsRawFd;
    use wire::Transport;

    fn listener(transport: Transport) -> Listener {
        Listener { transport, address: "127.0.0.1:0".parse().unwrap() }
    }

    #[test]
    fn what_all_workers_serve_is_steered_and_nothing_else() {
        let [tcp, udp] = [Transport::Tcp, Transport::Udp].map(listener);
        let peer = Some("127.0.0.1:9".parse().unwrap());
        let generator = crate::GeneratorOptions { peer, ..Default::default() };
        let listeners = vec![tcp, udp, udp, udp];
        let config = RuntimeConfig { listeners, own_from: 3, generator, ..RuntimeConfig::default() };
        let bound = Bound::new(config.clone(), 2).unwrap();
        let groups = bound.shared_sockets();
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
        for (worker, place) in [(0, 0), (1, 1)] {
            // In the order of the workers, which is what the program counts by.
            let own: Vec<i32> = bound.sockets[worker].udp.iter().map(|s| s.fd.as_raw_fd()).collect();
            assert!(groups.iter().all(|group| own.contains(&group[place].as_raw_fd())));
        }
        let mut alone = Bound::new(config, 1).unwrap();
        let program = SteeringProgram { code: Vec::new(), scratch: 8 };
        assert_eq!(alone.steer(&program).unwrap(), 0, "one worker needs none");
    }

    #[test]
    fn a_sieve_that_cannot_be_is_refused_and_the_workers_go_on_without() {
        let config = RuntimeConfig { listeners: vec![listener(Transport::Udp)], ..RuntimeConfig::default() };
        let bound = Bound::new(config.clone(), 1).unwrap();
        // It ends without a result.
        let program = SieveProgram { code: vec![0x95], scratch: 8, words: 3, memory: 8 };
        let refused = bound.sifter().load(&program).unwrap_err();
        assert!(refused.is_permission() || refused.to_string().contains("R0 !read_ok"), "{refused}");
        assert!(bound.sieves.get().is_none() && !refused.mend().is_empty());
        let generator = crate::GeneratorOptions { together: true, ..Default::default() };
        let together = Bound::new(RuntimeConfig { generator, ..config }, 1).unwrap();
        assert_eq!(together.sifter().load(&program).unwrap(), 0);
    }

    #[test]
    fn a_program_that_cannot_be_is_refused_and_the_workers_go_on_without() {
        let config = RuntimeConfig { listeners: vec![listener(Transport::Udp)], ..RuntimeConfig::default() };
        let mut bound = Bound::new(config, 2).unwrap();
        // It ends without a result.
        let refused = bound.steer(&SteeringProgram { code: vec![0x95], scratch: 8 }).unwrap_err();
        if !refused.is_permission() {
            assert!(refused.to_string().contains("R0 !read_ok"), "{refused}");
        }
        assert!(!refused.mend().is_empty());
    }

    #[test]
    fn maps_are_put_where_the_program_names_them() {
        let config = RuntimeConfig { listeners: vec![listener(Transport::Udp)], ..RuntimeConfig::default() };
        let bound = Bound::new(config, 2).unwrap();
        let fds: Vec<BorrowedFd<'_>> = bound.shared_sockets().remove(0);
        // A wide load of a number whose second half looks like a load of a map; then both maps.
        let code = [0x18, 0x1018, 0x1218, 0, 0x0000_0001_0000_1118, 0, 0x95];
        let linked = link(&code, |map| fds[usize::from(map != SteeringProgram::SOCKETS)]);
        let place = |fd: BorrowedFd<'_>| (fd.as_raw_fd() as u64) << 32;
        assert_eq!(linked, [0x18, 0x1018, place(fds[0]) | 0x1218, 0, place(fds[1]) | 0x1118, 0, 0x95]);
    }

    #[test]
    fn the_kernel_s_reason_is_its_last_line() {
        let log = b"0: (95) exit\nR0 !read_ok\nprocessed 1 insns (limit 1000000)\n\0\0rest";
        assert_eq!(last_words(log).as_deref(), Some("R0 !read_ok"));
        assert_eq!(last_words(b"\0"), None);
    }
}
