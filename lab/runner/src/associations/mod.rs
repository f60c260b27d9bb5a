//! A run that opens associations in place of calls: how long each takes, what it costs, how many there may
//! be (paper 001, Ono and Schulzrinne).

mod capture;
mod client;
mod slab;

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lab::associations::{Associations, Packet, Point};
use lab::experiment::{Run, Setup, System, SystemKind};
use lab::record::{MadeRun, RunRecord, VERSION};
use lab::statistics::{Tolerance, median};
use load::metrics::Hist;
use load::report::{Latency, MetricRow, Report, distribution};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::addresses::PORT;
use crate::machine;
use crate::network::Network;
use crate::run::{Bench, Finished, NoRun};
use crate::sampler::{Sampled, Sampler, Watched};
use crate::screening::{self, Seen};
use crate::systems::{self, Ground, Running, Stopped};
use crate::wall::Wall;

use capture::Packets;
pub use client::kernel_has_sctp;
use client::{Client, OF_AN_ADDRESS, Times};

/// Associations whose packets are captured, before those that are measured.
const CAPTURED: u64 = 100;
/// Those of a search that the client lets go of at a time.
const BATCH: usize = 500;
/// Free memory that a search leaves, bytes. With less the kernel takes pages from programs, which then wait
/// for their own code, and ends them at last.
const LEFT: u64 = 8 << 20;
/// Associations between two looks at that.
const LOOK: u64 = 100;
/// Points of a curve.
const POINTS: u64 = 25;
/// Longer than an acknowledgement is delayed: SCTP has 200 ms (RFC 9260 section 6.2).
const ACKNOWLEDGED: Duration = Duration::from_millis(400);
/// Descriptors that this program needs besides those of associations.
const DESCRIPTORS: u64 = 200;
/// Failures of which a run has the words.
const NAMED: usize = 3;

/// Why this kernel runs none of it.
pub const NO_SCTP: &str = "this kernel has no SCTP: load the module (`modprobe sctp`), or run it in user-mode Linux: \
                           verify/uml/lab.sh FILE";

/// Performs a run.
///
/// # Errors
/// If a part could not be started, or the person asked to end.
pub fn perform(
    bench: &mut Bench<'_>,
    run: &Run,
    setup: &Setup,
    seed: u64,
    folder: &Path,
) -> Result<Finished, NoRun> {
    let system = setup.systems.get(&run.subject().system);
    let system = system.ok_or_else(|| format!("there is no system {}", run.subject().system))?;
    if system.sockets.need_sctp() && !kernel_has_sctp() {
        return Err(NoRun::Failed(NO_SCTP.to_owned()));
    }
    let count = u64::from(setup.workload.associations);
    let addresses: Result<Vec<IpAddr>, String> =
        (0..(count + CAPTURED).div_ceil(OF_AN_ADDRESS)).map(|_| bench.addresses.fresh()).collect();
    let addresses = addresses?;
    let own = *addresses.first().ok_or_else(|| "no associations".to_owned())?;
    let places = bench.processors.places(system, false)?;
    let mut ground = Ground {
        own: &bench.own,
        folder,
        addresses: &mut bench.addresses,
        network: &Network::loopback(),
        resolver: None,
        generator: SocketAddr::new(own, PORT),
        certificates: None,
        places: &places,
        seed,
        users: 0,
        data: PathBuf::new(),
        database: Vec::new(),
        backends: Vec::new(),
    };
    let named = |why: String| format!("{}: {why}", run.subject());
    let running = systems::start(system, &setup.workload, &mut ground).map_err(named)?;
    let length = usize::try_from(setup.workload.request).unwrap_or(usize::MAX);
    let ways = (system.piggyback, system.kind == SystemKind::Echo);
    let client = Client::new(running.target, system.sockets, ways, length, addresses);
    running.limit().map_err(named)?;
    let sampler = Sampler::start(Watched { name: "system", pids: running.pids() }, None, Vec::new());
    let opening = Opening {
        setup,
        bench: &*bench,
        folder,
        client,
        system: running,
        held: Vec::new(),
        next: 0,
        taken: Taken::default(),
        notes: Vec::new(),
    };
    opening.measured(run, seed, system, sampler)
}

