//! What is read each second of a run: of the system under test, of the generator, and of the machine.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use lab::record::{DELIVERED, DROPPED, SENT};
use load::report::{Column, Fact, SeriesReport};

use crate::hardware::Hardware;
use crate::network::{Counters, Sent};
use crate::witness::Witness;

/// Between two readings.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// Readings kept: more than an hour of them. With more, every second one goes, and the interval of the series
/// is twice as long. Counters go on, so that sums over it stay exact.
const READINGS_MAX: usize = 4_000;
/// Threads of a system that get a column of their own; the others are in its sum.
const THREADS_MAX: usize = 64;

/// Whose processes are read, under this name.
#[derive(Clone, Debug)]
pub struct Watched {
    /// First part of the names of its columns.
    pub name: &'static str,
    /// Its processes.
    pub pids: Vec<u32>,
}

/// How a value becomes one of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A counter: its growth for each second.
    Growth,
    /// As it is.
    Level,
}

/// One value of a reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    kind: Kind,
    unit: &'static str,
    value: f64,
}

pub(crate) type Reading = BTreeMap<String, Value>;

/// Readings, each with its time.
#[derive(Debug)]
struct Readings {
    /// One of `every`.
    kept: Vec<(f64, Reading)>,
    /// The last one, if it is not among those.
    latest: Option<(f64, Reading)>,
    every: u64,
    taken: u64,
    most: usize,
}

impl Readings {
    fn new(most: usize) -> Readings {
        Readings { kept: Vec::new(), latest: None, every: 1, taken: 0, most }
    }

    fn push(&mut self, at: f64, reading: Reading) {
        self.latest = None;
        if self.taken.is_multiple_of(self.every) {
            self.kept.push((at, reading));
        } else {
            self.latest = Some((at, reading));
        }
        self.taken += 1;
        if self.kept.len() > self.most {
            self.every *= 2;
            let mut nth = 0_u64;
            self.kept.retain(|_| {
                nth += 1;
                !nth.is_multiple_of(2)
            });
        }
    }

    /// The series of what is kept.
    fn series(&self) -> SeriesReport {
        let all: Vec<&(f64, Reading)> = self.kept.iter().chain(&self.latest).collect();
        series(&all, INTERVAL.as_secs_f64() * self.every as f64)
    }
}

/// What was sampled.
#[derive(Debug)]
pub struct Sampled {
    /// Each second, or at longer intervals where there were many.
    pub samples: SeriesReport,
    /// Which counters of the processor there are.
    pub counters: Option<Fact>,
    /// Why counters that a run relies on could not be read, the first time.
    pub failed: Option<String>,
}

/// What is read beside the machine.
#[derive(Debug, Default)]
struct Sources {
    programs: Vec<Watched>,
    hardware: Hardware,
    witness: Option<Arc<Witness>>,
    /// Counters of the namespaces of a run.
    networks: Vec<Counters>,
    /// Why some of these could not be read, the first time.
    failed: Option<String>,
}

/// A thread that reads once a second until it is told to end.
#[derive(Debug)]
pub struct Sampler {
    over: Arc<AtomicBool>,
    sources: Arc<Mutex<Sources>>,
    readings: Arc<Mutex<Readings>>,
    thread: JoinHandle<()>,
    begun: Instant,
}

impl Sampler {
    /// Begins to read. `networks`: counters of the namespaces of a run, in place of those of this one.
    pub fn start(watched: Watched, witness: Option<Arc<Witness>>, networks: Vec<Counters>) -> Sampler {
        let over = Arc::new(AtomicBool::new(false));
        let sources = Arc::new(Mutex::new(Sources { witness, networks, ..Sources::default() }));
        let begun = Instant::now();
        let readings = Arc::new(Mutex::new(Readings::new(READINGS_MAX)));
        let (told, whose, into) = (Arc::clone(&over), Arc::clone(&sources), Arc::clone(&readings));
        let thread = thread::spawn(move || read_until(begun, &told, &whose, &into));
        let sampler = Sampler { over, sources, readings, thread, begun };
        sampler.watch(watched);
        sampler
    }

