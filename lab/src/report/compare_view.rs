//! A comparison as a page and as text.

use std::fmt::Write as _;

use load::report::svg::Page;

use super::bars::{Bar, Range};
use super::comparison::{Comparison, Difference, FigureRow, Relation, Side};
use super::page::{Cell, cells, left_out, rows};
use super::text::{heading, line};
use super::words::{NOTHING, class, count, cut, factors, interval, short, value};

const STYLE: &str = include_str!("style.css");
/// Rows of the table of figures, and of facts that differ.
const ROWS_MAX: usize = 1_000;

impl Comparison {
    /// What has to be known before any figure is read.
    fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        if !self.same_machine {
            let why = if self.machine.is_empty() {
                "the machine of a side is not known".to_owned()
            } else {
                format!("the machines differ in {}", count(self.machine.len(), "fact"))
            };
            all.push(format!(
                "No claim is made: {why}. Figures of different machines cannot tell which system is better."
            ));
        }
        if !self.same_experiment {
            all.push(
                "The experiments have different digests: something that changes a measurement is not the same. Compare \
                 their files before the figures."
                    .to_owned(),
            );
        }
        for (name, side) in [("A", &self.a), ("B", &self.b)] {
            if matches!(side.verdict.as_str(), "VOID" | "STOPPED") {
                all.push(format!("{name} is {}: {}", cut(&side.verdict, 24), short(&side.reason)));
            }
        }
        all
    }

    /// What a row says, in words.
    fn words(&self, row: &FigureRow) -> &'static str {
        let (apart, better) = match row.relation {
            Relation::Unknown => return "too few blocks, no statement",
            Relation::NoDifference => return "no difference shown",
            Relation::Higher => ("B is higher", row.better),
            Relation::Lower => ("B is lower", row.better),
        };
        match (self.same_machine, better) {
            (false, _) => "they differ, but so do the machines: no claim",
            (true, Some(true)) => "B is better",
            (true, Some(false)) => "B is worse",
            (true, None) if apart == "B is higher" => "B is higher",
            (true, None) => "B is lower",
        }
    }

    /// As a page: one self-contained file without scripts.
    pub fn html(&self) -> String {
        let (a, b) = (name(&self.a), name(&self.b));
        let title = if a == b { format!("{a} Two results") } else { format!("{a} Against: {b}") };
        let mut p = Page::styled(&title, STYLE);
        p.raw("<header>");
        p.element("h1", &title);
        p.raw("</header>\n<main id=\"main\">\n");
        let warnings = self.warnings();
        if !warnings.is_empty() {
            p.raw("<div class=\"verdict VOID\" role=\"status\"><strong>Read this first</strong>");
            p.list(&warnings);
            p.raw("</div>\n");
        }
        self.sides(&mut p);
        self.table(&mut p);
        p.section("machine", "Machines");
        if self.machine.is_empty() {
            let known = "All known facts of the machines are the same.";
            p.element("p", if self.same_machine { known } else { "The machine of a side is not known." });
        } else {
            p.table("Facts that differ", &["Fact", "A", "B"]);
            let left = rows(&mut p, &self.machine, ROWS_MAX, |p, Difference { name, a, b }| {
                let shown = |fact: &Option<String>| fact.as_deref().map_or_else(|| NOTHING.to_owned(), short);
                p.row(&[("", &short(name)), ("text", &shown(a)), ("text", &shown(b))]);
            });
            p.end_table();
            left_out(&mut p, left, "fact", "the JSON has all");
        }
        p.finish("strowger lab")
    }

    fn sides(&self, p: &mut Page) {
        p.table("The two", &["", "Verdict", "Question and answer", "Experiment", "#Runs that count"]);
        for (name, side) in [("A", &self.a), ("B", &self.b)] {
            cells(
                p,
                &[
                    Cell::Text("", name),
                    Cell::Text(&format!("word {}", class(&side.verdict)), &cut(&side.verdict, 40)),
                    Cell::Text("text", &format!("{} {}", short(&side.question), short(&side.reason))),
                    Cell::Text("file", &cut(&side.experiment, 80)),
                    Cell::Text("n", &format!("{} of {}", side.counted, side.made)),
                ],
            );
        }
        p.end_table();
    }

    fn table(&self, p: &mut Page) {
        p.section("figures", "Figures");
        if self.figures.is_empty() {
            p.element("p", "Neither has figures.");
            return;
        }
        p.element("p", METHOD);
        p.table(
            "Medians over blocks with their intervals; the upper bar is A, the lower one B",
            &["Figure", "#A", "#B", "#Change", "What it says", ""],
        );
        let left = rows(p, &self.figures, ROWS_MAX, |p, row| {
            let class = match (self.same_machine, row.better) {
                (true, Some(true)) => "text yes",
                (true, Some(false)) => "text no",
                _ => "text",
            };
            let name = format!("{} of {}", short(&row.quantity), short(&row.subject));
            cells(
                p,
                &[
                    Cell::Two("at", &name, &factors(&row.factors)),
                    Cell::Two("n", &value(row.a.0, &row.unit), &range(row.a.1, &row.unit)),
                    Cell::Two("n", &value(row.b.0, &row.unit), &range(row.b.1, &row.unit)),
                    Cell::Text("n", &change(row)),
                    Cell::Text(class, self.words(row)),
                    Cell::Drawing(&drawing(row)),
                ],
            );
        });
        p.end_table();
        left_out(p, left, "figure", "the JSON has all");
    }

    /// For a terminal, in at most 100 columns.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (name, side) in [("A", &self.a), ("B", &self.b)] {
            let says = format!("{}: {}", short(&side.verdict), short(&side.reason));
            let runs = format!("{} of {} count", side.counted, count(side.made, "run"));
            line(&mut out, &format!("{name}: "), &format!("{} {says}", short(&side.question)));
            line(&mut out, "   ", &format!("experiment {}, {runs}", cut(&side.experiment, 80)));
        }
        self.warnings().iter().for_each(|warning| line(&mut out, "WARNING: ", warning));
        if !self.machine.is_empty() {
            heading(&mut out, "Facts of the machines that differ");
            for Difference { name, a, b } in self.machine.iter().take(ROWS_MAX) {
                let shown = |fact: &Option<String>| fact.as_deref().map_or_else(|| NOTHING.to_owned(), short);
                line(&mut out, "  ", &format!("{}: A {}; B {}", short(name), shown(a), shown(b)));
            }
        }
        if self.figures.is_empty() {
            return out;
        }
        heading(&mut out, "Figures");
        for row in self.figures.iter().take(ROWS_MAX) {
            let at =
                if row.factors.is_empty() { String::new() } else { format!(" [{}]", factors(&row.factors)) };
            line(&mut out, "  ", &format!("{} of {}{at}", short(&row.quantity), short(&row.subject)));
            let (a, b) = (figure(row.a, &row.unit), figure(row.b, &row.unit));
            line(&mut out, "    ", &format!("A {a}; B {b}; {}", change(row)));
            line(&mut out, "    ", self.words(row));
        }
        let _ = writeln!(out);
        line(&mut out, "", METHOD);
        out
    }
}

const METHOD: &str = "A and B were not measured within the same blocks, so a machine that changed between them shows \
                      as a difference. An experiment with both as systems decides.";

/// What to call a side in a title.
fn name(side: &Side) -> String {
    cut(if side.question.is_empty() { &side.experiment } else { &side.question }, 120)
}

fn figure((median, ends): (Option<f64>, Option<(f64, f64)>), unit: &str) -> String {
    match ends {
        None => value(median, unit),
        ends => format!("{} ({})", value(median, unit), interval(ends, unit)),
    }
}

/// The interval; empty if there is none.
fn range(ends: Option<(f64, f64)>, unit: &str) -> String {
    ends.map_or_else(String::new, |ends| interval(Some(ends), unit))
}

fn change(row: &FigureRow) -> String {
    row.change_percent.map_or_else(|| NOTHING.to_owned(), |percent| format!("{percent:+.1} %"))
}

/// Both intervals, on one scale.
fn drawing(row: &FigureRow) -> String {
    let bar = |(measured, interval)| Bar { interval, measured, ..Bar::default() };
    let (a, b) = (bar(row.a), bar(row.b));
    let Some(range) = Range::over(a.numbers().chain(b.numbers())) else { return String::new() };
    range.svg(&a) + &range.svg(&b)
}
