//! A made-up experiment: two systems and the second copy of one, at three rates over two transports.

use load::report::{Column, Distribution, Fact, LadderReport, Latency, SeriesReport};

use crate::outcome::{Beside, ClaimOutcome, Control, Figure, Outcome, ReferenceOutcome, RunLine};
use crate::record::{MadeRun, RunRecord};

const SUBJECTS: [&str; 3] = ["strowger", "strowger.again", "kamailio"];
const RATES: [u32; 3] = [100, 1_000, 10_000];

/// A number that changes with its arguments and is the same each time: 0 to 1.
fn noise(a: usize, b: usize) -> f64 {
    let mixed = (a as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (b as u64 + 7).wrapping_mul(0xd1b5_4a32);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed ^ (mixed >> 32)) & 0xffff) as f64 / 65_535.0
}

pub fn factors(rate: u32, transport: &str) -> Vec<Fact> {
    vec![Fact::new("rate", rate), Fact::new("transport", transport)]
}

fn column(key: &str, values: impl Iterator<Item = f64>) -> Column {
    Column { key: key.to_owned(), unit: String::new(), values: values.map(Some).collect() }
}

/// One run of 60 s at a rate, with 10 s before it and 4 s after.
pub fn record(block: u32, subject: &str, setup: usize, rate: u32, transport: &str) -> RunRecord {
    let of = noise(block as usize, subject.len() + setup);
    let slow = if subject == "kamailio" { 1.6 } else { 1.0 };
    let rate_f = f64::from(rate);
    let mut record = RunRecord {
        version: crate::record::VERSION,
        run: MadeRun {
            id: format!("0123456789abcdef-b{block}-{subject}-c{}", setup + 1),
            block,
            system: subject.trim_end_matches(".again").to_owned(),
            twin: subject.ends_with(".again"),
            setup,
            factors: factors(rate, transport),
            seed: 42,
            started: 1_764_400_000 + u64::from(block) * 100,
            ..MadeRun::default()
        },
        program: vec![
            Fact::new("version", format!("{} 1.0", subject.trim_end_matches(".again"))),
            Fact::new("sha256", "ab".repeat(32)),
        ],
        machine: machine(),
        window: (11.0, 71.0),
        faults: vec![(30.0, "kill".to_owned())],
        ..RunRecord::default()
    };
    let load = &mut record.load;
    load.program = "strowger 0.1.0".to_owned();
    load.command = vec!["strowger".to_owned(), "load".to_owned(), "--seed".to_owned(), "42".to_owned()];
    load.windows.warm_up = 10.0;
    load.windows.measured = 60.0;
    load.server_cpu_percent = Some(rate_f * 0.004 * slow * (1.0 + of * 0.05));
    load.server_memory_mib = Some(30.0 * slow + of);
    load.measured.insert("calls.succeeded".to_owned(), u64::from(rate) * 60);
    load.measured.insert("calls.failed.timeout".to_owned(), 3);
    load.ladders.push(LadderReport {
        why: "timeout of \"INVITE\"".to_owned(),
        drawing: "caller                callee\n  | INVITE            |\n  |------------------>|".to_owned(),
        ..LadderReport::default()
    });
    let buckets: Vec<(u64, u64)> = (0..250_u64)
        .map(|i| {
            let upper = (300.0 * slow * (1.0 + of * 0.03) * 1.02_f64.powi(i as i32)) as u64;
            (upper, (1e6 * (-(i as f64 - 40.0).powi(2) / 900.0).exp()) as u64 + 250 - i)
        })
        .collect();
    let count = buckets.iter().map(|b| b.1).sum();
    let (min, max) = (buckets[0].0, buckets[249].0);
    let intended = Distribution { count, min, max, buckets, ..Distribution::default() };
    load.latencies.push(Latency { key: "setup".to_owned(), intended, ..Latency::default() });
    let at = |i: usize| noise(i, setup * 31 + block as usize * 7 + subject.len());
    let dead = |i: usize| (40..43).contains(&i);
    let alive = |i: usize, value: f64| if dead(i) { 0.0 } else { value };
    load.series = SeriesReport {
        interval: 1.0,
        time: (0..74).map(f64::from).collect(),
        columns: vec![
            column("succeeded", (0..74).map(|i| alive(i, rate_f * (0.98 + 0.04 * at(i))))),
            column("failed", (0..74).map(|i| if dead(i) { rate_f } else { 0.0 })),
            column("repeated", (0..74).map(|_| 0.0)),
            column("sent", (0..74).map(|i| alive(i, rate_f * 6.0))),
            column("received", (0..74).map(|i| alive(i, rate_f * 6.0))),
            column("latency_p99", (0..74).map(|i| 1.2 * slow * (1.0 + 0.1 * at(i)))),
        ],
    };
    record.samples = SeriesReport {
        interval: 1.0,
        time: (0..76).map(f64::from).collect(),
        columns: vec![
            column("system.cpu", (0..76).map(|i| rate_f * 0.004 * slow * (0.95 + 0.1 * at(i)))),
            column("system.memory", (0..76).map(|i| 20.0 * slow + 0.1 * i as f64 + at(i))),
            column("system.instructions", (0..76).map(|_| rate_f * 105_000.0 * slow)),
            column("system.waits", (0..76).map(|_| rate_f * 3.0)),
            column("generator.cpu", (0..76).map(|_| rate_f * 0.003)),
            column("machine.udp_receive_buffer_errors", (0..76).map(|_| 0.0)),
        ],
    };
    record
}

