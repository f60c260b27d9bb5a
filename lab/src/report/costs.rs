//! What a call and a message cost.

use load::report::svg::Page;

use super::groups::{Combination, Group};
use super::page::{Cell, cells, left_out, rows};
use super::words::{NOTHING, factors, interval, short, value};
use crate::costs::{Costs, per};
use crate::statistics::{median, median_interval};

/// Rows of the table.
const ROWS_MAX: usize = 300;
const CONFIDENCE: f64 = 0.95;

type Cost = (&'static str, &'static str, fn(&Costs) -> Option<f64>);

/// The columns: title, unit, and which cost of a run.
const COLUMNS: [Cost; 10] = [
    ("CPU a call", "us", |c| per(c.cpu, c.calls)),
    ("CPU a message", "us", |c| per(c.cpu, c.messages)),
    ("CPU a registration", "us", |c| per(c.cpu, c.registrations)),
    ("Instructions a call", "", |c| per(c.instructions, c.calls)),
    ("Instructions a message", "", |c| per(c.instructions, c.messages)),
    ("Cycles a call", "", |c| per(c.cycles, c.calls)),
    ("Cache misses a call", "", |c| per(c.cache_misses, c.calls)),
    ("Messages a call", "", |c| per(c.messages, c.calls)),
    ("Context switches a call", "", |c| per(c.switches, c.calls)),
    ("Generator's CPU a call", "us", |c| per(c.generator, c.calls)),
];

/// A row for each system at each combination of factors.
pub(super) fn costs(p: &mut Page, combinations: &[Combination<'_>]) {
    let groups: Vec<(&Combination<'_>, &Group<'_>, Vec<Costs>)> = combinations
        .iter()
        .flat_map(|c| c.groups.iter().map(move |g| (c, g)))
        .filter(|(_, g)| !g.runs.is_empty())
        .map(|(c, g)| {
            let counting = g.runs.iter().filter(|run| run.screened.reserved.is_empty());
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
