//! A report as a page for people.

use std::fmt::Write as _;

use super::axis::Scale;
use super::format::{ms, number, percent, quoted, with_unit};
use super::model::{Column, Distribution, LadderReport, Latency, Report, Trial};
use super::page::Page;
use super::plot::{Line, Plot};

/// The page: one self-contained file without scripts. Everything that came from outside is escaped.
pub fn html(r: &Report) -> String {
    let mut p = Page::new(&format!("{}: {}", r.verdict.word, r.title));
    head(&mut p, r);
    let mut sections = vec![("time", "Over time"), ("latency", "Latency"), ("figures", "All figures")];
    if !r.trials.is_empty() {
        sections.insert(0, ("search", "Search"));
    }
    if !r.ladders.is_empty() {
        sections.push(("failures", "First failures"));
    }
    sections.extend([("counters", "Counters"), ("how", "How it was run")]);
    p.contents(&sections);
    checks(&mut p, r);
    if !r.notes.is_empty() {
        p.section("notes", "How to read it");
        p.list(&r.notes);
    }
    search(&mut p, r);
    p.section("time", "Over time");
    for plot in plots(r) {
        p.out.push_str(&plot.svg());
    }
    latency(&mut p, r);
    figures(&mut p, r);
    ladders(&mut p, &r.ladders);
    counters(&mut p, r);
    how(&mut p, r);
    p.finish(&r.program)
}

/// Words of verdicts are style classes: only the four that exist.
pub(super) fn verdict_class(word: &str) -> &'static str {
    match word {
        "PASS" => "PASS",
        "FAIL" => "FAIL",
        "STOPPED" => "STOPPED",
        _ => "VOID",
    }
}

fn head(p: &mut Page, r: &Report) {
    p.out.push_str("<header>");
    p.element("h1", &r.title);
    p.out.push_str("<p class=\"dim\">");
    let compressed = if r.compression == 1.0 {
        "real time".to_owned()
    } else {
        format!("time compressed {} times", r.compression)
    };
    p.text(&format!("{}, {}, started {}", r.workload, compressed, r.started));
    p.out.push_str("</p></header>\n<main id=\"main\">\n");
    let meaning = match r.verdict.word.as_str() {
        "PASS" => "The server kept the rule.",
        "FAIL" => "The server broke the rule.",
        "STOPPED" => "This run was stopped before its end, so it is no statement about the server.",
        _ => "This run says nothing about the server.",
    };
    let class = verdict_class(&r.verdict.word);
    let _ =
        write!(p.out, "<div class=\"verdict {class}\" role=\"status\"><strong>{class}</strong> {meaning}");
    p.list(&r.verdict.why.iter().cloned().chain(r.verdict.unjudged()).collect::<Vec<_>>());
    p.out.push_str("</div>\n");
    tiles(p, r);
}

fn tiles(p: &mut Page, r: &Report) {
    let metric = |key: &str| {
        let m = r.metrics.iter().find(|m| m.key == key)?;
        Some(with_unit(m.value?, &m.unit))
    };
    let tiles = [
        ("Largest load", metric("peak")),
        ("Calls begun", metric("calls.rate")),
        ("Successful calls", metric("calls.success")),
        ("Successful transactions", metric("transactions.success")),
        ("Registrations", metric("registrations.rate")),
        ("Re-registrations", metric("reregistrations.rate")),
        ("Response time, 50 %", metric("response.p50")),
        ("Response time, 99 %", metric("response.p99")),
        ("Response time, 99.9 %", metric("response.p999")),
        ("Generator's lateness, 99.9 %", metric("lateness.p999")),
        ("Requests sent again", metric("retransmissions")),
    ];
    p.out.push_str("<dl class=\"tiles\">");
    for (name, value) in tiles {
        if let Some(value) = value {
            p.out.push_str("<div>");
            p.element("dt", name);
            p.element("dd", &value);
            p.out.push_str("</div>");
        }
    }
    p.out.push_str("</dl>\n");
}

