//! Tests of all reports on made-up experiments.

mod sample;

use load::backend::{Found, NodeReport};
use load::report::{Fact, Latency};
use roxmltree::Document;

use super::{Relation, comparison, csv, html, text};
use crate::outcome::{Beside, ClaimOutcome, Control, Figure, Outcome, ReferenceOutcome, RunLine};
use crate::record::RunRecord;
use sample::experiment;

/// What a hostile name may try: markup, quotes, control and direction marks.
const HOSTILE: &str = "<script>alert(\"1\")</script>'&\u{1b}[31m\u{202e}</style></pre>";

/// Reads a page as XML, which does not forgive a tag that is not closed. Only the head is no XML by itself.
fn parsed(page: &str) -> String {
    let xml = page.replace("<!doctype html>", "").replace("<details open>", "<details>");
    let mut out = String::new();
    for line in xml.lines() {
        let is_meta = line.starts_with("<meta ") && line.ends_with('>');
        out.push_str(&if is_meta { format!("{}/>", &line[..line.len() - 1]) } else { line.to_owned() });
        out.push('\n');
    }
    let out = out.replace("<head><meta charset=\"utf-8\">", "<head><meta charset=\"utf-8\"/>");
    if let Err(error) = Document::parse(&out) {
        panic!("{error}: {:?}", out.lines().nth(error.pos().row as usize - 1));
    }
    out
}

fn assert_loads_nothing(page: &str) {
    for what in ["http:", "https:", "src=", "url(", "@import", "<script", "<link", "<img", "<iframe", "xlink"]
    {
        assert!(!page.contains(what), "{what}");
    }
    assert!(page.contains("default-src 'none'"));
    // Every link stays on the page.
    assert_eq!(page.matches("href=\"").count(), page.matches("href=\"#").count());
}

#[test]
fn page_is_closed_and_loads_nothing() {
    let (outcome, records) = experiment(6);
    let page = html(&outcome, &records);
    let document = parsed(&page);
    assert_loads_nothing(&page);
    let document = Document::parse(&document).expect("parsed before");
    // Every link of the contents leads to a section.
    let ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
    let links: Vec<&str> = document.descendants().filter_map(|node| node.attribute("href")).collect();
    assert!(links.len() > 9, "{links:?}");
    assert!(links.iter().all(|link| ids.contains(&&link[1..])), "{links:?} {ids:?}");
}

#[test]
fn page_shows_its_parts_in_order() {
    let (outcome, records) = experiment(6);
    let page = html(&outcome, &records);
    let parts = [
        "Does a call cost less",
        "<strong>NO DIFFERENCE SHOWN</strong>",
        "id=\"claims\"",
        "id=\"paper\"",
        "id=\"control\"",
        "id=\"figures\"",
        "id=\"times\"",
        "id=\"time\"",
        "id=\"costs\"",
        "id=\"runs\"",
        "id=\"wrong\"",
        "id=\"machine\"",
        "id=\"repeat\"",
        "strowger lab reproduce",
    ];
    let mut after = page.find("<body>").expect("a body");
    for part in parts {
        let at = page[after..].find(part);
        after += at.unwrap_or_else(|| panic!("{part} is missing or too early"));
    }
}

