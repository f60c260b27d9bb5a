//! The runs over time: what each system did, second by second, with the window of measurement and the faults.

use std::collections::BTreeMap;

use load::report::SeriesReport;
use load::report::svg::{Line, Page, Plot, Spread};

use super::groups::{Combination, Group};
use super::page::{PLOT_WIDTH, has_room, left_out};
use super::words::{cut, factors, short};
use crate::record::RunRecord;
use crate::statistics::median;

/// Points of a line at most; longer runs are drawn with wider steps.
const BINS_MAX: i64 = 120;
/// Faults of a run that are drawn.
const FAULTS_MAX: usize = 40;
/// Kernel counters that show lost packets and connections.
const LOSSES: [&str; 5] = [
    "machine.udp_receive_buffer_errors",
    "machine.udp_send_buffer_errors",
    "machine.softnet_dropped",
    "machine.tcp_listen_drops",
    "machine.tcp_listen_overflows",
];

/// What is drawn over time.
struct Drawn {
    title: &'static str,
    text: &'static str,
    unit: &'static str,
    /// Columns that are added up.
    columns: &'static [&'static str],
    /// From the generator, or sampled from the system and the machine.
    of_load: bool,
    /// Drawn only if a value is not zero.
    only_if_any: bool,
}

const DRAWN: [Drawn; 9] = [
    Drawn {
        title: "Successful calls",
        text: "Calls that ended as they were to end",
        unit: "per second",
        columns: &["succeeded"],
        of_load: true,
        only_if_any: true,
    },
    Drawn {
        title: "Registrations",
        text: "First ones and refreshes",
        unit: "per second",
        columns: &["registered"],
        of_load: true,
        only_if_any: true,
    },
    Drawn {
        title: "Response time, 99 %",
        text: "From the intended start of a call, by the second of the response",
        unit: "ms",
        columns: &["latency_p99"],
        of_load: true,
        only_if_any: true,
    },
    Drawn {
        title: "Processor time of the system",
        text: "All its threads, percent of one processor",
        unit: "%",
        columns: &["system.cpu"],
        of_load: false,
        only_if_any: false,
    },
    Drawn {
        title: "Memory of the system",
        text: "Its share of the memory in use (PSS)",
        unit: "MiB",
        columns: &["system.memory"],
        of_load: false,
        only_if_any: false,
    },
    Drawn {
        title: "Failed calls and registrations",
        text: "By the second in which they ended",
        unit: "per second",
        columns: &["failed", "register_failed"],
        of_load: true,
        only_if_any: true,
    },
    Drawn {
        title: "Responses of errors",
        text: "From 400 on, challenges included",
        unit: "per second",
        columns: &["responses_4xx", "responses_5xx", "responses_6xx"],
        of_load: true,
        only_if_any: true,
    },
    Drawn {
        title: "Requests sent again",
        text: "Because no response had come in time",
        unit: "per second",
        columns: &["repeated"],
        of_load: true,
        only_if_any: true,
    },
    Drawn {
        title: "Lost packets and connections",
        text: "What the kernel dropped: full socket buffers, backlogs and queues",
        unit: "per second",
        columns: &LOSSES,
        of_load: false,
        only_if_any: true,
    },
];

/// The window of measurement and what is drawn around it, in seconds from its start.
struct Span {
    from: i64,
    to: i64,
    step: f64,
    window: f64,
}

