//! A comparison as text and as a page.

use std::fmt::Write as _;

use super::axis::Scale;
use super::compare::{Comparison, Row, Statement};
use super::format::{number, percent, round, with_unit};
use super::html::cdf;
use super::model::{Curve, Report};
use super::page::Page;
use super::plot::{Line, Plot};
use super::summary::label;

/// Response times of both sides, all runs of a side together.
pub(super) fn curves(name_a: &str, a: &[Report], name_b: &str, b: &[Report]) -> Vec<Curve> {
    let mut out = Vec::new();
    for (name, reports) in [(name_a, a), (name_b, b)] {
        let mut all = super::model::Distribution::default();
        for d in reports.iter().filter_map(|r| r.latency("response")).map(|l| &l.intended) {
            all.count = all.count.saturating_add(d.count);
            all.buckets.extend(&d.buckets);
        }
        if all.count > 0 {
            all.buckets.sort_unstable();
            let points = cdf(name, &all).points;
            let mut points: Vec<(f64, f64)> =
                points.into_iter().filter_map(|(x, y)| Some((round(x), round(y?)))).collect();
            // Of buckets that end at one value, the last one counts.
            points.reverse();
            points.dedup_by_key(|p| p.0);
            points.reverse();
            out.push(Curve { name: name.to_owned(), points });
        }
    }
    out
}

/// What searches of both sides tried, by load.
pub(super) fn searches(name_a: &str, a: &[Report], name_b: &str, b: &[Report]) -> Vec<Curve> {
    let mut out = Vec::new();
    for (name, reports) in [(name_a, a), (name_b, b)] {
        out.push(super::sides::against_load(name, reports, |t| t.p99_ms));
    }
    if out.iter().all(|c| c.points.is_empty()) { Vec::new() } else { out }
}

/// The curves of both sides as lines.
pub(super) fn lines(curves: &[Curve]) -> Vec<Line> {
    let sides = ["A", "B"].into_iter().zip(curves);
    let line = |(side, c): (&str, &Curve)| {
        Line::new(format!("{side}: {}", c.name), c.points.iter().map(|(x, y)| (*x, Some(*y))).collect())
    };
    sides.map(line).collect()
}

/// What is said about a row, in words, and of how many runs, where that is not all of them.
fn words(r: &Row, c: &Comparison) -> String {
    let some = |side: &str, values: &[f64], runs: usize| {
        let all = values.len() == runs;
        if all { String::new() } else { format!("; {side}: in {} of {runs} runs", values.len()) }
    };
    statement(r, c.confidence) + &some("A", &r.a, c.runs_a) + &some("B", &r.b, c.runs_b)
}

fn statement(r: &Row, confidence: f64) -> String {
    let share = round(confidence * 100.0);
    match &r.statement {
        Statement::None { why } => format!("no statement ({why})"),
        Statement::Equal => "equal in every run".to_owned(),
        Statement::Interval { low, high, differs, differs_among_all, .. } => {
            let verdict = match (r.improved(), *differs) {
                (Some(true), _) => "better",
                (Some(false), _) => "worse",
                (None, true) => "differs",
                (None, false) => "no difference shown",
            };
            let surely = if *differs_among_all { ", surely" } else { "" };
            let (low, high) = (signed(*low, r), signed(*high, r));
            let unit = if r.unit == "1/s" { "/s" } else { &r.unit };
            format!("{verdict}{surely}: {share} % interval {low} to {high} {unit}").trim_end().to_owned()
        }
    }
}

fn signed(v: f64, r: &Row) -> String {
    let text = if r.unit == "%" { percent(v.abs()) } else { number(v.abs()) };
    format!("{}{text}", if v < 0.0 { "-" } else { "+" })
}

/// One value for each run.
fn each(values: &[f64], unit: &str) -> String {
    let show = |v: &f64| if unit == "%" { percent(*v) } else { number(*v) };
    values.iter().map(show).collect::<Vec<_>>().join(", ")
}

fn change(r: &Row) -> String {
    r.change_percent.map_or_else(String::new, |c| format!("{c:+.1} %"))
}

