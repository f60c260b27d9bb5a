//! What a comparison says first, and what it compares: the figures of a run, and those of its server.

use super::compare::{Row, Statement};
use super::format::with_unit;
use super::model::{Better, Fact, MetricRow, Report};

/// How the keys of the server's figures begin.
const SERVER: &str = "server: ";

/// Figures whose means stand in the summary, whatever can be said of them.
const FIRST: [&str; 8] = [
    "peak",
    "calls.success",
    "calls.rate",
    "registrations.success",
    "response.p50",
    "response.p99",
    "server: processor time",
    "server: memory",
];

/// All figures of a run: its own, and the server's. Those that are of the generator are named so.
pub(super) fn figures(report: &Report) -> Vec<MetricRow> {
    let mut all = report.metrics.clone();
    let server = [
        ("processor time", "processor time, share of one core", report.server_cpu_percent, "%"),
        ("memory", "memory at the end", report.server_memory_mib, "MiB"),
    ];
    all.extend(server.map(|(key, name, value, unit)| MetricRow {
        key: format!("{SERVER}{key}"),
        name: format!("Server: {name}"),
        value,
        unit: unit.to_owned(),
        better: Better::Lower,
        ..MetricRow::default()
    }));
    let told = report.server.iter().filter_map(of_server);
    // What was measured from outside and what it says itself may have one name; the first counts.
    for row in told {
        if all.iter().all(|own| own.key != row.key) {
            all.push(row);
        }
    }
    all
}

/// A fact of the server that is a number.
fn of_server(fact: &Fact) -> Option<MetricRow> {
    let (number, unit) = fact.value.split_once(' ').unwrap_or((&fact.value, ""));
    let value: f64 = number.parse().ok().filter(|value: &f64| value.is_finite())?;
    // The share of a core and the memory are among the figures already.
    if fact.name == "share of one core" || fact.name.starts_with("memory at the end") {
        return None;
    }
    let cost = ["processor time", "memory", "lost"].iter().any(|word| fact.name.contains(word));
    Some(MetricRow {
        key: format!("{SERVER}{}", fact.name),
        name: format!("Server: {}", fact.name),
        value: Some(value),
        unit: unit.to_owned(),
        better: if cost { Better::Lower } else { Better::Neither },
        ..MetricRow::default()
    })
}

/// What a row is called in the table of a terminal.
pub(super) fn label(key: &str) -> String {
    let of_generator = ["cpu", "waited", "steal"].contains(&key)
        || ["lateness.", "queue.", "drops"].iter().any(|begin| key.starts_with(begin));
    if of_generator { format!("generator: {key}") } else { key.to_owned() }
}

/// The summary.
pub(super) fn lines(rows: &[Row]) -> Vec<String> {
    let mut out = Vec::new();
    if rows.is_empty() {
        return out;
    }
    let stated = rows.iter().any(|row| matches!(row.statement, Statement::Interval { .. }));
    if stated {
        let named = |wanted: fn(&Row) -> bool| -> String {
            let shown = |row: &Row| {
                let sure = matches!(row.statement, Statement::Interval { differs_among_all: true, .. });
                let change = row.change_percent.map_or_else(String::new, |c| format!(" {c:+.1} %"));
                format!("{}{change}{}", label(&row.key), if sure { ", surely" } else { "" })
            };
            rows.iter().filter(|row| wanted(row)).map(shown).collect::<Vec<_>>().join("; ")
        };
        for (what, list) in [
            ("B is better in", named(|row| row.improved() == Some(true))),
            ("B is worse in", named(|row| row.improved() == Some(false))),
        ] {
            if !list.is_empty() {
                out.push(format!("{what}: {list}"));
            }
        }
        let differs = |row: &&Row| matches!(row.statement, Statement::Interval { differs: true, .. });
        let same = rows.len() - rows.iter().filter(differs).count();
        out.push(format!("no difference shown in {same} of {} figures", rows.len()));
    }
    for row in FIRST.iter().filter_map(|key| rows.iter().find(|row| row.key == *key)) {
        let change = row.change_percent.map_or_else(String::new, |c| format!(" ({c:+.1} %)"));
        let [a, b] = [row.mean_a, row.mean_b].map(|mean| with_unit(mean, &row.unit));
        out.push(format!("{}: A {a}, B {b}{change}", row.name));
    }
    out
}
