//! The facts that make a run void (paper 003 section 2.4: errors, retransmissions and exceptions come before figures).

use lab::record::RunRecord;

/// Words in a system's log that show an error of its own. Compared without regard to case.
const ALARMS: [&str; 6] = ["panicked", "segfault", "core dumped", "assertion", "critical:", "out of memory"];
/// Samples that count lost packets, with what is said of them.
const LOSSES: [(&str, &str); 5] = [
    ("machine.udp_receive_buffer_errors", "datagrams that no socket had room for (UdpRcvbufErrors)"),
    ("machine.udp_send_buffer_errors", "datagrams that could not be sent (UdpSndbufErrors)"),
    ("machine.softnet_dropped", "packets that the kernel dropped (softnet)"),
    ("machine.tcp_listen_drops", "connections that were dropped (ListenDrops)"),
    ("machine.tcp_listen_overflows", "connections beyond the backlog (ListenOverflows)"),
];

/// Writes into the record why the run says nothing of the system. `ended`: the system, or a server behind it, ended by
/// itself. A run with faults may lose packets and repeat messages: that is what it is about.
pub fn screen(record: &mut RunRecord, ended: bool, system_log: &str) {
    let mut void = Vec::new();
    if record.load.verdict.word == "VOID" || record.load.verdict.word == "STOPPED" {
        let why = record.load.verdict.why.join("; ");
        void.push(format!("the generator says {}: {why}", record.load.verdict.word));
    }
    if ended {
        void.push("the system ended during the run".to_owned());
    }
    let alarms = system_log.lines().filter(|line| is_alarm(line)).count();
    if alarms > 0 {
        let first = system_log.lines().find(|line| is_alarm(line)).unwrap_or_default();
        void.push(format!("the log of the system has {alarms} errors, the first: {first}"));
    }
    if record.steady == Some(false) {
        record.notes.push("the warm-up ended at its limit: something was not steady yet".to_owned());
    }
    if record.faults.is_empty() {
        for (key, what) in LOSSES {
            let lost: f64 = record.within(key).iter().sum::<f64>() * record.samples.interval;
            if lost >= 1.0 {
                void.push(format!("{lost:.0} {what}"));
            }
        }
        let repeated = record.load.metric("retransmissions").unwrap_or(0.0);
        if repeated > 0.0 {
            record.notes.push(format!("{repeated:.0} requests were sent again"));
        }
    }
    record.void = void;
}

fn is_alarm(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ALARMS.iter().any(|alarm| line.contains(alarm))
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::report::{Column, SeriesReport};

    fn screened(prepare: impl FnOnce(&mut RunRecord), ended: bool, log: &str) -> Vec<String> {
        let mut record = RunRecord { window: (0.0, 2.0), ..RunRecord::default() };
        record.load.verdict.word = "PASS".to_owned();
        prepare(&mut record);
        screen(&mut record, ended, log);
        record.void
    }

    fn lossy(record: &mut RunRecord) {
        let column =
            Column { key: LOSSES[0].0.to_owned(), unit: String::new(), values: vec![Some(0.0), Some(3.0)] };
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
        assert_eq!(screened(late, false, ""), ["the generator says VOID: lateness 12 ms"]);
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
    fn system_that_ends_or_panics_makes_a_run_void() {
        assert_eq!(screened(|_| {}, true, "").len(), 1);
        assert_eq!(screened(|_| {}, false, "thread 'worker-0' panicked at src/lib.rs:1").len(), 1);
    }
}
