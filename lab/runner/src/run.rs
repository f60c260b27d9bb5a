//! One run: a fresh system, warm-up, measurement, faults, samples, and the facts that make a run void.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lab::experiment::{Run, Setup, Subject, System, SystemKind, Transport};
use lab::record::{MadeRun, RunRecord, VERSION};
use lab::statistics::Tolerance;
use load::report::Fact;
use rustix::process::Signal;

use crate::addresses::{Addresses, PORT};
use crate::archive::hash_of_file;
use crate::associations;
use crate::certificates::Certificates;
use crate::database::SAMPLED;
use crate::explained::Explained;
use crate::generator::{Generator, contact};
use crate::injection::{self, Injected, Injection};
use crate::machine;
use crate::names::{self, Names};
use crate::network::{Network, Side};
use crate::phases::{self, Phases};
use crate::process::Process;
use crate::processors::{Machine, Places};
use crate::sampler::{Sampled, Sampler, Watched};
use crate::screening::{self, Seen};
use crate::sip::{self, DOMAIN};
use crate::systems::{self, Ground, Running, Stopped};
use crate::wire::Wire;
use crate::{capture, warm_up};

/// The report of `strowger tune` in an archive.
const TUNE: &str = "tune.json";
/// The fact of a record that has the hash of the generator.
pub const GENERATOR: &str = "generator";
/// A capture before the measurement ends this long before it.
const CAPTURE_AHEAD: Duration = Duration::from_millis(100);
const STOP: Duration = Duration::from_secs(5);

/// What all runs of an experiment share.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The program that is this build.
    pub own: PathBuf,
    /// Where runs have their folders.
    pub scratch: PathBuf,
    /// Free addresses.
    pub addresses: Addresses,
    /// Set when the person asked to end.
    pub stop: &'a dyn Stop,
    /// SHA-256 of the program that is this build, the generator.
    pub generator: String,
    /// A number that the runs of one session share.
    pub session: u64,
    /// The report of `strowger tune` about this machine, or why there is none.
    pub tune: Result<Vec<u8>, String>,
    /// The processors that parts of a run may have.
    pub processors: Machine,
}

/// Whether the person asked to end.
pub trait Stop: std::fmt::Debug + Sync {
    /// Whether to end now.
    fn is_asked(&self) -> bool;
}

/// Why there is no record of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoRun {
    /// The person asked to end.
    Stopped,
    /// A part did not start, or an answer that every run needs did not come.
    Failed(String),
}

impl NoRun {
    /// With the system that it is of.
    fn of(self, subject: &Subject) -> NoRun {
        match self {
            NoRun::Failed(why) => NoRun::Failed(format!("{subject}: {why}")),
            NoRun::Stopped => NoRun::Stopped,
        }
    }
}

impl From<String> for NoRun {
    fn from(why: String) -> NoRun {
        NoRun::Failed(why)
    }
}

/// A finished run with the text of its logs.
#[derive(Debug)]
pub struct Finished {
    /// What is known of it.
    pub record: RunRecord,
    /// Output of the system and of the servers behind it.
    pub system_log: String,
    /// Output of the generator.
    pub load_log: String,
    /// Further files for the archive, by name.
    pub files: Vec<(String, Vec<u8>)>,
}

