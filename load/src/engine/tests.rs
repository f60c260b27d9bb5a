//! Engines against engines, without a socket.

mod aborts;
mod branches;
mod callers;
mod ends;
mod late;
mod limits;
mod open;
mod sessions;
mod sides;
mod silence;
mod stops;

use super::*;
use crate::metrics::{Failure, Ladders, Measure, Metrics, Setup, Side as End};
use crate::population::{Arrivals, RateOptions, Spacing};
use crate::scenario::{Injections, Level, Pause, Run, Scenario, Side, Surroundings, builtin, parse as read};
use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;
use wire::{ListenerId, Transport};

const CALLER: &str = "192.0.2.1:5060";
const CALLEE: &str = "192.0.2.2:5060";

impl Engine {
    fn metrics(&self) -> &Metrics {
        &self.player.recorder.statistics.metrics
    }

    fn ladders(&self) -> &Ladders {
        &self.player.recorder.ladders
    }

    /// Calls under way, and those of them that have been counted as ended.
    fn calls(&self) -> usize {
        self.player.calls.len()
    }

    fn lingering(&self) -> usize {
        self.player.calls.lingering()
    }

    /// Calls under way that began here.
    fn calling(&self) -> usize {
        self.player.starts.under_way()
    }

    fn is_done(&self) -> bool {
        self.player.is_done(&self.settings)
    }

    fn progress(&mut self, now: Time) -> Progress {
        self.player.progress(Moment::new(&self.settings, now))
    }