/// An outcome in which every field has a value that occurs nowhere else.
fn marked() -> Outcome {
    Outcome {
        looks: Vec::new(),
        version: 1,
        experiment: "m-experiment".to_owned(),
        question: "m-question".to_owned(),
        verdict: "m-verdict".to_owned(),
        reason: "m-reason".to_owned(),
        claims: vec![ClaimOutcome {
            claim: "m-claim".to_owned(),
            factors: vec![Fact::new("m-claim-factor", "m-claim-level")],
            verdict: "m-claim-verdict".to_owned(),
            reason: "m-claim-reason".to_owned(),
            measured: Some(1_111.0),
            interval: Some((1_112.0, 1_113.0)),
            limit: 1_114.0,
            unit: "m-unit".to_owned(),
            floor_percent: Some(11.5),
            blocks: 1_116,
            more: Some(1_117),
        }],
        controls: vec![Control {
            spread_percent: Some(13.7),
            system: "m-control".to_owned(),
            quantity: "m-control-figure".to_owned(),
            factors: vec![Fact::new("m-control-factor", "m-control-level")],
            ratio: Some(1.221),
            interval: Some((1.222, 1.223)),
            floor_percent: Some(12.4),
        }],
        times: Vec::new(),
        figures: vec![Figure {
            pooled: Some(1_335.0),
            pooled_interval: Some((1_336.0, 1_337.0)),
            subject: "m-subject".to_owned(),
            quantity: "m-quantity".to_owned(),
            unit: "m-figure-unit".to_owned(),
            factors: vec![Fact::new("m-figure-factor", "m-figure-level")],
            values: vec![Some(1_331.0), None],
            median: Some(1_332.0),
            interval: Some((1_333.0, 1_334.0)),
        }],
        beside: Beside {
            paper: "m-paper".to_owned(),
            references: vec![ReferenceOutcome {
                source: "m-source".to_owned(),
                what: "m-what".to_owned(),
                subject: "m-subject".to_owned(),
                quantity: "m-quantity".to_owned(),
                over: "m-figure-factor".to_owned(),
                factors: vec![Fact::new("m-paper-factor", "m-paper-level")],
                paper: Some(1_661.0),
                said: String::new(),
                unit: "m-paper-unit".to_owned(),
                measured: Some(1_662.0),
                interval: Some((1_663.0, 1_664.0)),
                ratio: Some(16.65),
                note: "m-paper-note".to_owned(),
            }],
        },
        runs: vec![RunLine {
            steady: None,
            id: "m-run".to_owned(),
            block: 1_441,
            subject: "m-run-subject".to_owned(),
            factors: vec![Fact::new("m-run-factor", "m-run-level")],
            archive: "m-archive".to_owned(),
            void: vec!["m-void".to_owned()],
            notes: vec!["m-run-note".to_owned()],
        }],
        planned: 1_551,
        notes: vec!["m-note".to_owned()],
        machine: vec![Fact::new("m-machine", "m-machine-value")],
    }
}

/// The values of [`marked`] that every report shows.
const SHOWN: [&str; 30] = [
    "m-question",
    "m-verdict",
    "m-reason",
    "m-claim",
    "m-claim-factor = m-claim-level",
    "m-claim-verdict",
    "m-claim-reason",
    "1,111 m-unit",
    "1,112 to 1,113 m-unit",
    "1,114 m-unit",
    "m-control",
    "m-control-figure",
    "m-control-factor = m-control-level",
    "1.221 x",
    "1.222 to 1.223 x",
    "m-subject",
    "m-quantity",
    "1,332 m-figure-unit",
    "m-void",
    "m-paper",
    "m-source",
    "m-what",
    "m-paper-factor = m-paper-level",
    "1,661 m-paper-unit",
    "1,662 m-paper-unit",
    "1,663 to 1,664 m-paper-unit",
    "16.65",
    "m-paper-note",
    "all runs together 1,335 m-figure-unit",
    "1,336 to 1,337 m-figure-unit",
];

#[test]
fn page_shows_every_field() {
    let page = html(&marked(), &[]);
    let more = [
        "m-experiment",
        "1,333 to 1,334 m-figure-unit",
        "m-figure-factor = m-figure-level",
        "1 of 2",
        "1,116 blocks",
        "about 1117 more",
        "11.5 %",
        "12.4 %",
        "13.7 %",
        "m-run<",
        "1441",
        "m-run-subject",
        "m-run-factor = m-run-level",
        "m-archive",
        "m-run-note",
        "1,551 runs",
        "m-note",
        "m-machine",
        "m-machine-value",
    ];
    for field in SHOWN.iter().chain(&more) {
        assert!(page.contains(field), "{field}");
    }
}

#[test]
fn text_shows_the_essence_in_100_columns() {
    let shown = text(&marked()).split_whitespace().collect::<Vec<_>>().join(" ");
    for field in SHOWN.iter().chain(&[
        "1,116 blocks",
        "about 1117 more",
        "1441",
        "m-run-factor = m-run-level",
        "m-note",
        "runs spread by 13.7%",
    ]) {
        assert!(shown.contains(field), "{field} is not in {shown}");
    }
    let (mut outcome, _) = experiment(6);
    outcome.reason = "word ".repeat(50) + &"x".repeat(300);
    outcome.figures[0].subject = "y".repeat(200);
    outcome.runs[0].void.push(HOSTILE.repeat(5));
    let shown = text(&outcome);
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    assert!(shown.matches('x').count() >= 300, "long words are broken, not lost");
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'));
}

