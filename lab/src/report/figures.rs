//! The figures of all systems: tables, and a curve for each factor.

use std::collections::BTreeMap;

use load::report::Fact;
use load::report::svg::{Line, Page, Plot, Scale, Spread};

use super::bars::{Bar, Range};
use super::page::{Cell, PLOT_WIDTH, cells, fits, has_room, left_out, rows};
use super::papers;
use super::words::{factors, interval, short, value};
use crate::outcome::{Figure, Outcome, ReferenceOutcome};

/// Tables, and the rows of each.
const TABLES_MAX: usize = 60;
const ROWS_MAX: usize = 400;
/// Curves of factors on a page.
const PLOTS_MAX: usize = 24;
/// Lines in a plot: as many as have a style of their own.
const LINES_MAX: usize = 6;
/// Values of a factor that are drawn.
const VALUES_MAX: usize = 60;
/// How the name of the second copy of the A/A control ends.
const AGAIN: &str = ".again";

/// The names of all figures in order of their first appearance, with their units.
pub(super) fn quantities(figures: &[Figure]) -> Vec<(&str, &str)> {
    let mut all: Vec<(&str, &str)> = Vec::new();
    for figure in figures {
        if !all.iter().any(|(quantity, _)| *quantity == figure.quantity) {
            all.push((&figure.quantity, &figure.unit));
        }
    }
    all
}

/// The figures of systems.
pub(super) fn figures(p: &mut Page, outcome: &Outcome) {
    p.section("figures", "Figures");
    if outcome.figures.is_empty() {
        p.element("p", "There are no figures: no run counts.");
        return;
    }
    let quantities = quantities(&outcome.figures);
    curves(p, outcome, &quantities);
    let left = if outcome.figures.iter().all(|figure| figure.factors.is_empty()) {
        one_table(p, &outcome.figures, &quantities)
    } else {
        tables(p, &outcome.figures, &quantities)
    };
    left_out(p, left, "figure", "the JSON and the CSV have all");
}

/// All figures in one table, where no factor is varied; how many rows are left out.
fn one_table(p: &mut Page, figures: &[Figure], quantities: &[(&str, &str)]) -> usize {
    p.table(
        "The median over blocks with its interval; a mark for each block",
        &["Figure", "System", "#Median", "#Interval", "", "#Blocks"],
    );
    let of = |quantity: &str| -> Vec<&Figure> { figures.iter().filter(|f| f.quantity == quantity).collect() };
    let all = quantities.iter().map(|(quantity, _)| of(quantity));
    // Each figure has a scale of its own, and its name once.
    let lines = all.flat_map(|figures| {
        let range = range(&figures);
        figures.into_iter().enumerate().map(move |(nth, figure)| (nth == 0, range, figure))
    });
    let left = rows(p, lines, ROWS_MAX, |p, (is_first, range, figure)| {
        let name = if is_first { short(&figure.quantity) } else { String::new() };
        row(p, Some(&name), figure, range);
    });
    p.end_table();
    left
}

/// A table for each figure; how many rows are left out.
fn tables(p: &mut Page, figures: &[Figure], quantities: &[(&str, &str)]) -> usize {
    let mut left = 0;
    for (nth, (quantity, _)) in quantities.iter().enumerate() {
        let of_it: Vec<&Figure> = figures.iter().filter(|f| f.quantity == *quantity).collect();
        if nth >= TABLES_MAX || !fits(p) {
            left += of_it.len();
            continue;
        }
        let name = short(quantity);
        p.table(
            &format!("{name}: the median over blocks with its interval; a mark for each block"),
            &["System", "#Median", "#Interval", "", "#Blocks"],
        );
        let range = range(&of_it);
        left += rows(p, of_it, ROWS_MAX, |p, figure| row(p, None, figure, range));
        p.end_table();
    }
    left
}

fn bar(figure: &Figure) -> Bar<'_> {
    Bar { interval: figure.interval, measured: figure.median, values: &figure.values, ..Bar::default() }
}

/// The scale of the drawings of these figures.
fn range(figures: &[&Figure]) -> Option<Range> {
    Range::over(figures.iter().flat_map(|figure| bar(figure).numbers().collect::<Vec<_>>()))
}

fn row(p: &mut Page, name: Option<&str>, figure: &Figure, range: Option<Range>) {
    let drawing = range.map(|range| range.svg(&bar(figure))).unwrap_or_default();
    let have = figure.values.iter().flatten().count();
    let (subject, factors) = (short(&figure.subject), factors(&figure.factors));
    let (median, interval) = (value(figure.median, &figure.unit), interval(figure.interval, &figure.unit));
    let blocks = format!("{have} of {}", figure.values.len());
    let pooled = pooled(figure);
    let mut all: Vec<Cell<'_>> = name.map(|name| Cell::Text("", name)).into_iter().collect();
    all.extend([
        Cell::Two("at", &subject, &factors),
        Cell::Two("n", &median, &pooled),
        Cell::Text("n", &interval),
        Cell::Drawing(&drawing),
        Cell::Text("n", &blocks),
    ]);
    cells(p, &all);
}