fn checks(p: &mut Page, r: &Report) {
    if r.verdict.checks.is_empty() {
        return;
    }
    p.section("checks", "What the verdict is made of");
    p.table(
        "A breach by the server is FAIL, one by the generator is VOID",
        &["Check", "#Found", "#Limit", "About", "Kept"],
    );
    for c in &r.verdict.checks {
        let about = if c.of_generator { "generator" } else { "server" };
        let kept = if c.kept { ("yes", "yes") } else { ("no", "no") };
        p.row(&[("", &c.name), ("n", &c.found), ("n", &c.limit), ("", about), kept]);
    }
    p.end_table();
}

fn search(p: &mut Page, r: &Report) {
    let trials = &r.trials;
    let Some(first) = trials.first() else { return };
    p.section("search", "Search for the largest load");
    if let Some(peak) = &r.peak {
        p.element("p", &peak.statement);
    }
    let mut by_load: Vec<&Trial> = trials.iter().collect();
    by_load.sort_by(|a, b| a.load.total_cmp(&b.load));
    let of = |word: &str| -> Vec<(f64, Option<f64>)> {
        by_load.iter().filter(|t| t.verdict == word).map(|t| (t.load, t.p99_ms)).collect()
    };
    let plot = Plot {
        x: first.unit.clone(),
        y_scale: Scale::Log,
        lines: vec![
            Line::new("all runs", by_load.iter().map(|t| (t.load, t.p99_ms)).collect()),
            Line::dots("passed", "pass", of("PASS")),
            Line::dots("failed", "fail", of("FAIL")),
            Line::dots("void", "void", of("VOID")),
        ],
        ..Plot::over_time("Response time against load", "99th percentile of each run", "ms", Vec::new())
    };
    p.out.push_str(&plot.svg());
    p.table(
        "In the order in which they were made",
        &[
            "#Load",
            "Verdict",
            "#Success",
            "#p99",
            "#Server",
            "#Its memory",
            "#Lateness, 99.9 %",
            "#Generator",
            "Reason",
        ],
    );
    for t in trials {
        let show = |v: Option<f64>, unit: &str| v.map_or_else(String::new, |v| with_unit(v, unit));
        p.row(&[
            ("n", &format!("{} {}", number(t.load), t.unit)),
            (verdict_class(&t.verdict), &t.verdict),
            ("n", &show(t.success_percent, "%")),
            ("n", &show(t.p99_ms, "ms")),
            ("n", &show(t.server_cpu_percent, "%")),
            ("n", &show(t.server_memory_mib, "MiB")),
            ("n", &show(t.lateness_p999_ms, "ms")),
            ("n", &show(t.generator_cpu_percent, "%")),
            ("", &t.why),
        ]);
    }
    p.end_table();
}

/// The time series as lines: (key, name) of each.
fn lines(r: &Report, columns: &[(&str, &str)]) -> Vec<Line> {
    let of = |c: &Column, name: &str| {
        Line::new(name, r.series.time.iter().copied().zip(c.values.iter().copied()).collect())
    };
    let found = columns.iter().filter_map(|(key, name)| {
        let c = r.series.columns.iter().find(|c| c.key == *key)?;
        // A line that is always zero only fills the legend.
        c.values.iter().flatten().any(|v| *v != 0.0).then(|| of(c, name))
    });
    found.collect()
}

fn plots(r: &Report) -> Vec<Plot> {
    let mut all = vec![rates(r)];
    all.push(Plot {
        y_scale: Scale::Log,
        ..Plot::over_time(
            "Response time",
            "From the intended start of a call to the first response that says something, by the second in which it came",
            "ms",
            percentile_lines(r, "latency"),
        )
    });
    all.push(Plot {
        y_scale: Scale::Log,
        limit: lateness_limit(r),
        ..Plot::over_time(
            "Generator's lateness",
            "How much later than intended scheduled messages went out",
            "ms",
            percentile_lines(r, "lateness"),
        )
    });
    let calls = lines(r, &[("calls", "calls")]);
    all.push(Plot::over_time("Calls in progress", "Both sides together", "calls", calls));
    let messages = [
        ("sent", "sent"),
        ("received", "received"),
        ("repeated", "sent again"),
        ("unexpected", "unexpected"),
    ];
    let messages = lines(r, &messages);
    all.push(Plot::over_time("Messages", "Everything sent and received", "per second", messages));
    all.push(Plot::over_time(
        "Queue and drops",
        "Most messages that were due when a worker woke, and packets that the generator's sockets dropped",
        "messages",
        lines(r, &[("queue", "queue"), ("drops", "dropped")]),
    ));
    let (from, length) = (r.windows.before(), r.windows.measured);
    if length > 0.0 {
        for p in &mut all {
            p.span = Some((from, from + length, "measured".to_owned()));
        }
    }
    all
}

