//! From a record to a report.

use std::collections::BTreeMap;

use wire::Time;

use super::format::{ms, percent, round};
use super::model::{
    Better, CheckReport, Distribution, FORMAT, Fact, LadderReport, Latency, Message, MetricRow, Report,
    VERSION, VerdictReport, Windows,
};
use super::own;
use super::series::columns;
use super::stats;
use crate::metrics::{
    Check, Counters, Direction, Failure, Health, Hist, Ladder, Lost, Measure, Method, Metrics, Performance,
    Rates, Ratio, Rule, Stop, Unexpected, judge,
};

/// What is known of a run beside its record.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Program and version.
    pub program: String,
    /// For people: what was run against what.
    pub title: String,
    /// "population", "scenario uac", "self-test".
    pub workload: String,
    /// Wall clock at the start, RFC 3339.
    pub started: String,
    /// The same, seconds since 1970.
    pub began: f64,
    /// The command line.
    pub command: Vec<String>,
    /// Seed of everything random.
    pub seed: u64,
    /// How many times faster than real time users live; 1 is real time.
    pub compression: f64,
    /// Phases, seconds of the wall clock.
    pub windows: Windows,
    /// Every parameter, defaults included.
    pub parameters: Vec<Fact>,
    /// The generator's machine.
    pub machine: Vec<Fact>,
    /// What is known of the server.
    pub server: Vec<Fact>,
    /// The server's processor time in the measured window, percent of one core.
    pub server_cpu_percent: Option<f64>,
    /// Its memory at the end, MiB.
    pub server_memory_mib: Option<f64>,
    /// The generator's processor time.
    pub health: Health,
    /// What else the reader should know.
    pub notes: Vec<String>,
    /// What stopped it, if it was stopped.
    pub stop: Option<Stop>,
    /// When the run ended.
    pub end: Time,
}

impl Report {
    /// The report of a run: `metrics` merged over all workers, `flows` the failed call flows kept.
    pub fn build(inputs: Inputs, metrics: &Metrics, rule: &Rule, flows: &[Ladder]) -> Report {
        let (mut verdict, checks) = judge(rule, metrics, inputs.health);
        let mut parameters = inputs.parameters.clone();
        parameters.extend(rule_facts(rule));
        let origin = metrics.series().origin();
        let mut notes = inputs.notes.clone();
        if let Some(stop) = &inputs.stop {
            verdict = verdict.of_stopped(stop);
            notes.insert(0, stop.words.clone());
        }
        notes.extend(remarks(&inputs, metrics));
        notes.extend(own::tables(metrics));
        let lateness = distribution(metrics.punctuality().lateness());
        Report {
            format: FORMAT.to_owned(),
            version: VERSION,
            verdict: VerdictReport {
                word: verdict.word().to_owned(),
                exit_code: verdict.exit_code(),
                why: verdict.why().to_vec(),
                checks: checks.into_iter().map(check).collect(),
            },
            notes,
            metrics: rows(metrics, &inputs),
            latencies: latencies(metrics),
            lateness,
            queue: distribution(metrics.punctuality().queue()),
            measured: counters(&metrics.measured),
            whole: counters(&metrics.all),
            series: columns(metrics.series(), inputs.end),
            ladders: flows.iter().map(|f| ladder(f, origin)).collect(),
            program: inputs.program,
            title: inputs.title,
            workload: inputs.workload,
            started: inputs.started,
            began: inputs.began,
            command: inputs.command,
            seed: inputs.seed,
            compression: inputs.compression,
            windows: inputs.windows,
            parameters,
            machine: inputs.machine,
            server: inputs.server,
            server_cpu_percent: inputs.server_cpu_percent.map(round),
            server_memory_mib: inputs.server_memory_mib.map(round),
            trials: Vec::new(),
            peak: None,
        }
    }
}

/// What the run was judged by: runs with different rules are not to be compared without a word.
fn rule_facts(rule: &Rule) -> Vec<Fact> {
    let mut facts = vec![Fact::new("rule: successes, at least", format!("{} %", rule.success_percent))];
    facts.extend(rule.latency.iter().map(|limit| {
        let name = format!("rule: {}, p{}, at most", limit.measure.key(), limit.percentile);
        Fact::new(name, format!("{} ms", ms(limit.max_micros)))
    }));
    let late = format!("{} ms", ms(rule.max_lateness_p999_micros));
    facts.push(Fact::new("rule: generator's lateness, at most", late));
    facts
}