    /// When it began; the times of its readings count from here.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// Has further processes read from now on.
    pub fn watch(&self, more: Watched) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.hardware.watch(&more);
        sources.programs.push(more);
    }

    /// What was read so far.
    pub fn so_far(&self) -> SeriesReport {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner).series()
    }

    /// Ends; what was read.
    pub fn stop(self) -> Sampled {
        self.over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let _ = self.thread.join();
        let mut samples = self.readings.lock().unwrap_or_else(PoisonError::into_inner).series();
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let counters = sources.hardware.facts(&mut samples);
        Sampled { samples, counters, failed: sources.failed.take() }
    }
}

fn read_until(begun: Instant, over: &AtomicBool, sources: &Mutex<Sources>, into: &Mutex<Readings>) {
    let (mut due, first) = (begun, SystemTime::now());
    loop {
        let at = begun.elapsed().as_secs_f64();
        let wall = SystemTime::now();
        let mut reading = read(&mut sources.lock().unwrap_or_else(PoisonError::into_inner));
        put(&mut reading, "machine.clock", Kind::Level, "ms", apart(wall, first) - at * 1e3);
        into.lock().unwrap_or_else(PoisonError::into_inner).push(at, reading);
        if over.load(Ordering::Relaxed) {
            break;
        }
        due += INTERVAL;
        // A reading that took longer than the interval leaves out what is past.
        due = due.max(Instant::now());
        while !over.load(Ordering::Relaxed) {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::park_timeout(left);
        }
    }
}

/// Milliseconds from `earlier` to `later`, which may be before it.
fn apart(later: SystemTime, earlier: SystemTime) -> f64 {
    match later.duration_since(earlier) {
        Ok(time) => time.as_secs_f64() * 1e3,
        Err(back) => back.duration().as_secs_f64() * -1e3,
    }
}

/// Readings as columns: a counter's growth for each second, a level as it was at the end of the interval.
fn series(readings: &[&(f64, Reading)], interval: f64) -> SeriesReport {
    let mut columns: BTreeMap<&str, Column> = BTreeMap::new();
    for (key, value) in readings.iter().flat_map(|(_, reading)| reading) {
        let empty = || Column { key: key.clone(), unit: value.unit.to_owned(), values: Vec::new() };
        columns.entry(key).or_insert_with(empty);
    }
    let mut time = Vec::new();
    for pair in readings.windows(2) {
        let [(from, before), (until, after)] = pair else { continue };
        let seconds = until - from;
        // The last reading may come at once after the one before it.
        if seconds < interval / 2.0 {
            continue;
        }
        time.push(*from);
        for (key, column) in &mut columns {
            let value = after.get(*key).and_then(|value| match value.kind {
                Kind::Level => Some(value.value),
                // What ends takes its counters with it: then the growth is not known.
                Kind::Growth => {
                    let grown = before.get(*key).map(|first| value.value - first.value);
                    grown.filter(|grown| *grown >= 0.0).map(|grown| grown / seconds)
                }
            });
            column.values.push(value);
        }
    }
    SeriesReport { interval, time, columns: columns.into_values().collect() }
}

fn read(sources: &mut Sources) -> Reading {
    let mut reading = Reading::new();
    for one in &sources.programs {
        read_processes(one, &mut reading);
    }
    sources.hardware.read(&mut reading);
    if let Some(witness) = &sources.witness {
        witness.read(&mut reading);
    }
    if let Err(why) = read_networks(&sources.networks, &mut reading) {
        sources.failed.get_or_insert(why);
    }
    read_machine(&mut reading);
    reading
}

/// Adds a value to a reading, or to the value that it has under this key.
pub(crate) fn put(reading: &mut Reading, key: &str, kind: Kind, unit: &'static str, value: f64) {
    let value = Value { kind, unit, value };
    reading.entry(key.to_owned()).and_modify(|sum| sum.value += value.value).or_insert(value);
}