#[test]
fn hostile_text_becomes_no_markup() {
    let (mut outcome, mut records) = experiment(2);
    let hostile = || HOSTILE.to_owned();
    let facts = || vec![Fact::new(HOSTILE, HOSTILE), Fact::new("rate", HOSTILE)];
    (outcome.question, outcome.verdict, outcome.reason) = (hostile(), hostile(), hostile());
    (outcome.notes, outcome.machine, outcome.experiment) = (vec![hostile()], facts(), hostile());
    for claim in &mut outcome.claims {
        (claim.claim, claim.verdict, claim.reason, claim.unit) = (hostile(), hostile(), hostile(), hostile());
        claim.factors = facts();
    }
    for control in &mut outcome.controls {
        (control.system, control.quantity, control.factors) = (hostile(), hostile(), facts());
    }
    outcome.beside.paper = hostile();
    for reference in &mut outcome.beside.references {
        (reference.source, reference.what, reference.note) = (hostile(), hostile(), hostile());
        (reference.said, reference.unit, reference.factors) = (hostile(), hostile(), facts());
    }
    for (nth, figure) in outcome.figures.iter_mut().enumerate() {
        (figure.subject, figure.quantity, figure.unit) = (hostile(), hostile(), hostile());
        figure.factors = vec![Fact::new(HOSTILE, format!("{HOSTILE}{nth}"))];
    }
    for run in &mut outcome.runs {
        (run.id, run.subject, run.archive, run.factors) = (hostile(), hostile(), hostile(), facts());
        (run.void, run.notes) = (vec![hostile()], vec![hostile()]);
    }
    for record in &mut records {
        (record.run.system, record.run.factors, record.machine, record.program) =
            (hostile(), facts(), facts(), facts());
        (record.screened.void, record.notes, record.faults) =
            (vec![], vec![hostile()], vec![(1.0, hostile())]);
        (record.load.program, record.load.command) = (hostile(), vec![hostile()]);
        record.load.measured.insert(format!("calls.failed.{HOSTILE}"), 1);
        record.load.verdict.word = "FAIL".to_owned();
        record.load.verdict.why = vec![hostile()];
        record.load.ladders.iter_mut().for_each(|flow| (flow.why, flow.drawing) = (hostile(), hostile()));
    }
    let page = html(&outcome, &records);
    for part in [&page, &comparison(&outcome, &Outcome::default()).html()] {
        assert!(!part.contains("<script") && !part.contains("\u{1b}") && !part.contains('\u{202e}'));
        parsed(part);
    }
    assert!(page.matches("&lt;script&gt;").count() > 50);
}

#[test]
fn empty_outcome_has_all_reports() {
    let empty = Outcome::default();
    let page = html(&empty, &[]);
    parsed(&page);
    assert_loads_nothing(&page);
    assert!(page.contains("An experiment without a question") && page.contains("<strong>VOID</strong>"));
    assert!(page.contains("No run was made"));
    assert!(
        text(&empty).starts_with("An experiment without a question\nVOID: The measurements say nothing.\n")
    );
    assert_eq!(csv(&empty), "subject,quantity,unit,block,value\r\n");
    let compared = comparison(&empty, &empty);
    assert!(!compared.same_machine && !compared.same_experiment);
    parsed(&compared.html());
    // Records of runs whose outcome is not known, and without anything measured.
    parsed(&html(&empty, &[RunRecord::default(), RunRecord::default()]));
}