    fn record(&mut self, now: Time) -> Record {
        self.player.record(Moment::new(&self.settings, now))
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn scenario(text: &str) -> Scenario {
    let injections = Injections::default();
    let around = Surroundings {
        keys: &[],
        injections: &injections,
        read_file: &|_| Err(std::io::ErrorKind::NotFound.into()),
    };
    let text = builtin(text).unwrap_or(text);
    read("test.xml", text.as_bytes(), &around).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn run(remote: SocketAddr) -> Run {
    Run {
        service: "bob".into(),
        remote_host: remote.ip().to_string(),
        remote_ip: remote.ip().to_string(),
        remote_port: remote.port(),
        transport: "UDP",
        media_ip: "192.0.2.1".into(),
        media_port: 6_000,
        pid: 7,
        auth_user: b"alice".to_vec(),
        auth_password: b"secret".to_vec(),
        auth_uri: None,
        users: -1,
        local_ip: None,
        local_port: None,
        version: "test",
    }
}

/// An engine at `local` whose calls go to `remote`.
fn engine(
    local: &str,
    remote: &str,
    scenarios: &[&str],
    change: impl FnOnce(&mut Settings, &mut Plan),
) -> Engine {
    let run = run(address(remote));
    let (mut client, mut server) = (None, None);
    for text in scenarios {
        let mut scenario = scenario(text);
        scenario.bind(&run);
        match scenario.side {
            Side::Client => client = Some(Arc::new(scenario)),
            Side::Server => server = Some(Arc::new(scenario)),
        }
    }
    let mut plan = Plan { rate: 10.0, calls: 20 };
    let mut settings = Settings {
        worker: 0,
        run: Arc::new(run),
        run_id: 0x1234_5678,
        client,
        server,
        addresses: Addresses {
            transport: Transport::Udp,
            remote: address(remote),
            listeners: vec![address(local)],
            own: vec![ListenerId(0)],
            alias: None,
            origin: Origin::Turn,
        },
        conduct: Conduct::default(),
        users: None,
        set: Vec::new(),
        most_calls: 1_000,
        most_callees: 1_000,
        callees: None,
        numbers: (1, 1),
        seed: 11,
        start: Time::from_secs(1),
        wall_origin: 0,
        metrics: Setup { origin: Time::from_secs(1), ..Setup::default() },
        ladders: 5,
        traces: false,
    };
    change(&mut settings, &mut plan);
    let profile = RateOptions { r: plan.rate, ..RateOptions::default() }.profile().unwrap();
    let arrivals = Arrivals::at_rate(profile, Spacing::Even).unwrap();
    let times = settings.client.as_ref().map(|_| arrivals.times(1, 0, 1, Some(plan.calls)));
    Engine::new(settings, Desk::new(Injections::default(), 1, 10), times)
}

struct Plan {
    rate: f64,
    calls: u64,
}

#[test]
fn a_late_wake_finds_a_queue() {
    let (mut client, mut out) = (engine(CALLER, CALLEE, &["uac"], nothing), Outbox::new());
    // Ten calls a second: one at each time on the dot, then the other nineteen, half of them late by a
    // second.
    client.timeout(Time::from_secs(1), &mut out);
    assert_eq!(client.metrics().punctuality().queue().max(), 1);
    client.timeout(Time::from_secs(3), &mut out);
    assert_eq!(
        (client.metrics().punctuality().queue().count(), client.metrics().punctuality().queue().max()),
        (2, 20)
    );
    assert_eq!(out.transmits().len(), 21, "twenty INVITEs, and one of them again");
}

fn nothing(_: &mut Settings, _: &mut Plan) {}

/// Two engines, and what goes between them.
struct Pair {
    now: Time,
    ends: [(SocketAddr, Engine); 2],
    passed: u64,
    /// Whether the n-th message is lost.
    lost: fn(u64) -> bool,
    /// How late the engines are woken.
    late: Duration,
    log: Vec<String>,
    texts: Vec<String>,
}

impl Pair {
    fn new(caller: Engine, callee: Engine) -> Pair {
        Pair {
            now: Time::from_secs(1),
            ends: [(address(CALLER), caller), (address(CALLEE), callee)],
            passed: 0,
            lost: |_| false,
            late: Duration::ZERO,
            log: Vec::new(),
            texts: Vec::new(),
        }
    }

    /// Delivers what is in `out` of the engine `from`, and what follows from it.
    fn deliver(&mut self, from: usize, out: &mut Outbox) {
        let mut waiting: std::collections::VecDeque<(usize, SocketAddr, Vec<u8>)> =
            out.transmits().iter().map(|t| (from, t.flow.remote, out.message(t).to_vec())).collect();
        while let Some((from, to, bytes)) = waiting.pop_front() {
            self.passed += 1;
            if (self.lost)(self.passed) {
                continue;
            }
            let line = bytes.split(|&b| b == b'\r').next().unwrap_or(b"");
            self.log.push(String::from_utf8_lossy(line).into_owned());
            self.texts.push(String::from_utf8_lossy(&bytes).into_owned());
            let source = self.ends[from].0;
            let Some(at) = self.ends.iter().position(|(address, _)| *address == to) else { continue };
            let mut out = Outbox::new();
            self.ends[at]
                .1
                .receive(Arrival::new(self.now, Flow::udp(ListenerId(0), source), &bytes), &mut out);
            waiting.extend(out.transmits().iter().map(|t| (at, t.flow.remote, out.message(t).to_vec())));
        }
    }

    /// Lets time pass until `until`, event by event.
    fn pass(&mut self, until: Time) {
        for _ in 0..1_000_000 {
            let next = self.ends.iter().filter_map(|(_, e)| e.next_deadline()).min();
            let Some(next) = next.map(|at| at.max(self.now) + self.late).filter(|&at| at <= until) else {
                break;
            };
            self.now = next;
            for at in 0..2 {
                let mut out = Outbox::new();
                self.ends[at].1.timeout(self.now, &mut out);
                self.deliver(at, &mut out);
            }
        }
        self.now = until;
    }

    fn caller(&self) -> &Metrics {
        self.ends[0].1.metrics()
    }

    fn ends_of(&self, end: usize, side: End) -> (u64, u64) {
        let counts = &self.ends[end].1.metrics().all.sides[side as usize];
        (counts.succeeded, counts.failures())
    }
}

#[test]
fn calls_run_from_the_first_message_to_the_last() {
    let mut pair =
        Pair::new(engine(CALLER, CALLEE, &["uac"], nothing), engine(CALLEE, CALLER, &["uas"], nothing));
    pair.pass(Time::from_secs(10));
    assert_eq!(pair.ends_of(0, End::Caller), (20, 0));
    assert_eq!(pair.ends_of(1, End::Callee), (20, 0));
    let methods: Vec<&str> = pair.log.iter().take(6).map(|l| l.split(' ').next().unwrap()).collect();
    assert_eq!(methods, ["INVITE", "SIP/2.0", "SIP/2.0", "ACK", "BYE", "SIP/2.0"]);
    assert_eq!(pair.log.len(), 6 * 20, "and nothing twice");
    assert!(pair.ends[0].1.is_done());
    assert_eq!(pair.caller().latency(Measure::Setup).intended.count(), 20);
    assert_eq!(pair.caller().punctuality().lateness().max(), 0);
}

#[test]
fn what_is_lost_is_sent_again() {
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &["uac"], |_, plan| plan.calls = 200),
        engine(CALLEE, CALLER, &["uas"], nothing),
    );
    pair.lost = |n| n % 5 == 0;
    pair.pass(Time::from_secs(120));
    assert_eq!(pair.ends_of(0, End::Caller), (200, 0));
    assert!(pair.caller().all.retransmissions() > 20);
}

/// It stays armed, and wakes the engine too early.
#[test]
fn the_timer_of_a_call_that_has_ended_is_not_that_of_the_next_in_its_place() {
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &["uac"], |_, plan| plan.calls = 2),
        engine(CALLEE, CALLER, &["uas"], nothing),
    );
    // The first call's BYE of 1.0 s would be repeated at 1.5 s; the second call's INVITE of 1.1 s is lost.
    pair.lost = |n| n == 7;
    pair.pass(Time::from_millis(1_599));
    assert_eq!((pair.passed, pair.caller().all.retransmissions()), (7, 0));
    pair.pass(Time::from_millis(1_600));
    assert_eq!(pair.caller().all.retransmissions(), 1);
    pair.pass(Time::from_secs(10));
    assert_eq!((pair.ends_of(0, End::Caller), pair.caller().punctuality().lateness().max()), ((2, 0), 0));
    assert_eq!(pair.ends[0].1.next_deadline(), None, "nobody is woken for nothing for ever");
}