/// What was measured of associations.
#[derive(Debug, Default)]
struct Taken {
    connect: Hist,
    exchange: Hist,
    first_answer: Hist,
    /// Of each part of the run: times in milliseconds.
    parts: Vec<[Vec<f64>; 3]>,
    opened: u64,
    failed: u64,
    /// When the last answer came.
    until: Option<Instant>,
}

impl Taken {
    fn add(&mut self, nth: u64, count: u64, times: Times) {
        self.until = Some(Instant::now());
        let all = [times.connect, times.exchange, Some(times.first_answer)];
        let part = usize::try_from(nth * POINTS / count.max(1)).unwrap_or(usize::MAX);
        if self.parts.len() <= part {
            self.parts.resize(part + 1, Default::default());
        }
        let hists = [&mut self.connect, &mut self.exchange, &mut self.first_answer];
        let lists = self.parts.get_mut(part).into_iter().flatten();
        for ((time, hist), list) in all.into_iter().zip(hists).zip(lists) {
            if let Some(time) = time {
                hist.record_duration(time);
                list.push(time.as_secs_f64() * 1e3);
            }
        }
        self.opened += 1;
    }

    /// From the beginning of the first set-up to the last answer.
    fn seconds(&self, begun: Instant) -> f64 {
        self.until.map_or(0.0, |until| until.saturating_duration_since(begun).as_secs_f64())
    }

    /// Nothing of a search, whose end nobody knows before.
    fn curve(&self, count: u64, searches: bool) -> Vec<Point> {
        if searches {
            return Vec::new();
        }
        let point = |(nth, [connect, exchange, first]): (u64, &[Vec<f64>; 3])| Point {
            held: (2 * nth + 1) * count / (2 * POINTS),
            connect: median(connect),
            exchange: median(exchange),
            first_answer: median(first),
        };
        (0..).zip(&self.parts).map(point).collect()
    }

    /// As a report of the generator, so that the same rules screen and show it.
    fn report(&self, seconds: f64, seed: u64) -> Report {
        let latency = |key: &str, text: &str, hist: &Hist| Latency {
            key: key.to_owned(),
            text: text.to_owned(),
            intended: distribution(hist),
            ..Latency::default()
        };
        let row = |key: &str, value: f64| MetricRow {
            key: key.to_owned(),
            name: key.to_owned(),
            value: Some(value),
            ..MetricRow::default()
        };
        let begun = self.opened + self.failed;
        let mut report = Report {
            program: format!("strowger {}", env!("CARGO_PKG_VERSION")),
            workload: "associations".to_owned(),
            seed,
            ..Report::default()
        };
        report.windows.measured = seconds;
        report.latencies = vec![
            latency("connect", "Set-up of an association", &self.connect),
            latency("exchange", "Request to answer", &self.exchange),
            latency("first-answer", "Begin of the set-up to the answer", &self.first_answer),
        ];
        report.latencies.retain(|latency| latency.intended.count > 0);
        report.metrics = vec![
            row("calls.begun", begun as f64),
            row("calls.failed", self.failed as f64),
            row("calls.success", 100.0 * self.opened as f64 / begun.max(1) as f64),
        ];
        report.measured.insert("calls.succeeded".to_owned(), self.opened);
        report
    }
}

/// A run under way.
struct Opening<'a> {
    setup: &'a Setup,
    bench: &'a Bench<'a>,
    folder: &'a Path,
    client: Client,
    system: Running,
    held: Vec<OwnedFd>,
    /// The next association.
    next: u64,
    taken: Taken,
    notes: Vec<String>,
}