#[test]
fn values_that_are_no_numbers_are_not_shown() {
    let (mut outcome, mut records) = experiment(2);
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, -1e300, 0.0];
    for (nth, claim) in outcome.claims.iter_mut().enumerate() {
        let v = odd[nth % odd.len()];
        (claim.measured, claim.interval, claim.limit, claim.floor_percent) =
            (Some(v), Some((v, v)), v, Some(v));
    }
    outcome.controls[0].ratio = Some(f64::NAN);
    outcome.controls[0].interval = Some((f64::NEG_INFINITY, f64::INFINITY));
    for (nth, figure) in outcome.figures.iter_mut().enumerate() {
        let v = odd[nth % odd.len()];
        (figure.median, figure.interval, figure.values) =
            (Some(v), Some((v, v)), vec![Some(v), None, Some(1.0)]);
    }
    for (nth, reference) in outcome.beside.references.iter_mut().enumerate() {
        let v = Some(odd[nth % odd.len()]);
        (reference.paper, reference.measured, reference.ratio) = (v, v, v);
        reference.interval = v.zip(v);
    }
    for (nth, record) in records.iter_mut().enumerate() {
        let v = odd[nth % odd.len()];
        record.load.windows.measured = v;
        record.window = (v, v);
        record.load.server_cpu_percent = Some(v);
        record.load.server_memory_mib = Some(v);
        record.faults = vec![(v, "kill".to_owned())];
        record.samples.interval = v;
        record.samples.time[0] = v;
        record.load.series.time[nth % 70] = v;
        record.load.series.columns.iter_mut().for_each(|column| column.values[1] = Some(v));
        record.load.latencies.push(Latency::default());
    }
    let page = html(&outcome, &records);
    parsed(&page);
    let body = &page[page.find("<body>").expect("a body")..];
    assert!(!body.contains("NaN") && !body.contains(">inf") && !body.contains(" inf "));
    let shown = text(&outcome);
    assert!(!shown.contains("NaN") && !shown.contains("inf"), "{shown}");
    assert!(!csv(&outcome).contains("NaN") && !csv(&outcome).contains("inf"));
    let compared = comparison(&outcome, &outcome);
    assert!(!compared.text().contains("NaN"));
    parsed(&compared.html());
}

#[test]
fn series_of_the_paper_is_drawn_beside_ours() {
    let (mut outcome, records) = experiment(6);
    let page = html(&outcome, &records);
    let curve = |page: &str| {
        let from = page.find("<h3>p99 of setup against rate").expect("a curve");
        page[from..page[from..].find("</figure>").expect("its end") + from].to_owned()
    };
    let drawn = curve(&page);
    assert!(drawn.contains("strowger, transport = udp, paper"), "{drawn}");
    // In the colour of our line, which is the first.
    assert!(drawn.contains("class=\"line dots paper k0\""), "{drawn}");
    assert!(page.contains("85 % of the time in locks") && page.contains(">no counterpart<"));
    // The note of a series is written once.
    assert_eq!(page.matches("Processors of 2012").count(), 1);
    let shown = text(&outcome);
    assert!(shown.contains("rate = 50000, transport = udp: paper 4.50 ms, not measured"), "{shown}");
    outcome.beside.references.clear();
    let page = html(&outcome, &records);
    assert!(!curve(&page).contains("paper") && !page.contains("id=\"paper\""));
}

#[test]
fn one_run_is_a_page_with_its_curves() {
    let (mut outcome, mut records) = experiment(1);
    records.truncate(1);
    outcome.runs.truncate(1);
    let page = html(&outcome, &records);
    parsed(&page);
    assert!(
        page.contains("Successful calls")
            && page.contains("class=\"span\"")
            && page.contains("class=\"event\"")
    );
    assert!(page.contains(">99.99 %<"), "the distribution by nines");
}

#[test]
fn page_of_hundreds_of_runs_stays_below_2_mb() {
    let (mut outcome, mut records) = experiment(29);
    assert!(records.len() > 500);
    let page = html(&outcome, &records);
    assert!(page.len() < 2_000_000, "{}", page.len());
    // The same with as many combinations as runs, and long texts everywhere.
    let long = "long ".repeat(1_000);
    for (nth, record) in records.iter_mut().enumerate() {
        record.run.factors = vec![Fact::new("nth", nth)];
        record.screened.void.clear();
        record.program = vec![Fact::new("log", &long); 200];
        record.run.system = format!("{nth}{long}");
        record.load.ladders[0].drawing = long.repeat(10);
        record.load.ladders[0].why = format!("{nth}{long}");
    }
    for run in &mut outcome.runs {
        (run.void, run.notes) = (Vec::new(), vec![long.clone(); 3]);
    }
    outcome.claims =
        vec![ClaimOutcome { claim: long.clone(), reason: long.clone(), ..outcome.claims[0].clone() }; 900];
    let page = html(&outcome, &records);
    parsed(&page);
    assert!(page.len() < 2_000_000, "{}", page.len());
    assert!(page.contains("more not on this page; the archives have the series"));
    assert!(text(&outcome).len() < 100_000);
}

