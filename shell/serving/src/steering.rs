//! How datagrams come to the workers that own them, and where workers run.

use control::config::{Pin, Steering};
use control::metrics::{Kind, Text};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use sip_steering::Ownership;
use std::sync::mpsc;
use worker_runtime::{Bound, Sifter, allowed_cpus};

/// What is in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grade {
    /// One worker.
    Single,
    /// The kernel gives each datagram to its owner.
    Kernel,
    /// Workers hand over what is not theirs.
    Ring,
}

impl Grade {
    pub const ALL: [Grade; 3] = [Grade::Single, Grade::Kernel, Grade::Ring];

    /// For metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Grade::Single => "single",
            Grade::Kernel => "kernel",
            Grade::Ring => "ring",
        }
    }

    /// Which one is in force, as a metric.
    pub fn metric(self, text: &mut Text<'_>) {
        text.family("strowger_steering", "1 for how datagrams come to their worker: `kernel` (the kernel chooses its socket), `ring` (workers hand over), `single` (one worker); 0 for the others.", Kind::Gauge);
        for grade in Grade::ALL {
            text.sample("strowger_steering", &[("grade", grade.name())], u64::from(grade == self));
        }
    }

    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Grade::Single => "single: one worker, nothing to steer",
            Grade::Kernel => {
                "kernel: a datagram comes to the worker that its Call-ID names; a message on a stream makes at most \
                 one hop to it"
            }
            Grade::Ring => "ring: a message makes at most one hop to the worker that its Call-ID names",
        }
    }
}

/// What loading the program takes of the process. Nothing else needs it: whoever has it can read the kernel's
/// memory.
const PRIVILEGES: CapabilitySet = CapabilitySet::BPF.union(CapabilitySet::PERFMON);

/// The one thread that may load programs into the kernel. It ends when it has, or is dropped; every other
/// thread of the process is without the privilege from its first moment.
pub struct Helmsman {
    work: mpsc::SyncSender<Work>,
    steered: Underway,
}

struct Work {
    bound: Bound,
    ownership: Ownership,
    wish: Steering,
    sieve: bool,
    workers: usize,
}

impl Helmsman {
    /// To be called before any other thread is started, for privileges are a thread's and its children's.
    ///
    /// # Errors
    /// If the system gives no thread, or the privileges cannot be given up.
    pub fn appoint() -> std::io::Result<Helmsman> {
        let (work, receiver) = mpsc::sync_channel(1);
        let (done, steered) = mpsc::sync_channel(1);
        let steer = move || {
            let Ok(Work { mut bound, ownership, wish, sieve, workers }) = receiver.recv() else { return };
            let grade = choose(&mut bound, &ownership, wish, workers);
            let sifter = sieve.then(|| bound.sifter());
            // Who waits for that may serve while the rest is done.
            if done.send((bound, grade)).is_ok()
                && let Some(sifter) = sifter
            {
                sift(sifter, &ownership, workers);
            }
        };
        std::thread::Builder::new().name("steering".to_owned()).spawn(steer)?;
        give_up()?;
        Ok(Helmsman { work, steered: Underway(steered) })
    }

    /// Begins to apply the best grade that is configured and available. The kernel takes some tenths of a
    /// second to check the program: time for the caller to do something else. With `sieve` the kernel is made
    /// ready after that to drop what overloaded workers would leave unanswered, if it can, while they serve.
    ///
    /// # Errors
    /// If the thread has failed.
    pub fn steer(
        self,
        bound: Bound,
        ownership: Ownership,
        (wish, sieve): (Steering, bool),
        workers: usize,
    ) -> Result<Underway, String> {
        let work = Work { bound, ownership, wish, sieve, workers };
        self.work.send(work).map_err(|_| FAILED.to_owned())?;
        Ok(self.steered)
    }
}

/// The error if the thread has panicked.
const FAILED: &str = "the thread that steers has failed; see the log";