fn check(c: Check) -> CheckReport {
    CheckReport { name: c.name, found: c.found, limit: c.limit, kept: c.kept, of_generator: c.of_generator }
}

/// What a careful reader would ask.
fn remarks(inputs: &Inputs, m: &Metrics) -> Vec<String> {
    let mut out = Vec::new();
    if inputs.compression != 1.0 {
        let x = inputs.compression;
        out.push(format!(
            "Time is compressed {x} times: users register, think, ring and talk {x} times faster than in life, \
             so one user here is as much load as {x} users in real time. Latencies and timers of SIP are not \
             compressed."
        ));
    }
    let [caller, _] = &m.measured.sides;
    let counted = caller.succeeded + caller.cancelled + caller.failures();
    if counted > 0 {
        let bound = stats::proportion_upper(caller.failures(), counted, 0.95) * 100.0;
        out.push(format!(
            "{} of {counted} calls failed. If calls fail independently of each other, the true share is below \
             {} % with 95 % confidence (Clopper-Pearson, one-sided).",
            caller.failures(),
            percent(bound)
        ));
    }
    // A call has two sides here where callees are played as well; it is one call all the same.
    let [caller, callee] = &m.measured.sides;
    let unfinished = if caller.begun > 0 { caller.unfinished() } else { callee.unfinished() };
    if unfinished > 0 {
        out.push(format!(
            "{unfinished} calls that began in the measured window had not ended when the run did; they are in no \
             success rate, and count in the denominators of RFC 6076."
        ));
    }
    let (intended, sent) = {
        let r = m.latency(Measure::Response);
        (r.intended.percentile(99.0), r.sent.percentile(99.0))
    };
    if intended > sent.saturating_mul(2).max(sent + 1_000) {
        out.push(format!(
            "The 99th percentile of the response time is {} ms from the intended start and {} ms from the actual \
             one: the generator was held up, and that is in the first figure. Where the server stood still and the generator \
             had to wait for it, that is what users would have seen; else it is the generator's own.",
            ms(intended),
            ms(sent)
        ));
    }
    out
}

/// A histogram for the report, with buckets at most 2 % wide.
pub fn distribution(h: &Hist) -> Distribution {
    let mut buckets: Vec<(u64, u64)> = Vec::new();
    let mut low = 0_u64;
    h.for_each(|value, count| match buckets.last_mut() {
        Some((upper, n)) if value * 50 <= low * 51 => {
            *upper = value;
            *n += count;
        }
        _ => {
            low = value;
            buckets.push((value, count));
        }
    });
    Distribution {
        count: h.count(),
        min: h.min(),
        mean: round(h.mean()),
        deviation: round(h.deviation()),
        sum_of_squares: (h.sum_of_squares() as f64).round(),
        p50: h.percentile(50.0),
        p90: h.percentile(90.0),
        p95: h.percentile(95.0),
        p99: h.percentile(99.0),
        p999: h.percentile(99.9),
        p9999: h.percentile(99.99),
        max: h.max(),
        buckets,
    }
}

fn latencies(m: &Metrics) -> Vec<Latency> {
    let mut out = Vec::new();
    for measure in Measure::ALL {
        let p = m.latency(measure);
        if !p.sent.is_empty() {
            out.push(Latency {
                key: measure.key().to_owned(),
                text: measure.text().to_owned(),
                duration: measure.is_duration(),
                intended: distribution(&p.intended),
                sent: distribution(&p.sent),
            });
        }
    }
    for (name, p) in m.custom().stopwatches().iter().filter(|(_, p)| !p.sent.is_empty()) {
        let (key, text) = stopwatch(name);
        out.push(Latency {
            key,
            text,
            duration: false,
            intended: distribution(&p.intended),
            sent: distribution(&p.sent),
        });
    }
    out
}

