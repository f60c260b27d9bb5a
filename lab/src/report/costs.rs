//! What a call and a message cost.

use load::report::svg::Page;

use super::groups::{Combination, Group};
use super::page::{Cell, cells, left_out, rows};
use super::words::{NOTHING, factors, interval, short, value};
use crate::record::RunRecord;
use crate::statistics::{median, median_interval};

/// Rows of the table.
const ROWS_MAX: usize = 300;
const CONFIDENCE: f64 = 0.95;

type Cost = (&'static str, &'static str, fn(&Costs) -> Option<f64>);

/// The columns: title, unit, and which cost of a run.
const COLUMNS: [Cost; 7] = [
    ("CPU a call", "us", |c| per(c.cpu, c.calls)),
    ("CPU a message", "us", |c| per(c.cpu, c.messages)),
    ("Instructions a call", "", |c| per(c.instructions, c.calls)),
    ("Instructions a message", "", |c| per(c.instructions, c.messages)),
    ("Messages a call", "", |c| per(c.messages, c.calls)),
    ("Context switches a call", "", |c| per(c.switches, c.calls)),
    ("Generator's CPU a call", "us", |c| per(c.generator, c.calls)),
];

/// Sums over the measurement of one run.
struct Costs {
    calls: Option<f64>,
    messages: Option<f64>,
    /// Microseconds of processor time of the system.
    cpu: Option<f64>,
    instructions: Option<f64>,
    switches: Option<f64>,
    /// Microseconds of processor time of the generator.
    generator: Option<f64>,
}

fn per(what: Option<f64>, of: Option<f64>) -> Option<f64> {
    Some(what? / of.filter(|of| *of > 0.0)?)
}

impl Costs {
    fn of(run: &RunRecord) -> Costs {
        let load = &run.load;
        let seconds = load.windows.measured;
        let sampled = |key: &str| {
            let values = run.within(key);
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64 * seconds)
        };
        let switches = [sampled("system.waits"), sampled("system.preemptions")];
        Costs {
            calls: load.measured.get("calls.succeeded").map(|calls| *calls as f64),
            messages: messages(run),
            cpu: load.server_cpu_percent.map(|percent| percent * 1e4 * seconds),
            instructions: sampled("system.instructions"),
            switches: switches.into_iter().flatten().reduce(|a, b| a + b),
            generator: sampled("generator.cpu").map(|percent| percent * 1e4),
        }
    }
}

/// Messages that the generator sent and received in the measurement. All of them went through the system.
fn messages(run: &RunRecord) -> Option<f64> {
    let series = &run.load.series;
    let (from, to) = (run.load.windows.before(), run.load.windows.before() + run.load.windows.measured);
    let columns = [series.column("sent"), series.column("received")];
    let inside =
        |at: f64| at >= from - series.interval / 2.0 && at + series.interval <= to + series.interval / 2.0;
    let seconds = series.time.iter().enumerate().filter(|(_, at)| inside(**at));
    let mut sum = None;
    for (nth, _) in seconds {
        for rate in columns.iter().filter_map(|column| column.get(nth).copied().flatten()) {
            sum = Some(sum.unwrap_or(0.0) + rate * series.interval);
        }
    }
    sum
}

/// A row for each system at each combination of factors.
pub(super) fn costs(p: &mut Page, combinations: &[Combination<'_>]) {
    let groups: Vec<(&Combination<'_>, &Group<'_>, Vec<Costs>)> = combinations
        .iter()
        .flat_map(|c| c.groups.iter().map(move |g| (c, g)))
        .filter(|(_, g)| !g.runs.is_empty())
        .map(|(c, g)| {
            let counting = g.runs.iter().filter(|run| run.reserved.is_empty());
            (c, g, counting.map(|run| Costs::of(run)).collect())
        })
        .collect();
    let known = |cost: &Cost| groups.iter().any(|(_, _, runs)| runs.iter().any(|run| cost.2(run).is_some()));
    let columns: Vec<&Cost> = COLUMNS.iter().filter(|cost| known(cost)).collect();
    if columns.is_empty() {
        return;
    }
    p.section("costs", "Costs");
    let mut titles = vec!["System".to_owned()];
    titles.extend(columns.iter().map(|(title, unit, _)| match *unit {
        "" => format!("#{title}"),
        unit => format!("#{title}, {unit}"),
    }));
    p.table(
        "Median of the runs that count, with its interval. A message is one that the generator sent or received.",
        &titles.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let left = rows(p, &groups, ROWS_MAX, |p, (combination, group, runs)| {
        let mut texts = Vec::new();
        for (_, _, cost) in &columns {
            let values: Vec<f64> = runs.iter().filter_map(cost).collect();
            texts.push(with_interval(&values));
        }
        let (subject, factors) = (short(&group.subject), factors(combination.factors));
        let mut row = vec![Cell::Two("at", &subject, &factors)];
        row.extend(texts.iter().map(|(middle, ends)| Cell::Two("n", middle, ends)));
        cells(p, &row);
    });
    p.end_table();
    left_out(p, left, "row", "the archives have the samples");
}

/// The median, and where it lies.
fn with_interval(values: &[f64]) -> (String, String) {
    let Some(middle) = median(values) else { return (NOTHING.to_owned(), String::new()) };
    // The seed of the bootstrap: the same values give the same interval.
    let ends = median_interval(values, CONFIDENCE, 0).ok().map(|e| (e.interval.low(), e.interval.high()));
    let ends = ends.map_or_else(String::new, |ends| interval(Some(ends), ""));
    (value(Some(middle), ""), ends)
}
