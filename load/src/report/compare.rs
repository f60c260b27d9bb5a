//! Two runs, or two groups of repetitions, side by side.
//!
//! Calls within a run are not independent (they share a server, its caches and its bad moments), so the
//! spread within a run says little about what another run would give. What can be said about a difference
//! comes from repeating whole runs: each run gives one value of each figure, and Welch's t makes the
//! interval of the difference of the means. It assumes that runs are independent and that their values
//! are about normal; it does not assume equal spread. With one run on either side there is no statement,
//! and this says so.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

use super::format::round;
use super::model::{Better, Fact, MetricRow, Report};
use super::sides::{against_load, found};
use super::stats::{holm, moments, welch};
use super::summary::figures;

/// Repetitions of one run.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// For people: the file or directory it came from.
    pub name: String,
    /// The runs.
    pub reports: Vec<Report>,
}

/// What can be said about one difference.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Statement {
    /// Nothing, and why.
    None {
        /// The reason.
        why: String,
    },
    /// Every run of both groups gave the same value.
    Equal,
    /// A confidence interval of the difference of the means, second minus first.
    Interval {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
        /// Probability of such a difference by chance.
        p: f64,
        /// The interval excludes zero.
        differs: bool,
        /// It still does when it is taken into account how many figures were compared (Holm).
        differs_among_all: bool,
    },
}

/// One figure in both groups.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Key of the figure.
    pub key: String,
    /// For people.
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// Which direction is an improvement.
    pub better: Better,
    /// One value for each run of the first group.
    pub a: Vec<f64>,
    /// One value for each run of the second.
    pub b: Vec<f64>,
    /// Mean of the first.
    pub mean_a: f64,
    /// Mean of the second.
    pub mean_b: f64,
    /// Difference in percent of the first; nothing if that is zero.
    pub change_percent: Option<f64>,
    /// What can be said.
    pub statement: Statement,
}

impl Row {
    /// Does the second do better (`Some(true)`), worse, or can nothing be said?
    pub fn improved(&self) -> Option<bool> {
        let Statement::Interval { differs: true, low, .. } = &self.statement else { return None };
        match self.better {
            Better::Higher => Some(*low > 0.0),
            Better::Lower => Some(*low <= 0.0),
            Better::Neither => None,
        }
    }
}

/// A comparison.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// "strowger-load-comparison".
    pub format: String,
    /// 1.
    pub version: u32,
    /// Name of the first group.
    pub a: String,
    /// Name of the second.
    pub b: String,
    /// Runs of the first that count.
    pub runs_a: usize,
    /// Runs of the second.
    pub runs_b: usize,
    /// Verdicts of all runs of the first, in order.
    pub verdicts_a: Vec<String>,
    /// Verdicts of all runs of the second.
    pub verdicts_b: Vec<String>,
    /// Confidence of the intervals, 0 to 1.
    pub confidence: f64,
    /// How it was done and what that assumes.
    pub method: String,
    /// The result in a few lines.
    #[serde(default)]
    pub summary: Vec<String>,
    /// What speaks against comparing these at all.
    pub warnings: Vec<String>,
    /// The figures.
    pub rows: Vec<Row>,
    /// Response times of each side: (milliseconds, share not larger), all runs together.
    pub curves: Vec<super::model::Curve>,
    /// Of searches: (load, 99th percentile of the response time in ms) of each side, all trials that are
    /// not void. Empty if neither side searched.
    #[serde(default)]
    pub searches: Vec<super::model::Curve>,
    /// Unit of their loads.
    #[serde(default)]
    pub load_unit: String,
    /// What searches of both sides found.
    #[serde(default)]
    pub found: Vec<super::sides::Found>,
    /// Processor time of each side's server against load, percent of one core; empty like `searches`.
    #[serde(default)]
    pub cpu: Vec<super::model::Curve>,
    /// Memory of each side's server against load, MiB.
    #[serde(default)]
    pub memory: Vec<super::model::Curve>,
}

