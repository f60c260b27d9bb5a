//! The facts that make a run void (paper 003 section 2.4: errors, retransmissions and exceptions come before
//! figures).

use std::path::Path;

use lab::experiment::Measure;
use lab::record::{Reservation, RunRecord};
use lab::statistics::{self, Fact, Observed, Share, SteadyRule, Tolerance};

use crate::signs;

/// Datagrams for which a socket had no room.
const CROWDED: &str = "machine.udp_receive_buffer_errors";
/// Samples that count lost packets, with what is said of them. They are of the whole machine, so only those
/// of the run's own transport count.
const LOST_DATAGRAMS: [(&str, &str); 3] = [
    (CROWDED, "datagrams that no socket had room for (UdpRcvbufErrors)"),
    ("machine.udp_send_buffer_errors", "datagrams that could not be sent (UdpSndbufErrors)"),
    ("machine.softnet_dropped", "packets that the kernel dropped (softnet)"),
];
const LOST_CONNECTIONS: [(&str, &str); 3] = [
    ("machine.tcp_listen_drops", "connections that were dropped (ListenDrops)"),
    ("machine.tcp_listen_overflows", "connections beyond the backlog (ListenOverflows)"),
    ("machine.softnet_dropped", "packets that the kernel dropped (softnet)"),
];

/// Intervals of a window in which the processor time of the system may not drift.
const WINDOW: usize = 8;
/// How far it may drift, as a part of its level.
const DRIFT: f64 = 0.1;

/// What was seen of a run beside its record.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// The system, or a server behind it, ended by itself.
    pub ended: bool,
    /// A fault killed the system, and it did not come back.
    pub is_gone: bool,
    /// Calls went over UDP.
    pub datagrams: bool,
    /// Output of the system and of the servers behind it.
    pub system_log: &'a str,
    /// Output of the generator.
    pub load_log: &'a str,
    /// The folder of the run.
    pub folder: &'a Path,
    /// Why counters that the figures rely on could not be read.
    pub unread: Option<String>,
}

/// Writes into the record why the run says nothing of the system, by its figures and by all signs. A run with
/// faults may fail calls, lose packets and drift: that is what it is about.
pub fn screen(record: &mut RunRecord, seen: &Seen<'_>, tolerance: &Tolerance) {
    let Seen { ended, datagrams, system_log, .. } = *seen;
    let tolerance = if record.faults.is_empty() { *tolerance } else { of_faults() };
    let may_lose = tolerance.lost >= 1.0;
    let alarms = system_log.lines().filter(|line| signs::is_alarm(line));
    let screened = statistics::screen(&observed(record, alarms.clone().count()), &tolerance);
    // What the generator or the wire did may be the cause of everything else.
    let mut found: Vec<&Fact> = screened.void.iter().collect();
    found.sort_by_key(|fact| match fact {
        Fact::GeneratorVoid { .. } => 0,
        Fact::Lost(_) => 1,
        // It may be a consequence of all others.
        Fact::Unknown(_) => 4,
        other if other.is_of_system() => 3,
        _ => 2,
    });
    // Beside a late generator nobody can tell why calls failed.
    let is_late =
        found.iter().any(|fact| matches!(fact, Fact::GeneratorVoid { .. } | Fact::GeneratorLate { .. }));
    let is_of_system = !is_late && found.iter().any(|fact| fact.is_of_system());
    record.screened.of_system = ended || seen.is_gone || is_of_system;
    let mut void = Vec::new();
    for fact in found {
        match only(fact).as_slice() {
            [] => void.push(fact.to_string()),
            only => record.screened.reserved.push(Reservation {
                why: fact.to_string(),
                only: only.iter().map(|measure| measure.name().to_owned()).collect(),
            }),
        }
    }
    if let Some(first) = alarms.clone().next() {
        record.notes.push(format!("the first error in the log of the system: {first}"));
    }
    if ended {
        void.push("the system ended during the run".to_owned());
    }
    if record.load.verdict.word == "STOPPED" {
        void.push("the generator was stopped".to_owned());
    }
    if !may_lose {
        for (key, what) in if datagrams { LOST_DATAGRAMS } else { LOST_CONNECTIONS } {
            let lost: f64 = record.within(key).iter().sum::<f64>() * record.samples.interval;
            if lost < 1.0 {
                continue;
            }
            let why = format!("{lost:.0} {what}");
            // A server that is to be overloaded does not read everything in time.
            if key == CROWDED && tolerance.errors >= 1.0 {
                let only = only(&Fact::Errors(Share { count: 0, of: 0 }));
                let only = only.iter().map(|measure| measure.name().to_owned()).collect();
                record.screened.reserved.push(Reservation { why, only });
            } else {
                void.push(why);
            }
        }
    }
    void.extend(seen.unread.iter().map(|why| format!("counters of the network could not be read: {why}")));
    void.extend(signs::of(record, seen.load_log, seen.folder));
    record.screened.void = void;
}

