use super::*;
use crate::metrics::{LatencyLimit, Measure, Rule};
use crate::population::{Outcome, Peak};
use crate::report::build::tests::run;
use crate::report::{Fact, MetricRow, Trial, VerdictReport};

fn made(seed: u64, values: &[(&str, f64, Better)]) -> Report {
    let metrics = values.iter().map(|(key, value, better)| MetricRow {
        key: (*key).to_owned(),
        name: (*key).to_owned(),
        value: Some(*value),
        better: *better,
        ..MetricRow::default()
    });
    Report {
        seed,
        metrics: metrics.collect(),
        verdict: VerdictReport { word: "PASS".to_owned(), ..VerdictReport::default() },
        ..Report::default()
    }
}

fn group(name: &str, reports: Vec<Report>) -> Group {
    Group { name: name.to_owned(), reports }
}

fn latencies(seed: u64, values: [f64; 3]) -> Vec<Report> {
    let of = |(i, v): (usize, &f64)| {
        made(seed + i as u64, &[("p99", *v, Better::Lower), ("rate", 100.0, Better::Higher)])
    };
    values.iter().enumerate().map(of).collect()
}

#[test]
fn one_run_each_allows_no_statement() {
    let (inputs, m) = run(1);
    let a = Report::build(inputs, &m, &Rule::default(), &[]);
    let (inputs, m) = run(2);
    let b = Report::build(inputs, &m, &Rule::default(), &[]);
    let c = compare(&group("a", vec![a]), &group("b", vec![b]), 0.95);
    assert!(c.rows.len() > 20);
    assert!(c.rows.iter().all(|r| matches!(r.statement, Statement::None { .. })));
    assert!(c.method.contains("no statement"), "{}", c.method);
    assert!(c.text().contains("no statement (one run)"));
    assert!(c.html("x").contains("no statement"));
    assert_eq!(c.curves.len(), 2);
    let shares: Vec<f64> = c.curves[0].points.iter().map(|p| p.1).collect();
    assert!(shares.is_sorted() && shares.iter().all(|s| (0.0..=1.0).contains(s)));
}

#[test]
fn server_is_compared_and_the_summary_comes_first() {
    let side = |name: &str, cost: f64| {
        let run = |seed: u64| {
            let mut report = made(seed, &[("response.p99", 5.0 + cost + seed as f64 / 10.0, Better::Lower)]);
            report.metrics.push(MetricRow {
                value: Some(30.0),
                key: "cpu".to_owned(),
                ..MetricRow::default()
            });
            report.server_cpu_percent = Some(cost + seed as f64);
            report.server_memory_mib = Some(100.0 + seed as f64);
            report.server = vec![
                Fact::new("process", "strowger (1 in all)"),
                Fact::new("share of one core", format!("{cost} %")),
                Fact::new("processor time for each call, registrations included", format!("{cost} us")),
                Fact::new("packets lost by its sockets, measured window", 0),
            ];
            report
        };
        group(name, (1..=3).map(run).collect())
    };
    let c = compare(&side("a", 20.0), &side("b", 50.0), 0.95);
    let row = |key: &str| c.rows.iter().find(|row| row.key == key).map(|row| (row.mean_a, row.mean_b));
    assert_eq!(row("server: processor time"), Some((22.0, 52.0)));
    assert_eq!(row("server: memory"), Some((102.0, 102.0)));
    assert_eq!(row("server: processor time for each call, registrations included"), Some((20.0, 50.0)));
    assert_eq!(row("server: packets lost by its sockets, measured window"), Some((0.0, 0.0)));
    assert!(row("server: share of one core").is_none(), "it is there already");
    assert!(c.summary[0].starts_with("B is worse in: ") && c.summary[0].contains("server: processor time +"));
    assert!(c.summary.iter().any(|line| line.starts_with("no difference shown in ")), "{:?}", c.summary);
    let text = c.text();
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(
        at("B is worse in") < at("confidence intervals") && at("generator: cpu") > at("of the difference")
    );
    let page = c.html("x");
    assert!(page.find("Summary") < page.find("All figures") && page.contains("Server: memory at the end"));
    let one = compare(&group("a", vec![side("a", 20.0).reports.remove(0)]), &side("b", 50.0), 0.95);
    assert!(
        one.summary.iter().any(|line| line.starts_with("Server: memory at the end: A 101 MiB, B 102 MiB"))
    );
    assert!(!one.summary.iter().any(|line| line.contains("better") || line.contains("worse")));
}

