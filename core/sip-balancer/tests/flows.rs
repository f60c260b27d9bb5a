//! Call flows at random: whatever is lost, repeated, late or out of order, every counter is the number of
//! records that count, and in the end zero.
//!
//! `FLOWS=1000000 cargo test --release -p sip-balancer --test flows` runs a million of them.

use core::time::Duration;
use sip_balancer::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use wire::Time;

/// A small generator of numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let n = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ (n >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Request {
        call: u64,
        id: u64,
        class: MethodClass,
        inside: bool,
    },
    Ack {
        call: u64,
        id: u64,
    },
    Response {
        call: u64,
        id: u64,
        class: MethodClass,
        status: u16,
    },
    ByCaller {
        call: u64,
    },
    Down(u16),
    Up(u16),
    Unreachable(u16),
    Rest(u16),
    /// Its node says nothing: another one is to have it.
    Silent {
        call: u64,
        id: u64,
    },
    /// A node that had it before says yes first.
    WinBack {
        call: u64,
        id: u64,
        node: u16,
    },
    /// Its way is dead: it is tried again, or refused here.
    Lost {
        call: u64,
        id: u64,
        class: MethodClass,
        inside: bool,
    },
    Remove(u16),
    Add(u16),
}

/// None, or one of three.
fn some_dialog(now: Time) -> u32 {
    (now.as_micros() / 7 % 4) as u32
}

struct Flows {
    random: Random,
    queue: BTreeMap<(u64, u64), Event>,
    order: u64,
}

impl Flows {
    /// Puts an event off by about `micros`; it may be lost, and it may come twice.
    fn send(&mut self, micros: u64, event: Event) {
        if self.random.chance(10) {
            return;
        }
        let copies = 1 + u64::from(self.random.chance(15));
        for _ in 0..copies {
            let late = self.random.below(400_000);
            self.at(micros + late, event);
        }
    }

    fn at(&mut self, micros: u64, event: Event) {
        self.order += 1;
        self.queue.insert((micros, self.order), event);
    }

    /// A request with its retransmissions, and what the node says to it.
    fn transaction(
        &mut self,
        micros: u64,
        call: u64,
        id: u64,
        class: MethodClass,
        inside: bool,
        status: u16,
    ) {
        for wait in [0, 500_000, 1_500_000].into_iter().take(1 + self.random.below(3) as usize) {
            self.send(micros + wait, Event::Request { call, id, class, inside });
        }
        if class == MethodClass::Invite && !inside && self.random.chance(25) {
            self.at(micros + 400_000, Event::Silent { call, id });
            if self.random.chance(50) {
                let (late, node) = (self.random.below(4_000_000), self.random.below(4) as u16);
                self.at(micros + 400_000 + late, Event::WinBack { call, id, node });
            }
        }
        if self.random.chance(10) {
            let late = self.random.below(1_000_000);
            self.at(micros + late, Event::Lost { call, id, class, inside });
        }
        let took = self.random.below(3_000_000);
        if class == MethodClass::Invite && self.random.chance(70) {
            self.send(micros + took / 2, Event::Response { call, id, class, status: 180 });
        }
        if status > 0 {
            self.send(micros + took, Event::Response { call, id, class, status });
        }
    }