impl Opening<'_> {
    fn measured(
        mut self,
        run: &Run,
        seed: u64,
        system: &System,
        sampler: Sampler,
    ) -> Result<Finished, NoRun> {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let packets = self.capture()?;
        // What is allocated once is no part of what each costs.
        thread::sleep(ACKNOWLEDGED);
        let (before, own_before) = (slab::read(), self.own_memory());
        let window_from = sampler.begun().elapsed();
        let begun = Instant::now();
        let searches = self.setup.workload.find_peak;
        let (held, refusal) = if searches { self.search()? } else { self.open_all(begun)? };
        // What comes after the last answer is no part of the measurement.
        let seconds = self.taken.seconds(begun);
        if !searches {
            thread::sleep(ACKNOWLEDGED);
        }
        let own_bytes = own_before.zip(self.own_memory()).map(|(before, after)| after - before);
        let caches = self.caches(before, held, searches);
        let Sampled { samples, failed: unread, .. } = sampler.stop();
        let mut ended = self.system.ended();
        if ended && searches {
            self.notes.push("the system ended: the kernel took its memory".to_owned());
            ended = false;
        }
        self.held.clear();
        let program = std::mem::take(&mut self.system.described);
        let Stopped { output: system_log, void, .. } = self.system.stop();
        let setup = self.setup;
        let mut record = RunRecord {
            version: VERSION,
            run: MadeRun { factors: setup.combination.facts(), seed, started, ..MadeRun::of(run) },
            program,
            machine: machine::facts(),
            load: self.taken.report(seconds, seed),
            samples,
            window: (window_from.as_secs_f64(), window_from.as_secs_f64() + seconds),
            notes: self.notes,
            ..RunRecord::default()
        };
        record.associations = Some(Associations {
            held,
            refusal,
            caches,
            own_bytes: own_bytes.filter(|_| held > 0 && !searches).map(|bytes| bytes / held as f64),
            packets,
            curve: self.taken.curve(u64::from(setup.workload.associations), searches),
        });
        let cpu = record.within("system.cpu");
        record.load.server_cpu_percent =
            Some(cpu.iter().sum::<f64>() / cpu.len() as f64).filter(|share| share.is_finite());
        record.load.server_memory_mib = record.within("system.memory").last().copied();
        let datagrams = system.sockets == lab::experiment::Sockets::Udp;
        let seen = Seen {
            ended,
            is_gone: false,
            datagrams,
            system_log: &system_log,
            load_log: "",
            folder: self.folder,
            unread,
        };
        screening::screen(&mut record, &seen, &tolerance(searches));
        record.screened.void.extend(void);
        Ok(Finished { record, system_log, load_log: String::new(), files: Vec::new() })
    }

    /// The packets of some associations. The run goes on without them where none can be captured.
    fn capture(&mut self) -> Result<Vec<Packet>, NoRun> {
        self.allow_descriptors(CAPTURED)?;
        let capture = Packets::of(self.system.target.ip());
        for _ in 0..CAPTURED {
            let (socket, _) = self.open().map_err(|why| format!("no association: {why}"))?;
            self.held.push(socket);
        }
        let packets = capture.and_then(Packets::steps);
        self.held.clear();
        Ok(packets.unwrap_or_else(|why| {
            self.notes.push(format!("no packets: {why}"));
            Vec::new()
        }))
    }

    fn open(&mut self) -> Result<(OwnedFd, Times), String> {
        let opened = self.client.open(self.next).map_err(|error| error.to_string());
        self.next += 1;
        opened
    }

    /// Opens all, at the rate of the workload or as fast as they follow each other, and holds them.
    fn open_all(&mut self, begun: Instant) -> Result<(u64, String), NoRun> {
        let workload = &self.setup.workload;
        let count = u64::from(workload.associations);
        self.allow_descriptors(count)?;
        for nth in 0..count {
            let due = begun + Duration::from_secs_f64(nth as f64 / workload.rate);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if self.bench.stop.is_asked() {
                return Err(NoRun::Stopped);
            }
            match self.open() {
                Ok((socket, times)) => {
                    self.taken.add(nth, count, times);
                    self.held.push(socket);
                }
                Err(why) => {
                    self.taken.failed += 1;
                    if self.notes.len() < NAMED {
                        self.notes.push(format!("association {nth}: {why}"));
                    }
                    if self.taken.failed > self.taken.opened + 10 {
                        return Err(NoRun::Failed(format!("associations fail: {why}")));
                    }
                }
            }
        }
        Ok((self.taken.opened, String::new()))
    }

    /// Opens until one is refused, or memory is short. The client lets go of those that are open without a
    /// word to the server, so that memory is filled by the server alone.
    fn search(&mut self) -> Result<(u64, String), NoRun> {
        let count = u64::from(self.setup.workload.associations);
        self.allow_descriptors(count.min(BATCH as u64))?;
        if let Some(process) = self.system.process() {
            // The kernel ends the server first, as in the paper.
            for pid in process.pids() {
                let _ = fs::write(format!("/proc/{pid}/oom_score_adj"), "1000");
            }
        }
        for nth in 0..count {
            if self.bench.stop.is_asked() {
                return Err(NoRun::Stopped);
            }
            if nth % LOOK == 0 && free_memory().is_some_and(|bytes| bytes < LEFT) {
                return Ok((nth, format!("less than {} MiB of memory free", LEFT >> 20)));
            }
            match self.open() {
                Ok((socket, times)) => {
                    self.taken.add(nth, count, times);
                    self.held.push(socket);
                }
                Err(why) => {
                    self.taken.failed += 1;
                    return Ok((nth, why));
                }
            }
            if self.held.len() == BATCH {
                self.vanish().map_err(|why| format!("a search needs a kernel of its own: {why}"))?;
            }
        }
        Ok((count, String::new()))
    }

    /// Closes what is open while nothing reaches the server: it goes on holding them.
    fn vanish(&mut self) -> Result<(), String> {
        // The server has what acknowledges its answers.
        thread::sleep(ACKNOWLEDGED);
        let wall = Wall::build(self.system.target.ip())?;
        self.held.clear();
        drop(wall);
        Ok(())
    }

    /// What the kernel keeps for each, by cache: for both sides, and then for the server alone.
    fn caches(
        &mut self,
        before: Option<slab::Slab>,
        held: u64,
        searches: bool,
    ) -> Vec<lab::associations::Cache> {
        let Some(before) = before.filter(|_| !searches) else { return Vec::new() };
        let Some(with) = slab::settled() else { return Vec::new() };
        let wall = Wall::build(self.system.target.ip());
        if let Err(why) = &wall {
            self.notes.push(format!("memory of the server alone is not known: {why}"));
        }
        self.held.clear();
        let server = wall.is_ok().then(slab::settled).flatten();
        drop(wall);
        slab::caches(&before, &with, server.as_ref(), held)
    }

    /// Memory of the server's process, bytes.
    fn own_memory(&self) -> Option<f64> {
        let of_process = |pid: &u32| {
            let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        };
        let all: Option<Vec<f64>> = self.system.pids().iter().map(of_process).collect();
        all.filter(|all| !all.is_empty()).map(|all| all.iter().sum::<f64>() * 1024.0)
    }

    /// Raises the limit of open files to what this number of associations needs.
    fn allow_descriptors(&self, count: u64) -> Result<(), String> {
        let needed = count + DESCRIPTORS;
        let limit = getrlimit(Resource::Nofile);
        if limit.current.is_none_or(|current| current >= needed) {
            return Ok(());
        }
        let maximum = limit.maximum.map(|maximum| maximum.max(needed));
        let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum });
        raised.map_err(|error| {
            format!("{count} associations need {needed} open files: {error}; raise ulimit -n")
        })
    }
}

/// Ever more associations are what drifts; a search ends with a failure.
fn tolerance(searches: bool) -> Tolerance {
    let usual = Tolerance::default();
    let errors = if searches { 1.0 } else { usual.errors };
    Tolerance { drift: true, errors, ..usual }
}

/// Memory that nothing uses, not even as a cache of files, bytes.
fn free_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemFree:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_that_up_to_the_last_answer() {
        let (mut taken, begun) = (Taken::default(), Instant::now());
        let times = Times { connect: None, exchange: None, first_answer: Duration::from_micros(50) };
        for nth in 0..100 {
            taken.add(nth, 100, times);
        }
        let answered = taken.seconds(begun);
        // What the run waits for afterwards.
        thread::sleep(Duration::from_millis(50));
        assert_eq!(taken.seconds(begun), answered);
        let mut record = RunRecord { load: taken.report(0.5, 1), ..RunRecord::default() };
        let calls = lab::experiment::Quantity { measure: lab::experiment::Measure::Calls, statistic: None };
        assert_eq!(record.figure(calls), Some(200.0));
        record.load = Taken::default().report(Taken::default().seconds(begun), 1);
        assert_eq!(record.figure(calls), None);
    }
}