#[test]
fn a_callee_that_is_not_there_fails_the_call_after_the_last_repetition() {
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &["uac"], |_, plan| plan.calls = 1),
        engine(CALLEE, CALLER, &["uas"], nothing),
    );
    pair.lost = |_| true;
    pair.pass(Time::from_secs(30));
    assert_eq!(pair.ends_of(0, End::Caller), (0, 0), "INVITE at 0, 0.5, 1.5, 3.5, 7.5, 15.5 s");
    assert_eq!(pair.passed, 6);
    pair.pass(Time::from_secs(40));
    assert_eq!(pair.ends_of(0, End::Caller), (0, 1));
    let ladder = &pair.ends[0].1.ladders().kept()[0];
    assert_eq!(ladder.why, Failure::Retransmissions.text());
    assert_eq!(ladder.steps.len(), 6, "with what was sent again");
}

#[test]
fn a_late_generator_knows_that_it_was_late() {
    let mut pair =
        Pair::new(engine(CALLER, CALLEE, &["uac"], nothing), engine(CALLEE, CALLER, &["uas"], nothing));
    pair.late = Duration::from_millis(7);
    pair.pass(Time::from_secs(10));
    assert_eq!(pair.ends_of(0, End::Caller), (20, 0));
    assert!(
        (7_000..7_200).contains(&pair.caller().punctuality().lateness().max()),
        "{}",
        pair.caller().punctuality().lateness().max()
    );
    // The caller waited for it, whoever was to blame.
    let setup = pair.caller().latency(Measure::Setup);
    assert!(setup.intended.percentile(50.0) >= 7_000 && setup.sent.percentile(50.0) < 7_000);
}

