//! What this process has used, as any Prometheus client says it of its own.

use control::metrics::{Kind, Text};
use std::fs;

/// Ticks of processor time in a second: what Linux shows to programs, whatever its own clock is (proc(5)).
const TICKS: f64 = 100.0;

/// Adds the standard figures of a process; those that the system does not tell are left out.
pub fn metrics(text: &mut Text<'_>) {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut add = |name: &str, help: &str, kind: Kind, value: Option<f64>| {
        if let Some(value) = value {
            text.family(name, help, kind);
            text.sample(name, &[], value);
        }
    };
    let cpu = cpu_seconds(&read("/proc/self/stat"));
    let memory = resident_bytes(&read("/proc/self/status"));
    let files = fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as f64);
    add("process_cpu_seconds_total", "Processor time of all threads, seconds.", Kind::Counter, cpu);
    add("process_resident_memory_bytes", "Resident memory, bytes.", Kind::Gauge, memory);
    add("process_open_fds", "Open file descriptors.", Kind::Gauge, files);
}

/// User and system time of /proc/PID/stat.
fn cpu_seconds(stat: &str) -> Option<f64> {
    // The name may hold anything, but no further parenthesis follows it.
    let mut words = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((user + system) / TICKS)
}

/// Resident memory of /proc/PID/status.
fn resident_bytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? * 1_024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_as_the_kernel_writes_it() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 9 0 5 1 1";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(resident_bytes("VmHWM:\t 9 kB\nVmRSS:\t    1024 kB\n"), Some(1_048_576.0));
        for strange in ["", "7 (x", "7 (x) S 1", ")"] {
            assert_eq!((cpu_seconds(strange), resident_bytes(strange)), (None, None), "{strange}");
        }
    }
}
