//! Did the server pass, did it fail, or does the run say nothing?

use super::counters::{Lost, SideCounts};
use super::events::Measure;
use super::record::Metrics;

/// An upper limit on a percentile of a latency, counted from the intended start.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LatencyLimit {
    /// Of what.
    pub measure: Measure,
    /// Which percentile, 0 to 100.
    pub percentile: f64,
    /// What it may be at most, microseconds.
    pub max_micros: u64,
}

/// What a run must keep. The first group is about the server: a breach is FAIL. The second is about the
/// generator: a breach is VOID, whatever the server did.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// Least share of successful calls (of each side), registrations and transactions, percent. The default
    /// 99.99 is that of the SPEC SIP benchmark of 2011 as the literature reports it.
    pub success_percent: f64,
    /// Latency limits. The default asks that 99 % of session requests show a sign of life within T1
    /// (500 ms, RFC 3261 section 17.1.1.1), after which retransmissions add to the load.
    pub latency: Vec<LatencyLimit>,

    /// Limit of the 99.9th percentile of the lateness of all that is scheduled, and of the starts of calls
    /// among it, microseconds. Default 1 ms.
    pub max_lateness_p999_micros: u64,
    /// Packets and connections that we may have no room for. Default 0.
    pub max_lost: u64,
    /// Calls that may be left out for a cap of the generator. Default 0.
    pub max_shed: u64,
    /// How busy the busiest of our workers may be, percent of a core; `None`: not asked. Default 95.
    pub max_cpu_percent: Option<f64>,
}

impl Default for Rule {
    fn default() -> Rule {
        let srd = LatencyLimit { measure: Measure::SrdSuccess, percentile: 99.0, max_micros: 500_000 };
        Rule {
            success_percent: 99.99,
            latency: vec![srd],
            max_lateness_p999_micros: 1_000,
            max_lost: 0,
            max_shed: 0,
            max_cpu_percent: Some(95.0),
        }
    }
}

/// What the caller knows of the generator and the record does not.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Health {
    /// How busy the busiest worker was in the measured window, percent of a core; `None`: not known.
    pub cpu_percent: Option<f64>,
    /// Share of the measured window for which the worker that waited most was ready to run and had no
    /// processor, percent; `None`: not known.
    pub waited_percent: Option<f64>,
    /// Processor time that the host of this virtual machine gave to others in the measured window, percent of
    /// all; `None`: not known.
    pub steal_percent: Option<f64>,
}

/// What a run says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Everything was kept.
    Pass,
    /// The server broke the rule.
    Fail {
        /// Each breach.
        why: Vec<String>,
    },
    /// The generator was not good enough, or nothing was measured, or what the server would have done was
    /// open when the run ended ([`OPEN`]): no statement about the server.
    Void {
        /// Each reason.
        why: Vec<String>,
    },
    /// The run was stopped before its end: no statement about the server, whatever it showed until then.
    Stopped {
        /// Who stopped it, and what else kept it from a statement.
        why: Vec<String>,
    },
}

/// How a run was stopped from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stop {
    /// "stopped by the user after 10 s".
    pub words: String,
    /// What was missing.
    pub missing: Missing,
}

/// What a run that was stopped had not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// Nothing: it had no planned end, or was in its last calls, and all calls under way ended.
    Nothing,
    /// Calls under way were cut off.
    Calls,
    /// Its plan: more calls were to begin.
    Plan,
}

impl Verdict {
    /// The exit status of the command: 0 pass, 1 fail, 3 void, 4 stopped. (2 is the command line's, for
    /// usage.)
    pub fn exit_code(&self) -> u8 {
        match self {
            Verdict::Pass => 0,
            Verdict::Fail { .. } => 1,
            Verdict::Void { .. } => 3,
            Verdict::Stopped { .. } => 4,
        }
    }

    /// The verdict of a run that was stopped. Without its plan a run is no statement; with calls cut off it
    /// is no pass.
    #[must_use]
    pub fn of_stopped(self, stop: &Stop) -> Verdict {
        let unfinished = match stop.missing {
            Missing::Nothing => false,
            Missing::Calls => self == Verdict::Pass,
            Missing::Plan => true,
        };
        if !unfinished {
            return self;
        }
        let mut why = vec![stop.words.clone()];
        // Breaches by the server are among the checks.
        if let Verdict::Void { why: void } = self {
            why.extend(void);
        }
        Verdict::Stopped { why }
    }