impl Comparison {
    /// For a terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let sides =
            [("A", &self.a, self.runs_a, &self.verdicts_a), ("B", &self.b, self.runs_b, &self.verdicts_b)];
        for (side, name, runs, verdicts) in sides {
            let _ = writeln!(out, "{side}: {name}, runs that count: {runs} ({})", verdicts.join(" "));
        }
        for line in &self.summary {
            let _ = writeln!(out, "  {line}");
        }
        for w in &self.warnings {
            let _ = writeln!(out, "WARNING: {}", w);
        }
        out.push_str(&super::sides::text(&self.found));
        let _ = writeln!(out, "{}", self.method);
        if !self.rows.is_empty() {
            self.table(&mut out);
        }
        // Reports may come from anywhere; what they say must not steer a terminal.
        out.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect()
    }

    fn table(&self, out: &mut String) {
        let name_width = self.rows.iter().map(|r| label(&r.key).chars().count()).max().unwrap_or(0);
        let _ = writeln!(
            out,
            "\n{:name_width$}  {:>16}  {:>16}  {:>9}  of the difference B - A",
            "", "A", "B", ""
        );
        for r in &self.rows {
            let _ = writeln!(
                out,
                "{:name_width$}  {:>16}  {:>16}  {:>9}  {}",
                label(&r.key),
                with_unit(r.mean_a, &r.unit),
                with_unit(r.mean_b, &r.unit),
                change(r),
                words(r, self)
            );
        }
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// As a page: one self-contained file without scripts.
    pub fn html(&self, program: &str) -> String {
        let mut p = Page::new(&format!("{} against {}", self.a, self.b));
        p.out.push_str("<header>");
        p.element("h1", &format!("{} against {}", self.a, self.b));
        p.out.push_str("</header><main id=\"main\">");
        for (side, name, runs, verdicts) in
            [("A", &self.a, self.runs_a, &self.verdicts_a), ("B", &self.b, self.runs_b, &self.verdicts_b)]
        {
            p.element("p", &format!("{side}: {name}, runs that count: {runs} ({})", verdicts.join(" ")));
        }
        if !self.summary.is_empty() {
            p.element("h2", "Summary");
            p.list(&self.summary);
        }
        if !self.warnings.is_empty() {
            p.out.push_str("<div class=\"verdict VOID\"><strong>Read this first</strong>");
            p.list(&self.warnings);
            p.out.push_str("</div>");
        }
        super::sides::page(&mut p, &self.found, &self.load_unit, &self.cpu, &self.memory);
        p.element("p", &self.method);
        let search = Plot {
            x: self.load_unit.clone(),
            y_scale: Scale::Log,
            lines: lines(&self.searches),
            ..Plot::over_time("Response time against load", "99th percentile of each trial", "ms", Vec::new())
        };
        p.out.push_str(&search.svg());
        let plot = Plot {
            x: "milliseconds".to_owned(),
            x_scale: Scale::Log,
            y_scale: Scale::Nines,
            ..Plot::over_time(
                "Response time",
                "Share of calls whose first response came within a time, from the intended start, all runs together",
                "share",
                lines(&self.curves),
            )
        };
        p.out.push_str(&plot.svg());
        p.section("figures", "All figures");
        p.table("Means over runs", &["Figure", "#A", "#B", "#Change", "Of the difference B - A"]);
        for r in &self.rows {
            let class = match r.improved() {
                Some(true) => "yes",
                Some(false) => "no",
                None => "",
            };
            let (a, b) = (with_unit(r.mean_a, &r.unit), with_unit(r.mean_b, &r.unit));
            let says = words(r, self);
            p.row(&[("", &r.name), ("n", &a), ("n", &b), ("n", &change(r)), (class, &says)]);
            if (r.a.len() > 1 || r.b.len() > 1) && r.statement != Statement::Equal {
                let (a, b) = (each(&r.a, &r.unit), each(&r.b, &r.unit));
                p.row(&[("dim", "each run"), ("n dim", &a), ("n dim", &b), ("", ""), ("", "")]);
            }
        }
        p.end_table();
        p.finish(program)
    }
}