    /// One call, from its beginning to whatever end it has.
    fn call(&mut self, micros: u64, call: u64) {
        let id = call << 8;
        let second = 1_000_000;
        let hold = self.random.below(90) * second;
        match self.random.below(12) {
            // An ordinary one, ended by either side, or by nobody.
            0..4 => {
                self.transaction(micros, call, id, MethodClass::Invite, false, 200);
                self.send(micros + second, Event::Ack { call, id: id + 1 });
                match self.random.below(4) {
                    0 => self.send(micros + hold, Event::ByCaller { call }),
                    1 => {}
                    _ => self.transaction(micros + hold, call, id + 2, MethodClass::Bye, true, 200),
                }
            }
            // Given up while it rings: CANCEL and 200 or 487 cross in every way.
            4..6 => {
                let status = if self.random.chance(50) { 200 } else { 487 };
                self.transaction(micros, call, id, MethodClass::Invite, false, status);
                self.transaction(
                    micros + self.random.0 % (3 * second),
                    call,
                    id,
                    MethodClass::Cancel,
                    false,
                    200,
                );
                self.send(micros + 3 * second, Event::Ack { call, id });
                if status == 200 && self.random.chance(70) {
                    self.transaction(micros + hold, call, id + 2, MethodClass::Bye, true, 200);
                }
            }
            // Credentials: a second attempt under the same Call-ID.
            6 => {
                self.transaction(micros, call, id, MethodClass::Invite, false, 407);
                self.send(micros + second, Event::Ack { call, id });
                self.transaction(micros + 4 * second, call, id + 1, MethodClass::Invite, false, 200);
                self.transaction(micros + hold, call, id + 2, MethodClass::Bye, true, 401);
                self.transaction(micros + hold + second, call, id + 3, MethodClass::Bye, true, 200);
            }
            // Refused, or never answered at all.
            7 => {
                let status = [486, 503, 0][self.random.below(3) as usize];
                self.transaction(micros, call, id, MethodClass::Invite, false, status);
            }
            // Within the call: another INVITE, something else that finds it gone.
            8 => {
                self.transaction(micros, call, id, MethodClass::Invite, false, 200);
                self.transaction(micros + hold, call, id + 1, MethodClass::Invite, true, 200);
                self.transaction(micros + hold, call, id + 2, MethodClass::Other, true, 481);
            }
            // A subscription.
            9 => {
                self.transaction(micros, call, id, MethodClass::Subscribe, false, 200);
                self.transaction(micros + hold, call, id + 1, MethodClass::Subscribe, true, 200);
            }
            // A dialog that began before a restart.
            10 => {
                let class = [MethodClass::Bye, MethodClass::Invite][self.random.below(2) as usize];
                let status = [200, 404, 407, 0][self.random.below(4) as usize];
                self.transaction(micros, call, id, class, true, status);
            }
            _ => {
                let class = [MethodClass::Register, MethodClass::Other][self.random.below(2) as usize];
                let status = [200, 401, 0][self.random.below(3) as usize];
                self.transaction(micros, call, id, class, false, status);
            }
        }
    }
}

fn node(at: u16) -> Node {
    Node::new(SocketAddr::new([192, 0, 2, at as u8 + 1].into(), 5060))
}

fn cluster() -> Arc<Cluster> {
    Cluster::new((0..4).map(node).collect(), 1)
}

fn key(call: u64) -> CallKey {
    CallKey(call.wrapping_mul(0x9e37_79b9_7f4a_7c15), call)
}

struct Run {
    dispatcher: Dispatcher,
    cluster: Arc<Cluster>,
    /// Who was given a transaction last.
    given: BTreeMap<(u64, u64, u8), NodeIndex>,
    /// Calls and subscriptions to which a node said yes.
    agreed: BTreeSet<u64>,
    refused: u64,
}