pub fn machine() -> Vec<Fact> {
    vec![
        Fact::new("processor", "Example CPU at 2.0 GHz"),
        Fact::new("kernel", "6.18.0"),
        Fact::new("mitigations", "spectre_v2: Mitigation: Enhanced IBRS; ".repeat(4)),
    ]
}

fn line(record: &RunRecord) -> RunLine {
    RunLine {
        steady: None,
        id: record.run.id.clone(),
        block: record.run.block,
        subject: record.subject(),
        factors: record.run.factors.clone(),
        archive: format!("{}-9f86d081884c.run.tgz", record.run.id),
        void: record.screened.void.clone(),
        notes: vec!["the warm-up ended at its limit: something was not steady yet".to_owned()],
    }
}

fn figure(subject: usize, quantity: &str, unit: &str, scale: f64, at: &[Fact], blocks: usize) -> Figure {
    let slow = if subject == 2 { 1.6 } else { 1.0 };
    let values: Vec<f64> = (0..blocks)
        .map(|b| scale * slow * (1.0 + 0.06 * noise(b, subject + quantity.len() + at[0].value.len())))
        .collect();
    let median = crate::statistics::median(&values);
    let interval = crate::statistics::median_interval(&values, 0.95, 0).ok();
    Figure {
        pooled: None,
        pooled_interval: None,
        subject: SUBJECTS[subject].to_owned(),
        quantity: quantity.to_owned(),
        unit: unit.to_owned(),
        factors: at.to_vec(),
        values: values.into_iter().map(Some).collect(),
        median,
        interval: interval.map(|e| (e.interval.low(), e.interval.high())),
    }
}

/// A series of a paper, with a rate that was not measured, and a figure without counterpart.
fn references() -> Vec<ReferenceOutcome> {
    let point = |rate: u32, measured: Option<f64>| ReferenceOutcome {
        source: "Figure 6".to_owned(),
        what: "p99 of setup of strowger".to_owned(),
        subject: "strowger".to_owned(),
        quantity: "p99 of setup".to_owned(),
        over: "rate".to_owned(),
        factors: factors(rate, "udp"),
        paper: Some(4.5),
        unit: "ms".to_owned(),
        measured,
        interval: measured.map(|v| (v * 0.9, v * 1.1)),
        ratio: measured.map(|v| v / 4.5),
        note: "Processors of 2012 had a third of the speed.".to_owned(),
        ..ReferenceOutcome::default()
    };
    let alone = ReferenceOutcome {
        source: "Table 2".to_owned(),
        said: "85 % of the time in locks".to_owned(),
        note: "There are no such locks here.".to_owned(),
        ..ReferenceOutcome::default()
    };
    vec![point(100, Some(2.7)), point(1_000, Some(2.9)), point(50_000, None), alone]
}