impl<'a> Bench<'a> {
    /// A bench for the runs of a session that begins now.
    ///
    /// # Errors
    /// If this program cannot be read.
    pub fn new(own: &Path, scratch: PathBuf, stop: &'a dyn Stop) -> Result<Bench<'a>, String> {
        let generator = hash_of_file(own).map_err(|error| format!("{}: {error}", own.display()))?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let session = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        let addresses = Addresses::new(std::process::id());
        let processors = Machine::here()?;
        let (own, tune) = (own.to_owned(), machine::tune(own));
        // A server may run in another folder: Kamailio goes to the root.
        let scratch =
            std::path::absolute(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
        Ok(Bench { own, scratch, addresses, stop, generator, session, tune, processors })
    }

    /// Performs a run.
    ///
    /// # Errors
    /// If a part could not be started, or the person asked to end.
    pub fn perform(&mut self, run: &Run, setup: &Setup, seed: u64) -> Result<Finished, NoRun> {
        let folder = self.scratch.join(run.id().to_string());
        let failed = |error: std::io::Error| NoRun::Failed(format!("{}: {error}", folder.display()));
        // What an interrupted attempt has left is none of this one's.
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(failed)?;
        }
        // Programs may run elsewhere: they get whole paths.
        let folder = fs::create_dir_all(&folder).and_then(|()| folder.canonicalize()).map_err(failed)?;
        let mut finished = if setup.workload.associations > 0 {
            associations::perform(self, run, setup, seed, &folder)
        } else {
            Performance::begin(self, run, setup, seed, &folder).and_then(Performance::measure)
        };
        if let Ok(Finished { record, files, .. }) = &mut finished {
            record.run.session = self.session;
            record.program.push(Fact::new(GENERATOR, &self.generator));
            match &self.tune {
                Ok(report) => files.push((TUNE.to_owned(), report.clone())),
                Err(why) => record.checks.unobserved.push(format!("the report of `tune`: {why}")),
            }
        }
        // What is worth keeping is in the record; a failed run's files help to find out why.
        if finished.is_ok() || matches!(finished, Err(NoRun::Stopped)) {
            let _ = fs::remove_dir_all(&folder);
        }
        finished
    }
}

/// A run under way.
#[derive(Debug)]
struct Performance<'a> {
    run: &'a Run,
    setup: &'a Setup,
    seed: u64,
    own: &'a Path,
    folder: &'a Path,
    stop: &'a dyn Stop,
    phases: Phases,
    network: Network,
    names: Option<Names>,
    system: Running,
    sampler: Sampler,
    wire: Wire,
    certificates: Option<Certificates>,
    place: SocketAddr,
    places: Places,
    started: u64,
    /// What the generator wrote while callees registered.
    registered: String,
    notes: Vec<String>,
}