/// A run ends when it is looked at: its length is never the same to the last digit.
#[test]
fn windows_of_one_length_are_the_same() {
    let of = |seconds: f64| {
        let (inputs, m) = run(1);
        let mut report = Report::build(inputs, &m, &Rule::default(), &[]);
        report.windows.measured = seconds;
        group("x", vec![report])
    };
    let said = |a: f64, b: f64| {
        let warnings = compare(&of(a), &of(b), 0.95).warnings;
        warnings.into_iter().filter(|warning| warning.contains("window")).collect::<Vec<_>>()
    };
    let nothing = Vec::<String>::new();
    assert_eq!(
        (said(3.000_000_000_000_000_4, 3.0), said(10.0, 10.009), said(0.0, 0.0)),
        (nothing.clone(), nothing.clone(), nothing)
    );
    assert_eq!(said(3.000_000_000_000_000_4, 4.0), ["The measured window differs: 3 s and 4 s"]);
}

#[test]
fn repetitions_show_what_differs() {
    let a = group("a", latencies(1, [10.0, 10.2, 9.8]));
    let b = group("b", latencies(11, [5.0, 5.1, 4.9]));
    let c = compare(&a, &b, 0.95);
    let p99 = &c.rows[0];
    assert_eq!((p99.mean_a, p99.mean_b, p99.change_percent), (10.0, 5.0, Some(-50.0)));
    assert_eq!(p99.improved(), Some(true));
    let Statement::Interval { low, high, differs_among_all, .. } = p99.statement else {
        panic!("an interval")
    };
    assert!(low < -5.0 && high > -5.0 && high < -4.5 && differs_among_all);
    assert_eq!(c.rows[1].statement, Statement::Equal);
    assert!(c.warnings.is_empty(), "{:?}", c.warnings);
    assert!(c.text().contains("better, surely: 95 % interval -5."), "{}", c.text());
    assert_eq!(compare(&b, &a, 0.95).rows[0].improved(), Some(false));
}

#[test]
fn noise_is_not_called_a_difference() {
    let a = group("a", latencies(1, [10.0, 12.0, 8.0]));
    let b = group("b", latencies(11, [11.0, 9.0, 10.5]));
    let c = compare(&a, &b, 0.95);
    assert_eq!(c.rows[0].improved(), None);
    assert!(c.text().contains("no difference shown"));
}

#[test]
fn what_speaks_against_comparing_is_said() {
    let mut a = group("a", latencies(1, [10.0, 12.0, 8.0]));
    let mut b = group("b", latencies(1, [10.0, 12.0, 8.0]));
    a.reports.iter_mut().for_each(|run| run.parameters = vec![Fact::new("rate", 100)]);
    for run in &mut b.reports {
        run.parameters = vec![Fact::new("rate", 200), Fact::new("x", 1)];
        run.machine = vec![Fact::new("cores", 8)];
        run.workload = "other".to_owned();
    }
    b.reports[1].seed = b.reports[0].seed;
    b.reports[2].verdict.word = "VOID".to_owned();
    let mut stopped = b.reports[1].clone();
    stopped.verdict.word = "STOPPED".to_owned();
    b.reports.push(stopped);
    let c = compare(&a, &b, 0.95);
    assert_eq!((c.runs_a, c.runs_b), (3, 2));
    for part in [
        "1 of 4 runs are VOID and left out",
        "1 of 4 runs are STOPPED and left out",
        "workload",
        "rate differs: 100 and 200",
        "x differs: not given and 1",
        "Machine cores",
        "same seed",
    ] {
        assert!(c.warnings.iter().any(|w| w.contains(part)), "{part}: {:?}", c.warnings);
    }
    let c = compare(&a, &Group::default(), 0.95);
    assert!(c.rows.is_empty() && c.method.contains("nothing to compare"));
}

