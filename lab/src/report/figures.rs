//! The figures of all systems: tables, and a curve for each factor.

use std::collections::BTreeMap;

use load::report::Fact;
use load::report::svg::{Line, Page, Plot, Scale, Spread};

use super::bars::{Bar, Range};
use super::page::{Cell, PLOT_WIDTH, cells, fits, has_room, left_out, rows};
use super::words::{factors, interval, short, value};
use crate::outcome::{Figure, Outcome};

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
    let mut left = 0;
    for (nth, (quantity, unit)) in quantities.into_iter().enumerate() {
        let of_it: Vec<&Figure> = outcome.figures.iter().filter(|f| f.quantity == quantity).collect();
        if nth < TABLES_MAX && fits(p) {
            left += table(p, quantity, unit, &of_it);
        } else {
            left += of_it.len();
        }
    }
    left_out(p, left, "figure", "the JSON and the CSV have all");
}

/// All systems and combinations of one figure; how many rows are left out.
fn table(p: &mut Page, quantity: &str, unit: &str, figures: &[&Figure]) -> usize {
    let unit_text = if unit.is_empty() { String::new() } else { format!(", {unit}") };
    let caption = format!(
        "{}{unit_text}: the median over blocks with its interval; a mark for each block",
        short(quantity)
    );
    p.table(&caption, &["System", "#Median", "#Interval", "", "#Blocks"]);
    let bar = |figure: &Figure, values| Bar {
        interval: figure.interval,
        measured: figure.median,
        limit: None,
        floor: None,
        values,
    };
    let numbers = figures.iter().flat_map(|f| bar(f, &f.values).numbers().collect::<Vec<_>>());
    let range = Range::over(numbers);
    let left = rows(p, figures, ROWS_MAX, |p, figure| {
        let drawing = range.map(|range| range.svg(&bar(figure, &figure.values))).unwrap_or_default();
        let have = figure.values.iter().flatten().count();
        cells(
            p,
            &[
                Cell::Two("at", &short(&figure.subject), &factors(&figure.factors)),
                Cell::Text("n", &value(figure.median, unit)),
                Cell::Text("n", &interval(figure.interval, unit)),
                Cell::Drawing(&drawing),
                Cell::Text("n", &format!("{have} of {}", figure.values.len())),
            ],
        );
    });
    p.end_table();
    left
}

/// A figure against a factor, for each figure and each factor of more than one value.
fn curves(p: &mut Page, outcome: &Outcome, quantities: &[(&str, &str)]) {
    let names = factor_values(&outcome.figures);
    let mut plots = Vec::new();
    for (quantity, unit) in quantities {
        for (factor, values) in names.iter().filter(|(_, values)| values.len() > 1) {
            plots.push(curve(&outcome.figures, (quantity, unit), factor, values));
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

fn curve(figures: &[Figure], (quantity, unit): (&str, &str), factor: &str, values: &[&str]) -> Plot {
    let numbers: Option<Vec<f64>> = values.iter().map(|v| numeric(v)).collect();
    let mut lines: Vec<(String, Vec<(f64, &Figure)>)> = Vec::new();
    // The second copy of the control is the same system, and would only be in the way.
    let of_it = |f: &&Figure| f.quantity == quantity && !f.subject.ends_with(AGAIN);
    for figure in figures.iter().filter(of_it) {
        let Some(at) = figure.factors.iter().find(|f| f.name == factor) else { continue };
        let Some(nth) = values.iter().position(|v| *v == at.value) else { continue };
        let x = numbers.as_ref().and_then(|all| all.get(nth).copied()).unwrap_or(nth as f64);
        let rest: Vec<Fact> = figure.factors.iter().filter(|f| f.name != factor).cloned().collect();
        let name = match factors(&rest) {
            rest if rest.is_empty() => short(&figure.subject),
            rest => format!("{}, {rest}", short(&figure.subject)),
        };
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
    let lines = lines.into_iter().take(LINES_MAX).map(to_line).collect();
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