impl<'a> Performance<'a> {
    fn begin(
        bench: &'a mut Bench<'_>,
        run: &'a Run,
        setup: &'a Setup,
        seed: u64,
        folder: &'a Path,
    ) -> Result<Performance<'a>, NoRun> {
        let workload = &setup.workload;
        let system = setup.systems.get(&run.subject().system);
        let system = system.ok_or_else(|| format!("there is no system {}", run.subject().system))?;
        let network = Network::make(setup)?;
        let mut of_network = Addresses::apart();
        let addresses = if network.is_apart() { &mut of_network } else { &mut bench.addresses };
        let place = SocketAddr::new(addresses.far()?, PORT);
        let resolver = names_for(setup, system, &network, (addresses, place))?;
        let secure = matches!(workload.transport, Transport::Tls | Transport::Wss);
        let names = vec![DOMAIN.to_owned(), place.ip().to_string()];
        let certificates = secure.then(|| Certificates::make(folder, names)).transpose()?;
        let named = |why: String| format!("{}: {why}", run.subject());
        let places = bench.processors.places(system, workload.workers <= 1).map_err(named)?;
        let mut ground = Ground {
            own: &bench.own,
            folder,
            addresses,
            network: &network,
            resolver: resolver.as_ref().map(Names::place),
            generator: place,
            users: workload.known_users(),
            certificates: certificates.as_ref(),
            places: &places,
            seed,
            data: PathBuf::new(),
            database: Vec::new(),
            backends: Vec::new(),
        };
        let mut running =
            network.within(Side::System, || systems::start(system, workload, &mut ground)).map_err(named)?;
        running.described.push(Fact::new("processors", places.text()));
        let wire = Wire::new(setup, system, running.target, place);
        let counters = network.counters(workload.transport == Transport::Udp)?;
        let watched = Watched { name: "system", pids: running.pids() };
        let sampler = Sampler::start(watched, wire.witness(), counters);
        sampler.watch(Watched { name: SAMPLED, pids: running.database_pids() });
        let mut performance = Performance {
            run,
            setup,
            seed,
            own: &bench.own,
            folder,
            stop: bench.stop,
            phases: Phases::of(setup),
            network,
            names: resolver,
            system: running,
            sampler,
            wire,
            certificates,
            place,
            started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            registered: String::new(),
            notes: bench.processors.shared(&places).map(str::to_owned).into_iter().collect(),
            places,
        };
        performance.on_wire(Side::Generator, |wire| wire.ask("before"));
        if workload.users == 0 && workload.callees > 0 && needs_callees(system) && workload.answer.is_some() {
            performance.register().map_err(|error| error.of(run.subject()))?;
        }
        performance.system.limit().map_err(named)?;
        Ok(performance)
    }

    /// Registers the callees at the system.
    fn register(&mut self) -> Result<(), NoRun> {
        let (workload, place) = (&self.setup.workload, self.place);
        let server = SocketAddr::new(self.system.target.ip(), PORT);
        let (contact, generator, stop) = (contact(place, workload), self.generator(), self.stop);
        let register = || {
            Ok(match &workload.registrations {
                Some(lines) => generator.register(lines, server, stop),
                None => sip::register(server, workload.callees, place.ip(), &contact)
                    .map(|()| String::new())
                    .map_err(NoRun::Failed),
            })
        };
        self.registered = self.network.within(Side::Generator, register)??;
        Ok(())
    }

    fn generator(&self) -> Generator<'_> {
        Generator {
            own: self.own,
            folder: self.folder,
            workload: &self.setup.workload,
            population: self.phases.population.as_ref(),
            place: self.place,
            target: self.system.target,
            system: self.system.pids().first().copied(),
            seed: self.seed,
            certificates: self.certificates.as_ref(),
        }
    }

    fn start_generator(&self, warm_up: Duration, measure: Duration) -> Result<Process, NoRun> {
        let mut command: Command = self.generator().command(warm_up, measure)?;
        command.arg("--quiet");
        let cpus = &self.places.generator;
        let start = || Process::start(&mut command, cpus).map_err(|error| format!("the generator: {error}"));
        let mut process = self.network.within(Side::Generator, start)?;
        process.wait_until_ready(Duration::from_secs(60)).map_err(|why| format!("the generator: {why}"))?;
        self.sampler.watch(Watched { name: "generator", pids: process.pids() });
        Ok(process)
    }

    /// Whether rate, processor time and memory became steady; nothing if the warm-up has a fixed length.
    fn warm_up(&mut self) -> Result<Option<bool>, NoRun> {
        let measuring = &self.setup.measuring;
        if !self.phases.apart {
            return Ok(None);
        }
        let mut generator = self.start_generator(Duration::ZERO, measuring.warm_up_limit)?;
        let begun = Instant::now();
        let from = self.sampler.begun().elapsed().as_secs_f64();
        let mut left = Some("there was no sample".to_owned());
        while begun.elapsed() < measuring.warm_up_limit && left.is_some() {
            if self.stop.is_asked() {
                return Err(NoRun::Stopped);
            }
            if !generator.is_running() {
                break;
            }
            thread::sleep(Duration::from_millis(200));
            left = warm_up::unsteady(&self.sampler.so_far(), from);
        }
        generator.signal(Signal::INT);
        generator.wait_until(Instant::now() + STOP, || self.stop.is_asked());
        generator.stop(STOP);
        // A measuring generator that fails must not be taken for this one.
        let _ = fs::remove_file(self.generator().report_file());
        let steady = left.is_none();
        self.notes.extend(left.map(|why| format!("the warm-up ended at its limit, {why}")));
        Ok(Some(steady))
    }

    fn measure(mut self) -> Result<Finished, NoRun> {
        let mut steady = self.warm_up()?;
        let measuring = &self.setup.measuring;
        self.wire.begins();
        let mut generator = self.start_generator(self.phases.warm_up, measuring.measure)?;
        let (measured_from, limit) = self.phases.from(generator.begins());
        self.capture_before(measured_from, &mut generator);
        let injected = self.inject(measured_from, &mut generator)?;
        self.capture_end(measured_from + measuring.measure, &mut generator);
        self.wait(&mut generator, limit)?;
        let load_log = std::mem::take(&mut self.registered) + &generator.output();
        let report = self.generator().report().map_err(|why| format!("{why}: {}", generator.tail(5)))?;
        self.wire.ended(&report);
        let ended = self.system.ended();
        if let Some(names) = &self.names {
            self.notes.push(format!("the DNS server of the lab was asked {} times", names.asked()));
        }
        if !ended {
            self.capture_after();
            self.on_wire(Side::Generator, |wire| wire.ask("after"));
        }
        let begun = self.sampler.begun();
        let Sampled { samples, counters, failed: unread } = self.sampler.stop();
        let described = std::mem::take(&mut self.system.described);
        let (checks, files) = self.wire.seen();
        let Stopped { output: system_log, backends, void } = self.system.stop();
        let window = phases::window(&report, begun);
        if let Some((found, why)) = self.phases.judged(&report, &samples, window.0) {
            steady = Some(found);
            self.notes.extend(why.map(|why| format!("the warm-up was not steady, {why}")));
        }
        let mut record = RunRecord {
            version: VERSION,
            run: MadeRun {
                factors: self.setup.combination.facts(),
                seed: self.seed,
                started: self.started,
                ..MadeRun::of(self.run)
            },
            program: described,
            machine: machine::facts().into_iter().chain(counters).collect(),
            checks,
            load: report,
            samples,
            window,
            backends,
            faults: injected.faults,
            notes: self.notes,
            steady,
            ..RunRecord::default()
        };
        let seen = Seen {
            ended,
            is_gone: injected.is_gone,
            datagrams: self.setup.workload.transport == Transport::Udp,
            system_log: &system_log,
            load_log: &load_log,
            folder: self.folder,
            unread,
        };
        screen(&mut record, &seen, self.setup, &self.run.subject().system);
        record.screened.void.extend(injected.void.into_iter().chain(void));
        Ok(Finished { record, system_log, load_log, files })
    }

    /// Injects the faults of the run.
    fn inject(&mut self, measured_from: Instant, generator: &mut Process) -> Result<Injected, NoRun> {
        let injection = Injection {
            system: &mut self.system,
            sampler: &self.sampler,
            network: &self.network,
            names: self.names.as_ref(),
            certificates: self.certificates.as_ref(),
            generator,
            stop: self.stop,
            begun: measured_from,
            measure: self.setup.measuring.measure,
        };
        let steps = injection::steps(self.setup, &self.run.subject().system);
        let mut injected = injection.inject(steps)?;
        self.notes.append(&mut injected.notes);
        Ok(injected)
    }

    /// Waits for the end of the generator that measures.
    fn wait(&self, generator: &mut Process, limit: Instant) -> Result<(), NoRun> {
        let status = generator.wait_until(limit, || self.stop.is_asked());
        if self.stop.is_asked() {
            return Err(NoRun::Stopped);
        }
        match status {
            Some(_) => Ok(()),
            None => Err(NoRun::Failed(format!("the generator did not end: {}", generator.tail(5)))),
        }
    }

    /// Looks at the wire from a side of the network.
    fn on_wire(&mut self, side: Side, look: impl FnOnce(&mut Wire) + Send) {
        let wire = &mut self.wire;
        let looked = self.network.within(side, || {
            look(wire);
            Ok(())
        });
        self.notes.extend(looked.err());
    }

    /// Captures packets of the warm-up's last moments.
    fn capture_before(&mut self, measured_from: Instant, generator: &mut Process) {
        if !self.wire.captures() {
            return;
        }
        let until = measured_from - CAPTURE_AHEAD;
        let from = until - capture::LENGTH.min(until.saturating_duration_since(Instant::now()));
        let stop = self.stop;
        if generator.wait_until(from, || stop.is_asked()).is_none() && !stop.is_asked() {
            self.on_wire(Side::System, |wire| {
                wire.capture("before", until.saturating_duration_since(Instant::now()));
            });
        }
    }

    /// Captures packets of a population just after the measurement: its calls end in that time.
    fn capture_end(&mut self, measured_until: Instant, generator: &mut Process) {
        let stop = self.stop;
        let is_there = self.phases.population.is_some() && self.wire.captures();
        if is_there && generator.wait_until(measured_until, || stop.is_asked()).is_none() && !stop.is_asked()
        {
            self.on_wire(Side::System, |wire| wire.capture("after", capture::LENGTH));
        }
    }

    /// Captures packets of calls like those of the measurement, which a further generator makes.
    fn capture_after(&mut self) {
        // Users have phases of their own: that was done while their calls ended.
        if !self.wire.captures() || self.stop.is_asked() || self.phases.population.is_some() {
            return;
        }
        match self.start_generator(Duration::ZERO, 4 * capture::LENGTH) {
            Ok(mut generator) => {
                self.on_wire(Side::System, |wire| wire.capture("after", capture::LENGTH));
                generator.signal(Signal::INT);
                generator.wait_until(Instant::now() + STOP, || self.stop.is_asked());
                generator.stop(STOP);
            }
            Err(NoRun::Failed(why)) => self.notes.push(format!("no capture after the measurement: {why}")),
            Err(NoRun::Stopped) => {}
        }
    }
}