    /// PASS, FAIL, VOID or STOPPED.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Pass => "PASS",
            Verdict::Fail { .. } => "FAIL",
            Verdict::Void { .. } => "VOID",
            Verdict::Stopped { .. } => "STOPPED",
        }
    }

    /// The reasons; none for a pass.
    pub fn why(&self) -> &[String] {
        match self {
            Verdict::Pass => &[],
            Verdict::Fail { why } | Verdict::Void { why } | Verdict::Stopped { why } => why,
        }
    }
}

/// One line of the judgement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    /// What was found.
    pub found: String,
    /// What the rule asks.
    pub limit: String,
    /// Was it kept?
    pub kept: bool,
    /// Is it about the generator (a breach is VOID) and not about the server (FAIL)?
    pub of_generator: bool,
}

/// The name of the check of calls that waited for the other side when the run ended. It alone is of the
/// server, and makes a run VOID that has not failed otherwise.
pub const OPEN: &str = "calls that waited for the other side when the run ended";

/// Judges the measured window. The checks are in the order of the rule; those without data are left out.
pub fn judge(rule: &Rule, m: &Metrics, health: Health) -> (Verdict, Vec<Check>) {
    let mut checks = Vec::new();
    of_generator(rule, m, health, &mut checks);
    of_server(rule, m, &mut checks);
    let breaches = |of: &dyn Fn(&Check) -> bool| -> Vec<String> {
        let broken = checks.iter().filter(|c| !c.kept && of(c));
        broken.map(|c| format!("{}: {}, limit {}", c.name, c.found, c.limit)).collect()
    };
    let mut void = breaches(&|c| c.of_generator);
    let [caller, callee] = &m.measured.sides;
    if caller.begun + callee.begun == 0 {
        void.push("nothing was measured: no call began in the measured window".to_owned());
    } else if caller.ended() + callee.ended() == 0 {
        void.push("nothing was measured: no call that began in the measured window ended".to_owned());
    }
    let fail = breaches(&|c| !c.of_generator && c.name != OPEN);
    let verdict = match (void.is_empty(), fail.is_empty()) {
        (true, false) => Verdict::Fail { why: fail },
        _ => {
            void.extend(breaches(&|c| c.name == OPEN));
            if void.is_empty() { Verdict::Pass } else { Verdict::Void { why: void } }
        }
    };
    (verdict, checks)
}

/// Of fewer times the 99.9th percentile is hardly more than the longest one. So many starts have a check of
/// their own; fewer count among all times.
const MANY: u64 = 5_000;

/// How many times the limit the few may be late that the limit itself does not bind: a hiccup of the machine,
/// and no standstill.
const HICCUP: u64 = 10;

/// Which percentile of so many times is judged, and what it is called. Of few times five may be late, so that
/// one hiccup of the machine, which makes several late, does not decide about a short run; but not more than
/// a fiftieth, and one in any case. None is left to judge of a single time; it has the limit of a hiccup
/// alone.
fn judged(count: u64) -> Option<(f64, String)> {
    match (count / 50).clamp(1, 5) {
        _ if count >= MANY => Some((99.9, "p99.9".to_owned())),
        out if out >= count => None,
        // Half a time less than the share, so that rounding cannot reach the next one.
        out => {
            Some((100.0 * ((count - out) as f64 - 0.5) / count as f64, format!("all but {out} of {count}")))
        }
    }
}

