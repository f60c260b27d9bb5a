//! Every run in a table.

use load::report::svg::Page;

use super::page::{Cell, cells, left_out, rows};
use super::words::{count, factors, short};
use crate::outcome::Outcome;

/// Rows of the table.
const ROWS_MAX: usize = 1_500;

/// A row for each run, in the order in which they were made.
pub(super) fn runs(p: &mut Page, outcome: &Outcome) {
    p.section("runs", "Runs");
    if outcome.runs.is_empty() {
        p.element("p", &format!("No run was made; {} planned.", are(outcome.planned)));
        return;
    }
    p.table(
        "In the order in which they were made",
        &["#Block", "System", "Counts", "Why not, and what is worth knowing", "Archive and name"],
    );
    let left = rows(p, &outcome.runs, ROWS_MAX, |p, run| {
        let state = if run.void.is_empty() { ("yes", "yes") } else { ("no", "void") };
        let words: Vec<&str> = run.void.iter().chain(&run.notes).map(String::as_str).collect();
        cells(
            p,
            &[
                Cell::Text("n", &run.block.to_string()),
                Cell::Two("at", &short(&run.subject), &factors(&run.factors)),
                Cell::Text(state.0, state.1),
                Cell::Text("text", &short(&words.join("; "))),
                Cell::Two("file", &short(&run.archive), &short(&run.id)),
            ],
        );
    });
    p.end_table();
    left_out(p, left, "run", "the JSON has all");
    let missing = outcome.planned.saturating_sub(outcome.runs.len());
    if missing > 0 {
        p.element("p", &format!("{} of {} were not made.", count(missing, "planned run"), outcome.planned));
    }
}

fn are(n: usize) -> String {
    format!("{} {}", count(n, "run"), if n == 1 { "was" } else { "were" })
}
