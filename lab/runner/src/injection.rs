//! Injects the faults of a run at their times, and says which of them were not injected, or were late.

use std::time::{Duration, Instant};

use lab::experiment::{FaultKind, FaultPlace, FaultStep, Setup};
use rustix::process::Signal;

use crate::certificates::Certificates;
use crate::names::Names;
use crate::network::{Network, Side};
use crate::network_faults;
use crate::process::Process;
use crate::run::{NoRun, Stop};
use crate::sampler::{Sampler, Watched};
use crate::systems::Running;

/// What a record says of a server that was killed and did not start again.
const NOT_BACK: &str = "not back";
/// A fault that comes later than this after its time is said to be late.
const LATE: Duration = Duration::from_millis(500);

/// What was done of the faults of a run.
#[derive(Debug, Default)]
pub struct Injected {
    /// When, seconds since the start of the measurement, and what.
    pub faults: Vec<(f64, String)>,
    /// Why the run says nothing: faults that it should have had.
    pub void: Vec<String>,
    /// The system was killed and did not come back.
    pub is_gone: bool,
    /// What is worth knowing.
    pub notes: Vec<String>,
}

/// The parts of a run that faults happen to.
#[derive(Debug)]
pub struct Injection<'r> {
    /// The system under test.
    pub system: &'r mut Running,
    /// Reads the processes of a system that was started again.
    pub sampler: &'r Sampler,
    /// Between system and generator.
    pub network: &'r Network,
    /// The DNS server of the lab.
    pub names: Option<&'r Names>,
    /// The certificates of the system.
    pub certificates: Option<&'r Certificates>,
    /// The generator that measures.
    pub generator: &'r mut Process,
    /// Whether the person asked to end.
    pub stop: &'r dyn Stop,
    /// When the measurement begins.
    pub begun: Instant,
    /// How long it is.
    pub measure: Duration,
}

/// How a fault went.
#[derive(Debug)]
enum Done {
    Injected,
    /// It could not be: why.
    Not(&'static str),
    /// The system is gone since: why.
    Gone(String),
}

/// The faults of the runs of a system with their times, in order. Of two at one time the shorter one comes
/// first.
pub fn steps<'s>(setup: &'s Setup, system: &str) -> Vec<(Duration, &'s FaultStep)> {
    let concerned = setup.faults.iter().filter(|fault| fault.concerns(system));
    let mut steps: Vec<(Duration, &FaultStep)> = concerned
        .flat_map(|fault| fault.times(setup.measuring.measure).into_iter().map(move |at| (at, fault)))
        .collect();
    steps.sort_by_key(|(at, fault)| (*at, fault.length()));
    steps
}

/// A fault in words: "kill at 5 s".
fn named((at, fault): (Duration, &FaultStep)) -> String {
    format!("{} at {} s", fault.kind.name(), at.as_secs_f64())
}