/// Screens a run of a system, within what the declared network explains.
fn screen(record: &mut RunRecord, seen: &Seen<'_>, setup: &Setup, system: &str) {
    let explained = Explained::of(setup, record);
    record.notes.extend(explained.note());
    screening::screen(record, seen, &explained.added_to(tolerance(setup, system)));
}

/// What a run may have whose figures all count.
fn tolerance(setup: &Setup, system: &str) -> Tolerance {
    // A request may be repeated more than once, so all of them are no share of 1.
    let share = |percent: f64| if percent >= 100.0 { f64::INFINITY } else { percent / 100.0 };
    // Where back ends are slow, requests are repeated: that is what is measured.
    let repeated = if setup.workload.has_capacity() {
        f64::INFINITY
    } else {
        share(setup.measuring.tolerated_retransmissions)
    };
    let errors = share(setup.measuring.tolerated_failures);
    // What a sink does not read is what is measured.
    let is_sink = setup.systems.get(system).is_some_and(|system| system.kind == SystemKind::Sink);
    let usual = Tolerance::default();
    let lost = if is_sink { f64::INFINITY } else { usual.lost };
    Tolerance { errors, retransmissions: repeated, lost, ..usual }
}

/// The DNS server of the lab, for a system that asks it.
fn names_for(
    setup: &Setup,
    system: &System,
    network: &Network,
    (addresses, generator): (&mut Addresses, SocketAddr),
) -> Result<Option<Names>, NoRun> {
    if !system.asks_names() {
        return Ok(None);
    }
    let port = if network.is_apart() { names::PORT } else { names::LOOPBACK_PORT };
    let place = SocketAddr::new(addresses.far()?, port);
    Ok(Some(
        network.within(Side::Generator, || Names::start(place, generator.ip(), setup.workload.name_ttl))?,
    ))
}

/// Whether callees register at it: neither where there is no server, nor at a balancer.
fn needs_callees(system: &System) -> bool {
    !system.is_baseline() && !system.has_backends()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Never;

    impl Stop for Never {
        fn is_asked(&self) -> bool {
            false
        }
    }

    #[test]
    fn folder_of_runs_is_a_whole_path() {
        let own = std::env::current_exe().expect("this program");
        let bench = Bench::new(&own, PathBuf::from("w/scratch"), &Never).expect("a bench");
        assert!(bench.scratch.is_absolute() && bench.scratch.ends_with("w/scratch"), "{:?}", bench.scratch);
    }
}