fn rates(r: &Report) -> Plot {
    let columns = [
        ("begun", "calls begun"),
        ("succeeded", "calls succeeded"),
        ("failed", "calls failed"),
        ("registered", "registrations"),
        ("register_failed", "registrations failed"),
        ("callee_begun", "calls answered"),
    ];
    Plot::over_time("Rates", "Calls and registrations", "per second", lines(r, &columns))
}

/// The percentiles of "latency" or "lateness" over time.
fn percentile_lines(r: &Report, kind: &str) -> Vec<Line> {
    let keys = ["p50", "p90", "p99", "p999", "max"].map(|p| format!("{kind}_{p}"));
    let names = ["50 %", "90 %", "99 %", "99.9 %", "largest"];
    let columns: Vec<(&str, &str)> = keys.iter().map(String::as_str).zip(names).collect();
    lines(r, &columns)
}

/// The limit that the verdict used, if it can be drawn.
fn lateness_limit(r: &Report) -> Option<(f64, String)> {
    let check = r.verdict.checks.iter().find(|c| c.of_generator && c.name.contains("lateness"))?;
    let limit = check.limit.strip_suffix(" ms")?.parse().ok()?;
    Some((limit, "limit of the 99.9th percentile".to_owned()))
}

/// The distribution as a line: (milliseconds, share of values that are not larger).
pub(super) fn cdf(name: &str, d: &Distribution) -> Line {
    let mut seen = 0_u64;
    let points = d.buckets.iter().map(|(upper, n)| {
        seen = seen.saturating_add(*n);
        // The largest value is drawn where half a value would be missing, not at infinity.
        let share = (seen as f64).min(d.count as f64 - 0.5) / d.count.max(1) as f64;
        (ms(*upper).max(0.001), Some(share.max(0.0)))
    });
    Line::new(name, points.collect())
}

fn latency(p: &mut Page, r: &Report) {
    p.section("latency", "Latency");
    let (durations, latencies): (Vec<&Latency>, Vec<&Latency>) = r.latencies.iter().partition(|l| l.duration);
    if let Some(main) = latencies.iter().find(|l| l.key == "response") {
        p.out.push_str(&distribution_plot(
            "Response time",
            "Share of calls whose first response came within a time; each step of the scale is one more nine",
            vec![cdf("from the intended start", &main.intended), cdf("from the actual start", &main.sent)],
        ));
    }
    let others = latencies.iter().filter(|l| l.key != "response");
    let lines: Vec<Line> = others.take(6).map(|l| cdf(&l.key, l.main())).collect();
    p.out.push_str(&distribution_plot(
        "Others",
        "From the intended start; definitions are in the table",
        lines,
    ));
    if !latencies.is_empty() {
        distributions(p, "Latencies from the intended start, ms", &latencies, |l| &l.intended);
        p.out.push_str("<details><summary>The same from the actual start</summary>");
        distributions(p, "Latencies from the actual start, ms", &latencies, |l| &l.sent);
        p.out.push_str("</details>\n");
    }
    if !durations.is_empty() {
        distributions(p, "Durations, ms", &durations, |l| &l.sent);
    }
}

fn distribution_plot(title: &str, text: &str, lines: Vec<Line>) -> String {
    let plot = Plot {
        x: "milliseconds".to_owned(),
        x_scale: Scale::Log,
        y_scale: Scale::Nines,
        ..Plot::over_time(title, text, "share", lines)
    };
    plot.svg()
}

