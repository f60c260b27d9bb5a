//! The essence of an outcome for a terminal.

use std::fmt::Write as _;

use load::report::plain;

use super::claims::{spread, why};
use super::figures::{pooled, quantities};
use super::page::{answer, counted, title, word};
use super::words::{count, factors, interval, percent, short, value};
use crate::outcome::{Figure, Outcome};

/// Columns of the terminal.
pub(super) const COLUMNS: usize = 100;
/// Lines of a part; more are on the page.
const LINES_MAX: usize = 60;

/// The outcome in at most 100 columns: the verdict and why, claims, control, figures, void runs.
pub fn text(outcome: &Outcome) -> String {
    let mut out = String::new();
    line(&mut out, "", &title(outcome));
    line(&mut out, "", &format!("{}: {}", word(outcome), answer(outcome)));
    line(&mut out, "", &counted(outcome));
    outcome.notes.iter().take(LINES_MAX).for_each(|note| line(&mut out, "note: ", &short(note)));
    claims(&mut out, outcome);
    super::papers::of_text(&mut out, outcome);
    controls(&mut out, outcome);
    figures(&mut out, outcome);
    void(&mut out, outcome);
    out
}

/// Adds a text that begins with `first` and goes on below its end; long words are broken.
pub(super) fn line(out: &mut String, first: &str, text: &str) {
    // What came from outside neither steers the terminal nor breaks the layout.
    let text = plain(text);
    // A number and its percent sign stay together.
    let text = text.replace(" %", "%");
    let indent = first.chars().count().min(COLUMNS / 2);
    let mut now: String = first.to_owned();
    let mut used = indent;
    let mut empty = true;
    for word in text.split_whitespace() {
        let mut word = word;
        loop {
            let length = word.chars().count();
            let gap = usize::from(!empty);
            if used + gap + length <= COLUMNS {
                if gap > 0 {
                    now.push(' ');
                }
                now.push_str(word);
                used += gap + length;
                empty = false;
                break;
            }
            if empty {
                let at = word.char_indices().nth(COLUMNS - used).map_or(word.len(), |(at, _)| at);
                let (head, rest) = word.split_at(at);
                now.push_str(head);
                word = rest;
            }
            let _ = writeln!(out, "{}", now.trim_end());
            now = " ".repeat(indent);
            used = indent;
            empty = true;
        }
    }
    let _ = writeln!(out, "{}", now.trim_end());
}

/// The heading of a part.
pub(super) fn heading(out: &mut String, text: &str) {
    let _ = writeln!(out, "\n{text}");
}

fn more(out: &mut String, all: usize, what: &str) {
    if all > LINES_MAX {
        line(out, "  ", &format!("{} are on the page", count(all - LINES_MAX, what)));
    }
}

fn at(facts: &[load::report::Fact]) -> String {
    if facts.is_empty() { String::new() } else { format!(" [{}]", factors(facts)) }
}

fn claims(out: &mut String, outcome: &Outcome) {
    if outcome.claims.is_empty() {
        return;
    }
    heading(out, "Claims");
    for claim in outcome.claims.iter().take(LINES_MAX) {
        let first = format!("  {}: ", plain(&super::words::cut(&claim.verdict, 24)));
        line(out, &first, &format!("{}{}", short(&claim.claim), at(&claim.factors)));
        let figure = format!(
            "measured {} ({}), limit {}",
            value(claim.measured, &claim.unit),
            interval(claim.interval, &claim.unit),
            value(Some(claim.limit), &claim.unit)
        );
        line(out, "    ", &figure);
        line(out, "    ", &why(claim));
    }
    more(out, outcome.claims.len(), "more claim");
}

fn controls(out: &mut String, outcome: &Outcome) {
    if outcome.controls.is_empty() {
        return;
    }
    heading(out, "Control: the second copy of a system against the first");
    for control in outcome.controls.iter().take(LINES_MAX) {
        let least = match control.floor_percent {
            None => "too few blocks for a least difference".to_owned(),
            least => format!("least difference {}", percent(least)),
        };
        let spread = spread(control);
        let spread = if spread.is_empty() { spread } else { format!(", {spread}") };
        let figure = format!(
            "{}, {}{}: {} ({}), {least}{spread}",
            short(&control.system),
            short(&control.quantity),
            at(&control.factors),
            value(control.ratio, "x"),
            interval(control.interval, "x")
        );
        line(out, "  ", &figure);
    }
    more(out, outcome.controls.len(), "more control");
}

fn figures(out: &mut String, outcome: &Outcome) {
    if outcome.figures.is_empty() {
        return;
    }
    heading(out, "Figures: the median over blocks (its interval)");
    let mut left = LINES_MAX;
    for (quantity, unit) in quantities(&outcome.figures) {
        let of_it: Vec<&Figure> = outcome.figures.iter().filter(|f| f.quantity == quantity).collect();
        if left == 0 {
            break;
        }
        line(out, "  ", &short(quantity));
        let names: Vec<String> =
            of_it.iter().map(|f| plain(&format!("{}{}", short(&f.subject), at(&f.factors)))).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(58);
        for (figure, name) in of_it.iter().zip(&names).take(left) {
            let have = figure.values.iter().flatten().count();
            let pooled = pooled(figure);
            let values = format!(
                "{} ({}), {}{}{pooled}",
                value(figure.median, unit),
                interval(figure.interval, unit),
                count(have, "block"),
                if pooled.is_empty() { "" } else { "; " }
            );
            // A name that is too long has a line of its own.
            if name.chars().count() > width {
                line(out, "    ", name);
                line(out, "      ", &values);
            } else {
                line(out, &format!("    {name:width$}  "), &values);
            }
        }
        left = left.saturating_sub(of_it.len());
    }
    more(out, outcome.figures.len(), "more figure");
}

fn void(out: &mut String, outcome: &Outcome) {
    let void: Vec<_> = outcome.runs.iter().filter(|run| !run.void.is_empty()).collect();
    if void.is_empty() {
        return;
    }
    heading(out, &format!("Void: {} of {}", count(void.len(), "run"), outcome.runs.len()));
    for run in void.iter().take(LINES_MAX) {
        let name = format!("block {}, {}{}", run.block, short(&run.subject), at(&run.factors));
        line(out, "  ", &format!("{name}: {}", short(&run.void.join("; "))));
    }
    more(out, void.len(), "more void run");
}