/// Everything counted, by name; zeroes are left out.
fn counters(c: &Counters) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    let mut put = |name: String, n: u64| {
        if n > 0 {
            out.insert(name, n);
        }
    };
    for (side, s) in ["calls", "callee_calls"].into_iter().zip(&c.sides) {
        put(format!("{side}.begun"), s.begun);
        put(format!("{side}.succeeded"), s.succeeded);
        put(format!("{side}.cancelled"), s.cancelled);
        put(format!("{side}.unfinished"), s.unfinished());
        for f in Failure::ALL {
            put(format!("{side}.failed.{}", f.text()), s.failed[f as usize]);
        }
    }
    for m in Method::ALL {
        put(format!("requests_sent.{}", m.text()), c.requests_sent[m as usize]);
        put(format!("requests_repeated.{}", m.text()), c.requests_repeated[m as usize]);
        put(format!("requests_received.{}", m.text()), c.requests_received[m as usize]);
    }
    for u in Unexpected::ALL {
        put(format!("unexpected.{}", u.text()), c.unexpected[u as usize]);
    }
    c.responses_received.seen().for_each(|(s, n)| put(format!("responses_received.{s}"), n));
    c.session_finals.seen().for_each(|(s, n)| put(format!("session_finals.{s}"), n));
    c.named().into_iter().for_each(|(name, n)| put(name.to_owned(), n));
    out
}

fn ladder(f: &Ladder, origin: Time) -> LadderReport {
    let since = |t: Time| round(t.since(origin).as_secs_f64());
    LadderReport {
        call_id: f.call_id.clone(),
        why: f.why.clone(),
        at: since(f.at),
        incomplete: f.incomplete,
        drawing: f.text(),
        messages: f
            .steps
            .iter()
            .map(|s| Message {
                at: since(s.at),
                sent: s.direction == Direction::Sent,
                local: s.local.to_string(),
                remote: s.remote.to_string(),
                label: s.label(60),
                text: match s.held {
                    true => String::from_utf8_lossy(&s.bytes).into_owned(),
                    false => "(the message itself was no longer held when the call failed)".to_owned(),
                },
                length: s.length,
            })
            .collect(),
    }
}

/// Collects rows.
pub(super) struct Rows(pub(super) Vec<MetricRow>);

impl Rows {
    pub(super) fn add(
        &mut self,
        key: &str,
        name: &str,
        value: Option<f64>,
        unit: &str,
        better: Better,
    ) -> &mut MetricRow {
        self.0.push(MetricRow {
            key: key.to_owned(),
            name: name.to_owned(),
            value: value.map(round),
            unit: unit.to_owned(),
            better,
            ..MetricRow::default()
        });
        let last = self.0.len() - 1;
        &mut self.0[last]
    }

    pub(super) fn count(&mut self, key: &str, name: &str, n: u64, better: Better) -> &mut MetricRow {
        self.add(key, name, Some(n as f64), "", better)
    }
}

impl MetricRow {
    pub(super) fn says(&mut self, definition: &str, source: &str) {
        self.definition = definition.to_owned();
        self.source = source.to_owned();
    }
}

pub(super) const OURS: &str = "Strowger";

fn rows(m: &Metrics, inputs: &Inputs) -> Vec<MetricRow> {
    let seconds = inputs.windows.measured;
    let mut rows = Rows(Vec::new());
    outcome_rows(&mut rows, m, inputs);
    ratio_rows(&mut rows, m);
    delay_rows(&mut rows, m);
    rate_rows(&mut rows, m, seconds);
    percentile_rows(&mut rows, m);
    honesty_rows(&mut rows, m, inputs.health);
    own::counter_rows(&mut rows, m);
    rows.0
}

