//! The page of an experiment.

use load::report::Fact;
use load::report::svg::{Page, escape, quoted};
use load::scenario::date_time;

use super::words::{class, count, cut, meaning, short};
use super::{
    associations, checks, claims, costs, distribution, figures, groups, occupancy, papers, runs, series,
    wrong,
};
use crate::outcome::Outcome;
use crate::record::RunRecord;

const STYLE: &str = include_str!("style.css");
/// Two plots stand beside each other.
pub(super) const PLOT_WIDTH: f64 = 470.0;
/// Bytes of the page up to which plots are drawn. The tables after them need the rest of 2 MB.
const PLOTS_MAX: usize = 1_000_000;
/// Bytes of the page up to which tables get rows. What follows them has limits of its own.
const ROWS_BYTES_MAX: usize = 1_500_000;
/// Notes and facts shown.
const LINES_MAX: usize = 60;
/// Characters of a question.
const QUESTION_MAX: usize = 1_000;

/// A cell of a table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cell<'a> {
    /// Style class and text.
    Text(&'a str, &'a str),
    /// Style class, text, and more text below it.
    Two(&'a str, &'a str, &'a str),
    /// Markup of our own.
    Drawing(&'a str),
}

/// A row of a table that may hold drawings.
pub(super) fn cells(p: &mut Page, all: &[Cell<'_>]) {
    p.raw("<tr>");
    for cell in all {
        match cell {
            Cell::Text("", text) => p.raw(&format!("<td>{}</td>", escape(text))),
            Cell::Text(class, text) => p.raw(&format!("<td class=\"{class}\">{}</td>", escape(text))),
            // Without factors there is no need for their width.
            Cell::Two("at", text, "") => p.raw(&format!("<td>{}</td>", escape(text))),
            Cell::Two(class, text, "") => p.raw(&format!("<td class=\"{class}\">{}</td>", escape(text))),
            Cell::Two(class, text, more) => {
                let (text, more) = (escape(text), escape(more));
                p.raw(&format!("<td class=\"{class}\">{text}<p class=\"dim\">{more}</p></td>"));
            }
            Cell::Drawing(markup) => p.raw(&format!("<td class=\"drawing\">{markup}</td>")),
        }
    }
    p.raw("</tr>\n");
}

/// Whether the page has room for more plots.
pub(super) fn has_room(p: &Page) -> bool {
    p.out.len() < PLOTS_MAX
}

/// Writes at most `most` rows, as far as there is room; how many are left out.
pub(super) fn rows<T>(
    p: &mut Page,
    all: impl IntoIterator<Item = T>,
    most: usize,
    mut write: impl FnMut(&mut Page, T),
) -> usize {
    let mut left_out = 0;
    for (nth, row) in all.into_iter().enumerate() {
        if nth < most && fits(p) {
            write(p, row);
        } else {
            left_out += 1;
        }
    }
    left_out
}

/// Whether a table may have one more row.
pub(super) fn fits(p: &Page) -> bool {
    p.out.len() < ROWS_BYTES_MAX
}

/// Says how many are missing, and where they are.
pub(super) fn left_out(p: &mut Page, n: usize, what: &str, place: &str) {
    if n > 0 {
        p.element("p", &format!("{} more not on this page; {place}.", count(n, what)));
    }
}

/// The page: one self-contained file without scripts. Everything that came from outside is escaped.
pub fn html(outcome: &Outcome, records: &[RunRecord]) -> String {
    let question = title(outcome);
    let mut p = Page::styled(&format!("{}: {}", word(outcome), cut(&question, 200)), STYLE);
    head(&mut p, outcome, records, &question);
    let combinations = groups::combinations(outcome, records);
    // The contents come before what they lead to, and lead only to what is there.
    let start = p.out.len();
    claims::claims(&mut p, outcome);
    papers::papers(&mut p, outcome);
    claims::controls(&mut p, outcome);
    figures::figures(&mut p, outcome);
    associations::associations(&mut p, &combinations);
    distribution::distributions(&mut p, &combinations);
    occupancy::occupancy(&mut p, &combinations);
    series::series(&mut p, &combinations);
    costs::costs(&mut p, &combinations);
    checks::checks(&mut p, records);
    runs::runs(&mut p, outcome);
    wrong::wrong(&mut p, outcome, records, &combinations);
    machine(&mut p, outcome, records);
    repeat(&mut p, outcome, records);
    let body = p.out.split_off(start);
    contents(&mut p, &body);
    p.raw(&body);
    p.finish(&program(records))
}

/// The question, or what stands in its place.
pub(super) fn title(outcome: &Outcome) -> String {
    let question = outcome.question.trim();
    if question.is_empty() {
        "An experiment without a question".to_owned()
    } else {
        cut(question, QUESTION_MAX)
    }
}

/// The verdict; an outcome that has none says nothing.
pub(super) fn word(outcome: &Outcome) -> &str {
    if outcome.verdict.is_empty() { "VOID" } else { &outcome.verdict }
}

/// The answer in a sentence.
pub(super) fn answer(outcome: &Outcome) -> String {
    let reason = outcome.reason.trim();
    if reason.is_empty() { meaning(word(outcome)).to_owned() } else { cut(reason, QUESTION_MAX) }
}

/// How many of the runs count.
pub(super) fn counted(outcome: &Outcome) -> String {
    let good = outcome.runs.iter().filter(|run| run.void.is_empty()).count();
    let planned = outcome.planned.max(outcome.runs.len());
    format!("{good} of {} count", count(planned, "run"))
}

fn head(p: &mut Page, outcome: &Outcome, records: &[RunRecord], question: &str) {
    p.raw("<header>");
    p.element("h1", question);
    p.raw("<p class=\"dim\">");
    let mut parts = Vec::new();
    if !outcome.experiment.is_empty() {
        parts.push(format!("Experiment {}", cut(&outcome.experiment, 80)));
    }
    parts.push(counted(outcome));
    let started = || records.iter().map(|record| record.run.started).filter(|at| *at > 0);
    if let (Some(first), Some(last)) = (started().min(), started().max()) {
        let date = |seconds: u64| date_time(seconds.saturating_mul(1_000_000));
        parts.push(format!("first run {}, last run {}", date(first), date(last)));
    }
    p.text(&parts.join("; "));
    p.raw("</p></header>\n<main id=\"main\">\n");
    let word = word(outcome);
    p.raw(&format!("<div class=\"verdict {}\" role=\"status\"><strong>", class(word)));
    p.text(&cut(word, 80));
    p.raw("</strong><p>");
    p.text(&answer(outcome));
    p.raw("</p></div>\n");
    let notes: Vec<String> = outcome.notes.iter().take(LINES_MAX).map(|note| short(note)).collect();
    p.list(&notes);
}

/// Links to the sections of a page's body.
fn contents(p: &mut Page, body: &str) {
    let mut sections: Vec<(&str, &str)> = Vec::new();
    for heading in body.split("<h2 id=\"").skip(1) {
        if let Some((id, title)) = heading.split_once("</h2>").and_then(|(h, _)| h.split_once("\">")) {
            sections.push((id, title));
        }
    }
    p.contents(&sections);
}

fn program(records: &[RunRecord]) -> String {
    let programs = records.iter().map(|record| record.load.program.as_str());
    let first = programs.into_iter().find(|program| !program.is_empty());
    first.map_or_else(|| "strowger lab".to_owned(), |program| cut(program, 80))
}

/// Facts of bounded number and length.
fn bounded(facts: &[Fact]) -> Vec<Fact> {
    let few = facts.iter().take(LINES_MAX);
    few.map(|fact| Fact::new(short(&fact.name), short(&fact.value))).collect()
}

fn machine(p: &mut Page, outcome: &Outcome, records: &[RunRecord]) {
    p.section("machine", "Machine and programs");
    if outcome.machine.is_empty() {
        p.element("p", "Nothing is known of the machine.");
    }
    p.facts("The machine", &bounded(&outcome.machine));
    let changed: Vec<String> = records
        .iter()
        .filter(|record| !outcome.machine.is_empty() && record.machine != outcome.machine)
        .map(|record| short(&record.run.id))
        .collect();
    if !changed.is_empty() {
        let few = changed.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        let many = count(changed.len(), "run");
        p.element("p", &format!("The machine was not the same in {many}: {few}"));
    }
    let mut shown: Vec<&str> = Vec::new();
    for record in records {
        if shown.contains(&record.run.system.as_str()) || !fits(p) {
            continue;
        }
        shown.push(&record.run.system);
        let name = short(&record.run.system);
        p.facts(&format!("Program of {name}"), &bounded(&record.program));
        let differs = differing(record, records);
        if !differs.is_empty() {
            p.element("p", &format!("Not the same in all runs of {name}: {}.", short(&differs.join(", "))));
        }
    }
}

/// Facts of a program that other runs of the same system have otherwise. Arguments have the addresses and
/// folders of a run in them, so they always differ.
fn differing<'a>(first: &'a RunRecord, records: &[RunRecord]) -> Vec<&'a str> {
    let others: Vec<&RunRecord> =
        records.iter().filter(|record| record.run.system == first.run.system).collect();
    let differs = |fact: &&Fact| fact.name != "arguments" && others.iter().any(|o| !o.program.contains(fact));
    first.program.iter().filter(differs).map(|fact| fact.name.as_str()).collect()
}

fn repeat(p: &mut Page, outcome: &Outcome, records: &[RunRecord]) {
    p.section("repeat", "Repeat it");
    let counts = outcome.runs.iter().filter(|run| run.void.is_empty() && !run.archive.is_empty());
    let any = outcome.runs.iter().find(|run| !run.archive.is_empty());
    let Some(run) = counts.into_iter().next().or(any) else {
        p.element("p", "No run has an archive, so there is nothing to repeat from.");
        return;
    };
    p.element(
        "p",
        "The same file with the same seed and programs is the same experiment and gets the same digest. One run again, \
         from its archive:",
    );
    command(p, &["strowger".to_owned(), "lab".to_owned(), "reproduce".to_owned(), run.archive.clone()]);
    let Some(record) = records.iter().find(|record| record.run.id == run.id) else { return };
    if !record.load.command.is_empty() {
        p.element("p", &format!("The generator of this run, with the seed {}:", record.run.seed));
        command(p, &record.load.command);
    }
}

fn command(p: &mut Page, words: &[String]) {
    p.raw("<pre class=\"wrap\">");
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    p.text(&cut(&words.join(" "), 4_000));
    p.raw("</pre>\n");
}
