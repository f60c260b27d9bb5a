//! What searches for the largest load found for several servers: load, processor time and memory side by
//! side, and what the literature has, for scale.

use serde::{Deserialize, Serialize};

use super::axis::Scale;
use super::format::{number, round};
use super::model::{Curve, Report, Trial};
use super::page::Page;
use super::plot::Plot;
use super::searched::Searched;

/// What one search found.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Found {
    /// Whose: the group that the report is of.
    pub name: String,
    /// The answer of the search.
    pub peak: Searched,
    /// How many times faster than in life users lived.
    pub compression: f64,
    /// Processor time of the server there, percent of one core.
    pub cpu_percent: Option<f64>,
    /// Memory of the server there, MiB.
    pub memory_mib: Option<f64>,
}

impl Found {
    fn is_of_users(&self) -> bool {
        self.peak.unit == "users"
    }

    /// Users in life whose load this is.
    fn in_life(&self) -> Option<f64> {
        Some(self.peak.load.filter(|_| self.is_of_users())? * self.compression.max(1.0))
    }
}

/// What a side's reports found; those without a search are left out.
pub(super) fn found(name: &str, reports: &[Report]) -> Vec<Found> {
    let one = |r: &Report| -> Option<Found> {
        let peak = r.peak.clone()?;
        // The last run there, which is the report's own.
        let there = |t: &&Trial| Some(t.load) == peak.load && t.verdict == "PASS";
        let last = r.trials.iter().rev().find(there);
        Some(Found {
            name: name.to_owned(),
            compression: r.compression,
            cpu_percent: last.and_then(|t| t.server_cpu_percent).map(round),
            memory_mib: last.and_then(|t| t.server_memory_mib).map(round),
            peak,
        })
    };
    reports.iter().filter_map(one).collect()
}

/// A figure of each trial against its load, without trials that are void.
pub(super) fn against_load(name: &str, reports: &[Report], of: fn(&Trial) -> Option<f64>) -> Curve {
    let trials = reports.iter().flat_map(|r| &r.trials).filter(|t| t.verdict != "VOID");
    let mut points: Vec<(f64, f64)> = trials.filter_map(|t| Some((t.load, of(t)?))).collect();
    points.sort_by(|x, y| x.0.total_cmp(&y.0).then(x.1.total_cmp(&y.1)));
    Curve { name: name.to_owned(), points }
}

/// Servers of the literature under a load of users as `--users` has it: C. Wright, E. Nahum, D. Wood,
/// J. Tracey, E. Hu, SIP server performance on multicore systems, IBM Journal of Research and
/// Development 54(1), 2010. Those with its changes are the product of its factors (8.7 and 16.6) and
/// its baseline.
const LITERATURE: [(&str, f64); 4] = [
    ("OpenSER, one core of 2008 (Wright and others, 2010)", 350e3),
    ("the same, eight cores", 600e3),
    ("with their changes, one core", 350e3 * 8.7),
    ("with their changes, eight cores", 600e3 * 16.6),
];

/// Lines of a table: what, load, load in life, processor time, memory.
fn table(all: &[Found]) -> Vec<[String; 5]> {
    let blank = String::new;
    let show = |value: Option<f64>, unit: &str| value.map_or_else(blank, |v| format!("{} {unit}", number(v)));
    let own = all.iter().map(|f| {
        [
            f.name.clone(),
            f.peak.words(),
            f.in_life().map_or_else(blank, number),
            show(f.cpu_percent, "%"),
            show(f.memory_mib, "MiB"),
        ]
    });
    let users = all.iter().any(Found::is_of_users);
    let scale = LITERATURE
        .iter()
        .filter(|_| users)
        .map(|(name, load)| [(*name).to_owned(), blank(), number(*load), blank(), blank()]);
    own.chain(scale).collect()
}

const COLUMNS: [&str; 5] = ["Server", "Largest load", "Users in life", "Processor time", "Memory"];
const READ_SO: &str = "Users in life: the load found times the compression of time. It is their load, not their memory, \
                       which is that of the users that there were. The literature's machines are of 2008.";

/// For a terminal; nothing where nobody searched.
pub(super) fn text(all: &[Found]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    rows.extend(table(all));
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths = [0, 1, 2, 3, 4].map(width);
    let mut out = String::from("\n");
    for row in &rows {
        let cells = row.iter().zip(widths).enumerate();
        let cells = cells.map(|(nth, (cell, width))| match nth {
            0 => format!("{cell:width$}"),
            _ => format!("{cell:>width$}"),
        });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    if all.iter().any(Found::is_of_users) {
        out.push_str(READ_SO);
        out.push('\n');
    }
    out
}

/// For a page; nothing where nobody searched.
pub(super) fn page(p: &mut Page, all: &[Found], unit: &str, cpu: &[Curve], memory: &[Curve]) {
    if all.is_empty() {
        return;
    }
    p.section("sides", "What each carries");
    let [name, rest @ ..] = COLUMNS;
    let numbers = rest.map(|column| format!("#{column}"));
    let mut columns = vec![name];
    columns.extend(numbers.iter().map(String::as_str));
    p.table("The answer of each search", &columns);
    for row in table(all) {
        let [name, rest @ ..] = &row;
        let mut cells = vec![("", name.as_str())];
        cells.extend(rest.iter().map(|cell| ("n", cell.as_str())));
        p.row(&cells);
    }
    p.end_table();
    if all.iter().any(Found::is_of_users) {
        p.element("p", READ_SO);
    }
    let plots = [
        ("Processor time against load", "Of the server in each trial; 100 is one core", "%", cpu),
        ("Memory against load", "Of the server at the end of each trial", "MiB", memory),
    ];
    for (title, says, of, curves) in plots {
        if curves.iter().all(|curve| curve.points.is_empty()) {
            continue;
        }
        let plot = Plot {
            x: unit.to_owned(),
            x_scale: Scale::Log,
            lines: super::compare_view::lines(curves),
            ..Plot::over_time(title, says, of, Vec::new())
        };
        p.out.push_str(&plot.svg());
    }
}
