//! The claims and the A/A control as tables.

use load::report::svg::Page;

use super::bars::{Bar, Range};
use super::page::{Cell, cells, left_out, rows};
use super::words::{class, factors, interval, percent, short, value};
use crate::outcome::{ClaimOutcome, Control, Outcome};

/// Rows of a table.
const ROWS_MAX: usize = 300;

/// A row for each claim.
pub(super) fn claims(p: &mut Page, outcome: &Outcome) {
    p.section("claims", "Claims");
    if outcome.claims.is_empty() {
        p.element("p", "The experiment claims nothing.");
        return;
    }
    p.table(
        "In the drawings, the bar is the interval, the line across it the figure, the dashed line the limit; within \
         the grey area there is no difference",
        &["Claim", "Verdict", "#Measured", "#Interval", "#Limit", ""],
    );
    let left = rows(p, &outcome.claims, ROWS_MAX, row);
    p.end_table();
    left_out(p, left, "claim", "the JSON has all");
}

/// A difference of this many percent in both directions, as factors around 1.
fn around_one(floor_percent: Option<f64>) -> Option<(f64, f64)> {
    let floor = 1.0 + floor_percent.filter(|v| v.is_finite())? / 100.0;
    (floor >= 1.0).then(|| (1.0 / floor, floor))
}

fn row(p: &mut Page, claim: &ClaimOutcome) {
    let compares = claim.unit == "x";
    let bar = Bar {
        interval: claim.interval,
        measured: claim.measured,
        limit: Some(claim.limit),
        floor: around_one(claim.floor_percent).filter(|_| compares),
        values: &[],
    };
    let numbers = bar.numbers().chain(compares.then_some(1.0));
    let drawing = Range::over(numbers).map(|range| range.svg(&bar)).unwrap_or_default();
    let mut sentence = short(&claim.claim);
    if !claim.factors.is_empty() {
        sentence = format!("{sentence}, at {}", factors(&claim.factors));
    }
    cells(
        p,
        &[
            Cell::Two("text", &sentence, &why(claim)),
            Cell::Text(&format!("word {}", class(&claim.verdict)), &claim.verdict),
            Cell::Text("n", &value(claim.measured, &claim.unit)),
            Cell::Text("n", &interval(claim.interval, &claim.unit)),
            Cell::Text("n", &value(Some(claim.limit), &claim.unit)),
            Cell::Drawing(&drawing),
        ],
    );
}

/// Why a verdict is as it is, from how many blocks, and what may help.
pub(super) fn why(claim: &ClaimOutcome) -> String {
    let mut out = short(&claim.reason);
    let mut add = |text: String| {
        if !out.is_empty() {
            out.push_str("; ");
        }
        out.push_str(&text);
    };
    if claim.interval.is_some() {
        add(super::words::count(claim.blocks, "block"));
    }
    if claim.floor_percent.is_some() {
        add(format!("the least difference that may be claimed is {}", percent(claim.floor_percent)));
    }
    if let Some(more) = claim.more {
        add(format!("about {more} more blocks may decide"));
    }
    out
}

/// How much runs differ by themselves; empty if that is not known.
pub(super) fn spread(control: &Control) -> String {
    let known = control.spread_percent.is_some();
    if known { format!("runs spread by {}", percent(control.spread_percent)) } else { String::new() }
}

/// A row for each figure of each system that was measured twice in a block.
pub(super) fn controls(p: &mut Page, outcome: &Outcome) {
    p.section("control", "Control: a system against itself");
    if outcome.controls.is_empty() {
        p.element(
            "p",
            "No block counts in which a system ran twice, so the noise of the machine is not known.",
        );
        return;
    }
    p.element(
        "p",
        "The second copy divided by the first: 1 if the machine were perfect. A smaller difference than the last \
         column between two systems is no difference.",
    );
    p.table(
        "Second copy against the first",
        &["System", "Figure", "#Ratio", "#Interval", "", "#Least difference"],
    );
    let bar = |control: &Control| Bar {
        interval: control.interval,
        measured: control.ratio,
        limit: None,
        floor: around_one(control.floor_percent),
        values: &[],
    };
    let numbers = outcome.controls.iter().flat_map(|c| bar(c).numbers().collect::<Vec<_>>());
    let range = Range::over(numbers.chain(std::iter::once(1.0)));
    let left = rows(p, &outcome.controls, ROWS_MAX, |p, control| {
        let drawing = range.map(|range| range.svg(&bar(control))).unwrap_or_default();
        let least = match control.floor_percent {
            None => "too few blocks".to_owned(),
            least => percent(least),
        };
        cells(
            p,
            &[
                Cell::Two("at", &short(&control.system), &factors(&control.factors)),
                Cell::Text("", &short(&control.quantity)),
                Cell::Text("n", &value(control.ratio, "x")),
                Cell::Text("n", &interval(control.interval, "x")),
                Cell::Drawing(&drawing),
                Cell::Two("n", &least, &spread(control)),
            ],
        );
    });
    p.end_table();
    left_out(p, left, "control", "the JSON has all");
}
