//! Further signs that a run says nothing: the machine swapped, its clock jumped, a program dumped its memory,
//! the generator wrote of errors of its own (paper 003 section 2.4).

use std::fs;
use std::path::Path;

use lab::record::RunRecord;

/// Words in a log that show an error of its own. Compared without regard to case.
const ALARMS: [&str; 12] = [
    "panicked",
    "segfault",
    "segmentation fault",
    "core dumped",
    "assertion",
    "critical:",
    "out of memory",
    "stack overflow",
    "fatal error",
    "uncaught exception",
    "exception in thread",
    "traceback (most recent call last)",
];
/// Swapping within the measurement, in pages.
const SWAP: &str = "machine.swapped";
/// How far the wall clock went from the steady one since the first sample, milliseconds.
const CLOCK: &str = "machine.clock";
/// A clock that is only steered drifts by less in a second.
const JUMP_MS: f64 = 50.0;

/// Why the run says nothing: a sentence for each sign.
pub fn of(record: &RunRecord, load_log: &str, folder: &Path) -> Vec<String> {
    let mut signs = Vec::new();
    let swapped: f64 = record.within(SWAP).iter().sum::<f64>() * record.samples.interval;
    if swapped >= 1.0 {
        signs.push(format!("the machine swapped {swapped:.0} pages"));
    }
    let clock = record.within(CLOCK);
    let jumps = clock.windows(2).map(|pair| pair[1] - pair[0]);
    if let Some(jump) = jumps.filter(|jump| jump.abs() > JUMP_MS).max_by(|a, b| a.abs().total_cmp(&b.abs())) {
        signs.push(format!("the clock of the machine jumped by {jump:.0} ms"));
    }
    if let Some(line) = load_log.lines().find(|line| is_alarm(line)) {
        signs.push(format!("the log of the generator has an error: {line}"));
    }
    let dumps = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_dump = |name: &str| name == "core" || name.starts_with("core.") || name.contains("heapdump");
    for name in dumps.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| is_dump(name)) {
        signs.push(format!("a program dumped its memory: {name}"));
    }
    signs
}

/// Whether a line of a log speaks of an error of the program itself.
pub fn is_alarm(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ALARMS.iter().any(|alarm| line.contains(alarm))
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::report::{Column, SeriesReport};

    fn record(key: &str, values: [f64; 3]) -> RunRecord {
        let column = Column { key: key.to_owned(), unit: String::new(), values: values.map(Some).to_vec() };
        let samples = SeriesReport { interval: 1.0, time: vec![0.0, 1.0, 2.0], columns: vec![column] };
        RunRecord { window: (0.0, 3.0), samples, ..RunRecord::default() }
    }

    #[test]
    fn each_sign_has_its_sentence() {
        let folder = tempfile::tempdir().expect("a folder");
        let found = |record: &RunRecord, log: &str| of(record, log, folder.path());
        let clean = RunRecord::default();
        assert_eq!(found(&clean, "strowger load: 5 calls"), [""; 0]);
        assert_eq!(found(&record(SWAP, [0.0, 3.0, 1.0]), ""), ["the machine swapped 4 pages"]);
        assert_eq!(found(&record(CLOCK, [0.0, 0.4, 0.9]), ""), [""; 0]);
        assert_eq!(
            found(&record(CLOCK, [0.0, -900.0, -899.0]), ""),
            ["the clock of the machine jumped by -900 ms"]
        );
        assert_eq!(found(&clean, "thread 'worker-0' panicked at x").len(), 1);
        fs::write(folder.path().join("core.123"), "").expect("written");
        assert_eq!(found(&clean, ""), ["a program dumped its memory: core.123"]);
    }
}