fn of_generator(rule: &Rule, m: &Metrics, health: Health, out: &mut Vec<Check>) {
    let mut check = |name: &str, found: String, limit: String, kept: bool| {
        out.push(Check { name: name.to_owned(), found, limit, kept, of_generator: true });
    };
    let (all, starts) = (m.punctuality().lateness(), m.punctuality().starts());
    let both = [("generator's lateness", all, 1), ("generator's lateness of starts", starts, MANY)];
    for (name, lateness, least) in both {
        let count = lateness.count();
        if count < least {
            continue;
        }
        let (max, mut late) = (rule.max_lateness_p999_micros, false);
        let judged = judged(count);
        if let Some((percent, which)) = &judged {
            let found = lateness.percentile(*percent);
            late = found > max;
            check(&format!("{name}, {which}"), micros(found), micros(max), !late);
        }
        let (longest, hiccup) = (lateness.percentile(100.0), max.saturating_mul(HICCUP));
        let standstill = count < MANY && !late && longest > hiccup;
        if standstill || judged.is_none() {
            check(&format!("{name}, the longest of {count}"), micros(longest), micros(hiccup), !standstill);
        }
    }
    // Over the whole run: a packet lost in warm-up may be the answer that a measured call waits for.
    let lost = m.all.lost();
    let max = rule.max_lost;
    check(
        "packets or connections that the generator's own sockets had no room for",
        told(lost),
        max.to_string(),
        lost.all() <= max,
    );
    let shed = m.measured.shed;
    check(
        "calls left out, for there was no room for them (-l)",
        shed.to_string(),
        rule.max_shed.to_string(),
        shed <= rule.max_shed,
    );
    let refused = m.measured.callees_shed;
    if refused > 0 {
        check(
            "calls that came in and found no room here",
            refused.to_string(),
            rule.max_shed.to_string(),
            refused <= rule.max_shed,
        );
    }
    if let (Some(busy), Some(max)) = (health.cpu_percent, rule.max_cpu_percent) {
        check("processor time of the busiest worker", percent(busy), percent(max), busy <= max);
    }
}

/// How many of each kind.
fn told(lost: Lost) -> String {
    let kinds = [
        (lost.received, "received"),
        (lost.crossing, "between workers"),
        (lost.unsent, "to be sent"),
        (lost.unopened, "connections"),
    ];
    let kinds: Vec<String> =
        kinds.iter().filter(|(n, _)| *n > 0).map(|(n, kind)| format!("{n} {kind}")).collect();
    match kinds.is_empty() {
        true => "0".to_owned(),
        false => format!("{} ({})", lost.all(), kinds.join(", ")),
    }
}

fn of_server(rule: &Rule, m: &Metrics, out: &mut Vec<Check>) {
    let mut success = |name: &str, found: Option<f64>| {
        if let Some(p) = found {
            out.push(Check {
                name: name.to_owned(),
                found: percent(p),
                limit: format!("at least {}", percent(rule.success_percent)),
                kept: p >= rule.success_percent,
                of_generator: false,
            });
        }
    };
    let [caller, callee] = &m.measured.sides;
    success("successful calls", SideCounts::success_percent(caller));
    success("successful calls at the callee", SideCounts::success_percent(callee));
    success("successful registrations", m.measured.registrations_percent());
    if m.measured.registrations_skipped > 0 {
        // A server that is slow to answer is asked less; what it was not asked it has not done.
        success("registrations begun when they were due", m.measured.registrations_begun_percent());
    }
    success("successful transactions", m.measured.transactions_percent());
    if caller.open > 0 {
        out.push(Check {
            name: OPEN.to_owned(),
            found: format!("{} of {}", caller.open, caller.begun),
            limit: "few enough not to decide".to_owned(),
            kept: !caller.is_open(rule.success_percent),
            of_generator: false,
        });
    }
    let own = own_share(rule, m);
    for limit in &rule.latency {
        let (h, is_duration) = (m.latency(limit.measure), limit.measure.is_duration());
        let h = if is_duration { &h.sent } else { &h.intended };
        if h.is_empty() {
            continue;
        }
        let found = h.percentile(limit.percentile);
        let kept = found <= limit.max_micros;
        let of_generator = !kept && !is_duration && found.saturating_sub(own) <= limit.max_micros;
        let whose = if of_generator { ", with the generator's own lateness in it" } else { "" };
        out.push(Check {
            name: format!("{}, p{}{whose}", limit.measure.key(), limit.percentile),
            found: micros(found),
            limit: micros(limit.max_micros),
            kept,
            of_generator,
        });
    }
}

/// How much of a response time, counted from when its request was due, may be the generator's own: of few
/// times some are excused, and they must not be the server's either.
fn own_share(rule: &Rule, m: &Metrics) -> u64 {
    let lateness = m.punctuality().lateness();
    let longest = lateness.percentile(100.0);
    if lateness.count() < MANY && longest > rule.max_lateness_p999_micros { longest } else { 0 }
}

/// A percentage with as many digits as it takes not to round a failure away.
fn percent(p: f64) -> String {
    if p == p.round() { format!("{p:.0} %") } else { format!("{p:.4} %") }
}

fn micros(us: u64) -> String {
    format!("{}.{:03} ms", us / 1_000, us % 1_000)
}

#[cfg(test)]
mod tests {
    use wire::Time;

    use super::*;
    use crate::metrics::{Began, CallEnd, Failure, Registering, Setup, Side, Window};