#[test]
fn program_that_changed_between_runs_is_told() {
    let (outcome, mut records) = experiment(2);
    records[3].program.push(Fact::new("arguments", "of this run"));
    assert!(!html(&outcome, &records).contains("Not the same in all runs"));
    records[3].program[1].value = "another".to_owned();
    assert!(html(&outcome, &records).contains("Not the same in all runs of strowger: sha256."));
}

#[test]
fn back_ends_have_curves_of_what_requests_found() {
    let (outcome, mut records) = experiment(2);
    assert!(!html(&outcome, &records).contains("id=\"occupancy\""));
    for (nth, record) in records.iter_mut().enumerate() {
        let found = (0..400).map(|n| Found { requests: 4_000 / (n + 1), seconds: 0.001 * n as f64 });
        record.backends = vec![NodeReport { found: found.collect(), ..NodeReport::default() }; 8];
        record.backends[0].found[0].seconds = if nth == 0 { f64::NAN } else { 1.0 };
    }
    let page = html(&outcome, &records);
    parsed(&page);
    let part =
        &page[page.find("id=\"occupancy\"").expect("a section")..page.find("id=\"time\"").expect("the next")];
    for title in ["Found at most, rate = 100", "Found more", "Part of the time", "Time up to it"] {
        assert!(part.contains(title), "{title}");
    }
    assert!(!part.contains("NaN") && part.contains(">399<"), "{part}");
    records.iter_mut().for_each(|record| record.backends = vec![NodeReport::default()]);
    assert!(!html(&outcome, &records).contains("id=\"occupancy\""));
}

#[test]
fn figures_without_factors_are_one_table() {
    let (mut outcome, _) = experiment(2);
    let tables = |outcome: &Outcome| {
        let page = html(outcome, &[]);
        let from = page.find("id=\"figures\"").expect("figures");
        page[from..page.find("id=\"runs\"").expect("runs")].matches("<table>").count()
    };
    assert_eq!(tables(&outcome), 3);
    outcome.figures.iter_mut().for_each(|figure| figure.factors.clear());
    assert_eq!(tables(&outcome), 1);
}

#[test]
fn void_runs_are_in_no_curve() {
    let (mut outcome, records) = experiment(2);
    assert!(html(&outcome, &records).contains("id=\"times\""));
    outcome.runs.iter_mut().for_each(|run| run.void = vec!["all void".to_owned()]);
    let page = html(&outcome, &records);
    parsed(&page);
    for section in ["id=\"times\"", "id=\"time\"", "id=\"costs\""] {
        assert!(!page.contains(section), "{section}");
    }
    assert!(page.contains("0 of 38 runs count"));
}

#[test]
fn costs_are_for_each_call_and_message() {
    let (outcome, records) = experiment(6);
    let page = html(&outcome, &records);
    let costs = &page[page.find("id=\"costs\"").expect("costs")..page.find("id=\"runs\"").expect("runs")];
    // 105,000 instructions a call, of 12 messages less those of three dead seconds of sixty.
    assert!(costs.contains(">105,000<p class=\"dim\">105,000 to 105,000<"), "{costs}");
    assert!(costs.contains(">11.4<p class=\"dim\">11.4 to 11.4<"), "{costs}");
    assert!(costs.contains(">9,211<"), "{costs}");
}

#[test]
fn csv_has_a_line_for_each_block() {
    let (mut outcome, _) = experiment(2);
    outcome.figures.truncate(2);
    outcome.figures[0].values = vec![Some(1.5), None];
    outcome.figures[1].subject = "=a, \"b\"\r\n".to_owned();
    outcome.figures[1].values = vec![Some(2.0)];
    let lines = "subject,factor.rate,factor.transport,quantity,unit,block,value\r\n\
                 strowger,100,udp,p99 of setup,ms,1,1.5\r\n\
                 strowger,100,udp,p99 of setup,ms,2,\r\n\
                 \"'=a, \"\"b\"\"\",100,udp,p99 of setup,ms,1,2\r\n";
    assert_eq!(csv(&outcome), lines);
}