/// Compares two groups. Runs that are VOID or STOPPED are left out. `confidence` is that of the intervals,
/// such as 0.95.
pub fn compare(a: &Group, b: &Group, confidence: f64) -> Comparison {
    let confidence = confidence.clamp(0.5, 0.999);
    let valid = |g: &'_ Group| -> Vec<Report> {
        g.reports.iter().filter(|r| r.verdict.is_statement()).cloned().collect()
    };
    let (in_a, in_b) = (valid(a), valid(b));
    let mut rows = rows(&in_a, &in_b, confidence);
    adjust(&mut rows, 1.0 - confidence);
    let words = |g: &Group| g.reports.iter().map(|r| r.verdict.word.clone()).collect();
    Comparison {
        format: "strowger-load-comparison".to_owned(),
        version: 1,
        a: a.name.clone(),
        b: b.name.clone(),
        runs_a: in_a.len(),
        runs_b: in_b.len(),
        verdicts_a: words(a),
        verdicts_b: words(b),
        confidence,
        method: method(in_a.len(), in_b.len(), confidence),
        summary: super::summary::lines(&rows),
        warnings: warnings(a, b, &in_a, &in_b),
        rows,
        curves: super::compare_view::curves(&a.name, &in_a, &b.name, &in_b),
        searches: super::compare_view::searches(&a.name, &in_a, &b.name, &in_b),
        found: [found(&a.name, &in_a), found(&b.name, &in_b)].concat(),
        cpu: [(a, &in_a), (b, &in_b)]
            .map(|(g, reports)| against_load(&g.name, reports, |t| t.server_cpu_percent))
            .into(),
        memory: [(a, &in_a), (b, &in_b)]
            .map(|(g, reports)| against_load(&g.name, reports, |t| t.server_memory_mib))
            .into(),
        load_unit: {
            let mut trials = in_a.iter().chain(&in_b).flat_map(|r| &r.trials);
            trials.next().map(|t| t.unit.clone()).unwrap_or_default()
        },
    }
}

fn method(a: usize, b: usize, confidence: f64) -> String {
    if a == 0 || b == 0 {
        return "One side has only runs that are VOID or STOPPED: there is nothing to compare.".to_owned();
    }
    if a < 2 || b < 2 {
        return "With one run on a side it is not known how much runs differ by chance, so no statement about \
                the difference is possible. Repeat both (three runs each are the least that is worth the time, \
                five are better), in turns, and compare the groups."
            .to_owned();
    }
    format!(
        "{} % confidence intervals of the difference of means over runs by Welch's t, one value for each run. \
         Assumed: runs are independent and were made in turns, and values of a figure are about normal over \
         runs. Of all figures that do not really differ, {} in 100 show a difference by chance; \"surely\" marks \
         those that differ when all figures are taken together (Holm).",
        round(confidence * 100.0),
        round((1.0 - confidence) * 100.0)
    )
}

fn rows(a: &[Report], b: &[Report], confidence: f64) -> Vec<Row> {
    let [a, b] = [a, b].map(|all| all.iter().map(figures).collect::<Vec<_>>());
    let mut known: Vec<&MetricRow> = Vec::new();
    let mut keys = BTreeSet::new();
    // A figure that the first run has no value of, or does not know, may be in all others.
    for m in a.iter().chain(&b).flatten() {
        if keys.insert(&m.key) {
            known.push(m);
        }
    }
    let mut out = Vec::new();
    for m in known {
        let value = |run: &Vec<MetricRow>| run.iter().find(|own| own.key == m.key)?.value;
        let values = |all: &[Vec<MetricRow>]| -> Vec<f64> { all.iter().filter_map(value).collect() };
        let (of_a, of_b) = (values(&a), values(&b));
        if of_a.is_empty() || of_b.is_empty() {
            continue;
        }
        let (mean_a, mean_b) = (moments(&of_a).0, moments(&of_b).0);
        out.push(Row {
            key: m.key.clone(),
            name: m.name.clone(),
            unit: m.unit.clone(),
            better: m.better,
            mean_a: round(mean_a),
            mean_b: round(mean_b),
            change_percent: (mean_a != 0.0).then(|| round((mean_b - mean_a) * 100.0 / mean_a.abs())),
            statement: statement(&of_a, &of_b, confidence),
            a: of_a,
            b: of_b,
        });
    }
    out
}

fn statement(a: &[f64], b: &[f64], confidence: f64) -> Statement {
    let none = |why: &str| Statement::None { why: why.to_owned() };
    if a.len() < 2 || b.len() < 2 {
        return none("one run");
    }
    if let Some(w) = welch(a, b, confidence) {
        let (low, high) = (w.difference - w.half_width, w.difference + w.half_width);
        let differs = low > 0.0 || high < 0.0;
        return Statement::Interval {
            low: round(low),
            high: round(high),
            p: w.p,
            differs,
            differs_among_all: false,
        };
    }
    if a.first() == b.first() { Statement::Equal } else { none("no spread within either group") }
}

