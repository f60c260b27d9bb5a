//! What a paper measured, beside the figures of the experiment.

use load::report::plain;
use load::report::svg::{Line, Page};

use super::page::{Cell, cells, left_out, rows};
use super::text::{COLUMNS, heading, line};
use super::words::{NOTHING, count, factors, interval, short, value};
use crate::outcome::{Outcome, ReferenceOutcome};

/// Rows of the table.
const ROWS_MAX: usize = 400;
/// Lines for a terminal.
const LINES_MAX: usize = 60;
/// Series of a paper in a plot, in the colours of the systems that they are of.
const SERIES_MAX: usize = 6;
/// Style classes of the dots of a paper, by the line of our system.
const DOTS: [&str; SERIES_MAX] = ["paper k0", "paper k1", "paper k2", "paper k3", "paper k4", "paper k5"];

/// A row for each figure of the paper.
pub(super) fn papers(p: &mut Page, outcome: &Outcome) {
    if outcome.beside.references.is_empty() {
        return;
    }
    p.section("paper", "The paper beside it");
    let intro = format!("{}. Its figures decide no verdict.", title(outcome));
    p.element("p", &intro);
    p.table(
        "The figures of the paper and ours: the median over blocks with its interval",
        &["Paper", "Figure", "#Paper", "#Ours", "#Interval", "#Ours / paper", "Note"],
    );
    let lines = outcome.beside.references.iter().zip(firsts(&outcome.beside.references));
    let left = rows(p, lines, ROWS_MAX, |p, (reference, is_first)| row(p, reference, is_first));
    p.end_table();
    left_out(p, left, "figure of the paper", "the JSON has all");
}

fn title(outcome: &Outcome) -> String {
    let paper = short(outcome.beside.paper.trim());
    if paper.is_empty() {
        "A paper without a name".to_owned()
    } else {
        paper.trim_end_matches('.').to_owned()
    }
}

/// Whether each row is the first of its reference: what is the same in all rows is written once.
fn firsts(references: &[ReferenceOutcome]) -> impl Iterator<Item = bool> {
    let same = |a: &ReferenceOutcome, b: &ReferenceOutcome| {
        (&a.source, &a.what, &a.note) == (&b.source, &b.what, &b.note)
    };
    let before = std::iter::once(None).chain(references.iter().map(Some));
    before.zip(references).map(move |(before, now)| before.is_none_or(|before| !same(before, now)))
}

/// What the paper has.
fn of_paper(reference: &ReferenceOutcome) -> String {
    match reference.paper {
        None if reference.said.is_empty() => NOTHING.to_owned(),
        None => short(&reference.said),
        paper => value(paper, &reference.unit),
    }
}

fn ratio(reference: &ReferenceOutcome) -> String {
    match reference.ratio.filter(|ratio| ratio.is_finite()) {
        None => NOTHING.to_owned(),
        Some(ratio) => format!("{ratio:.2}"),
    }
}

fn row(p: &mut Page, reference: &ReferenceOutcome, is_first: bool) {
    let what = if reference.what.is_empty() { "no counterpart".to_owned() } else { short(&reference.what) };
    let (source, note) = (short(&reference.source), short(&reference.note));
    cells(
        p,
        &[
            Cell::Text("", if is_first { &source } else { "" }),
            Cell::Two("at", &what, &factors(&reference.factors)),
            Cell::Text("n", &of_paper(reference)),
            Cell::Text("n", &value(reference.measured, &reference.unit)),
            Cell::Text("n", &interval(reference.interval, &reference.unit)),
            Cell::Text("n", &ratio(reference)),
            Cell::Text("text", if is_first { &note } else { "" }),
        ],
    );
}

/// The same for a terminal.
pub(super) fn of_text(out: &mut String, outcome: &Outcome) {
    if outcome.beside.references.is_empty() {
        return;
    }
    heading(out, "Paper");
    line(out, "  ", &format!("{}; its figures decide no verdict", title(outcome)));
    let shown = outcome.beside.references.iter().zip(firsts(&outcome.beside.references)).take(LINES_MAX);
    for (reference, is_first) in shown {
        if is_first {
            let what = if reference.what.is_empty() { "no counterpart" } else { &reference.what };
            let source = plain(&short(&reference.source));
            let first = format!("  {}: ", super::words::cut(&source, COLUMNS / 2));
            let said =
                if reference.said.is_empty() { String::new() } else { format!(" ({})", reference.said) };
            line(out, &first, &format!("{}{}", short(what), short(&said)));
            line(out, "    ", &short(&reference.note));
        }
        if reference.what.is_empty() {
            continue;
        }
        let at = factors(&reference.factors);
        let at = if at.is_empty() { at } else { format!("{at}: ") };
        let ours = match reference.measured {
            None => "not measured".to_owned(),
            measured => format!(
                "ours {} ({}), ours / paper {}",
                value(measured, &reference.unit),
                interval(reference.interval, &reference.unit),
                ratio(reference)
            ),
        };
        line(out, "    ", &format!("{at}paper {}, {ours}", of_paper(reference)));
    }
    if outcome.beside.references.len() > LINES_MAX {
        let more = count(outcome.beside.references.len() - LINES_MAX, "more figure");
        line(out, "  ", &format!("{more} of the paper are on the page"));
    }
}

/// The series of the paper for a plot of `quantity` against `factor`, as dots in the colour of the line that
/// has the same name. `place` is where a value of the factor stands.
pub(super) fn series(
    outcome: &Outcome,
    (quantity, factor): (&str, &str),
    names: &[String],
    name_of: impl Fn(&ReferenceOutcome) -> String,
    place: impl Fn(&str) -> Option<f64>,
) -> Vec<Line> {
    type Points = Vec<(f64, Option<f64>)>;
    let mut all: Vec<(String, Points)> = Vec::new();
    let of_it = |r: &&ReferenceOutcome| r.over == factor && r.quantity == quantity && !quantity.is_empty();
    for reference in outcome.beside.references.iter().filter(of_it) {
        let at = reference.factors.iter().find(|fact| fact.name == factor);
        let Some(x) = at.and_then(|at| place(&at.value)) else { continue };
        let name = name_of(reference);
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push((x, reference.paper)),
            None => all.push((name, vec![(x, reference.paper)])),
        }
    }
    let to_line = |(nth, (name, mut points)): (usize, (String, Points))| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let colour = names.iter().position(|known| *known == name).unwrap_or(nth);
        let class = DOTS.get(colour % SERIES_MAX).copied().unwrap_or("paper");
        Line::dots(format!("{name}, paper"), class, points)
    };
    all.into_iter().take(SERIES_MAX).enumerate().map(to_line).collect()
}
