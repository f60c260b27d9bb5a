//! What requests found at back ends, the runs of a system together.

use load::backend::Found;
use load::report::number;
use load::report::svg::{Line, Page, Plot, Scale};

use super::groups::{Combination, Group};
use super::page::{Cell, PLOT_WIDTH, cells, has_room, left_out, rows};
use super::words::{NOTHING, factors, short, value};
use crate::experiment::Statistic;
use crate::occupancy::{merged, requests, statistic};

/// Rows of the table.
const ROWS_MAX: usize = 300;
/// Lines in a plot: as many as have a style of their own.
const LINES_MAX: usize = 6;
/// Requests found up to which shares are drawn on a linear scale: nearly all found no more.
const FEW: usize = 20;
/// Points of a curve.
const POINTS_MAX: usize = 200;

/// Distribution and contribution to the sum of times, and a table. Nothing without back ends of a capacity.
pub(super) fn occupancy(p: &mut Page, combinations: &[Combination<'_>]) {
    let all = || combinations.iter().flat_map(|c| &c.groups).flat_map(|g| &g.runs);
    if !all().flat_map(|run| &run.backends).any(|node| requests(&node.found) > 0) {
        return;
    }
    p.section("occupancy", "Requests at back ends");
    p.element(
        "p",
        "How many requests a back end had when another one came, all runs that count together, warm-ups included. \
         The times are those of the model, from arrival to end: sums for one back end in one run.",
    );
    p.raw("<div class=\"plots\">");
    let mut undrawn = 0;
    for combination in combinations {
        for plot in plots(combination) {
            if has_room(p) {
                p.raw(&plot.svg());
            } else {
                undrawn += 1;
            }
        }
    }
    p.raw("</div>\n");
    left_out(p, undrawn, "plot", "the archives have the counts");
    table(p, combinations);
}

fn plots(combination: &Combination<'_>) -> [Plot; 4] {
    let at = match factors(combination.factors) {
        at if at.is_empty() => at,
        at => format!(", {at}"),
    };
    let groups: Vec<Curves> = combination.groups.iter().take(LINES_MAX).map(Curves::of).collect();
    let plot = |title: &str, text: &str, y: &str, of: fn(&Curves) -> &Points| {
        let lines = groups.iter().map(|g| Line::new(g.name.clone(), of(g).clone())).collect();
        let mut plot = Plot::over_time(&format!("{title}{at}"), text, y, lines);
        plot.x = "requests found".to_owned();
        plot.width = PLOT_WIDTH;
        plot
    };
    let mut tail = plot("Found more", "Share of requests that found more than this", "share", |c| &c.more);
    tail.y_scale = Scale::Log;
    [
        plot("Found at most", "Share of requests that found at most this number", "share", |c| &c.at_most),
        tail,
        plot("Part of the time", "Sum of the times of requests that found this number", "ms", |c| &c.each),
        plot("Time up to it", "Sum of the times of requests that found at most this number", "ms", |c| {
            &c.up_to
        }),
    ]
}

type Points = Vec<(f64, Option<f64>)>;

/// The curves of a system.
struct Curves {
    name: String,
    at_most: Points,
    more: Points,
    each: Points,
    up_to: Points,
}

impl Curves {
    fn of(group: &Group<'_>) -> Curves {
        let found = of_group(group);
        let all = requests(&found) as f64;
        let backends: usize = group.runs.iter().map(|run| run.backends.len()).sum();
        let each_ms = 1e3 / backends.max(1) as f64;
        let mut curves = Curves {
            name: short(&group.subject),
            at_most: Vec::new(),
            more: Vec::new(),
            each: Vec::new(),
            up_to: Vec::new(),
        };
        let (mut seen, mut sum) = (0.0, 0.0);
        let step = found.len().div_ceil(POINTS_MAX).max(1);
        for (n, one) in found.iter().enumerate() {
            seen += one.requests as f64;
            sum += one.seconds * each_ms;
            let x = n as f64;
            if n <= FEW {
                curves.at_most.push((x, Some(seen / all)));
            }
            if n > FEW && n % step != 0 {
                continue;
            }
            curves.more.push((x, Some((all - seen) / all).filter(|share| *share > 0.0)));
            curves.each.push((x, Some(one.seconds * each_ms)));
            curves.up_to.push((x, Some(sum)));
        }
        curves
    }
}

/// The counts of all runs of a system together.
fn of_group(group: &Group<'_>) -> Vec<Found> {
    merged(group.runs.iter().flat_map(|run| &run.backends))
}

fn table(p: &mut Page, combinations: &[Combination<'_>]) {
    p.table(
        "What requests found, all runs together",
        &[
            "System",
            "#Requests",
            "#Found none",
            "#Mean",
            "#90 %",
            "#99 %",
            "#99.9 %",
            "#Most",
            "#Mean time, ms",
        ],
    );
    let groups = combinations.iter().flat_map(|c| c.groups.iter().map(move |g| (c, g)));
    let left = rows(p, groups, ROWS_MAX, |p, (combination, group)| {
        let found = of_group(group);
        let all = requests(&found);
        let none = found.first().map_or(0.0, |first| 100.0 * first.requests as f64 / all.max(1) as f64);
        let seconds: f64 = found.iter().map(|one| one.seconds).sum();
        let of = |what: Statistic| statistic(&found, what).map_or_else(|| NOTHING.to_owned(), number);
        let (subject, factors) = (short(&group.subject), factors(combination.factors));
        let numbers = [
            number(all as f64),
            format!("{none:.1} %"),
            of(Statistic::Mean),
            of(Statistic::Percentile(90_000)),
            of(Statistic::Percentile(99_000)),
            of(Statistic::Percentile(99_900)),
            of(Statistic::Max),
            value(Some(1e3 * seconds / all.max(1) as f64), ""),
        ];
        let mut row = vec![Cell::Two("at", &subject, &factors)];
        row.extend(numbers.iter().map(|text| Cell::Text("n", text)));
        cells(p, &row);
    });
    p.end_table();
    left_out(p, left, "system", "the archives have all");
}