/// Processor time by thread, context switches and memory.
fn read_processes(watched: &Watched, reading: &mut Reading) {
    let name = watched.name;
    let mut threads = 0;
    for pid in &watched.pids {
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let path = task.path();
            let text = |file: &str| fs::read_to_string(path.join(file)).unwrap_or_default();
            let Some(nanos) = text("schedstat").split_whitespace().next().and_then(|n| n.parse::<f64>().ok())
            else {
                continue;
            };
            // Nanoseconds of each second in hundredths of a core.
            let percent = nanos / 1e7;
            put(reading, &format!("{name}.cpu"), Kind::Growth, "%", percent);
            if threads < THREADS_MAX {
                threads += 1;
                let thread = text("comm");
                put(reading, &format!("{name}.cpu.{}", thread.trim()), Kind::Growth, "%", percent);
            }
            for (key, part) in
                [("voluntary_ctxt_switches:", "waits"), ("nonvoluntary_ctxt_switches:", "preemptions")]
            {
                if let Some(value) = field(&text("status"), key) {
                    put(reading, &format!("{name}.{part}"), Kind::Growth, "1/s", value);
                }
            }
        }
        let shared = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        if let Some(kib) = field(&shared, "Pss:") {
            put(reading, &format!("{name}.memory"), Kind::Level, "MiB", kib / 1024.0);
        }
    }
}

/// What the kernel counts of networks: those of the namespaces of a run, or else that of this program. Where
/// one cannot be read, none is: their sum would shrink.
fn read_networks(counters: &[Counters], reading: &mut Reading) -> Result<(), String> {
    if counters.is_empty() {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        read_network(&text("/proc/net/snmp"), &text("/proc/net/netstat"), reading);
        return Ok(());
    }
    let sent: Result<Vec<Option<Sent>>, String> = counters.iter().map(Counters::sent).collect();
    for (nth, one) in counters.iter().enumerate() {
        let snmp = one.snmp();
        read_network(&snmp, &one.netstat(), reading);
        let of_side = sent.as_ref().ok().and_then(|sent| sent.get(nth).copied().flatten());
        if let (Some(Sent { by_card, dropped }), Some(delivered)) =
            (of_side, of_table(&snmp, "Udp:", "InDatagrams"))
        {
            put(reading, SENT, Kind::Growth, "1/s", by_card + dropped);
            put(reading, DROPPED, Kind::Growth, "1/s", dropped);
            put(reading, DELIVERED, Kind::Growth, "1/s", delivered);
        }
    }
    sent.map(|_| ())
}

/// Counters that say whether packets were lost.
fn read_network(snmp: &str, netstat: &str, reading: &mut Reading) {
    for (protocol, name, key) in [
        ("Udp:", "InDatagrams", "machine.udp_received"),
        ("Udp:", "RcvbufErrors", "machine.udp_receive_buffer_errors"),
        ("Udp:", "SndbufErrors", "machine.udp_send_buffer_errors"),
        ("Tcp:", "RetransSegs", "machine.tcp_retransmissions"),
    ] {
        if let Some(value) = of_table(snmp, protocol, name) {
            put(reading, key, Kind::Growth, "1/s", value);
        }
    }
    for (name, key) in
        [("ListenDrops", "machine.tcp_listen_drops"), ("ListenOverflows", "machine.tcp_listen_overflows")]
    {
        if let Some(value) = of_table(netstat, "TcpExt:", name) {
            put(reading, key, Kind::Growth, "1/s", value);
        }
    }
}

/// What else the machine did.
fn read_machine(reading: &mut Reading) {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    // A line for each processor, in hexadecimal: received, dropped, squeezed.
    for line in text("/proc/net/softnet_stat").lines() {
        let mut words = line.split_whitespace().map(|word| u64::from_str_radix(word, 16).unwrap_or(0) as f64);
        for key in ["machine.softnet_received", "machine.softnet_dropped", "machine.softnet_squeezed"] {
            put(reading, key, Kind::Growth, "1/s", words.next().unwrap_or(0.0));
        }
    }
    let softirqs = text("/proc/softirqs");
    for (name, key) in [("NET_RX:", "machine.softirq_net_rx"), ("NET_TX:", "machine.softirq_net_tx")] {
        if let Some(line) = softirqs.lines().find_map(|line| line.trim_start().strip_prefix(name)) {
            let sum: f64 = line.split_whitespace().filter_map(|word| word.parse::<f64>().ok()).sum();
            put(reading, key, Kind::Growth, "1/s", sum);
        }
    }
    let paging = text("/proc/vmstat");
    for name in ["pswpin", "pswpout"] {
        if let Some(pages) = field(&paging, name) {
            put(reading, "machine.swapped", Kind::Growth, "1/s", pages);
        }
    }
    if let Some(kib) = field(&text("/proc/meminfo"), "Slab:") {
        put(reading, "machine.slab", Kind::Level, "MiB", kib / 1024.0);
    }
    // user nice system idle iowait irq softirq steal, in ticks of 10 ms over all processors.
    if let Some(line) = text("/proc/stat").lines().next() {
        let ticks: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        if let [user, nice, system, _, _, irq, softirq, steal, ..] = ticks[..] {
            put(reading, "machine.cpu", Kind::Growth, "%", user + nice + system + irq + softirq);
            put(reading, "machine.softirq", Kind::Growth, "%", softirq);
            put(reading, "machine.steal", Kind::Growth, "%", steal);
        }
    }
}