impl Run {
    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Request { call, id, class, inside } => {
                let text = call.to_be_bytes();
                let home = (class == MethodClass::Register && call.is_multiple_of(2)).then_some(call);
                let request = Request {
                    call: key(call),
                    call_id: &text,
                    id,
                    class,
                    inside,
                    token: None,
                    // Some are a stranger's.
                    sealed: !id.is_multiple_of(5),
                    home,
                    large: false,
                    secure: false,
                    bytes: 0,
                    proof: Proof::None,
                    back: None,
                };
                match self.dispatcher.request(now, &request) {
                    Ok(assigned) => {
                        self.given.insert((call, id, class as u8), assigned.node);
                    }
                    Err(_) => self.refused += 1,
                }
            }
            Event::Ack { call, id } => {
                let _ = self.dispatcher.ack(now, key(call), id, None, (false, None));
            }
            Event::Response { call, id, class, status } => {
                // A node answers only what it was given.
                let Some(&node) = self.given.get(&(call, id, class as u8)) else { return };
                if status == 200 && matches!(class, MethodClass::Invite | MethodClass::Subscribe) {
                    self.agreed.insert(call);
                }
                let rest = (status == 503).then_some(Duration::from_secs(3));
                let answer = Answer { status, wait: rest, dialog: some_dialog(now) };
                self.dispatcher.response(now, key(call), id, class, node, &answer);
            }
            Event::ByCaller { call } => {
                self.dispatcher.calls_mut().answered_by_caller(
                    now,
                    key(call),
                    MethodClass::Bye,
                    200,
                    some_dialog(now),
                );
            }
            Event::Down(n) => self.cluster.set_down(NodeIndex(n), Why::ProbeTimeout),
            Event::Up(n) => self.cluster.set_up(NodeIndex(n)),
            Event::Unreachable(n) => self.cluster.failed(now, NodeIndex(n), Why::Unreachable, 1, None),
            Event::Silent { call, id } => {
                if self.dispatcher.silent(now, key(call), id) {
                    self.handle(now, Event::Request { call, id, class: MethodClass::Invite, inside: false });
                }
            }
            Event::WinBack { call, id, node } => {
                if self.dispatcher.win_back(now, key(call), id, NodeIndex(node)).is_some() {
                    self.given.insert((call, id, MethodClass::Invite as u8), NodeIndex(node));
                }
            }
            Event::Lost { call, id, class, inside } => {
                match self.dispatcher.calls().waiting(key(call), id, class) {
                    Some(_) if id % 5 == 0 => {
                        self.dispatcher.calls_mut().abandon(now, key(call), id, class, false)
                    }
                    Some(waiting) if !self.dispatcher.calls_mut().shrink(key(call), id, class) => {
                        self.dispatcher.returned(now, key(call), id, class, waiting.node, id % 2 == 0);
                        self.handle(now, Event::Request { call, id, class, inside });
                    }
                    _ => {}
                }
            }
            Event::Remove(n) => self.cluster.remove(now, NodeIndex(n)),
            Event::Add(n) => assert!(self.cluster.add(now, &node(n)) != Err(NotAdded::Full)),
            Event::Rest(n) => self.cluster.rest(now, NodeIndex(n), Duration::from_secs(2), Why::Overloaded),
        }
    }

    /// All that is due.
    fn pass(&mut self, now: Time) {
        while self.dispatcher.next_deadline().is_some_and(|due| due <= now) {
            self.dispatcher.timeout(now);
        }
    }

    fn check(&self, what: &str) {
        let (kept, counted) = (self.dispatcher.calls().loads(), self.dispatcher.calls().recount());
        assert_eq!(kept, counted, "{what}");
        assert!(self.dispatcher.calls().is_exact(), "{what}");
        for at in self.cluster.indexes() {
            assert_eq!(self.cluster.load(at), counted[usize::from(at.0)], "published, {what}");
        }
    }
}