/// Marks what differs when all figures are taken together.
fn adjust(rows: &mut [Row], alpha: f64) {
    let p: Vec<f64> = rows
        .iter()
        .filter_map(|r| if let Statement::Interval { p, .. } = r.statement { Some(p) } else { None })
        .collect();
    let mut sure = holm(&p, alpha).into_iter();
    for r in rows {
        if let Statement::Interval { differs_among_all, .. } = &mut r.statement {
            *differs_among_all = sure.next().unwrap_or(false);
        }
    }
}

/// Where a run does not say it.
const NOT_GIVEN: &str = "not given";

/// What runs say of how they were made, in order: each thing with its different values.
fn said(runs: &[Report]) -> Vec<(String, Vec<String>)> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for (number, r) in runs.iter().enumerate() {
        let facts = |kind: &'static str, of: &[Fact]| {
            of.iter().map(|f| (format!("{kind} {}", f.name), f.value.clone())).collect::<Vec<_>>()
        };
        let mut own = vec![
            ("The workload".to_owned(), r.workload.clone()),
            ("Time compression".to_owned(), r.compression.to_string()),
        ];
        own.extend(facts("Parameter", &r.parameters));
        own.extend(facts("Machine", &r.machine));
        // What only earlier, or only this one says.
        let missing = all.iter().filter(|(what, _)| !own.iter().any(|(known, _)| known == what));
        let missing: Vec<_> = missing.map(|(what, _)| (what.clone(), NOT_GIVEN.to_owned())).collect();
        for (what, value) in own.into_iter().chain(missing) {
            match all.iter_mut().find(|(known, _)| *known == what) {
                Some((_, values)) if values.contains(&value) => {}
                Some((_, values)) => values.push(value),
                None if number == 0 => all.push((what, vec![value])),
                None => all.push((what, vec![NOT_GIVEN.to_owned(), value])),
            }
        }
    }
    all
}

/// By which part of the longer one two windows may differ and be the same: a run ends when it is looked at,
/// and not to the microsecond.
const SAME_WINDOW: f64 = 0.001;

/// A time as people write it.
fn thousandths(seconds: f64) -> f64 {
    (seconds * 1_000.0).round() / 1_000.0
}

fn warnings(a: &Group, b: &Group, in_a: &[Report], in_b: &[Report]) -> Vec<String> {
    let mut out = Vec::new();
    for g in [a, b] {
        for word in ["VOID", "STOPPED"] {
            let left_out = g.reports.iter().filter(|r| r.verdict.word == word).count();
            if left_out > 0 {
                out.push(format!(
                    "{}: {left_out} of {} runs are {word} and left out",
                    g.name,
                    g.reports.len()
                ));
            }
        }
    }
    if in_a.is_empty() || in_b.is_empty() {
        return out;
    }
    let window = |all: &[Report]| all.first().map_or(0.0, |r| r.windows.measured);
    let [window_a, window_b] = [in_a, in_b].map(window);
    let sides = [said(in_a), said(in_b)];
    let mut whats: Vec<&String> = Vec::new();
    for what in sides.iter().flatten().map(|(what, _)| what) {
        if !whats.contains(&what) {
            whats.push(what);
        }
    }
    for what in whats {
        let of = |side: &[(String, Vec<String>)]| -> Vec<String> {
            let own = side.iter().find(|(own, _)| own == what);
            own.map_or_else(|| vec![NOT_GIVEN.to_owned()], |(_, values)| values.clone())
        };
        let [x, y] = [of(&sides[0]), of(&sides[1])];
        for (g, values) in [(a, &x), (b, &y)] {
            if values.len() > 1 {
                out.push(format!("{}: {what} differs among its runs: {}", g.name, values.join(", ")));
            }
        }
        // In whatever order the runs had them.
        if x.len() != y.len() || x.iter().any(|value| !y.contains(value)) {
            out.push(format!("{what} differs: {} and {}", x.join(", "), y.join(", ")));
        }
    }
    if (window_a - window_b).abs() > SAME_WINDOW * window_a.max(window_b) {
        out.push(format!(
            "The measured window differs: {} s and {} s",
            thousandths(window_a),
            thousandths(window_b)
        ));
    }
    for (g, valid) in [(a, in_a), (b, in_b)] {
        let mut seeds: Vec<u64> = valid.iter().map(|r| r.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        if seeds.len() < valid.len() {
            out.push(format!(
                "{}: several runs have the same seed: they repeat one schedule, so their spread is that of the \
                 server and the machine alone",
                g.name
            ));
        }
    }
    out
}

#[cfg(test)]
mod tests;
