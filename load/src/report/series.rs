//! Time series: from points to columns, and to CSV.

use std::fmt::Write as _;

use wire::Time;

use super::format::{ms, round};
use super::model::{Column, Report, SeriesReport};
use crate::metrics::{Point, Series, Sparse, in_progress};

type Count = fn(&Point) -> u64;
type Times = fn(&Point) -> &Sparse;

/// The columns of a run that ended at `end`. Rates are per second of the wall clock; the last interval is
/// only as long as the run was.
pub(super) fn columns(series: &Series, end: Time) -> SeriesReport {
    let points = series.points();
    let width = series.width() as f64 / 1e6;
    let whole = end.since(series.origin()).as_secs_f64();
    let lengths: Vec<f64> = (0..points.len())
        .map(|i| {
            let left = whole - i as f64 * width;
            // What happened after the given end still happened in some time; and what was due at the end is
            // not that of a moment: of less than half an interval there is no rate.
            if left >= width / 2.0 { left.min(width) } else { width }
        })
        .collect();
    let mut out = SeriesReport {
        interval: round(width),
        time: (0..points.len()).map(|i| round(i as f64 * width)).collect(),
        columns: Vec::new(),
    };
    let mut add = |key: &str, unit: &str, values: Vec<Option<f64>>| {
        let values = values.into_iter().map(|v| v.map(round)).collect();
        out.columns.push(Column { key: key.to_owned(), unit: unit.to_owned(), values });
    };
    let rates: [(&str, Count); 12] = [
        ("begun", |p| p.begun),
        ("succeeded", |p| p.succeeded),
        ("failed", |p| p.failed),
        ("established", |p| p.established),
        ("callee_begun", |p| p.callee_begun),
        ("callee_failed", |p| p.callee_failed),
        ("registered", |p| p.registered),
        ("register_failed", |p| p.register_failed),
        ("sent", |p| p.sent),
        ("received", |p| p.received),
        ("repeated", |p| p.repeated),
        ("unexpected", |p| p.unexpected),
    ];
    for (key, of) in rates {
        let rate = |(p, length): (&Point, &f64)| Some(of(p) as f64 / length);
        add(key, "1/s", points.iter().zip(&lengths).map(rate).collect());
    }
    for (at, class) in (1..=6).enumerate() {
        let count = |p: &Point| p.responses.get(at).copied().unwrap_or(0);
        if points.iter().any(|p| count(p) > 0) {
            let rate = |(p, length): (&Point, &f64)| Some(count(p) as f64 / length);
            add(&format!("responses_{class}xx"), "1/s", points.iter().zip(&lengths).map(rate).collect());
        }
    }
    add("success", "%", points.iter().map(success).collect());
    add("calls", "", in_progress(&points).into_iter().map(|n| Some(n as f64)).collect());
    add("queue", "", points.iter().map(|p| Some(p.queue as f64)).collect());
    add("drops", "", points.iter().map(|p| Some(p.drops as f64)).collect());
    let percentiles = [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p999", 99.9), ("max", 100.0)];
    let kinds: [(&str, Times); 2] = [("latency", |p| &p.latency), ("lateness", |p| &p.lateness)];
    for (kind, of) in kinds {
        for (name, percent) in percentiles {
            let at = |p: &Point| {
                let s = of(p);
                (s.count() > 0).then(|| ms(if percent == 100.0 { s.max() } else { s.percentile(percent) }))
            };
            add(&format!("{kind}_{name}"), "ms", points.iter().map(at).collect());
        }
    }
    out
}

fn success(p: &Point) -> Option<f64> {
    let all = p.succeeded + p.failed;
    (all > 0).then(|| p.succeeded as f64 * 100.0 / all as f64)
}

/// The time series as CSV (RFC 4180): a header line with units, then one line for each interval; a field is
/// empty where there is no value.
pub fn csv(report: &Report) -> String {
    let s = &report.series;
    let mut out = String::from("time_s");
    for c in &s.columns {
        let unit = match c.unit.as_str() {
            "1/s" => "_per_s",
            "ms" => "_ms",
            "%" => "_percent",
            _ => "",
        };
        let _ = write!(out, ",{}{unit}", plain(&c.key));
    }
    out.push_str("\r\n");
    for (i, t) in s.time.iter().enumerate() {
        let _ = write!(out, "{t}");
        for c in &s.columns {
            match c.values.get(i).copied().flatten() {
                Some(v) => {
                    let _ = write!(out, ",{v}");
                }
                None => out.push(','),
            }
        }
        out.push_str("\r\n");
    }
    out
}

/// Keys are ours, but a report may have been written by hand.
fn plain(key: &str) -> String {
    key.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Began, CallEnd, Failure, Metrics, Setup, Side};

    fn run() -> Metrics {
        let mut m = Metrics::new(&Setup { origin: Time::from_secs(5), ..Setup::default() });
        for i in 0..10 {
            let began = Began::at(Time::from_millis(5_000 + i * 100));
            m.call_begun(Side::Caller, began);
            m.responded(Time::from_millis(5_002 + i * 100), began);
        }
        for i in 0..4 {
            let began = Began::at(Time::from_millis(5_000));
            let end = if i == 0 { CallEnd::Failed(Failure::Refused) } else { CallEnd::Success };
            m.call_ended(Time::from_millis(6_100), Side::Caller, began, end);
        }
        m
    }

    #[test]
    fn the_last_interval_is_as_long_as_the_run_was() {
        let s = columns(run().series(), Time::from_millis(6_500));
        assert_eq!(s.time, [0.0, 1.0]);
        assert_eq!(s.column("begun"), [Some(10.0), Some(0.0)]);
        assert_eq!(s.column("succeeded"), [Some(0.0), Some(6.0)]);
        assert_eq!(s.column("success"), [None, Some(75.0)]);
        assert_eq!(s.column("calls"), [Some(10.0), Some(6.0)]);
        assert_eq!(s.column("latency_max"), [Some(2.0), None]);
        assert_eq!(s.column("nothing"), []);
        // An end that was given too early divides by no nothing.
        let s = columns(run().series(), Time::ZERO);
        assert_eq!(s.column("begun"), [Some(10.0), Some(0.0)]);
    }

    #[test]
    fn csv_has_a_field_for_every_column_in_every_line() {
        let mut r = Report { series: columns(run().series(), Time::from_secs(7)), ..Report::default() };
        let text = csv(&r);
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("time_s,begun_per_s,"));
        let fields = r.series.columns.len() + 1;
        assert!(lines.iter().all(|l| l.split(',').count() == fields));
        assert!(lines[1].starts_with("0,10,0,"));
        r.series.columns[0].key = "a,b\"\n=cmd".to_owned();
        assert!(csv(&r).starts_with("time_s,abcmd_per_s,"));
    }
}