fn outcome_rows(rows: &mut Rows, m: &Metrics, inputs: &Inputs) {
    let seconds = inputs.windows.measured;
    let c = &m.measured;
    let [caller, callee] = &c.sides;
    let per_second = |n: u64| (seconds > 0.0).then(|| n as f64 / seconds);
    rows.add("calls.success", "Successful calls", caller.success_percent(), "%", Better::Higher)
        .says("Calls that ended as the scenario wants, planned cancels included, over calls that ended; void calls are in neither.", OURS);
    rows.count("calls.begun", "Calls begun", caller.begun, Better::Neither)
        .says("Calls that were meant to begin in the measured window, and did.", OURS);
    rows.count("calls.failed", "Calls failed", caller.failures(), Better::Lower)
        .says("Of these, ended otherwise than the scenario wants.", OURS);
    let unfinished = caller.unfinished();
    if unfinished > 0 {
        rows.count("calls.unfinished", "Calls unfinished", unfinished, Better::Neither).says(
            "Of these, not ended when the run did: they paused, waited for the other side, or were answered just then. \
             They are in no rate of success.",
            OURS,
        );
    }
    rows.add("calls.rate", "Calls begun per second", per_second(caller.begun), "1/s", Better::Neither).says(
        "Calls begun over the length of the measured window, which ends with the last that was to begin.",
        OURS,
    );
    if callee.begun > 0 {
        rows.count("callee.begun", "Calls answered", callee.begun, Better::Neither)
            .says("Calls that came in the measured window and were taken.", OURS);
        rows.add(
            "callee.success",
            "Successful calls, callee's side",
            callee.success_percent(),
            "%",
            Better::Higher,
        )
        .says("As above, of calls that were answered.", OURS);
    }
    if let Some(share) = c.registrations_percent() {
        rows.add("registrations.success", "Successful registrations", Some(share), "%", Better::Higher)
            .says("First registrations and refreshes that got a 2xx, over those that ended.", OURS);
    }
    if c.registrations_skipped > 0 {
        let skipped = c.registrations_skipped;
        rows.count("registrations.skipped", "Registrations left out", skipped, Better::Lower).says(
            "Due while the one before was still under way, which may not be (RFC 3261 section 10.2).",
            OURS,
        );
    }
    if c.voicemails > 0 {
        rows.count("voicemails", "Calls that ended in voicemail", c.voicemails, Better::Neither)
            .says("Answered by the mailbox, or by the callee as one; they are among the sessions.", OURS);
    }
    rows.add("transactions.success", "Successful transactions", c.transactions_percent(), "%", Better::Higher)
        .says("Client transactions that ended with a response that the scenario wants (a challenge and a planned 487 are), over all that ended.", OURS);
    rows.count("retransmissions", "Requests sent again", c.retransmissions(), Better::Lower).says(
        "Requests repeated by timers A and E (RFC 3261 section 17.1) because no response had come.",
        OURS,
    );
    rows.count("unexpected", "Unexpected messages", c.unexpected_messages(), Better::Lower).says(
        "Messages with another method or status than the scenario waits for, of no call, or malformed.",
        OURS,
    );
    // Messages are counted until the window ends. That of a scenario ends with its calls.
    let followed = if m.window().until == Time::FAR { inputs.windows.cool_down } else { 0.0 };
    let length = seconds + followed;
    let rate = (length > 0.0).then(|| c.messages_sent() as f64 / length);
    rows.add("messages.rate", "Messages sent per second", rate, "1/s", Better::Neither).says(
        "All requests and responses sent, retransmissions included, over the time from the beginning of the measured \
         window until they are counted no more: its end with users, the end of the run with scenarios.",
        OURS,
    );
}

fn ratio_rows(rows: &mut Rows, m: &Metrics) {
    let p = Performance(m);
    let mut add = |key: &str, name: &str, r: Ratio, better: Better, definition: &str, source: &str| {
        rows.add(key, name, r.percent(), "%", better).says(definition, source);
    };
    add(
        "ser",
        "Session Establishment Ratio (SER)",
        p.ser(),
        Better::Higher,
        "INVITE requests answered with 2xx, over all INVITE requests less those answered with 3xx. Planned cancels and busy callees lower it.",
        "RFC 6076 section 4.6",
    );
    add(
        "seer",
        "Session Establishment Effectiveness Ratio (SEER)",
        p.seer(),
        Better::Higher,
        "As SER, with 480, 486, 600 and 603 counted as effective.",
        "RFC 6076 section 4.7",
    );
    add(
        "isa",
        "Ineffective Session Attempts (ISA)",
        p.isa(),
        Better::Lower,
        "Session requests that ended with 408, 500, 503, 504 or without any answer, over all session requests.",
        "RFC 6076 section 4.8",
    );
    add(
        "scr",
        "Session Completion Ratio (SCR)",
        p.scr(),
        Better::Higher,
        "Sessions established and properly ended, over all session requests; sessions still up count in the denominator only.",
        "RFC 6076 section 4.9",
    );
    add(
        "ira",
        "Ineffective Registration Attempts (IRA)",
        p.ira(),
        Better::Lower,
        "REGISTER requests that failed (4xx other than challenges, 5xx, 6xx, timer F), over all REGISTER requests.",
        "RFC 6076 section 4.2",
    );
}

