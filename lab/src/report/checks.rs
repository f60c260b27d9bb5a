//! What was seen of the runs beside their figures: packets by the witness, captures, round trips.

use std::collections::BTreeMap;

use load::report::number;
use load::report::svg::Page;

use super::page::{Cell, cells, left_out, rows};
use super::words::{NOTHING, short};
use crate::checks::Checks;
use crate::record::RunRecord;

/// Rows of a table.
const ROWS_MAX: usize = 300;

/// A row for each run, and what could not be seen.
pub(super) fn checks(p: &mut Page, records: &[RunRecord]) {
    let seen: Vec<&RunRecord> = records.iter().filter(|run| run.checks != Checks::default()).collect();
    if seen.is_empty() {
        return;
    }
    p.section("checks", "Checks");
    p.table(
        "Each run: packets between generator and system by the generator and by the witness, captures before and after \
         (packets; repeated messages; errors), round trips to the system before and after (least; median; lost)",
        &["Run", "#Messages", "#Packets", "Captures", "Round trips"],
    );
    let left = rows(p, seen.iter().copied(), ROWS_MAX, row);
    p.end_table();
    left_out(p, left, "run", "the archives have all");
    let mut unseen: BTreeMap<&str, usize> = BTreeMap::new();
    for why in seen.iter().flat_map(|run| &run.checks.unobserved) {
        *unseen.entry(why).or_default() += 1;
    }
    if unseen.is_empty() {
        return;
    }
    p.table("What was not observed", &["#Runs", "What, and why not"]);
    let left = rows(p, unseen, ROWS_MAX, |p, (why, runs)| {
        p.row(&[("n", &runs.to_string()), ("text", &short(why))]);
    });
    p.end_table();
    left_out(p, left, "line", "the archives have all");
}

fn row(p: &mut Page, run: &RunRecord) {
    let checks = &run.checks;
    let witness = checks.witness.map(|seen| (number(seen.counted() as f64), number(seen.packets as f64)));
    let (messages, packets) = witness.unwrap_or_else(|| (NOTHING.to_owned(), NOTHING.to_owned()));
    let captures: Vec<String> = checks
        .captures
        .iter()
        .map(|capture| {
            format!("{}: {}; {}; {}", capture.file, capture.packets, capture.repeated, capture.errors)
        })
        .collect();
    let times: Vec<String> = checks
        .connectivity
        .iter()
        .map(|asked| {
            let ms = |time: Option<f64>| time.map_or_else(|| NOTHING.to_owned(), |ms| format!("{ms:.3} ms"));
            let lost = format!("{} of {}", asked.lost, asked.sent);
            format!("{}, {}: {}; {}; {lost}", asked.when, asked.by, ms(asked.min), ms(asked.median))
        })
        .collect();
    cells(
        p,
        &[
            Cell::Two("at", &short(&run.subject()), &short(&run.run.id)),
            Cell::Text("n", &messages),
            Cell::Text("n", &packets),
            Cell::Text("text", &short(&captures.join(", "))),
            Cell::Text("text", &short(&times.join(", "))),
        ],
    );
}