/// The measures that are about a fact: they count all the same.
fn only(fact: &Fact) -> Vec<Measure> {
    let about = |first: &[Measure]| [first, Measure::ABOUT_FAILURES].concat();
    match fact {
        Fact::Errors(_) => about(&[Measure::Lost]),
        Fact::Retransmissions(_) => about(&[Measure::Retransmissions, Measure::Lost]),
        _ => Vec::new(),
    }
}

/// What is tolerated where faults are injected.
fn of_faults() -> Tolerance {
    Tolerance {
        errors: f64::INFINITY,
        // A request may be repeated more than once.
        retransmissions: f64::INFINITY,
        lost: f64::INFINITY,
        restarts: u64::MAX,
        drift: true,
        ..Tolerance::default()
    }
}

fn observed(record: &RunRecord, alarms: usize) -> Observed {
    let load = &record.load;
    let count = |name: &str| load.metric(name).map(|value| value as u64);
    let share = |events: Option<u64>, of: Option<u64>| Some(Share { count: events?, of: of? });
    let sent = load
        .measured
        .iter()
        .filter(|(key, _)| key.starts_with("requests_sent."))
        .map(|(_, count)| count)
        .sum();
    let failed = count("calls.failed").is_none_or(|failed| failed > 0);
    let answered_again = load.measured.get("responses_repeated").copied().unwrap_or(0);
    let cpu = record.within("system.cpu");
    let witness = record.checks.witness;
    let rule = SteadyRule::new(WINDOW, DRIFT);
    Observed {
        errors: share(count("calls.failed"), count("calls.begun")),
        // Requests by the generator, and its responses to requests that the system sent again.
        retransmissions: share(count("retransmissions").map(|count| count + answered_again), Some(sent)),
        exceptions: Some(u64::try_from(alarms).unwrap_or(u64::MAX)),
        // The generator judges its own lateness.
        lateness_ms: None,
        generator_void: (load.verdict.word == "VOID").then(|| load.verdict.why.join("; ")),
        lost: witness.map(|seen| Share { count: seen.missing(), of: seen.counted() }),
        // A server that still repeats requests when the generator has ended sends what nobody counts.
        unknown: witness.filter(|_| !failed).map(|seen| Share { count: seen.unknown(), of: seen.counted() }),
        restarts: None,
        steady: (cpu.len() >= rule.needs()).then(|| statistics::steady(&cpu, &rule)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::report::{Column, MetricRow, SeriesReport};

    fn seen(system_log: &str) -> Seen<'_> {
        let folder = Path::new("/no/folder");
        let (ended, is_gone, datagrams, load_log, unread) = (false, false, true, "", None);
        Seen { ended, is_gone, datagrams, system_log, load_log, folder, unread }
    }

    fn screened(prepare: impl FnOnce(&mut RunRecord), ended: bool, log: &str) -> Vec<String> {
        let mut record = RunRecord { window: (0.0, 2.0), ..RunRecord::default() };
        record.load.verdict.word = "PASS".to_owned();
        prepare(&mut record);
        screen(&mut record, &Seen { ended, ..seen(log) }, &Tolerance::default());
        record.screened.void
    }

    fn lossy(record: &mut RunRecord) {
        let column = Column {
            key: LOST_DATAGRAMS[0].0.to_owned(),
            unit: String::new(),
            values: vec![Some(0.0), Some(3.0)],
        };
        record.samples = SeriesReport { interval: 1.0, time: vec![0.0, 1.0], columns: vec![column] };
    }

    #[test]
    fn good_run_is_not_void() {
        assert!(screened(|_| {}, false, "ready\ncall forwarded\n").is_empty());
    }

    #[test]
    fn starved_generator_makes_a_run_void() {
        let late = |record: &mut RunRecord| {
            record.load.verdict.word = "VOID".to_owned();
            record.load.verdict.why = vec!["lateness 12 ms".to_owned()];
        };
        assert_eq!(screened(late, false, ""), ["the generator's verdict is VOID: lateness 12 ms"]);
    }

    #[test]
    fn failed_calls_spare_the_figures_about_them() {
        let mut record = RunRecord::default();
        for (key, value) in [("calls.begun", 100.0), ("calls.failed", 9.0)] {
            let (key, value) = (key.to_owned(), Some(value));
            record.load.metrics.push(MetricRow { key, value, ..MetricRow::default() });
        }
        screen(&mut record, &seen(""), &Tolerance::default());
        assert_eq!(record.screened.void, [""; 0]);
        assert!(record.screened.of_system);
        let counts = |measure: Measure| record.counts_for(measure);
        assert!(counts(Measure::Success) && counts(Measure::Calls));
        assert!(!counts(Measure::CpuPerCall) && !counts(Measure::Setup) && !counts(Measure::Retransmissions));
        // As many as the experiment tolerates.
        let mut record = RunRecord { load: record.load, ..RunRecord::default() };
        screen(&mut record, &seen(""), &Tolerance { errors: 0.09, ..Tolerance::default() });
        assert!(record.counts_for(Measure::CpuPerCall));
    }

    #[test]
    fn failures_beside_a_late_generator_are_not_the_systems() {
        let mut record = RunRecord::default();
        for (key, value) in [("calls.begun", 100.0), ("calls.failed", 9.0)] {
            let (key, value) = (key.to_owned(), Some(value));
            record.load.metrics.push(MetricRow { key, value, ..MetricRow::default() });
        }
        record.load.verdict.word = "VOID".to_owned();
        record.load.verdict.why = vec!["lateness 12 ms".to_owned()];
        screen(&mut record, &seen(""), &Tolerance::default());
        assert!(!record.screened.of_system, "{:?}", record.screened);
    }

    #[test]
    fn full_sockets_spare_failures_where_all_calls_may_fail() {
        let mut record = RunRecord { window: (0.0, 2.0), ..RunRecord::default() };
        lossy(&mut record);
        screen(&mut record, &seen(""), &Tolerance { errors: 1.0, ..Tolerance::default() });
        assert_eq!(record.screened.void, [""; 0]);
        assert!(record.counts_for(Measure::Calls) && !record.counts_for(Measure::CpuPerCall));
    }

    #[test]
    fn lost_packets_make_a_run_void_unless_it_has_faults() {
        assert_eq!(screened(lossy, false, "").len(), 1);
        let with_fault = |record: &mut RunRecord| {
            lossy(record);
            record.faults.push((1.0, "kill".to_owned()));
        };
        assert!(screened(with_fault, false, "").is_empty());
    }

    #[test]
    fn more_repetitions_than_requests_are_no_void_run_with_faults() {
        let repeated = |record: &mut RunRecord| {
            record.load.measured.insert("requests_sent.INVITE".to_owned(), 134);
            let (key, value) = ("retransmissions".to_owned(), Some(140.0));
            record.load.metrics.push(MetricRow { key, value, ..MetricRow::default() });
            record.faults.push((1.0, "kill".to_owned()));
        };
        let mut record = RunRecord::default();
        repeated(&mut record);
        screen(&mut record, &seen(""), &Tolerance::default());
        assert!(record.counts_for(Measure::CpuPerCall), "{:?}", record.screened.reserved);
    }

    #[test]
    fn signs_of_errors_make_every_run_void() {
        let mut record = RunRecord { window: (0.0, 2.0), ..RunRecord::default() };
        lossy(&mut record);
        record.samples.columns[0].key = "machine.swapped".to_owned();
        let seen =
            Seen { load_log: "thread 'main' panicked", unread: Some("tc: gone".to_owned()), ..seen("") };
        screen(&mut record, &seen, &Tolerance::default());
        assert_eq!(
            record.screened.void,
            [
                "counters of the network could not be read: tc: gone",
                "the machine swapped 3 pages",
                "the log of the generator has an error: thread 'main' panicked",
            ]
        );
    }

    #[test]
    fn system_that_is_gone_is_its_own_reason() {
        let mut record = RunRecord::default();
        record.faults.push((1.0, "kill".to_owned()));
        screen(&mut record, &Seen { is_gone: true, ..seen("") }, &Tolerance::default());
        assert!(record.screened.of_system);
    }

    #[test]
    fn system_that_ends_or_panics_makes_a_run_void() {
        assert_eq!(screened(|_| {}, true, "").len(), 1);
        assert_eq!(screened(|_| {}, false, "thread 'worker-0' panicked at src/lib.rs:1").len(), 1);
    }
}