#[test]
fn figures_that_the_first_run_does_not_have_are_compared() {
    let run = |seed: u64, values: &[(&str, f64)]| {
        let values: Vec<_> = values.iter().map(|(key, value)| (*key, *value, Better::Lower)).collect();
        made(seed, &values)
    };
    let a =
        group("a", vec![run(1, &[("x", 1.0)]), run(2, &[("x", 1.1), ("rare", 5.0)]), run(3, &[("x", 1.2)])]);
    let b = group("b", vec![run(4, &[("rare", 7.0)]), run(5, &[("x", 2.0), ("rare", 7.5)])]);
    let c = compare(&a, &b, 0.95);
    let rows: Vec<(&str, usize, usize)> =
        c.rows.iter().map(|r| (r.key.as_str(), r.a.len(), r.b.len())).collect();
    assert_eq!(rows, [("x", 3, 1), ("rare", 1, 2)]);
    let (text, page) = (c.text(), c.html("x"));
    for said in ["B: in 1 of 2 runs", "A: in 1 of 3 runs"] {
        assert!(text.contains(said) && page.contains(said), "{said}: {text}");
    }
    let all = compare(&group("a", latencies(1, [1.0; 3])), &group("b", latencies(5, [2.0; 3])), 0.95);
    assert!(!all.text().contains(" of 3 runs"));
}

#[test]
fn runs_of_a_group_that_were_made_otherwise_are_said() {
    let mut a = group("a", latencies(1, [10.0, 12.0, 8.0]));
    let mut b = group("b", latencies(11, [10.0, 12.0, 8.0]));
    for (run, rate) in a.reports.iter_mut().zip([100, 200, 100]) {
        run.parameters = vec![Fact::new("rate", rate)];
    }
    b.reports.iter_mut().for_each(|run| run.parameters = vec![Fact::new("rate", 100)]);
    b.reports[2].parameters.push(Fact::new("x", 1));
    let warnings = compare(&a, &b, 0.95).warnings;
    for said in [
        "a: Parameter rate differs among its runs: 100, 200",
        "Parameter rate differs: 100, 200 and 100",
        "b: Parameter x differs among its runs: not given, 1",
    ] {
        assert!(warnings.iter().any(|w| w == said), "{said}: {warnings:?}");
    }
    assert_eq!(compare(&a, &a, 0.95).warnings.len(), 2, "of each side");
}

#[test]
fn json_comes_back_the_same() {
    let a = group("a", latencies(1, [10.0, 12.0, 8.0]));
    let b = group("b", latencies(11, [11.0, 9.5, 10.5]));
    let c = compare(&a, &b, 0.95);
    let back: Comparison = serde_json::from_str(&c.to_json()).unwrap();
    // Probabilities are not rounded; they come back within the last digit.
    assert_eq!(back.rows.len(), c.rows.len());
    assert_eq!(
        (back.rows[0].mean_a, back.rows[0].change_percent),
        (c.rows[0].mean_a, c.rows[0].change_percent)
    );
    assert_eq!(back.warnings, c.warnings);
}

fn peak(load: f64, outcome: Outcome) -> Peak {
    Peak { load, outcome, confidence: None, interval: None, runs: (1, 1), trials: 3 }
}