/// Plots of all combinations, as far as there is room.
pub(super) fn series(p: &mut Page, combinations: &[Combination<'_>]) {
    if combinations.iter().all(|c| c.groups.iter().all(|g| g.runs.is_empty())) {
        return;
    }
    p.section("time", "Over time");
    p.element(
        "p",
        "Time counts from the start of the measurement, whose window is shaded. A line is the median of the runs that \
         count, the area around it goes from the lowest to the highest of them. Dotted lines are injected faults.",
    );
    let mut undrawn = 0;
    for combination in combinations.iter().filter(|c| c.groups.iter().any(|g| !g.runs.is_empty())) {
        if has_room(p) {
            plots(p, combination);
        } else {
            undrawn += 1;
        }
    }
    left_out(p, undrawn, "combination", "the archives have the series");
}

fn plots(p: &mut Page, combination: &Combination<'_>) {
    let name = factors(combination.factors);
    if !name.is_empty() {
        p.element("h3", &name);
    }
    let Some(span) = span(combination) else { return };
    let mut nothing = Vec::new();
    p.raw("<div class=\"plots\">");
    for drawn in &DRAWN {
        let lines: Vec<Line> = combination.groups.iter().take(6).map(|g| line(g, drawn, &span)).collect();
        let ranges = lines.iter().filter_map(|line| line.spread.as_ref()).flat_map(|(_, ranges)| ranges);
        if drawn.only_if_any && !ranges.into_iter().any(|(_, _, high)| *high != 0.0) {
            nothing.push(drawn.title);
            continue;
        }
        let mut plot = Plot::over_time(drawn.title, drawn.text, drawn.unit, lines);
        plot.x = "seconds since the start of the measurement".to_owned();
        plot.width = PLOT_WIDTH;
        plot.span = Some((0.0, span.window, "measured".to_owned()));
        plot.events = events(combination);
        p.raw(&plot.svg());
    }
    p.raw("</div>\n");
    if !nothing.is_empty() {
        p.element("p", &format!("Zero throughout, so not drawn: {}.", nothing.join(", ").to_lowercase()));
    }
}

/// Faults of the first run that has any: all runs of a combination have the same.
fn events(combination: &Combination<'_>) -> Vec<(f64, String)> {
    let mut runs = combination.groups.iter().flat_map(|g| &g.runs);
    let first = runs.find(|run| !run.faults.is_empty());
    let faults = first.map_or(&[][..], |run| run.faults.as_slice());
    faults.iter().take(FAULTS_MAX).map(|(at, what)| (*at, cut(what, 40))).collect()
}

/// Both time series of a run, each with the start of the measurement in its own time.
fn both(run: &RunRecord) -> [(&SeriesReport, f64); 2] {
    [(&run.load.series, run.load.windows.before()), (&run.samples, run.window.0)]
}

fn span(combination: &Combination<'_>) -> Option<Span> {
    let (mut from, mut to, mut window, mut step) = (f64::INFINITY, f64::NEG_INFINITY, 0.0_f64, 1.0_f64);
    for run in combination.groups.iter().flat_map(|g| &g.runs) {
        window = window.max(run.load.windows.measured).max(run.window.1 - run.window.0);
        for (series, start) in both(run) {
            let times = series.time.iter().map(|t| t - start).filter(|t| t.is_finite() && t.abs() < 1e9);
            times.for_each(|t| (from, to) = (from.min(t), to.max(t)));
            if series.interval.is_finite() {
                step = step.max(series.interval.min(1e6));
            }
        }
    }
    if from > to {
        return None;
    }
    // What a warm-up without an end did is of no interest: as much before the window as the window is long.
    let window = if window.is_finite() { window.clamp(0.0, 1e9) } else { 0.0 };
    let from = from.max(-window.max(10.0));
    let to = to.min(window + window.max(10.0));
    step *= ((to - from) / step / BINS_MAX as f64).ceil().max(1.0);
    Some(Span { from: (from / step).floor() as i64, to: (to / step).floor() as i64, step, window })
}

/// The runs of a system as a line with its band.
fn line(group: &Group<'_>, drawn: &Drawn, span: &Span) -> Line {
    // For each step: the mean of each run, the lowest and the highest value of all.
    let mut bins: BTreeMap<i64, (Vec<f64>, f64, f64)> = BTreeMap::new();
    for run in &group.runs {
        for (bin, (sum, n, low, high)) in of_run(run, drawn, span) {
            let all = bins.entry(bin).or_insert_with(|| (Vec::new(), f64::INFINITY, f64::NEG_INFINITY));
            all.0.push(sum / n);
            (all.1, all.2) = (all.1.min(low), all.2.max(high));
        }
    }
    let at = |bin: i64| (bin as f64 + 0.5) * span.step;
    let points =
        (span.from..=span.to).map(|bin| (at(bin), bins.get(&bin).and_then(|b| median(&b.0)))).collect();
    let ranges = bins.iter().map(|(bin, (_, low, high))| (at(*bin), *low, *high)).collect();
    Line::new(short(&group.subject), points).with_spread(Spread::Band, ranges)
}

/// A run by steps: sum, number, lowest and highest of its values.
fn of_run(run: &RunRecord, drawn: &Drawn, span: &Span) -> BTreeMap<i64, (f64, f64, f64, f64)> {
    let [of_load, sampled] = both(run);
    let (series, start) = if drawn.of_load { of_load } else { sampled };
    let columns: Vec<&[Option<f64>]> = drawn.columns.iter().map(|key| series.column(key)).collect();
    let mut bins = BTreeMap::new();
    for (nth, time) in series.time.iter().enumerate() {
        let values = columns.iter().filter_map(|column| column.get(nth).copied().flatten());
        let sum = values.filter(|v| v.is_finite()).fold(None, |sum, v| Some(sum.unwrap_or(0.0) + v));
        // The middle of the interval says best to which step it belongs.
        let bin = ((time - start + series.interval / 2.0) / span.step).floor();
        let Some(value) = sum else { continue };
        if !(bin.is_finite() && (span.from..=span.to).contains(&(bin as i64))) {
            continue;
        }
        let all = bins.entry(bin as i64).or_insert((0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY));
        *all = (all.0 + value, all.1 + 1.0, all.2.min(value), all.3.max(value));
    }
    bins
}

#[cfg(test)]
mod tests {
    use load::report::Column;

    use super::*;

    /// A run whose measurement of 4 s begins at `start` of both its series.
    fn run(start: f64, values: &[f64]) -> RunRecord {
        let series = |key: &str| SeriesReport {
            interval: 1.0,
            time: (0..values.len()).map(|nth| nth as f64).collect(),
            columns: vec![Column {
                key: key.to_owned(),
                unit: String::new(),
                values: values.iter().copied().map(Some).collect(),
            }],
        };
        let mut record = RunRecord { window: (start, start + 4.0), ..RunRecord::default() };
        record.load.windows.warm_up = start;
        record.load.windows.measured = 4.0;
        record.load.series = series("succeeded");
        record.samples = series("system.cpu");
        record
    }

    fn lines(runs: &[RunRecord]) -> Vec<Line> {
        let group = Group { subject: "A".to_owned(), runs: runs.iter().collect(), void: 0 };
        let combination = Combination { factors: &[], groups: vec![group] };
        let span = span(&combination).expect("has times");
        [&DRAWN[0], &DRAWN[3]].map(|drawn| line(&combination.groups[0], drawn, &span)).into()
    }

    #[test]
    fn runs_are_aligned_at_the_start_of_the_measurement() {
        let runs =
            [run(1.0, &[5.0, 10.0, 20.0]), run(2.0, &[0.0, 7.0, 12.0, 24.0]), run(0.0, &[11.0, f64::NAN])];
        for line in lines(&runs) {
            assert_eq!(
                line.points,
                [(-1.5, Some(0.0)), (-0.5, Some(6.0)), (0.5, Some(11.0)), (1.5, Some(22.0))]
            );
            let ranges = line.spread.expect("has a band").1;
            assert_eq!(ranges, [(-1.5, 0.0, 0.0), (-0.5, 5.0, 7.0), (0.5, 10.0, 12.0), (1.5, 20.0, 24.0)]);
        }
    }

    #[test]
    fn long_runs_are_drawn_with_wide_steps() {
        let values: Vec<f64> = (0..100_000).map(f64::from).collect();
        let mut long = run(0.0, &values);
        long.load.windows.measured = 100_000.0;
        let line = &lines(&[long])[0];
        assert!((100..=BINS_MAX as usize + 1).contains(&line.points.len()), "{}", line.points.len());
        let ranges = &line.spread.as_ref().expect("has a band").1;
        assert_eq!((ranges[0].1, ranges[ranges.len() - 1].2), (0.0, 99_999.0));
    }
}