/// A grade that is being brought into force.
pub struct Underway(mpsc::Receiver<(Bound, Result<Grade, String>)>);

impl Underway {
    /// Waits until it is in force, and gives the sockets back.
    ///
    /// # Errors
    /// What to do if the kernel is configured by name and is not available.
    pub fn finish(self) -> Result<(Bound, Grade), String> {
        let (bound, grade) = self.0.recv().map_err(|_| FAILED.to_owned())?;
        let grade = grade?;
        log_events::workers::steering(grade.name());
        Ok((bound, grade))
    }
}

/// Takes the privileges from the calling thread, those that a process it starts would inherit as well. The
/// other ones of a server that runs as root stay, and with CAP_SYS_ADMIN among them it may load programs all
/// the same.
fn give_up() -> rustix::io::Result<()> {
    let mut sets = capabilities(None)?;
    if (sets.permitted | sets.inheritable).intersects(PRIVILEGES) {
        sets.effective.remove(PRIVILEGES);
        sets.permitted.remove(PRIVILEGES);
        // What is not inheritable is not ambient either.
        sets.inheritable.remove(PRIVILEGES);
        set_capabilities(None, sets)?;
    }
    Ok(())
}

fn choose(bound: &mut Bound, ownership: &Ownership, wish: Steering, workers: usize) -> Result<Grade, String> {
    let count = u16::try_from(workers).unwrap_or(u16::MAX);
    if count <= 1 {
        return Ok(Grade::Single);
    }
    if wish == Steering::Ring {
        return Ok(Grade::Ring);
    }
    let (error, mend) = match ownership.program(count) {
        Some(program) => match bound.steer(&program) {
            Ok(0) => {
                log_events::workers::steering_unneeded();
                return Ok(Grade::Ring);
            }
            Ok(_) => return Ok(Grade::Kernel),
            Err(error) => (error.to_string(), error.mend()),
        },
        None => {
            ("there is no steering program for this machine".to_owned(), "little-endian machines have one")
        }
    };
    if wish == Steering::Kernel {
        return Err(format!(
            "the kernel cannot steer datagrams: {error}; {mend}. With steering = \"auto\" the workers hand them over"
        ));
    }
    log_events::workers::steering_refused(&error, mend);
    Ok(Grade::Ring)
}

/// Has the kernel ready to drop what would be left unanswered in an overload.
fn sift(sifter: Sifter, ownership: &Ownership, workers: usize) {
    let (error, mend) = match ownership.sieve(u16::try_from(workers).unwrap_or(u16::MAX)) {
        Some(program) => match sifter.load(&program) {
            Ok(_) => return,
            Err(error) => (error.to_string(), error.mend()),
        },
        None => {
            ("there is no overload program for this machine".to_owned(), "little-endian machines have one")
        }
    };
    log_events::workers::sieve_unavailable(&error, mend);
}

/// The CPUs for this many workers, in turn; none: any.
pub fn cpus(pin: &Pin, workers: usize) -> Vec<usize> {
    match pin {
        Pin::Off => Vec::new(),
        Pin::Cpus(cpus) => cpus.clone(),
        Pin::Auto => own_cpus(allowed_cpus(), workers),
    }
}

/// A worker that shares its CPU with another one, or leaves one idle, is better moved about by the scheduler.
fn own_cpus(allowed: Vec<usize>, workers: usize) -> Vec<usize> {
    if workers > 1 && allowed.len() == workers { allowed } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_get_cpus_of_their_own_or_none() {
        assert_eq!(own_cpus(vec![2, 3], 2), [2, 3]);
        for (allowed, workers) in [(vec![0], 1), (vec![0, 1, 2], 2), (vec![0, 1], 3), (vec![], 0)] {
            assert!(own_cpus(allowed.clone(), workers).is_empty(), "{workers} on {allowed:?}");
        }
        assert_eq!(cpus(&Pin::Cpus(vec![5]), 2), [5]);
        assert!(cpus(&Pin::Off, 2).is_empty());
    }
}