/// The experiment with this number of blocks, and its records.
pub fn experiment(blocks: u32) -> (Outcome, Vec<RunRecord>) {
    let mut records = Vec::new();
    let setups: Vec<(u32, &str)> =
        ["udp", "tls"].into_iter().flat_map(|t| RATES.into_iter().map(move |r| (r, t))).collect();
    for block in 1..=blocks {
        for (setup, (rate, transport)) in setups.iter().enumerate() {
            records.extend(SUBJECTS.map(|subject| record(block, subject, setup, *rate, transport)));
        }
    }
    if let Some(record) = records.get_mut(1) {
        record.screened.void.push("12 datagrams that no socket had room for (UdpRcvbufErrors)".to_owned());
    }
    let quantities = [("p99 of setup", "ms", 2.1), ("cpu/call", "us", 40.0), ("memory", "MiB", 30.0)];
    let mut figures = Vec::new();
    for (quantity, unit, scale) in quantities {
        for (rate, transport) in &setups {
            let scale = scale * (1.0 + f64::from(rate.ilog10()) / 10.0);
            let scale = if *transport == "tls" { scale * 1.4 } else { scale };
            let at = factors(*rate, transport);
            figures.extend((0..3).map(|s| figure(s, quantity, unit, scale, &at, blocks as usize)));
        }
    }
    let claim = |verdict: &str, measured: f64, limit: f64| ClaimOutcome {
        claim: format!("p99 of setup of strowger at most {limit} of kamailio"),
        factors: factors(1_000, "udp"),
        verdict: verdict.to_owned(),
        reason: format!("the interval lies on the side of {verdict}"),
        measured: Some(measured),
        interval: Some((measured * 0.97, measured * 1.03)),
        limit,
        unit: "x".to_owned(),
        floor_percent: Some(2.5),
        blocks: blocks as usize,
        more: (verdict == "NO DIFFERENCE SHOWN").then_some(12),
    };
    let absolute = ClaimOutcome {
        claim: "cpu/call of strowger at most 45 us".to_owned(),
        verdict: "PASS".to_owned(),
        reason: "the whole interval is below the limit".to_owned(),
        measured: Some(41.2),
        interval: Some((40.1, 42.0)),
        limit: 45.0,
        unit: "us".to_owned(),
        blocks: blocks as usize,
        ..ClaimOutcome::default()
    };
    let control = |quantity: &str, ratio: f64| Control {
        spread_percent: Some(1.5),
        system: "strowger".to_owned(),
        quantity: quantity.to_owned(),
        factors: factors(1_000, "udp"),
        ratio: Some(ratio),
        interval: Some((ratio - 0.015, ratio + 0.02)),
        floor_percent: Some(2.5),
    };
    let outcome = Outcome {
        looks: Vec::new(),
        version: crate::outcome::VERSION,
        experiment: "0123456789abcdef".to_owned(),
        question: "Does a call cost less at Strowger than at Kamailio, and how does it grow with the rate?"
            .to_owned(),
        verdict: "NO DIFFERENCE SHOWN".to_owned(),
        reason: "Two claims of four are shown; for one the interval contains the limit.".to_owned(),
        claims: vec![
            claim("PASS", 0.62, 0.8),
            claim("FAIL", 0.62, 0.5),
            claim("NO DIFFERENCE SHOWN", 0.99, 1.0),
            absolute,
        ],
        controls: vec![control("p99 of setup", 1.004), control("cpu/call", 0.996)],
        beside: Beside {
            paper: "A. Author and B. Author, How Servers Grow, 2012".to_owned(),
            references: references(),
        },
        times: crate::times::times(&records),
        figures,
        runs: records.iter().map(line).collect(),
        planned: records.len() + 2,
        notes: vec!["The machine has two processors: generator and system have one each.".to_owned()],
        machine: machine(),
    };
    (outcome, records)
}