    fn run(good: u64, bad: u64) -> Metrics {
        let mut m = Metrics::new(&Setup::default());
        let began = Began::at(Time::from_secs(1));
        for i in 0..good + bad {
            m.call_begun(Side::Caller, began);
            m.scheduled_send(began.sent, began.intended);
            let end = if i < good { CallEnd::Success } else { CallEnd::Failed(Failure::Refused) };
            m.call_ended(Time::from_secs(2), Side::Caller, began, end);
        }
        m
    }

    fn verdict(m: &Metrics) -> Verdict {
        judge(&Rule::default(), m, Health::default()).0
    }

    #[test]
    fn the_limit_itself_passes_and_one_more_failure_fails() {
        assert_eq!(verdict(&run(9_999, 1)), Verdict::Pass);
        let v = verdict(&run(9_998, 2));
        assert_eq!(v.exit_code(), 1);
        assert_eq!(v.why(), ["successful calls: 99.9800 %, limit at least 99.9900 %"]);
    }

    #[test]
    fn stopped_run_is_no_pass_when_its_plan_was_not_over() {
        let stop = |missing| Stop { words: "stopped by the user after 10 s".to_owned(), missing };
        let of = |m: &Metrics, missing| verdict(m).of_stopped(&stop(missing));
        for m in [run(100, 0), run(100, 10)] {
            let v = of(&m, Missing::Plan);
            assert_eq!((v.word(), v.exit_code()), ("STOPPED", 4));
            assert_eq!(v.why(), ["stopped by the user after 10 s"]);
            assert_eq!(of(&m, Missing::Nothing), verdict(&m), "it was all there was");
        }
        assert_eq!(of(&run(100, 0), Missing::Calls).word(), "STOPPED", "what was cut off may have failed");
        assert_eq!(of(&run(100, 10), Missing::Calls).word(), "FAIL", "that is known");
        let nothing = of(&Metrics::new(&Setup::default()), Missing::Plan);
        assert_eq!(nothing.why().len(), 2, "{nothing:?}");
        assert!(nothing.why()[1].starts_with("nothing was measured: "));
    }

    #[test]
    fn of_few_starts_one_that_is_late_decides_nothing() {
        let mut m = run(1_000, 0);
        let began = Time::from_secs(1);
        for n in 0..1_000 {
            let late = if n < 2 { 1_500 } else { 0 };
            m.scheduled_start(began + core::time::Duration::from_micros(late), began);
            (0..10).for_each(|_| m.scheduled_send(began, began));
        }
        assert_eq!(verdict(&m), Verdict::Pass);
    }

    #[test]
    fn calls_that_begin_late_are_not_hidden_by_what_is_on_time() {
        let mut m = run(10_000, 0);
        // 1 in 200 begins late, among ten times as many other times that are met.
        let began = Time::from_secs(1);
        for n in 0..10_000 {
            let late = if n % 200 == 0 { 1_500 } else { 0 };
            m.scheduled_start(began + core::time::Duration::from_micros(late), began);
            (0..10).for_each(|_| m.scheduled_send(began, began));
        }
        assert_eq!(verdict(&m).why(), ["generator's lateness of starts, p99.9: 1.500 ms, limit 1.000 ms"]);
    }

    #[test]
    fn lateness_voids_even_a_failed_run() {
        let mut m = run(10, 10);
        let t = Time::from_secs(1);
        (0..2).for_each(|_| m.scheduled_send(Time::from_micros(1_001_500), t));
        let v = verdict(&m);
        assert_eq!((v.word(), v.exit_code()), ("VOID", 3));
        assert_eq!(v.why(), ["generator's lateness, all but 1 of 22: 1.500 ms, limit 1.000 ms"]);
    }