#[test]
fn a_call_that_waits_for_room_is_counted_from_when_it_was_meant_to_begin() {
    let hold = scenario_with_pause(1_000);
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[&hold], |settings, plan| {
            settings.most_calls = 1;
            plan.calls = 3;
        }),
        engine(CALLEE, CALLER, &["uas"], nothing),
    );
    pair.pass(Time::from_secs(10));
    assert_eq!(pair.ends_of(0, End::Caller), (3, 0));
    // Meant at 0, 0.1 and 0.2 s; begun at 0, 1 and 2 s.
    let late = pair.caller().punctuality().lateness().max();
    assert!((1_790_000..1_830_000).contains(&late), "{late}");
}

fn scenario_with_pause(ms: u32) -> String {
    builtin("uac").unwrap().replace("<pause/>", &format!("<pause milliseconds=\"{ms}\"/>"))
}

const BUSY: &str = r#"<?xml version="1.0" encoding="UTF-8" ?>
<scenario name="busy">
  <recv request="INVITE"/>
  <send retrans="500"><![CDATA[

      SIP/2.0 486 Busy Here
      [last_Via:]
      [last_From:]
      [last_To:];tag=busy
      [last_Call-ID:]
      [last_CSeq:]
      Content-Length: 0

  ]]></send>
  <recv request="ACK"/>
</scenario>"#;

#[test]
fn a_refusal_that_the_scenario_does_not_expect_fails_the_call() {
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &["uac"], |_, plan| plan.calls = 2),
        engine(CALLEE, CALLER, &[BUSY], nothing),
    );
    pair.pass(Time::from_secs(5));
    assert_eq!(pair.ends_of(0, End::Caller), (0, 2));
    let ladder = &pair.ends[0].1.ladders().kept()[0];
    assert!(ladder.why.contains("486 Busy Here to INVITE sip:bob@"), "{}", ladder.why);
    assert_eq!(ladder.steps.len(), 2, "its ACK is sent by nobody's scenario");
}

#[test]
fn both_ends_may_be_in_one_program() {
    let mut pair = Pair::new(
        engine(CALLER, CALLER, &["uac", "uas"], |_, plan| plan.calls = 50),
        engine(CALLEE, CALLER, &["uas"], nothing),
    );
    pair.pass(Time::from_secs(20));
    assert_eq!(pair.ends_of(0, End::Caller), (50, 0));
    assert_eq!(pair.ends_of(0, End::Callee), (50, 0));
}

#[test]
fn the_run_ends_with_the_calls_under_way() {
    let hold = scenario_with_pause(3_000);
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[&hold], |_, plan| plan.calls = 1_000),
        engine(CALLEE, CALLER, &["uas"], nothing),
    );
    pair.pass(Time::from_millis(2_050));
    let mut out = Outbox::new();
    pair.ends[0].1.notice(pair.now, Notice::Quit, &mut out);
    assert!(!pair.ends[0].1.is_done());
    pair.pass(Time::from_secs(10));
    assert!(pair.ends[0].1.is_done());
    assert_eq!(pair.ends_of(0, End::Caller), (11, 0));
}

#[test]
fn a_repeated_2xx_is_acknowledged_again_even_after_the_bye() {
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &["uac"], |_, plan| plan.calls = 1),
        engine(CALLEE, CALLER, &["uas"], nothing),
    );
    // INVITE, 180, 200; then the ACK is lost, the BYE, and the BYE again.
    pair.lost = |n| (4..=6).contains(&n);
    pair.pass(Time::from_secs(20));
    assert_eq!((pair.ends_of(0, End::Caller), pair.ends_of(1, End::Callee)), ((1, 0), (1, 0)));
    let methods: Vec<&str> = pair.log.iter().map(|l| l.split(' ').next().unwrap()).collect();
    assert_eq!(methods.iter().filter(|m| **m == "ACK").count(), 1, "{:?}", pair.log);
}