#[test]
fn different_rules_are_said() {
    let judged = |rule: &Rule| {
        let (inputs, m) = run(1);
        group("x", vec![Report::build(inputs, &m, rule, &[])])
    };
    let rule = |ms: u64| {
        let limit = LatencyLimit { measure: Measure::Response, percentile: 99.0, max_micros: ms * 1_000 };
        Rule { success_percent: 50.0, latency: vec![limit], max_lateness_p999_micros: ms, ..Rule::default() }
    };
    assert_eq!(compare(&judged(&rule(500)), &judged(&rule(500)), 0.95).warnings, Vec::<String>::new());
    let mut other = rule(800);
    other.success_percent = 60.0;
    let warnings = compare(&judged(&rule(500)), &judged(&other), 0.95).warnings.join("\n");
    for words in
        ["successes, at least differs: 50 % and 60 %", "response, p99", "500 ms and 800 ms", "lateness"]
    {
        assert!(warnings.contains(words), "{words}: {warnings}");
    }
}

#[test]
fn searches_are_drawn_side_by_side() {
    let trial = |load: f64, verdict: &str, p99: f64| Trial {
        load,
        unit: "users".to_owned(),
        verdict: verdict.to_owned(),
        p99_ms: Some(p99),
        ..Trial::default()
    };
    let trials = vec![trial(800.0, "FAIL", 90.0), trial(400.0, "PASS", 2.0), trial(500.0, "VOID", 1.0)];
    let one = made(1, &[]).searched(trials, &peak(400.0, Outcome::Found), "users");
    let c = compare(&group("a", vec![one.clone()]), &group("b", vec![one]), 0.95);
    assert_eq!(c.searches.len(), 2);
    assert_eq!(c.searches[0].points, [(400.0, 2.0), (800.0, 90.0)]);
    let page = c.html("x");
    assert!(page.contains("Response time against load") && page.contains(">users</text>"));
    assert!(!page.contains("Processor time against load"), "nothing is known of the server's");
    let without = compare(&group("a", latencies(1, [1.0; 3])), &group("b", latencies(5, [1.0; 3])), 0.95);
    assert!(without.searches.is_empty() && !without.html("x").contains("against load"));
}

#[test]
fn servers_stand_side_by_side_with_the_literature_for_scale() {
    let side = |load: f64, cpu: f64| {
        let trial = |load: f64, verdict: &str| Trial {
            load,
            unit: "users".to_owned(),
            verdict: verdict.to_owned(),
            server_cpu_percent: Some(cpu),
            server_memory_mib: Some(100.0),
            ..Trial::default()
        };
        let trials = vec![trial(2.0 * load, "FAIL"), trial(load, "PASS")];
        let mut one = made(1, &[]).searched(trials, &peak(load, Outcome::Found), "users");
        one.compression = 60.0;
        one
    };
    let c = compare(
        &group("ours", vec![side(40_000.0, 81.0)]),
        &group("theirs", vec![side(10_000.0, 99.0)]),
        0.95,
    );
    let found: Vec<(&str, Option<f64>, Option<f64>)> =
        c.found.iter().map(|f| (f.name.as_str(), f.peak.load, f.cpu_percent)).collect();
    assert_eq!(found, [("ours", Some(40_000.0), Some(81.0)), ("theirs", Some(10_000.0), Some(99.0))]);
    assert_eq!(c.cpu[0].points, [(40_000.0, 81.0), (80_000.0, 81.0)]);
    let (text, page) = (c.text(), c.html("x"));
    // Forty thousand, sixty times as fast as in life.
    for words in ["2400000", "350000", "3045000", "9960000", "81 %", "100 MiB"] {
        let plain = |text: &str| text.replace([',', ' ', '\u{202f}', '\u{a0}'], "");
        let there = plain(&text).contains(&plain(words));
        assert!(there, "{words}: {text}");
        assert!(plain(&page).contains(&plain(words)), "{words} in the page");
    }
    for plot in ["Processor time against load", "Memory against load", "Users in life"] {
        assert!(page.contains(plot), "{plot}");
    }
    let back: Comparison = serde_json::from_str(&c.to_json()).expect("it reads its own");
    assert_eq!((back.found, back.cpu), (c.found, c.cpu));
}