fn flows(seed: u64, count: u64, algorithm: Algorithm, most: usize) -> Run {
    let mut flows = Flows { random: Random(seed), queue: BTreeMap::new(), order: 0 };
    let begin = 5_000_000;
    for call in 0..count {
        let micros = begin + call * 2_000 + flows.random.below(2_000);
        flows.call(micros, call + 1);
    }
    for _ in 0..count / 50 {
        let (micros, node) = (begin + flows.random.below(count * 2_000 + 1), flows.random.below(4) as u16);
        let event = [
            Event::Down(node),
            Event::Up(node),
            Event::Unreachable(node),
            Event::Rest(node),
            Event::Remove(node),
        ];
        let event = event[flows.random.below(5) as usize];
        flows.at(micros + flows.random.0 % 9_000_000, Event::Add(node));
        flows.at(micros, event);
        flows.at(micros + flows.random.0 % 4_000_000, Event::Up(node));
    }
    // As a probe would, or all of them would soon be out.
    for tick in 0..(count * 2 + 120_000) / 250 {
        (0..4).for_each(|node| flows.at(begin + tick * 250_000, Event::Up(node)));
    }
    let cluster = cluster();
    let rules = Rules {
        session_timeout: Duration::from_secs(300),
        ring_timeout: Duration::from_secs(30),
        ..Rules::default()
    };
    let dispatcher = Dispatcher::new(Arc::clone(&cluster), 0, algorithm, rules, most, seed);
    let mut run = Run { dispatcher, cluster, given: BTreeMap::new(), agreed: BTreeSet::new(), refused: 0 };
    let mut steps = 0u64;
    let mut now = Time::ZERO;
    while let Some(((micros, _), event)) = flows.queue.pop_first() {
        now = Time::from_micros(micros);
        run.pass(now);
        run.handle(now, event);
        steps += 1;
        if steps.is_multiple_of(1_024) || (count < 200 && steps.is_multiple_of(7)) {
            run.check(&format!("seed {seed} step {steps} {event:?}"));
        }
    }
    // A minute later nothing is left but what a node agreed to and nobody ended.
    for _ in 0..14 {
        now = now + Duration::from_secs(5);
        run.pass(now);
    }
    for call in 1..=count {
        assert!(
            !run.dispatcher.calls().knows(key(call)) || run.agreed.contains(&call),
            "seed {seed} call {call}"
        );
    }
    // Long enough for that to be given up, too, and what it leaves to be forgotten.
    for _ in 0..200 {
        now = now + Duration::from_secs(5);
        run.pass(now);
    }
    run
}

fn nothing_is_left(seed: u64, run: &Run) {
    run.check(&format!("seed {seed} at the end"));
    for at in run.cluster.indexes() {
        assert_eq!(run.cluster.load(at), Load::default(), "seed {seed} node {at:?}");
        assert_eq!(run.cluster.held(at), 0, "seed {seed} node {at:?}");
    }
    assert_eq!(run.dispatcher.calls().held(), (0, 0, 0), "seed {seed}");
    assert_eq!(run.dispatcher.next_deadline(), None, "seed {seed}");
}

#[test]
fn every_counter_returns_to_zero() {
    let wanted: u64 = std::env::var("FLOWS").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000);
    let each = 1_000;
    let (mut assigned, mut repeated, mut retried, mut timed_out, mut lost) = (0, 0, 0, 0, 0);
    for seed in 0..wanted.div_ceil(each) {
        let (_, algorithm) = Algorithm::ALL[seed as usize % Algorithm::ALL.len()];
        let run = flows(seed, each, algorithm, 100_000);
        nothing_is_left(seed, &run);
        let events = run.dispatcher.events();
        assert!(events.assigned > each / 2 && events.repeated > 0 && events.timed_out > 0, "{events:?}");
        assert!(events.lost_calls > 0 && events.full == 0, "{events:?}");
        assigned += events.assigned;
        repeated += events.repeated;
        retried += events.retried;
        timed_out += events.timed_out;
        lost += events.lost_calls;
    }
    println!(
        "{wanted} flows: {assigned} transactions, {repeated} repetitions, {retried} given to another node, \
         {timed_out} without an end, {lost} calls without a BYE; nothing left, every counter zero"
    );
}

#[test]
fn many_small_runs_are_looked_at_closely() {
    for seed in 10_000..10_300 {
        let run = flows(seed, 30, Algorithm::Tlwl, 1_000);
        nothing_is_left(seed, &run);
    }
}

#[test]
fn where_there_is_no_room_calls_are_refused_and_nothing_is_left() {
    for seed in 20_000..20_010 {
        let run = flows(seed, 1_000, Algorithm::Tjsq, 50);
        nothing_is_left(seed, &run);
        assert!(run.dispatcher.events().full > 0 && run.refused > 0);
    }
}
