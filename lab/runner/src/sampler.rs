//! What is read each second of a run: of the system under test, of the generator, and of the machine.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use lab::record::{DELIVERED, SENT};
use load::report::{Column, Fact, SeriesReport};

use crate::hardware::Hardware;
use crate::network::Counters;
use crate::witness::Witness;

/// Between two readings.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// Readings kept: a day. Later ones are not taken.
const READINGS_MAX: usize = 86_400;
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
type Readings = Mutex<Vec<(f64, Reading)>>;

/// What is read beside the machine.
#[derive(Debug, Default)]
struct Sources {
    programs: Vec<Watched>,
    hardware: Hardware,
    witness: Option<Arc<Witness>>,
    /// Counters of the namespaces of a run.
    networks: Vec<Counters>,
}

/// A thread that reads once a second until it is told to end.
#[derive(Debug)]
pub struct Sampler {
    over: Arc<AtomicBool>,
    sources: Arc<Mutex<Sources>>,
    readings: Arc<Readings>,
    thread: JoinHandle<()>,
    begun: Instant,
}

impl Sampler {
    /// Begins to read. `networks`: counters of the namespaces of a run, in place of those of this one.
    pub fn start(watched: Watched, witness: Option<Arc<Witness>>, networks: Vec<Counters>) -> Sampler {
        let over = Arc::new(AtomicBool::new(false));
        let sources = Arc::new(Mutex::new(Sources { witness, networks, ..Sources::default() }));
        let begun = Instant::now();
        let readings = Arc::new(Mutex::new(Vec::new()));
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
        series(&self.readings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends; what was read, and which counters of the processor there are.
    pub fn stop(self) -> (SeriesReport, Option<Fact>) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let _ = self.thread.join();
        let mut samples = series(&self.readings.lock().unwrap_or_else(PoisonError::into_inner));
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let counters = sources.hardware.facts(&mut samples);
        (samples, counters)
    }
}

fn read_until(begun: Instant, over: &AtomicBool, sources: &Mutex<Sources>, into: &Readings) {
    let (mut due, first) = (begun, SystemTime::now());
    for _ in 0..READINGS_MAX {
        let at = begun.elapsed().as_secs_f64();
        let wall = SystemTime::now();
        let mut reading = read(&sources.lock().unwrap_or_else(PoisonError::into_inner));
        put(&mut reading, "machine.clock", Kind::Level, "ms", apart(wall, first) - at * 1e3);
        let reading = (at, reading);
        into.lock().unwrap_or_else(PoisonError::into_inner).push(reading);
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
fn series(readings: &[(f64, Reading)]) -> SeriesReport {
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
        if seconds < INTERVAL.as_secs_f64() / 2.0 {
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
    SeriesReport { interval: INTERVAL.as_secs_f64(), time, columns: columns.into_values().collect() }
}

fn read(sources: &Sources) -> Reading {
    let mut reading = Reading::new();
    for one in &sources.programs {
        read_processes(one, &mut reading);
    }
    sources.hardware.read(&mut reading);
    if let Some(witness) = &sources.witness {
        witness.read(&mut reading);
    }
    read_networks(&sources.networks, &mut reading);
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

/// What the kernel counts of networks: those of the namespaces of a run, or else that of this program.
fn read_networks(counters: &[Counters], reading: &mut Reading) {
    if counters.is_empty() {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        return read_network(&text("/proc/net/snmp"), &text("/proc/net/netstat"), reading);
    }
    for one in counters {
        let snmp = one.snmp();
        read_network(&snmp, &one.netstat(), reading);
        if let (Some(sent), Some(delivered)) = (one.sent(), of_table(&snmp, "Udp:", "InDatagrams")) {
            put(reading, SENT, Kind::Growth, "1/s", sent);
            put(reading, DELIVERED, Kind::Growth, "1/s", delivered);
        }
    }
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
        let series = series(&readings);
        assert_eq!(series.time, [0.0, 2.0]);
        assert_eq!(series.column("a.count"), [Some(10.0), None]);
        assert_eq!(series.column("a.level"), [Some(2.0), Some(3.0)]);
    }

    #[test]
    fn own_process_and_machine_are_sampled() {
        let sampler =
            Sampler::start(Watched { name: "self", pids: vec![std::process::id()] }, None, Vec::new());
        thread::sleep(INTERVAL * 2 + INTERVAL / 2);
        let (series, _) = sampler.stop();
        assert!(!series.time.is_empty());
        for key in
            ["self.cpu", "self.waits", "self.memory", "machine.slab", "machine.udp_received", "machine.cpu"]
        {
            assert!(series.column(key).iter().any(Option::is_some), "{key} is missing");
        }
        assert!(series.column("self.memory")[0].is_some_and(|mib| mib > 0.1));
    }
}