fn delay_rows(rows: &mut Rows, m: &Metrics) {
    let p = Performance(m);
    let mut add = |key: &str, name: &str, h: &Hist, unit: &str, definition: &str, source: &str| {
        let scale = if unit == "s" { 1e6 } else { 1e3 };
        let mean = (!h.is_empty()).then(|| h.mean() / scale);
        let better = if key.starts_with("sdt") { Better::Neither } else { Better::Lower };
        rows.add(key, name, mean, unit, better).says(definition, source);
    };
    add(
        "rrd.mean",
        "Registration Request Delay (RRD), mean",
        &p.rrd(),
        "ms",
        "First REGISTER sent to 200 received, challenge included; successful ones only.",
        "RFC 6076 section 4.1",
    );
    add(
        "srd.mean",
        "Session Request Delay (SRD), successful, mean",
        p.srd_success(),
        "s",
        "First INVITE sent to the first response above 100; sessions that were established.",
        "RFC 6076 section 4.3.1",
    );
    add(
        "srd-failed.mean",
        "Session Request Delay (SRD), failed, mean",
        p.srd_failed(),
        "s",
        "First INVITE sent to the first response above 100; session requests that failed.",
        "RFC 6076 section 4.3.2",
    );
    add(
        "sdd.mean",
        "Session Disconnect Delay (SDD), mean",
        p.sdd_success(),
        "ms",
        "BYE sent to its 2xx; BYEs that nobody answered are excluded.",
        "RFC 6076 section 4.4",
    );
    add(
        "sdt.mean",
        "Session Duration Time (SDT), completed, mean",
        p.sdt_success(),
        "s",
        "200 to the INVITE received to BYE sent or received.",
        "RFC 6076 section 4.5.1",
    );
    add(
        "sdt-failed.mean",
        "Session Duration Time (SDT), failed, mean",
        p.sdt_failed(),
        "s",
        "200 to the INVITE received to timer F of a BYE that nobody answered.",
        "RFC 6076 section 4.5.2",
    );
}

fn rate_rows(rows: &mut Rows, m: &Metrics, seconds: f64) {
    let r = Rates::of(m, seconds);
    let kinds = [
        ("sessions", "Sessions established per second", r.sessions, "RFC 7501 section 3.4.1"),
        (
            "registrations",
            "Registrations per second",
            r.registrations,
            "RFC 7501 section 3.4.2, RFC 7502 section 6.7",
        ),
        ("reregistrations", "Re-registrations per second", r.refreshes, "RFC 7502 section 6.8"),
    ];
    for (key, name, a, source) in kinds {
        if a.attempted == 0 {
            continue;
        }
        let failures = if a.without_failure() {
            "No attempt failed: a rate that the device can handle; the benchmark is the largest such rate."
        } else {
            "Some attempts failed or had not ended, so this is no benchmark in the sense of the RFC."
        };
        rows.add(&format!("{key}.rate"), name, a.rate(), "1/s", Better::Higher).says(
            &format!(
                "{} of {} attempts succeeded in the measured window. {failures}",
                a.succeeded, a.attempted
            ),
            source,
        );
    }
}