/// The first number after `key` at the beginning of a line.
fn field(text: &str, key: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// A value of /proc/net/snmp or /proc/net/netstat: a line of names and a line of numbers begin with the
/// protocol.
fn of_table(text: &str, protocol: &str, name: &str) -> Option<f64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        if let Some(at) = names.split_whitespace().position(|word| word == name) {
            return values.split_whitespace().nth(at)?.parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_tables_are_read_by_name() {
        let text = "Ip: Forwarding DefaultTTL\nIp: 1 64\nUdp: InDatagrams RcvbufErrors\nUdp: 12 3\n";
        assert_eq!(of_table(text, "Udp:", "RcvbufErrors"), Some(3.0));
        assert_eq!(of_table(text, "Udp:", "SndbufErrors"), None);
        assert_eq!(of_table("", "Udp:", "InDatagrams"), None);
    }

    #[test]
    fn counters_become_growth_a_second() {
        let at = |value, level| {
            let mut reading = Reading::new();
            put(&mut reading, "a.count", Kind::Growth, "1/s", value);
            put(&mut reading, "a.level", Kind::Level, "MiB", level);
            reading
        };
        // The third begins anew, as a counter of a restarted process; the last comes too soon after it.
        let readings = [(0.0, at(10.0, 1.0)), (2.0, at(30.0, 2.0)), (3.0, at(5.0, 3.0)), (3.1, at(9.0, 4.0))];
        let series = series(&readings.iter().collect::<Vec<_>>(), 1.0);
        assert_eq!(series.time, [0.0, 2.0]);
        assert_eq!(series.column("a.count"), [Some(10.0), None]);
        assert_eq!(series.column("a.level"), [Some(2.0), Some(3.0)]);
    }

    #[test]
    fn long_runs_keep_few_readings_and_exact_sums() {
        let (mut readings, mut count) = (Readings::new(50), 0.0);
        for nth in 0..1_000_u32 {
            count += f64::from(nth % 7);
            let mut reading = Reading::new();
            put(&mut reading, "a.count", Kind::Growth, "1/s", count);
            put(&mut reading, "a.level", Kind::Level, "MiB", f64::from(nth));
            readings.push(f64::from(nth), reading);
            assert!(readings.kept.len() <= 50);
            let series = readings.series();
            // What came after the last whole interval is not in it yet.
            let seen = series.time.len() as f64 * series.interval;
            let whole: f64 = (1..=nth).take(seen as usize).map(|nth| f64::from(nth % 7)).sum();
            let sum: f64 = series.column("a.count").iter().flatten().sum::<f64>() * series.interval;
            let rest = series.time.last().map_or(0.0, |from| f64::from(nth) - from);
            if rest == series.interval || series.time.is_empty() {
                assert!((sum - whole).abs() < 1e-6, "{nth}: {sum} of {whole}");
            }
        }
        let series = readings.series();
        assert_eq!(series.interval, 32.0);
        assert!(series.time.len() > 25 && series.time.len() <= 50, "{}", series.time.len());
        assert_eq!(series.column("a.level").last(), Some(&Some(992.0)));
    }

    #[test]
    fn own_process_and_machine_are_sampled() {
        let sampler =
            Sampler::start(Watched { name: "self", pids: vec![std::process::id()] }, None, Vec::new());
        thread::sleep(INTERVAL * 2 + INTERVAL / 2);
        let series = sampler.stop().samples;
        assert!(!series.time.is_empty());
        for key in
            ["self.cpu", "self.waits", "self.memory", "machine.slab", "machine.udp_received", "machine.cpu"]
        {
            assert!(series.column(key).iter().any(Option::is_some), "{key} is missing");
        }
        assert!(series.column("self.memory")[0].is_some_and(|mib| mib > 0.1));
    }
}