impl Injection<'_> {
    /// Injects them. Where the person asked to end, the rest is left out without a word.
    ///
    /// # Errors
    /// If a part of a fault does not exist or fails.
    pub fn inject(mut self, steps: Vec<(Duration, &FaultStep)>) -> Result<Injected, NoRun> {
        let mut injected = Injected::default();
        let mut missed: Vec<String> = Vec::new();
        let mut why = "";
        for step in steps {
            if why.is_empty() {
                why = self.wait(step.0);
            }
            if self.stop.is_asked() {
                return Ok(injected);
            }
            if !why.is_empty() {
                missed.push(named(step));
                continue;
            }
            let at = self.begun.elapsed();
            let late = at.saturating_sub(step.0);
            if late > LATE {
                let late = late.as_secs_f64();
                injected.notes.push(format!("the fault {} came {late:.1} s late", named(step)));
            }
            let failed = |why: String| NoRun::Failed(format!("the fault {}: {why}", step.1.kind.name()));
            // The time is that of the fault itself: it may be later than the schedule has it.
            let fault = (at.as_secs_f64(), step.1.kind.name().to_owned());
            match self.one(step.1).map_err(failed)? {
                Done::Injected => {
                    injected.faults.push(fault);
                    self.note_short(step, at, &mut injected.notes);
                }
                Done::Not(why) => {
                    injected.void.push(format!("the fault {} was not injected: {why}", named(step)));
                }
                Done::Gone(reason) => {
                    injected.faults.push(fault);
                    injected.faults.push((self.begun.elapsed().as_secs_f64(), NOT_BACK.to_owned()));
                    injected.void.push(format!("the system did not come back after a kill: {reason}"));
                    (injected.is_gone, why) = (true, "the system was gone");
                }
            }
        }
        if let Some(first) = missed.first() {
            let more =
                if missed.len() > 1 { format!(" and {} more", missed.len() - 1) } else { String::new() };
            injected.void.push(format!("the fault {first}{more} was not injected: {why}"));
        }
        Ok(injected)
    }

    /// Waits for the time of a fault; why it cannot be injected, or nothing.
    fn wait(&mut self, at: Duration) -> &'static str {
        let stop = self.stop;
        if self.generator.wait_until(self.begun + at, || stop.is_asked()).is_some() {
            return "the generator had ended";
        }
        // One before may have taken longer than it was to last.
        if self.begun.elapsed() >= self.measure { "the measurement was over" } else { "" }
    }

    /// Lets a fault last.
    fn last(&mut self, fault: &FaultStep) {
        let stop = self.stop;
        self.generator.wait_until(Instant::now() + fault.lasts, || stop.is_asked());
    }

    /// Says that a fault was cut, because the generator ended before.
    fn note_short(&mut self, step: (Duration, &FaultStep), begun: Duration, notes: &mut Vec<String>) {
        let (lasted, length) = (self.begun.elapsed().saturating_sub(begun), step.1.length());
        if lasted < length && !self.stop.is_asked() {
            let (lasted, length) = (lasted.as_secs_f64(), length.as_secs_f64());
            notes.push(format!(
                "the fault {} lasted {lasted:.1} s of {length} s: the generator had ended",
                named(step)
            ));
        }
    }

    fn one(&mut self, fault: &FaultStep) -> Result<Done, String> {
        match (fault.kind, fault.place) {
            (FaultKind::Kill, FaultPlace::System) => Ok(self.kill(fault)),
            (FaultKind::Stop, place) => {
                let process = match place {
                    FaultPlace::System => self.system.process(),
                    FaultPlace::Backend => self.system.backend(fault.backend),
                };
                let process = process.ok_or("there is no such part")?;
                if !process.is_running() {
                    return Ok(Done::Not(ENDED));
                }
                process.signal(Signal::STOP);
                self.last(fault);
                let process = match place {
                    FaultPlace::System => self.system.process(),
                    FaultPlace::Backend => self.system.backend(fault.backend),
                };
                process.ok_or("there is no such part")?.signal(Signal::CONT);
                Ok(Done::Injected)
            }
            (FaultKind::Reload, FaultPlace::System) => {
                let process = self.system.process().ok_or("there is no such part")?;
                if !process.is_running() {
                    return Ok(Done::Not(ENDED));
                }
                process.signal(Signal::HUP);
                Ok(Done::Injected)
            }
            (FaultKind::RenewCertificate, FaultPlace::System) => {
                let certificates = self.certificates.ok_or("there is no certificate")?;
                certificates.renew().map(|()| Done::Injected)
            }
            (kind, _) if kind.is_of_network() || kind.is_of_names() => {
                network_faults::begin(fault, self.network, self.names)?;
                self.last(fault);
                network_faults::end(fault, self.network, self.names)?;
                Ok(Done::Injected)
            }
            _ => Err("not in this version".to_owned()),
        }
    }

    /// Kills the system, and starts it again.
    fn kill(&mut self, fault: &FaultStep) -> Done {
        self.system.kill();
        self.last(fault);
        let (system, network) = (&mut *self.system, self.network);
        if let Err(why) = network.within(Side::System, || system.restart()) {
            return Done::Gone(why);
        }
        self.sampler.watch(Watched { name: "system", pids: self.system.pids() });
        Done::Injected
    }
}