/// The percentile of all runs together with its interval; empty where there is none.
pub(super) fn pooled(figure: &Figure) -> String {
    if figure.pooled.is_none() {
        return String::new();
    }
    let range = match figure.pooled_interval {
        None => String::new(),
        range => format!(" ({})", interval(range, &figure.unit)),
    };
    format!("all runs together {}{range}", value(figure.pooled, &figure.unit))
}

/// A figure against a factor, for each figure and each factor of more than one value.
fn curves(p: &mut Page, outcome: &Outcome, quantities: &[(&str, &str)]) {
    let names = factor_values(&outcome.figures);
    let mut plots = Vec::new();
    for (quantity, unit) in quantities {
        for (factor, values) in names.iter().filter(|(_, values)| values.len() > 1) {
            plots.push(curve(outcome, (quantity, unit), factor, values));
        }
    }
    if plots.is_empty() {
        return;
    }
    p.raw("<div class=\"plots\">");
    let mut left = 0;
    for (nth, plot) in plots.iter().enumerate() {
        if nth < PLOTS_MAX && has_room(p) {
            p.raw(&plot.svg());
        } else {
            left += 1;
        }
    }
    p.raw("</div>\n");
    left_out(p, left, "curve", "the tables have their figures");
}

/// Each factor with its values: numbers ascending, other texts in order of their first appearance.
fn factor_values(figures: &[Figure]) -> BTreeMap<&str, Vec<&str>> {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for fact in figures.iter().flat_map(|f| &f.factors) {
        let values = names.entry(fact.name.as_str()).or_default();
        if !values.contains(&fact.value.as_str()) && values.len() < VALUES_MAX {
            values.push(&fact.value);
        }
    }
    for values in names.values_mut() {
        if values.iter().all(|v| numeric(v).is_some()) {
            values.sort_by(|a, b| numeric(a).unwrap_or(0.0).total_cmp(&numeric(b).unwrap_or(0.0)));
        }
    }
    names
}

fn numeric(text: &str) -> Option<f64> {
    text.parse().ok().filter(|v: &f64| v.is_finite())
}

/// The name of a line against a factor: the system, and its other factors.
fn line_name(subject: &str, all: &[Fact], factor: &str) -> String {
    let rest: Vec<Fact> = all.iter().filter(|f| f.name != factor).cloned().collect();
    match factors(&rest) {
        rest if rest.is_empty() => short(subject),
        rest => format!("{}, {rest}", short(subject)),
    }
}

fn curve(outcome: &Outcome, (quantity, unit): (&str, &str), factor: &str, values: &[&str]) -> Plot {
    let numbers: Option<Vec<f64>> = values.iter().map(|v| numeric(v)).collect();
    let mut lines: Vec<(String, Vec<(f64, &Figure)>)> = Vec::new();
    // The second copy of the control is the same system, and would only be in the way.
    let of_it = |f: &&Figure| f.quantity == quantity && !f.subject.ends_with(AGAIN);
    for figure in outcome.figures.iter().filter(of_it) {
        let Some(at) = figure.factors.iter().find(|f| f.name == factor) else { continue };
        let Some(nth) = values.iter().position(|v| *v == at.value) else { continue };
        let x = numbers.as_ref().and_then(|all| all.get(nth).copied()).unwrap_or(nth as f64);
        let name = line_name(&figure.subject, &figure.factors, factor);
        match lines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push((x, figure)),
            None => lines.push((name, vec![(x, figure)])),
        }
    }
    let all = lines.len();
    let to_line = |(name, mut points): (String, Vec<(f64, &Figure)>)| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ranges = points.iter().filter_map(|(x, f)| f.interval.map(|(low, high)| (*x, low, high)));
        let ranges = ranges.collect();
        Line::new(name, points.iter().map(|(x, f)| (*x, f.median)).collect())
            .with_spread(Spread::Bars, ranges)
    };
    let drawn = if all > LINES_MAX { format!("; {LINES_MAX} of {all} lines") } else { String::new() };
    let text = format!("Median over blocks with its interval{drawn}");
    let names: Vec<String> = lines.iter().map(|(name, _)| name.clone()).collect();
    let place = |value: &str| match &numbers {
        Some(_) => numeric(value),
        None => values.iter().position(|known| *known == value).map(|nth| nth as f64),
    };
    let name_of = |r: &ReferenceOutcome| line_name(&r.subject, &r.factors, factor);
    let of_paper = papers::series(outcome, (quantity, factor), &names, name_of, place);
    let lines = lines.into_iter().take(LINES_MAX).map(to_line).chain(of_paper).collect();
    let unit = if unit.is_empty() { "count" } else { unit };
    let mut plot =
        Plot::over_time(&format!("{} against {}", short(quantity), short(factor)), &text, unit, lines);
    plot.x = short(factor);
    plot.width = PLOT_WIDTH;
    match numbers.as_deref() {
        // Values that double or grow tenfold stand evenly apart.
        Some([first, .., last]) if *first > 0.0 && last / first >= 20.0 => plot.x_scale = Scale::Log,
        Some(_) => {}
        None => plot.names = values.iter().map(|v| super::words::cut(v, 24)).collect(),
    }
    plot
}
