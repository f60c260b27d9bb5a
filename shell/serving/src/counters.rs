//! The runtime's counters in `/metrics`.

use control::metrics::{Kind, Text};
use worker_runtime::Counts;

/// Appends all of them, each as a family of its own.
pub fn metrics(counts: &Counts, text: &mut Text<'_>) {
    for (name, help, value) in counts.each() {
        // All but one only grow.
        let (name, kind) = match name {
            "tcp_open" => ("strowger_connections".to_owned(), Kind::Gauge),
            other => (format!("strowger_{other}_total"), Kind::Counter),
        };
        text.family(&name, help, kind);
        text.sample(&name, &[], value);
    }
}

/// Appends how many reloads were done and refused.
pub fn reloads((done, refused): (u64, u64), text: &mut Text<'_>) {
    const NAME: &str = "strowger_reloads_total";
    text.family(NAME, "Reloads of the configuration: `done`, `refused`.", Kind::Counter);
    text.sample(NAME, &[("result", "done")], done);
    text.sample(NAME, &[("result", "refused")], refused);
}