    #[test]
    fn one_hiccup_does_not_void_a_short_run() {
        let t = Time::from_secs(1);
        for (on_time, late, void) in [
            (0, 1, false),
            (1, 1, false),
            (2, 1, false),
            (1, 2, true),
            (48, 2, true),
            (48, 1, false),
            (198, 5, true),
            (198, 4, false),
            (245, 5, false),
            (245, 6, true),
        ] {
            let mut m = run(on_time, 0);
            m.call_begun(Side::Caller, Began::at(t));
            m.call_ended(Time::from_secs(2), Side::Caller, Began::at(t), CallEnd::Success);
            (0..late).for_each(|_| m.scheduled_send(Time::from_micros(1_001_500), t));
            assert_eq!(verdict(&m).word() == "VOID", void, "{late} late, {on_time} not: {:?}", verdict(&m));
        }
        let mut m = run(245, 0);
        (0..6).for_each(|_| m.scheduled_send(Time::from_micros(1_001_500), t));
        assert_eq!(verdict(&m).why(), ["generator's lateness, all but 5 of 251: 1.500 ms, limit 1.000 ms"]);
        let mut m = run(4_990, 0);
        (0..6).for_each(|_| m.scheduled_send(Time::from_micros(1_001_500), t));
        assert_eq!(verdict(&m).word(), "VOID", "6 of 4,996");
        m = run(5_994, 0);
        (0..6).for_each(|_| m.scheduled_send(Time::from_micros(1_001_500), t));
        assert_eq!(verdict(&m), Verdict::Pass, "6 of 6,000");
    }

    #[test]
    fn a_standstill_is_no_hiccup() {
        let t = Time::from_secs(1);
        for (late_ms, void) in [(10, false), (11, true)] {
            for (on_time, late) in [(245, 3), (2, 1), (0, 1)] {
                let mut m = run(on_time, 0);
                m.call_begun(Side::Caller, Began::at(t));
                m.call_ended(Time::from_secs(2), Side::Caller, Began::at(t), CallEnd::Success);
                (0..late).for_each(|_| m.scheduled_send(Time::from_millis(1_000 + late_ms), t));
                assert_eq!(
                    verdict(&m).word() == "VOID",
                    void,
                    "{late_ms} ms of {on_time}: {:?}",
                    verdict(&m)
                );
            }
        }
        let mut m = run(245, 0);
        m.scheduled_send(Time::from_secs(4), t);
        let why = verdict(&m).why().to_vec();
        assert_eq!(why.len(), 1, "{why:?}");
        assert!(why[0].starts_with("generator's lateness, the longest of 246: "), "{why:?}");
    }

    #[test]
    fn the_lateness_that_is_excused_is_not_the_servers() {
        let limit = LatencyLimit { measure: Measure::SrdSuccess, percentile: 99.0, max_micros: 20_000 };
        let rule = Rule { latency: vec![limit], ..Rule::default() };
        let cases = [(0, 20, "PASS"), (0, 25, "FAIL"), (8, 18, "PASS"), (8, 25, "VOID"), (8, 40, "FAIL")];
        for ((late_ms, took_ms, word), others) in
            cases.into_iter().flat_map(|case| [245, 2].map(|others| (case, others)))
        {
            let mut m = run(others, 0);
            let due = Time::from_secs(1);
            let began = Began { intended: due, sent: Time::from_millis(1_000 + late_ms) };
            m.scheduled_send(began.sent, due);
            m.session_requested(began);
            m.session_established(Time::from_millis(1_000 + took_ms), began, None, 200);
            let (v, checks) = judge(&rule, &m, Health::default());
            assert_eq!(v.word(), word, "{late_ms} ms late, {took_ms} ms, {others} others: {checks:?}");
        }
    }

    #[test]
    fn drops_shed_calls_and_a_full_core_void() {
        let mut m = run(10, 0);
        m.lost(Time::ZERO, Lost { received: 1, unopened: 2, ..Lost::default() });
        assert_eq!(verdict(&m).word(), "VOID");
        assert!(
            verdict(&m).why()[0].ends_with(": 3 (1 received, 2 connections), limit 0"),
            "{:?}",
            verdict(&m)
        );
        let mut m = run(10, 0);
        m.call_shed(Time::from_secs(1));
        assert_eq!(verdict(&m).word(), "VOID");
        let mut m = run(10, 0);
        m.callee_shed(Time::from_secs(1));
        assert_eq!(verdict(&m).why(), ["calls that came in and found no room here: 1, limit 0"]);
        let m = run(10, 0);
        let busy = Health { cpu_percent: Some(99.0), ..Health::default() };
        assert_eq!(judge(&Rule::default(), &m, busy).0.word(), "VOID");
        let careless = Rule { max_cpu_percent: None, ..Rule::default() };
        assert_eq!(judge(&careless, &m, busy).0, Verdict::Pass);
    }