fn percentile_rows(rows: &mut Rows, m: &Metrics) {
    let measures = Measure::ALL.into_iter().filter(|m| !m.is_duration());
    let named = measures.map(|x| (x.key().to_owned(), x.text().to_owned(), &m.latency(x).intended));
    let stopwatches = m.custom().stopwatches().iter().map(|(name, p)| {
        let (key, text) = stopwatch(name);
        (key, text, &p.intended)
    });
    for (key, text, h) in named.chain(stopwatches).filter(|(_, _, h)| !h.is_empty()) {
        for (name, percent) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p999", 99.9), ("max", 100.0)] {
            let title = if name == "max" { "largest".to_owned() } else { format!("{percent} %") };
            let value = Some(ms(h.percentile(percent)));
            rows.add(&format!("{key}.{name}"), &format!("{text}: {title}"), value, "ms", Better::Lower).says(
                "Percentile from the intended start, so that waiting for a stalled server counts.",
                OURS,
            );
        }
    }
}

/// Key and text of a stopwatch.
fn stopwatch(name: &str) -> (String, String) {
    (format!("rtd-{name}"), format!("Stopwatch {name} of the scenario"))
}

/// What the generator had no room for: all, and each kind that there was.
fn lost_rows(rows: &mut Rows, lost: Lost) {
    rows.count(
        "drops",
        "Packets or connections that the generator's sockets had no room for",
        lost.all(),
        Better::Lower,
    )
    .says(
        "Of all kinds: messages received, between its workers and to be sent, and TCP connections; whole run.",
        OURS,
    );
    let kinds = [
        ("received", "not read in time", lost.received, "Datagrams that the kernel had and dropped."),
        (
            "crossing",
            "lost between workers",
            lost.crossing,
            "The ring of the worker whose they were was full.",
        ),
        ("unsent", "not sent", lost.unsent, "The kernel's buffer and the runtime's queue were full."),
        (
            "unopened",
            "connections not opened or taken",
            lost.unopened,
            "For want of ports, descriptors or memory.",
        ),
    ];
    for (key, name, n, text) in kinds.into_iter().filter(|(_, _, n, _)| *n > 0) {
        rows.count(&format!("drops.{key}"), &format!("Of these, {name}"), n, Better::Lower).says(text, OURS);
    }
}

fn honesty_rows(rows: &mut Rows, m: &Metrics, health: Health) {
    let late = |p: f64| {
        (!m.punctuality().lateness().is_empty()).then(|| ms(m.punctuality().lateness().percentile(p)))
    };
    rows.add("lateness.p999", "Generator's lateness: 99.9 %", late(99.9), "ms", Better::Lower)
        .says("Scheduled sends: when they went out minus when they were meant to.", OURS);
    rows.add("lateness.max", "Generator's lateness: largest", late(100.0), "ms", Better::Lower)
        .says("As above.", OURS);
    let starts = m.punctuality().starts();
    let late = (!starts.is_empty()).then(|| ms(starts.percentile(99.9)));
    rows.add("lateness.start.p999", "Generator's lateness of starts: 99.9 %", late, "ms", Better::Lower)
        .says("As above, of the first requests of calls and registrations alone.", OURS);
    let queue =
        |p: f64| (!m.punctuality().queue().is_empty()).then(|| m.punctuality().queue().percentile(p) as f64);
    rows.add("queue.p99", "Send queue: 99 % of wakes", queue(99.0), "", Better::Lower).says(
        "Messages whose time had come when a worker woke, sent then; one is on time. What comes in is not counted, \
         nor what the kernel's buffer does not take, which the runtime keeps.",
        OURS,
    );
    rows.count("queue.max", "Longest send queue", m.punctuality().queue().max(), Better::Lower)
        .says("As above, at one worker.", OURS);
    lost_rows(rows, m.all.lost());
    rows.add("cpu", "Generator's processor time, busiest worker", health.cpu_percent, "%", Better::Lower)
        .says("Of one core, in the measured window; what is left to 100 is headroom.", OURS);
    rows.add(
        "waited",
        "Longest a worker was kept waiting for a processor",
        health.waited_percent,
        "%",
        Better::Lower,
    )
    .says("Share of the measured window in which it could have run and other programs did.", OURS);
    rows.add("steal", "Processor time that the host kept", health.steal_percent, "%", Better::Lower).says(
        "Of all processors of a virtual machine, in the measured window: its host ran others meanwhile.",
        OURS,
    );
}

#[cfg(test)]
pub(in crate::report) mod tests;
