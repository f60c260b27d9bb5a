//! What went wrong: void runs by reason, failed calls, the first flows that failed.

use std::collections::BTreeMap;

use load::report::number;
use load::report::svg::Page;

use super::groups::Combination;
use super::page::{Cell, cells, left_out, rows};
use super::words::{count, cut, factors, short};
use crate::outcome::Outcome;
use crate::record::RunRecord;

/// Reasons, counters and flows shown of each kind.
const LINES_MAX: usize = 60;
const FLOWS_MAX: usize = 6;
/// Characters of the drawing of a flow.
const DRAWING_MAX: usize = 6_000;

/// How often something was said, and by which run first.
type Said = BTreeMap<String, (usize, String)>;

/// All that a sceptic looks for first.
pub(super) fn wrong(
    p: &mut Page,
    outcome: &Outcome,
    records: &[RunRecord],
    combinations: &[Combination<'_>],
) {
    p.section("wrong", "What went wrong");
    let before = p.out.len();
    let (mut void, mut notes) = (Said::new(), Said::new());
    for run in &outcome.runs {
        run.void.iter().for_each(|why| say(&mut void, why, &run.id));
        run.notes.iter().for_each(|why| say(&mut notes, why, &run.id));
    }
    for record in records {
        let verdict = &record.load.verdict;
        if verdict.word == "FAIL" {
            verdict
                .why
                .iter()
                .for_each(|why| say(&mut notes, &format!("FAIL of a run: {why}"), &record.run.id));
        }
    }
    said(p, "Why runs are void", &void);
    said(p, "What is worth knowing of runs", &notes);
    counters(p, combinations);
    flows(p, records);
    if p.out.len() == before {
        p.element(
            "p",
            match records.is_empty() {
                true => "There are no runs.",
                false => "Nothing: every run counts, no call failed, and no run has a note.",
            },
        );
    }
}

/// The same words with other numbers are one reason.
fn say(all: &mut Said, text: &str, run: &str) {
    let mut key = String::new();
    for part in short(text).split_inclusive(|c: char| !c.is_ascii_digit() && c != '.') {
        let number = part.trim_end_matches(|c: char| !c.is_ascii_digit() && c != '.');
        if !number.is_empty() {
            key.push('#');
        }
        key.push_str(&part[number.len()..]);
    }
    let entry = all.entry(key).or_insert_with(|| (0, format!("{}\n{}", short(text), short(run))));
    entry.0 += 1;
}

fn said(p: &mut Page, caption: &str, all: &Said) {
    if all.is_empty() {
        return;
    }
    let mut lines: Vec<&(usize, String)> = all.values().collect();
    lines.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    p.table(caption, &["#Runs", "What, in the words of the first", "First run"]);
    let left = rows(p, lines, LINES_MAX, |p, (times, text)| {
        let (what, run) = text.rsplit_once('\n').unwrap_or((text, ""));
        p.row(&[("n", &times.to_string()), ("text", what), ("file", run)]);
    });
    p.end_table();
    left_out(p, left, "reason", "the JSON has all");
}

/// Counters of failures in the measurements of the runs that count.
fn counters(p: &mut Page, combinations: &[Combination<'_>]) {
    let is_failure = |key: &str| {
        ["calls.failed.", "callee_calls.failed.", "unexpected.", "requests_repeated."]
            .iter()
            .any(|prefix| key.starts_with(prefix))
    };
    let mut sums = Vec::new();
    for combination in combinations {
        for group in &combination.groups {
            let mut own: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
            for (key, n) in group.runs.iter().flat_map(|run| &run.load.measured) {
                if is_failure(key) && *n > 0 {
                    let sum = own.entry(key).or_default();
                    *sum = (sum.0.saturating_add(*n), sum.1 + 1);
                }
            }
            sums.extend(own.into_iter().map(|(key, sum)| (group, combination.factors, key, sum)));
        }
    }
    if sums.is_empty() {
        return;
    }
    p.table("Failures and repetitions in runs that count", &["System", "What", "#Count", "#In runs"]);
    let left = rows(p, sums, LINES_MAX, |p, (group, facts, key, (sum, runs))| {
        cells(
            p,
            &[
                Cell::Two("at", &short(&group.subject), &factors(facts)),
                Cell::Text("", &short(key)),
                Cell::Text("n", &number(sum as f64)),
                Cell::Text("n", &format!("{runs} of {}", group.runs.len())),
            ],
        );
    });
    p.end_table();
    left_out(p, left, "counter", "the archives have all");
}

/// The first flow of each kind of failure.
fn flows(p: &mut Page, records: &[RunRecord]) {
    let mut kinds: BTreeMap<(String, &str), usize> = BTreeMap::new();
    let mut first = Vec::new();
    for record in records {
        for flow in &record.load.ladders {
            let times = kinds.entry((record.subject(), &flow.why)).or_default();
            *times += 1;
            if *times == 1 {
                first.push((record, flow));
            }
        }
    }
    if first.is_empty() {
        return;
    }
    p.element("h3", "First call flows that failed");
    let left = rows(p, &first, FLOWS_MAX, |p, (record, flow)| {
        p.raw("<details><summary>");
        let times = kinds.get(&(record.subject(), flow.why.as_str())).copied().unwrap_or(1);
        let kept = count(times, "flow");
        p.text(&short(&format!("{}: {} ({kept}; run {})", record.subject(), flow.why, record.run.id)));
        p.raw("</summary><pre tabindex=\"0\">");
        p.text(&cut(&flow.drawing, DRAWING_MAX));
        p.raw("</pre></details>\n");
    });
    left_out(p, left, "kind", "the archives have all");
}