/// Why a signal has no effect.
const ENDED: &str = "the process had ended";

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use lab::experiment::System;

    use super::*;

    /// A person who asks for nothing.
    #[derive(Debug)]
    struct Never;

    impl Stop for Never {
        fn is_asked(&self) -> bool {
            false
        }
    }

    fn shell(script: &str) -> Process {
        Process::start(Command::new("sh").args(["-c", script]), &[]).expect("sh starts")
    }

    /// Faults of a system that is this script, and not started again, while a generator is that one.
    fn injected(system: &str, generator: &str, faults: Vec<FaultStep>) -> Injected {
        let mut setup = Setup { faults, ..Setup::default() };
        setup.measuring.measure = Duration::from_secs(60);
        setup.systems.insert("A".to_owned(), System::default());
        let mut running = Running::of_tests(system);
        // Until it says that it is up, or has ended.
        let until = Instant::now() + Duration::from_secs(20);
        let is_up = |process: &mut Process| !process.is_running() || process.output().contains("up\n");
        while !running.process().is_some_and(is_up) && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        let mut generator = shell(generator);
        let sampler = Sampler::start(Watched { name: "system", pids: Vec::new() }, None, Vec::new());
        let injection = Injection {
            system: &mut running,
            sampler: &sampler,
            network: &Network::loopback(),
            names: None,
            certificates: None,
            generator: &mut generator,
            stop: &Never,
            begun: Instant::now(),
            measure: setup.measuring.measure,
        };
        let injected = injection.inject(steps(&setup, "A")).expect("all parts are there");
        sampler.stop();
        injected
    }

    fn fault(kind: FaultKind, at: u64, lasts: Duration) -> FaultStep {
        FaultStep { kind, at: Duration::from_millis(at), lasts, ..FaultStep::default() }
    }

    #[test]
    fn faults_after_the_end_of_the_generator_void_a_run() {
        let stop = |at: u64| fault(FaultKind::Stop, at, Duration::ZERO);
        let found = injected("echo up; sleep 70", "exit 0", vec![stop(50_000), stop(51_000)]);
        assert_eq!(
            found.void,
            ["the fault stop at 50 s and 1 more was not injected: the generator had ended"]
        );
        assert!(found.faults.is_empty());
        let none = injected("echo up; sleep 70", "sleep 70", vec![stop(0)]);
        assert_eq!((none.void.len(), none.faults.len()), (0, 1));
    }

    #[test]
    fn fault_of_a_process_that_is_gone_voids_a_run() {
        for kind in [FaultKind::Stop, FaultKind::Reload] {
            let found = injected("exit 0", "sleep 70", vec![fault(kind, 3, Duration::ZERO)]);
            let wanted =
                format!("the fault {} at 0.003 s was not injected: the process had ended", kind.name());
            assert_eq!(found.void, [wanted]);
            assert!(found.faults.is_empty());
        }
    }

    #[test]
    fn system_that_does_not_come_back_voids_a_run() {
        // It is started again by the same command, which ends at once the second time.
        let folder = tempfile::tempdir().expect("a folder");
        let mark = folder.path().join("begun").display().to_string();
        let script = format!("[ -e {mark} ] && echo broken && exit 1; touch {mark}; echo up; exec sleep 70");
        let kill = fault(FaultKind::Kill, 2, Duration::ZERO);
        let stop = fault(FaultKind::Stop, 20_000, Duration::ZERO);
        let found = injected(&script, "sleep 70", vec![kill, stop]);
        assert!(found.is_gone);
        assert!(found.void[0].starts_with("the system did not come back after a kill: "), "{found:?}");
        assert!(found.void[0].contains("broken"), "{found:?}");
        assert_eq!(found.void[1], "the fault stop at 20 s was not injected: the system was gone");
        assert_eq!(
            found.faults.iter().map(|(_, what)| what.as_str()).collect::<Vec<_>>(),
            ["kill", NOT_BACK]
        );
    }

    #[test]
    fn fault_that_is_cut_or_late_leaves_a_note() {
        let long = fault(FaultKind::Stop, 0, Duration::from_secs(50));
        let found = injected("echo up; sleep 70", "sleep 1", vec![long]);
        assert!(found.notes[0].contains("s of 50 s: the generator had ended"), "{found:?}");
        // The first takes longer than the plan knows.
        let first = fault(FaultKind::Stop, 0, Duration::from_secs(2));
        let second = fault(FaultKind::Reload, 100, Duration::ZERO);
        let found = injected("trap '' HUP; echo up; sleep 70", "sleep 70", vec![first, second]);
        assert!(found.notes[0].starts_with("the fault reload at 0.1 s came "), "{found:?}");
        assert_eq!(found.faults.len(), 2);
    }

    #[test]
    fn faults_of_one_time_begin_with_the_shorter_one() {
        let faults = vec![
            fault(FaultKind::Stop, 5, Duration::from_secs(1)),
            fault(FaultKind::Reload, 5, Duration::ZERO),
        ];
        let setup = Setup { faults, ..Setup::default() };
        let kinds: Vec<FaultKind> = steps(&setup, "A").iter().map(|(_, fault)| fault.kind).collect();
        assert_eq!(kinds, [FaultKind::Reload, FaultKind::Stop]);
    }
}
