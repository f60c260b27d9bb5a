//! Distributions of times, the runs of a system merged.

use std::collections::BTreeMap;

use load::report::svg::{Line, Page, Plot, Scale};
use load::report::{Distribution, number};

use super::groups::{Combination, Group};
use super::page::{Cell, PLOT_WIDTH, cells, has_room, left_out, rows};
use super::words::{factors, short};
use crate::record::RunRecord;
use crate::statistics::{Latencies, Summary};

/// The first of these that any run has is shown, with what it is.
const TIMES: [(&str, &str); 5] = [
    ("setup", "Setup times: INVITE to its 2xx, ringing included"),
    ("response", "Response times: first request of a call to the first response other than 100"),
    ("rrd-first", "Registration times"),
    ("transaction", "Times of requests other than INVITE"),
    ("first-answer", "Times from the begin of the set-up of an association to the answer on it"),
];
/// Points of a curve to one nine.
const STEPS: u32 = 24;
const NINES_MAX: u32 = 9;
/// Rows of the table.
const ROWS_MAX: usize = 300;

/// Curves by nines, and a table of percentiles.
pub(super) fn distributions(p: &mut Page, combinations: &[Combination<'_>]) {
    let Some((key, title)) = shown(combinations) else { return };
    p.section("times", "Distribution of times");
    p.element("p", &format!("{title}. From the intended start, all runs that count together."));
    p.raw("<div class=\"plots\">");
    let mut undrawn = 0;
    for combination in combinations {
        if !has_room(p) {
            undrawn += 1;
            continue;
        }
        let lines = combination.groups.iter().map(|group| curve(group, key)).take(6).collect();
        let title = match factors(combination.factors) {
            factors if factors.is_empty() => "All systems".to_owned(),
            factors => factors,
        };
        let mut plot = Plot::over_time(
            &title,
            "Share of calls within a time; each step of the scale is one more nine",
            "share",
            lines,
        );
        plot.x = "milliseconds".to_owned();
        (plot.x_scale, plot.y_scale, plot.width) = (Scale::Log, Scale::Nines, PLOT_WIDTH);
        p.raw(&plot.svg());
    }
    p.raw("</div>\n");
    left_out(p, undrawn, "plot", "the archives have the distributions");
    table(p, combinations, key);
}

/// Which times are shown, and what they are: the first of [`TIMES`] that a run has.
pub(super) fn shown(combinations: &[Combination<'_>]) -> Option<&'static (&'static str, &'static str)> {
    let runs = || combinations.iter().flat_map(|c| &c.groups).flat_map(|g| &g.runs);
    TIMES.iter().find(|(key, _)| runs().any(|run| of(run, key).is_some()))
}

/// The distribution of a run, if it has values that count.
pub(super) fn of<'a>(run: &'a RunRecord, key: &str) -> Option<&'a Distribution> {
    if !run.screened.reserved.is_empty() {
        return None;
    }
    run.load.latency(key).map(|latency| latency.main()).filter(|d| d.count > 0 && !d.buckets.is_empty())
}

/// The times of all runs together: (milliseconds, share of values that are not larger).
fn curve(group: &Group<'_>, key: &str) -> Line {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for (upper, n) in group.runs.iter().filter_map(|run| of(run, key)).flat_map(|d| &d.buckets) {
        let sum = counts.entry(*upper).or_default();
        *sum = sum.saturating_add(*n);
    }
    let all = counts.values().fold(0_u64, |sum, n| sum.saturating_add(*n));
    if all == 0 {
        return Line::new(short(&group.subject), Vec::new());
    }
    let mut points: Vec<(f64, Option<f64>)> = Vec::new();
    let mut seen = 0_u64;
    let mut next = 0_u32;
    for (upper, n) in &counts {
        seen = seen.saturating_add(*n);
        // The largest value is drawn where half a value would be missing, not at infinity.
        let share = (seen as f64).min(all as f64 - 0.5) / all as f64;
        let step = (-(1.0 - share).log10() * f64::from(STEPS)).min(f64::from(STEPS * NINES_MAX)) as u32;
        if step >= next || seen == all {
            points.push(((*upper as f64 / 1e3).max(0.001), Some(share)));
            next = step + 1;
        }
    }
    Line::new(short(&group.subject), points)
}

fn table(p: &mut Page, combinations: &[Combination<'_>], key: &str) {
    p.table(
        "All runs together, ms; squares in square milliseconds; empty where too few values were measured",
        &[
            "System",
            "#Runs",
            "#Values",
            "#Mean",
            "#Deviation",
            "#Least",
            "#50 %",
            "#95 %",
            "#99 %",
            "#99.9 %",
            "#99.99 %",
            "#Largest",
            "#Sum of squares",
        ],
    );
    let groups = combinations.iter().flat_map(|c| c.groups.iter().map(move |g| (c, g)));
    let left = rows(p, groups, ROWS_MAX, |p, (combination, group)| {
        let mut merged = Latencies::new();
        let mut runs = 0_usize;
        for distribution in group.runs.iter().filter_map(|run| of(run, key)) {
            merged.merge(&Latencies::from_report(distribution));
            runs += 1;
        }
        let ms = |micros: Option<f64>| micros.map_or_else(String::new, |v| number(v / 1e3));
        let summary = merged.summary();
        let of = |value: fn(&Summary) -> Option<f64>| ms(summary.as_ref().and_then(value));
        let first = [of(|s| Some(s.mean)), of(|s| s.deviation), of(|s| Some(s.min))];
        let shares = [50.0, 95.0, 99.0, 99.9, 99.99].map(|percent| ms(merged.percentile(percent).value));
        let last = [of(|s| Some(s.max)), of(|s| Some(s.sum_of_squares / 1e3))];
        let (subject, factors) = (short(&group.subject), factors(combination.factors));
        let (runs, values) = (runs.to_string(), number(merged.count() as f64));
        let mut row =
            vec![Cell::Two("at", &subject, &factors), Cell::Text("n", &runs), Cell::Text("n", &values)];
        row.extend(first.iter().chain(&shares).chain(&last).map(|value| Cell::Text("n", value)));
        cells(p, &row);
    });
    p.end_table();
    left_out(p, left, "row", "the archives have the distributions");
}