    #[test]
    fn calls_that_wait_at_the_end_decide_between_pass_and_void_alone() {
        let began = Began::at(Time::from_secs(1));
        let waits = |m: &mut Metrics| {
            m.call_begun(Side::Caller, began);
            m.call_open(Side::Caller, began);
        };
        let mut m = run(9_999, 0);
        waits(&mut m);
        assert_eq!(verdict(&m), Verdict::Pass, "one may fail");
        waits(&mut m);
        let (v, checks) = judge(&Rule::default(), &m, Health::default());
        assert_eq!((v.word(), v.why().len()), ("VOID", 1));
        assert!(
            v.why()[0].starts_with("calls that waited for the other side when the run ended: 2 of 10001")
        );
        let broken: Vec<_> = checks.iter().filter(|c| !c.kept).collect();
        assert!(matches!(broken[..], [c] if c.name == OPEN && !c.of_generator));
        // Whatever becomes of them, the server was too slow.
        m.session_requested(began);
        m.session_established(Time::from_secs(3), began, None, 200);
        assert_eq!(verdict(&m).why(), ["srd, p99: 2000.000 ms, limit 500.000 ms"]);
        // And whatever the server did, the generator was too late.
        for _ in 0..200 {
            m.scheduled_send(Time::from_secs(3), began.intended);
        }
        assert_eq!((verdict(&m).word(), verdict(&m).why().len()), ("VOID", 2));
    }

    #[test]
    fn nothing_measured_is_void() {
        assert_eq!(verdict(&Metrics::new(&Setup::default())).word(), "VOID");
        let outside = Window { from: Time::from_secs(100), until: Time::from_secs(200) };
        let mut m = Metrics::new(&Setup { window: outside, ..Setup::default() });
        m.call_begun(Side::Caller, Began::at(Time::from_secs(1)));
        assert_eq!(verdict(&m).why(), ["nothing was measured: no call began in the measured window"]);
        m.call_begun(Side::Caller, Began::at(Time::from_secs(101)));
        assert_eq!(verdict(&m).word(), "VOID");
    }

    #[test]
    fn a_slow_server_breaks_the_latency_limit() {
        let mut m = run(100, 0);
        let began = Began::at(Time::from_secs(1));
        m.session_requested(began);
        m.session_established(Time::from_secs(3), began, None, 200);
        let v = verdict(&m);
        assert_eq!(v.why(), ["srd, p99: 2000.000 ms, limit 500.000 ms"]);
        let lenient = Rule { latency: Vec::new(), ..Rule::default() };
        assert_eq!(judge(&lenient, &m, Health::default()).0, Verdict::Pass);
    }

    #[test]
    fn registrations_are_judged_like_calls() {
        let mut m = run(10, 0);
        let began = Began::at(Time::from_secs(1));
        let mut register = |kind, good: u32, bad: u32| {
            for i in 0..good + bad {
                m.registration_begun(began, kind);
                match i < good {
                    true => m.registered(Time::from_secs(2), began, kind),
                    false => m.registration_failed(Time::from_secs(2), began, kind),
                }
            }
            judge(&Rule { latency: Vec::new(), ..Rule::default() }, &m, Health::default()).0
        };
        assert_eq!(register(Registering::First, 5_000, 0), Verdict::Pass);
        assert_eq!(register(Registering::Refresh, 4_999, 1), Verdict::Pass);
        let v = register(Registering::Refresh, 0, 1);
        assert_eq!(v.why(), ["successful registrations: 99.9800 %, limit at least 99.9900 %"]);
    }

    #[test]
    fn registrations_that_a_slow_server_keeps_from_beginning_fail_the_run() {
        let mut m = run(10, 0);
        let began = Began::at(Time::from_secs(1));
        for _ in 0..9_999 {
            m.registration_begun(began, Registering::Refresh);
            m.registered(Time::from_secs(2), began, Registering::Refresh);
        }
        let mut skip = || {
            m.registration_skipped(Time::from_secs(1), Registering::Refresh);
            judge(&Rule { latency: Vec::new(), ..Rule::default() }, &m, Health::default()).0
        };
        assert_eq!(skip(), Verdict::Pass);
        assert_eq!(
            skip().why(),
            ["registrations begun when they were due: 99.9800 %, limit at least 99.9900 %"]
        );
    }

    #[test]
    fn planned_cancels_are_successes() {
        let mut m = run(1, 0);
        let began = Began::at(Time::from_secs(1));
        m.call_begun(Side::Caller, began);
        m.call_ended(Time::from_secs(1), Side::Caller, began, CallEnd::Cancelled);
        assert_eq!(verdict(&m), Verdict::Pass);
    }
}