fn distributions(p: &mut Page, caption: &str, all: &[&Latency], of: impl Fn(&Latency) -> &Distribution) {
    let columns = [
        "What",
        "#Count",
        "#Least",
        "#Mean",
        "#Deviation",
        "#50 %",
        "#90 %",
        "#95 %",
        "#99 %",
        "#99.9 %",
        "#99.99 %",
        "#Largest",
    ];
    p.table(caption, &columns);
    for l in all {
        let d = of(l);
        let values = [d.min, d.p50, d.p90, d.p95, d.p99, d.p999, d.p9999, d.max].map(|v| number(ms(v)));
        let [min, rest @ ..] = &values;
        let (mean, deviation) = (number(d.mean / 1e3), number(d.deviation / 1e3));
        let name = format!("{}: {}", l.key, l.text);
        let count = number(d.count as f64);
        let mut cells = vec![("", name.as_str()), ("n", &count), ("n", min), ("n", &mean), ("n", &deviation)];
        cells.extend(rest.iter().map(|v| ("n", v.as_str())));
        p.row(&cells);
    }
    p.end_table();
}

fn figures(p: &mut Page, r: &Report) {
    p.section("figures", "All figures");
    p.table("Of the measured window; empty where undefined", &["Figure", "#Value", "Definition", "Source"]);
    // Percentiles stand in the tables of latencies.
    let shown_above =
        |key: &str| key.rsplit_once('.').is_some_and(|(l, p)| p != "mean" && r.latency(l).is_some());
    for m in r.metrics.iter().filter(|m| !shown_above(&m.key)) {
        let value = m.value.map_or_else(|| "-".to_owned(), |v| with_unit(v, &m.unit));
        p.row(&[("", &m.name), ("n", &value), ("", &m.definition), ("", &m.source)]);
    }
    p.end_table();
}

fn ladders(p: &mut Page, all: &[LadderReport]) {
    if all.is_empty() {
        return;
    }
    p.section("failures", "First failures");
    for (i, l) in all.iter().enumerate() {
        // The first is open: it is what a reader looks for.
        p.out.push_str(if i == 0 { "<details open><summary>" } else { "<details><summary>" });
        p.text(&format!("{:.6} s: {} ({})", l.at, l.why, l.call_id));
        p.out.push_str("</summary><pre tabindex=\"0\">");
        p.text(&l.drawing);
        p.out.push_str("</pre>\n");
        for m in &l.messages {
            let (arrow, peer) = if m.sent { ("to", &m.remote) } else { ("from", &m.remote) };
            p.out.push_str("<details><summary>");
            p.text(&format!("{:.6} s {} {arrow} {peer}, {} bytes", m.at, m.label, m.length));
            p.out.push_str("</summary><pre class=\"wrap\">");
            p.text(&m.text);
            p.out.push_str("</pre></details>\n");
        }
        p.out.push_str("</details>\n");
    }
}

fn counters(p: &mut Page, r: &Report) {
    p.section("counters", "Counters");
    p.table("Everything counted; what is not here is zero", &["Counter", "#Measured window", "#Whole run"]);
    for (name, whole) in &r.whole {
        let measured = r.measured.get(name).copied().unwrap_or(0);
        p.row(&[("", name), ("n", &number(measured as f64)), ("n", &number(*whole as f64))]);
    }
    p.end_table();
}

fn how(p: &mut Page, r: &Report) {
    p.section("how", "How it was run");
    p.element("p", "The same command and seed make the same schedule:");
    p.out.push_str("<pre class=\"wrap\">");
    p.text(&r.command.iter().map(|a| quoted(a)).collect::<Vec<_>>().join(" "));
    p.out.push_str("</pre>\n");
    let w = &r.windows;
    p.element(
        "p",
        &format!(
            "Seed {}. Ramp {} s, warm-up {} s, measured {} s, cool-down {} s.",
            r.seed,
            number(w.ramp),
            number(w.warm_up),
            number(w.measured),
            number(w.cool_down)
        ),
    );
    p.facts("Parameters, defaults included", &r.parameters);
    p.facts("The generator's machine", &r.machine);
    p.facts("The server", &r.server);
    let late = &r.lateness;
    p.element(
        "p",
        &format!(
            "Scheduled sends: {}; on time within 100 microseconds: {} %.",
            number(late.count as f64),
            percent(share_below(late, 100))
        ),
    );
}

/// Percent of the values that are not above `limit`, as far as buckets tell.
fn share_below(d: &Distribution, limit: u64) -> f64 {
    let below: f64 = d.buckets.iter().filter(|b| b.0 <= limit).map(|b| b.1 as f64).sum();
    if d.count == 0 { 0.0 } else { below * 100.0 / d.count as f64 }
}

#[cfg(test)]
mod tests;