/// Two outcomes with one figure each, in milliseconds.
fn pair(a: (f64, f64), b: (f64, f64)) -> (Outcome, Outcome) {
    let outcome = |(low, high): (f64, f64)| {
        let mut outcome = experiment(2).0;
        outcome.figures.truncate(1);
        outcome.figures[0].median = Some(f64::midpoint(low, high));
        outcome.figures[0].interval = Some((low, high));
        outcome.figures[0].values =
            (0..8).map(|nth| Some(low + f64::from(nth) * (high - low) / 7.0)).collect();
        outcome
    };
    (outcome(a), outcome(b))
}

#[test]
fn comparison_tells_differences_from_chance() {
    for (a, b, relation, better, words) in [
        ((1.0, 2.0), (3.0, 4.0), Relation::Higher, Some(false), "B is worse"),
        ((3.0, 4.0), (1.0, 2.0), Relation::Lower, Some(true), "B is better"),
        ((1.0, 2.0), (1.1, 2.2), Relation::NoDifference, None, "no difference shown"),
    ] {
        let (a, b) = pair(a, b);
        let compared = comparison(&a, &b);
        assert!(compared.same_machine && compared.same_experiment);
        assert_eq!((compared.figures[0].relation, compared.figures[0].better), (relation, better));
        assert!(compared.html().contains(words) && compared.text().contains(words), "{words}");
        assert!(compared.to_json().contains("\"change_percent\""));
    }
    let (a, mut b) = pair((1.0, 2.0), (3.0, 4.0));
    b.figures[0].values.truncate(1);
    assert_eq!(comparison(&a, &b).figures[0].relation, Relation::Unknown);
    // Medians of many blocks may differ where their own intervals overlap.
    let (mut a, mut b) = pair((1.0, 2.0), (1.5, 2.5));
    for (nth, outcome) in [&mut a, &mut b].into_iter().enumerate() {
        let at = |value: i32| Some(f64::from(value % 40) / 40.0 + 1.0 + nth as f64 / 4.0);
        outcome.figures[0].values = (0..200).map(at).collect();
    }
    assert_eq!(comparison(&a, &b).figures[0].relation, Relation::Higher);
    b.figures[0].subject = "other".to_owned();
    let compared = comparison(&a, &b);
    assert_eq!(
        compared.figures.iter().map(|row| row.subject.as_str()).collect::<Vec<_>>(),
        ["strowger", "other"]
    );
    assert_eq!(compared.figures[1].a, (None, None));
}

#[test]
fn comparison_of_other_machines_makes_no_claim() {
    let (a, mut b) = pair((1.0, 2.0), (3.0, 4.0));
    b.machine[1].value = "6.19.0".to_owned();
    b.machine.push(Fact::new("governor", "powersave"));
    b.experiment = "fedcba9876543210".to_owned();
    let compared = comparison(&a, &b);
    assert!(!compared.same_machine && !compared.same_experiment);
    for part in [compared.html(), compared.text()] {
        let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(part.contains("No claim is made: the machines differ in 2 facts"), "{part}");
        assert!(part.contains("different digests"));
        assert!(part.contains("6.18.0") && part.contains("6.19.0") && part.contains("governor"));
        assert!(!part.contains("worse") && part.contains("no claim"));
    }
    assert!(compared.text().lines().all(|line| line.chars().count() <= 100));
    parsed(&compared.html());
    assert_loads_nothing(&compared.html());
    // A machine of which nothing is known is not the same either.
    let (a, mut b) = pair((1.0, 2.0), (3.0, 4.0));
    b.machine.clear();
    assert!(!comparison(&a, &b).same_machine);
    b = a.clone();
    b.machine.clear();
    let mut unknown = a;
    unknown.machine.clear();
    assert!(comparison(&unknown, &b).text().contains("the machine of a side is not known"));
}
